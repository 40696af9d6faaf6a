"""What a comparison says: ``Average query 6.1x faster (5.8 to 6.4)``, and the like."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec

from seatrial.stats.compare.settle import whole_percent
from seatrial.stats.compare.verdict import ratio_words
from seatrial.stats.estimate import Estimate
from seatrial.stats.wording import format_count, format_iops, format_plural
from seatrial.trials.replay.compare.model import Answer, Batch, BeforeAfter, Change, Overall, Table
from seatrial.trials.replay.compare.warnings import noun_of, nouns_of

ONCE = "measured once each"
ONE_ONCE = "one of them measured once"


def once_of(table: Table) -> str:
    """Return that a side or both were measured once, in words; empty where neither was."""
    if table.basis != "once":
        return ""
    return ONCE if table.before.units == table.after.units == 1 else ONE_ONCE


def once_of_batch(batch: Batch) -> str:
    """Return the same of a batch."""
    times = len(batch.before_s), len(batch.after_s)
    if min(times) > 1:
        return ""
    return ONCE if max(times) == 1 else ONE_ONCE


def verdict(reported: BeforeAfter) -> list[str]:
    """Return the sentences of all that was compared: queries, pages, batches."""
    sentences = [
        sentence
        for table in (reported.queries, reported.pages)
        if table is not None
        for sentence in table_sentences(table)
    ]
    return [*sentences, *(f"{batch_words(batch)}." for batch in reported.batches)]


def table_sentences(table: Table) -> Iterator[str]:
    """Yield what is certain of the average query, with both speed-ups, then of how many."""
    noun = noun_of(table.before)
    overall = table.overall
    if not table.changes:
        yield f"Nothing can be compared: no {noun} was timed on both sides."
        return
    if overall is None:
        yield (
            f"No average can be told: every {noun} was lacking in some round, or failed more often "
            "on one side."
        )
    else:
        alike = factor_words(overall.geometric)  # how often it was measured is said before it
        yield f"{_average(table, overall, noun)}; where each {noun} counts alike {alike}."
    counts = _counts(overall) if overall else Counter(each.answer for each in table.changes)
    nouns = noun if len(table.changes) == 1 else nouns_of(table.before)
    reported = ", ".join(
        f"{format_count(count)} {answer}" for answer, count in counts.items() if count
    )
    yield f"Of {format_count(len(table.changes))} {nouns} {reported}."


def _counts(overall: Overall) -> Mapping[Answer, int]:
    return {
        "faster": overall.faster,
        "slower": overall.slower,
        "same": overall.same,
        "undecided": overall.undecided,
    }


def _average(table: Table, overall: Overall, noun: str) -> str:
    """Return what is certain of the average query."""
    if overall.answer == "same":
        percent = whole_percent(overall.within_share or 0)
        return f"No difference seen in the average {noun} (within {percent} %)"
    once = once_of(table)
    reported = speed_words(overall.speed_up, once=once)
    if overall.answer != "undecided":
        pages = "Pages" if noun == "page" else f"Average {noun}"
        return f"{pages} {reported}"
    reported = as_fast_words(overall.speed_up, once=once)
    return f"Undecided: average {noun} {reported}{_why(once, overall)}"


def _why(once: str, overall: Overall) -> str:
    if overall.below_floor:
        return ", no more than two measurements of the same differ"
    if overall.rounds_more:
        return f", and {format_plural(overall.rounds_more, 'more round')} would settle that"
    of = {ONCE: "each", ONE_ONCE: "one side"}.get(once)
    return f", which one measurement of {of} cannot settle" if of else ""


def batch_words(batch: Batch) -> str:
    """Return what is certain of a batch: ``Nightly batch 11.4x faster (measured once each)``."""
    name = batch.name[:1].upper() + batch.name[1:]
    once = once_of_batch(batch)
    if batch.answer in ("faster", "slower"):
        return f"{name} {speed_words(batch.speed_up, once=once)}"
    return f"Undecided: {name} {as_fast_words(batch.speed_up, once=once)}"


def batch_answer_words(batch: Batch) -> str:
    """Return the same for a column: a question mark behind what is not certain."""
    once = once_of_batch(batch)
    if batch.answer in ("faster", "slower"):
        return speed_words(batch.speed_up, once=once)
    return f"{as_fast_words(batch.speed_up, once=once)}?"


def change_words(change: Change, *, once: str) -> str:
    """Return what is certain of one query: ``1.3x slower (1.2 to 1.4)``, ``same (within 2 %)``.

    Args:
        change: What was compared.
        once: That it was measured once, in words; empty where it was not.
    """
    if change.answer == "same":
        return f"same (within {whole_percent(change.within_share or 0)} %)"
    failed = f", more failed {change.failing}" if change.failing else ""
    if change.answer == "undecided":
        return f"{as_fast_words(change.speed_up, once=once)}?{failed}"
    return f"{speed_words(change.speed_up, once=once)}{failed}"


def factor_words(speed_up: Estimate, *, once: str = "") -> str:
    """Return a speed-up in words; faster or slower only where its whole interval is.

    Args:
        speed_up: Before over after.
        once: As for ``speed_words``.
    """
    low, high = speed_up.low, speed_up.high
    if low is None or high is None or low <= 1 <= high:
        return as_fast_words(speed_up, once=once)
    return speed_words(speed_up, once=once)


def speed_words(speed_up: Estimate, *, once: str = "") -> str:
    """Return a speed-up as ``6.1x faster (5.8 to 6.4)`` or ``1.2x slower (1.1 to 1.3)``.

    Args:
        speed_up: Before over after.
        once: That it was measured once, in words; empty where it was not, or that is said before.
    """
    if speed_up.value < 1:
        return _reported(inverted(speed_up), "slower", once=once)
    return _reported(speed_up, "faster", once=once)


def as_fast_words(speed_up: Estimate, *, once: str = "") -> str:
    """Return what is not certain as ``1.03x as fast (0.97 to 1.1)``; as ``speed_words``."""
    return _reported(speed_up, "as fast", once=once)


def _reported(estimate: Estimate, word: str, *, once: str) -> str:
    if estimate.low is None or estimate.high is None:
        reported = f"{_value(estimate.value)}x {word}"
        return f"{reported} ({once})" if once else reported
    plain = msgspec.structs.replace(estimate, over="rounds")
    value, _, interval = ratio_words(plain).partition(" ")
    if not once:
        return f"{value} {word} {interval}"
    return f"{value} {word} ({interval.strip('()')} within the captures; {once})"


def _value(value: float) -> str:
    """Return a factor that was measured once: three digits below 100, as 11.4."""
    return f"{value:.3g}" if value < 100 else format_iops(value)


def inverted(speed_up: Estimate) -> Estimate:
    """Return how many times as long it takes, from how many times as fast it is."""
    low, high = speed_up.low, speed_up.high
    return msgspec.structs.replace(
        speed_up,
        value=1 / speed_up.value,
        low=None if high is None else 1 / high,
        high=None if not low else 1 / low,
    )
