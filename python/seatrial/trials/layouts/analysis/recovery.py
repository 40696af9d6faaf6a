"""The effects of a failure: the dip, the rebuild, the time without redundancy, errors, lost data.

A phase's figure in a round is a mean over its slices; intervals are over rounds. For a single round
the interval is computed from its slices by the block bootstrap (``over`` is ``timeline``). The unit
is never a single latency.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Final, get_args

from seatrial._core import Histogram
from seatrial.fingerprint import Target
from seatrial.lazy import np
from seatrial.results.model import ArrayEvent, LayoutRecord, Sample
from seatrial.stats.cell_estimates import counted, entries_needed, estimate_of_rounds, rate_unit
from seatrial.stats.estimate import HISTOGRAM_RESOLUTION_SHARE, Estimate, half_width_of_mean
from seatrial.stats.model import CellSummary
from seatrial.stats.running import start_up_steps
from seatrial.stats.timeline import SLICES_MIN, is_long_enough, slice_counts
from seatrial.stats.wording import format_duration_s
from seatrial.study.layouts.layout import FILESYSTEMS, LayoutSpec
from seatrial.study.sampled import REBUILD_LIMIT
from seatrial.trials.layouts.analysis.model import (
    LimitRow,
    LimitTable,
    PhaseFigures,
    PhaseName,
    Recovery,
    is_breaking_summary,
    layout_of,
    variant,
)
from seatrial.units import NS_PER_S


@dataclass(frozen=True)
class Span:
    """A period of one phase.

    Attributes:
        phase: The phase.
        from_s: Its start, from the sample's start.
        to_s: Its end; for the last one the end of the sample, or the last reading after it.
        missing: Missing drives in the leg with the most.
    """

    phase: PhaseName
    from_s: float
    to_s: float
    missing: int = 0

    @property
    def length_s(self) -> float:
        """Its duration."""
        return self.to_s - self.from_s


_WITH_END: Final = ("failed", "rebuild_started", "rebuild_ended", "scrub_started", "scrub_ended")
"""Events of what ends; other faults, such as bad sectors, remain."""


@dataclass
class ArrayTimeline:
    """The state of an array after each event.

    Attributes:
        missing: Missing drives, by leg.
        rebuilding: Legs with a rebuild.
        scrubbing: Legs with a scrub.
        has_after: Whether anything began that ends, so that there is a time after it.
    """

    missing: Counter[int] = field(default_factory=Counter)
    rebuilding: set[int] = field(default_factory=set)
    scrubbing: set[int] = field(default_factory=set)
    has_after: bool = False

    def apply(self, event: ArrayEvent, *, rebuilds_again: bool) -> None:
        """Update the state.

        Args:
            event: The event.
            rebuilds_again: Whether the same leg starts another rebuild later. If the event does not
                report the missing drives, the end of this rebuild then restored one, otherwise all.
        """
        leg = event.leg
        self.has_after |= event.what in _WITH_END
        if event.what == "failed":
            self.missing[leg] += 1
        elif event.what == "rebuild_started":
            self.rebuilding.add(leg)
        elif event.what == "rebuild_ended":
            self.rebuilding.discard(leg)
            guessed = max(0, self.missing[leg] - 1) if rebuilds_again else 0
            self.missing[leg] = guessed if event.missing is None else event.missing
        elif event.what == "scrub_started":
            self.scrubbing.add(leg)
        elif event.what == "scrub_ended":
            self.scrubbing.discard(leg)

    @property
    def missing_max(self) -> int:
        """Missing drives in the leg with the most."""
        return max(self.missing.values(), default=0)

    @property
    def phase(self) -> PhaseName:
        """The phase after the first event."""
        if self.rebuilding:
            return "rebuild"
        if self.missing_max:
            return "degraded"
        if self.scrubbing:
            return "scrub"
        return "after" if self.has_after else "faulty"


def spans_of(sample: Sample) -> list[Span]:
    """Return the phases of a sample in order of time, including those after its end."""
    spans: list[Span] = []
    phase: PhaseName = "before"
    from_s, missing = 0.0, 0
    for at_s, timeline in _timelines(sample):
        if at_s > from_s:
            spans.append(Span(phase, from_s, at_s, missing))
        phase, from_s, missing = timeline.phase, max(from_s, at_s), timeline.missing_max
    end_s = last_seen_s(sample)
    return [*spans, Span(phase, from_s, end_s, missing)] if end_s > from_s else spans


def spans_within(sample: Sample) -> list[Span]:
    """Return the phases of a sample while its load lasted."""
    end_s = sample.duration_s
    return [
        Span(span.phase, span.from_s, min(span.to_s, end_s), span.missing)
        for span in spans_of(sample)
        if span.from_s < end_s
    ]


def missing_max(sample: Sample) -> int:
    """Return the maximum number of missing drives in one leg."""
    return max((timeline.missing_max for _, timeline in _timelines(sample)), default=0)


def missing_at_end(sample: Sample) -> int:
    """Return how many drives of one leg were still missing at the last reading."""
    *_, (_, timeline) = [(0.0, ArrayTimeline()), *_timelines(sample)]
    return timeline.missing_max


def last_seen_s(sample: Sample) -> float:
    """Return the time of the last reading of the array, from the sample's start."""
    record, series = sample.layout, sample.series
    events = record.events if record else []
    readings = len(series.columns.get("missing_members", [])) if series else 0
    read_s = series.period_s * readings if series else 0.0
    return max(sample.duration_s, read_s, *(event.at_s for event in events), 0.0)


