"""How fast a sample was in each of its phases, from the slices of its timeline.

A phase's figure in a round is a mean over its slices; intervals are over rounds. Of a single round
the interval is that of its slices by the block bootstrap, which says so (``over`` is ``timeline``).
Never is a single latency the unit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Final

from seatrial._core import Histogram
from seatrial.results.model import Sample
from seatrial.stats.block_bootstrap import half_width_of_mean
from seatrial.stats.estimate import HISTOGRAM_RESOLUTION_SHARE, Estimate
from seatrial.stats.estimates import entries_needed, estimate_of_rounds, rate_unit
from seatrial.stats.running import start_up_steps
from seatrial.stats.timeline import NS_PER_S, SLICES_MIN, is_long_enough, slice_counts
from seatrial.trials.layouts.analysis.model import PhaseFigures, PhaseName
from seatrial.trials.layouts.analysis.phases import spans_within

PHASES: Final[tuple[PhaseName, ...]] = ("before", "degraded", "rebuild", "scrub", "after")
SLICES_OF_PHASE_MIN: Final = 3
SECOND_S: Final = 1.0
_P99: Final = 99.0


@dataclass(frozen=True)
class Part:
    """One phase of one sample: the whole slices that lie in it.

    Attributes:
        counts: Completed requests in each of them.
        slice_s: Length of a slice.
        places: Their indices in the timeline.
    """

    counts: list[float]
    slice_s: float
    places: list[int]

    @property
    def length_s(self) -> float:
        """How long they last together."""
        return len(self.counts) * self.slice_s

    @property
    def per_s(self) -> float:
        """Completed requests per second."""
        return math.fsum(self.counts) / self.length_s

    @cached_property
    def log_half_width(self) -> float | None:
        """Half of the width of the interval of the rate's logarithm; None where not known."""
        import numpy as np  # noqa: PLC0415  (only an analysis pays for the import)

        if len(self.counts) < SLICES_MIN or self.per_s <= 0:
            return None
        half = half_width_of_mean(np.array(self.counts))
        return None if half is None else half / (math.fsum(self.counts) / len(self.counts))

    @property
    def slowest_second_per_s(self) -> float | None:
        """The lowest rate of a second, one second after the other; None if it is shorter."""
        count = max(1, round(SECOND_S / self.slice_s))
        starts = range(0, len(self.counts) - count + 1, count)
        sums = [math.fsum(self.counts[at : at + count]) for at in starts]
        return min(sums) / (count * self.slice_s) if sums else None


@dataclass(frozen=True)
class PhaseTimeline:
    """One sample by its phases."""

    sample: Sample
    parts: dict[PhaseName, Part]
    broken: Part | None = None
    """All from the first event on, whatever phase it is of; None where nothing happened."""

    @property
    def before_per_s(self) -> float:
        """The rate before anything was broken; 0 where that is not known."""
        part = self.parts.get("before")
        return part.per_s if part else 0.0

    def share(self, name: PhaseName) -> float | None:
        """Return a phase's rate over that before; None where one of them is not known."""
        part = self.parts.get(name)
        return part.per_s / self.before_per_s if part and self.before_per_s > 0 else None

    def p99_ns(self, name: PhaseName) -> float | None:
        """Return the response time (ns) of all requests that ended in a phase, if it is known."""
        places = set(self.parts[name].places)
        merged = reduce(
            lambda one, other: one.merged(other),
            (
                Histogram.decode(s.response)
                for s in self.sample.timeline.slices
                if s.index in places
            ),
            Histogram.of([]),
        )
        return merged.percentile_ns(_P99) if merged.count >= entries_needed(_P99) else None


