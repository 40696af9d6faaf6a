"""Evidence that a replay affected the right rows: IDs, order, differences, start state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from markupsafe import Markup

from seatrial.report.markup import fill
from seatrial.report.table import NO_FIGURE, Group, Table
from seatrial.results.model import StartRecord
from seatrial.results.replay import (
    ReplayContent,
    ReplayDelays,
    ReplayIdClass,
    ReplayIds,
    ReplayRecord,
)
from seatrial.stats.model import CellSummary
from seatrial.stats.wording import (
    UNKNOWN,
    format_count,
    format_duration_ns,
    format_duration_s,
    format_plural,
    format_share,
)
from seatrial.trials.replay.analysis.ids import (
    content_sentence,
    id_sums,
    ids_sentence,
    mismatches,
    not_followed_sentence,
    reason_text,
    reference_text,
)
from seatrial.trials.replay.analysis.model import ReplayCell
from seatrial.trials.replay.report.wording import reported_round_of, shortened

TEXT_MAX: Final = 2_000
_VOLATILE: Final = {
    "time": "the time: now(), CURRENT_TIMESTAMP",
    "random": "random values: random(), gen_random_uuid()",
    "last_drawn": "the session's last sequence value: currval, lastval",
}
_RESTORED_BY: Final = {
    "reflink": "reflink of the snapshot",
    "copy": "file copy",
    "template": "template database (CREATE DATABASE ... TEMPLATE)",
    "reuse": "not restored: continues after the previous sample",
    "restore": "restore command",
}
_DELAYED_BY: Final = {
    "order": "commit order or strict order",
    "object": "a statement on the same table or sequence",
    "key": "a statement on the same key",
}


def ids_table(ids: ReplayIds, number: int) -> Table:
    """Return the IDs by column, with the evidence for their mapping."""
    used = [column for column in ids.classes if column.uses or column.draws]
    return Table(
        id=f"replay-ids-{number}",
        title="Generated IDs by column and evidence",
        labels=1,
        headers=["Column", "Captured", "Replayed", "Uses", "Exact", "Proved", "Pattern",
                 "Unresolved", "Existing"],
        rows=[_ids_row(column) for column in used],
    )  # fmt: skip


def _ids_row(column: ReplayIdClass) -> list[str]:
    counts = (
        column.draws, column.drawn_now, column.uses, column.exact, column.proved, column.by_pattern,
        sum(column.unresolved.values()), column.not_generated,
    )  # fmt: skip
    return [column.column, *(_count(count) for count in counts)]


def _count(count: int) -> str:
    return format_count(count) if count else NO_FIGURE


def columns_table(ids: ReplayIds, number: int) -> Table:
    """Return the source of each column's values, the columns that refer to it, and rewrites."""
    return Table(
        id=f"replay-id-columns-{number}",
        title="Sources of generated values by column",
        labels=1,
        headers=["Column", "Source", "Referenced by", "Rewritten", "Gaps"],
        rows=[
            [
                column.column,
                column.source or NO_FIGURE,
                ", ".join(column.referring) or NO_FIGURE,
                _count(column.rewritten),
                _count(column.gaps),
            ]
            for column in ids.classes
            if column.uses or column.draws
        ],
    )


def unresolved_table(ids: ReplayIds, number: int) -> Table:
    """Return why IDs were not mapped, and values that may be IDs; no row if there are none."""
    sums = id_sums(ids)
    return Table(
        id=f"replay-ids-unresolved-{number}",
        title="Unmapped IDs by reason",
        labels=1,
        headers=["Reason", "IDs", "Share of generated"],
        rows=[
            [reason_text(reason), format_count(count), format_share(count / sums.generated)]
            for reason, count in sums.unresolved.items()
        ]
        + [
            [f"possible IDs in {reason_text(location)}", format_count(count), NO_FIGURE]
            for location, count in sums.not_followed.items()
        ],
    )


def id_examples_table(ids: ReplayIds, number: int) -> Table:
    """Return some of the unmapped IDs, with a statement that uses them."""
    return Table(
        id=f"replay-id-examples-{number}",
        title="Unmapped IDs: first example of each",
        labels=1,
        headers=["Statement", "Column", "Value", "Reason", "Candidates", "Position", "Session"],
        rows=[
            [
                shortened(example.text, TEXT_MAX) or NO_FIGURE,
                example.column,
                example.value or NO_FIGURE,
                reason_text(example.reason),
                _count(example.candidates),
                f"#{format_count(example.number)}",
                example.session or NO_FIGURE,
            ]
            for example in ids.examples
        ],
    )


