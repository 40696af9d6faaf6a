"""The lab of tests/lab, for ``seatrial lab``."""

from __future__ import annotations

from lab.conftest import apt, lab_environment, machine
