"""Error counters that drivers, links and file systems keep.

Sources: the kernel's Documentation/ABI/testing/sysfs-bus-pci-devices-aer, sysfs-fs-ext4, the SCSI
layer's ``ioerr_cnt`` and its siblings, and btrfs' ``error_stats``.
"""

from __future__ import annotations

import re
from typing import Final

from seatrial.machine.fingerprint.device import controllers
from seatrial.machine.fingerprint.pcie import pci_functions
from seatrial.machine.fingerprint.tree import SystemTree

_SCSI: Final = {
    "requests": "iorequest_cnt",
    "requests_done": "iodone_cnt",
    "request_errors": "ioerr_cnt",
    "request_timeouts": "iotmo_cnt",
}
_PCIE: Final = {
    "pcie_corrected": ("aer_dev_correctable", "TOTAL_ERR_COR"),
    "pcie_not_fatal": ("aer_dev_nonfatal", "TOTAL_ERR_NONFATAL"),
    "pcie_fatal": ("aer_dev_fatal", "TOTAL_ERR_FATAL"),
}


def error_counts(tree: SystemTree, directory: str) -> dict[str, int]:
    """Return the counters of a device by name; those that it does not keep are absent.

    ``in_flight`` is not a count of errors: it is how many requests the device has now.
    """
    counts: dict[str, int | None] = {
        "in_flight": _in_flight(tree, directory),
        **{key: tree.integer(f"{directory}/device/{file}") for key, file in _SCSI.items()},
    }
    hardware = (controllers(tree, directory) or [directory])[0]
    for function in pci_functions(hardware)[:1]:
        for key, (file, total) in _PCIE.items():
            counts[key] = _labelled(tree.text(f"{function}/{file}") or "").get(total)
    return {key: count for key, count in counts.items() if count is not None}


def filesystem_error_counts(
    tree: SystemTree, btrfs: str | None, names: list[str]
) -> dict[str, int]:
    """Return what a file system on the named devices counted; empty where it keeps no count.

    ``btrfs`` is the file system's folder in sysfs where it is one; its devices are summed up.
    """
    counts: dict[str, int] = {}
    for device in tree.names(f"{btrfs}/devinfo") if btrfs else []:
        stats = _labelled(tree.text(f"{btrfs}/devinfo/{device}/error_stats") or "")
        for key, count in stats.items():
            counts[key] = counts.get(key, 0) + count
    for name in names:
        count_ext4 = tree.integer(f"/sys/fs/ext4/{name}/errors_count")
        if count_ext4 is not None:
            counts["errors"] = counts.get("errors", 0) + count_ext4
    return counts


def _in_flight(tree: SystemTree, directory: str) -> int | None:
    """Return the requests in flight, reads and writes together."""
    words = (tree.text(f"{directory}/inflight") or "").split()
    return sum(map(int, words)) if words and all(word.isdigit() for word in words) else None


def _labelled(text: str) -> dict[str, int]:
    """Return lines of a name and a number as a mapping."""
    return {name: int(count) for name, count in re.findall(r"^(\w+)\s+(\d+)$", text, re.MULTILINE)}
