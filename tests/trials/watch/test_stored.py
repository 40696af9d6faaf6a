"""A recording as a run: all requests are accounted for, and every command works on it."""

from __future__ import annotations

import re
from pathlib import Path
from unittest.mock import patch

import msgspec
import numpy as np
import pytest

from cli.command import seatrial
from report.json_schema import assert_published
from seatrial.errors import UsageError
from seatrial.results.model import origin_of
from seatrial.results.store import ResultsFile
from seatrial.trials.watch.recording import read, read_about
from seatrial.trials.watch.stored import SLICE_NS, run_of

TICKS_PER_S = 10_000_000
MSR_LINE = "128166372003061629,hm,0,Read,383496192,32768,413\n"
READS, WRITES = 3000, 1000


def recorded(folder: Path, name: str, seconds: float, latency_us: int) -> Path:
    """A recording of reads of 8 KiB and writes of 4 KiB at an even pace."""
    count = READS + WRITES
    lines = []
    for place in range(count):
        at = 128166372000000000 + int(place / count * seconds * TICKS_PER_S)
        is_read = place % 4
        words = ("Read", 8192) if is_read else ("Write", 4096)
        latency_ticks = (latency_us + place % 50) * 10
        lines.append(f"{at},db,0,{words[0]},{place * 8192},{words[1]},{latency_ticks}\n")
    (folder / f"{name}.csv").write_text("".join(lines))
    words = ("trace", "import", f"{name}.csv", "--format", "msr", "-o", f"{name}.rec")
    imported = seatrial(*words, folder=folder)
    assert imported.code == 0, imported
    return folder / f"{name}.rec"


def test_each_operation_of_each_device_is_a_sample_that_has_all_its_requests(tmp_path):
    path = recorded(tmp_path, "a", 4.0, 200)
    run, samples = run_of(path)
    whole = read(path)
    assert [each.cell.operation for each in samples] == ["read", "write"]
    assert [each.outcome.completed for each in samples] == [READS, WRITES]
    for code, sample in enumerate(samples):
        own = whole.operation == code
        result = sample.operations[sample.cell.operation]
        times_ns = result.response_histogram()
        expected_ns = float(np.percentile(whole.device_ns[own], 50))
        assert times_ns.percentile_ns(50) == pytest.approx(expected_ns, rel=0.01)
        assert result.transferred_bytes == whole.length_bytes[own].sum()
        slices = sample.timeline.slices
        assert sample.timeline.slice_ns == SLICE_NS
        assert sum(each.completed for each in slices) == sample.outcome.completed
        assert len(slices) == pytest.approx(40, abs=1)
        assert sample.duration_s == whole.about.seconds
    assert run.started_at == whole.about.began_at_s
    assert run_of(path)[0].id == run.id


def test_a_long_recording_has_longer_slices(tmp_path):
    _, samples = run_of(recorded(tmp_path, "a", 500.0, 200))
    assert samples[0].timeline.slice_ns == 2 * SLICE_NS
    assert sum(each.completed for each in samples[0].timeline.slices) == READS


def test_two_recordings_are_compared_shown_and_exported(tmp_path):
    before, after = (
        run_of(recorded(tmp_path, name, 4.0, latency_us))[0].id
        for name, latency_us in (("before", 400), ("after", 100))
    )
    compared = seatrial("compare", before, after, "--tables", folder=tmp_path)
    assert compared.code == 0, compared
    assert "not the most" in " ".join(compared.out.split())
    assert re.search(r"watch: read +read p50 .* 0\.2\dx", compared.out), compared.out
    shown = seatrial("show", after, "--tables", folder=tmp_path)
    assert "Watched requests (watch)" in shown.out, shown
    assert re.search(r"read p99 +150 µs .* at 750 requests/s", shown.out), shown.out
    assert "thread" not in shown.out
    assert "watch," not in shown.out
    document = seatrial("show", after, "--json", folder=tmp_path).document
    assert_published(document)
    exported = seatrial("export", after, "--format", "csv", folder=tmp_path)
    assert exported.out.count("\n") >= 3, exported
    page = seatrial("report", after, "--output", "page.html", folder=tmp_path)
    assert page.code == 0, page
    assert "Watched requests" in (tmp_path / "page.html").read_text()


def test_an_import_is_stored_once_under_its_label_and_named(tmp_path):
    (tmp_path / "a.csv").write_text(f"{MSR_LINE}" * 9)
    words = ("trace", "import", "a.csv", "-o", "a.rec", "--label", "web")
    first = seatrial(*words, folder=tmp_path)
    assert "Stored as run 20070222-170000-" in first.out, first
    assert "Stored already" in seatrial(*words, "--force", folder=tmp_path).out
    with ResultsFile.open(tmp_path / "results.seatrial") as results:
        assert [(each.label, each.command) for each in results.runs()] == [
            ("web", "seatrial trace import a.rec")
        ]


def test_a_trace_without_a_date_has_that_of_its_file(tmp_path):
    path = recorded(tmp_path, "a", 4.0, 200)
    about = read_about(path)
    undated = msgspec.structs.replace(about, began_at_s=0.0)
    with patch("seatrial.trials.watch.stored.read_about", return_value=undated):
        run, samples = run_of(path)
    origin = origin_of(run)
    assert origin is not None
    assert not origin.is_dated
    assert "contains no date" in " ".join(origin.notes)
    assert run.started_at == samples[0].started_at == path.stat().st_mtime


def test_without_latencies_there_is_no_run(tmp_path):
    (tmp_path / "a.csv").write_text("0,0,R,0,4096\n")
    lines = "".join(f"1,R,{place * 4096},4096,{place}\n" for place in range(9))
    (tmp_path / "a.csv").write_text(lines)
    words = ("trace", "import", "a.csv", "--format", "alibaba", "-o", "a.rec")
    imported = seatrial(*words, folder=tmp_path)
    assert imported.code == 0, imported
    assert "tored" not in imported.out
    assert not (tmp_path / "results.seatrial").exists()
    with pytest.raises(UsageError, match="has no latencies"):
        run_of(tmp_path / "a.rec")
    refused = seatrial("trace", "store", "a.rec", folder=tmp_path)
    assert (refused.code, "has no latencies" in refused.err) == (2, True), refused
