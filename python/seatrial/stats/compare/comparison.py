"""Compares runs or targets: cell by cell, then all common cells together."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, Literal

import msgspec

from seatrial.results.model import Sample, origin_of
from seatrial.stats.cell_estimates import estimate_of_rounds
from seatrial.stats.compare.figures import COMPLETED, Rounds
from seatrial.stats.compare.model import (
    Answer,
    Comparison,
    Difference,
    FigureComparison,
    NoiseFloor,
    OneSidedFigure,
    Overall,
    SideSamples,
)
from seatrial.stats.compare.noise import (
    floor_of_halves,
    floor_of_pair,
    is_same,
    rounds_more,
    within_share,
)
from seatrial.stats.compare.pairing import (
    MatchedCells,
    is_interleaved,
    match,
    match_regardless,
    order_warning,
    require_suited,
    targets_count,
    without_failures,
)
from seatrial.stats.compare.questions import (
    CellQuestion,
    OverallQuestion,
    Questions,
    ask,
    judge_all,
)
from seatrial.stats.compare.ratio import ALPHA, ratio_estimate
from seatrial.stats.compare.verdict import verdict
from seatrial.stats.estimate import Estimate
from seatrial.stats.wording import (
    format_duration_ns,
    format_duration_s,
    format_first,
    format_identity,
    format_plural,
    format_share,
)
from seatrial.topic import topic_of, topics

KEPT: Final[Mapping[str, str]] = {
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "synchronous_standby_names": "",
    "wal_sync_method": "fdatasync",
}
"""Settings that determine durability after a crash, with PostgreSQL's defaults on Linux."""


def unlike_servers(a: SideSamples, b: SideSamples) -> Iterator[str]:
    """Yield differences between the servers of two sides that make their rates incomparable.

    Args:
        a: The baseline.
        b: The side compared with it.
    """
    names = (a.side.name, b.side.name)
    servers = [_servers(one_side) for one_side in (a, b)]
    if all(servers) and servers[0] != servers[1]:
        text = " and ".join(
            f"{name} was measured on {', '.join(sorted(each))}"
            for name, each in zip(names, servers, strict=True)
        )
        yield f"{text}: a difference may be caused by the server version, not by the storage."
    for setting in KEPT:
        values = [_values(one_side, setting) for one_side in (a, b)]
        if all(values) and values[0] != values[1]:
            text = " and ".join(
                f"{', '.join(sorted(value or 'empty' for value in each))} on {name}"
                for name, each in zip(names, values, strict=True)
            )
            yield (
                f"{setting} is {text}: the durability guarantees differ, so the rates are "
                "not comparable."
            )


def _servers(one_side: SideSamples) -> set[str]:
    return {sample.database.server for sample in one_side.samples if sample.database}


def _values(one_side: SideSamples, setting: str) -> set[str]:
    """Return the values of a setting on a side; empty without a database."""
    return {
        sample.database.settings.get(setting, KEPT[setting])
        for sample in one_side.samples
        if sample.database
    }


LENGTH_RATIO_MAX = 1.5
NAMED_MAX = 3


def warnings_of(
    a: SideSamples,
    b: SideSamples,
    matched: MatchedCells,
    comparison: Comparison,
    questions: Questions,
) -> list[str]:
    """Return the limitations of a comparison, the most severe first.

    Args:
        a: The baseline.
        b: The side compared with it.
        matched: Their cells.
        comparison: The result, without warnings and verdict.
        questions: What was asked about them.
    """
    found = [
        *_zeros(a, b, matched),
        *_one_sided_figures(a, b, matched, comparison),
        *(words for topic in topics() for words in topic.comparison_caveats(a, b, matched)),
        *unlike_servers(a, b),
        "" if comparison.paired else order_warning(a, b),
        _unknown_surroundings(a),
        _unknown_surroundings(b),
        unfinished(a),
        unfinished(b),
        *_measured_once(comparison.comparands),
        _unlike_lengths(a, b, matched),
        _unlike_starts(a, b, questions.unlike_starts),
        _included_starts(a, b, questions.included_starts),
        _below_noise(comparison),
        "" if not matched.by_identity else _by_identity(a, b, matched),
        _one_sided(a, matched.only_a, b),
        _one_sided(b, matched.only_b, a),
    ]
    return [sentence for sentence in found if sentence]


