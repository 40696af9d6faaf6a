"""The SAS link of a disk, SATA disks behind a SAS controller among them.

Source: the kernel's drivers/scsi/scsi_transport_sas.c (``negotiated_linkrate`` of a phy; a port is
named after the end or expander that it leads to and holds links to its phys).
"""

from __future__ import annotations

import re
from typing import Any, Final

from seatrial.machine.fingerprint.tree import SystemTree

_PORT: Final = re.compile(r"(.*/port-[0-9:]+)/end_device-")
_GBIT: Final = re.compile(r"([0-9.]+) Gbit")


def sas_link(tree: SystemTree, directory: str) -> dict[str, Any]:
    """Return the link of a disk behind a SAS controller; values are None where there is none.

    Keys: ``sas_link_gb_s`` of one lane now, ``sas_lanes``, how many lanes lead to the disk.
    Expanders on the way share their own lanes among their disks; these are not looked at.
    """
    port = _PORT.match(directory)
    if port is None:
        return {"sas_link_gb_s": None, "sas_lanes": None}
    phys = [name for name in tree.names(port[1]) if name.startswith("phy-")]
    rates = [rate for name in phys if (rate := _gb_s(tree, name)) is not None]
    # The lanes of one port negotiate one rate.
    return {"sas_link_gb_s": min(rates, default=None), "sas_lanes": len(rates) or None}


def _gb_s(tree: SystemTree, phy: str) -> float | None:
    """Return what a lane negotiated; the kernel writes ``12.0 Gbit`` or ``Unknown``."""
    text = tree.text(f"/sys/class/sas_phy/{phy}/negotiated_linkrate") or ""
    match = _GBIT.match(text)
    return float(match[1]) if match else None
