"""The fingerprint: machine, block devices, file system. This room gathers and never judges."""

from seatrial.machine.fingerprint.bystanders import bystanders
from seatrial.machine.fingerprint.counters import GAUGES, counters
from seatrial.machine.fingerprint.difference import differences
from seatrial.machine.fingerprint.health import health
from seatrial.machine.fingerprint.process_tree import ProcessTree, Usage
from seatrial.machine.fingerprint.surroundings import SURROUNDINGS_GAUGES, surroundings
from seatrial.machine.fingerprint.target import block_device_of
from seatrial.machine.fingerprint.tree import SystemTree
from seatrial.machine.fingerprint.whole import (
    FINGERPRINT_VERSION,
    after,
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
