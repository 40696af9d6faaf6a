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

from seatrial import _core
from seatrial.errors import TargetError, native_errors
from seatrial.postgres.undoing import NULL_FOLDER_PREFIX
from seatrial.trials.database.measure.client_processes import ProcessResult, ignored, run_to_end
from seatrial.trials.database.measure.pgbench import error_text, started, totals

USUAL_S: Final = 0.5
PROBE_TRANSACTIONS: Final = 50
"""Per client, to estimate how many take long enough: pgbench's own clock has whole seconds."""
SPARE_CONNECTIONS: Final = 8
"""pgbench opens one in addition to its clients', and old ones may not be closed yet."""
FOLDER_BYTES_MAX: Final = 70
"""A socket's path has 107 bytes at most."""
_SHORTEST_FOLDER: Final = "/tmp"  # noqa: S108 - where no other is short enough


def ceiling_per_s(
    pgbench: Path,
    arguments: Sequence[str],
    *,
    clients: int,
    threads: int,
    folder: Path | None = None,
    seconds: float = USUAL_S,
) -> float:
    """Return the maximum transactions per second of pgbench itself, as it prints them.

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
) -> float:
    command = [
        *(str(pgbench), "--no-vacuum", f"--client={clients}", f"--jobs={threads}"),
        *arguments,
    ]
    with null_server_folder(folder) as socket_folder:
        probe_per_s = _run(command, socket_folder, clients, PROBE_TRANSACTIONS)
        transactions = math.ceil(probe_per_s * seconds / clients)
        return _run(command, socket_folder, clients, max(1, transactions))


def _run(command: Sequence[str], folder: str, clients: int, transactions: int) -> float:
    """Return the rate of pgbench with its own server, with the given transactions per client.

    Raises:
        TargetError: when pgbench cannot be started, or fails.
    """
    with native_errors():
        server = _core.NullServer(folder=folder, connections_max=clients + SPARE_CONNECTIONS)
    arguments = [*command, f"--transactions={transactions}"]
    try:
        ended = run_to_end(lambda: started(arguments, _environment(server), ignored))
    finally:
        server.stop()
    printed = totals(ended.output)
    if ended.status != 0 or "tps" not in printed:
        raise _pgbench_failed(ended)
    return printed["tps"]


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
