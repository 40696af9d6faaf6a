"""The fingerprint of machine, block devices and file system; facts without interpretation."""

from seatrial.machine.fingerprint.counters import (
    GAUGES,
    SURROUNDINGS_GAUGES,
    counters,
    surroundings,
)
from seatrial.machine.fingerprint.health import health
from seatrial.machine.fingerprint.processes import ProcessTree, Usage, bystanders
from seatrial.machine.fingerprint.target import block_device_of
from seatrial.machine.fingerprint.tree import SystemTree
from seatrial.machine.fingerprint.whole import (
    FINGERPRINT_VERSION,
    after,
    differences,
    fingerprint,
    target_fingerprint,
)

__all__ = [
    "FINGERPRINT_VERSION",
    "GAUGES",
    "SURROUNDINGS_GAUGES",
    "ProcessTree",
    "SystemTree",
    "Usage",
    "after",
    "block_device_of",
    "bystanders",
    "counters",
    "differences",
    "fingerprint",
    "health",
    "surroundings",
    "target_fingerprint",
]
