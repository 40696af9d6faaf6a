"""What a database holds after a crash, and whether its tables and indexes are sound."""

from __future__ import annotations

import contextlib
from typing import Final

from seatrial.errors import TargetError
from seatrial.postgres.binaries import Binaries
from seatrial.postgres.connection import Address, connect
from seatrial.trials.database.measure.crash_ledger import Entry, LedgerContent
from seatrial.trials.database.measure.printed import complaint
from seatrial.trials.database.measure.processes import Crowd, Process
from seatrial.trials.database.measure.server_session import refused

_LEDGER: Final = "SELECT worker, sequence, source, target, amount FROM crash_ledger"
_CHANGED: Final = "SELECT id, value, changed FROM {} WHERE value <> 0 OR changed <> 0"
_LEFT: Final = _CHANGED.format("crash_left")
_RIGHT: Final = _CHANGED.format("crash_right")

AMCHECK_SOUND: Final = 0
AMCHECK_FAULTS: Final = 2
"""Source: PostgreSQL's documentation of pg_amcheck, "Exit Status" in src/bin/pg_amcheck."""


def found_in(address: Address) -> LedgerContent:
    """Read all of a crash trial's tables; where pages have checksums, they are checked by it.

    Rows that no transaction changed are read by the server, and not handed over.

    Raises:
        TargetError: when a table cannot be read.
    """
    import psycopg  # noqa: PLC0415 - heavy, and only where there is a server

    try:
        with contextlib.closing(connect(address)) as connection:
            entries = [Entry(*row) for row in connection.execute(_LEDGER)]
            left = {row[0]: (row[1], row[2]) for row in connection.execute(_LEFT)}
            right = {row[0]: (row[1], row[2]) for row in connection.execute(_RIGHT)}
    except psycopg.Error as error:
        raise refused(error) from None
    return LedgerContent(entries=entries, left=left, right=right)


def can_check_indexes(binaries: Binaries) -> bool:
    """Tell whether this PostgreSQL has pg_amcheck, which it has since version 14."""
    return (binaries.folder / "pg_amcheck").is_file()


def index_faults(address: Address, binaries: Binaries) -> str:
    """Return what pg_amcheck finds wrong with tables and indexes; empty when all is sound.

    Every entry of a table is sought in its indexes (``--heapallindexed``).

    Raises:
        TargetError: when it cannot be run.
    """
    command = [
        str(binaries.program("pg_amcheck")),
        "--install-missing",
        "--heapallindexed",
        f"--database={address.dbname}",
    ]
    with Crowd() as crowd:
        crowd.start(lambda: Process(command, address.environment(), lambda _line: None))
        (ended,) = crowd.listen(lambda: None)
    if ended.status == AMCHECK_SOUND:
        return ""
    words = complaint([*ended.lines, *ended.output.splitlines()])
    if ended.status == AMCHECK_FAULTS:
        return words
    raise TargetError(
        seen=f"pg_amcheck could not check the database: {words}",
        cause="The extension amcheck is not installed with this PostgreSQL, or the server ended",
        next_step="Install PostgreSQL's contrib modules, or name another one with --pg-bin",
    )
