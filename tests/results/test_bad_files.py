"""A results file that cannot be used is named, explained and left as it is."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import zlib
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from results.builders import make_database_sample, make_run, make_sample
from seatrial.errors import NewerResultsFileError, ResultsFileError
from seatrial.results import opening, schema
from seatrial.results.store import ResultsFile

RUN_ID = "20261121-074500-3fa2"
NOBODY = 65534


@pytest.fixture
def path(tmp_path) -> Path:
    return write_file(tmp_path / "results.db")


def write_file(path: Path, samples: int = 6) -> Path:
    with ResultsFile.open(path, create=True) as file:
        file.start_run(make_run())
        for index in range(samples):
            file.add_sample(RUN_ID, make_sample(index=index, slices=20))
    return path


def read_all(path: Path) -> int:
    with ResultsFile.open(path, read_only=True) as file:
        return sum(len(file.samples(run.id)) for run in file.runs())


def assert_refused(path: Path, match: str, **how) -> ResultsFileError:
    """Expect a refusal, for reading and for writing, that leaves every byte where it was."""
    before = path.read_bytes()
    with pytest.raises(ResultsFileError, match=match):
        ResultsFile.open(path, read_only=True)
    with pytest.raises(ResultsFileError, match=match) as caught:
        ResultsFile.open(path, **how)
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    return caught.value


@pytest.mark.parametrize(
    ("column", "content"),
    [
        ("series", b"no zlib stream"),
        ("series", zlib.compress(b"no MessagePack")),
        ("database_json", "{"),
        ("database_json", '{"server": 5}'),
    ],
)
def test_a_damaged_part_of_a_database_is_named(tmp_path, column, content):
    path = tmp_path / "results.db"
    with ResultsFile.open(path, create=True) as file:
        file.start_run(make_run())
        file.add_sample(RUN_ID, make_database_sample())
    with sqlite3.connect(path) as plain:
        plain.execute(f"UPDATE sample SET {column} = ?", (content,))
    plain.close()
    with pytest.raises(ResultsFileError, match="damaged"):
        read_all(path)


def test_a_missing_file_is_not_made(tmp_path):
    path = tmp_path / "absent.db"
    for how in ({"read_only": True}, {}):
        with pytest.raises(ResultsFileError, match="does not exist"):
            ResultsFile.open(path, **how)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_directory_is_not_made(tmp_path):
    with pytest.raises(ResultsFileError, match="does not exist"):
        ResultsFile.open(tmp_path / "absent" / "results.db", create=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("how", [{"read_only": True}, {"create": True}])
def test_a_pipe_or_a_device_is_no_results_file(tmp_path, how):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path(os.devnull)):
        with pytest.raises(ResultsFileError, match="is not a results file"):
            ResultsFile.open(path, **how)


def test_a_link_without_a_file_names_what_it_points_to(tmp_path):
    link, real = tmp_path / "link.db", tmp_path / "none/results.db"
    link.symlink_to(real)
    with pytest.raises(ResultsFileError, match=f"{real} does not exist"):
        ResultsFile.open(link, create=True)
    real.parent.mkdir()
    with ResultsFile.open(link, create=True):
        assert real.exists()


def test_a_directory_is_no_results_file(tmp_path):
    with pytest.raises(ResultsFileError, match="cannot be read: Is a directory"):
        ResultsFile.open(tmp_path, create=True)


@pytest.mark.parametrize("content", [b"", b"x", b"a diary of 2008\n" * 40, bytes(5000)])
def test_another_kind_of_file_is_left_alone(tmp_path, content):
    path = tmp_path / "diary"
    path.write_bytes(content)
    assert_refused(path, "not a results file of Seatrial")


def test_another_kind_of_file_is_not_filled_either(tmp_path):
    path = tmp_path / "diary"
    path.write_bytes(b"a diary of 2008\n")
    assert_refused(path, "not a results file of Seatrial", create=True)


@pytest.mark.parametrize("application_id", [0, 7])
def test_a_database_of_another_program_is_left_alone(tmp_path, application_id):
    path = tmp_path / "other.db"
    other = sqlite3.connect(path)
    other.execute(f"PRAGMA application_id = {application_id}")
    other.execute("CREATE TABLE song (title TEXT)")
    other.commit()
    other.close()
    assert_refused(path, "not a results file of Seatrial", create=True)


def test_an_empty_file_may_be_filled(tmp_path):
    path = tmp_path / "results.db"
    path.touch()
    write_file(path)
    assert read_all(path) == 6


def test_a_newer_schema_is_refused_by_its_number(path):
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {len(schema.MIGRATIONS) + 3}")
    connection.commit()
    connection.close()
    error = assert_refused(path, f"has schema {len(schema.MIGRATIONS) + 3}")
    assert isinstance(error, NewerResultsFileError)


def test_a_cut_off_file_is_refused_and_left_as_it_is(path):
    whole = path.read_bytes()
    for kept in (len(whole) // 2, len(whole) - 4096, 4096, 200):
        path.write_bytes(whole[:kept])
        assert_refused(path, "is damaged: ")


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_random_bytes_never_cause_anything_but_our_own_error(data):
    with tempfile.TemporaryDirectory() as folder:
        path = write_file(Path(folder) / "results.db", samples=3)
        content = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(1, 4))):
            at = data.draw(st.integers(0, len(content) - 1))
            junk = data.draw(st.binary(min_size=1, max_size=200))[: len(content) - at]
            content[at : at + len(junk)] = junk
        path.write_bytes(content)
        with suppress(ResultsFileError):
            assert read_all(path) >= 0
        assert path.read_bytes() == bytes(content)


def test_a_file_with_a_damaged_page_is_never_written_to(path):
    content = bytearray(path.read_bytes())
    for page in range(4096, len(content) - 4096, 4096):
        content[page : page + 64] = b"\xa5" * 64
    path.write_bytes(content)
    with pytest.raises(ResultsFileError, match="is damaged"):
        ResultsFile.open(path)
    assert path.read_bytes() == bytes(content)


def change(path: Path, statement: str, *values) -> None:
    connection = sqlite3.connect(path)
    connection.execute(statement, values)
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    ("statement", "value"),
    [
        ("UPDATE sample SET timeline = ?", b"\0\1\2"),
        ("UPDATE sample SET timeline = ?", zlib.compress(b"\x86 no timeline")),
        ("UPDATE operation SET response = ?", zlib.compress(b"x" * 100)[:-3]),
        ("UPDATE cell SET factors_json = ?", "{"),
        ("UPDATE cell SET threads = ?", "many"),
        ("UPDATE run SET seed = ?", "seven"),
        ("UPDATE run SET study_json = ?", "[]"),
        ("UPDATE sample SET completed = ?", "all"),
    ],
)
def test_rows_that_we_never_wrote_are_called_damage(path, statement, value):
    change(path, statement, value)
    with pytest.raises(ResultsFileError, match="is damaged"):
        read_all(path)


def test_a_missing_table_is_called_damage(path):
    change(path, "DROP TABLE stall")
    with pytest.raises(ResultsFileError, match="is damaged: no such table: stall"):
        read_all(path)


def test_a_file_that_stays_locked_says_so(path, monkeypatch):
    monkeypatch.setattr(opening, "LOCK_TIMEOUT_S", 0.1)
    holder = sqlite3.connect(path, isolation_level=None)
    with ResultsFile.open(path) as file:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(ResultsFileError, match="was locked"):
            file.add_sample(RUN_ID, make_sample(index=99))
        holder.execute("ROLLBACK")
        file.add_sample(RUN_ID, make_sample(index=99))
    holder.close()


def test_a_file_opened_for_reading_cannot_be_changed(path):
    before = path.read_bytes()
    with (
        ResultsFile.open(path, read_only=True) as file,
        pytest.raises(ResultsFileError, match="cannot be written"),
    ):
        file.add_sample(RUN_ID, make_sample(index=99))
    assert path.read_bytes() == before


def test_reading_leaves_nothing_next_to_the_file(path):
    assert read_all(path) == 6
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


@pytest.fixture
def public_path():
    """A results file outside pytest's own folder, which only its owner may enter."""
    with tempfile.TemporaryDirectory() as folder:
        yield write_file(Path(folder) / "results.db")


