"""The maximum rate of pgbench itself, with a server that answers immediately.

A rate near this ceiling is limited by the driver, not the database. The server is
``_core.NullServer`` in a thread of this process; it needs about half the CPU time of pgbench.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from seatrial import _core
from seatrial.errors import TargetError, native_errors
from seatrial.postgres.undoing import NULL_FOLDER_PREFIX
from seatrial.trials.database.measure.client_processes import Process, ProcessGroup, ProcessResult
from seatrial.trials.database.measure.pgbench import error_text, totals

USUAL_S: Final = 0.5
PROBE_TRANSACTIONS: Final = 50
"""Per client, to estimate how many take long enough: pgbench's own clock has whole seconds."""
SPARE_CONNECTIONS: Final = 8
"""pgbench opens one in addition to its clients', and old ones may not be closed yet."""
FOLDER_BYTES_MAX: Final = 70
"""A socket's path has 107 bytes at most."""
_SHORTEST_FOLDER: Final = "/tmp"  # noqa: S108 - where no other is short enough


class PgbenchCeiling(msgspec.Struct, frozen=True, kw_only=True):
    """The maximum rate of pgbench with a server that answers immediately.

    Attributes:
        transactions_per_s: As pgbench prints it, without the time to connect.
        client_cpu_share: Mean share of a core that each of pgbench's threads used.
        server_cpu_share: Share of a core that the null server used. Near 1, it is the limit,
            and the driver's maximum is higher.
    """

    transactions_per_s: float
    client_cpu_share: float
    server_cpu_share: float


def ceiling_per_s(
    pgbench: Path,
    arguments: Sequence[str],
    *,
    clients: int,
    threads: int,
    folder: Path | None = None,
    seconds: float = USUAL_S,
) -> PgbenchCeiling:
    """Return the maximum transactions per second of pgbench itself.

    The result for the same arguments is cached for the lifetime of this process.

    Args:
        pgbench: The program.
        arguments: Script and protocol, such as ``--builtin=tpcb-like --protocol=simple``; without a
            rate.
        clients: As in the trial.
        threads: As in the trial.
        folder: A folder of the run, for the server's socket, at most
            ``FOLDER_BYTES_MAX`` bytes long; the temporary folder if None.
        seconds: Approximate duration.

    Raises:
        TargetError: when pgbench cannot be started, or fails.
        ValueError: when there is not at least one client for each thread.
    """
    if not 1 <= threads <= clients:
        raise ValueError(f"{clients} clients for {threads} threads")
    return _measured(pgbench, tuple(arguments), clients, threads, folder=folder, seconds=seconds)


@lru_cache(maxsize=256)
def _measured(
    pgbench: Path,
    arguments: tuple[str, ...],
    clients: int,
    threads: int,
    *,
    folder: Path | None,
    seconds: float,
) -> PgbenchCeiling:
    command = [
        *(str(pgbench), "--no-vacuum", f"--client={clients}", f"--jobs={threads}"),
        *arguments,
    ]
    with null_server_folder(folder) as socket_folder:
        probe = _run(command, socket_folder, clients, PROBE_TRANSACTIONS)
        transactions = math.ceil(probe.per_s * seconds / clients)
        run = _run(command, socket_folder, clients, max(1, transactions))
    used_s = run.ended.user_s + run.ended.system_s
    return PgbenchCeiling(
        transactions_per_s=run.per_s,
        client_cpu_share=used_s / run.ended.real_s / threads,
        server_cpu_share=run.server_cpu_s / run.ended.real_s,
    )


class _Run(msgspec.Struct, frozen=True, kw_only=True):
    """One pgbench against one null server."""

    per_s: float
    ended: ProcessResult
    server_cpu_s: float


def _run(command: Sequence[str], folder: str, clients: int, transactions: int) -> _Run:
    """Run pgbench with its own server until each client has run the given transactions.

    Raises:
        TargetError: when pgbench cannot be started, or fails.
    """
    with native_errors():
        server = _core.NullServer(folder=folder, connections_max=clients + SPARE_CONNECTIONS)
    try:
        ended = _ended([*command, f"--transactions={transactions}"], _environment(server))
    finally:
        server.stop()
    printed = totals(ended.output)
    if ended.status != 0 or "tps" not in printed:
        raise _pgbench_failed(ended)
    return _Run(per_s=printed["tps"], ended=ended, server_cpu_s=server.cpu_ns / 1e9)


def _ended(command: Sequence[str], environment: dict[str, str]) -> ProcessResult:
    with ProcessGroup() as processes:
        try:
            processes.start(lambda: Process(command, environment, _ignored))
        except OSError as error:
            raise TargetError(
                seen=f"{command[0]} cannot be started: {error.strerror}",
                cause="The program is for another architecture, or a session limit is reached",
                next_step=f"Try `{command[0]} --version`",
            ) from None
        return processes.wait(_do_nothing)[0]


def _ignored(line: str) -> None:
    """Ignore pgbench's output; its errors are recorded anyway."""


def _do_nothing() -> None:
    """Do nothing while pgbench runs."""


def _environment(server: _core.NullServer) -> dict[str, str]:
    """Return this process's environment without variables for another server."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return inherited | {
        "PGHOST": server.host,
        "PGPORT": str(server.port),
        "PGUSER": "null",
        "PGDATABASE": "null",
    }


def null_server_folder(folder: Path | None) -> tempfile.TemporaryDirectory[str]:
    """Return a context: a folder for the socket of a null server, in ``folder`` if given.

    ``folder`` belongs to the run, so that it is removed with it after a kill.
    """
    candidates = [*([str(folder)] if folder else []), tempfile.gettempdir()]
    short = (path for path in candidates if len(os.fsencode(path)) <= FOLDER_BYTES_MAX)
    parent = next(short, _SHORTEST_FOLDER)
    return tempfile.TemporaryDirectory(prefix=NULL_FOLDER_PREFIX, dir=parent)


def _pgbench_failed(ended: ProcessResult) -> TargetError:
    return TargetError(
        seen=f"pgbench failed with the null server: {error_text(ended.lines)}",
        cause="The script needs answers of a real database, or has an error",
        next_step="Run the script with pgbench on a database",
    )