def _timelines(sample: Sample) -> Iterator[tuple[float, ArrayTimeline]]:
    """Yield the time of each event, and the state of the array from then on."""
    events = sample.layout.events if sample.layout else []
    timeline = ArrayTimeline()
    for index, event in enumerate(events):
        again = any(
            later.what == "rebuild_started" and later.leg == event.leg
            for later in events[index + 1 :]
        )
        timeline.apply(event, rebuilds_again=again)
        yield event.at_s, timeline


PHASES: Final[tuple[PhaseName, ...]] = get_args(PhaseName)
SLICES_OF_PHASE_MIN: Final = 3
SECOND_S: Final = 1.0
_P99: Final = 99.0


@dataclass(frozen=True)
class Part:
    """One phase of one sample: the complete slices within it.

    Attributes:
        counts: Completed requests in each slice.
        slice_s: Length of a slice.
        indices: Indices of the slices in the timeline.
    """

    counts: list[float]
    slice_s: float
    indices: list[int]

    @property
    def length_s(self) -> float:
        """Total length of the slices."""
        return len(self.counts) * self.slice_s

    @property
    def per_s(self) -> float:
        """Completed requests per second."""
        return math.fsum(self.counts) / self.length_s

    @cached_property
    def log_half_width(self) -> float | None:
        """Half of the width of the interval of the rate's logarithm; None if unknown."""
        if len(self.counts) < SLICES_MIN or self.per_s <= 0:
            return None
        half = half_width_of_mean(np.array(self.counts))
        return None if half is None else half / (math.fsum(self.counts) / len(self.counts))

    @property
    def slowest_second_per_s(self) -> float | None:
        """The lowest rate of consecutive seconds; None if it is shorter than a second."""
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
    """All slices from the first event on; None without an event."""

    @property
    def before_per_s(self) -> float:
        """The rate before the first event; 0 where that is not known."""
        part = self.parts.get("before")
        return part.per_s if part else 0.0

    def share(self, name: PhaseName) -> float | None:
        """Return a phase's rate over that before; None where one of them is not known."""
        part = self.parts.get(name)
        return part.per_s / self.before_per_s if part and self.before_per_s > 0 else None

    def p99_ns(self, name: PhaseName) -> float | None:
        """Return the response time (ns) of all requests that ended in a phase, if it is known."""
        indices = set(self.parts[name].indices)
        slices = [s for s in self.sample.timeline.slices if s.index in indices]
        histograms = (Histogram.decode(each.response) for each in slices)
        merged = reduce(lambda one, other: one.merged(other), histograms, Histogram.of([]))
        return merged.percentile_ns(_P99) if merged.count >= entries_needed(_P99) else None


