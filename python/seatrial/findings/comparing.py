"""Figures and sentences that the findings of a comparison share."""

from __future__ import annotations

import math
from typing import Annotated

from seatrial.published import HIDDEN
from seatrial.stats.compare.fingerprints import summary_phrase
from seatrial.stats.compare.model import Comparison, Difference, FigureComparison
from seatrial.stats.compare.verdict import (
    distance_share,
    figure_phrase,
    is_dead,
    judged,
    ratio_phrase,
)
from seatrial.stats.model import Estimate, Figures, Finding
from seatrial.stats.wording import format_count, format_identity, format_plural


class ChangeFigures(Figures, frozen=True, kw_only=True):
    """Figures of a comparison whose sides differ significantly.

    Attributes:
        cells_count: Cells with a significant change in this direction.
        ratio_by_figure: Overall ratios with a significant change in this direction.
        change_share_max: Largest distance of a ratio from 1; half and twice as much are equally
            far. None where nothing completed on B.
        likely_reasons: Paths of the differences between the fingerprints that are likely reasons.
        paired: Whether both sides were measured in the same rounds.
    """

    cells_count: int
    ratio_by_figure: dict[str, float]
    change_share_max: float | None
    likely_reasons: list[str]
    paired: bool
    a: Annotated[str, HIDDEN]
    b: Annotated[str, HIDDEN]
    word: Annotated[str, HIDDEN]
    overall: Annotated[dict[str, Estimate], HIDDEN]
    overall_cells_counts: Annotated[dict[str, int], HIDDEN]
    all_cells_count: Annotated[int, HIDDEN]
    worst: Annotated[FigureComparison | None, HIDDEN]
    are_dead: Annotated[bool, HIDDEN]
    differences: Annotated[list[Difference], HIDDEN]
    has_fingerprints: Annotated[bool, HIDDEN]

    def in_short(self, cells_count: int) -> str:
        """Return the change with the number of tests, if it is one of some tests only."""
        if self.overall or cells_count == self.all_cells_count:
            return ""
        every = format_plural(self.all_cells_count, "test")
        return f"{self.b} is {self.word} than {self.a} in {format_count(cells_count)} of {every}"

    def sentence(self) -> str:
        """Return the change: overall, in how many tests, and the largest one."""
        text = f"{self.b} is {self.word} than {self.a}"
        if self.overall:
            text += f" {'; '.join(self._over_cells())}"
        return f"{text}; {self._of_cells()}."

    def _over_cells(self) -> list[str]:
        """Return the overall ratios, those over equally many tests together."""
        parts: dict[int, list[str]] = {}
        for name, ratio in self.overall.items():
            phrase = f"{figure_phrase(name)} {ratio_phrase(ratio)}"
            parts.setdefault(self.overall_cells_counts[name], []).append(phrase)
        return [
            f"over {format_plural(count, 'test')}: {', '.join(phrases)}"
            for count, phrases in parts.items()
        ]

    def _of_cells(self) -> str:
        """Return how many tests changed significantly, and the one that changed most."""
        if self.worst is None:
            return "no single test changed significantly"
        where = format_identity(self.worst.identity)
        most = f"{figure_phrase(self.worst.figure)} {ratio_phrase(self.worst.ratio)} in {where}"
        every = format_plural(self.all_cells_count, "test")
        if self.are_dead:
            return f"nothing completed in {format_count(self.cells_count)} of {every}"
        if self.cells_count == 1:
            return f"significant in 1 of {every}: {most}"
        return f"significant in {format_count(self.cells_count)} of {every}; largest change: {most}"

    def cause(self) -> str:
        """Return the likely reasons: differences of the fingerprints, if any."""
        likely = summary_phrase(self.differences)
        if likely:
            return f"Likely reasons, from the two fingerprints: {likely}."
        if not self.has_fingerprints:
            return "Unknown without the fingerprints of both sides."
        return (
            "The two fingerprints show no difference that usually matters. They cannot show wear "
            "and fill level of the drive, temperature, burst credit or the load of other tenants."
        )


def changes(
    comparison: Comparison, figures: type[ChangeFigures], *, is_worse: bool
) -> list[Finding]:
    """Return the finding that B is significantly worse, or better, than A."""
    judgement = judged(comparison, is_worse=is_worse)
    if not judgement:
        return []
    cells, overall = judgement.cells, judgement.overall
    ratios = [*overall.values(), *(each.ratio for each in cells)]
    share_max = max(distance_share(ratio) for ratio in ratios)
    identities = {each.key: each.identity for each in cells}
    is_large = is_worse and share_max > comparison.margin_share
    found = figures(
        cells_count=len(identities),
        ratio_by_figure={name: ratio.value for name, ratio in overall.items()},
        change_share_max=share_max if math.isfinite(share_max) else None,
        likely_reasons=[each.path for each in comparison.differences if each.weight == "likely"],
        paired=comparison.paired,
        a=comparison.a.name,
        b=comparison.b.name,
        word=judgement.word,
        overall=overall,
        overall_cells_counts={name: comparison.overall_answers[name].cells for name in overall},
        all_cells_count=len({each.key for each in comparison.comparands}),
        worst=max(cells, key=lambda each: distance_share(each.ratio), default=None),
        are_dead=all(map(is_dead, cells)),
        differences=comparison.differences,
        has_fingerprints=all(
            side.run.fingerprint_before.is_taken for side in (comparison.a, comparison.b)
        ),
    )
    severity = "warning" if is_large else "note"
    return [Finding(severity=severity, cells=list(identities.values()), figures=found)]
