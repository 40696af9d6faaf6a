"""File descriptors: as many as a plan needs at once, allowed before anything is measured.

The kernel bounds them for each process (RLIMIT_NOFILE): softly, which the process may raise itself
up to the hard bound, and that only root can raise.
"""

from __future__ import annotations

import resource
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from seatrial.errors import UsageError
from seatrial.study.model import Plan
from seatrial.topic import topic_of

SPARE: Final = 6
"""Beside what is open when a run begins: folder and trial files, journal, pipes of programs."""


@dataclass(frozen=True)
class DescriptorNeed:
    """What file descriptors a cell takes at once.

    Attributes:
        here: In this process, or in a child of it.
        each_child: In each process of a server of ours; 0 where there is none.
        why: What takes so many, as the beginning of a sentence.
        takes_fewer: What to ask for instead, as the end of one.
    """

    here: int = 0
    each_child: int = 0
    why: str = ""
    takes_fewer: str = ""


class TooManyDescriptorsError(UsageError):
    """What is asked for at once takes more file descriptors than this process may have."""


def require_descriptors(plan: Plan) -> None:
    """See that this process may have what the cells of a plan need at once; raise its soft bound.

    Raises:
        TooManyDescriptorsError: when the hard bound is below it.
    """
    if not plan.cells:
        return
    needs = {cell.key: topic_of(cell).descriptors(cell) for cell in plan.cells}
    key = max(needs, key=lambda key: needs[key].here)
    need = needs[key]
    # One of those that are listed is the list's own.
    open_now = len([*Path("/proc/self/fd").iterdir()]) - 1
    by_children = max(each.each_child for each in needs.values())
    needed = max(open_now + SPARE + need.here, by_children)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if _is_within(needed, soft):
        return
    if not _is_within(needed, hard):
        raise TooManyDescriptorsError(
            seen=f"{key} needs {needed} file descriptors at once, and this process may have "
            f"{hard} (RLIMIT_NOFILE)",
            cause=f"{need.why}, and the limit of the session, container or service is low",
            next_step=f"Raise it to {needed} by root (`ulimit -Hn {needed}`, --ulimit nofile of a "
            f"container, LimitNOFILE= of a service), or {need.takes_fewer}",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def allow_all_descriptors() -> None:
    """Raise the soft bound of this process to its hard one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _is_within(needed: int, bound: int) -> bool:
    return bound == resource.RLIM_INFINITY or needed <= bound
