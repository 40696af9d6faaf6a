"""What a failure costs: the dip, the rebuild, the time without redundancy, errors, lost data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from seatrial.results.model import ArrayEvent, LayoutRecord, Sample
from seatrial.stats.estimate import Estimate
from seatrial.stats.estimates import counted, estimate_of_rounds
from seatrial.stats.model import CellSummary
from seatrial.stats.timeline import NS_PER_S
from seatrial.stats.wording import format_duration_s
from seatrial.study.layouts.layout import FILESYSTEMS, LayoutSpec
from seatrial.study.sampled import REBUILD_LIMIT
from seatrial.trials.layouts.analysis.model import LimitRow, LimitTable, Recovery
from seatrial.trials.layouts.analysis.phase_timeline import (
    lowest_shares,
    phase_figures,
    phase_timeline_of,
)
from seatrial.trials.layouts.analysis.phases import FAULTS, missing_at_end, missing_max, spans_of
from seatrial.trials.layouts.analysis.samples import is_breaking_summary, layout_of, variant

INVARIANT: Final = "invariant_holds"
"""What a database's driver tells of the sums of pgbench's tables: 1 where they agree."""
REBUILD_SHARE: Final = "rebuild_share"
_DEED_WORDS: Final = {
    "failed": "drive {member} failed",
    "bad_sectors": "sectors of {member} became unreadable",
    "rotten": "data of {member} rotted in silence",
    "faltering": "{member} began to fail in every other second",
    "dropping_writes": "{member} began to drop writes that it said were done",
    "replaced": "{member} took the place of a failed drive",
    "scrub_started": "a scrub began",
    "fault_failed": "what was to be done could not be",
}


@dataclass(frozen=True)
class Rebuild:
    """One rebuild of one leg.

    Attributes:
        length_s: How long it took; None where it was not seen to end.
        ended_s: When it ended, from the sample's start.
    """

    length_s: float | None
    ended_s: float | None


def recoveries(cells: Sequence[CellSummary]) -> list[Recovery]:
    """Return what became of each cell in whose samples something was broken."""
    found = (recovery_of(summary) for summary in cells if is_breaking_summary(summary))
    return [each for each in found if each]


def recovery_of(summary: CellSummary) -> Recovery | None:
    """Return what became of one cell; None where nothing happened in any of its samples."""
    spec = layout_of(summary)
    samples = [s for s in counted(summary.samples) if s.layout and s.layout.events]
    if spec is None or not samples:
        return None
    timelines = [phase_timeline_of(sample) for sample in samples]
    rebuilt = [(sample, rebuild) for sample in samples for rebuild in _rebuilds(sample)]
    lengths_s = [each.length_s for _, each in rebuilt if each.length_s]
    unfinished = [sample for sample, each in rebuilt if each.ended_s is None]
    exposed = any(_is_exposed(sample, spec) for sample in samples)
    closed_s, open_s = _windows_s(samples, _losses_survived(spec) if exposed else 1)
    lowest, lowest_before = lowest_shares(timelines)
    checks = [sample.verification for sample in samples if sample.verification]
    records = [sample.layout for sample in samples if sample.layout]
    return Recovery(
        cell=summary.cell,
        variant=variant(spec, summary.cell.target),
        rounds=len(samples),
        faults=[_fault_words(each) for each in records[0].events if each.what in FAULTS],
        phases=phase_figures(timelines),
        lowest_share=lowest,
        lowest_share_before=lowest_before,
        longest_stall_s=max((_longest_stall_s(sample) for sample in samples), default=0.0),
        rebuild_time=_duration(lengths_s),
        after_load_count=sum(
            each.ended_s is not None and each.ended_s > sample.duration_s
            for sample, each in rebuilt
        ),
        rebuild_rate=_rebuild_rate(spec, records[0], lengths_s),
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
        array_failed_count=sum(_has_failed(record) for record in records),
        mismatch_blocks=_sum_known([record.mismatch_blocks for record in records]),
        rebuild_limit_kib_per_s=records[0].rebuild_limit_kib_per_s or None,
    )


def _sums_differ_count(samples: Sequence[Sample]) -> int | None:
    """Return after how many samples the sums of a database's tables differed, if any tells."""
    reported = [sample.database.reported.get(INVARIANT) for sample in samples if sample.database]
    known = [holds for holds in reported if holds is not None]
    return sum(not holds for holds in known) if known else None


