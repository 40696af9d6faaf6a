"""Runs a command with the processor time that everything else leaves.

    python tools/test/least_favoured.py COMMAND...

Its niceness alone would not do: where the kernel schedules sessions against each other
(CONFIG_SCHED_AUTOGROUP), it counts within one session, and tests that start a session of their own
would get no more than this command. So the command gets a session, and the session a niceness.

As a plugin of pytest (``-p least_favoured``) it gives the third worker less weight than the first
two, which run what measures time; not the least, for its tests wait for answers.

Source: sched(7), "The autogroup feature".
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

NICENESS = 19
NICENESS_OF_WORKER = 5
WORKER = "gw2"
AUTOGROUP = Path("/proc/self/autogroup")


def lower(niceness: int) -> None:
    """Give this process a session of its own, and the session a niceness."""
    os.setsid()
    with suppress(OSError):  # a kernel without sessions that are scheduled against each other
        AUTOGROUP.write_text(str(niceness))
    os.nice(niceness)


def pytest_configure() -> None:
    """Give the third worker less weight."""
    if os.environ.get("PYTEST_XDIST_WORKER") == WORKER:
        lower(NICENESS_OF_WORKER)


def main(command: list[str]) -> None:
    """Become the command."""
    lower(NICENESS)
    os.execvp(command[0], command)  # noqa: S606


if __name__ == "__main__":
    main(sys.argv[1:])
