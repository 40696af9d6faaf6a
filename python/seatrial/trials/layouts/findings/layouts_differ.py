"""Finding ``layouts_differ``: layouts that differ in one thing alone, and surely in their rates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from seatrial.findings.context import Context, identities
from seatrial.findings.rule import from_samples
from seatrial.stats.compare.comparison import MARGIN_SHARE_DEFAULT
from seatrial.stats.compare.verdict import ratio_words
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_plural
from seatrial.trials.layouts.analysis.model import LayoutRatio, layouts_of
from seatrial.trials.layouts.analysis.sweep import word

PAIRS_TOLD_MAX: Final = 3


@from_samples(rank=470, section="Of layouts")
def layouts_differ(context: Context) -> list[Finding]:
    """Find pairs whose rates surely differ by more than 5 %, one finding for the same difference.

    All pairs of a run are judged together (layouts/ratios.py).

    Means:
        Two layouts that differ in one thing alone (backend, level, chunk, legs, file system, ...)
        differ in their rates.

    Decided:
        Compared by rounds that are paired, each operation by itself over all common cells, all
        pairs of a run judged together (Holm): the adjusted p value is at most 5 % and the ratio is
        beyond 5 %. Note.

    Do:
        Take the faster one, if what it lacks does not matter. The table of layouts has the pairs
        that could not be told apart.
    """
    groups: dict[tuple[str, str, str], list[LayoutRatio]] = {}
    for each in analysis.ratios if (analysis := layouts_of(context)) else []:
        if each.answer in ("higher", "lower") and _distance(each) > MARGIN_SHARE_DEFAULT:
            key = (each.factor, str(each.value_a), str(each.value_b))
            groups.setdefault(key, []).append(each)
    return [_finding(context, group) for group in groups.values()]


def _distance(ratio: LayoutRatio) -> float:
    """Return how far a ratio is from 1; half and twice as much are equally far."""
    return max(ratio.ratio.value, 1 / ratio.ratio.value) - 1


def _finding(context: Context, group: Sequence[LayoutRatio]) -> Finding:
    ordered = sorted(group, key=lambda each: -_distance(each))
    first = ordered[0]
    targets = {each.a for each in group} | {each.b for each in group}
    reported = "; ".join(_words(each) for each in ordered[:PAIRS_TOLD_MAX])
    more = len(ordered) - PAIRS_TOLD_MAX
    rest = f"; and {format_plural(more, 'further difference')}" if more > 0 else ""
    factor = "in their options" if first.factor == "layout" else f"in {_named(first.factor)} alone"
    return Finding(
        kind="layouts_differ",
        severity="note",
        cells=identities(c for c in context.cells if c.cell.target in targets),
        sentence=(
            f"Layouts that differ {factor} differ in their rates, "
            f"{word(first.factor, first.value_b)} against {word(first.factor, first.value_a)}: "
            f"{reported}{rest}."
        ),
        cause=_CAUSES.get(first.factor, _CAUSE),
        evidence={
            "factor": first.factor,
            "value_a": first.value_a,
            "value_b": first.value_b,
            "pairs": [
                {
                    "a": each.a,
                    "b": each.b,
                    "operation": each.operation,
                    "rate_ratio": each.ratio.value,
                    "rate_ratio_low": each.ratio.low,
                    "rate_ratio_high": each.ratio.high,
                    "p_adjusted": each.p_adjusted,
                    "cells_count": each.cells,
                }
                for each in ordered
            ],
        },
        next=(
            "Take the faster one if what it lacks does not matter to you; the table of layouts "
            "has the pairs that could not be told apart, with the rounds that would decide."
        ),
    )


def _words(each: LayoutRatio) -> str:
    cells = f" over {format_plural(each.cells, 'cell')}" if each.cells > 1 else ""
    return f"{each.operation} {each.b} {ratio_words(each.ratio)} of {each.a}{cells}"


def _named(factor: str) -> str:
    return factor.removesuffix("_kib").replace("_", "-")


_CAUSE: Final = "Nothing else differs between them, so that it is this."
_CAUSES: Final = {
    "backend": (
        "The same drives, level and chunk under another implementation: its locks, the way it "
        "splits requests, and where it puts its metadata."
    ),
    "level": (
        "Each level asks its drives for something else: copies and parity cost writes, and the "
        "table of device I/Os says how many."
    ),
    "chunk_kib": "The chunk decides how many drives a request touches, and what a whole stripe is.",
    "legs": "Two arrays share the load of one: each has its own locks, and its own controller.",
    "filesystem": "File systems allocate, lock and journal differently.",
}
