"""Devices on a virtual clock: whole searches in a moment, on queues whose true answer is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from seatrial._core import Histogram
from seatrial.results.model import OperationResult, Outcome, Sample, Slice, Timeline
from seatrial.trials.loadline.analysis.decider import decider
from seatrial.trials.loadline.analysis.lines import load_line
from seatrial.trials.loadline.analysis.model import LoadLine, latency_target_of
from seatrial.trials.loadline.study import Loadline, SearchEnd, at_rate
from stats.builders import MS_NS, cell_of

THREADS, DEPTH = 4, 32
PLACES = THREADS * DEPTH
SLICE_S = 0.1
ALLOWED_SHARE = 0.01
BASE_S = 1e-4
BACKLOG_REQUESTS = 200_000
OVERHEAD_S = 0.05
"""Between two samples, as the plan's estimate has it."""

Works = Callable[[np.random.Generator, int], np.ndarray]
"""Draws the seconds of work of so many requests."""
Spans = Callable[[np.random.Generator, float], tuple[np.ndarray, np.ndarray]]
"""Draws when a server's speed changes, from time 0 on, and what it is from then."""


def exponential(per_s: float) -> Works:
    return lambda draw, count: draw.exponential(1 / per_s, count)


def constant(per_s: float) -> Works:
    return lambda _draw, count: np.full(count, 1 / per_s)


def heavy(per_s: float, tail: float = 2.5) -> Works:
    """Work whose tail is a power: a few requests take as long as hundreds of others."""
    scale_s = (tail - 1) / tail / per_s
    return lambda draw, count: scale_s * (1 + draw.pareto(tail, count))


def two_kinds(per_s: float, long_share: float, ratio: float) -> Works:
    """Some requests take so many times what the others do."""
    short_s = 1 / per_s / (1 - long_share + long_share * ratio)
    return lambda draw, count: short_s * np.where(draw.random(count) < long_share, ratio, 1.0)


def always(_draw: np.random.Generator, _end_s: float) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros(1), np.ones(1)


def stalls(every_s: float, length_s: float, *, spread: float = 0.0) -> Spans:
    """Stand still for so long in every period, whose length varies by a share (1: by chance)."""

    def spans(draw: np.random.Generator, end_s: float) -> tuple[np.ndarray, np.ndarray]:
        count = int(end_s / every_s * 2) + 20
        gap_s = every_s - length_s
        gaps_s = gap_s * ((1 - spread) + spread * draw.exponential(1, count))
        gaps_s[0] = draw.random() * gap_s
        starts_s = np.cumsum(gaps_s) + length_s * np.arange(count)
        times_s = np.column_stack([starts_s, starts_s + length_s]).ravel()
        return np.concatenate([[0.0], times_s]), np.array([1.0, *[0.0, 1.0] * count])

    return spans


