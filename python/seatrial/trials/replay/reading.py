"""What was read of logs, and what a trace holds, as ``seatrial._core`` tells it.

Times of the clock (``_at``) are Unix time in seconds.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from seatrial.published import Amount, Count, Positive, one_of


class Accounting(msgspec.Struct, frozen=True, kw_only=True):
    """Where every record of a log went; two equations hold.

    ``records = statements + joined + sessions + others + unreadable`` and
    ``statements = executable + skipped`` (crates/trace/src/captured.rs).

    Attributes:
        records: Records of the log.
        statements: Statements, each once.
        joined: Records that say more of a statement: its duration, its plan, its parse and bind.
        sessions: Records of connections that come and go.
        others: Records of anything else, such as checkpoints.
        unreadable: Records that could not be read, by reason.
        executable: Statements that can be sent again.
        skipped: Statements that cannot, by reason.
    """

    records: Count
    statements: Count
    joined: Count
    sessions: Count
    others: Count
    unreadable: dict[str, Count]
    executable: Count
    skipped: dict[str, Count]

    def faults(self) -> list[str]:
        """Return the equations that do not hold, with their figures; empty where both do."""
        parts = (self.statements, self.joined, self.sessions, self.others)
        records = sum(parts) + sum(self.unreadable.values())
        statements = self.executable + sum(self.skipped.values())
        reported = []
        if records != self.records:
            reported.append(f"{self.records} records, of which {records} are accounted for")
        if statements != self.statements:
            reported.append(
                f"{self.statements} statements, of which {statements} are accounted for"
            )
        return reported


class Unreadable(msgspec.Struct, frozen=True, kw_only=True):
    """An example of a record that could not be read.

    Attributes:
        reason: Why, as a name of ``unreadable`` in the accounting.
        file: Where it is.
        line: Which line of the file, unpacked, from 1.
        offset_bytes: Its place in the file, unpacked.
        text: Its beginning; empty where the trace is masked.
    """

    reason: str
    file: str
    line: Positive
    offset_bytes: Count
    text: str


class LogFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file that was read.

    Attributes:
        path: As it was given.
        size_bytes: As it lies on the disk.
        log_bytes: The same unpacked.
        format: ``stderr``, ``csv``, ``json``, ``raw``, or ``wire`` of a capture.
        prefix: The ``log_line_prefix`` that it was read with; empty for other formats.
        is_guessed: Whether format and prefix were inferred from its content alone.
    """

    path: str
    size_bytes: Count
    log_bytes: Count
    format: Annotated[str, one_of("stderr", "csv", "json", "raw", "wire")]
    prefix: str
    is_guessed: bool


class Split(msgspec.Struct, frozen=True, kw_only=True):
    """How a log without sessions was split into streams (crates/ingest/src/streams.rs).

    Attributes:
        streams: Those that got a statement.
        transactions: A statement outside of any block is one.
        pinned: Transactions in the first stream because a session's state matters to them.
        alone: Transactions that conflict with every other.
        steps: Statements one after the other in the whole: all of them if nothing overlaps; None
            where the log has times.
        is_measured: Whether the streams are those that were at work at once, by the log's times.
        crowded: Statements that begin while the one before in their stream is at work.
    """

    streams: Count
    transactions: Count
    pinned: Count
    alone: Count
    steps: Count | None
    is_measured: bool = False
    crowded: Count = 0


class PacketCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What a capture saw of packets, and what is missing (crates/capture/src/packets/counts.rs).

    Attributes:
        packets: Packets of the server's port that were looked at.
        dropped: Packets that the kernel dropped, as its ring was full.
        cut: Packets of which only the beginning was there.
        unread: Packets that are fragments, or whose headers make no sense.
        is_torn: Whether a file of packets ends in the midst of one.
        repeated_bytes: Bytes that came again.
        reordered: Packets that came ahead of others.
        gaps: Times that something of a connection was missing.
        gap_bytes: Bytes that were missing, where it is known how many.
        resumed: Connections that were read again from a later moment on.
        earlier: Connections that were there before the capture.
        joined: Of these, read from a later moment on.
        left_out: Connections that sent something and never came to such a moment.
        unread_bytes: Bytes that clients sent on connections that waited for such a moment.
        crowded: Packets of connections that were too many to be followed.
        encrypted: The first of the connections that are encrypted, by their clients' addresses.
        with_gaps: The first of those with gaps.
    """

    packets: Count
    dropped: Count
    cut: Count
    unread: Count
    is_torn: bool
    repeated_bytes: Count
    reordered: Count
    gaps: Count
    gap_bytes: Count
    resumed: Count
    earlier: Count
    joined: Count
    left_out: Count
    unread_bytes: Count
    crowded: Count
    encrypted: list[str]
    with_gaps: list[str]


class CaptureCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What a capture on the wire saw besides statements (crates/capture/src/message_counts.rs).

    Attributes:
        connections: Connections that clients made.
        open_max: Open at once, at most.
        encrypted: Of the connections, encrypted between client and server: passed on unread.
        replication: Of these, for replication: passed on unread.
        cancels: Of these, requests to cancel what another does.
        not_let_in: Of these, not let in by the server.
        no_server: Of these, with no server to go to.
        not_understood: Of these, in another protocol, from some point on: passed on unread.
        broken_off: Of the former, those of clients that were let in before.
        defects: Of these, where a defect of ours showed: passed on unread from then on.
        out_of_step: Answers that fitted no request.
        unanswered: Statements that were never answered.
        returned: Statements whose returned values were kept.
        returned_rows: Rows of them.
        returned_cut: Of these statements, how many returned more than is kept.
        returned_unread: Values of kept rows in a form that has no text of ours.
        returned_unclear: Statements whose rows are not kept, as they had several results.
        rolled_back_kept: Statements that were rolled back and count as executable all the same.
        settings: Sessions by the name of what they set as they connected.
        to_server_bytes: Bytes that went to the server.
        to_clients_bytes: Bytes that went to clients.
        packets: What is particular to packets; None where a proxy captured.
    """

    connections: Count
    open_max: Count
    encrypted: Count
    replication: Count
    cancels: Count
    not_let_in: Count
    no_server: Count
    not_understood: Count
    defects: Count
    out_of_step: Count
    unanswered: Count
    returned: Count
    returned_rows: Count
    returned_cut: Count
    to_server_bytes: Count
    to_clients_bytes: Count
    broken_off: Count = 0
    returned_unread: Count = 0
    returned_unclear: Count = 0
    rolled_back_kept: Count = 0
    settings: dict[str, Positive] = {}
    packets: PacketCounts | None = None


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """What a trace was made of, and what of the log is not in it.

    Attributes:
        is_masked: Whether literals and parameters were replaced.
        files: What was read, in the order in which it was.
        accounting: Where every record went.
        unreadable: The first of each reason.
        notes: What the reader took for granted, as sentences.
        session_count: Sessions that were seen, or streams that were made.
        started_at: Start of the first statement; None where the log has no times.
        ended_at: End of the last one as far as durations tell, likewise.
        split: How a log without sessions was split; None where it was not.
        system_identifier: The server's own number for its data; None where it is not known.
        capture: What was seen besides, where it was captured on the wire.
    """

    is_masked: bool
    files: list[LogFile]
    accounting: Accounting
    unreadable: list[Unreadable]
    notes: list[str]
    session_count: Count
    started_at: Amount | None
    ended_at: Amount | None
    split: Split | None
    system_identifier: Positive | None = None
    capture: CaptureCounts | None = None

    @property
    def log_bytes(self) -> int:
        """What was read, unpacked."""
        return sum(file.log_bytes for file in self.files)


class Reading(Origin, frozen=True, kw_only=True):
    """What came of reading logs into a trace.

    Attributes:
        trace: The file that was written.
        trace_bytes: Its size.
        took_s: How long it took.
    """

    trace: str
    trace_bytes: Count
    took_s: Amount