def _zeros(a: SideSamples, b: SideSamples, matched: MatchedCells) -> Iterator[str]:
    for one_side, sides in ((a, [c.a for c in matched.cells]), (b, [c.b for c in matched.cells])):
        blank = [
            cell.key
            for cell, samples in zip(matched.cells, sides, strict=True)
            if any(sample.outcome.completed == 0 for sample in samples)
        ]
        if blank:
            yield (
                f"On {one_side.side.name} nothing completed in at least one round of "
                f"{format_plural(len(blank), 'test')} ({_listed(blank, a, b)}): the ratio "
                "has no interval and is excluded from the overall ratio."
            )


def _one_sided_figures(
    a: SideSamples, b: SideSamples, matched: MatchedCells, comparison: Comparison
) -> Iterator[str]:
    """Report percentiles that are known on one side only, and why the other lacks them."""
    blank = {
        (known_on, cell.key)
        for cell in matched.cells
        for known_on, lacking in (("a", cell.b), ("b", cell.a))
        if not all(sample.outcome.completed for sample in lacking)
    }
    alike: dict[tuple[str, str, bool], list[OneSidedFigure]] = defaultdict(list)
    for each in comparison.one_sided:
        if each.unanswered or (each.known_on, each.key) not in blank:  # else already reported
            alike[each.figure, each.known_on, each.unanswered > 0].append(each)
    names = (a.side.name, b.side.name)
    for (figure, known_on, is_hidden), own in alike.items():
        has, lacks = names if known_on == "a" else names[::-1]
        why = f"too few requests completed on {lacks}"
        if is_hidden:
            left = format_plural(max(each.unanswered for each in own), "request")
            bounds = [each.at_least for each in own if each.at_least]
            lowest = min(bounds, key=lambda bound: bound.value, default=None)
            least = f" (at least {format_duration_ns(lowest.value)})" if lowest else ""
            why = f"{lacks} left {left} unanswered in a round{least}"
        keys = list(dict.fromkeys(each.key for each in own))
        yield f"{figure} of {_listed(keys, a, b)} is known on {has} only: {why}."


def _unknown_surroundings(one_side: SideSamples) -> str:
    if one_side.side.run.fingerprint_before.is_taken:
        return ""
    imported = "it was imported" if origin_of(one_side.side.run) else "no fingerprint was taken"
    return (
        f"The machine and target of {one_side.side.name} are unknown, as {imported}: differences "
        "between them are not reported."
    )


def unfinished(one_side: SideSamples) -> str:
    """Return that the run of a side is not complete; empty if it is."""
    run = one_side.side.run
    if run.status == "complete":
        return ""
    return f"{one_side.side.name} is a partial result: its run is {run.status}."


def _measured_once(comparands: Sequence[FigureComparison]) -> Iterator[str]:
    rates = [each for each in comparands if each.figure in COMPLETED]
    once = [each for each in rates if min(each.a.rounds, each.b.rounds) < 2]
    if once:
        which = "Every test was" if len(once) == len(rates) else _cells_were(len(once))
        yield (
            f"{which} measured only once on one side or both, so significance cannot be "
            "determined. Measure several rounds."
        )


def _cells_were(count: int) -> str:
    return f"{format_plural(count, 'test was', 'tests were')}"


def _unlike_lengths(a: SideSamples, b: SideSamples, matched: MatchedCells) -> str:
    """Report that samples of one side are much longer: caches, bursts and heat then differ."""
    # Samples that end with their bytes or trace are shorter on the faster side, as intended.
    timed = [
        _length_s(cell.b) / _length_s(cell.a)
        for cell in matched.cells
        if not cell.a[0].cell.parsed.limit.bytes
        and _length_s(cell.a) > 0
        and not topic_of(cell.a[0].cell).has_fixed_work(cell.a[0].cell)
    ]
    if not timed:
        return ""
    typical = statistics.median(timed)
    if 1 / LENGTH_RATIO_MAX < typical < LENGTH_RATIO_MAX:
        return ""
    lengths = [
        format_duration_s(statistics.median(_length_s(each) for each in samples))
        for samples in ([c.a for c in matched.cells], [c.b for c in matched.cells])
    ]
    return (
        f"Samples last {lengths[0]} on {a.side.name} and {lengths[1]} on {b.side.name}: caches, "
        "burst credit and heat affect only the longer ones."
    )


def _unlike_starts(a: SideSamples, b: SideSamples, unlike: Sequence[str]) -> str:
    """Report cells in which some samples have a start-up phase and others have none."""
    if not unlike:
        return ""
    return (
        f"Some rounds of {format_plural(len(unlike), 'test')} ({_listed(unlike, a, b)}) have a "
        "start-up phase and others have none: all are compared from the end of that phase, "
        "which is excluded."
    )


