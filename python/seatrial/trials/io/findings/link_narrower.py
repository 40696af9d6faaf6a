"""Finding ``link_narrower``: a link to the device carries less than the device is capable of."""

from __future__ import annotations

from typing import Any

from seatrial.findings.context import device_name, entries, lookup, number
from seatrial.findings.rule import from_fingerprint
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_rate_bytes, format_share

ROUNDING_SHARE = 0.01
"""Encodings differ by a percent between generations; less than that is no narrower link."""


@from_fingerprint(rank=730, section="The device, before anything is measured")
def link_narrower(fingerprint: dict[str, Any]) -> list[Finding]:
    """Find PCIe paths and SATA links that are narrower than they could be.

    Means:
        A link to the drive carries less than the drive could.

    Decided:
        PCIe: of all links between drive and processor, the narrowest now against what the drive is
        capable of, after encoding. The two ends of a link tell a small slot from a link that came
        up below what both ends can do; a wide port above a narrow drive is no finding. SATA: the
        link is slower than both ends can (than its port, where the drive does not say), or the
        kernel lowered it after errors. Warning; note for a hard disk on an old SATA link. A drive
        that saves power may lower its link while idle: look again while it is busy.

    Do:
        Another slot, reseat it, another cable or bay; compare `LnkCap` with `LnkSta` in `lspci
        -vv`.
    """
    devices = entries(fingerprint, "target", "stack")
    by_address = {
        str(lookup(device, "pcie", "address")): device
        for device in devices
        if isinstance(device.get("pcie"), dict)
    }
    found = [_pcie(device) for device in by_address.values()]
    found += [_sata(device, _drive_max_gb_s(fingerprint, device)) for device in devices]
    return [finding for finding in found if finding]


def _pcie(device: dict[str, Any]) -> Finding | None:
    """Return what the narrowest link between device and processor costs."""
    own = device["pcie"]
    most, now = number(own, "bandwidth_max_bytes_per_s"), _path_bytes_per_s(own)
    if most is None or now is None or now >= most * (1 - ROUNDING_SHARE):
        return None
    narrowest = own.get("narrowest") or own
    lost_share = 1 - now / most
    cause, step = _reason(own, narrowest)
    return Finding(
        kind="link_narrower",
        severity="warning",
        cells=[],
        sentence=(
            f"{device_name(device)} is capable of PCIe {_link(own, 'max')} but reaches the "
            f"processor through {_link(narrowest, 'now')}{_at(own, narrowest)}: at most "
            f"{format_rate_bytes(now)} in place of {format_rate_bytes(most)}, "
            f"{format_share(lost_share)} less."
        ),
        cause=cause,
        evidence={
            "device": device.get("name"),
            "narrowest_address": narrowest.get("address"),
            "speed_now_gt_s": narrowest.get("speed_now_gt_s"),
            "width_now_lanes": narrowest.get("width_now"),
            "speed_max_gt_s": own.get("speed_max_gt_s"),
            "width_max_lanes": own.get("width_max"),
            "bandwidth_now_bytes_per_s": now,
            "bandwidth_max_bytes_per_s": most,
            "lost_share": lost_share,
        },
        next=step,
    )


def _path_bytes_per_s(own: dict[str, Any]) -> float | None:
    """Return what the narrowest link of the path carries now."""
    narrowest_bytes_per_s = number(own, "narrowest", "bandwidth_now_bytes_per_s")
    if narrowest_bytes_per_s is not None:
        return narrowest_bytes_per_s
    return number(own, "bandwidth_now_bytes_per_s")


