"""The fingerprint: machine, block devices, file system. This room gathers and never judges."""

from seatrial.context.bystanders import bystanders
from seatrial.context.counters import GAUGES, counters
from seatrial.context.difference import differences
from seatrial.context.fingerprint import (
    FINGERPRINT_VERSION,
    after,
    fingerprint,
    target_fingerprint,
)
from seatrial.context.health import health
from seatrial.context.process_tree import ProcessTree, Usage
from seatrial.context.surroundings import SURROUNDINGS_GAUGES, surroundings
from seatrial.context.target import block_device_of
from seatrial.context.tree import SystemTree

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
