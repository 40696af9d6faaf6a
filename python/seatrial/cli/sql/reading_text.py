"""What ``seatrial sql read`` prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import click

from seatrial import program
from seatrial.cli.sql.words import span_text, words_of
from seatrial.report.table import NO_FIGURE, Table, as_text, without_empty
from seatrial.stats.wording import (
    format_count,
    format_duration_s,
    format_plural,
    format_rate_bytes,
    format_share,
    format_size,
)
from seatrial.trials.replay.reading import Accounting, LogFile, Reading, Split, Unreadable

WIDTH: Final = 100
FILES_SHOWN_MAX: Final = 20


def reading_text(reading: Reading) -> str:
    """Return what was read, where each record went, and what was written."""
    blocks = [
        as_text(without_empty(files_table(reading.files))),
        as_text(records_table(reading.accounting)),
        "\n".join(sums(reading.accounting)),
        unreadable_text(reading.unreadable),
        "\n".join(click.wrap_text(note, WIDTH) for note in reading.notes),
        "\n".join(_facts(reading)),
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
            "guessed" if file.is_guessed else "given",
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
        headers=["File", "Format", "Prefix", "Told by", "Size", "Unpacked"],
        rows=rows,
    )


def records_table(accounting: Accounting) -> Table:
    """Return where each record went, and each statement."""
    count = accounting.records
    parts = [
        ("statements that can be sent again", accounting.executable),
        *((f"statements that cannot: {words_of(why)}", n) for why, n in accounting.skipped.items()),
        ("more on a statement: duration, parse, bind, error", accounting.joined),
        ("sessions that come and go", accounting.sessions),
        ("anything else", accounting.others),
        *((f"unreadable: {words_of(why)}", n) for why, n in accounting.unreadable.items()),
    ]
    rows = [[name, format_count(n), format_share(n / count)] for name, n in parts if n]
    return Table(
        id="records",
        title=format_plural(count, "record"),
        labels=1,
        headers=["What", "Records", "Share"],
        rows=rows,
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


def _added(terms: Mapping[str, int]) -> str:
    return " + ".join(f"{format_count(n)} {name}" for name, n in terms.items())


def unreadable_text(examples: list[Unreadable]) -> str:
    """Return the first record of each kind that could not be read."""
    lines = []
    for each in examples:
        place = f"{each.file}, line {format_count(each.line)}"
        text = f": {each.text!r}" if each.text else ""
        reported = f"{words_of(each.reason)}, in {place}{text}"
        lines.append(
            click.wrap_text(reported, WIDTH, initial_indent=" ! ", subsequent_indent="   ")
        )
    return "\n".join(lines)


def _facts(reading: Reading) -> Iterator[str]:
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
