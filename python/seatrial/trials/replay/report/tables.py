"""The tables of a run's replays: rates, the account that adds up, errors, rows, latencies.

The terminal, the Markdown export and the page show these. Each account is of one round, the worst:
only the counts of a single round add up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from seatrial.findings.model import Summary
from seatrial.report.table import (
    NO_FIGURE,
    TOO_FEW,
    Group,
    Table,
    doubt_text,
    latency_text,
    rate_text,
)
from seatrial.results.replay import ReplayAccount, ReplayErrors, ReplayQuery, ReplayRecord
from seatrial.stats.cell_estimates import entries_needed
from seatrial.stats.model import CellSummary
from seatrial.stats.wording import (
    UNKNOWN,
    USUAL_OF_REPLAY,
    format_count,
    format_duration_ns,
    format_duration_s,
    format_iops,
    format_plural,
    format_share,
    format_size,
    format_value,
)
from seatrial.trials.database.report.tables import narrowed
from seatrial.trials.database.report.wording import label_headers, label_names, label_texts
from seatrial.trials.replay.analysis.model import Lateness, ReplayCell, has_clock
from seatrial.trials.replay.report.caches import cache_tables
from seatrial.trials.replay.report.evidence_tables import (
    content_table,
    divergence_table,
    ids_table,
    order_facts,
    unresolved_table,
)
from seatrial.trials.replay.report.wording import (
    ERRORS,
    cause_text,
    name_of,
    ratio_text,
    reason_text,
    replayed,
    reported_round_of,
    round_text,
    shortened,
    speed_text,
)

_LATE_BY = {
    "session": "session still busy",
    "order": "delayed by the order",
    "connections": "all connections in use",
    "driver": "driver late",
}


def facts_table(replay: ReplayCell, part: CellSummary, number: int) -> Table:
    """Return commits, sessions, order and the driver's resource usage."""
    return Table(
        id=f"replay-facts-{number}",
        title="Sessions, order and driver",
        labels=1,
        headers=["Item", "Figure"],
        rows=[[name, text] for name, text in _facts(replay, part)],
    )


def _facts(replay: ReplayCell, part: CellSummary) -> Iterator[tuple[str, str]]:
    sample, record = reported_round_of(replay, part)
    commits, sessions, order, client = (
        record.commits, record.sessions, record.order, record.client,
    )  # fmt: skip
    yield "duration of the replay", format_duration_s(sample.duration_s)
    yield "duration of the capture", _length(record.captured_s if has_clock(record) else 0.0)
    yield "commits, replay of capture", _of(commits.committed, commits.captured)
    yield "captured sessions", format_count(sessions.captured)
    yield "peak sessions, replay of capture", _of(sessions.open_max, sessions.captured_open_max)
    yield "connections opened", format_count(sessions.connected)
    if sessions.refused or sessions.lost:
        yield "connection attempts refused", format_count(sessions.refused)
        yield "connections lost", format_count(sessions.lost)
    if sessions.never_ended:
        yield "sessions that never disconnected", format_count(sessions.never_ended)
    yield from order_facts(order)
    yield "statements delayed by the order", format_count(order.delayed)
    if order.delayed:
        yield "total delay", format_duration_ns(order.waited_ns)
        yield "released out of order, lock wait", format_count(order.released_by_lock)
        yield "released out of order, no progress", format_count(order.released_by_patience)
    if order.postponed:
        yield "postponed, lock wait", format_count(order.postponed)
    yield "core used by the driver (largest round)", _share(replay.client_core_share)
    yield "driver waiting for a CPU (largest round)", _share(replay.client_delay_share)
    yield "driver with a null server", _ceiling(replay)
    yield "rate as a share of that", _share(replay.ceiling_share)
    yield "driver process memory", format_size(client.memory_bytes_max)
    yield "statements read ahead", format_count(client.read_ahead_max)


def _of(count: int, of: int) -> str:
    return f"{format_count(count)} of {format_count(of)}"


def _length(length_s: float) -> str:
    return format_duration_s(length_s) if length_s > 0 else UNKNOWN


def _share(share: float | None) -> str:
    return UNKNOWN if share is None else format_share(share)


def _ceiling(replay: ReplayCell) -> str:
    if replay.ceiling_per_s is None:
        return UNKNOWN
    return f"{format_iops(replay.ceiling_per_s)} statements/s"


def trace_table(replay: ReplayCell, part: CellSummary, number: int) -> Table:
    """Return the trace's properties and the replay options."""
    _, record = reported_round_of(replay, part)
    return Table(
        id=f"replay-trace-{number}",
        title="Trace and options",
        labels=1,
        headers=["Item", "Value"],
        rows=[[name.replace("_", " "), text or NO_FIGURE] for name, text in record.trace.items()],
    )


