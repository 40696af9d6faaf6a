"""Before and after in words: speed-ups, answers, noise, sides."""

from __future__ import annotations

import math
from typing import Final

from seatrial.report.table import ONCE
from seatrial.stats.compare.verdict import ratio_phrase
from seatrial.stats.estimate import Estimate
from seatrial.stats.wording import (
    format_count,
    format_duration_ns,
    format_duration_s,
    format_iops,
    format_plural,
    format_share,
    format_value,
)
from seatrial.trials.replay.compare.model import (
    Batch,
    BeforeAfter,
    Change,
    Floor,
    Overall,
    Side,
    Table,
)
from seatrial.trials.replay.compare.verdict import ONCE as BOTH_ONCE
from seatrial.trials.replay.compare.verdict import (
    batch_phrase,
    change_phrase,
    once_of,
    table_sentences,
)
from seatrial.trials.replay.compare.warnings import NOUNS, Subject, noun_of
from seatrial.units import NS_PER_S

KINDS: Final = {
    "replay": "replay",
    "log": "server log",
    "statements": "pg_stat_statements",
    "web": "access log",
    "batch": "shell times",
}
CLOCKS: Final = {"client": "client times", "server": "server times"}
BASES: Final = {
    "interleaved": "interleaved rounds, compared in pairs",
    "in_sequence": "several rounds of one side, then of the other",
    "once": "one measurement of {of}: no significance test",
}
_COUNTS_WHOLE: Final = 100
LEVEL_OF_ONE: Final = 0.95
"""Level of an interval that is not adjusted for multiple queries."""


def interval_text(factor: Estimate) -> str:
    """Return the interval of a factor, such as ``5.8 to 6.4``, or that there is none."""
    if factor.low is None or factor.high is None:
        return ONCE
    text = ratio_phrase(factor).partition("(")[2].removesuffix(")")
    return f"{text}, 1 capture" if factor.over == "timeline" else text


def answer_phrase(answered: Change | Overall | Batch) -> str:
    """Return the answer in words: ``slower``, ``same within 4 %``, ``undecided, ...``."""
    if isinstance(answered, Batch):
        return answered.answer
    text = _conclusion_text(answered)
    if isinstance(answered, Overall) or answered.in_average or answered.failing:
        return text
    return f"{text}; not in the average"


def _conclusion_text(answered: Change | Overall) -> str:
    if answered.answer == "same" and answered.within_share is not None:
        return f"same within {format_share(answered.within_share)}"
    if isinstance(answered, Change) and answered.failing:
        return f"{answered.answer}, more timed failures {answered.failing}"
    if answered.below_floor:
        return "undecided, within the noise"
    if answered.answer == "undecided" and answered.rounds_more:
        return f"undecided, needs {format_plural(answered.rounds_more, 'more round')}"
    return answered.answer


def page_verdict(found: BeforeAfter) -> str:
    """Return the headline of a page: each table's verdict with both speed-ups, and batches."""
    text = [next(table_sentences(table)) for table in found.tables]
    return " ".join([*text, *(f"{batch_phrase(batch)}." for batch in found.batches)])


def tables_of(found: BeforeAfter) -> list[tuple[Table, Subject]]:
    """Return the tables of queries and pages, each with the kind of its rows."""
    return [(table, noun_of(table.before)) for table in found.tables]


def counts_phrase(overall: Overall, subject: Subject) -> str:
    """Return how many are faster, slower, the same and undecided, and the changed plans."""
    counts = {
        "significantly faster": overall.faster,
        "significantly slower": overall.slower,
        "the same": overall.same,
        "undecided": overall.undecided,
    }
    text = ", ".join(f"{format_count(count)} {word}" for word, count in counts.items() if count)
    _, plural = NOUNS[subject]
    sentence = f"{plural.capitalize()}: {text}." if text else f"No {plural} could be compared."
    if overall.plans_changed:
        sentence += f" {format_plural(overall.plans_changed, 'plan')} changed."
    return sentence