def phase_timeline_of(sample: Sample) -> PhaseTimeline:
    """Return a sample's phases; none where its timeline is too short for them."""
    if not is_long_enough(sample):
        return PhaseTimeline(sample, {})
    counts = [float(count) for count in slice_counts(sample)]
    slice_s = sample.timeline.slice_ns / NS_PER_S
    indices: dict[PhaseName, list[int]] = {}
    for span in spans_within(sample):
        first = math.ceil(span.from_s / slice_s - 1e-6)
        until = min(len(counts), math.floor(span.to_s / slice_s + 1e-6))
        indices.setdefault(span.phase, []).extend(range(first, until))
    later = [index for phase, own in indices.items() if phase != "before" for index in own]
    broken = [*range(min(later), max(later) + 1)] if later else []
    if "before" in indices:
        indices["before"] = _without_start_up(counts, indices["before"], slice_s)

    def part(own: list[int]) -> Part:
        return Part([counts[index] for index in own], slice_s, own)

    parts = {phase: part(own) for phase, own in indices.items() if len(own) >= SLICES_OF_PHASE_MIN}
    return PhaseTimeline(sample, parts, part(broken) if broken else None)


def _without_start_up(counts: Sequence[float], indices: list[int], slice_s: float) -> list[int]:
    """Return slices without those of a start-up phase."""
    if len(indices) < SLICES_MIN:
        return indices
    return indices[start_up_steps(np.array([counts[index] / slice_s for index in indices])) :]


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
        p99=estimate_of_rounds(p99s, "ns", resolution_share=HISTOGRAM_RESOLUTION_SHARE)
        if len(p99s) == len(timelines)
        else None,
    )


def _half_of_share(timeline: PhaseTimeline, name: PhaseName) -> float | None:
    """Return half of the width of a share's logarithm: both of its rates are uncertain."""
    halves = [timeline.parts[each].log_half_width for each in ("before", name)]
    known = [half for half in halves if half is not None]
    return math.hypot(*known) if len(known) == len(halves) else None


def _within(estimate: Estimate, log_half: float | None) -> Estimate:
    """Return a figure of one round with the interval from its slices, as a factor."""
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

    The lowest of all rounds is an extreme value that falls with observation time; the one before
    the event is the baseline.
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


INVARIANT: Final = "invariant_holds"
"""Reported by a database's driver on the sums of pgbench's tables: 1 if they match."""
REBUILD_SHARE: Final = "rebuild_share"
_FAULT_WORDS: Final = {
    "failed": "drive {member} failed",
    "bad_sectors": "sectors of {member} became unreadable",
    "rotten": "data of {member} were silently corrupted",
    "faltering": "{member} began to fail every other second",
    "dropping_writes": "{member} began to drop acknowledged writes",
    "replaced": "{member} replaced a failed drive",
    "scrub_started": "a scrub started",
    "fault_failed": "the fault could not be injected",
}
"""Events that were injected."""


@dataclass(frozen=True)
class Rebuild:
    """One rebuild of one leg.

    Attributes:
        length_s: Duration; None if its end was not observed.
        ended_s: End, from the start of the sample.
    """

    length_s: float | None
    ended_s: float | None


def recoveries(cells: Sequence[CellSummary], targets: Mapping[str, Target]) -> list[Recovery]:
    """Return the recovery of each cell with injected faults.

    Args:
        cells: The cells.
        targets: The fingerprints of the layouts, by label.
    """
    found = (
        recovery_of(summary, targets.get(summary.cell.target))
        for summary in cells
        if is_breaking_summary(summary)
    )
    return [each for each in found if each]


