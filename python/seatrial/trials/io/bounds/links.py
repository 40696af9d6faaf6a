"""What links carry, from the facts of a fingerprint: of one drive, and of many added up."""

from __future__ import annotations

from typing import Any, NamedTuple

from seatrial.findings.context import entries, lookup, number

BYTES_PER_S_PER_GB_S = 1e8
"""8b/10b, ten bits on the wire for a byte: Serial ATA Revision 3.5, section 7.3; SAS up to 12 Gb/s
(SPL-4, section 5)."""
SAS_24G_GB_S = 22.5
SAS_24G_BYTES_PER_S_PER_GB_S = 1e9 * 128 / 150 / 8
"""24G SAS packs 128 bits of data and 22 of error correction into 150 (SPL-5)."""


class Link(NamedTuple):
    """What one link carries.

    Attributes:
        identity: The same for all devices behind the same link.
        bytes_per_s: One way, after encoding.
        words: Kind and speed: ``SATA 3 Gb/s``.
        declared: Whether the user told of it.
    """

    identity: str
    bytes_per_s: float
    words: str
    declared: bool


def own_link(device: dict[str, Any]) -> Link | None:
    """Return the link of a drive alone; None where it has none (NVMe) or its speed is unknown."""
    declared = device.get("declared") is True
    name = f"link of {device.get('name')}"
    sata_gb_s = number(device, "sata_link_gb_s")
    if sata_gb_s:
        return Link(name, sata_gb_s * BYTES_PER_S_PER_GB_S, f"SATA {sata_gb_s:g} Gb/s", declared)
    lane_gb_s = number(device, "sas_link_gb_s")
    if lane_gb_s:
        lanes = int(number(device, "sas_lanes") or 1)
        words = f"SAS {lane_gb_s:g} Gb/s" + (f" x{lanes}" if lanes > 1 else "")
        return Link(name, lanes * sas_lane_bytes_per_s(lane_gb_s), words, declared)
    plain_bytes_per_s = number(device, "link_bytes_per_s")
    if plain_bytes_per_s:
        return Link(name, plain_bytes_per_s, str(device.get("transport") or "link"), declared)
    return None


def sas_lane_bytes_per_s(gb_s: float) -> float:
    """Return what a SAS lane carries at a rate in Gb/s."""
    if gb_s >= SAS_24G_GB_S:
        return gb_s * SAS_24G_BYTES_PER_S_PER_GB_S
    return gb_s * BYTES_PER_S_PER_GB_S


def bus_link(device: dict[str, Any]) -> Link | None:
    """Return the narrowest PCIe link on the way to a device; None where none tells its speed."""
    narrowest = lookup(device, "pcie", "narrowest")
    bytes_per_s = number(narrowest, "bandwidth_now_bytes_per_s")
    if not bytes_per_s:
        return None
    speed, width = number(narrowest, "speed_now_gt_s"), number(narrowest, "width_now")
    words = "PCIe" if speed is None or width is None else f"PCIe {speed:g} GT/s x{width:.0f}"
    declared = lookup(device, "pcie", "declared") is True
    identity = f"pcie {lookup(narrowest, 'address')}"
    return Link(identity, bytes_per_s, words, declared)


def drive_links(fingerprint: dict[str, Any]) -> list[Link] | None:
    """Return the links of the target's physical drives; None when one of them is unknown.

    A drive without a link of its own (NVMe, a virtual disk) is at the end of its PCIe link. Drives
    behind one PCIe link share it, so it counts once.
    """
    physical = [node for node in entries(fingerprint, "target", "stack") if _is_physical(node)]
    found: dict[str, Link] = {}
    for device in physical:
        link = own_link(device) or bus_link(device)
        if link is None:
            return None
        found[link.identity] = link
    return list(found.values()) or None


def bus_links(fingerprint: dict[str, Any]) -> list[Link] | None:
    """Return the PCIe links that the drives with links of their own hang from.

    None when there is no such drive, or the way to one of them is unknown. Links that several
    drives share count once.
    """
    stack = {str(node.get("name")): node for node in entries(fingerprint, "target", "stack")}
    found: dict[str, Link] = {}
    for device in filter(_is_physical, stack.values()):
        buses = _buses_of(device, stack)
        if own_link(device) is None or not buses:
            return None
        found |= {bus.identity: bus for bus in buses}
    return list(found.values()) or None


def _buses_of(device: dict[str, Any], stack: dict[str, dict[str, Any]]) -> list[Link]:
    """Return the bus of a drive; of a declared one without, those of what it lies under."""
    own = bus_link(device)
    if own or device.get("declared") is not True:
        return [own] if own else []
    above = [stack[name] for name in device.get("parents") or [] if name in stack]
    return [bus for node in above if (bus := bus_link(node))]


def _is_physical(device: dict[str, Any]) -> bool:
    return not device.get("children")
