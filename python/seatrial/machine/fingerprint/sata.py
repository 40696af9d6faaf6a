"""The SATA link of a disk.

Source: the kernel's Documentation/ABI/testing/sysfs-ata (``sata_spd`` and its siblings).
"""

from __future__ import annotations

import re
from typing import Any, Final

from seatrial.machine.fingerprint.tree import SystemTree

_PORT: Final = re.compile(r"/ata(\d+)/")


def sata_port(directory: str) -> str | None:
    """Return the number of the ATA port that a device's sysfs directory lies under."""
    match = _PORT.search(directory)
    return match[1] if match else None


def sata_link(tree: SystemTree, directory: str) -> dict[str, Any]:
    """Return the speed of a disk's SATA link in Gb/s; values are None where there is none.

    Keys: ``sata_link_gb_s`` now, ``sata_link_limit_gb_s`` to which the kernel holds it (it lowers
    the limit after errors), ``sata_link_max_gb_s`` of which the controller's port is capable.
    """
    port = sata_port(directory)
    folder = f"/sys/class/ata_link/link{port}"
    files = {
        "sata_link_gb_s": "sata_spd",
        "sata_link_limit_gb_s": "sata_spd_limit",
        "sata_link_max_gb_s": "hw_sata_spd_limit",
    }
    return {key: _gb_s(tree, f"{folder}/{file}") if port else None for key, file in files.items()}


def _gb_s(tree: SystemTree, path: str) -> float | None:
    """Return a link speed; the kernel writes ``6.0 Gbps`` or ``<unknown>``."""
    match = re.match(r"([0-9.]+) Gbps", tree.text(path) or "")
    return float(match[1]) if match else None
