"""Damaged files give a sentence with a next step, never a traceback."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from long import trials
from seatrial.cli.sources import is_results_file
from seatrial.errors import UsageError
from seatrial.findings.summary import summarise
from seatrial.importers import read_jobs, read_results
from seatrial.importers.toml_text import toml_text
from seatrial.results.store import ResultsFile
from seatrial.study.load import parse_study, study_from_mapping

from .fio_runs import direction, document, job
from .published import PRINTS, TABLE

FIO = json.dumps(
    document(
        job("a", reads=9, options={"numjobs": "2"}),
        job("b", 1, read=direction(7, bins={"98048": 7}, percentile={"50.000000": 98048})),
        job("c", 2, reads=0, writes=3, options={"rw": "randwrite", "fsync": "1"}),
    ),
    indent=1,
)
TEXTS = {
    "fio": FIO,
    "bm-flash": PRINTS["raid5-4ssd-1controller"].read_text(encoding="utf-8"),
    "csv": TABLE.read_text(encoding="utf-8"),
    "matrix": "size,1,10\n4K,100,200\n8K,50,\n",
    "pgbench": "".join(
        f"{place % 3} {place // 3} {900 + place} 0 1795219200 {place * 9} 7\n"
        for place in range(1, 40)
    ),
    "log": "".join(f"{place * 100}, {900 + place}, {place % 2}, 0, 0\n" for place in range(1, 40)),
}
# A failing case is small enough as it is; shrinking it would take minutes.
QUICK = {
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "phases": [Phase.explicit, Phase.reuse, Phase.generate],
}
OUTLIER = st.sampled_from(
    ["", "-1", "1e999", "NaN", "x", "[", "{", '"', "|", ",", "\n", "9" * 40, "null", "true", "é"]
)


def read_or_refuse(place: Path) -> None:
    """Read and sum up a file; the one error that it may raise is that of exit code 2."""
    try:
        imported = read_results(place)
    except UsageError:
        return
    assert imported.samples
    summarise(imported.run, imported.samples)
    keys = [(sample.cell.key, sample.round) for sample in imported.samples]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("name", TEXTS)
@given(data=st.data())
@settings(max_examples=trials(12, 100), **QUICK)
def test_a_truncated_or_edited_file_is_read_or_refused(tmp_path, name, data):
    text = TEXTS[name]
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        upto = data.draw(st.integers(at, min(len(text), at + 12)))
        text = text[:at] + data.draw(OUTLIER) + text[upto:]
    if data.draw(st.booleans()):
        text = text[: data.draw(st.integers(0, len(text)))]
    place = tmp_path / "odd_iops.1.log"
    place.write_text(text, encoding="utf-8")
    read_or_refuse(place)


@given(data=st.data())
@settings(max_examples=80, **QUICK)
def test_any_value_of_a_json_may_be_anything(tmp_path, data):
    content = json.loads(FIO)
    part: object = content
    while isinstance(part, dict | list) and part:
        key = data.draw(
            st.sampled_from(sorted(part) if isinstance(part, dict) else range(len(part)))
        )
        if not isinstance(part[key], dict | list) or not part[key] or data.draw(st.booleans()):
            part[key] = data.draw(
                st.none() | st.integers(-9, 2**65) | st.text(max_size=5) | st.just([]) | st.just({})
            )
            break
        part = part[key]
    place = tmp_path / "odd.json"
    place.write_text(json.dumps(content), encoding="utf-8")
    read_or_refuse(place)


JOBS = """[global]
rw=randrw
bs=4k
size=64m
ioengine=libaio
[a]
iodepth=8
rate_iops=500
bssplit=4k/60:8k/40
[b]
stonewall
rw=write:8k
sync=dsync
runtime=30s
offset=1m
filename=x
"""


@given(data=st.data())
@settings(max_examples=80, **QUICK)
def test_a_job_file_becomes_a_study_or_is_refused(tmp_path, data):
    text = JOBS
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        upto = data.draw(st.integers(at, min(len(text), at + 8)))
        text = (
            text[:at]
            + data.draw(OUTLIER | st.sampled_from(["=", "[b]", "${X}", "%"]))
            + text[upto:]
        )
    place = tmp_path / "odd.fio"
    place.write_text(text, encoding="utf-8")
    try:
        jobs = read_jobs(place)
        if jobs is not None:
            study = study_from_mapping(jobs.mapping, "odd.fio")
            assert parse_study(toml_text(jobs.mapping), "printed") == study
    except UsageError:
        return


@given(content=st.binary(max_size=300))
@settings(max_examples=25, **QUICK)
def test_any_bytes_are_refused_in_a_sentence(tmp_path, content):
    place = tmp_path / "odd.bin"
    place.write_bytes(content)
    read_or_refuse(place)


def test_deep_nesting_is_no_crash(tmp_path):
    place = tmp_path / "deep.json"
    place.write_text('{"fio version": ' + "[" * 100_000, encoding="utf-8")
    with pytest.raises(UsageError):
        read_results(place)


@pytest.mark.parametrize("name", TEXTS)
def test_what_was_read_can_be_stored_and_comes_back(tmp_path, name):
    place = tmp_path / "result_iops.1.log"
    place.write_text(TEXTS[name], encoding="utf-8")
    imported = read_results(place)
    with ResultsFile.open(tmp_path / "results.seatrial", create=True) as store:
        store.start_run(imported.run)
        for sample in imported.samples:
            store.add_sample(imported.run.id, sample)
        back = store.samples(imported.run.id)
        assert store.run(imported.run.id) == imported.run
    assert [sample.cell for sample in back] == [sample.cell for sample in imported.samples]
    assert [s.completed_per_s for s in back] == [s.completed_per_s for s in imported.samples]


def test_a_device_is_named_and_not_read():
    with pytest.raises(UsageError, match=r"/dev/zero is a device\. .*seatrial io /dev/zero"):
        read_results(Path("/dev/zero"))


def test_what_is_larger_than_a_result_is_not_read(tmp_path):
    place = tmp_path / "image"
    with place.open("wb") as file:
        file.truncate((1 << 30) + 1)
    with pytest.raises(UsageError, match="larger than 1 GiB"):
        read_results(place)


def test_a_pipe_is_read(tmp_path):
    place = tmp_path / "pipe"
    os.mkfifo(place)
    with ThreadPoolExecutor(1) as pool:
        table = "size,threads,iops\n4096,1,100\n"
        writing = pool.submit(place.write_text, table, encoding="utf-8")
        # The command asks these first; a pipe can be read only once.
        assert not is_results_file(place)
        assert read_jobs(place) is None
        with pytest.raises(TimeoutError):  # else reading it once more would last for ever
            writing.result(0.2)
        assert len(read_results(place).samples) == 1