@contextmanager
def closed(folder: Path, mode: int = 0o555):
    """Let this user, root or not, create nothing in a folder."""
    is_root = os.geteuid() == 0
    folder.chmod(mode)
    if is_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
        folder.chmod(0o755)


def test_a_read_only_folder_can_be_read_but_not_written(public_path):
    with closed(public_path.parent):
        assert read_all(public_path) == 6
        with pytest.raises(ResultsFileError, match="cannot be written") as caught:
            ResultsFile.open(public_path.with_name("new.db"), create=True)
    assert "read-only for this user" in caught.value.cause


def test_a_folder_that_may_not_be_entered_is_explained(public_path):
    refused = pytest.raises(ResultsFileError, match="cannot be read: Permission denied")
    with closed(public_path.parent, 0o600), refused:
        ResultsFile.open(public_path, create=True)


def test_a_file_left_in_wal_mode_is_read_in_a_read_only_folder(public_path):
    change(public_path, "PRAGMA journal_mode = WAL")
    with closed(public_path.parent):
        assert read_all(public_path) == 6


def test_commits_that_were_never_merged_are_not_overlooked_in_a_read_only_folder(public_path):
    with ResultsFile.open(public_path) as file:
        file.add_sample(RUN_ID, make_sample(index=99))
        with closed(public_path.parent):
            try:
                seen = read_all(public_path)
            except ResultsFileError:
                seen = None
        # All of it or an error, but never the older state that the main file alone holds.
        assert seen in (7, None)