def _included_starts(a: SideSamples, b: SideSamples, included: Sequence[str]) -> str:
    """Report cells whose start-up phase cannot be excluded from all samples."""
    if not included:
        return ""
    return (
        f"The start-up phase of {format_plural(len(included), 'test')} ({_listed(included, a, b)}) "
        "cannot be excluded from every sample, as some are too short or have no timeline: it is "
        "included in all, and weighs more in shorter samples; tests of unequal lengths are "
        "undecided. Measure both sides equally long."
    )


def _length_s(samples: Sequence[Sample]) -> float:
    return statistics.median(sample.duration_s for sample in samples)


def _below_noise(comparison: Comparison) -> str:
    count = sum(each.below_noise for each in comparison.comparands)
    if not count or not comparison.noise:
        return ""
    floor = format_share(comparison.noise_share or 0)
    differ = "differs" if count == 1 else "differ"
    return (
        f"{format_plural(count, 'figure')} {differ} by no more than {comparison.a.name} and "
        f"{comparison.noise.name}, an A/A control (95 % of tests within {floor}): not "
        "significant."
    )


def _by_identity(a: SideSamples, b: SideSamples, matched: MatchedCells) -> str:
    sentence = (
        f"{a.side.name} and {b.side.name} have no test key in common; tests are matched by "
        "operation, block size, threads, depth and all other common factors."
    )
    several = [
        f"{each.side.name}:TARGET"
        for each, alone in ((a, matched.only_a), (b, matched.only_b))
        if alone and targets_count(each) > 1
    ]
    if not several:
        return sentence
    return (
        f"{sentence} A test of several targets is not matched: specify one target, as in "
        f"{' and '.join(several)}."
    )


def _one_sided(one_side: SideSamples, keys: Sequence[str], other: SideSamples) -> str:
    if not keys:
        return ""
    return (
        f"{format_plural(len(keys), 'test')} of {one_side.side.name} ({_listed(keys, one_side)}) "
        f"{'has' if len(keys) == 1 else 'have'} no counterpart on {other.side.name}."
    )


def _listed(keys: Sequence[str], *sides: SideSamples) -> str:
    """Return the first few cells in words; keys have a target only on sides of several targets."""
    samples = [sample for one_side in sides for sample in one_side.samples]
    cells = {
        key: sample.cell
        for sample in samples
        for key in (sample.cell.key, sample.cell.key_without_target)
    }
    texts = []
    for key in keys:
        identity = cells[key].identity()
        del identity["target"]
        texts.append(format_identity(identity))
    return format_first(texts, NAMED_MAX, between="; ")


MARGIN_SHARE_DEFAULT = 0.05


def compare(
    a: SideSamples,
    others: Sequence[SideSamples],
    *,
    margin_share: float = MARGIN_SHARE_DEFAULT,
    figures: Collection[str] | None = None,
    control: SideSamples | None = None,
    differences: Sequence[list[Difference]] | None = None,
    anyway: bool = False,
) -> list[Comparison]:
    """Compare each of the others with A, without findings.

    Args:
        a: The baseline.
        others: The compared sides, at least one; p values are adjusted over all of them.
        margin_share: Ratios that are significantly closer to 1 than this count as the same.
        figures: Names of the compared figures; by default all. ``p99`` stands for that of every
            kind.
        control: Another measurement of A (A/A control): differences no larger than theirs are not
            significant.
        differences: Differences in the fingerprints, for each of the others.
        anyway: Whether obstacles to a comparison become warnings.

    Raises:
        UsageError: When two sides have no common cell, or are not comparable.
    """
    floor = floor_of_pair(a, control, figures) if control else None
    pairs = [_Pair.of(a, b, figures, anyway=anyway) for b in others]
    judge_all(pair.questions for pair in pairs)
    of_pairs = differences or [[] for _ in pairs]
    return [
        pair.comparison(floor or floor_of_halves(pair.questions.cells), margin_share, each)
        for pair, each in zip(pairs, of_pairs, strict=True)
    ]