def phase_timeline_of(sample: Sample) -> PhaseTimeline:
    """Return a sample's phases; without any where its timeline cannot tell of them."""
    if not is_long_enough(sample):
        return PhaseTimeline(sample, {})
    counts = [float(count) for count in slice_counts(sample)]
    slice_s = sample.timeline.slice_ns / NS_PER_S
    places: dict[PhaseName, list[int]] = {}
    for span in spans_within(sample):
        first = math.ceil(span.from_s / slice_s - 1e-6)
        until = min(len(counts), math.floor(span.to_s / slice_s + 1e-6))
        places.setdefault(span.phase, []).extend(range(first, until))
    later = [place for phase, own in places.items() if phase != "before" for place in own]
    broken = [*range(min(later), max(later) + 1)] if later else []
    if "before" in places:
        places["before"] = _running(counts, places["before"], slice_s)
    return PhaseTimeline(
        sample,
        {
            phase: Part([counts[place] for place in own], slice_s, own)
            for phase, own in places.items()
            if len(own) >= SLICES_OF_PHASE_MIN
        },
        Part([counts[place] for place in broken], slice_s, broken) if broken else None,
    )


def _running(counts: Sequence[float], places: list[int], slice_s: float) -> list[int]:
    """Return what is left of the slices before a failure without a start-up phase."""
    import numpy as np  # noqa: PLC0415

    if len(places) < SLICES_MIN:
        return places
    return places[start_up_steps(np.array([counts[place] / slice_s for place in places])) :]


def phase_figures(timelines: Sequence[PhaseTimeline]) -> list[PhaseFigures]:
    """Return the figures of each phase over the rounds that have it."""
    found = []
    for name in PHASES:
        own = [timeline for timeline in timelines if name in timeline.parts]
        if own:
            found.append(_figures(name, own))
    return found


def _figures(name: PhaseName, timelines: Sequence[PhaseTimeline]) -> PhaseFigures:
    parts = [timeline.parts[name] for timeline in timelines]
    shares = [share for timeline in timelines if (share := timeline.share(name)) is not None]
    p99s = [value for timeline in timelines if (value := timeline.p99_ns(name)) is not None]
    rate = estimate_of_rounds([part.per_s for part in parts], rate_unit(timelines[0].sample))
    over_before = estimate_of_rounds(shares, "ratio") if shares and name != "before" else None
    if len(timelines) == 1:
        rate = _within(rate, parts[0].log_half_width)
        half = _half_of_share(timelines[0], name)
        over_before = _within(over_before, half) if over_before else None
    return PhaseFigures(
        phase=name,
        length=estimate_of_rounds([part.length_s * NS_PER_S for part in parts], "ns"),
        rate=rate,
        share=over_before,
        p99=_p99(p99s) if len(p99s) == len(timelines) else None,
    )


def _p99(values_ns: Sequence[float]) -> Estimate:
    return estimate_of_rounds(values_ns, "ns", resolution_share=HISTOGRAM_RESOLUTION_SHARE)


def _half_of_share(timeline: PhaseTimeline, name: PhaseName) -> float | None:
    """Return half of the width of a share's logarithm: both of its rates are uncertain."""
    halves = [timeline.parts[each].log_half_width for each in ("before", name)]
    known = [half for half in halves if half is not None]
    return math.hypot(*known) if len(known) == len(halves) else None


def _within(estimate: Estimate, log_half: float | None) -> Estimate:
    """Return a figure of one round with the interval that its slices give, by a factor."""
    if log_half is None or estimate.value <= 0:
        return estimate
    factor = math.exp(log_half)
    return Estimate(
        value=estimate.value,
        low=estimate.value / factor,
        high=estimate.value * factor,
        rounds=1,
        unit=estimate.unit,
        over="timeline",
    )


def lowest_shares(timelines: Sequence[PhaseTimeline]) -> tuple[float | None, float | None]:
    """Return the slowest second after the first event and before it, over the rate before.

    The lowest of all rounds: an extreme, which grows more extreme with the time that one looks, so
    that the one before stands beside it for what is usual.
    """
    after: list[float] = []
    before: list[float] = []
    for timeline in timelines:
        if timeline.before_per_s <= 0:
            continue
        for part, shares in ((timeline.parts["before"], before), (timeline.broken, after)):
            slowest_per_s = part.slowest_second_per_s if part else None
            if slowest_per_s is not None:
                shares.append(slowest_per_s / timeline.before_per_s)
    return min(after, default=None), min(before, default=None)
