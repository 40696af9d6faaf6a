"""Logs, captures and traces for a terminal: facts, classes, queries, load over time."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Mapping
from typing import Final

import click

from seatrial import program
from seatrial.report.table import NO_FIGURE, TOO_FEW, Table, without_empty
from seatrial.report.terminal import bars, table_text, wrapped
from seatrial.stats.cell_estimates import entries_needed
from seatrial.stats.wording import (
    format_count,
    format_duration_ns,
    format_duration_s,
    format_first,
    format_plural,
    format_rate_bytes,
    format_share,
    format_size,
    moment,
)
from seatrial.trials.replay.reading import (
    Accounting,
    CaptureCounts,
    LogFile,
    Reading,
    Split,
    Unreadable,
)
from seatrial.trials.replay.report.wording import shortened
from seatrial.trials.replay.trace import ClassSums, Mix, Query, Spread, Timeline, Trace
from seatrial.units import US_PER_S


def reason_text(reason: str) -> str:
    """Return a reason's name as words: ``copy_data`` is ``copy data``."""
    return reason.replace("_", " ")


def span_text(started_at: float, ended_at: float) -> str:
    """Return a span of the clock: ``2026-11-21 07:45 UTC to 08:03 UTC, 18 min``.

    Args:
        started_at: Its start, as Unix time in s.
        ended_at: Its end, likewise.
    """
    length = format_duration_s(ended_at - started_at)
    begin, end = moment(started_at), moment(ended_at)
    same_day = begin[:10] == end[:10]
    if begin == end:
        second = datetime.datetime.fromtimestamp(started_at, datetime.UTC).strftime("%S")
        return f"{begin.removesuffix(' UTC')}:{second} UTC, {length}"
    return f"{begin} to {end[11:] if same_day else end}, {length}"


FILES_SHOWN_MAX: Final = 20
_NAME_COLUMNS: Final = 10


def reading_text(reading: Reading) -> str:
    """Return the files, the accounting of records, and the trace that was written."""
    blocks = [
        table_text(without_empty(files_table(reading.files))),
        table_text(records_table(reading.accounting)),
        "\n".join(map(_hanging, sums(reading.accounting))),
        unreadable_text(reading.unreadable),
        "\n".join(map(wrapped, reading.notes)),
        "\n".join(map(_fact, _reading_facts(reading))),
        f"Next:  {program.called()} sql show {click.format_filename(reading.trace)}",
    ]
    return "\n\n".join(block.rstrip() for block in blocks if block)


def files_table(files: list[LogFile]) -> Table:
    """Return the files that were read, at most ``FILES_SHOWN_MAX``."""
    rows = [
        [
            file.path,
            file.format,
            f"{file.prefix!r}" if file.format == "stderr" else NO_FIGURE,
            "content" if file.is_guessed else "option",
            format_size(file.size_bytes),
            format_size(file.log_bytes) if file.log_bytes != file.size_bytes else NO_FIGURE,
        ]
        for file in files[:FILES_SHOWN_MAX]
    ]
    more = len(files) - len(rows)
    title = format_plural(len(files), "file") + (f", the first {len(rows)} of them" if more else "")
    return Table(
        id="files",
        title=title,
        labels=4,
        headers=["File", "Format", "Prefix", "Detected by", "Size", "Unpacked"],
        rows=rows,
    )


def records_table(accounting: Accounting) -> Table:
    """Return the accounting of records and statements."""
    return _accounting_table(
        accounting,
        name="records",
        title=format_plural(accounting.records, "record"),
        joined="duration, parse, bind, error",
        others="others",
        unreadable="unreadable",
    )


def _messages_table(accounting: Accounting) -> Table:
    return _accounting_table(
        accounting,
        name="messages",
        title=f"{format_plural(accounting.records, 'message')} of clients",
        joined="parse, bind, sync, data of COPY",
        others="skipped by the server after an error",
        unreadable="not stored",
    )


