"""The tables of a run's replays: rates, the account that adds up, errors, rows, latencies.

The terminal, the Markdown export and the page all show these. Each account is of one round, the
one with the most that went wrong: only of one round can it add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

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
from seatrial.stats.estimates import entries_needed
from seatrial.stats.model import CellSummary
from seatrial.stats.wording import (
    USUAL_OF_REPLAY,
    format_count,
    format_duration_ns,
    format_iops,
    format_plural,
    format_share,
    format_value,
)
from seatrial.trials.database.report.tables import narrowed
from seatrial.trials.database.report.words import label_headers, label_names, label_texts
from seatrial.trials.replay.analysis.model import ReplayCell
from seatrial.trials.replay.report.caches import cache_tables
from seatrial.trials.replay.report.evidence_tables import (
    content_table,
    divergence_table,
    ids_table,
    unresolved_table,
)
from seatrial.trials.replay.report.fact_tables import facts_table, lateness_table
from seatrial.trials.replay.report.words import (
    ERRORS,
    asked_words,
    name_of,
    ratio_text,
    reason_words,
    replayed,
    reported_of,
    round_words,
    shortened,
    whose_words,
)

QUERIES_MAX: Final = 10
"""Of a terminal; a page has more."""
_TERMINAL_TEXT_MAX: Final = 28
_QUERY_TEXT_MAX: Final = 24
_EXACT: Final = 0.0  # counted, not estimated: three digits
_LESS_TELLING: Final = ("mean", "p99.9", "Session", "First", "Capture/s", "p90", "max")
TEXT_MAX: Final = 2_000
"""Of a query's text on a page, which wraps it."""
_PERCENTS: Final = {"p50": 50.0, "p95": 95.0, "p99": 99.0}
_FEW: Final = ("p50", "p99")
_CLASS_PERCENTILES: Final = ("p50", "p90", "p99", "p99.9", "max", "mean")


def replay_tables(summary: Summary) -> list[Table]:
    """Return the tables of a run's replays that fit a terminal; none where it has none."""
    replays = replayed(summary)
    if not replays:
        return []
    cells = [part for _, part in replays]
    found = [rates_table(replays), *cache_tables(summary)]
    for number, (reported, part) in enumerate(replays, start=1):
        tables = [
            account_table(reported, part, number),
            *problem_tables(reported, part, number, _TERMINAL_TEXT_MAX),
            *_evidence(reported, part, number),
            classes_table(part, number),
            queries_table(
                reported,
                part,
                number,
                queries_max=QUERIES_MAX,
                characters_max=_QUERY_TEXT_MAX,
                percentiles=_FEW,
            ),
            facts_table(reported, part, number),
            *([lateness_table(reported, number)] if reported.lateness else []),
        ]
        name = name_of(part, cells)
        found += [_named(table, name) for table in tables if table.rows]
    return [narrowed(table, _LESS_TELLING) for table in found]


def _evidence(reported: ReplayCell, part: CellSummary, number: int) -> list[Table]:
    """Return ids by column, why some were left alone, and what differs by class."""
    _, record = reported_of(reported, part)
    found = [divergence_table(record, number)]
    if record.ids is not None:
        found = [ids_table(record.ids, number), unresolved_table(record.ids, number), *found]
    if record.content is not None:
        found.append(content_table(record.content, number))
    return found


def _named(table: Table, name: str) -> Table:
    title = f"{table.title}: {name}" if name else table.title
    return Table(
        id=table.id, title=title, labels=table.labels, headers=table.headers, groups=table.groups,
        rows=table.rows,
    )  # fmt: skip


def problem_tables(
    reported: ReplayCell, part: CellSummary, number: int, characters_max: int = TEXT_MAX
) -> list[Table]:
    """Return what was skipped, failed or differed; only what there is.

    Args:
        reported: The replay.
        part: Its cell.
        number: Of its tables.
        characters_max: Of a query's text, and of a server's words.
    """
    _, record = reported_of(reported, part)
    tables = [
        skipped_table(record, number),
        errors_table(record.errors, number),
        error_examples_table(record.errors, number, characters_max),
        rows_table(record, number),
        row_examples_table(record, number, characters_max),
    ]
    return [table for table in tables if table.rows]


