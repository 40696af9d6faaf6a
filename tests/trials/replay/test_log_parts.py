"""A log that is read in parts, wherever they begin, becomes the same trace to the byte."""

from __future__ import annotations

import gzip
import json
import tempfile
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial import _core

FIXTURES = Path(__file__).parents[3] / "crates/ingest/src/log/tests/fixtures"
# Written by PostgreSQL 14 to 18: every format, what is logged of a statement, another language.
REAL = [
    *("14-both.log", "14-durations.csv", "15-ru-durations.log", "15-zh-both.log"),
    *(f"16-both.{form}" for form in ("log", "csv", "json")),
    *(f"17-durations.{form}" for form in ("log", "csv", "json")),
    *(f"18-statements.{form}" for form in ("log", "csv")),
]
WHOLE = 1 << 40


def spec_of(logs: list[Path], output: Path, **more: object) -> str:
    return json.dumps({"logs": [str(log) for log in logs], "output": str(output), **more})


def read(logs: list[Path], folder: Path, **more: object) -> bytes:
    """Read logs on this machine alone; return the trace."""
    output = folder / "whole.trace"
    reading = _core.start_sql_read(spec_of(logs, output, **more))
    assert reading.wait(60)
    reading.result()
    return output.read_bytes()


def joined(logs: list[Path], folder: Path, pieces: list[bytes], **more: object) -> bytes:
    """Join pieces that were read elsewhere; return the trace."""
    output = folder / "joined.trace"
    reading = _core.start_sql_read(spec_of(logs, output, in_parts=True, **more))
    for piece in pieces:
        if not reading.give(piece):
            break
    reading.give_end()
    assert reading.wait(60)
    reading.result()
    return output.read_bytes()


def planned(logs: list[Path], part_bytes: int = WHOLE) -> list[str]:
    return _core.sql_log_parts(spec_of(logs, Path("unused")), part_bytes)


def split(document: str, places: list[float]) -> list[str]:
    """Split a part at shares of its length."""
    part = json.loads(document)
    start, end = part["start_bytes"], part["end_bytes"]
    ends = sorted({start, end, *(start + int(place * (end - start)) for place in places)})
    each = [{**part, "start_bytes": begin, "end_bytes": behind} for begin, behind in pairwise(ends)]
    return [json.dumps(part) for part in each]


def parts_read(documents: list[str], piece_bytes: int = WHOLE) -> list[bytes]:
    return [piece for document in documents for piece in _core.SqlPart(document, piece_bytes)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> dict[str, bytes]:
    """The trace of each real log, read by one thread; several threads write the same."""
    folder = tmp_path_factory.mktemp("whole")
    traces = {name: read([FIXTURES / name], folder, workers=1) for name in REAL}
    assert all(read([FIXTURES / name], folder, workers=3) == traces[name] for name in REAL)
    return traces


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(REAL),
    places=st.lists(st.floats(0, 1), max_size=12),
    piece_bytes=st.integers(200, 1 << 16),
)
def test_any_parts_and_pieces_of_a_real_log_make_the_same_bytes(whole, name, places, piece_bytes):
    log = FIXTURES / name
    with tempfile.TemporaryDirectory() as folder:
        parts = [part for document in planned([log]) for part in split(document, places)]
        assert joined([log], Path(folder), parts_read(parts, piece_bytes)) == whole[name]


@settings(max_examples=20, deadline=None)
@given(cut=st.floats(0.1, 0.9), places=st.lists(st.floats(0, 1), max_size=6))
def test_records_and_sessions_that_cross_files_are_joined_as_well(cut, places):
    text = (FIXTURES / "16-both.csv").read_bytes()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        logs = [folder / "a.csv", folder / "b.csv"]
        behind = int(cut * len(text))
        logs[0].write_bytes(text[:behind])
        logs[1].write_bytes(text[behind:])
        documents = _core.sql_log_parts(spec_of(logs, Path("unused"), format="csv"), WHOLE)
        parts = [part for document in documents for part in split(document, places)]
        found = joined(logs, folder, parts_read(parts), format="csv")
        assert found == read(logs, folder, format="csv", workers=2)


def test_a_packed_log_is_one_part_that_is_handed_on_in_pieces(tmp_path):
    log = tmp_path / "log.csv.gz"
    log.write_bytes(gzip.compress((FIXTURES / "16-both.csv").read_bytes()))
    (document,) = planned([log], 1000)
    pieces = parts_read([document], 3000)
    assert len(pieces) > 3
    assert joined([log], tmp_path, pieces) == read([log], tmp_path)


def test_a_part_that_is_missing_or_comes_late_is_noticed(tmp_path):
    log = FIXTURES / "16-both.csv"
    first, second, third = split(planned([log])[0], [0.3, 0.6])
    for wrong in ([first, third], [second, third], [first, third, second], []):
        with pytest.raises(_core.NativeDefectError, match="missing or out of order"):
            joined([log], tmp_path, parts_read(wrong))
    assert not list(tmp_path.iterdir()), "nothing is left"


def test_a_reading_that_is_stopped_waits_for_no_part(tmp_path):
    log = FIXTURES / "16-both.csv"
    reading = _core.start_sql_read(spec_of([log], tmp_path / "a.trace", in_parts=True))
    reading.give(parts_read(split(planned([log])[0], [0.5]))[0])
    reading.stop()
    assert reading.wait(60)
    with pytest.raises(_core.NativeError, match="stopped"):
        reading.result()
    assert not list(tmp_path.iterdir())


def test_a_log_that_was_cut_off_meanwhile_is_named(tmp_path):
    log = tmp_path / "a.csv"
    log.write_bytes((FIXTURES / "16-both.csv").read_bytes() * 8)
    *_, last = planned([log], 1 << 15)
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size - 100)
    with pytest.raises(_core.NativeError, match=r"a\.csv ends after \d+ bytes, before its end"):
        parts_read([last])


def test_another_file_of_the_same_path_is_not_read(tmp_path):
    log = tmp_path / "a.csv"
    log.write_bytes((FIXTURES / "16-both.csv").read_bytes())
    (document,) = planned([log])
    log.write_bytes((FIXTURES / "16-durations.csv").read_bytes())
    with pytest.raises(_core.NativeError, match=r"a\.csv differs on this host"):
        parts_read([document])


def test_what_has_no_boundaries_is_not_planned(tmp_path):
    sql = tmp_path / "a.sql"
    sql.write_text("select 1;")
    with pytest.raises(_core.NativeError, match=r"a\.sql cannot be read in parts"):
        planned([sql])
