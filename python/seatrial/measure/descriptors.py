"""File descriptors: checks, before anything is measured, that a plan can open as many as it needs.

The kernel limits them for each process (RLIMIT_NOFILE): by a soft limit, which the process may
raise up to the hard limit, which only root can raise.
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
"""Used in addition: folder and trial files, journal, pipes of programs."""


@dataclass(frozen=True)
class DescriptorNeed:
    """The file descriptors that a cell needs at once.

    Attributes:
        here: In this process or one child of it.
        each_child: In each process of our server; 0 without a server.
        why: What needs so many, as the beginning of a sentence.
        takes_fewer: What to request instead, as the end of a sentence.
    """

    here: int = 0
    each_child: int = 0
    why: str = ""
    takes_fewer: str = ""


class TooManyDescriptorsError(UsageError):
    """The requested concurrency needs more file descriptors than this process may have."""


def require_descriptors(plan: Plan) -> None:
    """Check that this process may open what a plan's cells need; raise its soft limit.

    Raises:
        TooManyDescriptorsError: when the hard limit is too low.
        UsageError: when /proc is not mounted.
    """
    if not plan.cells:
        return
    needs = {cell.key: topic_of(cell).descriptors(cell) for cell in plan.cells}
    key = max(needs, key=lambda key: needs[key].here)
    need = needs[key]
    try:
        # One of those listed belongs to the listing itself.
        open_now = len([*Path("/proc/self/fd").iterdir()]) - 1
    except OSError as error:
        raise UsageError(
            seen=f"/proc/self/fd cannot be read: {error.strerror}",
            cause="/proc is not mounted here; trial files are opened through it",
            next_step="Mount it with `mount -t proc proc /proc`, and retry",
        ) from None
    by_children = max(each.each_child for each in needs.values())
    needed = max(open_now + SPARE + need.here, by_children)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if _is_within(needed, soft):
        return
    if not _is_within(needed, hard):
        raise TooManyDescriptorsError(
            seen=f"{key} needs {needed} file descriptors, but the limit of this process is "
            f"{hard} (RLIMIT_NOFILE)",
            cause=f"{need.why}, and the session, container or service has a low limit",
            next_step=f"As root, raise the limit to {needed} (`ulimit -Hn {needed}`, --ulimit "
            f"nofile for a container, LimitNOFILE= for a service), or {need.takes_fewer}",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def allow_all_descriptors() -> None:
    """Raise the soft limit of this process to its hard limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _is_within(needed: int, bound: int) -> bool:
    return bound == resource.RLIM_INFINITY or needed <= bound