def lateness_table(replay: ReplayCell, number: int) -> Table:
    """Return the lag of statements, and what delayed the late ones."""
    late = replay.lateness
    return Table(
        id=f"replay-lag-{number}",
        title="Schedule lag",
        labels=1,
        headers=["Item", "Figure"],
        rows=[] if late is None else [[name, text] for name, text in _lags(late)],
    )


def _lags(late: Lateness) -> Iterator[tuple[str, str]]:
    yield "scheduled", format_plural(late.due, "statement")
    yield "sent within 1 ms", format_share(late.within_1ms_share)
    yield "lag p50", format_duration_ns(late.p50_ns)
    yield "lag p99", format_duration_ns(late.p99_ns)
    yield "lag max", format_duration_ns(late.max_ns)
    for name, count in late.late_by.items():
        yield f"late: {_LATE_BY[name]}", format_count(count)
    yield "mean lag, first third", _mean(late.first_ns)
    yield "mean lag, worst other third", _mean(late.peak_ns)
    yield "driver's own lag p99", format_duration_ns(late.driver_p99_ns)
    yield "driver's own lag max", format_duration_ns(late.driver_max_ns)


def _mean(value_ns: float | None) -> str:
    return NO_FIGURE if value_ns is None else format_duration_ns(value_ns)


QUERIES_MAX: Final = 10
"""Of a terminal; a page has more."""
_TERMINAL_TEXT_MAX: Final = 28
_QUERY_TEXT_MAX: Final = 24
_EXACT: Final = 0.0  # counted, not estimated: three digits
_LESS_INFORMATIVE: Final = ("mean", "p99.9", "Session", "First", "Capture/s", "p90", "max")
TEXT_MAX: Final = 2_000
"""Length of a query's text on a page, which wraps it."""
_PERCENTS: Final = {"p50": 50.0, "p95": 95.0, "p99": 99.0}
_TERMINAL_PERCENTILES: Final = ("p50", "p99")
_CLASS_PERCENTILES: Final = ("p50", "p90", "p99", "p99.9", "max", "mean")


def replay_tables(summary: Summary) -> list[Table]:
    """Return the tables of a run's replays, narrowed to a terminal; empty without replays."""
    replays = replayed(summary)
    if not replays:
        return []
    cells = [part for _, part in replays]
    found = [rates_table(replays), *cache_tables(summary)]
    for number, (replay, part) in enumerate(replays, start=1):
        tables = [
            account_table(replay, part, number),
            *problem_tables(replay, part, number, _TERMINAL_TEXT_MAX),
            *_evidence(replay, part, number),
            classes_table(part, number),
            queries_table(
                replay,
                part,
                number,
                queries_max=QUERIES_MAX,
                characters_max=_QUERY_TEXT_MAX,
                percentiles=_TERMINAL_PERCENTILES,
            ),
            facts_table(replay, part, number),
            *([lateness_table(replay, number)] if replay.lateness else []),
        ]
        name = name_of(part, cells)
        found += [_named(table, name) for table in tables if table.rows]
    return [narrowed(table, _LESS_INFORMATIVE) for table in found]


def _evidence(replay: ReplayCell, part: CellSummary, number: int) -> list[Table]:
    """Return the tables of IDs by column, unmapped IDs, and differences by class."""
    _, record = reported_round_of(replay, part)
    found = [divergence_table(record, number)]
    if record.ids is not None:
        found = [ids_table(record.ids, number), unresolved_table(record.ids, number), *found]
    if record.content is not None:
        found.append(content_table(record.content, number))
    return found


def _named(table: Table, name: str) -> Table:
    return msgspec.structs.replace(table, title=f"{table.title}: {name}") if name else table


def problem_tables(
    replay: ReplayCell, part: CellSummary, number: int, characters_max: int = TEXT_MAX
) -> list[Table]:
    """Return the non-empty tables of skipped, failed and different statements.

    Args:
        replay: The replay.
        part: Its cell.
        number: Number of the replay on its page, which ids of tables contain.
        characters_max: Longest part of a query's text, and of a server's message.
    """
    _, record = reported_round_of(replay, part)
    tables = [
        skipped_table(record, number),
        errors_table(record.errors, number),
        error_examples_table(record.errors, number, characters_max),
        rows_table(record, number),
        row_examples_table(record, number, characters_max),
    ]
    return [table for table in tables if table.rows]


