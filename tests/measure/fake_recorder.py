"""A recorder over a table of rates: what a device would do is known, and nothing takes time."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from seatrial.measure.progress import TimeLeft
from seatrial.results.model import Run, Sample
from seatrial.study.cell import Cell
from seatrial.study.load import study_from_mapping, study_to_mapping
from seatrial.study.model import Plan
from seatrial.study.plan import make_plan
from stats.builders import sample_of

Truth = Callable[[Cell, float], float]
"""Requests per second of a cell at a time in s."""


class FakeRecorder:
    """Measures by looking up the truth; a clock of its own runs as cells and rests pass."""

    def __init__(self, study: Mapping[str, Any], truth: Truth, *, noise_share=0.0, seed=1) -> None:
        self.plan: Plan = make_plan(study_from_mapping(dict(study), "fake"))
        self.run = Run(
            id="fake",
            command="",
            study_name=self.plan.study.name,
            study=study_to_mapping(self.plan.study),
            plan_hash=self.plan.plan_hash,
            seed=1,
            status="running",
            started_at=0.0,
            seatrial_version="0",
        )
        self.samples: list[Sample] = []
        self.left: list[TimeLeft] = []
        self.now_s = 0.0
        self.probed: list[str] = []
        self.rested_s: list[float] = []
        self._truth = truth
        self._noise_share = noise_share
        self._draw = random.Random(seed)

    def earlier(self) -> list[Sample]:
        return list(self.samples)

    def is_available(self, _cell) -> bool:
        return True

    def measure(self, cell, round_number, position, *, time_left, notes=None) -> Sample:
        assert time_left.most_s >= time_left.cell_s >= 0
        self.left.append(time_left)
        sample = self._sample(cell, round_number, position, dict(notes or {}))
        self.samples.append(sample)
        return sample

    def probe(self, cell, number) -> Sample:
        self.probed.append(cell.key)
        return self._sample(cell, number, 0, {})

    def rest(self, _cell, rest_s) -> float:
        self.rested_s.append(rest_s)
        self.now_s += rest_s
        return rest_s

    def _sample(self, cell, round_number, position, counters) -> Sample:
        duration_s = cell.spec["limit"]["duration_s"]
        noise = self._draw.gauss(1.0, self._noise_share)
        completed = max(0, round(self._truth(cell, self.now_s) * noise * duration_s))
        self.now_s += duration_s
        return sample_of(
            cell,
            completed=completed,
            duration_s=duration_s,
            round=round_number,
            position=position,
            counters=counters,
            response_ns=[],
            engine="simulated",
        )

    @property
    def measured_keys(self) -> set[str]:
        return {sample.cell.key for sample in self.samples}
