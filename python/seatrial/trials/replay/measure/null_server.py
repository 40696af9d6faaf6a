"""What the driver reaches by itself: pgbench against a server that answers everything at once.

A rate near this ceiling is the driver's and not the database's. The server is ``_core.NullServer``;
it runs in a thread of this process, and needs about half of what pgbench needs.
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
from seatrial.trials.database.measure.pgbench import complaint, totals
from seatrial.trials.database.measure.processes import Crowd, Ended, Process

USUAL_S: Final = 0.5
PROBE_TRANSACTIONS: Final = 50
"""Per client, to find how many take long enough: pgbench's own clock has whole seconds."""
SPARE_CONNECTIONS: Final = 8
"""pgbench has one in addition to its clients', and old ones may not be closed yet."""
FOLDER_BYTES_MAX: Final = 70
"""A socket's path has 107 bytes at most."""
_SHORTEST_FOLDER: Final = "/tmp"  # noqa: S108 - where no other is short enough


class Ceiling(msgspec.Struct, frozen=True, kw_only=True):
    """What a driver reaches with a server that answers at once.

    Attributes:
        transactions_per_s: As pgbench prints it, without the time to connect.
        client_cpu_share: Of a core that each of pgbench's threads used, in the mean.
        server_cpu_share: Of a core that the null server used. Near 1, the ceiling is its own, and
            the driver's lies higher.
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
    place: Path | None = None,
    seconds: float = USUAL_S,
) -> Ceiling:
    """Return how many transactions per second a pgbench reaches by itself.

    The same arguments get the same answer without another measurement, as long as this process
    lasts.

    Args:
        pgbench: The program.
        arguments: Script and protocol, such as ``--builtin=tpcb-like --protocol=simple``; no rate,
            for it would be the ceiling.
        clients: As in the trial.
        threads: As in the trial.
        place: A folder that goes with the run, for the server's socket, at most
            ``FOLDER_BYTES_MAX`` long; one for temporary files where none is given.
        seconds: About how long it is to last.

    Raises:
        TargetError: when pgbench cannot be started, or gives up.
        ValueError: when there is not at least one client for each thread.
    """
    if not 1 <= threads <= clients:
        raise ValueError(f"{clients} clients for {threads} threads")
    return _measured(pgbench, tuple(arguments), clients, threads, place=place, seconds=seconds)


@lru_cache(maxsize=256)
def _measured(
    pgbench: Path,
    arguments: tuple[str, ...],
    clients: int,
    threads: int,
    *,
    place: Path | None,
    seconds: float,
) -> Ceiling:
    command = [
        *(str(pgbench), "--no-vacuum", f"--client={clients}", f"--jobs={threads}"),
        *arguments,
    ]
    with null_server_folder(place) as folder:
        probe = _run(command, folder, clients, PROBE_TRANSACTIONS)
        wanted = math.ceil(probe.per_s * seconds / clients)
        run = _run(command, folder, clients, max(1, wanted))
    used_s = run.ended.user_s + run.ended.system_s
    return Ceiling(
        transactions_per_s=run.per_s,
        client_cpu_share=used_s / run.ended.real_s / threads,
        server_cpu_share=run.server_cpu_s / run.ended.real_s,
    )


class _Run(msgspec.Struct, frozen=True, kw_only=True):
    """One pgbench against one null server."""

    per_s: float
    ended: Ended
    server_cpu_s: float


def _run(command: Sequence[str], folder: str, clients: int, transactions: int) -> _Run:
    """Run pgbench against a server of its own until each client has done so many transactions.

    Raises:
        TargetError: when pgbench cannot be started, or gives up.
    """
    with native_errors():
        server = _core.NullServer(folder=folder, connections_max=clients + SPARE_CONNECTIONS)
    try:
        ended = _ended([*command, f"--transactions={transactions}"], _environment(server))
    finally:
        server.stop()
    printed = totals(ended.output)
    if ended.status != 0 or "tps" not in printed:
        raise _gave_up(ended)
    return _Run(per_s=printed["tps"], ended=ended, server_cpu_s=server.cpu_ns / 1e9)


def _ended(command: Sequence[str], environment: dict[str, str]) -> Ended:
    with Crowd() as crowd:
        try:
            crowd.start(lambda: Process(command, environment, _ignored))
        except OSError as error:
            raise TargetError(
                seen=f"{command[0]} cannot be started: {error.strerror}",
                cause="The program is for another architecture, or a session limit is reached",
                next_step=f"Try `{command[0]} --version`",
            ) from None
        return crowd.listen(_do_nothing)[0]


def _ignored(line: str) -> None:
    """Ignore pgbench's output; its errors are recorded anyway."""


def _do_nothing() -> None:
    """Have nothing to do while pgbench runs."""


def _environment(server: _core.NullServer) -> dict[str, str]:
    """Return this process's environment without variables for another server."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return inherited | {
        "PGHOST": server.host,
        "PGPORT": str(server.port),
        "PGUSER": "null",
        "PGDATABASE": "null",
    }


def null_server_folder(place: Path | None) -> tempfile.TemporaryDirectory[str]:
    """Return a context: a folder for the socket of a null server, below ``place`` if given.

    ``place`` belongs to the run: it is cleaned up with it after a kill.
    """
    wanted = [*([str(place)] if place else []), tempfile.gettempdir()]
    short = (folder for folder in wanted if len(os.fsencode(folder)) <= FOLDER_BYTES_MAX)
    folder = next(short, _SHORTEST_FOLDER)
    return tempfile.TemporaryDirectory(prefix=NULL_FOLDER_PREFIX, dir=folder)


def _gave_up(ended: Ended) -> TargetError:
    return TargetError(
        seen=f"pgbench failed with the null server: {complaint(ended.lines)}",
        cause="The script needs answers of a real database, or has an error",
        next_step="Run the script with pgbench on a database",
    )
