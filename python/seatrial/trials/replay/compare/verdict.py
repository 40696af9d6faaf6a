"""The verdict of a comparison, such as ``Average query 6.1x faster (5.8 to 6.4)``.

A significant change is the near end of the interval, if there is one, less the noise floor: the
floor that decides whether something is slower also decides by how much.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from seatrial.stats.compare.noise import is_same, rounds_more, whole_percent, within_share
from seatrial.stats.compare.ratio import Contrast, ratio_estimate
from seatrial.stats.compare.verdict import ratio_phrase
from seatrial.stats.estimate import Estimate
from seatrial.stats.wording import format_count, format_iops, format_plural
from seatrial.trials.replay.compare.false_discovery import LEVEL
from seatrial.trials.replay.compare.floors import floor_factors
from seatrial.trials.replay.compare.model import (
    Answer,
    Basis,
    Batch,
    BeforeAfter,
    Change,
    Floor,
    Overall,
    Table,
)
from seatrial.trials.replay.compare.warnings import noun_of, nouns_of

ONCE = "measured once each"
ONE_ONCE = "one of them measured once"


def once_of(found: Table | Batch) -> str:
    """Return that a side or both were measured once, in words; empty if neither was."""
    if isinstance(found, Table):
        counts = found.before.units, found.after.units
    else:
        counts = len(found.before_s), len(found.after_s)
    if min(counts) > 1:
        return ""
    return ONCE if max(counts) == 1 else ONE_ONCE


def verdict(reported: BeforeAfter) -> list[str]:
    """Return the sentences on queries, pages and batches."""
    sentences = [sentence for table in reported.tables for sentence in table_sentences(table)]
    return [*sentences, *(f"{batch_phrase(batch)}." for batch in reported.batches)]


def table_sentences(table: Table) -> Iterator[str]:
    """Yield the verdict on the average query, with both speed-ups, then the counts."""
    noun = noun_of(table.before)
    overall = table.overall
    if not table.changes:
        yield f"Nothing can be compared: no {noun} was timed on both sides."
        return
    if overall is None:
        yield (
            f"There is no average: every {noun} was missing in some round, or had more failures "
            "among its timed calls on one side."
        )
    else:
        geometric = factor_phrase(overall.geometric)  # the number of measurements precedes it
        plural = nouns_of(table.before)
        yield f"{_average(table, overall, noun)}; geometric mean over {plural}: {geometric}."
    counts = _counts(overall) if overall else Counter(change.answer for change in table.changes)
    nouns = noun if len(table.changes) == 1 else nouns_of(table.before)
    answers = ", ".join(
        f"{format_count(count)} {answer}" for answer, count in counts.items() if count
    )
    yield f"{format_count(len(table.changes))} {nouns}: {answers}."


def _counts(overall: Overall) -> Mapping[Answer, int]:
    return {
        "faster": overall.faster,
        "slower": overall.slower,
        "same": overall.same,
        "undecided": overall.undecided,
    }


def _average(table: Table, overall: Overall, noun: str) -> str:
    """Return the verdict on the average query."""
    if overall.answer == "same":
        percent = whole_percent(overall.within_share or 0)
        return f"No difference in the average {noun} (within {percent} %)"
    once = once_of(table)
    text = speed_phrase(overall.speed_up, once=once)
    if overall.answer != "undecided":
        pages = "Pages" if noun == "page" else f"Average {noun}"
        return f"{pages} {text}"
    text = as_fast_phrase(overall.speed_up, once=once)
    return f"Undecided: average {noun} {text}{_why(once, overall)}"


def _why(once: str, overall: Overall) -> str:
    if overall.below_floor:
        return ", within the noise of identical runs"
    if overall.rounds_more:
        return f"; {format_plural(overall.rounds_more, 'more round')} would settle it"
    of = {ONCE: "each side", ONE_ONCE: "one side"}.get(once)
    return f"; one measurement of {of} is not enough to settle it" if of else ""


def batch_phrase(batch: Batch) -> str:
    """Return the verdict on a batch: ``Nightly batch 11.4x faster (measured once each)``."""
    name = batch.name[:1].upper() + batch.name[1:]
    once = once_of(batch)
    if batch.answer in ("faster", "slower"):
        return f"{name} {speed_phrase(batch.speed_up, once=once)}"
    return f"Undecided: {name} {as_fast_phrase(batch.speed_up, once=once)}"


def batch_answer_phrase(batch: Batch) -> str:
    """Return the same for a column; a question mark marks what is not significant."""
    once = once_of(batch)
    if batch.answer in ("faster", "slower"):
        return speed_phrase(batch.speed_up, once=once)
    return f"{as_fast_phrase(batch.speed_up, once=once)}?"


def change_phrase(change: Change, *, once: str) -> str:
    """Return the verdict on one query: ``1.3x slower (1.2 to 1.4)``, ``same (within 2 %)``.

    Args:
        change: The comparison.
        once: That it was measured once, in words; otherwise empty.
    """
    if change.answer == "same":
        return f"same (within {whole_percent(change.within_share or 0)} %)"
    failed = f", more timed failures {change.failing}" if change.failing else ""
    if change.answer == "undecided":
        return f"{as_fast_phrase(change.speed_up, once=once)}?{failed}"
    return f"{speed_phrase(change.speed_up, once=once)}{failed}"


def factor_phrase(speed_up: Estimate, *, once: str = "") -> str:
    """Return a speed-up in words; faster or slower only if its whole interval is.

    Args:
        speed_up: Before over after.
        once: As for ``speed_phrase``.
    """
    low, high = speed_up.low, speed_up.high
    if low is None or high is None or low <= 1 <= high:
        return as_fast_phrase(speed_up, once=once)
    return speed_phrase(speed_up, once=once)


def speed_phrase(speed_up: Estimate, *, once: str = "") -> str:
    """Return a speed-up as ``6.1x faster (5.8 to 6.4)`` or ``1.2x slower (1.1 to 1.3)``.

    Args:
        speed_up: Before over after.
        once: That it was measured once, in words; empty if it was not, or if reported before.
    """
    if speed_up.value < 1:
        return _factor_with_interval(inverted(speed_up), "slower", once=once)
    return _factor_with_interval(speed_up, "faster", once=once)


def as_fast_phrase(speed_up: Estimate, *, once: str = "") -> str:
    """Return what is not significant as ``1.03x as fast (0.97 to 1.1)``; as ``speed_phrase``."""
    return _factor_with_interval(speed_up, "as fast", once=once)


def _factor_with_interval(estimate: Estimate, word: str, *, once: str) -> str:
    if estimate.low is None or estimate.high is None:
        text = f"{_value(estimate.value)}x {word}"
        return f"{text} ({once})" if once else text
    plain = replace(estimate, over="rounds")
    value, _, interval = ratio_phrase(plain).partition(" ")
    if not once:
        return f"{value} {word} {interval}"
    return f"{value} {word} ({interval.strip('()')} within the captures; {once})"


def _value(value: float) -> str:
    """Return a factor that was measured once: three digits below 100, as 11.4."""
    return f"{value:.3g}" if value < 100 else format_iops(value)


def inverted(speed_up: Estimate) -> Estimate:
    """Return the ratio of times from the speed-up."""
    low, high = speed_up.low, speed_up.high
    return replace(
        speed_up,
        value=1 / speed_up.value,
        low=None if high is None else 1 / high,
        high=None if not low else 1 / low,
    )


class Conclusion(msgspec.Struct, frozen=True, kw_only=True):
    """The answer for one query or all; the attributes are those of a Change."""

    speed_up: Estimate
    answer: Answer
    p_value: float | None = None
    p_adjusted: float | None = None
    below_floor: bool = False
    within_share: float | None = None
    rounds_more: int | None = None


class Criteria(msgspec.Struct, frozen=True, kw_only=True):
    """The criteria of a conclusion.

    Attributes:
        basis: What the answers are based on.
        margin_share: A smaller difference does not count.
        floor: A factor: smaller differences are never significant.
        is_of_query: Whether it is for one query, not for whole runs, to which floors apply. A
            query's own variance widens the noise.
    """

    basis: Basis
    margin_share: float
    floor: float
    is_of_query: bool = False

    def from_rounds(
        self, of: Contrast, *, p_value: float | None, p_adjusted: float | None, alpha: float
    ) -> Conclusion:
        """Return the answer from rounds.

        Args:
            of: ln(before / after).
            p_value: P-value for no difference; None if a side has one round.
            p_adjusted: After adjustment.
            alpha: The interval has level 1 - alpha.
        """
        speed_up = ratio_estimate(of, alpha)
        found = Conclusion(
            speed_up=speed_up, answer="undecided", p_value=p_value, p_adjusted=p_adjusted
        )
        if p_adjusted is None:
            return found
        # Measurements in sequence cannot prove equality: drift may have hidden a difference.
        if self.basis == "interleaved" and is_same(speed_up, self.margin_share):
            return replace(found, answer="same", within_share=within_share(speed_up))
        if p_adjusted <= LEVEL and abs(of.log_ratio) >= math.log1p(self.margin_share):
            return self._beyond_noise(found, of.log_ratio)
        return found

    def with_rounds_more(
        self, conclusions: Mapping[str, Conclusion], of: Mapping[str, Contrast], alpha: float
    ) -> dict[str, Conclusion]:
        """Return the same, with how many more interleaved rounds would settle undecided ones.

        Args:
            conclusions: By key.
            of: ln(before / after), by key.
            alpha: The intervals have level 1 - alpha.
        """
        undecided = [
            key
            for key, conclusion in conclusions.items()
            if conclusion.answer == "undecided"
            and not conclusion.below_floor
            and conclusion.p_value is not None
        ]
        if self.basis != "interleaved":
            return dict(conclusions)
        more = rounds_more([of[key] for key in undecided], alpha, self.margin_share)
        rounds = dict(zip(undecided, more, strict=True))
        return {
            key: replace(conclusion, rounds_more=rounds.get(key))
            for key, conclusion in conclusions.items()
        }

    def from_once(self, speed_up: Estimate) -> Conclusion:
        """Return the answer from one measurement of each side: never that they are the same.

        A query of unknown variance stays undecided: a single call may take any time, cold or hot.
        """
        found = Conclusion(speed_up=speed_up, answer="undecided")
        low, high = speed_up.low, speed_up.high
        if self.is_of_query and (low is None or high is None):
            return found
        if low is not None and high is not None and low <= 1 <= high:
            return found
        log_ratio = math.log(speed_up.value)
        if abs(log_ratio) < math.log1p(self.margin_share):
            return found
        return self._beyond_noise(found, log_ratio)

    def noise_log(self, speed_up: Estimate) -> float:
        """Return the noise as a logarithm; a query's own variance is added.

        Interleaved rounds include all of it, and so does an A/A control in such rounds.
        """
        own = half_of(speed_up) if self.is_of_query and self.basis != "interleaved" else 0.0
        return math.hypot(math.log(self.floor), own)

    def _beyond_noise(self, found: Conclusion, log_ratio: float) -> Conclusion:
        if abs(log_ratio) <= self.noise_log(found.speed_up):
            return replace(found, below_floor=True)
        return replace(found, answer="faster" if log_ratio > 0 else "slower")


def criteria_of(
    basis: Basis, margin_share: float, floor: Floor | None
) -> tuple[Criteria, Criteria]:
    """Return the criteria for the whole and for one query."""
    whole, single = floor_factors(floor, basis)
    return (
        Criteria(basis=basis, margin_share=margin_share, floor=whole),
        Criteria(basis=basis, margin_share=margin_share, floor=single, is_of_query=True),
    )


def half_of(speed_up: Estimate) -> float:
    """Return the half width of an interval on the log scale; 0 if there is none."""
    low, high = speed_up.low, speed_up.high
    return (math.log(high) - math.log(low)) / 2 if low and high else 0.0


NAMED_MAX = 3
TEXT_MAX = 60


Concluded = Change | Overall | Batch


def slower_by(found: BeforeAfter, share: float) -> list[str]:
    """Return what is significantly slower by more than a share: the whole, then single ones.

    Args:
        found: The comparison.
        share: 0.05 for five percent.
    """
    return _slow_texts(found, lambda result, by: result.answer == "slower" and by > share)


def perhaps_slower_by(found: BeforeAfter, share: float) -> list[str]:
    """Return what is slower by more than a share, but not significantly; as ``slower_by``."""

    def is_open(result: Concluded, by: float) -> bool:
        return 1 / result.speed_up.value - 1 > share and not (
            result.answer == "slower" and by > share
        )

    return _slow_texts(found, is_open)


def _slow_texts(found: BeforeAfter, is_reported: Callable[[Concluded, float], bool]) -> list[str]:
    """Return what to report in words, by its answer and by its significant slowdown."""
    texts = []
    for table in found.tables:
        texts += list(_slow_in_table(table, is_reported))
    for batch in found.batches:
        criteria = Criteria(basis="in_sequence", margin_share=0.0, floor=batch.floor)
        if is_reported(batch, _confident_share(batch, criteria)):
            texts.append(batch_phrase(batch))
    return texts


def _slow_in_table(table: Table, is_reported: Callable[[Concluded, float], bool]) -> Iterator[str]:
    once = once_of(table)
    overall_criteria, query_criteria = criteria_of(table.basis, table.margin_share, table.floor)
    overall = table.overall
    if overall and is_reported(overall, _confident_share(overall, overall_criteria)):
        words = speed_phrase if overall.answer == "slower" else as_fast_phrase
        yield f"average {noun_of(table.before)} {words(overall.speed_up, once=once)}"
    slow = [
        change
        for change in table.changes
        if is_reported(change, _confident_share(change, query_criteria))
    ]
    slow.sort(key=lambda change: change.speed_up.value)
    yield from _slow_queries(slow, once)


def _slow_queries(slow: Sequence[Change], once: str) -> Iterator[str]:
    for change in slow[:NAMED_MAX]:
        text = change.text if len(change.text) <= TEXT_MAX else f"{change.text[: TEXT_MAX - 4]} ..."
        yield f"{text} {change_phrase(change, once=once).replace('?', '')}"
    if len(slow) > NAMED_MAX:
        yield f"and {len(slow) - NAMED_MAX} more"


def _confident_share(result: Concluded, criteria: Criteria) -> float:
    """Return the share by which something is significantly slower; below 0 if maybe faster."""
    speed_up = result.speed_up
    least = math.exp(-math.log(speed_up.value) - criteria.noise_log(speed_up))
    if speed_up.high is not None:
        least = min(least, 1 / speed_up.high)
    return least - 1
