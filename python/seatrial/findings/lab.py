"""Finding ``lab``: it was measured inside a user-mode Linux kernel, on virtual disks."""

from __future__ import annotations

from typing import Final

from seatrial.findings.context import Context, lookup
from seatrial.results.model import Run
from seatrial.stats.model import Finding

NOT_OF_LAB: Final = frozenset(
    {
        *("bound_broken", "device_cache_served", "page_cache_served", "flushes_not_durable"),
        *("slow_device", "burst_credit", "predicted", "host_limited", "generator_limited"),
        *("lock_limited", "temperature", "clock_source", "virtualised", "cpu_governor"),
        *(
            "stall",
            "noisy_machine",
            "machine_busy",
            "file_fits_memory",
            "write_cache",
            "scheduler",
            "loop_device",
        ),
    }
)
"""Findings that speak of absolute speed, or of a machine and drives that the lab only plays."""


def is_of_lab(run: Run) -> bool:
    """Tell whether a run was measured inside the lab's kernel."""
    return bool(lookup(run.fingerprint_before, "machine", "lab"))


def lab(context: Context) -> list[Finding]:
    """Say of a run of the lab what of its figures holds."""
    kernel = lookup(context.run.fingerprint_before, "machine", "lab")
    if not kernel:
        return []
    clock = " It has one processor, and its clock ticks 100 times a second." * _is_uml(kernel)
    return [
        Finding(
            kind="lab",
            severity="note",
            cells=[],
            sentence=(
                f"Measured in the lab ({kernel}) on virtual disks: ratios and counts hold, "
                "absolute speed does not."
            ),
            cause=(
                "The code of md, LVM and the file systems is the kernel's own, and so is what it "
                "asks of the drives; the drives, the processor and the clock's tick are not "
                f"those of a machine.{clock}"
            ),
            evidence={"kinds_left_out": sorted(NOT_OF_LAB)},
            next="Run the same study on the drives that will serve: seatrial study STUDY --devices",
        )
    ]


def _is_uml(kernel: object) -> bool:
    return str(kernel).startswith("user-mode Linux")
