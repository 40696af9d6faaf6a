"""The load line of a throttled device ends where its throttle does; a freeze is reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cli.command import ended
from kernel import injections
from kernel.injections import Injected, promptly
from kernel.trial import ATTEMPTS, start_favoured, wait_until_steady

pytestmark = pytest.mark.root

LIMIT_PER_S = 4000
SECONDS = 2.0
SHORT_S, FREEZE_S = 0.8, 1.0
STEADY_S = 0.2
EDGE_S = 0.15
SLICE_S = 0.1
"""What a throttle lets pass at once comes on top of the rate in each sample."""


@pytest.mark.slow
def test_it_sustains_just_what_the_throttle_lets_pass(file_system, group, tmp_path):
    place = file_system("xfs")
    group.limit(place.device, LIMIT_PER_S)
    limits = ["--p99", "25ms", "--file-size", "16MiB", "--seconds", str(SECONDS), "--budget", "90"]
    command = ["loadline", place.folder, *limits, "--json"]
    process = start_favoured(*command, folder=tmp_path, prefix=group.entering)
    reported = ended(process, timeout_s=150)
    assert reported.code == 0, reported
    (line,) = reported.document["load_lines"]
    most_per_s = LIMIT_PER_S * (1 + SLICE_S / SECONDS)
    sustained = line["sustained"]
    # The credit of the throttle lets each sample pass more, which must raise no figure; what a busy
    # machine adds lowers the lower end, or leaves none.
    if sustained is not None:
        assert sustained["low"] <= 1.01 * LIMIT_PER_S, line
        assert sustained["value"] <= most_per_s, line
    if line["breaks"] != "undecided":
        assert "knee" in [each["kind"] for each in reported.document["findings"]]
    assert line["broken_per_s"] <= 1.6 * LIMIT_PER_S, line
    assert all(
        not step["holds"] for step in line["steps"] if step["offered_per_s"] > 1.1 * most_per_s
    )


def test_a_freeze_on_the_way_is_reported_as_the_file_systems(file_system, group, tmp_path):
    place = file_system("ext4")
    group.limit(place.device, LIMIT_PER_S)
    document, injected = frozen_on_the_way(place, group, tmp_path)
    stalls = [
        (sample["started_at"] + stall["start_s"], stall)
        for sample in document["samples"]
        for stall in sample["stalls"]
        if stall["cause"] == "filesystem"
    ]
    began_s, longest = max(stalls, key=lambda each: each[1]["length_s"])
    assert longest["length_s"] == pytest.approx(FREEZE_S, abs=EDGE_S)
    assert injected.began.distance_s(began_s) < EDGE_S
    (line,) = document["load_lines"]
    assert sum(step["stalls"] for step in line["steps"]) > 0 or line["closed_loop"]
    causes = {each["evidence"]["cause"] for each in document["findings"] if each["kind"] == "stall"}
    assert "filesystem" in causes


def frozen_on_the_way(place, group, folder: Path) -> tuple[dict[str, Any], Injected]:
    """Return what a load line printed in which a sample was frozen, and when.

    One that was frozen between two samples, which takes long on a busy machine, shows nothing.
    """
    limits = ["--p99", "25ms", "--file-size", "16MiB", "--seconds", str(SHORT_S), "--budget", "8"]
    command = ["loadline", place.folder, *limits, "--read-share", "0", "--json"]
    for attempt in range(ATTEMPTS):
        own = folder / f"attempt-{attempt}"
        own.mkdir()
        process = start_favoured(*command, folder=own, prefix=group.entering)
        with promptly():
            wait_until_steady(process, place.folder, STEADY_S)
            injected = injections.freeze(place.folder, FREEZE_S)
        reported = ended(process)
        assert reported.code == 0, reported
        began_s = injected.began.after_s
        starts_s = [sample["started_at"] for sample in reported.document["samples"]]
        if any(start_s <= began_s <= start_s + SHORT_S - EDGE_S for start_s in starts_s):
            return reported.document, injected
    pytest.fail(f"never frozen within a sample: at {began_s}, with samples from {starts_s}")
