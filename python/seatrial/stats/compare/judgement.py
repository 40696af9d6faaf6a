"""The one judgement of a comparison: what surely is worse on B, and what surely is better.

Verdict, findings and exit code are made of it, so that none of them says what another denies.
"""

from __future__ import annotations

import msgspec

from seatrial.stats.compare.figures import is_rate
from seatrial.stats.compare.model import Answer, Comparand, Comparison
from seatrial.stats.estimate import Estimate


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What surely changed in one direction, for the worse or for the better.

    Attributes:
        is_worse: Which direction.
        cells: Figures of single cells, rates first.
        overall: Ratios over several cells, by figure.
    """

    is_worse: bool
    cells: list[Comparand]
    overall: dict[str, Estimate]

    def __bool__(self) -> bool:
        return bool(self.cells or self.overall)

    @property
    def word(self) -> str:
        """How B compares with A: ``slower``, or of latencies only ``of higher latency``."""
        figures = {*self.overall, *(each.figure for each in self.cells)}
        words = ("slower", "of higher latency") if self.is_worse else ("faster", "of lower latency")
        return words[0] if any(is_rate(figure) for figure in figures) else words[1]

    def beyond(self, share: float) -> Judgement:
        """Return what of it changed by surely more than a share.

        By the near end of the ratio's interval. A rate is worse by 0.05 where the ratio is 0.95, a
        latency where it is 1.05.
        """

        def is_beyond(ratio: Estimate) -> bool:
            low = ratio.value if ratio.low is None else ratio.low
            high = ratio.value if ratio.high is None else ratio.high
            return low > 1 + share if ratio.value > 1 else high < 1 - share

        return Judgement(
            is_worse=self.is_worse,
            cells=[each for each in self.cells if is_beyond(each.ratio)],
            overall={name: ratio for name, ratio in self.overall.items() if is_beyond(ratio)},
        )


def judged(comparison: Comparison, *, is_worse: bool) -> Judgement:
    """Return what surely is worse on B than on A, or what surely is better."""

    def fits(figure: str, answer: Answer) -> bool:
        if answer not in ("higher", "lower"):
            return False
        return (is_rate(figure) == (answer == "lower")) == is_worse

    return Judgement(
        is_worse=is_worse,
        cells=[each for each in comparison.comparands if fits(each.figure, each.answer)],
        overall={
            figure: comparison.overall[figure]
            for figure, total in comparison.overall_answers.items()
            if total.cells > 1 and fits(figure, total.answer)
        },
    )
