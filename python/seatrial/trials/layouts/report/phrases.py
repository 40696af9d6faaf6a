"""Texts about layouts: the variants of a run, their drives, chunks, times and events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from seatrial.findings.model import Summary
from seatrial.grouping import grouped
from seatrial.report.figures.model import TimelineMark
from seatrial.report.table import NO_FIGURE, doubt_text
from seatrial.results.model import ArrayEvent, LayoutRecord, Sample
from seatrial.stats.cell_estimates import estimate_of_rounds
from seatrial.stats.facts import format_number
from seatrial.stats.model import CellSummary, Estimate
from seatrial.stats.wording import (
    format_duration_s,
    format_identity,
    format_plural,
    format_size,
    format_value,
)
from seatrial.study.cell import Cell
from seatrial.study.layouts.layout import LayoutSpec
from seatrial.trials.layouts.analysis.model import layouts_of, spec_of
from seatrial.trials.layouts.analysis.recovery import Span, spans_within
from seatrial.units import KIB

CHUNKED: Final = ("raid0", "raid10", "raid5", "raid6")
"""Levels with a configurable chunk size."""


class BuiltVariant(msgspec.Struct, frozen=True, kw_only=True):
    """One variant of a layout in a run.

    Attributes:
        spec: The variant.
        records: The records of all its samples, each with its round.
    """

    spec: LayoutSpec
    records: list[tuple[int, LayoutRecord]]

    @property
    def record(self) -> LayoutRecord:
        """The record of how it was built."""
        return self.records[0][1]


def variants_of(summary: Summary) -> list[BuiltVariant]:
    """Return the variants of a run in the order of its cells; empty if it built none."""
    found = [
        (sample.round, sample.layout)
        for part in summary.cells
        for sample in part.samples
        if sample.layout
    ]
    by_label = grouped(found, lambda each: str(each[1].layout.get("label", "")))
    known = ((spec_of(records[0][1]), records) for records in by_label.values())
    return [BuiltVariant(spec=spec, records=records) for spec, records in known if spec]


def layout_sentences(summary: Summary) -> list[str]:
    """Return sentences on saturation and on misalignment."""
    sweeps = analysis.sweeps if (analysis := layouts_of(summary)) else []
    ends = [f"{each.name}: {each.saturation.sentence}" for each in sweeps if each.saturation]
    return [*dict.fromkeys(ends), *misaligned(variants_of(summary))]


def misaligned(variants: Sequence[BuiltVariant]) -> list[str]:
    """Return a sentence with its label for each misalignment of the variants."""
    return [
        f"{variant.spec.label}: {sentence}"
        for variant in variants
        for sentence in variant.record.misaligned
    ]


def is_of_layout(part: CellSummary) -> bool:
    """Return whether a cell was measured on a layout."""
    return any(sample.layout for sample in part.samples)


def drives_text(spec: LayoutSpec) -> str:
    """Return the active drives: ``4``, or ``2 x 4`` for two legs."""
    return f"{spec.legs} x {spec.drives}" if spec.legs > 1 else str(spec.drives)


def others_text(spec: LayoutSpec) -> str:
    """Return the additional drives: ``2 spares, 1 log``; a dash if there are none."""
    counts = {"spare": spec.legs * spec.spares, "log": spec.logs, "cache": spec.caches}
    texts = [format_plural(count, name) for name, count in counts.items() if count]
    return ", ".join(texts) or NO_FIGURE


def chunk_text(variant: BuiltVariant) -> str:
    """Return the chunk of a leg, and that of the stripe over legs if it differs.

    For a file system that is the array itself, the backend reports its chunk.
    """
    spec = variant.spec
    if chunk := variant.record.facts.get("chunk", ""):
        return chunk.partition(",")[0]
    own = format_size(spec.chunk_kib * KIB) if spec.level in CHUNKED else ""
    stripe = format_size(spec.stripe_kib * KIB) if spec.is_striped else ""
    if own and stripe and own != stripe:
        return f"{own}, stripe {stripe}"
    return own or stripe or NO_FIGURE


def mean_of_builds(variant: BuiltVariant, name: str) -> Estimate | None:
    """Return the mean of ``built_s`` or ``synced_s`` over the rounds, in ns.

    None if it is 0 throughout, as for an array that needs no synchronisation.
    """
    by_round = grouped(variant.records, lambda each: each[0])
    # A layout with injected faults is rebuilt within its round; equal times are one build.
    builds = [{float(getattr(record, name)) for _, record in kept} for kept in by_round.values()]
    lengths_s = [sum(times) / len(times) for times in builds]
    if not any(lengths_s):
        return None
    return estimate_of_rounds([length_s * 1e9 for length_s in lengths_s], "ns")


def with_interval(estimate: Estimate | None) -> str:
    """Return a figure with its interval: ``2.13 s ± 3 %``, ``2.1 s (1 round)``; a dash for None."""
    if estimate is None:
        return NO_FIGURE
    interval = doubt_text(estimate)
    text = interval if interval.startswith(("±", "(")) else f"({interval})"
    return f"{format_value(estimate).removesuffix(' count')} {text}"


def workload_text(cell: Cell) -> str:
    """Return a cell in words without its target, which another column has."""
    identity = cell.identity()
    del identity["target"]
    return format_identity(identity)


EVENT_WORDS: Final = {
    "failed": "drive failed",
    "bad_sectors": "sectors unreadable",
    "rotten": "silent corruption",
    "faltering": "intermittent errors",
    "dropping_writes": "writes dropped",
    "replaced": "drive replaced",
    "rebuild_started": "rebuild started",
    "rebuild_ended": "rebuild ended",
    "scrub_started": "scrub started",
    "scrub_ended": "scrub ended",
    "array_failed": "array failed",
    "fault_failed": "fault injection failed",
}
"""Names of the kinds of events."""

PHASE_NAMES: Final = {
    "before": "before",
    "faulty": "with faults",
    "degraded": "degraded",
    "rebuild": "during rebuild",
    "scrub": "during scrub",
    "after": "after",
}
"""Names of the phases of a failure."""

ARRAY_COLUMNS: Final = (
    ("Rebuilt", "share", "rebuild_share"),
    ("Drives missing", "drives", "missing_members"),
)
"""Title, unit and column of the values read from an array during a sample."""


def array_marks(sample: Sample) -> list[TimelineMark]:
    """Return the events of the array over time; empty if there is no array."""
    events = sample.layout.events if sample.layout else []
    return [
        TimelineMark(round(event.at_s, 3), round(event.at_s, 3), "event", event_text(event))
        for event in events
    ]


def event_text(event: ArrayEvent) -> str:
    """Return an event as a phrase: ``drive failed at 20 s: /dev/loop3 of leg 2``."""
    what = EVENT_WORDS.get(event.what, event.what.replace("_", " "))
    leg = f" of leg {event.leg}" if event.leg and event.member else ""
    text = ", ".join(filter(None, [f"{event.member}{leg}", event.detail]))
    at = f"{what} at {_at(event.at_s)}"
    return f"{at}: {text}" if text else at


def dips_of(sample: Sample) -> list[TimelineMark]:
    """Return the phases in which the array was faulty, degraded, rebuilt or scrubbed."""
    return [
        TimelineMark(round(span.from_s, 3), round(span.to_s, 3), "dip", _span_text(span))
        for span in spans_within(sample)
        if span.phase not in ("before", "after")
    ]


def _span_text(span: Span) -> str:
    length = format_duration_s(span.length_s)
    return f"{PHASE_NAMES[span.phase]} for {length} from {_at(span.from_s)}"


def _at(at_s: float) -> str:
    return f"{format_number(round(at_s, 2))} s"


def events_after_end(sample: Sample) -> Sequence[ArrayEvent]:
    """Return the events after the end of the sample, which are outside of its chart."""
    events = sample.layout.events if sample.layout else []
    return [event for event in events if event.at_s > sample.duration_s]
