"""Whether a server fits into its memory limit: the kernel kills one that does not, in mid-run."""

from __future__ import annotations

from typing import Final

from seatrial.errors import UsageError
from seatrial.study.units import format_size
from seatrial.trials.database.measure.server_session import ServerSession
from seatrial.trials.database.study.workloads import DatabaseSpec

SERVER_BYTES: Final = 32 << 20
"""Of the server's own processes, beside its shared memory: measured with PostgreSQL 15 and 18."""
CLIENT_BYTES: Final = 2 << 20
"""Of each connection's process, small queries given."""


def require_memory(session: ServerSession, spec: DatabaseSpec) -> None:
    """Check that a server as it stands fits into the limit that a cell gives it.

    The page cache of its files counts, too, but gives way; shared buffers do not.

    Args:
        session: The session with the server, started with the settings of the cell.
        spec: Of the cell.

    Raises:
        UsageError: when the limit is below what the server alone may come to hold.
    """
    limit_bytes = spec.memory_limit_bytes
    if limit_bytes is None:
        return
    row = session.connection.execute(
        "SELECT pg_size_bytes(current_setting('shared_buffers'))"
    ).fetchone()
    buffers_bytes = int(row[0]) if row else 0
    clients = spec.clients * spec.processes
    needed_bytes = buffers_bytes + SERVER_BYTES + clients * CLIENT_BYTES
    if needed_bytes <= limit_bytes:
        return
    raise UsageError(
        seen=f"A memory limit of {format_size(limit_bytes)} is less than the "
        f"{format_size(needed_bytes)} that a server with shared_buffers of "
        f"{format_size(buffers_bytes)} and {clients} clients may come to hold",
        cause="The kernel would kill the server in mid-run, as soon as its buffers are in use",
        next_step=f"Give a limit of at least {format_size(needed_bytes)}, or smaller "
        "shared_buffers, such as --set shared_buffers=32MB",
    )
