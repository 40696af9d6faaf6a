"""What a user may name as a result, and what is said where nothing fits."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from importers.published import PRINTS
from results.builders import make_run, make_sample
from seatrial.cli.sources import load_source
from seatrial.errors import ResultsFileError, UsageError
from seatrial.results.store import ResultsFile
from seatrial.trials.watch.commands.record import recording_of

from .command import seatrial

RAID5 = PRINTS["raid5-4ssd-1controller"]
OLD, NEW = "20261121-074500-aaaa", "20261122-074500-bbbb"


def store_runs(place: Path) -> Path:
    """A results file with two runs; the newer one, labelled, has two targets."""
    with ResultsFile.open(place, create=True) as store:
        for run_id, label, targets in ((OLD, "", ["trial"]), (NEW, "lab", ["ssd", "hdd"])):
            started_at = 1_795_247_100.0 + (run_id == NEW)
            store.start_run(make_run(run_id, label=label, started_at=started_at))
            for target in targets:
                sample = make_sample()
                key = f"{target}/{sample.cell.key}"
                cell = msgspec.structs.replace(sample.cell, target=target, key=key)
                store.add_sample(run_id, msgspec.structs.replace(sample, cell=cell))
    return place


@pytest.fixture
def results(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return store_runs(tmp_path / "results.seatrial")


@pytest.mark.parametrize(
    ("reference", "run_id"),
    [("last", NEW), (OLD, OLD), ("20261121", OLD), ("lab", NEW), ("results.seatrial", NEW)],
)
def test_a_run_by_its_names_or_its_file(results, reference, run_id):
    source = load_source(reference, results)
    assert (source.run.id, source.name, source.target) == (run_id, reference, "")
    assert source.samples


@pytest.mark.parametrize(
    ("reference", "run_id", "target"),
    [
        ("last:hdd", NEW, "hdd"),
        ("lab:ssd", NEW, "ssd"),
        ("other.seatrial:20261121", OLD, ""),
        ("other.seatrial:lab:hdd", NEW, "hdd"),
    ],
)
def test_a_run_of_a_file_and_a_target_of_a_run(results, reference, run_id, target):
    store_runs(results.parent / "other.seatrial")
    source = load_source(reference, results)
    assert (source.run.id, source.target) == (run_id, target)
    assert not target or {sample.cell.target for sample in source.samples} == {target}


def test_a_foreign_file_needs_no_results_file(tmp_path):
    source = load_source(str(RAID5), tmp_path / "absent.seatrial")
    assert source.run.study["imported"]["format"] == "bm-flash"
    assert len(source.samples) == 81


def test_a_file_goes_before_a_run_of_the_same_name(results):
    Path("lab").write_text("size,threads,iops\n4096,1,7\n", encoding="utf-8")
    assert load_source("lab", results).samples[0].completed_per_s == 7


@pytest.mark.parametrize(
    ("reference", "named"),
    [
        ("nothing", ["no file 'nothing'", "holds no run", "seatrial list"]),
        ("last:nvme", ["no target 'nvme'", "'ssd', 'hdd'"]),
        ("2026112", ["2 runs", "begin with"]),
        ("results.seatrial:nothing", ["results.seatrial:nothing"]),
        ("", ["no file ''"]),
        (":", ["no file ':'"]),
        ("x" * 5000, ["no file"]),
    ],
)
def test_what_fits_nothing_is_said_with_what_would(results, reference, named):
    with pytest.raises(UsageError) as caught:
        load_source(reference, results)
    assert all(part in str(caught.value) for part in named)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"\x7fELF\x00\x01", "binary"),
        ("\ufeffsize".encode("utf-16"), "binary"),
        (b"Dear reader,\n\nthe drive is fast.\n", "fio JSON or JSON+"),
    ],
)
def test_a_file_that_is_no_result_is_refused_by_what_it_is(results, content, named):
    Path("odd").write_bytes(content)
    with pytest.raises(UsageError, match=named) as caught:
        load_source("odd", results)
    assert caught.value.exit_code == 2


def test_a_folder_does_not_hide_a_run_of_its_name(results):
    Path("lab").mkdir()
    assert [load_source(each, results).run.id for each in ("lab", "lab:ssd")] == [NEW, NEW]
    with pytest.raises(UsageError, match="The run lab is not a recording"):
        recording_of("lab", results)


def test_a_folder_and_a_damaged_results_file_are_named(results):
    Path("folder").mkdir()
    with pytest.raises(UsageError, match="folder"):
        load_source("folder", results)
    Path("cut.seatrial").write_bytes(results.read_bytes()[:3000])
    with pytest.raises(ResultsFileError):
        load_source("cut.seatrial", results)
    assert Path("cut.seatrial").stat().st_size == 3000


def test_without_a_results_file_it_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="no results file"):
        load_source("last", tmp_path / "results.seatrial")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["audit", "compare"])
def test_the_help_says_that_a_file_goes_before_a_label(tmp_path, name):
    reported = " ".join(seatrial(name, "--help", folder=tmp_path).out.split())
    assert "An existing file takes precedence over a label." in reported