def patterns_table(ids: ReplayIds, number: int) -> Table:
    """Return the pairs of statements in which patterns were searched, with their evidence."""
    return Table(
        id=f"replay-id-patterns-{number}",
        title="Patterns: which insert generated the ID that a statement uses",
        labels=2,
        headers=["Insert", "Use", "Column", "Proved: own last", "Proved: other", "Rule",
                 "IDs mapped"],
        rows=[
            [
                shortened(pattern.draw_text, TEXT_MAX) or NO_FIGURE,
                shortened(pattern.use_text, TEXT_MAX) or NO_FIGURE,
                pattern.column,
                format_count(pattern.proved_own),
                format_count(pattern.proved_other),
                "used" if pattern.is_trusted else "not used",
                _count(pattern.uses),
            ]
            for pattern in ids.patterns
        ],
    )  # fmt: skip


def content_table(content: ReplayContent, number: int) -> Table:
    """Return the tables that differ, by column, and those that were not compared."""
    return Table(
        id=f"replay-content-{number}",
        title=f"Tables whose rows differ from {reference_text(content)}",
        labels=1,
        headers=["Table", "Rows captured", "Rows replayed", "Different", "By column"],
        rows=[
            [
                table.name,
                format_count(table.rows_captured),
                format_count(table.rows_now),
                format_count(table.rows_different),
                ", ".join(f"{name} {format_count(n)}" for name, n in table.columns.items())
                or NO_FIGURE,
            ]
            for table in content.different
        ]
        + [
            [name, NO_FIGURE, NO_FIGURE, NO_FIGURE, f"not compared: {why}"]
            for name, why in content.not_compared.items()
        ],
    )


def sequences_table(ids: ReplayIds, number: int) -> Table:
    """Return the next value of each sequence on the target and in the log, if both are known."""
    mismatched = {mismatch.column for mismatch in mismatches(ids)}
    return Table(
        id=f"replay-sequences-{number}",
        title="Next values of sequences at the start",
        labels=2,
        headers=["Column", "Sequence", "In the log", "On the target", "Same"],
        rows=[
            [
                column.column,
                column.source or NO_FIGURE,
                _value(column.next_value_log, "unknown"),
                _value(column.next_value_target, UNKNOWN),
                _same(column, is_mismatched=column.column in mismatched),
            ]
            for column in ids.classes
            if column.next_value_log is not None or column.next_value_target is not None
        ],
    )


def _value(value: int | None, absent: str) -> str:
    return absent if value is None else format_count(value)


def _same(column: ReplayIdClass, *, is_mismatched: bool) -> str:
    if column.next_value_log is None or column.next_value_target is None:
        return UNKNOWN
    return "no" if is_mismatched else "yes"


def divergence_table(record: ReplayRecord, number: int) -> Table:
    """Return expected and observed rows and errors, by statement class."""
    return Table(
        id=f"replay-divergence-{number}",
        title="Rows and errors by class, expected (capture) and observed (replay)",
        labels=1,
        headers=["Class", "Compared", "Expected", "Observed", "Different", "Share", "Expected",
                 "Observed"],
        groups=[Group("", 2), Group("rows", 4), Group("errors", 2)],
        rows=[
            [
                name,
                format_count(rows.compared),
                format_count(rows.expected_rows),
                format_count(rows.observed_rows),
                _count(rows.different),
                format_share(rows.different / rows.compared) if rows.compared else NO_FIGURE,
                _count(rows.expected_errors),
                _count(rows.observed_errors),
            ]
            for name, rows in record.rows.by_class.items()
            if rows.compared or rows.expected_errors or rows.observed_errors
        ],
    )  # fmt: skip


def order_facts(order: ReplayDelays) -> Iterator[tuple[str, str]]:
    """Yield the ordered statements and the cost of ordering, for the table of facts."""
    if order.mode:
        yield "order", order.mode
    if order.edges:
        yield "ordered pairs of statements", format_count(order.edges)
    if order.edge_ns is not None:
        yield "CPU time per ordered pair", format_duration_ns(order.edge_ns)
    if order.statement_ns is not None:
        yield "CPU time per scheduled statement", format_duration_ns(order.statement_ns)
    for name, count in order.delayed_by.items():
        if count:
            yield f"delayed by {_DELAYED_BY.get(name, name)}", format_count(count)