def recovery_of(summary: CellSummary, target: Target | None = None) -> Recovery | None:
    """Return the recovery of one cell; None if its samples have no events.

    Args:
        summary: The cell.
        target: The fingerprint of its layout.
    """
    spec = layout_of(summary)
    samples = [s for s in counted(summary.samples) if s.layout and s.layout.events]
    if spec is None or not samples:
        return None
    timelines = [phase_timeline_of(sample) for sample in samples]
    rebuilt = [(sample, rebuild) for sample in samples for rebuild in _rebuilds(sample)]
    lengths_s = [each.length_s for _, each in rebuilt if each.length_s]
    unfinished = [sample for sample, each in rebuilt if each.ended_s is None]
    survived = _losses_survived(spec)
    # Whether one more failure could have lost data at any time.
    exposed = any(missing_max(sample) >= survived for sample in samples)
    closed_s, open_s = _windows_s(samples, survived if exposed else 1)
    lowest, lowest_before = lowest_shares(timelines)
    checks = [sample.verification for sample in samples if sample.verification]
    records = [sample.layout for sample in samples if sample.layout]
    return Recovery(
        cell=summary.cell,
        variant=variant(spec, summary.cell.target),
        rounds=len(samples),
        faults=[_fault_phrase(each) for each in records[0].events if each.what in _FAULT_WORDS],
        phases=phase_figures(timelines),
        lowest_share=lowest,
        lowest_share_before=lowest_before,
        longest_stall_s=max((_longest_stall_s(sample) for sample in samples), default=0.0),
        rebuild_time=_duration(lengths_s),
        after_load_count=sum(
            each.ended_s is not None and each.ended_s > sample.duration_s
            for sample, each in rebuilt
        ),
        rebuild_rate=_rebuild_rate(spec, records[0], target, lengths_s),
        unfinished_count=len(unfinished),
        unfinished_share=_unfinished_share(unfinished),
        window=_duration(closed_s),
        window_open_s=max(open_s, default=None),
        exposed=exposed,
        at_stake_bytes=max(record.usable_bytes for record in records),
        failed_count=sum(sample.outcome.failed for sample in samples),
        offered_count=sum(sample.outcome.offered for sample in samples),
        corrupt_blocks=sum(check.corrupt_blocks for check in checks) if checks else None,
        checked_blocks=sum(check.checked_blocks for check in checks),
        unreadable_bytes=_sum_known([record.unreadable_bytes for record in records]),
        checked_bytes=sum(record.checked_bytes for record in records),
        wrong_bytes=_sum_known([record.wrong_bytes for record in records]),
        sums_differ_count=_sums_differ_count(samples),
        array_failed_count=sum(
            any(event.what == "array_failed" for event in record.events) for record in records
        ),
        mismatch_blocks=_sum_known([record.mismatch_blocks for record in records]),
        rebuild_limit_kib_per_s=records[0].rebuild_limit_kib_per_s or None,
    )


def _sums_differ_count(samples: Sequence[Sample]) -> int | None:
    """Return after how many samples the sums of a database's tables differed; None if unknown."""
    reported = [sample.database.reported.get(INVARIANT) for sample in samples if sample.database]
    known = [holds for holds in reported if holds is not None]
    return sum(not holds for holds in known) if known else None


def _fault_phrase(event: ArrayEvent) -> str:
    if event.what == "failed" and not event.member:
        return f"a drive failed {event.detail or 'spontaneously'}"
    words = _FAULT_WORDS[event.what].format(member=event.member or "the array")
    detail = f" ({event.detail})" if event.detail and event.what == "fault_failed" else ""
    return f"{words} after {format_duration_s(event.at_s)}{detail}"


def _rebuilds(sample: Sample) -> Iterator[Rebuild]:
    """Yield the rebuilds of a sample; one that was interrupted by a failure continues later."""
    started: dict[int, float] = {}
    for event in sample.layout.events if sample.layout else []:
        if event.what == "rebuild_started":
            started.setdefault(event.leg, event.at_s)
        elif event.what == "rebuild_ended":
            from_s = started.pop(event.leg, None)
            # A rebuild that started and ended between two polls has no start.
            length_s = event.at_s - from_s if from_s is not None else None
            yield Rebuild(length_s=length_s, ended_s=event.at_s)
    for _ in started:
        yield Rebuild(length_s=None, ended_s=None)


