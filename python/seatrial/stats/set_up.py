"""What a run was measured on, in short: host, kernel, drive, firmware, from its fingerprint."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from seatrial.results.model import Run
from seatrial.stats.wording import format_plural

UNKNOWN: Final = "unknown"
"""Stands for a fact that the fingerprint does not have."""


def host_of(run: Run) -> str:
    """Return the machine by make, processor and number of CPUs; empty if nothing is known.

    Host names are not stored, so that two machines of one type have the same text.
    """
    machine = run.fingerprint_before.machine
    cpus = format_plural(machine.cpus_online, "CPU") if machine.cpus_online else ""
    return _joined([machine.product, machine.cpu_model, cpus])


def kernel_of(run: Run) -> str:
    """Return the version of the kernel; empty if unknown."""
    return run.fingerprint_before.machine.kernel or ""


def drive_of(run: Run, target: str) -> str:
    """Return the models of the physical devices under a target; empty if unknown."""
    found = run.fingerprint_before.target_of(target)
    return _joined(each.model for each in found.physical_devices) if found else ""


def firmware_of(run: Run, target: str) -> str:
    """Return the firmware of the physical devices under a target; empty if unknown."""
    found = run.fingerprint_before.target_of(target)
    return _joined(each.firmware for each in found.physical_devices) if found else ""


FACTS: Final[Mapping[str, Callable[[Run, str], str]]] = {
    "host": lambda run, _target: host_of(run),
    "kernel": lambda run, _target: kernel_of(run),
    "drive": drive_of,
    "firmware": firmware_of,
}
"""Facts that runs can be grouped by: name, and what returns it for a run and a target's label."""


def _joined(parts: Iterable[str | None]) -> str:
    return ", ".join(dict.fromkeys(part.strip() for part in parts if part and part.strip()))
