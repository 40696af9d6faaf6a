"""How arrays are put into words: which variants a run has, their drives, chunks and times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from seatrial.findings.model import Summary
from seatrial.report.figures.naming import grouped
from seatrial.report.table import NO_FIGURE, doubt_text
from seatrial.results.model import LayoutRecord
from seatrial.stats.estimates import estimate_of_rounds
from seatrial.stats.model import CellSummary, Estimate
from seatrial.stats.wording import format_identity, format_plural, format_size, format_value
from seatrial.study.cell import Cell
from seatrial.study.layouts.layout import LayoutSpec
from seatrial.trials.layouts.analysis.model import layouts_of
from seatrial.trials.layouts.analysis.samples import spec_of

KIB: Final = 1024
CHUNKED: Final = ("raid0", "raid10", "raid5", "raid6")
"""Levels whose stripes have a chunk that a layout chooses."""


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """One variant of a layout as a run found it.

    Attributes:
        spec: As planned.
        records: Of all its samples, with the round of each.
    """

    spec: LayoutSpec
    records: list[tuple[int, LayoutRecord]]

    @property
    def record(self) -> LayoutRecord:
        """What tells how it was built."""
        return self.records[0][1]


def variants_of(summary: Summary) -> list[Variant]:
    """Return the variants of a run in the order of its cells; none where it built nothing."""
    found = [
        (sample.round, sample.layout)
        for part in summary.cells
        for sample in part.samples
        if sample.layout
    ]
    by_label = grouped(found, lambda each: str(each[1].layout.get("label", "")))
    known = ((spec_of(records[0][1]), records) for records in by_label.values())
    return [Variant(spec=spec, records=records) for spec, records in known if spec]


def layout_sentences(summary: Summary) -> list[str]:
    """Return from how many drives on there is no more, and what is not aligned."""
    sweeps = analysis.sweeps if (analysis := layouts_of(summary)) else []
    ends = [f"{each.name}: {each.saturation.sentence}" for each in sweeps if each.saturation]
    return [*dict.fromkeys(ends), *misaligned(variants_of(summary))]


def misaligned(variants: Sequence[Variant]) -> list[str]:
    """Return what is not aligned in any of the variants, each as a sentence with its label."""
    return [
        f"{variant.spec.label}: {sentence}"
        for variant in variants
        for sentence in variant.record.misaligned
    ]


def is_of_layout(part: CellSummary) -> bool:
    """Tell whether a cell was measured on an array that was built for the trial."""
    return any(sample.layout for sample in part.samples)


def drives_text(spec: LayoutSpec) -> str:
    """Return the active drives: ``4``, or ``2 x 4`` of two legs."""
    return f"{spec.legs} x {spec.drives}" if spec.legs > 1 else str(spec.drives)


def others_text(spec: LayoutSpec) -> str:
    """Return drives beside the active ones: ``2 spares, 1 log``; a dash without any."""
    counts = {"spare": spec.legs * spec.spares, "log": spec.logs, "cache": spec.caches}
    reported = [format_plural(count, name) for name, count in counts.items() if count]
    return ", ".join(reported) or NO_FIGURE


def chunk_text(variant: Variant) -> str:
    """Return the chunk of a leg, and of the stripe over legs where it is another one.

    A file system that is the array itself has one of its own, as its backend tells.
    """
    spec = variant.spec
    if reported := variant.record.facts.get("chunk", ""):
        return reported.partition(",")[0]
    own = format_size(spec.chunk_kib * KIB) if spec.level in CHUNKED else ""
    stripe = format_size(spec.stripe_kib * KIB) if spec.is_striped else ""
    if own and stripe and own != stripe:
        return f"{own}, stripe {stripe}"
    return own or stripe or NO_FIGURE


def mean_of_builds(variant: Variant, name: str) -> Estimate | None:
    """Return how long ``built_s`` or ``synced_s`` took over the rounds, in ns as a duration.

    None where it never took any time, as an array that needs no synchronisation.
    """
    by_round = grouped(variant.records, lambda each: each[0])
    # A layout that was broken is built again within its round; equal times are one building.
    builds = [{float(getattr(record, name)) for _, record in kept} for kept in by_round.values()]
    lengths_s = [sum(times) / len(times) for times in builds]
    if not any(lengths_s):
        return None
    return estimate_of_rounds([length_s * 1e9 for length_s in lengths_s], "ns")


def with_doubt(estimate: Estimate | None) -> str:
    """Return a figure and how sure it is: ``2.13 s ± 3 %``, ``2.1 s (1 round)``; a dash of none."""
    if estimate is None:
        return NO_FIGURE
    doubt = doubt_text(estimate)
    reported = doubt if doubt.startswith(("±", "(")) else f"({doubt})"
    return f"{format_value(estimate).removesuffix(' count')} {reported}"


def workload_text(cell: Cell) -> str:
    """Return a cell in words without its target, which stands beside it."""
    identity = cell.identity()
    del identity["target"]
    return format_identity(identity)
