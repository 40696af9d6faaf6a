"""The result of reading logs or of a capture, as returned by ``seatrial._core``.

Clock times (``_at``) are Unix time in seconds.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from seatrial.published import Amount, Count, Positive, one_of


class Accounting(msgspec.Struct, frozen=True, kw_only=True):
    """The accounting of every record of a log; two equations hold.

    ``records = statements + joined + sessions + others + unreadable`` and
    ``statements = executable + skipped`` (crates/trace/src/captured.rs).

    Attributes:
        records: Records of the log.
        statements: Statements.
        joined: Further records of a statement: its duration, plan, parse and bind.
        sessions: Records of connections and disconnections.
        others: Other records, such as checkpoints.
        unreadable: Records that could not be read, by reason.
        executable: Statements that can be replayed.
        skipped: Statements that cannot be replayed, by reason.
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
        """Return the equations that do not hold, with their figures; empty if both hold."""
        parts = (self.statements, self.joined, self.sessions, self.others)
        records = sum(parts) + sum(self.unreadable.values())
        statements = self.executable + sum(self.skipped.values())
        broken = []
        if records != self.records:
            broken.append(f"{self.records} records, of which {records} are accounted for")
        if statements != self.statements:
            broken.append(f"{self.statements} statements, of which {statements} are accounted for")
        return broken


class Unreadable(msgspec.Struct, frozen=True, kw_only=True):
    """An example of a record that could not be read.

    Attributes:
        reason: Reason, as in ``unreadable`` of the accounting.
        file: Its file.
        line: Its line in the uncompressed file, from 1.
        offset_bytes: Its offset in the uncompressed file.
        text: Its beginning; empty if the trace is masked.
    """

    reason: str
    file: str
    line: Positive
    offset_bytes: Count
    text: str


class LogFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file that was read.

    Attributes:
        path: Its path as given.
        size_bytes: Its size on the disk.
        log_bytes: Its size uncompressed.
        format: ``stderr``, ``csv``, ``json``, ``raw``, or ``wire`` of a capture.
        prefix: The ``log_line_prefix`` used to read it; empty for other formats.
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
        streams: Streams with a statement.
        transactions: Transactions; a statement outside of a block counts as one.
        pinned: Transactions in the first stream because they depend on session state.
        alone: Transactions that conflict with every other.
        steps: Length of the longest sequence of dependent statements: all of them if nothing
            overlaps; None if the log has times.
        is_measured: Whether the number of streams is the observed concurrency, by the log's times.
        crowded: Statements that begin before the previous one of their stream has ended.
    """

    streams: Count
    transactions: Count
    pinned: Count
    alone: Count
    steps: Count | None
    is_measured: bool = False
    crowded: Count = 0


class PacketCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Packets of a capture, and gaps (crates/capture/src/packets/counts.rs).

    Attributes:
        packets: Packets of the server's port.
        dropped: Packets that the kernel dropped, as its ring was full.
        cut: Truncated packets.
        unread: Fragments, and packets with invalid headers.
        is_torn: Whether a file of packets ends within a packet.
        repeated_bytes: Retransmitted bytes.
        reordered: Packets that arrived out of order.
        gaps: Gaps in connections.
        gap_bytes: Missing bytes, as far as known.
        resumed: Connections that were read again after a gap.
        earlier: Connections that existed before the capture.
        joined: Those that were read from some moment on.
        left_out: Connections that sent something and never reached such a moment.
        unread_bytes: Bytes that clients sent before such a moment.
        crowded: Packets of connections above the maximum number.
        encrypted: Addresses of the first clients with encrypted connections.
        with_gaps: Addresses of the first clients with gaps.
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
    """Further counts of a capture on the network (crates/capture/src/message_counts.rs).

    Attributes:
        connections: Connections of clients.
        open_max: Maximum of concurrent connections.
        encrypted: Encrypted connections: passed on unread.
        replication: Replication connections: passed on unread.
        cancels: Cancel requests.
        not_let_in: Connections refused by the server.
        no_server: Connections that could not reach the server.
        not_understood: Connections in another protocol, from some point on: passed on unread.
        broken_off: Those of clients that had logged in.
        defects: Connections affected by a bug in Seatrial: passed on unread from then on.
        out_of_step: Responses without a matching request.
        unanswered: Statements that were never answered.
        returned: Statements whose returned values were stored.
        returned_rows: Their rows.
        returned_cut: Those of these statements that returned more than is stored.
        returned_unread: Values of stored rows in an unsupported binary format.
        returned_unclear: Statements whose rows are not stored, as they had several results.
        rolled_back_kept: Statements that were rolled back and still count as executable.
        settings: Sessions by the name of a setting in their connection request.
        to_server_bytes: Bytes sent to the server.
        to_clients_bytes: Bytes sent to clients.
        packets: Counts of packets; None for a proxy.
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
    """The sources of a trace, and records that it lacks.

    Attributes:
        is_masked: Whether literals and parameters were replaced.
        files: The files, in the order of reading.
        accounting: The accounting of records.
        unreadable: The first example of each reason.
        notes: Assumptions of the reader, as sentences.
        session_count: Sessions of the log, or streams that it was split into.
        started_at: Start of the first statement; None if the log has no times.
        ended_at: End of the last one as far as durations are known; None likewise.
        split: How a log without sessions was split; None for other logs.
        system_identifier: The server's system identifier; None if unknown.
        capture: Further counts of a capture on the network; None for a log.
    """

    PUBLISHED: ClassVar = ("log_bytes",)

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
    def log_bytes(self) -> Count:
        """Uncompressed size of the logs."""
        return sum(file.log_bytes for file in self.files)


class Reading(Origin, frozen=True, kw_only=True):
    """The result of reading logs into a trace.

    Attributes:
        trace: The file that was written.
        trace_bytes: Its size.
        took_s: Duration of reading.
    """

    trace: str
    trace_bytes: Count
    took_s: Amount