def rates_table(replays: Sequence[tuple[ReplayCell, CellSummary]]) -> Table:
    """Return a row for each replay: statements per second, the capture's, and who held it up."""
    cells = [part for _, part in replays]
    names = [name for name in label_names(cells) if _is_informative(name, cells)]
    return Table(
        id="replay-rates",
        title="Statements per second against the capture",
        labels=len(names) + 1,
        headers=[
            *("Connections" if n == "threads" else h
              for n, h in zip(names, label_headers(names), strict=True)),
            "Asked", "Answered/s", "±", "Capture/s", "Ratio", "Of the speed", "Bottleneck",
        ],
        rows=[
            [
                *label_texts(part, names),
                asked_words(reported),
                *_answered(reported, part),
                format_iops(reported.captured_per_s, _EXACT)
                if reported.captured_per_s
                else NO_FIGURE,
                format_value(reported.ratio) if reported.ratio else NO_FIGURE,
                ratio_text(reported.delivered, NO_FIGURE),
                reported.bottleneck.who,
            ]
            for reported, part in replays
        ],
    )  # fmt: skip


def _answered(reported: ReplayCell, part: CellSummary) -> list[str]:
    """Return statements answered a second, errors included, and the doubt."""
    if part.blank and not reported.answered_per_s.value:
        return ["0", part.blank]
    return [rate_text(reported.answered_per_s), doubt_text(reported.answered_per_s)]


def _is_informative(name: str, cells: Sequence[CellSummary]) -> bool:
    """Tell whether a factor is worth a column: the speed has one of its own."""
    values = {part.cell.identity().get(name) for part in cells}
    return name != "speed" and values != {USUAL_OF_REPLAY.get(name)}


