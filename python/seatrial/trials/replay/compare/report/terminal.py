"""Before and after, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from seatrial.report.table import NO_FIGURE, without_empty
from seatrial.report.table import Table as ReportTable
from seatrial.report.terminal import table_text, wrapped
from seatrial.stats.wording import format_count, format_size
from seatrial.trials.replay.compare.model import (
    Batch,
    BeforeAfter,
    Change,
    OneSided,
    ServerWork,
    Table,
)
from seatrial.trials.replay.compare.report.answer import warnings_of
from seatrial.trials.replay.compare.report.wording import (
    calls_text,
    compared_phrase,
    floor_phrase,
    seconds,
    side_phrase,
    tables_of,
)
from seatrial.trials.replay.compare.verdict import (
    batch_answer_phrase,
    change_phrase,
)
from seatrial.trials.replay.compare.warnings import noun_of, nouns_of
from seatrial.trials.replay.report.wording import shortened

TEXT_MAX: Final = 44
ONE_SIDED_MAX: Final = 5
PLAN_MAX: Final = 160


def before_after_text(found: BeforeAfter, *, top: int) -> str:
    """Return a comparison for a terminal; its verdict comes last.

    Args:
        found: The comparison.
        top: Number of queries and pages to show, those with the most time before.
    """
    blocks = [block for table in found.tables for block in _table_blocks(table, top)]
    if found.batches:
        blocks.append(table_text(_batches_table(found.batches)))
    warnings = warnings_of(found)
    warnings += [warning for batch in found.batches for warning in batch.warnings]
    if warnings:
        blocks.append("\n".join(map(_marked, dict.fromkeys(warnings))))
    for table, subject in tables_of(found):
        if floor := floor_phrase(table.floor, subject):
            blocks.append(wrapped(f"Noise floor: {floor}."))
    blocks.append("\n".join(map(wrapped, found.verdict)))
    return "\n\n".join(block.rstrip() for block in blocks) + "\n"


def _table_blocks(table: Table, top: int) -> Iterator[str]:
    yield _sides(table)
    slower = table.regressions
    if slower:
        yield table_text(_changes(table, slower[:top], "Slower, the slowest first"))
        yield from _plans(slower[:top])
    others = [change for change in table.changes if change.answer != "slower"]
    if others and top:
        left = len(others) - top
        more = f"; {format_count(left)} more with --top or --json" if left > 0 else ""
        title = f"Others, by total time before{more}"
        yield table_text(_changes(table, others[:top], title))
    work = _server(table, top)
    if work.rows:
        yield table_text(without_empty(work))
    yield from _only_on_one_side(table)


def _sides(table: Table) -> str:
    """Return both sides and how they were compared, in three lines."""
    lines = {
        "before": f"{table.before.name}: {side_phrase(table.before)}",
        "after": f"{table.after.name}: {side_phrase(table.after)}",
        "compared": compared_phrase(table, noun_of(table.before)),
    }
    return "\n".join(wrapped(text, name.ljust(10)) for name, text in lines.items())


def _changes(table: Table, changes: Sequence[Change], title: str) -> ReportTable:
    has_plans = any(change.plan_changed or change.plan_varies for change in changes)
    has_failed = any(change.before.errors or change.after.errors for change in changes)
    noun = noun_of(table.before).capitalize()
    return ReportTable(
        id="changes",
        title=title,
        labels=1,
        headers=[noun, "Calls", "Before", "After", "Change", "Saves"]
        + (["Failed"] if has_failed else [])
        + (["Plan"] if has_plans else []),
        rows=[
            [
                shortened(change.text, TEXT_MAX) or NO_FIGURE,
                calls_text(change.before.calls),
                seconds(change.before.mean_s),
                seconds(change.after.mean_s),
                change_phrase(change, once=""),
                seconds(change.saved_s),
                *([_failed(change)] if has_failed else []),
                *([_plan(change)] if has_plans else []),
            ]
            for change in changes
        ],
    )


def _failed(change: Change) -> str:
    """Return how many calls failed before and after, averaged over the units."""
    counts = change.before.errors, change.after.errors
    return " / ".join(calls_text(count) for count in counts) if any(counts) else NO_FIGURE


def _plan(change: Change) -> str:
    if change.plan_varies and not change.plan_changed:
        return "varies"
    return {None: NO_FIGURE, True: "changed", False: "same"}[change.plan_changed]


def _plans(slower: Sequence[Change]) -> Iterator[str]:
    """Yield the changed plans of slower queries."""
    for change in slower:
        if change.plan_changed:
            text = (
                f"Plan of {shortened(change.text, TEXT_MAX)}: "
                f"{shortened(change.plan_before, PLAN_MAX)} before, "
                f"{shortened(change.plan_after, PLAN_MAX)} after."
            )
            yield wrapped(text, subsequent="   ")


def _server(table: Table, top: int) -> ReportTable:
    """Return the server's work per call, if pg_stat_statements has it for both sides."""
    known = [
        (change, change.server_before, change.server_after)
        for change in table.changes
        if change.server_before and change.server_after
    ]
    return ReportTable(
        id="server",
        title="Server work per call, before and after",
        labels=1,
        headers=["Query", "Time", "", "Blocks hit", "", "Blocks read", "", "WAL", ""],
        rows=[
            [
                shortened(change.text, TEXT_MAX),
                *(cell for pair in _works(before, after) for cell in pair),
            ]
            for change, before, after in known[:top]
        ],
    )


def _works(before: ServerWork, after: ServerWork) -> Iterator[tuple[str, str]]:
    for name in ("exec_s", "blocks_hit", "blocks_read", "wal_bytes"):
        values = getattr(before, name), getattr(after, name)
        yield (_work(name, values[0]), _work(name, values[1]))


def _work(name: str, value: float | None) -> str:
    if value is None:
        return NO_FIGURE
    if name == "exec_s":
        return seconds(value)
    if name == "wal_bytes":
        return format_size(round(value))
    return f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def _only_on_one_side(table: Table) -> Iterator[str]:
    """Yield what only one side has, the most time first."""
    for side, other, rows in (
        (table.before, table.after, table.only_before),
        (table.after, table.before, table.only_after),
    ):
        if not rows:
            continue
        examples = "; ".join(_one_sided(row) for row in rows[:ONE_SIDED_MAX])
        left = len(rows) - ONE_SIDED_MAX
        more = f"; and {format_count(left)} more" if left > 0 else ""
        noun = noun_of(side) if len(rows) == 1 else nouns_of(side)
        yield wrapped(
            f"{format_count(len(rows))} {noun} only in {side.name}, not in {other.name}: "
            f"{examples}{more}."
        )


def _one_sided(row: OneSided) -> str:
    return f"{shortened(row.text, TEXT_MAX)} ({seconds(row.measured.total_s)})"


def _batches_table(batches: Sequence[Batch]) -> ReportTable:
    return ReportTable(
        id="batches",
        title="Batches by elapsed time (real)",
        labels=1,
        headers=["Batch", "Before", "After", "Change"],
        rows=[
            [
                batch.name,
                _times(batch.before_s),
                _times(batch.after_s),
                batch_answer_phrase(batch),
            ]
            for batch in batches
        ],
    )


def _times(values_s: Sequence[float]) -> str:
    mean = seconds(sum(values_s) / len(values_s))
    return mean if len(values_s) == 1 else f"{mean} (mean of {len(values_s)})"


def _marked(sentence: str) -> str:
    return wrapped(sentence, " ! ")
