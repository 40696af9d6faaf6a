"""A throttle that is moved under a sample: the states of the device, with their times and rates."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from cli.command import ended
from kernel.trial import start_favoured

pytestmark = pytest.mark.root

HIGH_PER_S, LOW_PER_S = 6000, 2000
SECONDS = 5.0
EDGE_S = 0.3
PHASE_KINDS = {"left_steady_state", "start_up_phase", "not_steady", "burst_credit"}


class Moved:
    """A sample on a device whose limit is changed while it lasts."""

    def __init__(self, place, group, folder: Path) -> None:
        folder.mkdir()
        self._stat = Path(f"/sys/dev/block/{place.device}/stat")
        self._before = self._reads()
        self._change = lambda per_s: group.limit(place.device, per_s)
        cell = ["--size", "16MiB", "--seconds", str(SECONDS), "--depth", "8", "--block-size", "4k"]
        self._process = start_favoured(
            "io", place.folder, *cell, "--json", folder=folder, prefix=group.entering
        )
        self.changed_at: float | None = None

    def change(self, per_s: int, after_s: float) -> None:
        """Change the limit so long after the first read; a file is filled before by writes."""
        self.begun()
        time.sleep(after_s)
        self._change(per_s)
        self.changed_at = time.time()

    def begun(self) -> None:
        while self._reads() < self._before + 50:
            assert self._process.poll() is None, self._process.communicate()
            time.sleep(0.002)

    def counted_per_s(self, seconds: float) -> float:
        """The reads per second that the device counts from now on, once a change has its effect.

        On a busy machine they are fewer than the limit.
        """
        time.sleep(EDGE_S)
        reads, began_s = self._reads(), time.monotonic()
        time.sleep(seconds)
        return (self._reads() - reads) / (time.monotonic() - began_s)

    def document(self) -> dict[str, Any]:
        reported = ended(self._process)
        assert reported.code == 0, reported
        return reported.document

    def _reads(self) -> int:
        return int(self._stat.read_text().split()[0])


def findings(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["kind"]: each for each in document["findings"] if each["kind"] in PHASE_KINDS}


def changed_s(document: dict[str, Any], moved: Moved) -> float:
    (sample,) = document["samples"]
    return moved.changed_at - sample["started_at"]


def test_a_throttle_that_is_lowered_late_is_left_steady_state(file_system, group, tmp_path):
    place = file_system("xfs")
    group.limit(place.device, HIGH_PER_S)
    moved = Moved(place, group, tmp_path / "lowered")
    moved.change(LOW_PER_S, after_s=3.2)
    counted_per_s = moved.counted_per_s(1.0)
    document = moved.document()
    (state,) = document["steady"]
    first, *rest = (phase["state"] for phase in state["phases"])
    assert (first, set(rest)) == ("steady", {"left"})
    assert set(findings(document)) == {"left_steady_state"}
    evidence = findings(document)["left_steady_state"]["evidence"]
    assert evidence["steady_until_s"] == pytest.approx(changed_s(document, moved), abs=EDGE_S)
    assert evidence["steady_per_s"] == pytest.approx(HIGH_PER_S, rel=0.06)
    assert state["phases"][-1]["rate"]["value"] == pytest.approx(counted_per_s, rel=0.06)
    assert evidence["returned"] is False


def test_a_throttle_that_is_raised_early_is_a_start_up_phase(file_system, group, tmp_path):
    place = file_system("xfs")
    group.limit(place.device, LOW_PER_S)
    moved = Moved(place, group, tmp_path / "raised")
    moved.change(HIGH_PER_S, after_s=1.0)
    counted_per_s = moved.counted_per_s(3.0)
    document = moved.document()
    (state,) = document["steady"]
    assert [phase["state"] for phase in state["phases"]] == ["transition", "steady"]
    assert set(findings(document)) == {"start_up_phase"}
    evidence = findings(document)["start_up_phase"]["evidence"]
    assert evidence["start_up_s_max"] == pytest.approx(changed_s(document, moved), abs=EDGE_S)
    assert evidence["worst_start_up_ratio"] < 0.5
    # The figure is that of the running phase alone.
    (cell,) = document["cells"]
    assert cell["iops"]["value"] == pytest.approx(counted_per_s, rel=0.06)


def test_a_constant_throttle_is_steady_and_nothing_else(file_system, group, tmp_path):
    place = file_system("xfs")
    group.limit(place.device, LOW_PER_S)
    moved = Moved(place, group, tmp_path / "constant")
    moved.begun()
    counted_per_s = moved.counted_per_s(4.0)
    document = moved.document()
    (state,) = document["steady"]
    assert [phase["state"] for phase in state["phases"]] == ["steady"]
    assert state["phases"][0]["rate"]["value"] == pytest.approx(counted_per_s, rel=0.06)
    assert findings(document) == {}
