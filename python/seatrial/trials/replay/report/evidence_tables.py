"""What shows that a replay met the right rows in the right order: ids, order, divergence, start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from seatrial.report.table import NO_FIGURE, Group, Table
from seatrial.results.replay import ReplayHeld, ReplayRecord
from seatrial.results.replay_content import ReplayContent
from seatrial.results.replay_ids import ReplayIdClass, ReplayIds
from seatrial.results.start import StartRecord
from seatrial.stats.wording import (
    UNKNOWN,
    format_count,
    format_duration_ns,
    format_duration_s,
    format_plural,
    format_share,
)
from seatrial.trials.replay.analysis.content import whose
from seatrial.trials.replay.analysis.ids import id_sums, mismatches, reason_words
from seatrial.trials.replay.report.words import shortened

TEXT_MAX: Final = 2_000
_VOLATILE: Final = {
    "time": "the time: now(), CURRENT_TIMESTAMP",
    "random": "random values: random(), gen_random_uuid()",
    "last_drawn": "what the session drew last: currval, lastval",
}
_BROUGHT: Final = {
    "reflink": "a copy that shares its blocks with the snapshot (reflink)",
    "copy": "a copy, file by file",
    "template": "a copy by the server (CREATE DATABASE ... TEMPLATE)",
    "reuse": "nothing: it goes on from the sample before",
    "restore": "the restore command",
}
_HELD_BY: Final = {
    "order": "the order of commits, or of everything",
    "object": "another statement on the same table or sequence",
    "key": "another statement on the same key",
}


def ids_table(ids: ReplayIds, number: int) -> Table:
    """Return the ids by column, with the evidence that each was mapped on."""
    used = [each for each in ids.classes if each.uses or each.draws]
    return Table(
        id=f"replay-ids-{number}",
        title="Ids that the captured server made, by column and by evidence",
        labels=1,
        headers=["Column", "Drawn", "Now", "Named", "Exact", "Proved", "Pattern", "Unresolved",
                 "There before"],
        rows=[_ids_row(each) for each in used],
    )  # fmt: skip


def _ids_row(each: ReplayIdClass) -> list[str]:
    counts = (
        each.draws, each.drawn_now, each.uses, each.exact, each.proved, each.by_pattern,
        sum(each.unresolved.values()), each.not_generated,
    )  # fmt: skip
    return [each.column, *(_count(count) for count in counts)]


def _count(count: int) -> str:
    return format_count(count) if count else NO_FIGURE


def columns_table(ids: ReplayIds, number: int) -> Table:
    """Return what each column's values come from, what refers to it, what was sent otherwise."""
    return Table(
        id=f"replay-id-columns-{number}",
        title="Where the values of each column come from",
        labels=1,
        headers=["Column", "Drawn from", "Referred to by", "Sent otherwise", "Left out now"],
        rows=[
            [
                each.column,
                each.source or NO_FIGURE,
                ", ".join(each.referring) or NO_FIGURE,
                _count(each.rewritten),
                _count(each.gaps),
            ]
            for each in ids.classes
            if each.uses or each.draws
        ],
    )


def unresolved_table(ids: ReplayIds, number: int) -> Table:
    """Return why ids were left alone, and what may be ids; no row where none was."""
    sums = id_sums(ids)
    return Table(
        id=f"replay-ids-unresolved-{number}",
        title="Ids that were left alone, by reason",
        labels=1,
        headers=["Reason", "Ids", "Of the generated"],
        rows=[
            [reason_words(reason), format_count(count), format_share(count / sums.generated)]
            for reason, count in sums.unresolved.items()
        ]
        + [
            [f"may be an id: {reason_words(place)}", format_count(count), NO_FIGURE]
            for place, count in sums.not_followed.items()
        ],
    )


def id_examples_table(ids: ReplayIds, number: int) -> Table:
    """Return some of the ids that were left alone, with the statement that names them."""
    return Table(
        id=f"replay-id-examples-{number}",
        title="Ids that were left alone: the first of each",
        labels=1,
        headers=["Statement", "Column", "Value", "Reason", "Draws that fit", "Place", "Session"],
        rows=[
            [
                shortened(each.text, TEXT_MAX) or NO_FIGURE,
                each.column,
                each.value or NO_FIGURE,
                reason_words(each.reason),
                _count(each.candidates),
                f"#{format_count(each.number)}",
                each.session or NO_FIGURE,
            ]
            for each in ids.examples
        ],
    )


def patterns_table(ids: ReplayIds, number: int) -> Table:
    """Return the pairs of texts of which a pattern was sought, and what the proved ones say."""
    return Table(
        id=f"replay-id-patterns-{number}",
        title="Patterns: whose draw a statement names, as the proved ones tell",
        labels=2,
        headers=["Draws", "Names", "Column", "Proved: its own last", "Proved: another's", "Rule",
                 "Ids mapped so"],
        rows=[
            [
                shortened(each.draw_text, TEXT_MAX) or NO_FIGURE,
                shortened(each.use_text, TEXT_MAX) or NO_FIGURE,
                each.column,
                format_count(each.proved_own),
                format_count(each.proved_other),
                "used" if each.is_trusted else "not used",
                _count(each.uses),
            ]
            for each in ids.patterns
        ],
    )  # fmt: skip


def content_table(content: ReplayContent, number: int) -> Table:
    """Return the tables that differ, by column, and those that were not compared."""
    return Table(
        id=f"replay-content-{number}",
        title=f"Tables whose rows are not {whose(content)}",
        labels=1,
        headers=["Table", "Rows captured", "Rows now", "Different", "By column"],
        rows=[
            [
                each.name,
                format_count(each.rows_captured),
                format_count(each.rows_now),
                format_count(each.rows_different),
                ", ".join(f"{name} {format_count(n)}" for name, n in each.columns.items())
                or NO_FIGURE,
            ]
            for each in content.different
        ]
        + [
            [name, NO_FIGURE, NO_FIGURE, NO_FIGURE, f"not compared: {why}"]
            for name, why in content.not_compared.items()
        ],
    )


