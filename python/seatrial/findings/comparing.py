"""What the findings of a comparison have in common: which answers are worse, and why probably."""

from __future__ import annotations

from seatrial.stats.compare.fingerprints import summary_words
from seatrial.stats.compare.judgement import judged
from seatrial.stats.compare.model import Comparison
from seatrial.stats.compare.verdict import ratio_words
from seatrial.stats.compare.words import figure_words
from seatrial.stats.wording import format_count, format_identity, format_plural
from seatrial.study.cell import FactorValue


class Change:
    """Those answers of a comparison that say that B is worse than A, or better.

    Attributes:
        comparison: The comparison.
        cells: Figures of cells that surely changed so, rates first.
        overall: Overall ratios that surely changed so, by figure.
    """

    def __init__(self, comparison: Comparison, *, is_worse: bool) -> None:
        self.comparison = comparison
        self._judgement = judged(comparison, is_worse=is_worse)
        self.cells = self._judgement.cells
        self.overall = self._judgement.overall

    @property
    def share_max(self) -> float:
        """How far the largest of the ratios is from 1; half and twice as much are equally far."""
        ratios = [*self.overall.values(), *(each.ratio for each in self.cells)]
        return max((max(each.value, 1 / each.value) - 1 for each in ratios), default=0.0)

    def sentence(self) -> str:
        """Return what changed: overall, in how many cells, and where most."""
        a, b = self.comparison.a.name, self.comparison.b.name
        parts = [
            f"{self._figure(name)} {ratio_words(ratio)}" for name, ratio in self.overall.items()
        ]
        reported = f"{b} is {self._judgement.word} than {a}"
        if parts:
            count = max(each.cells for each in self.comparison.overall_answers.values())
            reported += f" over {format_plural(count, 'cell')}: {', '.join(parts)}"
        return f"{reported}; {self._of_cells()}."

    def _figure(self, name: str) -> str:
        return figure_words(name)

    def _of_cells(self) -> str:
        """Return in how many cells it surely is so, and the one that changed most."""
        if not self.cells:
            return "no single cell is significantly so"
        worst = max(self.cells, key=lambda each: max(each.ratio.value, 1 / each.ratio.value))
        keys = {each.key for each in self.cells}
        every = {each.key for each in self.comparison.comparands}
        where = format_identity(worst.identity)
        most = f"{figure_words(worst.figure)} {ratio_words(worst.ratio)} in {where}"
        if len(keys) == 1:
            return f"significantly so in 1 of {format_plural(len(every), 'cell')}: {most}"
        return (
            f"significantly so in {format_count(len(keys))} of "
            f"{format_plural(len(every), 'cell')}, most of all {most}"
        )

    def cause(self) -> str:
        """Return the likely reasons: what differs in the fingerprints, else what they hide."""
        likely = summary_words(self.comparison.differences)
        if likely:
            return f"What differs usually is the reason: {likely}."
        return (
            "Nothing that usually matters differs in the two fingerprints. What they do not tell: "
            "wear and fill of the drive, heat, burst credit, another tenant, a neighbour's load."
        )

    def evidence(self) -> dict[str, object]:
        """Return the figures behind it."""
        return {
            "cells_count": len({each.key for each in self.cells}),
            "ratio_by_figure": {name: ratio.value for name, ratio in self.overall.items()},
            "change_share_max": self.share_max,
            "likely_reasons": [
                each.path for each in self.comparison.differences if each.weight == "likely"
            ],
            "paired": self.comparison.paired,
        }

    def identities(self) -> list[dict[str, FactorValue]]:
        """Return the factors of the cells that changed, each once."""
        by_key = {each.key: each.identity for each in self.cells}
        return list(by_key.values())


def severity(change: Change) -> str:
    """Return ``warning`` for what is larger than the margin of sameness, else ``note``."""
    return "warning" if change.share_max > change.comparison.margin_share else "note"
