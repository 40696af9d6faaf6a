"""Tables of a throttled device: a limit is not a gap, a hiccup passes, and predictions hold."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from cli.command import ended, seatrial
from kernel.conftest import run, unmount
from kernel.trial import favoured, start_favoured

pytestmark = pytest.mark.root

LIMIT_PER_S = 6000
LINK_MIB_PER_S = 140
"""Between 16 and 32 KiB one limit takes over from the other."""
SLOW_PER_S = 40
SECONDS = 1.05
FIRST_SLICE_FACTOR = 1 + 0.1 / SECONDS
"""What a throttle lets pass at once comes on top or not, as the cells happen to follow each other:
no figure of either run is known better."""
STUDY = """
name = "throttled"
rounds = {{ min = 1, max = 1, remeasure = 0 }}
[[target]]
path = "{folder}"
size = "64MiB"
[[workload]]
kind = "matrix"
operations = "read"
block_sizes = {{ from = "4KiB", to = "512KiB" }}
threads = [8, 32]
seconds = {seconds}
{adaptive}
"""


@pytest.fixture
def place(file_system, group):
    made = file_system("xfs")
    group.limit(made.device, LIMIT_PER_S)
    group.limit(made.device, LINK_MIB_PER_S << 20, "bps")
    return made


def write_study(folder: Path, place, adaptive: str = "", seconds: float = 0.55) -> str:
    reported = STUDY.format(folder=place.folder, adaptive=adaptive, seconds=seconds)
    (folder / "study.toml").write_text(reported)
    return "study.toml"


def the_audit(document: dict[str, Any]) -> dict[str, Any]:
    (audit,) = document["audits"]
    return audit


def measured_keys(document: dict[str, Any]) -> set[str]:
    return {point["key"] for point in the_audit(document)["table"]["points"] if point["measured"]}


@pytest.mark.slow
def test_predictions_of_an_adaptive_matrix_hold_and_a_limit_is_no_gap(place, group, tmp_path):
    some, whole = (
        favoured("study", write_study(tmp_path, place, adaptive, SECONDS), "--json",
                 folder=tmp_path, prefix=group.entering)
        for adaptive in ("adaptive = true\npredicted_within = 0.25", "")
    )  # fmt: skip
    assert (some.code, whole.code) == (0, 0), (some, whole)
    truth = {cell["key"]: cell["iops"]["value"] for cell in whole.document["cells"]}
    predictions = the_audit(some.document)["predictions"]
    left = predictions.keys() - measured_keys(some.document)
    assert len(left) >= 5
    held = [
        predictions[key]["low"] / FIRST_SLICE_FACTOR <= truth[key]
        and truth[key] / FIRST_SLICE_FACTOR <= predictions[key]["high"]
        for key in left
    ]
    assert sum(held) >= 0.85 * len(left), {key: (predictions[key], truth[key]) for key in left}

    audit = the_audit(whole.document)
    assert (audit["holds"], audit["gaps"]) == (True, [])
    (link,) = (each for each in audit["parameters"] if each["name"] == "link_mib_per_s")
    assert link["low"] <= FIRST_SLICE_FACTOR * LINK_MIB_PER_S
    assert link["high"] >= LINK_MIB_PER_S


@pytest.mark.slow
def test_a_hiccup_of_one_round_is_transient_once_it_is_measured_again(place, group, tmp_path):
    study = start_favoured(
        "study", write_study(tmp_path, place), "--json", folder=tmp_path, prefix=group.entering
    )
    wait_for_reads(place, study, 1000)
    time.sleep(3)
    group.limit(place.device, SLOW_PER_S)
    time.sleep(2)
    group.limit(place.device, LIMIT_PER_S)
    reported = ended(study)
    assert reported.code == 0, reported
    once = [gap for gap in the_audit(reported.document)["gaps"] if gap["status"] == "seen_once"]
    keys = {key for gap in once for key in gap["keys"]}
    assert 1 <= len(keys) <= 6, once

    again = favoured("audit", "--remeasure", "--json", folder=tmp_path, prefix=group.entering)
    assert again.code == 0, again
    audit = the_audit(again.document)
    rounds = {point["key"]: len(point["rounds_per_s"]) for point in audit["table"]["points"]}
    assert {key for key, count in rounds.items() if count == 3} == keys
    assert {gap["status"] for gap in audit["gaps"]} <= {"transient"}
    assert keys & {key for gap in audit["gaps"] for key in gap["keys"]}
    assert all(
        "Other rounds of the same tests are not slow" in gap["cause"] for gap in audit["gaps"]
    )


def test_a_target_that_was_unmounted_is_not_measured_in_its_place(place, group, tmp_path):
    study = write_study(tmp_path, place)
    reported = seatrial("study", study, "--seconds", "0.05", folder=tmp_path, prefix=group.entering)
    assert reported.code == 0, reported
    device = f"/dev/{Path(f'/sys/dev/block/{place.device}').resolve().name}"
    unmount(place.folder)
    try:
        reported = seatrial("audit", "--tables", "--remeasure", folder=tmp_path)
    finally:
        run("mount", device, str(place.folder))
    assert reported.code == 6, reported
    assert f"was on {Path(device).name}" in reported.err
    assert "Mount or attach it again" in reported.err


def wait_for_reads(place, process, count: int) -> None:
    stat = Path(f"/sys/dev/block/{place.device}/stat")
    before = int(stat.read_text().split()[0])
    while int(stat.read_text().split()[0]) < before + count:
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)
