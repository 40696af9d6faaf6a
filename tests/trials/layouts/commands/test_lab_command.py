"""``seatrial lab``: what it refuses, what it plans, and that a killed lab's samples come home."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from pathlib import Path

import pytest

from cli.command import SEATRIAL, seatrial, start
from cli.terminal import Terminal
from seatrial.errors import SpaceError, TargetError
from seatrial.lab.machine import Machine
from seatrial.lab.packages import TOOLS
from seatrial.lab.qemu import Qemu
from seatrial.lab.session import BootError, is_fetched
from seatrial.lab.uml import UserModeLinux
from seatrial.results.store import ResultsFile
from seatrial.study.load import load_study
from seatrial.trials.layouts.commands import lab as lab_run
from seatrial.trials.layouts.commands.lab import (
    GuestResult,
    LabRequest,
    import_killed_runs,
    measure_in_lab,
)

STUDY = """
name = "one-array"
rounds = { min = 20, max = 20 }
[drives]
lab = "2x32M"
[[layout]]
name = "mirror"
level = "raid1"
drives = 2
filesystem = "none"
initial_sync = false
size = "16MiB"
[[workload]]
name = "reads"
kind = "io"
operations = "read"
block_sizes = "4KiB"
seconds = 0.2
"""


@pytest.fixture
def study(tmp_path) -> Path:
    path = tmp_path / "one-array.toml"
    path.write_text(STUDY)
    return path


def test_the_plan_needs_no_lab(study, tmp_path):
    nowhere = {"SEATRIAL_CACHE_DIR": str(tmp_path / "none")}
    ended = seatrial("lab", study, "--plan", "--disks", "4x64M", folder=tmp_path, env=nowhere)
    assert ended.code == 0
    assert "4 disks of 64 MiB in the lab" in ended.out


def test_a_lab_that_is_not_set_up(study, tmp_path):
    nowhere = {"SEATRIAL_CACHE_DIR": str(tmp_path / "none")}
    ended = seatrial("lab", study, folder=tmp_path, env=nowhere)
    assert ended.code == 6
    assert "seatrial lab --setup" in ended.err
    assert sorted(each.name for each in tmp_path.iterdir()) == ["one-array.toml"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("four-kib",), "has no layouts"),
        (("{study}", "--disks", "many"), "6x2G"),
        (("{study}", "--disks", "1x64M"), "drives"),
        (("{study}", "--destroy", "lab-disk-1"), "--destroy does not apply"),
        (("{study}", "--memory", "much"), "--memory"),
        ((), "STUDY"),
    ],
)
def test_what_cannot_be_done_is_reported_before_anything_boots(arguments, words, study, tmp_path):
    named = [each.replace("{study}", str(study)) for each in arguments]
    ended = seatrial("lab", *named, folder=tmp_path)
    assert ended.code == 2
    assert words in ended.err


def test_without_a_results_file_there_is_nothing_to_go_on_with(study, tmp_path):
    ended = seatrial("lab", study, "--resume", folder=tmp_path)
    assert ended.code == 7
    assert "The results file results.seatrial does not exist" in ended.err
    assert [each.name for each in tmp_path.iterdir()] == ["one-array.toml"]


@pytest.mark.parametrize(
    ("kinds", "way_out"),
    [
        (
            [UserModeLinux],
            "qemu-system-x86`); download another machine with `seatrial lab --setup",
        ),
        ([UserModeLinux, Qemu], "Stop other load on this machine"),
    ],
)
def test_where_nothing_boots_each_reason_is_reported_and_what_to_install(
    kinds: list[type[Machine]], way_out: str, study, tmp_path, monkeypatch
):
    def refuse(_request, machine, _folder):
        raise BootError(seen=f"{machine.name} said: no", cause="It cannot", next_step="Try")

    obstacle = classmethod(lambda _cls: "It is not installed (`apt-get install qemu-system-x86`)")
    monkeypatch.setattr(Qemu, "obstacle", obstacle)
    monkeypatch.setattr(lab_run, "_run", refuse)
    request = LabRequest(
        study=load_study(str(study)),
        machines=[kind.__new__(kind) for kind in kinds],
        memory_bytes=1 << 30,
        results=tmp_path / "results.seatrial",
        command="seatrial lab",
        label="",
        is_quiet=True,
    )
    with pytest.raises(TargetError) as caught:
        measure_in_lab(request)
    reported = str(caught.value)
    assert all(f"{kind.name} said: no" in reported for kind in kinds)
    assert way_out in reported
    assert "--loop" in reported


def test_an_error_inside_is_the_same_error_outside():
    end = GuestResult(error=("SpaceError", "It is full.", "Too much.", "Less."))
    with pytest.raises(SpaceError, match="It is full"):
        end.raise_error()


def test_what_a_killed_lab_measured_comes_home_and_is_gone_on_with(
    study, tmp_path, lab_environment
):
    process = start("lab", study, folder=tmp_path, env=dict(lab_environment))
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("Round 3"):
            break
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    process.stderr.close()
    left = list(tmp_path.glob("results.seatrial.lab-*"))
    assert len(left) == 1
    ended = seatrial("clean", folder=tmp_path)
    assert ended.code == 0, ended.out
    results = tmp_path / "results.seatrial"
    (run,) = import_killed_runs(results)
    assert run.status == "interrupted"
    assert not left[0].exists()
    with ResultsFile.open(results, read_only=True) as store:
        samples = store.samples(run.id)
    assert len(samples) >= 2
    assert [sample.round for sample in samples] == list(range(len(samples)))
    assert (run.fingerprint_before.machine.lab or "").startswith("user-mode Linux")

    other = seatrial("lab", study, "--resume", "--disks", "3x32M", folder=tmp_path)
    assert other.code == 2
    assert "number of disks changed" in other.err
    ended = seatrial("lab", study, "--resume", folder=tmp_path, env=dict(lab_environment))
    assert ended.code == 0, ended.err
    with ResultsFile.open(results, read_only=True) as store:
        (whole,) = store.runs()
        after = store.samples(whole.id)
    assert (whole.id, whole.status) == (run.id, "complete")
    assert [sample.started_at for sample in after[: len(samples)]] == [
        sample.started_at for sample in samples
    ]
    assert [sample.round for sample in after] == list(range(20))
    again = seatrial("lab", study, "--resume", folder=tmp_path)
    assert again.code == 2
    assert "The run is complete, or" in again.err


def test_an_interrupted_lab_reports_what_it_measured(study, tmp_path, lab_environment):
    process = start("lab", study, "--json", folder=tmp_path, env=dict(lab_environment))
    log = next_folder(tmp_path) / "results.seatrial-wal"
    wait_for(log.exists)
    sizes_bytes: set[int] = set()
    # Each commit makes the log longer: the schema's, the run's, then that of each sample.
    wait_for(lambda: sizes_bytes.add(log.stat().st_size) or len(sizes_bytes) > 8)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 4, err
    assert '"status": "interrupted"' in out or '"status":"interrupted"' in out
    assert list(tmp_path.glob("results.seatrial.lab-*")) == []


def next_folder(folder: Path) -> Path:
    wait_for(lambda: any(folder.glob("results.seatrial.lab-*")))
    return next(folder.glob("results.seatrial.lab-*"))


def wait_for(condition) -> None:
    give_up_s = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < give_up_s, "it did not come"
        time.sleep(0.05)


@pytest.fixture
def without_apt(tmp_path) -> dict[str, str]:
    """An empty cache, and no program to fill it by."""
    return {"SEATRIAL_CACHE_DIR": str(tmp_path / "none"), "PATH": str(Path(SEATRIAL).parent)}


@pytest.mark.parametrize(
    ("answer", "words"), [("n\r", "packages of the lab are not in"), ("\r", "apt-get")]
)
def test_on_a_terminal_it_asks_whether_to_fetch_what_it_lacks(
    study, tmp_path, without_apt, answer, words
):
    with contextlib.closing(Terminal("lab", study, folder=tmp_path, env=without_apt)) as terminal:
        terminal.wait_for("Download them with apt into")
        assert "40 MB" in terminal.shown
        terminal.type(answer)
        terminal.wait_for(words)
        assert terminal.end() == 6


def test_nobody_is_requested_whether_to_fetch_what_is_there(tmp_path, monkeypatch):
    monkeypatch.setenv("SEATRIAL_CACHE_DIR", str(tmp_path))
    assert not is_fetched("auto")
    record = tmp_path / "lab" / "qemu" / "packages.json"
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({"versions": dict.fromkeys(TOOLS, "1.0")}))
    assert is_fetched("auto")
    assert is_fetched("qemu")
    assert not is_fetched("uml")


@pytest.mark.usefixtures("apt")
def test_a_set_up_with_a_study_goes_on_with_it(study, tmp_path):
    """Here to a kernel that no machine boots: it is a file of one letter."""
    ended = seatrial("lab", "--setup", study, "--machine", "uml", folder=tmp_path)
    assert "is set up in" in ended.err
    assert "Starting" in ended.err
    assert ended.code != 0