def volatile_sentence(ids: ReplayIds) -> str:
    """Return how many statements use volatile values; empty if there are none."""
    counts = [
        f"{format_count(count)} with {_VOLATILE.get(name, name)}"
        for name, count in ids.volatile.items()
        if count
    ]
    if not counts:
        return ""
    return f"Statements with volatile values: {'; '.join(counts)}."


def means_sentence(ids: ReplayIds) -> str:
    """Return how IDs were determined, and which statements could not be parsed; may be empty."""
    parts = []
    if ids.returning_added:
        parts.append(
            f"RETURNING was added to {format_plural(ids.returning_added, 'INSERT')} to get the "
            "generated IDs"
        )
    if ids.waited_ns:
        parts.append(
            f"statements waited {format_duration_ns(ids.waited_ns)} in total for generated IDs"
        )
    if ids.forms_not_understood:
        forms = format_plural(ids.forms_not_understood, "kind of statement", "kinds of statements")
        parts.append(f"{forms} could not be parsed, and their IDs were not mapped")
    if not parts:
        return ""
    sentence = "; ".join(parts)
    return f"{sentence[0].upper()}{sentence[1:]}."


def start_table(start: StartRecord, number: int) -> Table:
    """Return the start state of the database."""
    return Table(
        id=f"replay-start-{number}",
        title="Start state",
        labels=1,
        headers=["What", "Found"],
        rows=[[name, text] for name, text in _start_facts(start)],
    )


def _start_facts(start: StartRecord) -> Iterator[tuple[str, str]]:
    restored_by = _RESTORED_BY.get(start.restored, start.restored)
    yield "restored by", restored_by or "not restored: used as it was"
    if start.rows:
        rows = format_plural(sum(start.rows.values()), "row")
        yield "tables counted", f"{format_count(len(start.rows))}, {rows}"
    if start.contents:
        yield "tables read completely", format_count(len(start.contents))
    if start.rows_estimated:
        known = [count for count in start.rows_estimated.values() if count is not None]
        about = f", about {format_count(round(sum(known)))} rows" if known else ""
        yield "tables estimated (ANALYZE)", f"{format_count(len(start.rows_estimated))}{about}"
    if start.sequences:
        yield "sequences read", format_count(len(start.sequences))
    if start.unread:
        yield "not readable (no permission)", format_count(len(start.unread))
    if start.lsn:
        yield "WAL position (LSN)", start.lsn
    if start.lsn_unrestored:
        yield "LSN before the restore", start.lsn_unrestored
    if start.source_rows_written is not None:
        yield "rows ever written to the source", format_count(start.source_rows_written)
    if start.checkpoint_lsn:
        yield "last checkpoint (LSN)", start.checkpoint_lsn
    if start.duration_s:
        yield "time to read the state", format_duration_s(start.duration_s)


HEADING = "Correctness of rows"


def evidence_part(replay: ReplayCell, part: CellSummary, number: int) -> Markup:
    """Return the evidence that a replay affected the right rows; empty if nothing is known.

    Args:
        replay: The replay.
        part: Its cell.
        number: Number of the replay on its page, which ids of tables contain.
    """
    sample, record = reported_round_of(replay, part)
    start = sample.database.start if sample.database else None
    ids, content = record.ids, record.content
    return fill(
        "trials/replay/report/evidence_section.html",
        heading=HEADING,
        ids=_ids(ids, number) if ids else None,
        content=f"{content_sentence(content)}." if content else "",
        contents=content_table(content, number) if content else None,
        divergence=divergence_table(record, number),
        start=start_table(start, number) if start else None,
    )


def _ids(ids: ReplayIds, number: int) -> dict[str, object]:
    """Return the mapping of IDs: a sentence, a table by column, and the reasons."""
    content = {"sentence": f"{ids_sentence(ids)}."}
    if ids.mode == "off":
        return content | {"sentences": [], "tables": [], "folded": []}
    not_followed = not_followed_sentence(ids)
    sentences = (
        f"{not_followed}." if not_followed else "",
        means_sentence(ids),
        volatile_sentence(ids),
    )
    tables = [
        id_examples_table(ids, number),
        patterns_table(ids, number),
        columns_table(ids, number),
    ]
    return content | {
        "sentences": [sentence for sentence in sentences if sentence],
        "tables": [
            table
            for table in (
                ids_table(ids, number),
                unresolved_table(ids, number),
                sequences_table(ids, number),
            )
            if table.rows
        ],
        "folded": [
            (table, table.id.startswith(("replay-id-e", "replay-id-p")))
            for table in tables
            if table.rows
        ],
    }
