"""How before and after are put into words: speed-ups, answers, noise, what a side is."""

from __future__ import annotations

import math
from typing import Final, Literal

from seatrial.report.table import ONCE
from seatrial.stats.compare.verdict import ratio_words
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
    OneSided,
    Overall,
    Side,
    Table,
)
from seatrial.trials.replay.compare.verdict import ONCE as BOTH_ONCE
from seatrial.trials.replay.compare.verdict import (
    batch_words,
    change_words,
    once_of,
    table_sentences,
)

Subject = Literal["query", "page"]

NOUNS: Final[dict[Subject, tuple[str, str]]] = {
    "query": ("query", "queries"),
    "page": ("page", "pages"),
}
KINDS: Final = {
    "replay": "replay",
    "log": "log of a server",
    "statements": "pg_stat_statements",
    "web": "access log",
    "batch": "times of a shell",
}
CLOCKS: Final = {"client": "times of the client", "server": "times of the server"}
BASES: Final = {
    "interleaved": "rounds of both in turns, compared one by one",
    "in_sequence": "several rounds of one, then of the other",
    "once": "one measurement of {of}: nothing is tested",
}
_NS_A_S: Final = 1e9
_COUNTS_WHOLE: Final = 100
LEVEL_OF_ONE: Final = 0.95
"""Of an interval that was not adjusted for many queries."""


def ratio_doubt(factor: Estimate) -> str:
    """Return the interval of a factor, such as ``5.8 to 6.4``, or that there is none."""
    if factor.low is None or factor.high is None:
        return ONCE
    reported = ratio_words(factor).partition("(")[2].removesuffix(")")
    return f"{reported}, 1 capture" if factor.over == "timeline" else reported


def answer_words(answered: Change | Overall | Batch) -> str:
    """Return what is certain of something: ``slower``, ``same within 4 %``, ``undecided, ...``."""
    if isinstance(answered, Batch):
        return answered.answer
    reported = _certain_words(answered)
    if isinstance(answered, Overall) or answered.in_average or answered.failing:
        return reported
    return f"{reported}; not in the average"


def _certain_words(answered: Change | Overall) -> str:
    if answered.answer == "same" and answered.within_share is not None:
        return f"same within {format_share(answered.within_share)}"
    if isinstance(answered, Change) and answered.failing:
        return f"{answered.answer}, more failed {answered.failing}"
    if answered.below_floor:
        return "undecided, within the noise"
    if answered.answer == "undecided" and answered.rounds_more:
        return f"undecided, {format_plural(answered.rounds_more, 'more round')} would settle it"
    return answered.answer


def page_verdict(found: BeforeAfter) -> str:
    """Return the first sentences of a page: each table's verdict with both speed-ups, batches."""
    reported = [next(table_sentences(table)) for table, _ in tables_of(found)]
    return " ".join([*reported, *(f"{batch_words(batch)}." for batch in found.batches)])


def tables_of(found: BeforeAfter) -> list[tuple[Table, Subject]]:
    """Return the tables of queries and pages that there are, with what their rows are."""
    named: list[tuple[Table | None, Subject]] = [(found.queries, "query"), (found.pages, "page")]
    return [(table, subject) for table, subject in named if table is not None]


def counts_words(overall: Overall, subject: Subject) -> str:
    """Return how many are faster, slower, the same and undecided, and the changed plans."""
    counts = {
        "significantly faster": overall.faster,
        "significantly slower": overall.slower,
        "the same": overall.same,
        "undecided": overall.undecided,
    }
    reported = ", ".join(f"{format_count(count)} {word}" for word, count in counts.items() if count)
    _, plural = NOUNS[subject]
    sentence = f"Of the {plural}: {reported}." if reported else f"No {plural} could be compared."
    if overall.plans_changed:
        sentence += f" The plan of {format_count(overall.plans_changed)} is another."
    return sentence