def stalls_in_bunches(every_s: float, length_s: float, bunch: float, gap_s: float) -> Spans:
    """Stalls that follow each other: a mean number of them with gaps, then a long pause."""

    def spans(draw: np.random.Generator, end_s: float) -> tuple[np.ndarray, np.ndarray]:
        now_s, times_s = draw.exponential(every_s), []
        while now_s < end_s + 10:
            for _ in range(draw.geometric(1 / bunch)):
                times_s += [now_s, now_s + length_s]
                now_s += length_s + draw.exponential(gap_s)
            now_s += draw.exponential(every_s)
        return np.array([0.0, *times_s]), np.array([1.0, *[0.0, 1.0] * (len(times_s) // 2)])

    return spans


def moods(slow: float, stay_s: float) -> Spans:
    """Two speeds, 1 and a slower one, each kept for a time of chance."""

    def spans(draw: np.random.Generator, end_s: float) -> tuple[np.ndarray, np.ndarray]:
        count = int(end_s / stay_s * 2) + 20
        times_s = np.concatenate([[0.0], np.cumsum(draw.exponential(stay_s, count))])
        first = draw.integers(2)
        return times_s, np.where((np.arange(count + 1) + first) % 2 == 0, 1.0, slow)

    return spans


@dataclass(frozen=True)
class Device:
    """One server that takes requests in turn, at a speed that may change.

    Attributes:
        limit_ms: What p99 must keep within.
        works: What each request takes.
        spans: How fast the server is, and when.
        bucket: Requests that pass at once before a throttle asks the server: its credit.
        slow_share: Of the requests, which take ten limits more whatever the load.
        sample_s: Shortest sample.
    """

    limit_ms: int
    works: Works
    spans: Spans = always
    bucket: int = 0
    slow_share: float = 0.0
    sample_s: float = 2.0

    def ends_s(
        self, draw: np.random.Generator, due_s: np.ndarray, end_s: float, debt_s: float = 0.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return when requests end that are due so, and until when each takes the server.

        Args:
            draw: Of works, speeds and slow requests.
            due_s: Rising.
            end_s: What is due lies before.
            debt_s: Until when the server is taken at the start; of a bucket, what it lacks.
        """
        works_s = self.works(draw, len(due_s))
        changes_s, speeds = self.spans(draw, end_s)
        done_s = np.concatenate([[0.0], np.cumsum(np.diff(changes_s) * speeds[:-1])])
        place = np.searchsorted(changes_s, due_s, "right") - 1
        ready_s = done_s[place] + (due_s - changes_s[place]) * speeds[place]
        ahead_s = np.cumsum(works_s)
        begun_s = np.maximum(debt_s, np.maximum.accumulate(ready_s - (ahead_s - works_s)))
        taken_s = ahead_s + begun_s
        place = np.searchsorted(done_s, taken_s, "right") - 1
        ends_s = changes_s[place] + (taken_s - done_s[place]) / speeds[place]
        if self.bucket:
            ends_s = np.maximum(due_s + BASE_S, ends_s - self.bucket * works_s)
        late = draw.random(len(due_s)) < self.slow_share
        return ends_s + late * 10 * self.limit_ms / 1e3, taken_s

    def slow_share_at(self, rate_per_s: float, *, requests: int, seed: int) -> float:
        """Return the share of the requests above the limit at a rate that has long been offered."""
        draw = np.random.default_rng(seed)
        due_s = np.cumsum(draw.exponential(1, requests)) / rate_per_s
        ends_s, _ = self.ends_s(draw, due_s, due_s[-1])
        times_s = (ends_s - due_s)[requests // 20 :]
        return float(np.mean(times_s > self.limit_ms / 1e3))

    def sustained_per_s(self, *, requests: int = 4_000_000, seed: int = 1) -> float:
        """Return the truth: the highest rate at which one in a hundred requests is slow."""
        low, high = 0.0, 1.2 * self.capacity_per_s
        while high / max(low, 1.0) > 1.0005:
            middle = (low + high) / 2
            if self.slow_share_at(middle, requests=requests, seed=seed) <= ALLOWED_SHARE:
                low = middle
            else:
                high = middle
            if high < self.capacity_per_s / 100:
                return 0.0
        return low

    @property
    def capacity_per_s(self) -> float:
        """What a queue that is never empty gets done."""
        draw = np.random.default_rng(1)
        ends_s, _ = self.ends_s(draw, np.zeros(BACKLOG_REQUESTS), 300.0)
        return BACKLOG_REQUESTS / float(np.median(ends_s[-100:]))


class Search:
    """One search to its end, as the measuring room conducts it.

    Attributes:
        line: What it found.
        samples: What was measured.
        spent_s: How long it took.
        reason: Why it ended.
    """

    def __init__(self, device: Device, seed: int, *, budget_s: float = 60.0) -> None:
        self._device = device
        self._draw = np.random.default_rng(seed)
        self._capacity_per_s = device.capacity_per_s
        self._debt_s = 0.0
        self.samples: list[Sample] = []
        self.spent_s = 0.0
        workload = Loadline(
            limit=f"{device.limit_ms}ms", duration_s=device.sample_s, budget_s=budget_s
        )
        template = cell_of(
            workload="loadline", threads=THREADS, depth=DEPTH, limit={"duration_s": device.sample_s}
        )
        decide = decider(workload, seed)
        rounds: Counter[str] = Counter()
        self._measure(template, 0, None, device.sample_s)
        while True:
            step = decide(self.samples)
            if isinstance(step, SearchEnd):
                self.reason = step.reason
                break
            if self.spent_s + step.rest_s + step.sample_s > budget_s:
                self.reason = "budget"
                break
            cell = at_rate(template, "poisson", step.rate_per_s, step.sample_s)
            self._pass(step.rest_s)
            self._measure(cell, rounds[cell.key], step.rate_per_s, step.sample_s)
            rounds[cell.key] += 1
        self.line: LoadLine = load_line(
            template.key, self.samples, latency_target_of(workload, seed)
        )

    def _pass(self, time_s: float) -> None:
        self.spent_s += time_s
        self._debt_s = max(0.0, self._debt_s - time_s)

    def _measure(self, cell, number: int, rate_per_s: float | None, end_s: float) -> None:
        """Measure once: what has not begun when the schedule ends is skipped as too late."""
        draw = self._draw
        if rate_per_s is None:
            offered = int(self._capacity_per_s * end_s * 1.5) + 2 * self._device.bucket
            due_s = np.zeros(offered)
        else:
            due_s = np.cumsum(draw.exponential(1 / rate_per_s, int(rate_per_s * end_s * 1.3) + 50))
            due_s = due_s[due_s < end_s]
        ends_s, taken_s = self._device.ends_s(draw, due_s, end_s, self._debt_s)
        in_turn_s = np.minimum.accumulate(ends_s[::-1])[::-1]  # a slow one holds its place alone
        free_s = np.concatenate([np.zeros(PLACES), in_turn_s])[: len(ends_s)]
        starts_s = np.maximum(due_s, free_s)
        begun = starts_s < end_s
        due_s = starts_s if rate_per_s is None else due_s
        times_s = (due_s[begun], starts_s[begun], ends_s[begun])
        self.samples.append(_sample(cell, number, times_s, len(due_s) - int(begun.sum()), end_s))
        self._debt_s = max(0.0, float(taken_s[begun].max(initial=0.0)) - end_s)
        self.spent_s += end_s
        self._pass(max(0.0, float(ends_s[begun].max(initial=0.0)) - end_s) + OVERHEAD_S)


def _sample(cell, number, times_s, skipped, end_s) -> Sample:
    due_s, starts_s, ends_s = times_s
    order = np.argsort(ends_s, kind="stable")
    response_ns = np.maximum(1, (ends_s - due_s) * 1e9).astype(np.int64)[order]
    service_ns = np.maximum(1, (ends_s - starts_s) * 1e9).astype(np.int64)[order]
    places = (ends_s[order] / SLICE_S).astype(int)
    edges = np.flatnonzero(np.diff(places)) + 1
    slices = [
        Slice(
            index=int(index),
            operation="read",
            completed=len(part),
            transferred_bytes=8192 * len(part),
            response=Histogram.of(part.tolist()).encode(),
        )
        for index, part in zip(places[np.r_[0, edges]], np.split(response_ns, edges), strict=True)
    ]
    count, is_closed = len(ends_s), cell.spec["arrival"]["kind"] == "closed"
    operation = OperationResult(
        completed=count,
        failed=0,
        transferred_bytes=8192 * count,
        response=Histogram.of(response_ns.tolist()).encode(),
        service=Histogram.of(service_ns.tolist()).encode(),
    )
    skipped = 0 if is_closed else skipped
    return Sample(
        cell=cell,
        round=number,
        position=0,
        started_at=0.0,
        duration_s=max(end_s, float(ends_s.max(initial=0.0))),
        engine="simulated",
        outcome=Outcome(
            offered=count + skipped,
            completed=count,
            failed=0,
            late_skipped=skipped,
            in_flight_at_end=0,
        ),
        operations={"read": operation},
        timeline=Timeline(slice_ns=100 * MS_NS, slices=slices),
    )