def rates_table(replays: Sequence[tuple[ReplayCell, CellSummary]]) -> Table:
    """Return a row per replay: statements per second, the capture's, and the bottleneck."""
    cells = [part for _, part in replays]
    names = [name for name in label_names(cells) if _is_informative(name, cells)]
    return Table(
        id="replay-rates",
        title="Statements per second, compared with the capture",
        labels=len(names) + 1,
        headers=[
            *("Connections" if n == "threads" else h
              for n, h in zip(names, label_headers(names), strict=True)),
            "Speed", "Answered/s", "±", "Capture/s", "Ratio", "Speed met", "Bottleneck",
        ],
        rows=[
            [
                *label_texts(part, names),
                speed_text(replay),
                *_answered(replay, part),
                format_iops(replay.captured_per_s, _EXACT)
                if replay.captured_per_s
                else NO_FIGURE,
                format_value(replay.ratio) if replay.ratio else NO_FIGURE,
                ratio_text(replay.delivered, NO_FIGURE),
                replay.bottleneck.who,
            ]
            for replay, part in replays
        ],
    )  # fmt: skip


def _answered(replay: ReplayCell, part: CellSummary) -> list[str]:
    """Return statements answered per second, errors included, and the interval."""
    if part.blank and not replay.answered_per_s.value:
        return ["0", part.blank]
    return [rate_text(replay.answered_per_s), doubt_text(replay.answered_per_s)]


def _is_informative(name: str, cells: Sequence[CellSummary]) -> bool:
    """Return whether a factor is worth a column; the speed has a separate one."""
    values = {part.cell.identity().get(name) for part in cells}
    return name != "speed" and values != {USUAL_OF_REPLAY.get(name)}


def account_table(replay: ReplayCell, part: CellSummary, number: int) -> Table:
    """Return the outcomes of each class of statements; rows and columns add up."""
    _, record = reported_round_of(replay, part)
    of = round_text(replay, part)
    accounts = {name: account for name, account in record.classes.items() if account.captured}
    rows = [_account_row(name, account) for name, account in accounts.items()]
    return Table(
        id=f"replay-account-{number}",
        title=f"Outcome of all captured statements{f' ({of})' if of else ''}",
        labels=1,
        headers=["Class", "Captured", "Succeeded", "Failed", "Skipped", "Not reached"],
        rows=[*rows, _account_row("all", record.total)] if rows else [],
    )


def _account_row(name: str, account: ReplayAccount) -> list[str]:
    counts = (account.ok, account.failed, account.skipped_count, account.not_reached)
    return [
        name,
        format_count(account.captured),
        *(format_count(count) if count else NO_FIGURE for count in counts),
    ]


def skipped_table(record: ReplayRecord, number: int) -> Table:
    """Return why statements were skipped, and the cause."""
    total = record.total
    reasons = sorted(total.skipped.items(), key=lambda item: -item[1])
    return Table(
        id=f"replay-skipped-{number}",
        title="Skipped statements by reason",
        labels=2,
        headers=["Reason", "Caused by", "Statements", "Share of capture"],
        rows=[
            [
                reason_text(reason),
                cause_text(reason),
                format_count(count),
                format_share(count / total.captured),
            ]
            for reason, count in reasons
            if count
        ],
    )


def errors_table(errors: ReplayErrors, number: int) -> Table:
    """Return the errors compared with the capture; no row if neither has any."""
    counts = {name: int(getattr(errors, name)) for name in ERRORS}
    has_any = any(counts.values()) or errors.captured
    return Table(
        id=f"replay-errors-{number}",
        title=f"Errors, compared with {format_count(errors.captured)} in the capture",
        labels=1,
        headers=["Error", "Statements"],
        rows=[[ERRORS[name], format_count(count)] for name, count in counts.items()]
        if has_any
        else [],
    )


def error_examples_table(
    errors: ReplayErrors, number: int, characters_max: int = TEXT_MAX
) -> Table:
    """Return the most frequent errors, the most important kinds first."""
    order = list(ERRORS)
    ranked = sorted(
        errors.examples,
        key=lambda example: (_rank(order, example.kind), -example.count, example.number),
    )
    return Table(
        id=f"replay-error-examples-{number}",
        title="Most frequent errors",
        labels=2,
        headers=["Query", "Kind", "Capture", "Replay", "Statements", "First", "Session", "Message"],
        rows=[
            [
                shortened(example.text, characters_max) or NO_FIGURE,
                example.kind,
                example.captured_sqlstate or NO_FIGURE,
                example.sqlstate or NO_FIGURE,
                format_count(example.count),
                f"#{format_count(example.number)}",
                example.session or NO_FIGURE,
                shortened(example.message, characters_max) or NO_FIGURE,
            ]
            for example in ranked
        ],
    )


def _rank(order: Sequence[str], kind: str) -> int:
    return order.index(kind) if kind in order else len(order)


