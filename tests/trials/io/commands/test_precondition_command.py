"""``seatrial precondition``: the cost before, the guard, what is left after; on real targets."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from cli.command import ended, seatrial, start
from report.json_schema import assert_published
from seatrial.results.model import Run, Sample
from seatrial.results.store import ResultsFile
from seatrial.units import MIB

QUICK = ("--seconds", "0.2", "--rounds", "5")


@pytest.fixture
def user_file(tmp_path) -> Path:
    """A file that holds somebody's data."""
    path = tmp_path / "precious.dat"
    path.write_bytes(b"mine" * (4 * MIB))
    return path


@pytest.fixture
def loop(tmp_path):
    """A loop device over an image that is full of data; detached again."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to attach a loop device")
    if not Path("/dev/loop-control").exists() or shutil.which("losetup") is None:
        pytest.skip("needs the kernel's loop devices and losetup")
    image = tmp_path / "disk.img"
    image.write_bytes(b"\xa5" * (16 * MIB))
    attach = ["losetup", "--find", "--show", str(image)]
    device = subprocess.run(attach, check=True, capture_output=True, text=True).stdout.strip()
    yield Path(device), image
    subprocess.run(["losetup", "-d", device], check=False, capture_output=True)


def stored(folder: Path) -> tuple[Run, list[Sample]]:
    with ResultsFile.open(folder / "results.seatrial", read_only=True) as file:
        (run,) = file.runs()
        return run, file.samples(run.id)


def test_the_plan_says_the_cost_and_touches_nothing(tmp_path, user_file):
    before = user_file.read_bytes()
    shown = seatrial("precondition", user_file, "--plan", folder=tmp_path)
    assert shown.code == 0, shown.err
    assert f"Precondition 16 MiB of {user_file}: two sequential passes (SNIA PTS)" in shown.out
    assert "fills      32 MiB" in shown.out
    assert "in 25 rounds" in shown.out
    assert "Only the file is preconditioned" in shown.out
    assert user_file.read_bytes() == before
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["precious.dat"]


def test_the_plan_is_as_published(tmp_path):
    how = ("--method", "one-pass", "--over-provisioning", "0.28", "--size", "1GiB")
    shown = seatrial("precondition", tmp_path, *how, "--plan", "--json", folder=tmp_path)
    document = shown.document
    assert_published(document)
    assert document["over_provisioning_share"] == 0.28
    assert document["fill_bytes"] == pytest.approx(1.28 * (1 << 30), rel=0.005)
    assert document["proof_bytes_max"] == 25 * 102 * MIB
    assert document["fill_s"] == pytest.approx(document["fill_bytes"] / 250e6)
    assert (document["proof_s_min"], document["proof_s_max"]) == (300, 1500)
    if document["drive_bytes"]:
        expected = document["fill_bytes"] / document["drive_bytes"]
        assert document["drive_writes"] == pytest.approx(expected)


def test_a_file_that_holds_data_is_refused_unless_it_is_named(tmp_path, user_file):
    before = user_file.read_bytes()
    refused = seatrial("precondition", user_file, *QUICK, folder=tmp_path)
    assert refused.code == 5
    assert f"--destroy {user_file}" in refused.err
    # Two fills and five rounds of the proof: what is announced is the whole of it.
    assert "37 MiB (38,797,312 bytes) would be written" in refused.err
    assert user_file.read_bytes() == before
    assert not (tmp_path / "results.seatrial").exists() or not _runs(tmp_path)


def _runs(folder: Path) -> list[Run]:
    with ResultsFile.open(folder / "results.seatrial", read_only=True) as file:
        return file.runs()


def test_a_file_that_is_named_is_conditioned(tmp_path, user_file):
    how = ("--destroy", user_file, "--method", "one-pass", *QUICK)
    done = seatrial("precondition", user_file, *how, folder=tmp_path)
    assert done.code in (0, 3), done.err
    assert ("Steady within 5 rounds" in done.out) == (done.code == 0)
    assert b"mine" not in user_file.read_bytes()
    run, samples = stored(tmp_path)
    assert (run.study_name, run.status) == ("precondition", "complete")
    assert [sample.cell.workload for sample in samples] == ["one-pass"] + ["proof"] * 5
    shown = seatrial("show", "--tables", folder=tmp_path)
    assert shown.code == 0
    assert "one-pass" in shown.out


def test_a_directory_gets_a_trial_file_and_is_left_as_it_was(tmp_path):
    place = tmp_path / "place"
    place.mkdir()
    how = ("--size", "16MiB", "--method", "one-pass", "--over-provisioning", "0.07", "--json")
    done = seatrial("precondition", place, *how, *QUICK, folder=tmp_path)
    assert done.code in (0, 3), done.err
    assert done.document["kind"] == "run"
    assert list(place.iterdir()) == []
    assert "Only the file is preconditioned" in done.err, "the cost is said all the same"


def test_an_interrupt_keeps_what_was_measured(tmp_path):
    process = start("precondition", tmp_path, "--size", "8MiB", "--seconds", "30", folder=tmp_path)
    assert process.stderr is not None
    # Two fills of 8 MiB are over in no time; the proof, of a tenth of it, may be as well.
    for line in process.stderr:
        if line.startswith("Round 1"):
            break
    process.send_signal(signal.SIGINT)
    left = ended(process)
    assert left.code == 4, left.err
    run, samples = stored(tmp_path)
    assert run.status == "interrupted"
    assert all(sample.status == "complete" for sample in samples)
    assert "not verified" in left.out


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("simulated", "--method", "three"), "'three' is not one of"),
        (("simulated", "--over-provisioning", "0.9"), "above 0 and at most 0.5"),
        (("simulated", "--over-provisioning", "much"), "above 0 and at most 0.5"),
        (("simulated", "--verify-with", "write", "4kB", "random"), "powers of 1000 or of 1024"),
        (("simulated", "--verify-with", "erase", "4k", "random"), "'erase' is not one of"),
        (("simulated", "--rounds", "4"), "4 is not in the range"),
        (("simulated", "--size", "64KiB"), "do not fit"),
        (("null",), "cannot be preconditioned"),
    ],
)
def test_a_bad_option_is_a_sentence(tmp_path, options, says):
    refused = seatrial("precondition", *options, folder=tmp_path)
    assert refused.code == 2, refused.err
    assert says in refused.err
    assert list(tmp_path.iterdir()) == []


def test_a_simulated_drive_without_flash_is_steady_at_once(tmp_path):
    model = tmp_path / "plain.toml"
    model.write_text("channels = 4\n")
    done = seatrial("precondition", "simulated", "--model", model, folder=tmp_path)
    assert done.code == 0, done.err
    assert "Steady within 5 rounds" in done.out


def test_what_never_settles_ends_with_code_3(tmp_path):
    model = tmp_path / "credit.toml"
    model.write_text("burst = { credit_operations = 90_000, refill_per_s = 100 }\n")
    how = ("--model", model, "--size", "1GiB", "--rounds", "5")
    done = seatrial("precondition", "simulated", *how, folder=tmp_path)
    assert done.code == 3, done.err
    assert "Not steady after 5 rounds" in done.out


@pytest.mark.root
def test_a_device_is_trimmed_filled_and_proven(tmp_path, loop):
    device, image = loop
    refused = seatrial("precondition", device, *QUICK, folder=tmp_path)
    assert refused.code == 5
    assert image.read_bytes() == b"\xa5" * (16 * MIB)
    how = ("--destroy", device, "--method", "one-pass", *QUICK)
    done = seatrial("precondition", device, *how, folder=tmp_path)
    assert done.code in (0, 3), done.err
    assert f"{device} is trimmed" in done.err
    data = image.read_bytes()
    assert len(data) == 16 * MIB
    assert all(any(data[at : at + 512]) for at in range(0, len(data), 512)), "no hole is left"
    assert b"\xa5" * 4096 not in data
    _, samples = stored(tmp_path)
    assert samples[0].counters["discarded_bytes"] == 16 * MIB


@pytest.mark.root
def test_a_device_keeps_its_mapping_when_requested(tmp_path, loop):
    device, _ = loop
    how = ("--destroy", device, "--no-discard", *QUICK)
    done = seatrial("precondition", device, *how, folder=tmp_path)
    assert done.code in (0, 3), done.err
    assert "trimmed" not in done.err
    _, samples = stored(tmp_path)
    assert [sample.cell.workload for sample in samples[:2]] == ["pass-1", "pass-2"]
    assert "discarded_bytes" not in samples[0].counters