def _reason(own: dict[str, Any], narrowest: dict[str, Any]) -> tuple[str, str]:
    """Return cause and next step.

    A link has two ends, so the device's own link is told twice: by the device and by the bridge
    just above it. What that bridge could do at most tells a slot that is too small from a link
    that came up below what both ends can do.
    """
    first = next(iter(entries(own, "chain")), {})
    at_the_device = narrowest.get("address") in (own.get("address"), first.get("address"))
    if not at_the_device:
        return (
            "A bridge or switch further up is narrower than the device; what hangs below it "
            "shares that link.",
            "Compare the links with 'lspci -tv' and 'lspci -vv | grep -E \"^[0-9a-f]|LnkSta:\"'; "
            "move the device to a slot that leads straight to the processor.",
        )
    if _slot_is_smaller(own, first):
        return (
            "The slot has fewer lanes or an older generation than the device.",
            "Move the device to a faster slot; the mainboard's manual names the lanes of each.",
        )
    return (
        "The link came up below what the device and its slot can do: a loose or dirty contact, a "
        "riser or cable, a firmware setting, or power saving of an idle link.",
        "Compare 'LnkCap' and 'LnkSta' in 'lspci -vv' while the device is busy; reseat it, try "
        "another slot, and look for PCIe errors with 'dmesg -T | grep -i -E \"aer|pcie\"'.",
    )


def _slot_is_smaller(own: dict[str, Any], slot: dict[str, Any]) -> bool:
    """Tell whether the slot's end can do no more than the link does now, and less than the device.

    Compared by speed and width apart: eight slow lanes are not four fast ones.
    """
    for key in ("speed", "width"):
        unit = "_gt_s" if key == "speed" else ""
        device_max, slot_max = number(own, f"{key}_max{unit}"), number(slot, f"{key}_max{unit}")
        now = number(own, f"{key}_now{unit}")
        if device_max is None or slot_max is None or now is None or now >= device_max:
            continue
        if now < min(device_max, slot_max):
            return False
    slot_most = number(slot, "bandwidth_max_bytes_per_s")
    most = number(own, "bandwidth_max_bytes_per_s")
    return slot_most is not None and most is not None and slot_most < most


def _drive_max_gb_s(fingerprint: dict[str, Any], device: dict[str, Any]) -> float | None:
    """Return the fastest SATA link that the drive says it can do; None when it does not say."""
    return number(fingerprint, "health", str(device.get("name")), "smart", "link_max_gb_s")


def _sata(device: dict[str, Any], drive_max_gb_s: float | None) -> Finding | None:
    """Return what a SATA link costs that is slower than both of its ends."""
    now, port_max = number(device, "sata_link_gb_s"), number(device, "sata_link_max_gb_s")
    if now is None or port_max is None:
        return None
    most = min(port_max, drive_max_gb_s or port_max)
    if now >= most:
        return None
    limit = number(device, "sata_link_limit_gb_s")
    lowered = limit is not None and limit < most
    ends = "its port" if drive_max_gb_s is None else "both ends"
    return Finding(
        kind="link_narrower",
        severity="warning" if lowered or not device.get("rotational") else "note",
        cells=[],
        sentence=(
            f"{device_name(device)} is linked at SATA {now:g} Gb/s where {ends} can do "
            f"{most:g} Gb/s, {format_share(1 - now / most)} less."
        ),
        cause=_sata_cause(lowered=lowered, drive_is_faster=drive_max_gb_s is not None),
        evidence={
            "device": device.get("name"),
            "sata_link_gb_s": now,
            "sata_link_limit_gb_s": limit,
            "sata_link_max_gb_s": most,
            "lost_share": 1 - now / most,
        },
        next=(
            "Look at 'dmesg -T | grep -i -E \"ata[0-9]|SATA link\"'; change the cable or the bay "
            "and compare."
        ),
    )


def _sata_cause(*, lowered: bool, drive_is_faster: bool) -> str:
    if lowered:
        return (
            "The kernel lowered the speed after errors on the link: a cable, a backplane or the "
            "drive's port."
        )
    if drive_is_faster:
        return "A cable or backplane keeps it slow."
    return "The drive is of an older generation, or a cable or backplane keeps it slow."


def _link(link: dict[str, Any], when: str) -> str:
    speed, width = number(link, f"speed_{when}_gt_s"), number(link, f"width_{when}")
    speed_told = f"{speed:g} GT/s" if speed is not None else "an unknown speed"
    return f"{speed_told} x{width:.0f}" if width is not None else speed_told


def _at(own: dict[str, Any], narrowest: dict[str, Any]) -> str:
    if narrowest.get("address") in (None, own.get("address")):
        return ""
    return f" at {narrowest['address']}"
