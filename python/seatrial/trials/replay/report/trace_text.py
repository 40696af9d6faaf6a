"""What logs, captures and traces hold, for a terminal: facts, classes, queries, load over time."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import click

from seatrial import program
from seatrial.report.table import NO_FIGURE, TOO_FEW, Table, without_empty
from seatrial.report.terminal import bars, table_text, wrapped
from seatrial.stats.estimates import entries_needed
from seatrial.stats.wording import (
    format_count,
    format_duration_ns,
    format_duration_s,
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
from seatrial.trials.replay.trace import Mix, Query, Spread, Sums, Timeline, Trace
from seatrial.units import US_PER_S


def words_of(reason: str) -> str:
    """Return a reason's name as words: ``copy_data`` is ``copy data``."""
    return reason.replace("_", " ")


def span_text(started_at: float, ended_at: float) -> str:
    """Return a span of the clock: ``2026-11-21 07:45 UTC to 08:03 UTC, 18 min``.

    Args:
        started_at: Its begin, as Unix time in s.
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
    """Return what was read, where each record went, and what was written."""
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
    """Return the files that were read; of very many the first."""
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
    """Return where each record went, and each statement."""
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
        others="passed over by the server after an error",
        unreadable="not kept",
    )


def _accounting_table(
    accounting: Accounting, *, name: str, title: str, joined: str, others: str, unreadable: str
) -> Table:
    count = accounting.records
    parts = [
        ("statements that can be replayed", accounting.executable),
        *(
            (f"statements that cannot be replayed: {words_of(why)}", n)
            for why, n in accounting.skipped.items()
        ),
        (f"further records of a statement: {joined}", accounting.joined),
        ("connections and disconnections", accounting.sessions),
        (others, accounting.others),
        *((f"{unreadable}: {words_of(why)}", n) for why, n in accounting.unreadable.items()),
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
    """Return the first record of each kind that could not be read."""
    lines = []
    for each in examples:
        place = f"{each.file}, line {format_count(each.line)}"
        text = f": {each.text!r}" if each.text else ""
        reported = f"{words_of(each.reason)}, in {place}{text}"
        lines.append(wrapped(reported, " ! "))
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
        f", {reading.trace_bytes / reading.log_bytes:.3f} of the log" if reading.log_bytes else ""
    )
    yield f"trace     {reading.trace}, {size}{ratio}{masked}"


def split_text(split: Split, statements: int) -> str:
    """Return how a log without sessions was split, and how much of it overlaps."""
    transactions = format_plural(split.transactions, "transaction")
    reported = [f"{format_count(split.streams)} for {transactions}"]
    if split.is_measured:
        reported.append("the concurrency measured, by times and durations")
    elif split.steps is None:
        reported.append("none earlier than in the log")
    else:
        steps = format_plural(split.steps, "step")
        reported.append(
            f"{format_plural(statements, 'statement')} in {steps}, those of a step side by side"
        )
    if split.crowded:
        reported.append(
            f"{format_count(split.crowded)} statements begin before their stream is free"
        )
    if split.pinned:
        reported.append(f"{format_count(split.pinned)} in the first, for a session's own state")
    if split.alone:
        reported.append(f"{format_count(split.alone)} alone, as they may touch anything")
    return "; ".join(reported)


COLUMNS_MAX: Final = 60
MINUTE_S: Final = 60
DAY_S: Final = 86_400
_SHORT_S: Final = (1, 2, 5, 10, 15, 30)
_LONG_S: Final = (60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 28_800, 43_200, DAY_S)
_NAMED: Final = {1: "second", MINUTE_S: "minute", 3_600: "hour", DAY_S: "day"}
_SHOWN_FROM_S: Final = 2
"""What takes no longer has no timeline."""


def timeline_text(timeline: Timeline) -> str:
    """Return statements and open sessions over time as bars; empty for less than two seconds."""
    if len(timeline.slices) * timeline.slice_s < _SHOWN_FROM_S:
        return ""
    column_s = column_length_s(timeline)
    statements, sessions = columns(timeline, column_s)
    begin = timeline.slices[0].start_us / US_PER_S
    every = _NAMED.get(column_s) or format_duration_s(column_s)
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
    """Return how long a column is: a minute where that gives few enough, and more than one."""
    length_s = len(timeline.slices) * timeline.slice_s
    steps = _LONG_S if length_s > 2 * MINUTE_S else _SHORT_S
    for step_s in steps:
        if step_s >= timeline.slice_s and length_s / step_s <= COLUMNS_MAX - 1:
            return step_s
    return DAY_S * math.ceil(length_s / DAY_S / (COLUMNS_MAX - 1))


def columns(timeline: Timeline, column_s: int) -> tuple[list[int], list[int]]:
    """Return by column the sum of the statements, and the most sessions that were open at once."""
    first = timeline.slices[0].start_us // US_PER_S // column_s
    count = timeline.slices[-1].start_us // US_PER_S // column_s - first + 1
    statements, sessions = [0] * count, [0] * count
    for each in timeline.slices:
        place = each.start_us // US_PER_S // column_s - first
        statements[place] += each.statements
        sessions[place] = max(sessions[place], each.sessions_max)
    return statements, sessions


def _row(name: str, values: list[int]) -> list[str]:
    mean = sum(values) / len(values)
    return [name, f"▕{bars(values)}▏", format_count(max(values)), f"{mean:,.1f}"]


QUERY_CHARACTERS_MAX = 46
NAMES_SHOWN_MAX = 5
MINUTE_US = 60_000_000


def trace_text(shown: Trace) -> str:
    """Return what a trace holds: facts, its timeline, mix, queries, and what is missing in it."""
    mix = shown.mix
    blocks = [
        _facts_text(_facts(shown)),
        timeline_text(mix.timeline) if shown.has_clock else "",
        table_text(without_empty(classes_table(mix))) if mix.classes else "",
        table_text(without_empty(queries_table(shown))) if mix.fingerprints else "",
        "\n".join(_missing(shown)),
    ]
    return "\n\n".join(block.rstrip() for block in blocks if block)


def _facts_text(facts: Iterator[tuple[str, str]]) -> str:
    """Return facts, a line or more each, with their names in a column."""
    found = list(facts)
    indent = max(len(name) for name, _ in found) + 2
    return "\n".join(wrapped(text, name.ljust(indent)) for name, text in found)


def _facts(shown: Trace) -> Iterator[tuple[str, str]]:
    origin, mix, counts = shown.origin, shown.mix, shown.mix.counts
    formats = ", ".join(dict.fromkeys(file.format for file in origin.files))
    masked = "literals and parameters masked" if origin.is_masked else "all values as logged"
    of = (
        f"{format_plural(len(origin.files), 'file')} ({formats}) of {format_size(origin.log_bytes)}"
    )
    yield "trace", f"{shown.trace}, {format_size(shown.trace_bytes)}, of {of}; {masked}"
    if shown.has_clock and mix.first_us is not None and mix.last_us is not None:
        yield "time", span_text(mix.first_us / US_PER_S, mix.last_us / US_PER_S)
    else:
        yield "time", "not in the log; statements were given an order"
    if origin.system_identifier:
        yield "server", f"{origin.system_identifier}; a replay is never sent there"
    yield "sessions", _sessions(mix)
    skipped = sum(counts.skipped.values())
    cannot = f", {format_count(skipped)} cannot ({_counted(counts.skipped)})" if skipped else ""
    again = f"{format_count(counts.executable)} can be sent again{cannot}"
    yield "statements", f"{format_count(counts.statements)}: {again}"
    yield "transactions", _transactions(shown)
    if mix.timed and shown.has_clock:
        yield "running", f"{mix.running_mean:.2g} statements at once, on the average"
        yield "think time", _think(mix)
    if _is_longer_than_a_minute(shown) and mix.busiest_minute is not None:
        busiest = mix.busiest_minute
        count = format_plural(busiest.statements, "statement")
        yield "busiest", f"{moment(busiest.start_us / US_PER_S)}, {count} in that minute"
    yield "protocol", _counted(mix.protocols) or "none"
    yield from _named(mix)
    yield "errors", _counted(mix.errors) or "none"
    if origin.split:
        yield "split", split_text(origin.split, counts.statements)


def _named(mix: Mix) -> Iterator[tuple[str, str]]:
    """Yield the names that the log tells, with their statements."""
    for what, names in (
        ("databases", mix.names.databases),
        ("users", mix.names.users),
        ("applications", mix.names.applications),
    ):
        reported = [f"{each.name or 'unknown'} {format_count(each.statements)}" for each in names]
        more = len(reported) - NAMES_SHOWN_MAX
        if any(each.name for each in names):
            others = f" and {more} more" if more > 0 else ""
            yield what, ", ".join(reported[:NAMES_SHOWN_MAX]) + others


def _is_longer_than_a_minute(shown: Trace) -> bool:
    first_us, last_us = shown.mix.first_us, shown.mix.last_us
    return shown.has_clock and (last_us or 0) - (first_us or 0) > MINUTE_US


def _sessions(mix: Mix) -> str:
    sessions = mix.sessions
    silent = sessions.count - sessions.with_statements
    reported = [format_count(sessions.count)]
    if sessions.at_once_max:
        reported.append(f"at most {format_count(sessions.at_once_max)} open at once")
    if silent:
        reported.append(f"{format_count(silent)} without a statement")
    return ", ".join(reported)


def _transactions(shown: Trace) -> str:
    transactions = shown.mix.transactions
    outside = format_plural(transactions.statements_outside, "statement") + " outside of any"
    if not transactions.count:
        return f"none; {outside}"
    mean = transactions.statements / transactions.count
    longest = f"{mean:.1f} statements on the average, {transactions.statements_max} at most"
    length = _percentile(transactions.length, 50, transactions.length.p50_ns)
    is_known = shown.has_clock and length != TOO_FEW
    took = f", half of them within {length}" if is_known else ""
    return f"{format_count(transactions.count)} of {longest}{took}; {outside}"


def _think(mix: Mix) -> str:
    """Return how long clients waited between statements, where enough times are known."""
    parts = {"inside a transaction": mix.think.inside, "between them": mix.think.between}
    reported = [
        f"{name} {_percentile(spread, 50, spread.p50_ns)} (median)"
        for name, spread in parts.items()
        if spread.entries >= entries_needed(50)
    ]
    return ", ".join(reported) or "too few to tell"


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{words_of(name)} {format_count(count)}" for name, count in counts.items())


def classes_table(mix: Mix) -> Table:
    """Return statements and time by class."""
    rows = [[words_of(each.kind), *_sum_cells(each, mix)] for each in mix.classes]
    return Table(
        id="classes",
        title="Mix",
        labels=1,
        headers=["Class", "Statements", "Share", "Time", "Share", "Mean", "Failed"],
        rows=rows,
    )


def queries_table(shown: Trace) -> Table:
    """Return the first queries by total time, or by calls where no durations are known."""
    mix, rest = shown.mix, shown.rest
    by = "total time" if mix.timed else "calls, as the log has no durations"
    count = format_plural(len(mix.fingerprints), "query", "queries")
    others = (
        f"; {format_count(rest.fingerprints)} more have {format_plural(rest.calls, 'statement')}"
    )
    return Table(
        id="queries",
        title=f"{count} by {by}{others if rest.fingerprints else ''}",
        labels=1,
        headers=["Query", "Statements", "Time", "Share", "Mean", "p99", "Max", "Failed"],
        rows=[_query_row(query, mix) for query in mix.fingerprints],
    )


def _query_row(query: Query, mix: Mix) -> list[str]:
    calls, _, total, share, mean, failed = _sum_cells(query, mix)
    slow = [NO_FIGURE, NO_FIGURE]
    if query.timed:
        latency = query.latency
        slow = [_percentile(latency, 99, latency.p99_ns), format_duration_ns(latency.max_ns)]
    return [_shortened(query.text), calls, total, share, mean, *slow, failed]


def _sum_cells(own: Sums, mix: Mix) -> list[str]:
    """Return statements with their share, time with its share, mean, and how many failed."""
    calls = format_count(own.calls)
    share = format_share(own.calls / mix.counts.statements)
    failed = format_count(own.errors) if own.errors else NO_FIGURE
    if not own.timed:
        return [calls, share, NO_FIGURE, NO_FIGURE, NO_FIGURE, failed]
    total = format_duration_s(own.total_us / US_PER_S)
    time_share = format_share(own.total_us / mix.total_us) if mix.total_us else NO_FIGURE
    mean = format_duration_ns(own.total_us * 1e3 / own.timed)
    return [calls, share, total, time_share, mean, failed]


def _percentile(spread: Spread, percent: float, value_ns: int) -> str:
    """Return a percentile; ``too few`` where not enough times are known."""
    return format_duration_ns(value_ns) if spread.entries >= entries_needed(percent) else TOO_FEW


def _shortened(text: str) -> str:
    one_line = " ".join(text.split())
    if len(one_line) <= QUERY_CHARACTERS_MAX:
        return one_line
    return f"{one_line[: QUERY_CHARACTERS_MAX - 1]}…"


def _missing(shown: Trace) -> Iterator[str]:
    """Yield where every record of the log went, and what could not be read."""
    origin = shown.origin
    yield from map(_hanging, sums(origin.accounting))
    if origin.unreadable:
        yield unreadable_text(origin.unreadable)
    yield from map(wrapped, origin.notes)


if TYPE_CHECKING:
    pass


def capture_text(captured: Reading) -> str:
    """Return what was captured, where each message went, and what was written."""
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
        yield from _wire(captured.capture)
    if captured.system_identifier:
        yield f"server    {captured.system_identifier}; a replay is never sent there"
    yield f"captured  for {format_duration_s(captured.took_s)}"
    masked = ", masked" if captured.is_masked else ", with all values as they were sent"
    yield f"trace     {captured.trace}, {format_size(captured.trace_bytes)}{masked}"


def _wire(counts: CaptureCounts) -> Iterator[str]:
    kinds = {
        "encrypted": counts.encrypted,
        "for replication": counts.replication,
        "to cancel": counts.cancels,
        "not admitted": counts.not_let_in,
    }
    reported = "".join(f", {n} {kind}" for kind, n in kinds.items() if n)
    yield f"wire      {format_plural(counts.connections, 'connection')}{reported}"
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
        yield f"returned  {rows} by {statements}, kept for their ids"
