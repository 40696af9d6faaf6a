"""What ``seatrial sql capture`` prints at its end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import click

from seatrial import program
from seatrial.cli.sql.reading_text import sums
from seatrial.cli.sql.words import span_text, words_of
from seatrial.report.table import Table, as_text
from seatrial.stats.wording import (
    format_count,
    format_duration_s,
    format_plural,
    format_share,
    format_size,
)
from seatrial.trials.replay.reading import Accounting, CaptureCounts, Reading

WIDTH: Final = 100


def capture_text(captured: Reading) -> str:
    """Return what was captured, where each message went, and what was written."""
    blocks = [
        as_text(_messages_table(captured.accounting)),
        "\n".join(sums(captured.accounting)),
        "\n".join(click.wrap_text(note, WIDTH) for note in captured.notes),
        "\n".join(_facts(captured)),
        f"Next:  {program.called()} sql show {click.format_filename(captured.trace)}",
    ]
    return "\n\n".join(block.rstrip() for block in blocks if block)


def _messages_table(accounting: Accounting) -> Table:
    count = accounting.records
    parts = [
        ("statements that can be sent again", accounting.executable),
        *((f"statements that cannot: {words_of(why)}", n) for why, n in accounting.skipped.items()),
        ("more on a statement: parse, bind, sync, data of COPY", accounting.joined),
        ("sessions that come and go", accounting.sessions),
        ("passed over by the server after an error", accounting.others),
        *((f"not kept: {words_of(why)}", n) for why, n in accounting.unreadable.items()),
    ]
    rows = [[name, format_count(n), format_share(n / count)] for name, n in parts if n]
    return Table(
        id="messages",
        title=f"{format_plural(count, 'message')} of clients",
        labels=1,
        headers=["What", "Messages", "Share"],
        rows=rows,
    )


def _facts(captured: Reading) -> Iterator[str]:
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
        "not let in": counts.not_let_in,
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