def sequences_table(ids: ReplayIds, number: int) -> Table:
    """Return where each sequence stood, on the target and in the log; only what both tell."""
    other = {each.column for each in mismatches(ids)}
    return Table(
        id=f"replay-sequences-{number}",
        title="Sequences when the replay began: the value that each gives next",
        labels=2,
        headers=["Column", "Sequence", "In the log", "On the target", "Same"],
        rows=[
            [
                each.column,
                each.source or NO_FIGURE,
                _value(each.next_value_log, "not shown"),
                _value(each.next_value_target, UNKNOWN),
                _same(each, is_other=each.column in other),
            ]
            for each in ids.classes
            if each.next_value_log is not None or each.next_value_target is not None
        ],
    )


def _value(value: int | None, absent: str) -> str:
    return absent if value is None else format_count(value)


def _same(each: ReplayIdClass, *, is_other: bool) -> str:
    if each.next_value_log is None or each.next_value_target is None:
        return UNKNOWN
    return "no" if is_other else "yes"


def divergence_table(record: ReplayRecord, number: int) -> Table:
    """Return rows and errors expected against those observed, by class of statement."""
    return Table(
        id=f"replay-divergence-{number}",
        title="Rows and errors by class, expected (in the capture) and observed (now)",
        labels=1,
        headers=["Class", "Compared", "Expected", "Observed", "Different", "Share", "Expected",
                 "Observed"],
        groups=[Group("", 2), Group("rows", 4), Group("errors", 2)],
        rows=[
            [
                name,
                format_count(each.compared),
                format_count(each.expected_rows),
                format_count(each.observed_rows),
                _count(each.different),
                format_share(each.different / each.compared) if each.compared else NO_FIGURE,
                _count(each.expected_errors),
                _count(each.observed_errors),
            ]
            for name, each in record.rows.by_class.items()
            if each.compared or each.expected_errors or each.observed_errors
        ],
    )  # fmt: skip


def order_facts(order: ReplayHeld) -> Iterator[tuple[str, str]]:
    """Yield what an order kept and what that took, for the table of facts."""
    if order.mode:
        yield "order", order.mode
    if order.edges:
        yield "pairs of statements that it kept in order", format_count(order.edges)
    if order.edge_ns is not None:
        yield "what finding one took", format_duration_ns(order.edge_ns)
    if order.statement_ns is not None:
        yield "what placing a statement took the driver", format_duration_ns(order.statement_ns)
    for name, count in order.held_by.items():
        if count:
            yield f"held by {_HELD_BY.get(name, name)}", format_count(count)


def volatile_sentence(ids: ReplayIds) -> str:
    """Return how many statements ask for what is other each time; empty where none does."""
    reported = [
        f"{format_count(count)} for {_VOLATILE.get(name, name)}"
        for name, count in ids.volatile.items()
        if count
    ]
    if not reported:
        return ""
    return f"Statements that ask for what is other each time: {'; '.join(reported)}."


def means_sentence(ids: ReplayIds) -> str:
    """Return what was done to learn ids, and what was not understood; empty for nothing."""
    reported = []
    if ids.returning_added:
        reported.append(
            f"{format_plural(ids.returning_added, 'INSERT')} got a RETURNING to learn what they "
            "drew"
        )
    if ids.waited_ns:
        reported.append(
            f"statements waited {format_duration_ns(ids.waited_ns)} together for values"
        )
    if ids.forms_not_understood:
        forms = format_plural(ids.forms_not_understood, "kind of statement", "kinds of statements")
        were = "was" if ids.forms_not_understood == 1 else "were"
        reported.append(f"{forms} {were} not understood: ids in them were left alone")
    if not reported:
        return ""
    sentence = "; ".join(reported)
    return f"{sentence[0].upper()}{sentence[1:]}."


def start_table(start: StartRecord, number: int) -> Table:
    """Return what the database held when the sample began."""
    return Table(
        id=f"replay-start-{number}",
        title="What it began with",
        labels=1,
        headers=["What", "Found"],
        rows=[[name, text] for name, text in _start_facts(start)],
    )


def _start_facts(start: StartRecord) -> Iterator[tuple[str, str]]:
    brought = _BROUGHT.get(start.restored, start.restored)
    yield "brought there by", brought or "nobody: taken as it was"
    if start.rows:
        rows = format_plural(sum(start.rows.values()), "row")
        yield "tables counted", f"{format_count(len(start.rows))}, {rows}"
    if start.contents:
        yield "of these read whole", format_count(len(start.contents))
    if start.rows_estimated:
        known = [count for count in start.rows_estimated.values() if count is not None]
        about = f", about {format_count(round(sum(known)))} rows" if known else ""
        yield "tables estimated (ANALYZE)", f"{format_count(len(start.rows_estimated))}{about}"
    if start.sequences:
        yield "sequences looked at", format_count(len(start.sequences))
    if start.unread:
        yield "that the user may not read", format_count(len(start.unread))
    if start.lsn:
        yield "place in the write-ahead log", start.lsn
    if start.lsn_unrestored:
        yield "place in it before the restore", start.lsn_unrestored
    if start.source_rows_written is not None:
        yield "rows ever written to what is copied", format_count(start.source_rows_written)
    if start.checkpoint_lsn:
        yield "last checkpoint of the files", start.checkpoint_lsn
    if start.looked_s:
        yield "looking took", format_duration_s(start.looked_s)