def _windows_s(samples: Sequence[Sample], missing: int) -> tuple[list[float], list[float]]:
    """Return how long each sample lacked this many drives: completed windows, and open ones."""
    closed_s: list[float] = []
    open_s: list[float] = []
    for sample in samples:
        spans = [span for span in spans_of(sample) if span.missing >= missing]
        if spans:
            lengths_s = open_s if missing_at_end(sample) >= missing else closed_s
            lengths_s.append(math.fsum(span.length_s for span in spans))
    return closed_s, open_s


def _losses_survived(spec: LayoutSpec) -> int:
    """Return how many drives of a leg must be missing before the next failure loses data; >= 1."""
    return max(1, spec.facts.losses_survived(spec.drives))


def _longest_stall_s(sample: Sample) -> float:
    """Return the longest stall, counted from the first event."""
    first_s = sample.layout.events[0].at_s if sample.layout and sample.layout.events else 0.0
    after_s = (
        stall.start_s + stall.length_s - max(first_s, stall.start_s) for stall in sample.stalls
    )
    return max((length_s for length_s in after_s if length_s > 0), default=0.0)


def _duration(lengths_s: Sequence[float]) -> Estimate | None:
    """Return the mean of durations, in ns; None if there are none."""
    if not lengths_s:
        return None
    return estimate_of_rounds([length_s * NS_PER_S for length_s in lengths_s], "ns")


def _member_bytes(spec: LayoutSpec, record: LayoutRecord, target: Target | None) -> float | None:
    """Return the bytes rebuilt per drive; None if only used space is rebuilt (btrfs, ZFS).

    The capacity of a file system is less than the array below it.
    """
    if spec.backend in FILESYSTEMS:
        return None
    array_bytes = record.usable_bytes if spec.filesystem == "none" else None
    if target and target.stack:
        array_bytes = target.stack[0].size_bytes
    return array_bytes / spec.data_members if array_bytes else None


def _rebuild_rate(
    spec: LayoutSpec, record: LayoutRecord, target: Target | None, lengths_s: Sequence[float]
) -> Estimate | None:
    own_bytes = _member_bytes(spec, record, target)
    if own_bytes is None or not lengths_s:
        return None
    return estimate_of_rounds([own_bytes / length_s for length_s in lengths_s], "B/s")


def _unfinished_share(samples: Sequence[Sample]) -> float | None:
    """Return the largest last known progress of the unfinished rebuilds."""
    shares = []
    for sample in samples:
        columns = sample.series.columns if sample.series else {}
        known = [share for share in columns.get(REBUILD_SHARE, []) if share is not None]
        shares += known[-1:]
    return max(shares, default=None)


def _sum_known(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def limit_tables(found: Sequence[Recovery]) -> list[LimitTable]:
    """Return rebuild time against service for cells with rebuilds that differ only in the limit."""
    groups: dict[str, list[Recovery]] = {}
    for each in found:
        common = {k: v for k, v in each.cell.identity().items() if k != REBUILD_LIMIT}
        groups.setdefault(repr(common), []).append(each)
    return [
        _limit_table(group)
        for group in groups.values()
        if len({each.rebuild_limit_kib_per_s for each in group}) > 1
        and any(each.rebuild_time or each.unfinished_count for each in group)
    ]


def _limit_table(group: Sequence[Recovery]) -> LimitTable:
    ordered = sorted(group, key=lambda each: each.rebuild_limit_kib_per_s or math.inf)
    cell = ordered[0].cell
    return LimitTable(
        target=cell.target,
        cell={k: v for k, v in cell.identity().items() if k not in (REBUILD_LIMIT, "target")},
        rows=[_limit_row(each) for each in ordered],
    )


def _limit_row(of: Recovery) -> LimitRow:
    phase = of.phase("rebuild")
    return LimitRow(
        limit_kib_per_s=of.rebuild_limit_kib_per_s,
        rebuild_time=of.rebuild_time,
        unfinished_count=of.unfinished_count,
        after_load_count=of.after_load_count,
        share=phase.share if phase else None,
        p99=phase.p99 if phase else None,
    )
