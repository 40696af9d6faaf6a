"""Health and temperature of every physical device of a stack, and what could not be read.

Only selected figures are stored: the tools' full output contains serial numbers.

Sources: smartctl(8) (``-j``, exit status) and smartmontools' JSON output 1.0; NVM Express Base
Specification 2.0, section 5.16.1.3 (SMART / Health Information log); ATA attribute numbers as
smartmontools' drive database names them.

Sources: the kernel's Documentation/hwmon/sysfs-interface.rst, nvme (since Linux 5.5) and
Documentation/hwmon/drivetemp.rst (since 5.6, where the module is loaded).
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import msgspec

from seatrial.fingerprint import Device, Health, Smart, Temperatures
from seatrial.machine.fingerprint.device import controllers, directory_of, pci_functions
from seatrial.machine.fingerprint.stack import physical
from seatrial.machine.fingerprint.tree import (
    LIVE,
    CommandMissingError,
    CommandTimeoutError,
    SystemTree,
)

TOOL_TIMEOUT_S: Final = 5.0

_DATA_UNIT_BYTES: Final = 512_000
_KELVIN_OFFSET: Final = 273
_OPEN_FAILED: Final = 0b11
_REASON_LENGTH: Final = 160

# Names of the NVMe log's fields in the output of smartctl and of nvme-cli. The throttling counts
# are in smartctl's text output but not in its JSON.
_NVME_FIELDS: Final = {
    "critical_warning_bits": ("critical_warning", "critical_warning"),
    "available_spare_percent": ("available_spare", "avail_spare"),
    "spare_threshold_percent": ("available_spare_threshold", "spare_thresh"),
    "used_percent": ("percentage_used", "percent_used"),
    "power_on_hours": ("power_on_hours", "power_on_hours"),
    "unsafe_shutdowns": ("unsafe_shutdowns", "unsafe_shutdowns"),
    "media_errors": ("media_errors", "media_errors"),
    "error_log_entries": ("num_err_log_entries", "num_err_log_entries"),
    "warning_temperature_minutes": ("warning_temp_time", "warning_temp_time"),
    "critical_temperature_minutes": ("critical_comp_time", "critical_comp_time"),
    "throttle_light_count": ("", "thm_temp1_trans_count"),
    "throttle_heavy_count": ("", "thm_temp2_trans_count"),
    "throttle_light_s": ("", "thm_temp1_total_time"),
    "throttle_heavy_s": ("", "thm_temp2_total_time"),
}

_COMMAND_TIMEOUT: Final = 188
_LOW_WORD: Final = 0xFFFF
"""Seagate packs three counters of 16 bits into attribute 188: the lowest is the total."""
_ATA_ATTRIBUTES: Final = {
    5: "reallocated_sectors",
    187: "uncorrectable_reported",
    _COMMAND_TIMEOUT: "command_timeouts",
    197: "pending_sectors",
    198: "uncorrectable_sectors",
    199: "link_crc_errors",
}


Answer = dict[str, Any]
"""JSON output of a tool."""


class NotReadableError(Exception):
    """A drive's health cannot be read; the message says why, as a phrase."""


def by_smartctl(tree: SystemTree, name: str) -> Smart:
    """Return a drive's health by smartctl; keys without a value are absent.

    Raises:
        NotReadableError: when smartctl is not installed, not permitted, too slow or fails.
    """
    answer = _run_json(tree, ["smartctl", "-j", "-a", f"/dev/{name}"])
    tool = answer.get("smartctl", {})
    if tool.get("exit_status", 0) & _OPEN_FAILED:
        messages = [str(message.get("string", "")) for message in tool.get("messages", [])]
        raise NotReadableError(_reason("smartctl", " ".join(messages)))
    log = answer.get("nvme_smart_health_information_log", {})
    figures: dict[str, bool | float | None] = {
        "passed": answer.get("smart_status", {}).get("passed"),
        "temperature_c": answer.get("temperature", {}).get("current"),
        "power_on_hours": answer.get("power_on_time", {}).get("hours"),
        "used_percent": answer.get("endurance_used", {}).get("current_percent"),
        "grown_defects": answer.get("scsi_grown_defect_list"),
        "link_now_gb_s": _link_gb_s(answer, "current"),
        "link_max_gb_s": _link_gb_s(answer, "max"),
        **_ata_figures(answer),
        **_nvme_figures(log, column=0),
    }
    return _known(figures)