def _accounting_table(
    accounting: Accounting, *, name: str, title: str, joined: str, others: str, unreadable: str
) -> Table:
    count = accounting.records
    parts = [
        ("statements that can be replayed", accounting.executable),
        *(
            (f"statements that cannot be replayed: {reason_text(why)}", n)
            for why, n in accounting.skipped.items()
        ),
        (f"further records of a statement: {joined}", accounting.joined),
        ("connections and disconnections", accounting.sessions),
        (others, accounting.others),
        *((f"{unreadable}: {reason_text(why)}", n) for why, n in accounting.unreadable.items()),
    ]
    return Table(
        id=name,
        title=title,
        labels=1,
        headers=["What", name.capitalize(), "Share"],
        rows=[[name, format_count(n), format_share(n / count)] for name, n in parts if n],
    )


def sums(accounting: Accounting) -> Iterator[str]:
    """Yield the two equations with their figures."""
    unreadable = sum(accounting.unreadable.values())
    skipped = sum(accounting.skipped.values())
    terms = {
        "statements": accounting.statements,
        "joined": accounting.joined,
        "sessions": accounting.sessions,
        "others": accounting.others,
        "unreadable": unreadable,
    }
    yield f"{format_count(accounting.records)} records = {_added(terms)}"
    parts = {"executable": accounting.executable, "skipped": skipped}
    yield f"{format_count(accounting.statements)} statements = {_added(parts)}"


def _hanging(sentence: str) -> str:
    return wrapped(sentence, subsequent="  ")


def _fact(line: str) -> str:
    """Return a line that begins with a name, with its text in a column."""
    return wrapped(line[_NAME_COLUMNS:], line[:_NAME_COLUMNS])


def _added(terms: Mapping[str, int]) -> str:
    return " + ".join(f"{format_count(n)} {name}" for name, n in terms.items())


def unreadable_text(examples: list[Unreadable]) -> str:
    """Return the first example of each kind of unreadable record."""
    lines = []
    for example in examples:
        location = f"{example.file}, line {format_count(example.line)}"
        text = f": {example.text!r}" if example.text else ""
        line = f"{reason_text(example.reason)}, in {location}{text}"
        lines.append(wrapped(line, " ! "))
    return "\n".join(lines)


def _reading_facts(reading: Reading) -> Iterator[str]:
    if reading.started_at is not None and reading.ended_at is not None:
        yield f"time      {span_text(reading.started_at, reading.ended_at)}"
    yield f"sessions  {format_count(reading.session_count)}"
    if reading.system_identifier:
        yield f"server    {reading.system_identifier}; a replay is never sent there"
    if reading.split:
        yield f"streams   {split_text(reading.split, reading.accounting.statements)}"
    if reading.took_s > 0:
        rate = format_rate_bytes(reading.log_bytes / reading.took_s)
        yield f"read in   {format_duration_s(reading.took_s)}, {rate}"
    size = format_size(reading.trace_bytes)
    masked = ", masked" if reading.is_masked else ", with all literals and parameters as logged"
    ratio = (
        f", {format_share(reading.trace_bytes / reading.log_bytes)} of the log"
        if reading.log_bytes
        else ""
    )
    yield f"trace     {reading.trace}, {size}{ratio}{masked}"


def split_text(split: Split, statements: int) -> str:
    """Return how a log without sessions was split into streams."""
    transactions = format_plural(split.transactions, "transaction")
    parts = [f"{format_count(split.streams)} for {transactions}"]
    if split.is_measured:
        parts.append("the concurrency measured, by times and durations")
    elif split.steps is None:
        parts.append("none earlier than in the log")
    else:
        steps = format_plural(split.steps, "step")
        parts.append(
            f"{format_plural(statements, 'statement')} in {steps}; those of a step are concurrent"
        )
    if split.crowded:
        parts.append(
            f"{format_count(split.crowded)} statements overlap the previous one of their stream"
        )
    if split.pinned:
        parts.append(f"{format_count(split.pinned)} in the first, as they depend on session state")
    if split.alone:
        parts.append(f"{format_count(split.alone)} alone, as they may access any table")
    return "; ".join(parts)


COLUMNS_MAX: Final = 60
MINUTE_S: Final = 60
DAY_S: Final = 86_400
_SHORT_S: Final = (1, 2, 5, 10, 15, 30)
_LONG_S: Final = (60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 28_800, 43_200, DAY_S)
_UNIT_NAMES: Final = {1: "second", MINUTE_S: "minute", 3_600: "hour", DAY_S: "day"}
_LENGTH_S_MIN: Final = 2
"""Shorter traces have no timeline."""


