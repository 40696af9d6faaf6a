"""What ``seatrial sql show`` prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import click

from seatrial.cli.sql.reading_text import WIDTH, split_text, sums, unreadable_text
from seatrial.cli.sql.timeline import timeline_text
from seatrial.cli.sql.words import span_text, words_of
from seatrial.report.table import NO_FIGURE, TOO_FEW, Table, as_text, without_empty
from seatrial.stats.estimates import entries_needed
from seatrial.stats.wording import (
    format_count,
    format_duration_ns,
    format_duration_s,
    format_plural,
    format_share,
    format_size,
    moment,
)
from seatrial.trials.replay.trace import Mix, Query, Spread, Sums, Trace

QUERY_CHARACTERS_MAX = 46
NAMES_SHOWN_MAX = 5
US_PER_S = 1e6
MINUTE_US = 60_000_000


def trace_text(shown: Trace) -> str:
    """Return what a trace holds: facts, its timeline, mix, queries, and what is missing in it."""
    mix = shown.mix
    blocks = [
        _wrapped(_facts(shown)),
        timeline_text(mix.timeline) if shown.has_clock else "",
        as_text(without_empty(classes_table(mix))) if mix.classes else "",
        as_text(without_empty(queries_table(shown))) if mix.fingerprints else "",
        "\n".join(_missing(shown)),
    ]
    return "\n\n".join(block.rstrip() for block in blocks if block)


def _wrapped(facts: Iterator[tuple[str, str]]) -> str:
    """Return facts, a line or more each, with their names in a column."""
    found = list(facts)
    indent = max(len(name) for name, _ in found) + 2
    return "\n".join(
        click.wrap_text(
            text, WIDTH, initial_indent=name.ljust(indent), subsequent_indent=" " * indent
        )
        for name, text in found
    )


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
    yield from sums(origin.accounting)
    if origin.unreadable:
        yield unreadable_text(origin.unreadable)
    yield from (click.wrap_text(note, WIDTH) for note in origin.notes)
