"""``seatrial.open``: typed objects that draw themselves, and arrays."""

from __future__ import annotations

import resource
import subprocess
import sys

import msgspec
import numpy as np
import pytest

import seatrial
from results.builders import make_cell, make_database_sample, make_record, make_run, make_sample
from seatrial._core import Histogram
from seatrial.errors import ResultsFileError, UsageError
from seatrial.results.model import Slice, Timeline
from seatrial.results.store import ResultsFile

RUN_ID = "20261121-074500-3fa2"
HOSTILE = "<script>alert('x')</script> & \"y\""
IMPORT_CPU_S_MAX = 0.12


@pytest.fixture
def path(tmp_path):
    place = tmp_path / "results.seatrial"
    with ResultsFile.open(place, create=True) as file:
        file.start_run(make_run("older", started_at=1.0, label="before"))
        file.start_run(make_run(label=HOSTILE))
        for index in range(3):
            file.add_sample(RUN_ID, make_sample(index=index, slices=5 + index))
        file.add_sample(RUN_ID, make_sample(make_cell("write"), 0))
        file.finish_run(RUN_ID, "complete", 1_795_247_200.0, {})
    return place


def test_runs_are_found_as_the_results_file_finds_them(path):
    results = seatrial.open(path)
    assert [run.id for run in results.runs] == [RUN_ID, "older"]
    assert results.run("last").id == results.run().id == RUN_ID
    assert results.run("before").id == "older"
    with pytest.raises(UsageError):
        results.run("absent")


def test_a_file_that_cannot_be_read_is_said_at_once(tmp_path):
    with pytest.raises(ResultsFileError, match="does not exist"):
        seatrial.open(tmp_path / "absent.seatrial")
    assert list(tmp_path.iterdir()) == []


def test_samples_are_those_of_the_file(path):
    samples = seatrial.open(str(path)).run().samples
    with ResultsFile.open(path, read_only=True) as file:
        stored = file.samples(RUN_ID)
    assert [msgspec.to_builtins(sample) for sample in samples] == [
        msgspec.to_builtins(sample) for sample in stored
    ]
    assert samples[0].completed_per_s == stored[0].completed_per_s


def test_buckets_are_the_histogram_as_arrays(path):
    sample = seatrial.open(path).run().samples[1]
    buckets = sample.buckets("read")
    lower, upper, counts = sample.operations["read"].response_histogram().buckets()
    assert buckets.lower_ns.tolist() == lower
    assert buckets.upper_ns.tolist() == upper
    assert buckets.counts.tolist() == counts
    assert buckets.counts.sum() == sample.outcome.completed
    assert {array.dtype for array in buckets} == {np.dtype(np.int64)}