def timeline_text(timeline: Timeline) -> str:
    """Return statements and open sessions over time as bars; empty for less than two seconds."""
    if len(timeline.slices) * timeline.slice_s < _LENGTH_S_MIN:
        return ""
    column_s = column_length_s(timeline)
    statements, sessions = columns(timeline, column_s)
    begin = timeline.slices[0].start_us / US_PER_S
    every = _UNIT_NAMES.get(column_s) or format_duration_s(column_s)
    table = Table(
        id="timeline",
        title=f"From {moment(begin)} on, a column every {every}",
        labels=2,
        headers=["", "Timeline", "Most", "Mean"],
        rows=[
            _row("statements", statements),
            _row("sessions open", sessions),
        ],
    )
    return table_text(table)


def column_length_s(timeline: Timeline) -> int:
    """Return the length of a column, so that there are at most ``COLUMNS_MAX``."""
    length_s = len(timeline.slices) * timeline.slice_s
    steps = _LONG_S if length_s > 2 * MINUTE_S else _SHORT_S
    for step_s in steps:
        if step_s >= timeline.slice_s and length_s / step_s <= COLUMNS_MAX - 1:
            return step_s
    return DAY_S * math.ceil(length_s / DAY_S / (COLUMNS_MAX - 1))


def columns(timeline: Timeline, column_s: int) -> tuple[list[int], list[int]]:
    """Return by column the number of statements, and the maximum of concurrent sessions."""
    first = timeline.slices[0].start_us // US_PER_S // column_s
    count = timeline.slices[-1].start_us // US_PER_S // column_s - first + 1
    statements, sessions = [0] * count, [0] * count
    for part in timeline.slices:
        column = part.start_us // US_PER_S // column_s - first
        statements[column] += part.statements
        sessions[column] = max(sessions[column], part.sessions_max)
    return statements, sessions


def _row(name: str, values: list[int]) -> list[str]:
    mean = sum(values) / len(values)
    return [name, f"▕{bars(values)}▏", format_count(max(values)), f"{mean:,.1f}"]


QUERY_CHARACTERS_MAX = 46
NAMES_SHOWN_MAX = 5
MINUTE_US = 60_000_000


def trace_text(trace: Trace) -> str:
    """Return the contents of a trace: facts, timeline, mix, queries, and gaps."""
    mix = trace.mix
    blocks = [
        _facts_text(_facts(trace)),
        timeline_text(mix.timeline) if trace.has_clock else "",
        table_text(without_empty(classes_table(mix))) if mix.classes else "",
        table_text(without_empty(queries_table(trace))) if mix.queries else "",
        "\n".join(_missing(trace)),
    ]
    return "\n\n".join(block.rstrip() for block in blocks if block)


def _facts_text(facts: Iterator[tuple[str, str]]) -> str:
    """Return facts, a line or more each, with their names in a column."""
    found = list(facts)
    indent = max(len(name) for name, _ in found) + 2
    return "\n".join(wrapped(text, name.ljust(indent)) for name, text in found)


