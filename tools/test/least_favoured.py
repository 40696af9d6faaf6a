"""Runs a command with the processor time that everything else leaves.

    python tools/test/least_favoured.py COMMAND...

Its niceness alone would not do: where the kernel schedules sessions against each other
(CONFIG_SCHED_AUTOGROUP), it counts within one session, and tests that start a session of their own
would get no more than this command. So the command gets a session, and the session a niceness.

Source: sched(7), "The autogroup feature".
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

NICENESS = 19
AUTOGROUP = Path("/proc/self/autogroup")


def main(command: list[str]) -> None:
    """Become the command."""
    os.setsid()
    with suppress(OSError):  # a kernel without sessions that are scheduled against each other
        AUTOGROUP.write_text(str(NICENESS))
    os.nice(NICENESS)
    os.execvp(command[0], command)  # noqa: S606


if __name__ == "__main__":
    main(sys.argv[1:])
