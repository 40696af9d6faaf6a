"""The effect of checkpoints: seconds with one compared with seconds without."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from seatrial._core import Histogram
from seatrial.results.model import Sample
from seatrial.stats.cell_estimates import entries_needed, estimate_of_rounds
from seatrial.stats.estimate import Estimate
from seatrial.stats.timeline import is_long_enough
from seatrial.trials.database.analysis.readings import Round, entries_from
from seatrial.units import NS_PER_S

RUNNING_COLUMN: Final = "checkpoint_running_share"
DURING_SHARE_MIN: Final = 0.5
ELSE_SHARE_MAX: Final = 0.1
"""Seconds with a share between the two belong to neither kind."""
SECONDS_MIN: Final = 2
"""Number of seconds of each kind that a round needs."""
_PERCENT: Final = 99.0


@dataclass(frozen=True)
class Seconds:
    """The entries of one round, by whether a checkpoint ran.

    Attributes:
        during_per_s: Completed transactions per second of each entry with one.
        else_per_s: Rate at each time without a checkpoint.
        during: Their response times.
        elsewhere: Those of the others.
    """

    during_per_s: list[float]
    else_per_s: list[float]
    during: Histogram
    elsewhere: Histogram

    @property
    def rate_ratio(self) -> float | None:
        """Rate with a checkpoint over the rate without; None if one of them is unknown."""
        if min(len(self.during_per_s), len(self.else_per_s)) < SECONDS_MIN:
            return None
        usual = math.fsum(self.else_per_s) / len(self.else_per_s)
        return math.fsum(self.during_per_s) / len(self.during_per_s) / usual if usual else None

    @property
    def lost_share(self) -> float | None:
        """Reduction of the whole round's rate, compared with the seconds without."""
        if self.rate_ratio is None:
            return None
        all_per_s = [*self.during_per_s, *self.else_per_s]
        usual = math.fsum(self.else_per_s) / len(self.else_per_s)
        return 1 - math.fsum(all_per_s) / len(all_per_s) / usual


@dataclass(frozen=True)
class CheckpointEffect:
    """The effect of checkpoints over the rounds of a cell.

    Attributes:
        rate_ratio: Rate in seconds with a checkpoint over that in seconds without; its interval is
            over rounds, None if only one round has both.
        lost_share: Reduction of the whole rate, compared with the seconds without; the mean.
        p99_during_ns: Response time in seconds with one; None if there were too few transactions.
        p99_else_ns: In seconds without.
        running_share: Share of all seconds in which one ran.
        seconds_during: Over all rounds.
        seconds_else: Over all rounds.
    """

    rate_ratio: Estimate
    lost_share: float
    p99_during_ns: int | None
    p99_else_ns: int | None
    running_share: float
    seconds_during: int
    seconds_else: int

    @property
    def ratio_high(self) -> float:
        """Upper end of the ratio's interval; 1 if it was seen in one round only."""
        return 1.0 if self.rate_ratio.high is None else self.rate_ratio.high

    @property
    def p99_ratio(self) -> float | None:
        """p99 with a checkpoint over that without."""
        if not self.p99_during_ns or not self.p99_else_ns:
            return None
        return self.p99_during_ns / self.p99_else_ns


def checkpoint_effect(rounds: Sequence[Round]) -> CheckpointEffect | None:
    """Return the effect of checkpoints; None if no round has seconds of both kinds."""
    known = [
        part
        for round_ in rounds
        if (part := _seconds(round_)) is not None and part.rate_ratio is not None
    ]
    ratios = [part.rate_ratio for part in known if part.rate_ratio is not None]
    losses = [part.lost_share for part in known if part.lost_share is not None]
    if not ratios:
        return None
    during, elsewhere = (
        reduce(lambda one, other: one.merged(other), parts, Histogram.of([]))
        for parts in ([p.during for p in known], [p.elsewhere for p in known])
    )
    return CheckpointEffect(
        rate_ratio=estimate_of_rounds(ratios, "ratio"),
        lost_share=math.fsum(losses) / len(losses),
        p99_during_ns=_p99_ns(during),
        p99_else_ns=_p99_ns(elsewhere),
        running_share=running_share(rounds) or 0.0,
        seconds_during=sum(len(part.during_per_s) for part in known),
        seconds_else=sum(len(part.else_per_s) for part in known),
    )


def running_share(rounds: Sequence[Round]) -> float | None:
    """Return the share of the time in which a checkpoint ran; None if unknown."""
    values = [share for round_ in rounds for _, share in _entries(round_)]
    return math.fsum(values) / len(values) if values else None


def _entries(round_: Round) -> Iterator[tuple[int, float]]:
    """Yield index and share of the known entries of the running phase."""
    series = round_.sample.series
    if series is None:
        return
    first = entries_from(series, round_.phase.from_s)
    for index, share in enumerate(series.columns.get(RUNNING_COLUMN, [])):
        if index >= first and share is not None:
            yield index, share


def _seconds(round_: Round) -> Seconds | None:
    """Return a round's entries by whether a checkpoint ran; None without a timeline."""
    sample = round_.sample
    if sample.series is None or not is_long_enough(sample):
        return None
    if sample.timeline.slice_ns > sample.series.period_s * NS_PER_S:
        return None  # the sample is so long that a slice covers several entries
    by_entry = _by_entry(sample, sample.series.period_s)
    whole = math.floor(sample.duration_s / sample.series.period_s + 1e-6)
    during, elsewhere = Histogram.of([]), Histogram.of([])
    during_per_s: list[float] = []
    else_per_s: list[float] = []
    for index, share in _entries(round_):
        if index >= whole or ELSE_SHARE_MAX < share < DURING_SHARE_MIN:
            continue
        histogram = by_entry.get(index, Histogram.of([]))
        if share >= DURING_SHARE_MIN:
            during_per_s.append(histogram.count / sample.series.period_s)
            during = during.merged(histogram)
        else:
            else_per_s.append(histogram.count / sample.series.period_s)
            elsewhere = elsewhere.merged(histogram)
    return Seconds(during_per_s, else_per_s, during, elsewhere)


def _by_entry(sample: Sample, period_s: float) -> dict[int, Histogram]:
    """Return the response times of each entry of the series, of all kinds."""
    found: dict[int, Histogram] = {}
    slice_s = sample.timeline.slice_ns / NS_PER_S
    for part in sample.timeline.slices:
        entry = int(part.index * slice_s / period_s + 1e-6)
        histogram = Histogram.decode(part.response)
        found[entry] = found[entry].merged(histogram) if entry in found else histogram
    return found


def _p99_ns(histogram: Histogram) -> int | None:
    return histogram.percentile_ns(_PERCENT) if histogram.count >= entries_needed(99) else None
