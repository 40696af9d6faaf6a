"""What the analysis of layouts asks of cells and samples."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from seatrial.results.model import LayoutRecord
from seatrial.stats.broken import is_breaking, is_broken
from seatrial.stats.model import CellSummary
from seatrial.study.cell import FactorValue
from seatrial.study.layouts.layout import LayoutSpec
from seatrial.trials.layouts.analysis.model import Variant

BESIDE_FACTORS: Final = (
    *("stripe_kib", "mkfs_options", "mount_options", "logs", "caches", "size_bytes"),
    *("member_bytes", "delay_ms"),
)
"""What else may tell two layouts apart, that no sweep varies."""


def spec_of(record: LayoutRecord) -> LayoutSpec | None:
    """Return the variant that a sample was taken on; None of a record of another version."""
    try:
        return msgspec.convert(record.layout, LayoutSpec)
    except msgspec.ValidationError:
        return None


def layout_of(summary: CellSummary) -> LayoutSpec | None:
    """Return the variant of a cell; None where it was not measured on a layout."""
    known = (spec_of(sample.layout) for sample in summary.samples if sample.layout)
    return next((spec for spec in known if spec), None)


def is_breaking_summary(summary: CellSummary) -> bool:
    """Tell whether a cell breaks something, or something broke in one of its samples."""
    return is_breaking(summary.cell) or any(is_broken(sample) for sample in summary.samples)


def variant_of(summary: CellSummary) -> Variant | None:
    """Return what a cell was measured on; None where that is no layout."""
    spec = layout_of(summary)
    return variant(spec, summary.cell.target) if spec else None


def variant(spec: LayoutSpec, target: str) -> Variant:
    """Return a layout, or the leg of it that a target is."""
    is_leg = leg_of(spec, target) > 0
    drives = spec.drives if is_leg else spec.legs * spec.drives
    beside: dict[str, FactorValue] = {
        name: str(value) for name in BESIDE_FACTORS if (value := getattr(spec, name))
    }
    return Variant(
        target=target,
        label=spec.label,
        factors=spec.factors() | {"drives": drives} | beside,
        drives=drives,
        losses_survived=spec.facts.losses_survived(spec.drives),
    )


def leg_of(spec: LayoutSpec, target: str) -> int:
    """Return which leg of a layout a target is, from 1; 0 where it is the whole."""
    if spec.expose != "legs":
        return 0
    number = target.removeprefix(f"{spec.label}-leg")
    return int(number) if number.isdecimal() else 0


def variants_of(cells: Iterable[CellSummary]) -> list[Variant]:
    """Return what a run's cells were measured on, each once, in the order of the cells."""
    found = (variant_of(summary) for summary in cells)
    return list({each.target: each for each in found if each}.values())
