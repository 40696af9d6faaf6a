"""How many trials a simulation takes: few in every run, many in ``make test-long``."""

from __future__ import annotations

import os

LONG = bool(os.environ.get("SEATRIAL_TEST_LONG"))


def trials(always: int, long: int) -> int:
    """So many as this run is to take."""
    return long if LONG else always
