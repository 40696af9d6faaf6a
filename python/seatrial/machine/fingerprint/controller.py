"""The controller that a SCSI disk hangs from: its driver, and its cache where it tells of one.

A RAID controller shows its array as one disk: neither its drives nor their links are visible.

Sources: the kernel's drivers/scsi/scsi_sysfs.c (``proc_name``); drivers/scsi/arcmsr/arcmsr_attr.c
(``host_fw_model``, ``host_fw_sdram_size`` in MiB); drivers/scsi/mpt3sas (``board_name``).
"""

from __future__ import annotations

import re
from typing import Any, Final

from seatrial.machine.fingerprint.tree import SystemTree

_HOST: Final = re.compile(r"/(host\d+)/")
_BYTES_PER_MIB: Final = 1 << 20
_MODEL_FILES: Final = ("host_fw_model", "board_name", "model")

_RAID_DRIVERS: Final = frozenset(
    {
        "3w-9xxx",
        "3w-sas",
        "aacraid",
        "arcmsr",
        "hpsa",
        "ips",
        "megaraid",
        "megaraid_sas",
        "mpi3mr",
        "pmcraid",
        "smartpqi",
    }
)
"""Drivers of controllers that may show an array as one disk."""


def controller(tree: SystemTree, directory: str) -> dict[str, Any] | None:
    """Return the SCSI host of a disk's sysfs directory; None where there is none.

    Keys: ``name`` (``host0``), ``driver``, ``model``, ``hides_drives`` (whether the disk may be an
    array that the controller shows as one), ``cache_bytes``: its memory; None where it tells none.
    """
    host = _HOST.search(directory + "/")
    if host is None:
        return None
    folder = f"/sys/class/scsi_host/{host[1]}"
    driver = tree.word(f"{folder}/proc_name")
    models = (tree.word(f"{folder}/{file}") for file in _MODEL_FILES)
    cache_mib = tree.integer(f"{folder}/host_fw_sdram_size")
    return {
        "name": host[1],
        "driver": driver,
        "model": next((model for model in models if model), None),
        "hides_drives": driver in _RAID_DRIVERS,
        "cache_bytes": cache_mib * _BYTES_PER_MIB if cache_mib else None,
    }
