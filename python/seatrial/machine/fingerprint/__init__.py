"""The fingerprint of machine, block devices and file system; facts without interpretation."""

from seatrial.machine.fingerprint.counters import (
    GAUGES,
    SYSTEM_GAUGES,
    counters,
    system_readings,
)
from seatrial.machine.fingerprint.health import health
from seatrial.machine.fingerprint.process_usage import ProcessTree, Usage, other_process_readings
from seatrial.machine.fingerprint.target import block_device_of
from seatrial.machine.fingerprint.tree import SystemTree
from seatrial.machine.fingerprint.whole import (
    FINGERPRINT_VERSION,
    differences,
    fingerprint_after,
    take_fingerprint,
    target_fingerprint,
)

__all__ = [
    "FINGERPRINT_VERSION",
    "GAUGES",
    "SYSTEM_GAUGES",
    "ProcessTree",
    "SystemTree",
    "Usage",
    "block_device_of",
    "counters",
    "differences",
    "fingerprint_after",
    "health",
    "other_process_readings",
    "system_readings",
    "take_fingerprint",
    "target_fingerprint",
]