def floor_phrase(floor: Floor | None, subject: Subject) -> str:
    """Return the noise floor of queries or pages and its source; empty if there is none.

    Halves of interleaved rounds are not reported: these rounds include their own noise.
    """
    if floor is None or floor.source == "halves":
        return ""
    source = {
        "pair": f"from {floor.name}, a second measurement of before",
        "usual": "from identical pgbench runs on a busy machine, as nothing more precise is known; "
        "a query's own variance is added",
    }[floor.source]
    if floor.source == "usual" and floor.halves_overall == floor.overall:
        source = "from the difference between the halves of one capture"
    one = f"for a single {NOUNS[subject][0]}"
    text = f"{_excess_text(floor.overall)} overall, {_excess_text(floor.query)} {one}"
    if floor.overall == floor.query:
        text = f"{_excess_text(floor.overall)}, overall and {one}"
    return f"up to {text} ({source})"


def _excess_text(factor: float) -> str:
    """Return a factor of at least 1 as the share above 1, or from 2 on as a factor."""
    return f"{format_iops(factor)}x" if factor >= 2 else format_share(factor - 1)


def side_phrase(side: Side) -> str:
    """Return a side in words: ``replay, 5 rounds, 8,200 calls in 12 s each, client times``."""
    noun = "request" if side.kind == "web" else "call"
    parts = [KINDS.get(side.kind, side.kind)]
    if side.units > 1:
        parts.append(format_plural(side.units, "round"))
    if side.left_out:
        parts.append(f"{format_count(side.left_out)} left out")
    if side.calls:
        each = " each" if side.units > 1 else ""
        covered = f" in {format_duration_s(side.covered_s)}" if side.covered_s else ""
        parts.append(f"{format_plural(round(side.calls), noun)}{covered}{each}")
    parts.append(CLOCKS[side.clock])
    if side.detail:
        parts.append(side.detail)
    return ", ".join(parts)


def compared_phrase(table: Table, subject: Subject) -> str:
    """Return how two sides were compared, and the offset of client times if there is one."""
    singular, plural = NOUNS[subject]
    text = [f"{format_plural(len(table.changes), f'common {singular}', f'common {plural}')}"]
    text.append(BASES[table.basis].format(of=once_each(table)))
    if table.offset_s is not None:
        text.append(f"{seconds(table.offset_s)} subtracted from each client time")
    return ", ".join(text)


def once_each(table: Table) -> str:
    """Return which sides have only one measurement: ``each side`` or ``one side``."""
    return "each side" if once_of(table) == BOTH_ONCE else "one side"


def seconds(value_s: float) -> str:
    """Return a time such as ``850 µs`` or ``12 s``; a saving below zero keeps its sign."""
    sign = "−" if value_s < 0 else ""
    if abs(value_s) >= 60:
        return f"{sign}{format_duration_s(abs(value_s))}"
    return f"{sign}{format_duration_ns(abs(value_s) * NS_PER_S)}"


def calls_text(calls: float) -> str:
    """Return the average number of calls per unit; exact if it is whole or large."""
    if calls >= _COUNTS_WHOLE or calls == int(calls):
        return format_count(round(calls))
    return f"{calls:.1f}"


def saved_phrase(change: Change, *, once: str) -> str:
    """Return what a query saves or costs, as shown in the waterfall."""
    if not change.saved_s:
        return f"saves nothing: {change_phrase(change, once=once)}"
    verb = "saves" if change.saved_s > 0 else "costs"
    return f"{verb} {seconds(abs(change.saved_s))}: {change_phrase(change, once=once)}"


def factor_text(factor: Estimate) -> str:
    """Return a factor such as ``6.1x``, with as many digits as its interval allows."""
    return format_value(factor)


def interval_phrase(level: float) -> str:
    """Return the heading of intervals: ``95 %``, or ``99.17 %, adjusted``."""
    if level <= LEVEL_OF_ONE:
        return f"{100 * LEVEL_OF_ONE:g} %"
    return f"{math.floor(1e4 * level) / 100:g} %, adjusted"
