"""Temperatures of drives, as their drivers show them to everybody.

Sources: the kernel's Documentation/hwmon/sysfs-interface.rst, nvme (since Linux 5.5) and
Documentation/hwmon/drivetemp.rst (since 5.6, where the module is loaded).
"""

from __future__ import annotations

import re
from typing import Any, Final

from seatrial.machine.fingerprint.device import controllers
from seatrial.machine.fingerprint.pcie import pci_functions
from seatrial.machine.fingerprint.tree import SystemTree

_MILLI: Final = 1000.0
_ABSURD_C: Final = 1000.0
_SENSOR: Final = re.compile(r"(temp\d+)_input")


def temperature(tree: SystemTree, directory: str) -> dict[str, Any] | None:
    """Return what the sensors of a disk say, in degrees Celsius; None where it has none.

    Keys: ``temperature_c`` (the drive's own composite), ``temperature_warning_c``,
    ``temperature_critical_c`` (where it slows down and where it stops; None if it does not say),
    ``sensors`` by label.
    """
    folder = sensor_folder(tree, directory)
    if folder is None:
        return None
    labels = {
        sensor: tree.word(f"{folder}/{sensor}_label") or sensor for sensor in _sensors(tree, folder)
    }
    readings = {label: _celsius(tree, folder, f"{key}_input") for key, label in labels.items()}
    return {
        "temperature_c": _celsius(tree, folder, "temp1_input"),
        "temperature_warning_c": _celsius(tree, folder, "temp1_max"),
        "temperature_critical_c": _celsius(tree, folder, "temp1_crit"),
        "sensors": readings,
    }


def sensor_folder(tree: SystemTree, directory: str) -> str | None:
    """Return the folder of hwmon files that belongs to a disk; None where it has none."""
    owners = [f"{directory}/device", *controllers(tree, directory)]
    # Before Linux 5.14 the NVMe driver hung its sensors under the PCI device.
    owners += [pci_functions(owner)[0] for owner in owners[1:] if pci_functions(owner)]
    for owner in owners:
        for parent in (owner, f"{owner}/hwmon"):
            for name in tree.names(parent):
                folder = f"{parent}/{name}"
                if name.startswith("hwmon") and tree.exists(f"{folder}/temp1_input"):
                    return folder
    return None


def _sensors(tree: SystemTree, folder: str) -> list[str]:
    """Return the sensors of a folder: ``temp1``, ``temp2`` ..."""
    matches = [_SENSOR.fullmatch(name) for name in tree.names(folder)]
    return [match[1] for match in matches if match]


def _celsius(tree: SystemTree, folder: str, file: str) -> float | None:
    """Return a temperature that the kernel keeps in thousandths of a degree.

    A drive without a limit reports the largest number it has; that is no temperature.
    """
    milli = tree.integer(f"{folder}/{file}")
    return milli / _MILLI if milli is not None and abs(milli) / _MILLI < _ABSURD_C else None