def _fault_words(event: ArrayEvent) -> str:
    if event.what == "failed" and not event.member:
        return f"a drive failed {event.detail or 'of its own accord'}"
    words = _DEED_WORDS[event.what].format(member=event.member or "the array")
    detail = f" ({event.detail})" if event.detail and event.what == "fault_failed" else ""
    return f"{words} after {format_duration_s(event.at_s)}{detail}"


def _rebuilds(sample: Sample) -> Iterator[Rebuild]:
    """Yield the rebuilds of a sample; one that a later failure broke off goes on in the next."""
    started: dict[int, float] = {}
    for event in sample.layout.events if sample.layout else []:
        if event.what == "rebuild_started":
            started.setdefault(event.leg, event.at_s)
        elif event.what == "rebuild_ended":
            from_s = started.pop(event.leg, None)
            # One that came and went between two looks has no start.
            length_s = event.at_s - from_s if from_s is not None else None
            yield Rebuild(length_s=length_s, ended_s=event.at_s)
    for _ in started:
        yield Rebuild(length_s=None, ended_s=None)


def _windows_s(samples: Sequence[Sample], missing: int) -> tuple[list[float], list[float]]:
    """Return how long each sample lacked so many drives: of those that ended, and of the others."""
    closed_s: list[float] = []
    open_s: list[float] = []
    for sample in samples:
        spans = [span for span in spans_of(sample) if span.missing >= missing]
        if spans:
            lengths_s = open_s if missing_at_end(sample) >= missing else closed_s
            lengths_s.append(math.fsum(span.length_s for span in spans))
    return closed_s, open_s


def _is_exposed(sample: Sample, spec: LayoutSpec) -> bool:
    """Tell whether one more failure could have lost data at any time."""
    return missing_max(sample) >= _losses_survived(spec)


def _losses_survived(spec: LayoutSpec) -> int:
    """Return the drives that a leg must lack for the next loss to cost data; at least 1."""
    return max(1, spec.facts.losses_survived(spec.drives))


def _longest_stall_s(sample: Sample) -> float:
    """Return the longest stall, as far as it lies after the first event."""
    first_s = sample.layout.events[0].at_s if sample.layout and sample.layout.events else 0.0
    after_s = (
        stall.start_s + stall.length_s - max(first_s, stall.start_s) for stall in sample.stalls
    )
    return max((length_s for length_s in after_s if length_s > 0), default=0.0)


def _duration(lengths_s: Sequence[float]) -> Estimate | None:
    """Return the mean of durations, in ns; None of none."""
    if not lengths_s:
        return None
    return estimate_of_rounds([length_s * NS_PER_S for length_s in lengths_s], "ns")


def member_bytes(spec: LayoutSpec, record: LayoutRecord) -> float | None:
    """Return what is rebuilt of a drive; None where only what is in use is (btrfs, ZFS)."""
    if spec.backend in FILESYSTEMS or not record.usable_bytes:
        return None
    return record.usable_bytes / spec.data_members


def _rebuild_rate(
    spec: LayoutSpec, record: LayoutRecord, lengths_s: Sequence[float]
) -> Estimate | None:
    own_bytes = member_bytes(spec, record)
    if own_bytes is None or not lengths_s:
        return None
    return estimate_of_rounds([own_bytes / length_s for length_s in lengths_s], "B/s")


def _unfinished_share(samples: Sequence[Sample]) -> float | None:
    """Return how far the rebuilds that did not end were at most, as last seen."""
    shares = []
    for sample in samples:
        columns = sample.series.columns if sample.series else {}
        known = [share for share in columns.get(REBUILD_SHARE, []) if share is not None]
        shares += known[-1:]
    return max(shares, default=None)


def _has_failed(record: LayoutRecord) -> bool:
    return any(event.what == "array_failed" for event in record.events)


def _sum_known(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def limit_tables(found: Sequence[Recovery]) -> list[LimitTable]:
    """Return rebuild time against service of those cells that differ in the limit alone."""
    groups: dict[str, list[Recovery]] = {}
    for each in found:
        common = {k: v for k, v in each.cell.identity().items() if k != REBUILD_LIMIT}
        groups.setdefault(repr(common), []).append(each)
    return [_limit_table(group) for group in groups.values() if _varies(group)]


def _varies(group: Sequence[Recovery]) -> bool:
    return len({each.rebuild_limit_kib_per_s for each in group}) > 1


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
        after_load_count=of.after_load_count,
        share=phase.share if phase else None,
        p99=phase.p99 if phase else None,
    )
