"""Health and temperature of every physical device of a stack, and what could not be read."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from seatrial.machine.fingerprint.device import controllers, directory_of
from seatrial.machine.fingerprint.smart import NotReadableError, by_nvme_cli, by_smartctl
from seatrial.machine.fingerprint.stack import physical
from seatrial.machine.fingerprint.temperature import temperature
from seatrial.machine.fingerprint.tree import LIVE, SystemTree

_ASKED_AT_ONCE_MAX: Final = 16
_WITHOUT_SMART: Final = {
    "virtio": "a virtio disk passes on nothing of the drive behind it",
    "xen": "a Xen disk passes on nothing of the drive behind it",
    "loop": "a loop device is no drive, and what its file lies on is not visible",
    "zram": "zram is memory",
    "ram": "a RAM disk is memory",
    "null_blk": "null_blk is no drive",
    "pmem": "smartctl does not know persistent memory",
    "zvol": "ZFS does not show which drives a volume lies on",
    "nbd": "the drive is on another machine",
    "rbd": "the drives are on other machines",
    "mmc": "an MMC card keeps no SMART data",
}


def health(stack: list[dict[str, Any]], *, tree: SystemTree = LIVE) -> dict[str, Any]:
    """Return health and temperature of the physical devices of a stack, by device name.

    Of each: ``temperature_c``, ``temperature_warning_c``, ``temperature_critical_c``, ``sensors``
    (degrees Celsius by label); ``smart``, a mapping of figures named with their unit, or None;
    ``tools``, those that read them; ``state`` of an NVMe controller (``live``, ``resetting``);
    ``not_readable``, a list of phrases: what, and why not ("SMART: smartctl needs root").

    Drives are asked at the same time, each tool for at most 5 s.
    """
    devices = physical(stack)
    if not devices:
        return {}
    with ThreadPoolExecutor(min(len(devices), _ASKED_AT_ONCE_MAX)) as pool:
        answers = pool.map(lambda node: _device_health(tree, node), devices)
        return {node["name"]: answer for node, answer in zip(devices, answers, strict=True)}


def _device_health(tree: SystemTree, node: dict[str, Any]) -> dict[str, Any]:
    """Return health and temperature of one device."""
    directory = directory_of(tree, node["major_minor"]) or ""
    control = controllers(tree, directory)
    smart, tools, reasons = _smart(tree, node["name"], node["kind"], control)
    readings = temperature(tree, directory) or {
        "temperature_c": smart.get("temperature_c"),
        "temperature_warning_c": None,
        "temperature_critical_c": None,
        "sensors": {},
    }
    if readings["temperature_c"] is None:
        reasons.append("temperature: the kernel shows no sensor of this device")
    return {
        **readings,
        "smart": smart or None,
        "tools": tools,
        "state": tree.word(f"{control[0]}/state") if control else None,
        "not_readable": reasons,
    }


def _smart(
    tree: SystemTree, name: str, kind: str, control: list[str]
) -> tuple[dict[str, Any], list[str], list[str]]:
    """Return a device's SMART figures, the tools that read them, and why others could not.

    An NVMe drive is asked by both tools: smartctl says whether it passed, only nvme-cli how often
    it throttled.
    """
    if kind in _WITHOUT_SMART:
        return {}, [], [f"SMART: {_WITHOUT_SMART[kind]}"]
    ways: dict[str, Callable[[], dict[str, Any]]] = {"smartctl": lambda: by_smartctl(tree, name)}
    if control:
        ways["nvme"] = lambda: by_nvme_cli(tree, posixpath.basename(control[0]))
    figures: dict[str, Any] = {}
    tools: list[str] = []
    reasons: list[str] = []
    for tool, read in ways.items():
        try:
            figures |= read()
            tools.append(tool)
        except NotReadableError as error:
            reasons.append(f"SMART: {error}")
    return figures, tools, reasons