def floor_words(floor: Floor | None) -> str:
    """Return what counts as noise, and where that is known from; empty where nothing does.

    Of halves of rounds in turns nothing is said: these rounds know their own noise.
    """
    if floor is None or floor.source == "halves":
        return ""
    source = {
        "pair": f"before was measured once more ({floor.name})",
        "usual": "what identical runs of pgbench on a busy machine differed by, as nothing sharper "
        "is known; what a single one scatters by itself comes on top",
    }[floor.source]
    if floor.source == "usual" and floor.halves_overall == floor.overall:
        source = "the halves of one capture differ by as much"
    reported = f"{_beyond(floor.overall)} of the whole, {_beyond(floor.query)} of a single one"
    if floor.overall == floor.query:
        reported = f"{_beyond(floor.overall)}, of the whole and of a single one"
    return f"up to {reported}: {source}"


def _beyond(factor: float) -> str:
    """Return a factor of at least 1 as a share beyond it, from 2 on as a factor."""
    return f"{format_iops(factor)}x" if factor >= 2 else format_share(factor - 1)


def side_words(side: Side) -> str:
    """Return what a side is: ``replay, 5 rounds, 8,200 statements in 12 s, times of the ...``."""
    noun = "request" if side.kind == "web" else "call"
    parts = [KINDS.get(side.kind, side.kind)]
    if side.units > 1:
        parts.append(format_plural(side.units, "round"))
    if side.left_out:
        parts.append(f"{format_count(side.left_out)} more left out")
    if side.calls:
        each = " each" if side.units > 1 else ""
        covered = f" in {format_duration_s(side.covered_s)}" if side.covered_s else ""
        parts.append(f"{format_plural(round(side.calls), noun)}{covered}{each}")
    parts.append(CLOCKS[side.clock])
    if side.detail:
        parts.append(side.detail)
    return ", ".join(parts)


def compared_words(table: Table, subject: Subject) -> str:
    """Return how two sides were compared, and the clock's offset where there is one."""
    singular, plural = NOUNS[subject]
    reported = [f"{format_plural(len(table.changes), f'common {singular}', f'common {plural}')}"]
    reported.append(BASES[table.basis].format(of=once_each(table)))
    if table.offset_s is not None:
        reported.append(f"{seconds(table.offset_s)} taken off each of the client's times")
    return ", ".join(reported)


def once_each(table: Table) -> str:
    """Return of how many sides there is one measurement: of ``each``, or of ``one side``."""
    return "each" if once_of(table) == BOTH_ONCE else "one side"


def seconds(value_s: float) -> str:
    """Return a time such as ``850 µs`` or ``12 s``; a saving below zero keeps its sign."""
    sign = "−" if value_s < 0 else ""
    if abs(value_s) >= 60:
        return f"{sign}{format_duration_s(abs(value_s))}"
    return f"{sign}{format_duration_ns(abs(value_s) * _NS_A_S)}"


def calls_text(calls: float) -> str:
    """Return how often, on the average of the units: exact where it is whole or large."""
    if calls >= _COUNTS_WHOLE or calls == int(calls):
        return format_count(round(calls))
    return f"{calls:.1f}"


def saved_words(change: Change, *, once: str) -> str:
    """Return what a query saves or costs, as the waterfall tells it."""
    if not change.saved_s:
        return f"saves nothing: {change_words(change, once=once)}"
    verb = "saves" if change.saved_s > 0 else "costs"
    return f"{verb} {seconds(abs(change.saved_s))}: {change_words(change, once=once)}"


def factor_text(factor: Estimate) -> str:
    """Return a factor such as ``6.1x``, with as many digits as its interval allows."""
    return format_value(factor)


def interval_words(level: float) -> str:
    """Return what is written above intervals: ``95 %``, or ``99.17 %, adjusted``."""
    if level <= LEVEL_OF_ONE:
        return f"{100 * LEVEL_OF_ONE:g} %"
    return f"{math.floor(1e4 * level) / 100:g} %, adjusted"


def lacking_time_s(parts: list[OneSided]) -> float:
    """Return the time of all that only one side has, in one unit."""
    return sum(part.measured.total_s for part in parts)