def _facts(trace: Trace) -> Iterator[tuple[str, str]]:
    origin, mix, counts = trace.origin, trace.mix, trace.mix.counts
    formats = ", ".join(dict.fromkeys(file.format for file in origin.files))
    masked = "literals and parameters masked" if origin.is_masked else "all values as logged"
    of = (
        f"{format_plural(len(origin.files), 'file')} ({formats}) of {format_size(origin.log_bytes)}"
    )
    yield "trace", f"{trace.trace}, {format_size(trace.trace_bytes)}, of {of}; {masked}"
    if trace.has_clock and mix.first_us is not None and mix.last_us is not None:
        yield "time", span_text(mix.first_us / US_PER_S, mix.last_us / US_PER_S)
    else:
        yield "time", "not in the log; the order of statements is kept"
    if origin.system_identifier:
        yield "server", f"{origin.system_identifier}; a replay is never sent there"
    yield "sessions", _sessions(mix)
    skipped = sum(counts.skipped.values())
    cannot = f", {format_count(skipped)} cannot ({_counted(counts.skipped)})" if skipped else ""
    again = f"{format_count(counts.executable)} can be replayed{cannot}"
    yield "statements", f"{format_count(counts.statements)}: {again}"
    yield "transactions", _transactions(trace)
    if mix.running_mean is not None and trace.has_clock:
        yield "running", f"{mix.running_mean:.2g} concurrent statements on average"
        yield "think time", _think(mix)
    if _is_longer_than_a_minute(trace) and mix.busiest_minute is not None:
        busiest = mix.busiest_minute
        count = format_plural(busiest.statements, "statement")
        yield "busiest", f"{moment(busiest.start_us / US_PER_S)}, {count} in that minute"
    yield "protocol", _counted(mix.protocols) or "none"
    yield from _names(mix)
    yield "errors", _counted(mix.errors) or "none"
    if origin.split:
        yield "split", split_text(origin.split, counts.statements)


def _names(mix: Mix) -> Iterator[tuple[str, str]]:
    """Yield the known names, with their statements."""
    for kind, names in (
        ("databases", mix.names.databases),
        ("users", mix.names.users),
        ("applications", mix.names.applications),
    ):
        parts = [f"{name.name or 'unknown'} {format_count(name.statements)}" for name in names]
        if any(name.name for name in names):
            yield kind, format_first(parts, NAMES_SHOWN_MAX)


def _is_longer_than_a_minute(trace: Trace) -> bool:
    first_us, last_us = trace.mix.first_us, trace.mix.last_us
    return trace.has_clock and (last_us or 0) - (first_us or 0) > MINUTE_US


def _sessions(mix: Mix) -> str:
    sessions = mix.sessions
    silent = sessions.count - sessions.with_statements
    parts = [format_count(sessions.count)]
    if sessions.at_once_max:
        parts.append(f"at most {format_count(sessions.at_once_max)} open concurrently")
    if silent:
        parts.append(f"{format_count(silent)} without a statement")
    return ", ".join(parts)


def _transactions(trace: Trace) -> str:
    transactions = trace.mix.transactions
    outside = format_plural(transactions.statements_outside, "statement") + " outside of them"
    if not transactions.count:
        return f"none; {outside}"
    mean = transactions.statements / transactions.count
    longest = f"{mean:.1f} statements on average, {transactions.statements_max} at most"
    length = _percentile(transactions.length, 50, transactions.length.p50_ns)
    is_known = trace.has_clock and length != TOO_FEW
    took = f", half of them within {length}" if is_known else ""
    return f"{format_count(transactions.count)} of {longest}{took}; {outside}"


def _think(mix: Mix) -> str:
    """Return the median think times, if enough times are known."""
    spreads = {"inside a transaction": mix.think.inside, "between them": mix.think.between}
    parts = [
        f"{name} {_percentile(spread, 50, spread.p50_ns)} (median)"
        for name, spread in spreads.items()
        if spread.entries >= entries_needed(50)
    ]
    return ", ".join(parts) or "too few"


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{reason_text(name)} {format_count(count)}" for name, count in counts.items())


def classes_table(mix: Mix) -> Table:
    """Return statements and time by class."""
    rows = [[reason_text(sums.kind), *_sum_cells(sums, mix)] for sums in mix.classes]
    return Table(
        id="classes",
        title="Mix",
        labels=1,
        headers=["Class", "Statements", "Share", "Time", "Share", "Mean", "Failed"],
        rows=rows,
    )


def queries_table(trace: Trace) -> Table:
    """Return the first queries by total time, or by calls without durations."""
    mix, rest = trace.mix, trace.rest
    by = "total time" if mix.timed else "calls, as the log has no durations"
    count = format_plural(len(mix.queries), "query", "queries")
    others = f"; {format_count(rest.queries)} more have {format_plural(rest.calls, 'statement')}"
    return Table(
        id="queries",
        title=f"{count} by {by}{others if rest.queries else ''}",
        labels=1,
        headers=["Query", "Statements", "Time", "Share", "Mean", "p99", "Max", "Failed"],
        rows=[_query_row(query, mix) for query in mix.queries],
    )


