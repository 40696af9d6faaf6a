"""Finding ``link_narrower``: a link on the path to the device is slower than the device."""

from __future__ import annotations

from typing import Annotated

from seatrial.findings.context import device_name, smart_of
from seatrial.findings.rule import from_fingerprint
from seatrial.fingerprint import Device, Fingerprint, PcieLink, PciePath
from seatrial.published import HIDDEN
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_rate_bytes, format_share

ROUNDING_SHARE = 0.01
"""Encodings differ by 1 % between generations; a smaller difference is not a narrower link."""


@from_fingerprint(rank=730, section="Preflight: device")
def link_narrower(fingerprint: Fingerprint) -> list[Finding]:
    """Find PCIe paths and SATA links that are slower than their drive.

    Means:
        A link on the path to the drive is slower than the drive supports.

    Decided:
        PCIe: the narrowest link between drive and CPU at present, compared with the drive's
        maximum, after encoding. The capabilities of both ends of a link distinguish a small slot
        from a link trained below both ends; a wide port above a narrow drive is not reported. SATA:
        the link is slower than both ends support (or than its port, if the drive does not report
        its maximum), or the kernel lowered it after errors. Warning; note for a hard disk on an old
        SATA link. Power saving may lower the link of an idle drive: check again under load.

    Do:
        Use another slot, cable or bay, or reseat the drive; compare `LnkCap` with `LnkSta` in
        `lspci -vv`.
    """
    devices = fingerprint.stack
    by_address = {
        device.pcie.address: (device, device.pcie) for device in devices if device.pcie is not None
    }
    found = [_pcie(device, own) for device, own in by_address.values()]
    found += [_sata(device, _drive_max_gb_s(fingerprint, device)) for device in devices]
    return [finding for finding in found if finding]


class LinkNarrowerInShort(Figures, frozen=True, kw_only=True, tag="link_narrower"):
    """Figures of every ``link_narrower``."""

    lost_share: float

    def in_short(self, cells_count: int) -> str:
        del cells_count
        return f"the drive's link is {format_share(self.lost_share)} below the drive's maximum"


class PcieNarrowerFigures(LinkNarrowerInShort, frozen=True, kw_only=True):
    """Figures of ``link_narrower``: pcie narrower."""

    device: str
    narrowest_address: str | None
    speed_now_gt_s: float | None
    width_now_lanes: int | None
    speed_max_gt_s: float | None
    width_max_lanes: int | None
    bandwidth_now_bytes_per_s: float
    bandwidth_max_bytes_per_s: float
    lost_share: float
    device_label: Annotated[str, HIDDEN]
    own_link: Annotated[str, HIDDEN]
    narrowest_link: Annotated[str, HIDDEN]
    at: Annotated[str, HIDDEN]
    reason: Annotated[str, HIDDEN]

    def text(self) -> FindingText:
        return FindingText(
            sentence=(
                f"{self.device_label} supports PCIe {self.own_link}, but its path to the CPU has a "
                f"{self.narrowest_link} link{self.at}: at most "
                f"{format_rate_bytes(self.bandwidth_now_bytes_per_s)} instead of "
                f"{format_rate_bytes(self.bandwidth_max_bytes_per_s)}, "
                f"{format_share(self.lost_share)} less."
            ),
            cause=_REASONS[self.reason][0],
            next=_REASONS[self.reason][1],
        )


def _pcie(device: Device, own: PciePath) -> Finding | None:
    """Return the finding on the narrowest link between device and CPU; None if none is narrow."""
    narrowest = own.narrowest or own
    most, now = own.bandwidth_max_bytes_per_s, _path_bytes_per_s(own)
    if not most or now is None or now >= most * (1 - ROUNDING_SHARE):
        return None
    lost_share = 1 - now / most
    reason = _reason(own, narrowest)
    figures = PcieNarrowerFigures(
        device=device.name,
        narrowest_address=narrowest.address,
        speed_now_gt_s=narrowest.speed_now_gt_s,
        width_now_lanes=narrowest.width_now,
        speed_max_gt_s=own.speed_max_gt_s,
        width_max_lanes=own.width_max,
        bandwidth_now_bytes_per_s=now,
        bandwidth_max_bytes_per_s=most,
        lost_share=lost_share,
        device_label=device_name(device),
        own_link=_link(own.speed_max_gt_s, own.width_max),
        narrowest_link=_link(narrowest.speed_now_gt_s, narrowest.width_now),
        at=_at(own, narrowest),
        reason=reason,
    )
    return Finding(severity="warning", cells=[], figures=figures)


def _path_bytes_per_s(own: PciePath) -> float | None:
    """Return the present bandwidth of the narrowest link of the path."""
    if own.narrowest and own.narrowest.bandwidth_now_bytes_per_s is not None:
        return own.narrowest.bandwidth_now_bytes_per_s
    return own.bandwidth_now_bytes_per_s


