"""The PCIe link of a device, now and at most, and each link between it and the processor.

Sources: the kernel's Documentation/ABI/testing/sysfs-bus-pci (``current_link_speed`` and its
siblings); PCI Express Base Specification 6.0, section 4.2 (encodings) and 1.2 (lane rates).
"""

from __future__ import annotations

import posixpath
import re
from typing import Any, Final

from seatrial.machine.fingerprint.tree import SystemTree

_ADDRESS: Final = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_LANES_MAX: Final = 32
_BITS_PER_BYTE: Final = 8

# Share of the raw bits that carries data, up to which lane rate in GT/s: 8b/10b, then 128b/130b,
# then flits of 256 bytes of which 236 are the packets'.
_ENCODINGS: Final = ((5.0, 8 / 10), (32.0, 128 / 130), (float("inf"), 236 / 256))


def pcie(tree: SystemTree, directory: str) -> dict[str, Any] | None:
    """Return the PCIe link of the device whose sysfs directory (links followed) is given.

    Keys: those of a link (``address``; ``ids``, vendor and device as lspci -n has them, such as
    ``8086:a340``; ``speed_now_gt_s``, ``speed_max_gt_s`` per lane;
    ``width_now``, ``width_max`` in lanes; ``bandwidth_now_bytes_per_s``,
    ``bandwidth_max_bytes_per_s`` after encoding, before packet headers), ``chain`` with the same
    of each bridge upstream, nearest first, and ``narrowest``: of all of these the one with the
    least bandwidth now, and among equals the nearest to the device. ``narrowest`` is None where no
    link tells its speed, as in many virtual machines. ``bridge`` is the one just above the device,
    ``root_port`` the last one, which is a port of the processor or of the chipset as its ``ids``
    tell; both have ``address`` and ``ids``, and are None where nothing is between. None where there
    is no PCI device.
    """
    functions = pci_functions(directory)
    if not functions:
        return None
    links = [_link(tree, function) for function in functions]
    known = [link for link in links if link["bandwidth_now_bytes_per_s"] is not None]
    narrowest = min(known, key=lambda link: link["bandwidth_now_bytes_per_s"], default=None)
    above = [{name: link[name] for name in ("address", "ids")} for link in links[1:]]
    return {
        **links[0],
        "chain": links[1:],
        "narrowest": narrowest,
        "bridge": above[0] if above else None,
        "root_port": above[-1] if above else None,
    }


def pci_functions(directory: str) -> list[str]:
    """Return the PCI devices on the way up from a sysfs directory, nearest first."""
    found: list[str] = []
    while directory not in {"/", ""}:
        if _ADDRESS.fullmatch(posixpath.basename(directory)):
            found.append(directory)
        directory = posixpath.dirname(directory)
    return found


def _link(tree: SystemTree, function: str) -> dict[str, Any]:
    """Return one device's end of its link."""
    speed_now = _speed_gt_s(tree, f"{function}/current_link_speed")
    speed_max = _speed_gt_s(tree, f"{function}/max_link_speed")
    width_now = _width(tree, f"{function}/current_link_width")
    width_max = _width(tree, f"{function}/max_link_width")
    return {
        "address": posixpath.basename(function),
        "ids": _ids(tree, function),
        "speed_now_gt_s": speed_now,
        "width_now": width_now,
        "speed_max_gt_s": speed_max,
        "width_max": width_max,
        "bandwidth_now_bytes_per_s": bandwidth_bytes_per_s(speed_now, width_now),
        "bandwidth_max_bytes_per_s": bandwidth_bytes_per_s(speed_max, width_max),
    }


def _ids(tree: SystemTree, function: str) -> str | None:
    """Return vendor and device of a PCI function; the kernel writes each as ``0x8086``."""
    numbers = [tree.word(f"{function}/{name}") for name in ("vendor", "device")]
    known = [number.removeprefix("0x") for number in numbers if number]
    return ":".join(known) if len(known) == len(numbers) else None


def bandwidth_bytes_per_s(speed_gt_s: float | None, width: int | None) -> int | None:
    """Return what a link of so many lanes carries after encoding; None when either is unknown."""
    if speed_gt_s is None or width is None:
        return None
    share = next(share for rate_max, share in _ENCODINGS if speed_gt_s <= rate_max)
    return round(speed_gt_s * 1e9 * share * width / _BITS_PER_BYTE)


def _speed_gt_s(tree: SystemTree, path: str) -> float | None:
    """Return a lane rate; the kernel writes ``8.0 GT/s PCIe`` or ``Unknown``."""
    match = re.match(r"([0-9.]+) GT/s", tree.text(path) or "")
    return float(match[1]) if match else None


def _width(tree: SystemTree, path: str) -> int | None:
    """Return lanes; the kernel writes 0 for a link that is down and 255 for one unknown."""
    lanes = tree.integer(path)
    return lanes if lanes is not None and 0 < lanes <= _LANES_MAX else None