def rows_table(record: ReplayRecord, number: int) -> Table:
    """Return the comparisons with the capture, and the differences."""
    rows = record.rows
    counted = (
        ("row counts", rows.compared, rows.compared - rows.equal),
        ("command tags", rows.tags_compared, rows.tags_different),
        ("updates and deletes without a row (no captured row count)", rows.writes,
         rows.empty_writes),
        ("reads without a row (no captured row count)", rows.reads, rows.empty_reads),
        ("COMMITs that rolled back", record.commits.captured, record.commits.lost),
    )  # fmt: skip
    return Table(
        id=f"replay-rows-{number}",
        title="Rows and results, compared with the capture",
        labels=1,
        headers=["Item", "Compared", "Different", "Share"],
        rows=[
            [name, format_count(of), format_count(other), format_share(other / of)]
            for name, of, other in counted
            if of
        ],
    )


def row_examples_table(record: ReplayRecord, number: int, characters_max: int = TEXT_MAX) -> Table:
    """Return the first difference of each query."""
    ranked = sorted(record.rows.examples, key=lambda example: -example.count)
    return Table(
        id=f"replay-row-examples-{number}",
        title="Different row counts: first example of each query",
        labels=1,
        headers=["Query", "Rows captured", "Rows replayed", "Tag", "Statements", "First"],
        rows=[
            [
                shortened(example.text, characters_max) or NO_FIGURE,
                _count_or_none(example.captured),
                _count_or_none(example.rows),
                example.tag or NO_FIGURE,
                format_count(example.count),
                f"#{format_count(example.number)}",
            ]
            for example in ranked
        ],
    )


def _count_or_none(count: int | None) -> str:
    return NO_FIGURE if count is None else format_count(count)


def classes_table(part: CellSummary, number: int) -> Table:
    """Return the response times of each class of statements, over the rounds."""
    return Table(
        id=f"replay-classes-{number}",
        title="Response time by statement class",
        labels=1,
        headers=["Class", *_CLASS_PERCENTILES],
        rows=[
            [name, *(latency_text(latency, percentile) for percentile in _CLASS_PERCENTILES)]
            for name, latency in part.latency.items()
        ],
    )


def queries_table(
    replay: ReplayCell,
    part: CellSummary,
    number: int,
    *,
    queries_max: int,
    characters_max: int = TEXT_MAX,
    percentiles: Sequence[str] = tuple(_PERCENTS),
) -> Table:
    """Return each query's service time at the client, and the captured server-side time.

    Args:
        replay: The replay.
        part: Its cell.
        number: Number of the replay on its page, which ids of tables contain.
        queries_max: The first of them by total time.
        characters_max: Longest part of a query's text.
        percentiles: Percentiles of both times.
    """
    _, record = reported_round_of(replay, part)
    shown = record.queries[:queries_max]
    is_timed = any(query.captured_known for query in shown)
    captured = [Group("capture (server)", len(percentiles))] if is_timed else []
    return Table(
        id=f"replay-queries-{number}",
        title=_queries_title(record, len(shown), is_timed=is_timed),
        labels=2,
        headers=["Query", "Class", "Succeeded", "Failed", *([*percentiles] * (1 + is_timed))],
        groups=[Group("", 4), Group("replay (client)", len(percentiles)), *captured],
        rows=[_query_row(query, characters_max, percentiles, is_timed) for query in shown],
    )


def _queries_title(record: ReplayRecord, shown: int, *, is_timed: bool) -> str:
    parts = ["Queries by total time"]
    if left := len(record.queries) - shown:
        parts.append(f"{format_plural(left, 'more query', 'more queries')} not shown")
    if dropped := record.queries_dropped:
        parts.append(f"{format_plural(dropped, 'statement')} of other queries not shown")
    if not is_timed:
        parts.append("no durations in the capture")
    return "; ".join(parts)


def _query_row(
    query: ReplayQuery, characters_max: int, percentiles: Sequence[str], is_timed: bool
) -> list[str]:
    now = _percentile_texts(query, "service", query.ok, percentiles)
    before = _percentile_texts(query, "captured", query.captured_known, percentiles)
    return [
        shortened(query.text, characters_max) or NO_FIGURE,
        query.class_,
        format_count(query.ok),
        format_count(query.failed) if query.failed else NO_FIGURE,
        *now,
        *(before if is_timed else []),
    ]


def _percentile_texts(
    query: ReplayQuery, of: str, entries: int, percentiles: Sequence[str]
) -> list[str]:
    """Return percentiles of one round; ``too few`` if there are not enough statements."""
    if not entries:
        return [NO_FIGURE] * len(percentiles)
    return [
        format_duration_ns(getattr(query, f"{of}_ns_{name}"))
        if entries >= entries_needed(_PERCENTS[name])
        else TOO_FEW
        for name in percentiles
    ]
