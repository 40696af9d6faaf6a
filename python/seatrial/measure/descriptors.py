"""File descriptors: as many as a plan needs at once, allowed before anything is measured.

The kernel bounds them for each process (RLIMIT_NOFILE): softly, which the process may raise itself
up to the hard bound, and that only root can raise.
"""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Final

from seatrial import _core
from seatrial.errors import UsageError
from seatrial.study.cell import Cell
from seatrial.study.model import Plan
from seatrial.trials.database.study.workloads import is_of_database, spec_of

SPARE: Final = 6
"""Beside what is open when a run begins: folder and trial files, journal, pipes of programs."""
SPARE_OF_DATABASES: Final = 12
"""The server's process, its observer's connections, those that a ceiling is found out by."""
SERVER_MIN: Final = 64
"""A PostgreSQL of our own, which inherits the bound, does not start with less: it keeps 48 free
and 10 in reserve (FD_MINFREE and NUM_RESERVED_FDS of its storage/file/fd.c)."""
_HAS_SEQUENCES: Final = ("commit", "copy")
"""Operations that no io_uring carries."""


class TooManyDescriptorsError(UsageError):
    """What is asked for at once takes more file descriptors than this process may have."""


def require_descriptors(plan: Plan) -> None:
    """See that this process may have what the cells of a plan need at once; raise its soft bound.

    Raises:
        TooManyDescriptorsError: when the hard bound is below it.
    """
    if not plan.cells:
        return
    cell = max(plan.cells, key=_needed_by)
    # One of those that are listed is the list's own.
    open_now = len([*Path("/proc/self/fd").iterdir()]) - 1
    needed = max(open_now + SPARE + _needed_by(cell), _needed_by_servers(plan))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if _is_within(needed, soft):
        return
    if not _is_within(needed, hard):
        raise TooManyDescriptorsError(
            seen=f"{cell.key} needs {needed} file descriptors at once, and this process may have "
            f"{hard} (RLIMIT_NOFILE)",
            cause=f"{_why(cell)}, and the limit of the session, container or service is low",
            next_step=f"Raise it to {needed} by root (`ulimit -Hn {needed}`, --ulimit nofile of a "
            f"container, LimitNOFILE= of a service), or {_what_takes_fewer(cell)}",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def allow_all_descriptors() -> None:
    """Raise the soft bound of this process to its hard one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _is_within(needed: int, bound: int) -> bool:
    return bound == resource.RLIM_INFINITY or needed <= bound


def _needed_by(cell: Cell) -> int:
    """Return what a cell needs at once in this process, or in a child of it."""
    if is_of_database(cell):
        return _needed_by_database(cell)
    return cell.threads if _has_rings(cell) else 0


def _needed_by_servers(plan: Plan) -> int:
    """Return what each process of a server of our own needs; 0 where there is none."""
    specs = [spec_of(cell.spec) for cell in plan.cells if is_of_database(cell)]
    return SERVER_MIN if any(spec.start != "as_is" for spec in specs) else 0


def _needed_by_database(cell: Cell) -> int:
    spec = spec_of(cell.spec)
    clients = spec.clients * spec.processes
    if cell.kind == "batch":
        return SPARE_OF_DATABASES
    # Of a replay's ceiling both ends are here, the driver's and those of a server that does
    # nothing; and each connection of a crash trial is waited for by a descriptor of its own.
    ends = 2 if cell.kind in ("replay", "crash") else 1
    return ends * clients + SPARE_OF_DATABASES


def _has_rings(cell: Cell) -> bool:
    """Tell whether each thread of a cell has a ring of io_uring, as the engine chooses."""
    asked = cell.spec.get("engine", "auto")
    if cell.spec["target"]["kind"] == "simulated" or cell.operation in _HAS_SEQUENCES:
        return False
    if asked == "auto":
        return cell.depth > 1 and not _core.io_uring_status()
    return bool(asked == "io_uring")


def _why(cell: Cell) -> str:
    if cell.kind == "replay":
        return "Each session has a connection of its own"
    if is_of_database(cell):
        return "Each client has a connection of its own, and a server its files"
    return f"Each of its {cell.threads} threads has an io_uring of its own"


def _what_takes_fewer(cell: Cell) -> str:
    if cell.kind == "replay":
        return "play it over fewer --connections"
    if is_of_database(cell):
        return "ask for fewer --clients"
    return "ask for fewer threads, or for --engine psync, whose threads need none"