def account_table(reported: ReplayCell, part: CellSummary, number: int) -> Table:
    """Return what became of each class of statements; rows and columns add up."""
    _, record = reported_of(reported, part)
    of = round_words(reported, part)
    named = {name: each for name, each in record.classes.items() if each.captured}
    rows = [_account_row(name, each) for name, each in named.items()]
    return Table(
        id=f"replay-account-{number}",
        title=f"What became of every captured statement{f' ({of})' if of else ''}",
        labels=1,
        headers=["Class", "Captured", "Well", "Failed", "Skipped", "Not reached"],
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
    """Return why statements were skipped, and whose doing it is."""
    total = record.total
    reasons = sorted(total.skipped.items(), key=lambda item: -item[1])
    return Table(
        id=f"replay-skipped-{number}",
        title="Skipped, by reason",
        labels=2,
        headers=["Reason", "Because of", "Statements", "Of the captured"],
        rows=[
            [
                reason_words(reason),
                whose_words(reason),
                format_count(count),
                format_share(count / total.captured),
            ]
            for reason, count in reasons
            if count
        ],
    )


def errors_table(errors: ReplayErrors, number: int) -> Table:
    """Return the errors against those of the capture; no row where neither has any."""
    counts = {name: int(getattr(errors, name)) for name in ERRORS}
    has_any = any(counts.values()) or errors.captured
    return Table(
        id=f"replay-errors-{number}",
        title=f"Errors against the capture, which has {format_count(errors.captured)}",
        labels=1,
        headers=["Error", "Statements"],
        rows=[[ERRORS[name], format_count(count)] for name, count in counts.items()]
        if has_any
        else [],
    )


def error_examples_table(
    errors: ReplayErrors, number: int, characters_max: int = TEXT_MAX
) -> Table:
    """Return the most frequent errors, those that matter first."""
    order = list(ERRORS)
    ranked = sorted(
        errors.examples, key=lambda each: (_rank(order, each.kind), -each.count, each.number)
    )
    return Table(
        id=f"replay-error-examples-{number}",
        title="The most frequent errors",
        labels=2,
        headers=["Query", "Kind", "Captured", "Now", "Statements", "First", "Session", "Words"],
        rows=[
            [
                shortened(each.text, characters_max) or NO_FIGURE,
                each.kind,
                each.captured_sqlstate or NO_FIGURE,
                each.sqlstate or NO_FIGURE,
                format_count(each.count),
                f"#{format_count(each.number)}",
                each.session or NO_FIGURE,
                shortened(each.message, characters_max) or NO_FIGURE,
            ]
            for each in ranked
        ],
    )


def _rank(order: Sequence[str], kind: str) -> int:
    return order.index(kind) if kind in order else len(order)


def rows_table(record: ReplayRecord, number: int) -> Table:
    """Return what was compared with the capture, and what differed."""
    rows = record.rows
    counted = (
        ("rows of statements whose rows the capture tells", rows.compared,
         rows.compared - rows.equal),
        ("command tags, against the text", rows.tags_compared, rows.tags_different),
        ("updates and deletes without a row, where the capture does not tell", rows.writes,
         rows.empty_writes),
        ("reads without a row", rows.reads, rows.empty_reads),
        ("COMMIT answered by a rollback", record.commits.captured, record.commits.rolled_back),
    )  # fmt: skip
    return Table(
        id=f"replay-rows-{number}",
        title="Rows and results against the capture",
        labels=1,
        headers=["Of", "Compared", "Different", "Share"],
        rows=[
            [name, format_count(of), format_count(other), format_share(other / of)]
            for name, of, other in counted
            if of
        ],
    )


def row_examples_table(record: ReplayRecord, number: int, characters_max: int = TEXT_MAX) -> Table:
    """Return the first difference of each query."""
    ranked = sorted(record.rows.examples, key=lambda each: -each.count)
    return Table(
        id=f"replay-row-examples-{number}",
        title="Where rows differ: the first of each query",
        labels=1,
        headers=["Query", "Rows captured", "Rows now", "Tag now", "Statements", "First"],
        rows=[
            [
                shortened(each.text, characters_max) or NO_FIGURE,
                _count_or_none(each.captured),
                _count_or_none(each.rows),
                each.tag or NO_FIGURE,
                format_count(each.count),
                f"#{format_count(each.number)}",
            ]
            for each in ranked
        ],
    )


def _count_or_none(count: int | None) -> str:
    return NO_FIGURE if count is None else format_count(count)


def classes_table(part: CellSummary, number: int) -> Table:
    """Return the response times of each class of statements, over the rounds."""
    return Table(
        id=f"replay-classes-{number}",
        title="Response time by class of statement",
        labels=1,
        headers=["Class", *_CLASS_PERCENTILES],
        rows=[
            [name, *(latency_text(latency, percentile) for percentile in _CLASS_PERCENTILES)]
            for name, latency in part.latency.items()
        ],
    )


def queries_table(
    reported: ReplayCell,
    part: CellSummary,
    number: int,
    *,
    queries_max: int,
    characters_max: int = TEXT_MAX,
    percentiles: Sequence[str] = tuple(_PERCENTS),
) -> Table:
    """Return each query's service time at the client beside the server's own when captured.

    Args:
        reported: The replay.
        part: Its cell.
        number: Of its tables.
        queries_max: The first of them by total time.
        characters_max: Of a query's text.
        percentiles: Of both times.
    """
    _, record = reported_of(reported, part)
    shown = record.queries[:queries_max]
    is_timed = any(each.captured_known for each in shown)
    captured = [Group("captured, on the server", len(percentiles))] if is_timed else []
    return Table(
        id=f"replay-queries-{number}",
        title=_queries_title(record, len(shown), is_timed=is_timed),
        labels=2,
        headers=["Query", "Class", "Well", "Failed", *([*percentiles] * (1 + is_timed))],
        groups=[Group("", 4), Group("now, at the client", len(percentiles)), *captured],
        rows=[_query_row(each, characters_max, percentiles, is_timed) for each in shown],
    )


def _queries_title(record: ReplayRecord, shown: int, *, is_timed: bool) -> str:
    reported = ["Queries by total time"]
    if left := len(record.queries) - shown:
        reported.append(f"{format_plural(left, 'more query', 'more queries')} not shown")
    if dropped := record.queries_dropped:
        reported.append(f"{format_plural(dropped, 'statement')} more not shown")
    if not is_timed:
        reported.append("the capture tells no durations")
    return "; ".join(reported)


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
    """Return percentiles of one round; those that too few statements know say so."""
    if not entries:
        return [NO_FIGURE] * len(percentiles)
    return [
        format_duration_ns(getattr(query, f"{of}_ns_{name}"))
        if entries >= entries_needed(_PERCENTS[name])
        else TOO_FEW
        for name in percentiles
    ]