def by_nvme_cli(tree: SystemTree, controller: str) -> Smart:
    """Return an NVMe drive's health by nvme-cli; keys without a value are absent.

    Raises:
        NotReadableError: when nvme-cli is not installed, not permitted, too slow or fails.
    """
    log = _run_json(tree, ["nvme", "smart-log", "-o", "json", f"/dev/{controller}"])
    kelvin = _number(log.get("temperature"))
    celsius = None if kelvin is None else kelvin - _KELVIN_OFFSET
    return _known({"temperature_c": celsius, **_nvme_figures(log, column=1)})


def _run_json(tree: SystemTree, command: list[str]) -> Answer:
    """Run a tool with JSON output."""
    tool = command[0]
    try:
        answer = tree.run(command, TOOL_TIMEOUT_S)
    except CommandMissingError as error:
        raise NotReadableError(f"{tool} is not installed") from error
    except CommandTimeoutError as error:
        reason = f"{tool} did not answer within {TOOL_TIMEOUT_S:g} s"
        raise NotReadableError(reason) from error
    try:
        parsed = json.loads(answer.output)
    except ValueError as error:
        raise NotReadableError(_reason(tool, answer.error_output)) from error
    if not isinstance(parsed, dict):
        raise NotReadableError(f"{tool} returned an unknown format")
    return parsed


def _reason(tool: str, error_output: str) -> str:
    """Return why a tool failed, as a phrase."""
    if "ermission denied" in error_output or "not permitted" in error_output:
        return f"{tool} requires root"
    line = " ".join(error_output.split())[:_REASON_LENGTH]
    return f"{tool} failed: {line}" if line else f"{tool} failed without an error message"


def _nvme_figures(log: Answer, column: int) -> Smart:
    """Return the figures of an NVMe health log, with amounts of data in bytes."""
    figures = {key: _number(log.get(names[column])) for key, names in _NVME_FIELDS.items()}
    for direction in ("read", "written"):
        units = _number(log.get(f"data_units_{direction}"))
        figures[f"data_{direction}_bytes"] = None if units is None else units * _DATA_UNIT_BYTES
    return _known(figures)


def _number(value: object) -> int | None:
    """Return a field as a number; nvme-cli writes long ones as text, since 2.11 bits as a group."""
    if isinstance(value, dict):
        value = value.get("value")
    if isinstance(value, str) and value.replace(",", "").isdigit():
        value = int(value.replace(",", ""))
    return value if isinstance(value, int) else None


def _ata_figures(answer: Answer) -> dict[str, bool | float | None]:
    """Return a SATA drive's error counting attributes, raw."""
    table = answer.get("ata_smart_attributes", {}).get("table", [])
    raw = {row.get("id"): row.get("raw", {}).get("value") for row in table}
    if raw.get(_COMMAND_TIMEOUT) is not None:
        raw[_COMMAND_TIMEOUT] &= _LOW_WORD
    return {name: raw[number] for number, name in _ATA_ATTRIBUTES.items() if number in raw}


def _link_gb_s(answer: Answer, which: str) -> float | None:
    """Return a SATA drive's current or maximum link speed in Gb/s."""
    speed = answer.get("interface_speed", {}).get(which, {})
    units, bits = speed.get("units_per_second"), speed.get("bits_per_unit")
    return units * bits / 1e9 if units and bits else None


def _known(figures: Mapping[str, bool | float | None]) -> Smart:
    return {key: value for key, value in figures.items() if value is not None}


_MILLI: Final = 1000.0
_ABSURD_C: Final = 1000.0
_SENSOR: Final = re.compile(r"(temp\d+)_input")