def test_a_timeline_shows_the_slices_in_which_nothing_completed(tmp_path):
    response = Histogram.of([1_000_000] * 9 + [5_000_000]).encode()
    slices = [
        Slice(index=index, operation=kind, completed=10, transferred_bytes=80, response=response)
        for index, kind in ((0, "read"), (2, "write"), (3, "read"))
    ]
    sample = make_sample()
    timeline = Timeline(slice_ns=100_000_000, slices=slices)
    frozen = msgspec.structs.replace(
        sample,
        timeline=timeline,
        duration_s=0.65,
        operations=sample.operations | {"write": sample.operations["read"]},
    )
    path = tmp_path / "results.seatrial"
    with ResultsFile.open(path, create=True) as file:
        file.start_run(make_run())
        file.add_sample(RUN_ID, frozen)
    arrays = seatrial.open(path).run().samples[0].timeline_arrays("read")
    np.testing.assert_allclose(arrays.t_s, [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    assert arrays.completed.tolist() == [10, 0, 0, 10, 0, 0, 0]
    assert arrays.transferred_bytes.tolist() == [80, 0, 0, 80, 0, 0, 0]
    assert np.isnan(arrays.p50_ns).tolist() == [False, True, True, False, True, True, True]
    np.testing.assert_allclose(arrays.p50_ns[[0, 3]], 1_000_000, rtol=0.008)
    np.testing.assert_allclose(arrays.p99_ns[[0, 3]], 5_000_000, rtol=0.008)


def test_what_another_tool_does_not_record_is_not_zero(tmp_path):
    none = Histogram.of([]).encode()
    slices = [Slice(index=0, operation="read", completed=9, transferred_bytes=72, response=none)]
    timeline = Timeline(slice_ns=100_000_000, slices=slices)
    path = tmp_path / "results.seatrial"
    with ResultsFile.open(path, create=True) as file:
        file.start_run(make_run())
        file.add_sample(
            RUN_ID,
            msgspec.structs.replace(make_sample(), timeline=timeline, engine="imported", stalls=[]),
        )
    sample = seatrial.open(path).run().samples[0]
    arrays = sample.timeline_arrays("read")
    assert arrays.completed[0] == 9
    assert np.isnan(arrays.p50_ns).all()
    assert np.isnan(arrays.p99_ns).all()
    assert sample._repr_html_().count("–") == 1


def test_a_series_is_arrays_with_gaps_as_nan(tmp_path):
    path = tmp_path / "results.seatrial"
    with ResultsFile.open(path, create=True) as file:
        file.start_run(make_run())
        file.add_sample(RUN_ID, make_database_sample())
    sample = seatrial.open(path).run().samples[0]
    arrays = sample.series_arrays()
    assert arrays.t_s.tolist() == [0, 1, 2, 3, 4]
    assert set(arrays.columns) == {"cpu_user_share", "wal_bytes_per_s", "device_flush_per_s"}
    assert np.isnan(arrays.columns["device_flush_per_s"]).tolist() == [True, *[False] * 4]
    np.testing.assert_allclose(arrays.columns["cpu_user_share"], [0, 0.1, 0.2, 0.3, 0.4])
    assert sample.database == make_record()
    assert "<table>" in sample._repr_html_()


def test_a_sample_without_a_series_says_so(path):
    with pytest.raises(KeyError, match="only database samples have one"):
        seatrial.open(path).run().samples[0].series_arrays()


def test_a_kind_of_request_that_was_not_made_is_named(path):
    sample = seatrial.open(path).run().samples[0]
    for ask in (sample.buckets, sample.timeline_arrays):
        with pytest.raises(KeyError, match="no write requests; available: read"):
            ask("write")


def test_summary_and_findings_come_from_the_analysis(path):
    run = seatrial.open(path).run()
    assert [part.completed for part in run.summary.cells] == [20 + 24 + 28, 20]
    assert run.summary.verdict
    assert run.findings == run.summary.findings


def test_everything_draws_itself_and_escapes_what_it_shows(path):
    results = seatrial.open(path)
    run = results.run()
    shown = [
        results, results.runs, run, run.samples, run.samples[0], run.summary, run.summary.cells,
        run.summary.cells[0], run.findings, *run.findings,
    ]  # fmt: skip
    pages = [each._repr_html_() for each in shown]
    assert all("<table>" in page for page in pages)
    assert all("<script" not in page for page in pages)
    assert "&lt;script&gt;" in results._repr_html_()


def test_the_file_is_free_between_questions(path):
    run = seatrial.open(path).run()
    assert len(run.samples) == 4
    with ResultsFile.open(path) as file:
        file.add_sample(RUN_ID, make_sample(index=3))
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    assert len(seatrial.open(path).run().samples) == 5


def test_import_is_light():
    """A whole start of Python with ``import seatrial``, which brings in no numpy."""
    code = "import seatrial, sys; sys.exit('numpy' in sys.modules or 'msgspec' in sys.modules)"
    # The least of several starts: a busy machine makes any single one dearer.
    assert min(cpu_s([sys.executable, "-c", code]) for _ in range(5)) < IMPORT_CPU_S_MAX


def cpu_s(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
