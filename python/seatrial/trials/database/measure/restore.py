"""The user's own command that brings a database back to its snapshot, before each sample."""

from __future__ import annotations

import signal
import time
from typing import Final

from seatrial.errors import TargetError
from seatrial.trials.database.measure.driver_result import Endpoints
from seatrial.trials.database.measure.processes import Crowd, Ended, Process

SHELL: Final = "/bin/sh"
LAST_LINES: Final = 20
LAST_WORDS_S: Final = 5.0
"""So long a command that is over its time may take to end by itself."""


def run_restore(command: str, endpoints: Endpoints, *, time_s_max: float) -> float:
    """Run a command of the shell to its end; return how long it took, in seconds.

    Its environment has the database's address in ``DATABASE_URL`` (without the password), and in
    libpq's variables, ``PGPASSWORD`` among them where there is one.

    Raises:
        TargetError: when it fails or takes too long, with the end of what it printed.
    """
    address = endpoints.addresses[0]
    environment = address.environment(endpoints.secret) | {"DATABASE_URL": address.as_url()}
    began_s = time.monotonic()
    with Crowd() as crowd:
        # One stream, so that what went wrong is read where it did.
        words = [SHELL, "-c", f"exec 2>&1\n{command}"]
        crowd.start(lambda: Process(words, environment, lambda _line: None))
        (ended,) = crowd.listen(lambda: _end_late(crowd, time.monotonic() - began_s - time_s_max))
    elapsed_s = time.monotonic() - began_s
    if ended.status != 0:
        raise _failed(command, ended, time_s_max if elapsed_s > time_s_max else None)
    return elapsed_s


def _end_late(crowd: Crowd, over_s: float) -> None:
    if over_s > LAST_WORDS_S:
        crowd.signal(signal.SIGKILL)
    elif over_s > 0:
        crowd.signal(signal.SIGTERM)


def _failed(command: str, ended: Ended, time_s_max: float | None) -> TargetError:
    how = f"with exit code {ended.status}" if ended.status > 0 else f"by signal {-ended.status}"
    if time_s_max is not None:
        how = f"after {time_s_max:g} s, which is all that it was given,"
    lines = [line.strip() for line in ended.output.splitlines() if line.strip()][-LAST_LINES:]
    printed = f"with these last words: {' / '.join(lines)}" if lines else "without a word"
    return TargetError(
        seen=f"The command that restores the database, {command!r}, ended {how} {printed}",
        cause="A sample would begin with data that nobody knows, so none was measured",
        next_step="Try the command by hand, with DATABASE_URL and PGDATABASE set as for a replay",
    )