def temperature(tree: SystemTree, directory: str) -> Temperatures | None:
    """Return the readings of a disk's sensors; None where it has none."""
    folder = sensor_folder(tree, directory)
    if folder is None:
        return None
    labels = {
        sensor: tree.word(f"{folder}/{sensor}_label") or sensor for sensor in _sensors(tree, folder)
    }
    readings = {label: _celsius(tree, folder, f"{key}_input") for key, label in labels.items()}
    return Temperatures(
        temperature_c=_celsius(tree, folder, "temp1_input"),
        temperature_warning_c=_celsius(tree, folder, "temp1_max"),
        temperature_critical_c=_celsius(tree, folder, "temp1_crit"),
        sensors=readings,
    )


def sensor_folder(tree: SystemTree, directory: str) -> str | None:
    """Return the hwmon folder of a disk; None where it has none."""
    owners = [f"{directory}/device", *controllers(tree, directory)]
    # Before Linux 5.14 the NVMe driver registered its sensors under the PCI device.
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
    """Return a temperature, which the kernel reports in thousandths of a degree.

    A drive without a limit reports the largest number instead.
    """
    milli = tree.integer(f"{folder}/{file}")
    return milli / _MILLI if milli is not None and abs(milli) / _MILLI < _ABSURD_C else None


_REQUESTED_AT_ONCE_MAX: Final = 16
_WITHOUT_SMART: Final = {
    "virtio": "a virtio disk does not expose the drive behind it",
    "xen": "a Xen disk does not expose the drive behind it",
    "loop": "a loop device is not a drive, and the device of its file is not visible",
    "zram": "zram is memory",
    "ram": "a RAM disk is memory",
    "null_blk": "null_blk is not a drive",
    "pmem": "smartctl does not support persistent memory",
    "zvol": "ZFS does not report the drives of a volume",
    "nbd": "the drive is on another machine",
    "rbd": "the drives are on other machines",
    "mmc": "an MMC card provides no SMART data",
}


def health(stack: list[Device], *, tree: SystemTree = LIVE) -> dict[str, Health]:
    """Return health and temperature of the physical devices of a stack, by device name.

    Drives are queried in parallel, each tool for at most 5 s.
    """
    devices = physical(stack)
    if not devices:
        return {}
    with ThreadPoolExecutor(min(len(devices), _REQUESTED_AT_ONCE_MAX)) as pool:
        answers = pool.map(lambda device: _device_health(tree, device), devices)
        return {device.name: answer for device, answer in zip(devices, answers, strict=True)}


def _device_health(tree: SystemTree, device: Device) -> Health:
    directory = directory_of(tree, device.major_minor or "") or ""
    control = controllers(tree, directory)
    smart, tools, reasons = _smart(tree, device.name, device.kind or "", control)
    readings = temperature(tree, directory) or Temperatures(
        temperature_c=smart.get("temperature_c")
    )
    if readings.temperature_c is None:
        reasons.append("temperature: the kernel provides no sensor for this device")
    return Health(
        **msgspec.structs.asdict(readings),
        smart=smart or None,
        tools=tools,
        state=tree.word(f"{control[0]}/state") if control else None,
        not_readable=reasons,
    )


def _smart(
    tree: SystemTree, name: str, kind: str, control: list[str]
) -> tuple[Smart, list[str], list[str]]:
    """Return a device's SMART figures, the tools used, and why others failed.

    An NVMe drive is queried by both tools: smartctl reports whether it passed, only nvme-cli how
    often it throttled.
    """
    if kind in _WITHOUT_SMART:
        return {}, [], [f"SMART: {_WITHOUT_SMART[kind]}"]
    readers: dict[str, Callable[[], Smart]] = {"smartctl": lambda: by_smartctl(tree, name)}
    if control:
        readers["nvme"] = lambda: by_nvme_cli(tree, posixpath.basename(control[0]))
    figures: dict[str, bool | float] = {}
    tools: list[str] = []
    reasons: list[str] = []
    for tool, read in readers.items():
        try:
            figures |= read()
            tools.append(tool)
        except NotReadableError as error:
            reasons.append(f"SMART: {error}")
    return figures, tools, reasons
