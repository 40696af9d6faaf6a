"""Figures and sentences that the findings of a comparison share."""

from __future__ import annotations

from typing import Annotated

from seatrial.published import HIDDEN
from seatrial.stats.compare.fingerprints import summary_phrase
from seatrial.stats.compare.model import Comparison, Difference, FigureComparison
from seatrial.stats.compare.verdict import figure_phrase, judged, ratio_phrase
from seatrial.stats.model import Estimate, Figures, Finding
from seatrial.stats.wording import format_count, format_identity, format_plural


class ChangeFigures(Figures, frozen=True, kw_only=True):
    """Figures of a comparison whose sides differ significantly.

    Attributes:
        cells_count: Cells with a significant change in this direction.
        ratio_by_figure: Overall ratios with a significant change in this direction.
        change_share_max: Largest distance of a ratio from 1; half and twice as much are equally
            far.
        likely_reasons: Paths of the differences between the fingerprints that are likely reasons.
        paired: Whether both sides were measured in the same rounds.
    """

    cells_count: int
    ratio_by_figure: dict[str, float]
    change_share_max: float
    likely_reasons: list[str]
    paired: bool
    a: Annotated[str, HIDDEN]
    b: Annotated[str, HIDDEN]
    word: Annotated[str, HIDDEN]
    overall: Annotated[dict[str, Estimate], HIDDEN]
    overall_cells_count: Annotated[int, HIDDEN]
    all_cells_count: Annotated[int, HIDDEN]
    worst: Annotated[FigureComparison | None, HIDDEN]
    differences: Annotated[list[Difference], HIDDEN]

    def sentence(self) -> str:
        """Return the change: overall, in how many tests, and the largest one."""
        reported = f"{self.b} is {self.word} than {self.a}"
        if self.overall:
            parts = [f"{figure_phrase(name)} {ratio_phrase(r)}" for name, r in self.overall.items()]
            cells = format_plural(self.overall_cells_count, "test")
            reported += f" over {cells}: {', '.join(parts)}"
        return f"{reported}; {self._of_cells()}."

    def _of_cells(self) -> str:
        """Return how many tests changed significantly, and the one that changed most."""
        if self.worst is None:
            return "no single test changed significantly"
        where = format_identity(self.worst.identity)
        most = f"{figure_phrase(self.worst.figure)} {ratio_phrase(self.worst.ratio)} in {where}"
        every = format_plural(self.all_cells_count, "test")
        if self.cells_count == 1:
            return f"significant in 1 of {every}: {most}"
        return f"significant in {format_count(self.cells_count)} of {every}; largest change: {most}"

    def cause(self) -> str:
        """Return the likely reasons: differences of the fingerprints, if any."""
        likely = summary_phrase(self.differences)
        if likely:
            return f"Likely reasons, from the two fingerprints: {likely}."
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
    share_max = max(_distance(ratio) for ratio in ratios)
    totals = comparison.overall_answers.values()
    identities = {each.key: each.identity for each in cells}
    is_large = is_worse and share_max > comparison.margin_share
    found = figures(
        cells_count=len(identities),
        ratio_by_figure={name: ratio.value for name, ratio in overall.items()},
        change_share_max=share_max,
        likely_reasons=[each.path for each in comparison.differences if each.weight == "likely"],
        paired=comparison.paired,
        a=comparison.a.name,
        b=comparison.b.name,
        word=judgement.word,
        overall=overall,
        overall_cells_count=max((each.cells for each in totals), default=0),
        all_cells_count=len({each.key for each in comparison.comparands}),
        worst=max(cells, key=lambda each: _distance(each.ratio), default=None),
        differences=comparison.differences,
    )
    severity = "warning" if is_large else "note"
    return [Finding(severity=severity, cells=list(identities.values()), figures=found)]


def _distance(ratio: Estimate) -> float:
    """Return how far a ratio is from 1; half and twice as much are equally far."""
    return max(ratio.value, 1 / ratio.value) - 1
