"""Two legs of which one answers a quarter later: found, and equal ones are not, on a real kernel.

dm-delay waits for whole ticks of the clock and one more: of 30 and 40 ms asked for, 40 and 50 ms
are waited for. That is the difference that the article found between two slots.
"""

from __future__ import annotations

import pytest

from seatrial.findings.model import Summary
from seatrial.findings.summary import summarise
from trials.layouts.measure.trial import measured

STUDY = """
    name = "slots"
    rounds = {{ min = 4, max = 4 }}
    [drives]
    devices = [{devices}]
    [[layout]]
    name = "slots"
    backend = "md"
    level = "raid0"
    legs = 2
    expose = "legs"
    filesystem = "none"
    size = "16MiB"
    delay_ms = [30, {second_ms}]
    [[workload]]
    kind = "io"
    operations = "read"
    block_sizes = "4KiB"
    seconds = 0.6
"""


def summary_of(disks: list[str], tmp_path, *, second_ms: int) -> Summary:
    """What is said of two legs of one drive each, the second delayed by so much."""
    devices = ", ".join(f'"{disk}"' for disk in disks[:2])
    study = STUDY.format(devices=devices, second_ms=second_ms)
    run, samples = measured(tmp_path, study, destroy=disks[:2])
    return summarise(run, samples)


def test_a_leg_that_is_a_quarter_slower_is_found_with_its_path(disks, tmp_path):
    summary = summary_of(disks, tmp_path, second_ms=40)
    (found,) = [each for each in summary.findings if each.kind == "leg_imbalance"]
    assert found.evidence["slower_target"] == "slots-leg2"
    assert found.evidence["rate_ratio"] == pytest.approx(40 / 50, abs=0.03)
    for leg, disk in enumerate(disks[:2], start=1):
        (path,) = found.evidence[f"path_of_slots-leg{leg}"]
        assert path["device"] == disk.removeprefix("/dev/")


def test_equal_legs_are_not_called_different(disks, tmp_path):
    summary = summary_of(disks, tmp_path, second_ms=30)
    assert "leg_imbalance" not in {each.kind for each in summary.findings}
