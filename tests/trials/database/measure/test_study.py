"""Whole studies of databases by the command line: killed, resumed, compared."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from cli.command import seatrial, start
from measure.studies import stored, wait_for_samples
from postgres.programs import installed_programs
from seatrial.postgres.server_processes import server_pids

STUDY = """
name = "databases"
rounds = {{ min = {rounds}, max = {rounds} }}
{targets}
[[workload]]
kind = "pgbench"
scale = 1
clients = 2
seconds = 1
clone = "reuse"
scripts = {scripts}
"""


@pytest.fixture(autouse=True)
def _postgres():
    installed_programs()


def write_study(folder: Path, *labels: str, rounds: int, scripts: str) -> Path:
    """A study on targets of these labels; one that ends in -aa is the first directory again."""
    targets = ""
    for label in labels:
        place = folder / label.removesuffix("-aa")
        place.mkdir(exist_ok=True)
        targets += f'[[target]]\nlabel = "{label}"\npath = "{place}"\n'
    path = folder / "study.toml"
    path.write_text(STUDY.format(targets=targets, rounds=rounds, scripts=scripts))
    return path


def data_folders(place: Path) -> list[Path]:
    return [path.parent for path in place.glob(".seatrial-*/*/PG_VERSION")]


def test_a_killed_study_is_resumed_and_leaves_no_server(tmp_path):
    study = write_study(tmp_path, "ssd", rounds=3, scripts='["select-only"]')
    process = start("study", study, folder=tmp_path)
    wait_for_samples(tmp_path, 1)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    _, kept = stored(tmp_path)
    assert 1 <= len(kept) < 3
    loaded_s = kept[0].database.loaded_s
    resumed = seatrial("study", study, "--resume", "--json", folder=tmp_path)
    assert resumed.code == 0, resumed
    run, samples = stored(tmp_path)
    assert (run.status, [sample.round for sample in samples]) == ("complete", [0, 1, 2])
    assert samples[: len(kept)] == kept
    assert samples[-1].database.loaded_s == loaded_s, "what was loaded is not loaded again"
    assert list((tmp_path / "ssd").iterdir()) == []


def test_clean_ends_the_server_of_a_killed_study(tmp_path):
    study = write_study(tmp_path, "ssd", rounds=3, scripts='["select-only"]')
    process = start("study", study, folder=tmp_path)
    wait_for_samples(tmp_path, 1)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    folders = data_folders(tmp_path / "ssd")
    assert folders
    cleaned = seatrial("clean", "--json", folder=tmp_path)
    assert cleaned.code == 0, cleaned
    assert [pid for folder in folders for pid in server_pids(folder)] == []
    assert list((tmp_path / "ssd").iterdir()) == []
    assert list((tmp_path / "state").glob("*.jsonl")) == []


def test_two_targets_and_a_control_are_interleaved_and_compared(tmp_path):
    study = write_study(tmp_path, "a", "b", "a-aa", rounds=2, scripts='["select-only"]')
    reported = seatrial("study", study, "--json", folder=tmp_path, timeout_s=120)
    assert reported.code == 0, reported
    _, samples = stored(tmp_path)
    by_round = [[each.cell.target for each in samples if each.round == number] for number in (0, 1)]
    assert [sorted(labels) for labels in by_round] == [["a", "a-aa", "b"]] * 2
    # How many a second of a shared machine holds is not stated here, only that each was a trial.
    completed = [sample.outcome.completed for sample in samples]
    assert min(completed) > 0, completed
    compared = seatrial("compare", "last", "--json", folder=tmp_path)
    assert compared.code == 0, compared
    (b_against_a,) = compared.document["comparisons"]
    (throughput,) = (each for each in b_against_a["comparands"] if each["figure"] == "tps")
    assert throughput["paired"]
    assert throughput["a"]["unit"] == "tps"
    assert throughput["ratio"]["rounds"] == 2
    assert b_against_a["noise"]["source"] == "pair", "the control publishes what nothing differs by"


def measured_with(folder: Path, setting: str):
    """One short round by options, with a setting of one value."""
    place = folder / "ssd"
    place.mkdir(exist_ok=True)
    usual = ["--scale", 1, "--clients", 2, "--seconds", 1, "--rounds", 1, "--no-commit-truth"]
    script = ["--script", "select-only", "--set", setting]
    return seatrial("db", place, *usual, *script, "--json", folder=folder)


def test_runs_with_different_settings_have_the_same_cells_and_are_compared(tmp_path):
    runs = [measured_with(tmp_path, f"work_mem={size}") for size in ("4MB", "8MB")]
    assert [run.code for run in runs] == [0, 0], runs
    identifiers = [run.document["run"]["id"] for run in runs]
    compared = seatrial("compare", *identifiers, "--json", folder=tmp_path)
    assert compared.code == 0, compared
    (comparison,) = compared.document["comparisons"]
    assert any(each["figure"] == "tps" for each in comparison["comparands"])
    assert "work_mem" in str(comparison)


def test_a_setting_that_the_server_refuses_leaves_no_run(tmp_path):
    reported = measured_with(tmp_path, "shared_buffers=many")
    assert reported.code == 2, reported
    assert list((tmp_path / "ssd").iterdir()) == []
    assert list(tmp_path.glob("*.seatrial*")) == []