def _reason(own: PciePath, narrowest: PcieLink) -> str:
    """Return the kind of reason.

    A link has two ends, so the device's own link is described twice: by the device and by the
    bridge just above it. The maximum of that bridge distinguishes a slot that is too small from a
    link trained below both ends.
    """
    first = next(iter(own.chain), PcieLink())
    at_the_device = narrowest.address in (own.address, first.address)
    if not at_the_device:
        return "further_up"
    if _slot_is_smaller(own, first):
        return "slot"
    return "link"


_REASONS = {
    "further_up": (
        "A bridge or switch further up is narrower than the device; all devices below it share "
        "that link.",
        "Compare the links with 'lspci -tv' and 'lspci -vv | grep -E \"^[0-9a-f]|LnkSta:\"'; "
        "move the device to a slot that is connected directly to the CPU.",
    ),
    "slot": (
        "The slot has fewer lanes or an older PCIe generation than the device.",
        "Move the device to a faster slot; the mainboard's manual lists the lanes of each.",
    ),
    "link": (
        "The link was trained below the maximum of device and slot: a loose or dirty contact, a "
        "riser or cable, a firmware setting, or power saving of an idle link.",
        "Compare 'LnkCap' and 'LnkSta' in 'lspci -vv' while the device is busy; reseat it, try "
        "another slot, and look for PCIe errors with 'dmesg -T | grep -i -E \"aer|pcie\"'.",
    ),
}


def _slot_is_smaller(own: PcieLink, slot: PcieLink) -> bool:
    """Return whether the slot supports no more than the link's present rate, less than the device.

    Speed and width are compared separately: eight slow lanes are not four fast ones.
    """
    speeds = (own.speed_max_gt_s, slot.speed_max_gt_s, own.speed_now_gt_s)
    widths = (own.width_max, slot.width_max, own.width_now)
    for device_max, slot_max, now in (speeds, widths):
        if device_max is None or slot_max is None or now is None or now >= device_max:
            continue
        if now < min(device_max, slot_max):
            return False
    slot_most, most = slot.bandwidth_max_bytes_per_s, own.bandwidth_max_bytes_per_s
    return slot_most is not None and most is not None and slot_most < most


def _drive_max_gb_s(fingerprint: Fingerprint, device: Device) -> float | None:
    """Return the fastest SATA link that the drive reports; None if it reports none."""
    return smart_of(fingerprint, device.name).get("link_max_gb_s")


class SataSlowerFigures(LinkNarrowerInShort, frozen=True, kw_only=True):
    """Figures of ``link_narrower``: sata slower."""

    device: str
    sata_link_gb_s: float
    sata_link_limit_gb_s: float | None
    sata_link_max_gb_s: float
    lost_share: float
    device_label: Annotated[str, HIDDEN]
    lowered: Annotated[bool, HIDDEN]
    drive_max_gb_s: Annotated[float | None, HIDDEN]

    def text(self) -> FindingText:
        ends = "its port supports" if self.drive_max_gb_s is None else "both ends support"
        return FindingText(
            sentence=(
                f"{self.device_label} runs at SATA {self.sata_link_gb_s:g} Gb/s, but {ends} "
                f"{self.sata_link_max_gb_s:g} Gb/s: {format_share(self.lost_share)} less."
            ),
            cause=(
                _sata_cause(lowered=self.lowered, drive_is_faster=self.drive_max_gb_s is not None)
            ),
            next=(
                "Read 'dmesg -T | grep -i -E \"ata[0-9]|SATA link\"'; change the cable or the bay "
                "and compare."
            ),
        )


def _sata(device: Device, drive_max_gb_s: float | None) -> Finding | None:
    """Return the finding on a SATA link that is slower than both of its ends."""
    now, port_max = device.sata_link_gb_s, device.sata_link_max_gb_s
    if now is None or not port_max:
        return None
    most = min(port_max, drive_max_gb_s or port_max)
    if now >= most:
        return None
    limit = device.sata_link_limit_gb_s
    lowered = limit is not None and limit < most
    figures = SataSlowerFigures(
        device=device.name,
        sata_link_gb_s=now,
        sata_link_limit_gb_s=limit,
        sata_link_max_gb_s=most,
        lost_share=1 - now / most,
        device_label=device_name(device),
        lowered=lowered,
        drive_max_gb_s=drive_max_gb_s,
    )
    return Finding(
        severity="warning" if lowered or not device.rotational else "note",
        cells=[],
        figures=figures,
    )


def _sata_cause(*, lowered: bool, drive_is_faster: bool) -> str:
    if lowered:
        return (
            "The kernel lowered the speed after errors on the link: a cable, a backplane or the "
            "drive's port."
        )
    if drive_is_faster:
        return "A cable or backplane limits the link."
    return "The drive is of an older generation, or a cable or backplane limits the link."


def _link(speed: float | None, width: int | None) -> str:
    speed_text = f"{speed:g} GT/s" if speed is not None else "an unknown speed"
    return f"{speed_text} x{width}" if width is not None else speed_text


def _at(own: PciePath, narrowest: PcieLink) -> str:
    if narrowest.address in (None, own.address):
        return ""
    return f" at {narrowest.address}"