class _Pair(msgspec.Struct, frozen=True, kw_only=True):
    """One B and A, with all comparisons between them."""

    a: SideSamples
    b: SideSamples
    matched: MatchedCells
    paired: bool
    questions: Questions
    ignored: list[str]

    @classmethod
    def of(
        cls, a: SideSamples, b: SideSamples, figures: Collection[str] | None, *, anyway: bool
    ) -> _Pair:
        """Match the cells of two sides; raises UsageError if they are not comparable."""
        a, b, left_out = without_failures(a, b)
        matched = match_regardless(a, b) if anyway else match(a, b)
        ignored = [*left_out, *require_suited(a, b, matched, anyway=anyway)]
        paired = is_interleaved(a, b)
        questions = ask(matched.cells, paired=paired, wanted=figures)
        return cls(a=a, b=b, matched=matched, paired=paired, questions=questions, ignored=ignored)

    def comparison(
        self, floor: NoiseFloor | None, margin_share: float, differences: list[Difference]
    ) -> Comparison:
        """Return the result, without findings."""
        judging = _Answers(floor, margin_share)
        comparands = judging.comparands(self.questions.cells)
        overall = self.questions.overall
        answers = judging.overall(overall)
        comparison = Comparison(
            a=self.a.side,
            b=self.b.side,
            differences=differences,
            comparands=comparands,
            overall={q.figure: ratio_estimate(q.of, q.alpha) for q in overall},
            only_a=self.matched.only_a,
            only_b=self.matched.only_b,
            noise_share=floor.share if floor and floor.source == "pair" else None,
            findings=[],
            warnings=[],
            verdict="",
            overall_answers=answers,
            noise=floor,
            margin_share=margin_share,
            paired=self.paired,
            one_sided=self.questions.one_sided,
            blank_a=[
                cell.key
                for cell in self.matched.cells
                if not any(sample.outcome.completed for sample in cell.a)
            ],
            cells_count=len(self.matched.cells),
        )
        weak = warnings_of(self.a, self.b, self.matched, comparison, self.questions)
        comparison = msgspec.structs.replace(comparison, warnings=self.ignored + weak)
        return msgspec.structs.replace(comparison, verdict=verdict(comparison))


class _Answers:
    """Answers questions with a given noise floor and margin of equality."""

    def __init__(self, floor: NoiseFloor | None, margin_share: float) -> None:
        self._floor = floor if floor and floor.source == "pair" else None
        self._margin_share = margin_share

    def comparands(self, questions: Sequence[CellQuestion]) -> list[FigureComparison]:
        floors = self._floor.cells if self._floor else {}
        return [
            FigureComparison(
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
        """Return the answer to each question, and the rounds needed to decide the others."""
        found = [self._one(question, floors.get(question.figure, 0.0)) for question in questions]
        undecided = [
            index
            for index, settled in enumerate(found)
            if settled.answer == "undecided" and not settled.below_noise
        ]
        # All questions of one adjustment have the same level.
        alpha = min((questions[index].alpha for index in undecided), default=ALPHA)
        contrasts = [questions[index].of for index in undecided]
        known = [index for index, of in zip(undecided, contrasts, strict=True) if of]
        more = rounds_more([of for of in contrasts if of], alpha, self._margin_share)
        for index, rounds in zip(known, more, strict=True):
            found[index] = msgspec.structs.replace(found[index], rounds_more=rounds)
        return found

    def _one(self, question: CellQuestion | OverallQuestion, floor_share: float) -> _Settled:
        if isinstance(question, CellQuestion) and _is_dead(question):
            return _Settled(answer="lower")
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
    """The answer; the attributes are those of a FigureComparison."""

    answer: Answer
    within_share: float | None = None
    rounds_more: int | None = None
    below_noise: bool = False


def _is_dead(question: CellQuestion) -> bool:
    """Return whether B completed nothing in any round, and A something in each.

    A rate of 0 has no logarithm, hence no p value, and needs none.
    """
    is_blank = not any(question.b.values.values())
    return question.figure in COMPLETED and is_blank and min(question.a.values.values()) > 0


def _estimate(rounds: Rounds) -> Estimate:
    return estimate_of_rounds(
        list(rounds.values.values()), rounds.unit, resolution_share=rounds.resolution_share
    )


def _ratio(question: CellQuestion) -> Estimate:
    """Return the ratio; where it is not judged, that of the plain means, without an interval."""
    if question.of:
        return ratio_estimate(question.of, question.alpha)
    values_a, values_b = question.a.values.values(), question.b.values.values()
    mean_a, mean_b = sum(values_a) / len(values_a), sum(values_b) / len(values_b)
    rounds = min(len(values_a), len(values_b))
    return Estimate(value=mean_b / mean_a, low=None, high=None, rounds=rounds, unit="ratio")
