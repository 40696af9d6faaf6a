"""Compares runs or targets: cell by cell, then all common cells together."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

import msgspec

from seatrial.stats.compare.figures import Rounds
from seatrial.stats.compare.model import (
    Answer,
    Comparand,
    Comparison,
    Difference,
    Entrant,
    NoiseFloor,
    Overall,
)
from seatrial.stats.compare.multiplicity import ALPHA
from seatrial.stats.compare.noise import floor_of_halves, floor_of_pair
from seatrial.stats.compare.pairing import (
    Matched,
    is_interleaved,
    match,
    match_regardless,
    without_failures,
)
from seatrial.stats.compare.questions import (
    CellQuestion,
    OverallQuestion,
    Questions,
    ask,
    judge_all,
)
from seatrial.stats.compare.ratio import ratio_estimate
from seatrial.stats.compare.settle import is_same, rounds_more, within_share
from seatrial.stats.compare.suited import require_suited
from seatrial.stats.compare.verdict import verdict
from seatrial.stats.compare.warnings import warnings_of
from seatrial.stats.estimate import Estimate
from seatrial.stats.estimates import estimate_of_rounds

MARGIN_SHARE_DEFAULT = 0.05


def compare(
    a: Entrant,
    others: Sequence[Entrant],
    *,
    margin_share: float = MARGIN_SHARE_DEFAULT,
    figures: Collection[str] | None = None,
    control: Entrant | None = None,
    differences: Sequence[list[Difference]] | None = None,
    anyway: bool = False,
) -> list[Comparison]:
    """Return each of the others against A; findings are not yet in it.

    Args:
        a: The measure.
        others: What is judged, at least one; all that is said of them is said together.
        margin_share: A ratio that surely is so near to 1 is called the same.
        figures: Names of what is compared; all unless given. ``p99`` is that of every kind.
        control: Another measurement of what A is (A/A): differences no larger than theirs are
            not real.
        differences: What differs in the fingerprints, for each of the others.
        anyway: Whether what forbids a comparison becomes a warning.

    Raises:
        UsageError: When two sides have no common cell, or must not be compared.
    """
    floor = floor_of_pair(a, control, figures) if control else None
    pairs = [_Pair.of(a, b, figures, anyway=anyway) for b in others]
    judge_all(pair.asked for pair in pairs)
    reported = differences or [[] for _ in pairs]
    return [
        pair.comparison(floor or floor_of_halves(pair.asked.cells), margin_share, each)
        for pair, each in zip(pairs, reported, strict=True)
    ]


class _Pair(msgspec.Struct, frozen=True, kw_only=True):
    """One B and A, with all that is asked of them."""

    a: Entrant
    b: Entrant
    matched: Matched
    paired: bool
    asked: Questions
    ignored: list[str]

    @classmethod
    def of(cls, a: Entrant, b: Entrant, figures: Collection[str] | None, *, anyway: bool) -> _Pair:
        """Match the cells of two sides; raises UsageError where they must not be compared."""
        a, b, left_out = without_failures(a, b)
        matched = match_regardless(a, b) if anyway else match(a, b)
        ignored = [*left_out, *require_suited(a, b, matched, anyway=anyway)]
        paired = is_interleaved(a, b)
        asked = ask(matched.cells, paired=paired, wanted=figures)
        return cls(a=a, b=b, matched=matched, paired=paired, asked=asked, ignored=ignored)

    def comparison(
        self, floor: NoiseFloor | None, margin_share: float, differences: list[Difference]
    ) -> Comparison:
        """Return what came of it, without findings."""
        judging = _Judging(floor, margin_share)
        comparands = judging.comparands(self.asked.cells)
        overall = self.asked.overall
        answers = judging.overall(overall)
        reported = Comparison(
            a=self.a.side,
            b=self.b.side,
            differences=differences,
            comparands=comparands,
            overall={q.figure: ratio_estimate(q.of, q.alpha) for q in overall},
            only_a=self.matched.only_a,
            only_b=self.matched.only_b,
            noise_share=next(iter(floor.cells.values()), None) if floor else None,
            findings=[],
            warnings=[],
            verdict="",
            overall_answers=answers,
            noise=floor,
            margin_share=margin_share,
            paired=self.paired,
        )
        weak = warnings_of(self.a, self.b, self.matched, reported, self.asked.unlike_starts)
        reported = msgspec.structs.replace(reported, warnings=self.ignored + weak)
        return msgspec.structs.replace(reported, verdict=verdict(reported))


class _Judging:
    """Answers questions, given what counts as noise and as the same."""

    def __init__(self, floor: NoiseFloor | None, margin_share: float) -> None:
        self._floor = floor if floor and floor.source == "pair" else None
        self._margin_share = margin_share

    def comparands(self, questions: Sequence[CellQuestion]) -> list[Comparand]:
        """Return the answers of cells."""
        floors = self._floor.cells if self._floor else {}
        return [
            Comparand(
                key=question.cell.key,
                identity=question.cell.identity,
                figure=question.figure,
                a=_estimate(question.a),
                b=_estimate(question.b),
                ratio=_ratio(question),
                p_value=question.p_value,
                p_adjusted=question.p_adjusted,
                answer=settled.answer,
                within_share=settled.within_share,
                rounds_more=settled.rounds_more,
                paired=bool(question.of and question.of.paired),
                below_noise=settled.below_noise,
            )
            for question, settled in zip(questions, self._settled(questions, floors), strict=True)
        ]

    def overall(self, questions: Sequence[OverallQuestion]) -> dict[str, Overall]:
        """Return the answers of overall ratios, by figure."""
        floors = self._floor.overall if self._floor else {}
        return {
            question.figure: Overall(
                cells=question.cells,
                p_value=question.p_value,
                p_adjusted=question.p_adjusted,
                answer=settled.answer,
                within_share=settled.within_share,
                rounds_more=settled.rounds_more,
                below_noise=settled.below_noise,
            )
            for question, settled in zip(questions, self._settled(questions, floors), strict=True)
        }

    def _settled(
        self, questions: Sequence[CellQuestion | OverallQuestion], floors: dict[str, float]
    ) -> list[_Settled]:
        """Return what is certain of each question, and how many rounds would settle the others."""
        found = [self._one(question, floors.get(question.figure, 0.0)) for question in questions]
        undecided = [
            place
            for place, settled in enumerate(found)
            if settled.answer == "undecided" and not settled.below_noise
        ]
        # All questions that are judged together have the same level.
        alpha = min((questions[place].alpha for place in undecided), default=ALPHA)
        contrasts = [questions[place].of for place in undecided]
        known = [place for place, of in zip(undecided, contrasts, strict=True) if of]
        more = rounds_more([of for of in contrasts if of], alpha, self._margin_share)
        for place, rounds in zip(known, more, strict=True):
            found[place] = msgspec.structs.replace(found[place], rounds_more=rounds)
        return found

    def _one(self, question: CellQuestion | OverallQuestion, floor_share: float) -> _Settled:
        if question.of is None or question.p_adjusted is None:
            return _Settled(answer="undecided")
        ratio = ratio_estimate(question.of, question.alpha)
        if question.p_adjusted <= ALPHA:
            if max(ratio.value, 1 / ratio.value) - 1 <= floor_share:
                return _Settled(answer="undecided", below_noise=True)
            direction: Literal["higher", "lower"] = "higher" if ratio.value > 1 else "lower"
            return _Settled(answer=direction)
        if is_same(ratio, self._margin_share):
            return _Settled(answer="same", within_share=within_share(ratio))
        return _Settled(answer="undecided")


class _Settled(msgspec.Struct, frozen=True, kw_only=True):
    """What is certain; the attributes are those of a Comparand."""

    answer: Answer
    within_share: float | None = None
    rounds_more: int | None = None
    below_noise: bool = False


def _estimate(rounds: Rounds) -> Estimate:
    return estimate_of_rounds(
        list(rounds.values.values()), rounds.unit, resolution_share=rounds.resolution_share
    )


def _ratio(question: CellQuestion) -> Estimate:
    """Return the ratio; where a round measured 0 that of the plain means, without an interval."""
    if question.of:
        return ratio_estimate(question.of, question.alpha)
    values_a, values_b = question.a.values.values(), question.b.values.values()
    mean_a, mean_b = sum(values_a) / len(values_a), sum(values_b) / len(values_b)
    rounds = min(len(values_a), len(values_b))
    return Estimate(value=mean_b / mean_a, low=None, high=None, rounds=rounds, unit="ratio")