def _query_row(query: Query, mix: Mix) -> list[str]:
    calls, _, total, share, mean, failed = _sum_cells(query, mix)
    slow = [NO_FIGURE, NO_FIGURE]
    if query.timed:
        latency = query.latency
        slow = [_percentile(latency, 99, latency.p99_ns), format_duration_ns(latency.max_ns)]
    return [shortened(query.text, QUERY_CHARACTERS_MAX), calls, total, share, mean, *slow, failed]


def _sum_cells(sums: ClassSums, mix: Mix) -> list[str]:
    """Return statements with their share, time with its share, mean, and failures."""
    calls = format_count(sums.calls)
    share = format_share(sums.calls / mix.counts.statements)
    failed = format_count(sums.errors) if sums.errors else NO_FIGURE
    if not sums.timed:
        return [calls, share, NO_FIGURE, NO_FIGURE, NO_FIGURE, failed]
    total = format_duration_s(sums.total_us / US_PER_S)
    time_share = format_share(sums.total_us / mix.total_us) if mix.total_us else NO_FIGURE
    mean = format_duration_ns(sums.total_us * 1e3 / sums.timed)
    return [calls, share, total, time_share, mean, failed]


def _percentile(spread: Spread, percent: float, value_ns: int) -> str:
    """Return a percentile; ``too few`` if not enough times are known."""
    return format_duration_ns(value_ns) if spread.entries >= entries_needed(percent) else TOO_FEW


def _missing(trace: Trace) -> Iterator[str]:
    """Yield the accounting of records, and examples of unreadable ones."""
    origin = trace.origin
    yield from map(_hanging, sums(origin.accounting))
    if origin.unreadable:
        yield unreadable_text(origin.unreadable)
    yield from map(wrapped, origin.notes)


def capture_text(captured: Reading) -> str:
    """Return the accounting of messages, the facts, and the trace that was written."""
    blocks = [
        table_text(_messages_table(captured.accounting)),
        "\n".join(map(_hanging, sums(captured.accounting))),
        "\n".join(map(wrapped, captured.notes)),
        "\n".join(map(_fact, _captured_facts(captured))),
        f"Next:  {program.called()} sql show {click.format_filename(captured.trace)}",
    ]
    return "\n\n".join(block.rstrip() for block in blocks if block)


def _captured_facts(captured: Reading) -> Iterator[str]:
    if captured.started_at is not None and captured.ended_at is not None:
        yield f"time      {span_text(captured.started_at, captured.ended_at)}"
    yield f"sessions  {format_count(captured.session_count)}"
    if captured.capture is not None:
        yield from _capture_facts(captured.capture)
    if captured.system_identifier:
        yield f"server    {captured.system_identifier}; a replay is never sent there"
    yield f"captured  for {format_duration_s(captured.took_s)}"
    masked = ", masked" if captured.is_masked else ", with all values as sent"
    yield f"trace     {captured.trace}, {format_size(captured.trace_bytes)}{masked}"


def _capture_facts(counts: CaptureCounts) -> Iterator[str]:
    kinds = {
        "encrypted": counts.encrypted,
        "for replication": counts.replication,
        "to cancel": counts.cancels,
        "not admitted": counts.not_let_in,
    }
    parts = "".join(f", {n} {kind}" for kind, n in kinds.items() if n)
    yield f"wire      {format_plural(counts.connections, 'connection')}{parts}"
    to_server, to_clients = (
        format_size(counts.to_server_bytes),
        format_size(counts.to_clients_bytes),
    )
    was = "passed" if counts.packets is None else "seen  "
    yield f"{was}    {to_server} to the server, {to_clients} to clients"
    if (packets := counts.packets) is not None:
        lost = f"{format_count(packets.dropped)} dropped by the kernel, "
        gaps = format_plural(packets.gaps, "gap")
        yield f"packets   {format_count(packets.packets)}, {lost}{gaps}"
    if counts.returned:
        rows = format_plural(counts.returned_rows, "row")
        statements = format_plural(counts.returned, "statement")
        yield f"returned  {rows} by {statements}, stored for their IDs"
