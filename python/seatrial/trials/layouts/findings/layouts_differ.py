"""Finding ``layouts_differ``: layouts that differ in one factor have different rates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

from seatrial.findings.context import Context, identities
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.stats.compare.comparison import MARGIN_SHARE_DEFAULT
from seatrial.stats.compare.verdict import ratio_phrase
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_plural
from seatrial.trials.layouts.analysis.model import LayoutRatio, layouts_of
from seatrial.trials.layouts.analysis.sweep import word

PAIRS_SHOWN_MAX: Final = 3


@from_samples(rank=470, section="Layouts")
def layouts_differ(context: Context) -> list[Finding]:
    """Find pairs whose rates differ significantly by more than 5 %, one finding per difference.

    All pairs of a run are tested together (analysis/ratios.py).

    Means:
        Two layouts that differ in a single factor (backend, level, chunk, legs, file system, ...)
        have different rates.

    Decided:
        Rounds are compared in pairs, each operation separately over all common tests, with a Holm
        correction over all pairs of a run: the adjusted p value is at most 5 % and the ratio
        differs by more than 5 %. Note.

    Do:
        Choose the faster one if its disadvantages do not matter. The table of layouts also lists
        the pairs without a significant difference.
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


class LayoutsDifferFigures(Figures, frozen=True, kw_only=True, tag="layouts_differ"):
    factor: str
    value_a: str | int | float
    value_b: str | int | float
    pairs: list[dict[str, str | float | None]]
    ordered: Annotated[list[LayoutRatio], HIDDEN]

    def text(self) -> FindingText:
        text = "; ".join(_words(each) for each in self.ordered[:PAIRS_SHOWN_MAX])
        more = len(self.ordered) - PAIRS_SHOWN_MAX
        rest = f"; and {format_plural(more, 'further difference')}" if more > 0 else ""
        factor = f"only in {self.factor.removesuffix('_kib').replace('_', '-')}"
        if self.factor == "layout":
            factor = "in their options"
        return FindingText(
            sentence=(
                f"Layouts that differ {factor} have different rates, "
                f"{word(self.factor, self.value_b)} compared with "
                f"{word(self.factor, self.value_a)}: {text}{rest}."
            ),
            cause=_CAUSES.get(self.factor, _CAUSE),
            next=(
                "Choose the faster one if its disadvantages do not matter. The table of layouts "
                "also lists the pairs without a significant difference, with the rounds needed to "
                "decide."
            ),
        )


def _finding(context: Context, group: Sequence[LayoutRatio]) -> Finding:
    ordered = sorted(group, key=lambda each: -_distance(each))
    first = ordered[0]
    targets = {each.a for each in group} | {each.b for each in group}
    return Finding(
        severity="note",
        cells=identities(c for c in context.cells if c.cell.target in targets),
        figures=LayoutsDifferFigures(
            factor=first.factor,
            value_a=first.value_a,
            value_b=first.value_b,
            pairs=[
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
            ordered=ordered,
        ),
    )


def _words(each: LayoutRatio) -> str:
    cells = f" over {format_plural(each.cells, 'test')}" if each.cells > 1 else ""
    return f"{each.operation} {each.b} {ratio_phrase(each.ratio)} of {each.a}{cells}"


_CAUSE: Final = "The layouts differ in nothing else, so this factor is the cause."
_CAUSES: Final = {
    "backend": (
        "Implementations of the same level differ in locking, in how they split requests, and in "
        "where they store metadata."
    ),
    "level": (
        "Each level takes different device I/O: copies and parity cost writes; the table of device "
        "I/O has the numbers."
    ),
    "chunk_kib": "The chunk size determines the stripe size and how many drives a request uses.",
    "legs": "Two arrays share the load: each has its own locks and its own controller.",
    "filesystem": "File systems allocate, lock and journal differently.",
}
