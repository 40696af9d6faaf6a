"""What a drive says of its own health, read by smartctl or nvme-cli.

Only chosen figures are kept: the tools' full answers hold serial numbers.

Sources: smartctl(8) (``-j``, exit status) and smartmontools' JSON output 1.0; NVM Express Base
Specification 2.0, section 5.16.1.3 (SMART / Health Information log); ATA attribute numbers as
smartmontools' drive database names them.
"""

from __future__ import annotations

import json
from typing import Any, Final

from seatrial.machine.fingerprint.tree import CommandMissingError, CommandTimeoutError, SystemTree

TOOL_TIMEOUT_S: Final = 5.0

_DATA_UNIT_BYTES: Final = 512_000
_KELVIN_OFFSET: Final = 273
_OPEN_FAILED: Final = 0b11
_REASON_LENGTH: Final = 160

# Names of the NVMe log's fields in smartctl's answer and in nvme-cli's. The counts of throttling
# are in smartctl's text but not in its JSON.
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

_ATA_ATTRIBUTES: Final = {
    5: "reallocated_sectors",
    187: "uncorrectable_reported",
    188: "command_timeouts",
    197: "pending_sectors",
    198: "uncorrectable_sectors",
    199: "link_crc_errors",
}


class NotReadableError(Exception):
    """A drive's health cannot be read; the message says why, as a phrase."""


def by_smartctl(tree: SystemTree, name: str) -> dict[str, Any]:
    """Return a drive's health as smartctl reads it; keys without a value are absent.

    Raises:
        NotReadableError: when smartctl is not installed, not permitted, too slow or at a loss.
    """
    answer = _json(tree, ["smartctl", "-j", "-a", f"/dev/{name}"])
    tool = answer.get("smartctl", {})
    if tool.get("exit_status", 0) & _OPEN_FAILED:
        messages = [str(message.get("string", "")) for message in tool.get("messages", [])]
        raise NotReadableError(_reason("smartctl", " ".join(messages)))
    log = answer.get("nvme_smart_health_information_log", {})
    figures: dict[str, Any] = {
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


def by_nvme_cli(tree: SystemTree, controller: str) -> dict[str, Any]:
    """Return an NVMe drive's health as nvme-cli reads it; keys without a value are absent.

    Raises:
        NotReadableError: when nvme-cli is not installed, not permitted, too slow or at a loss.
    """
    log = _json(tree, ["nvme", "smart-log", "-o", "json", f"/dev/{controller}"])
    kelvin = _number(log.get("temperature"))
    celsius = None if kelvin is None else kelvin - _KELVIN_OFFSET
    return _known({"temperature_c": celsius, **_nvme_figures(log, column=1)})


def _json(tree: SystemTree, command: list[str]) -> dict[str, Any]:
    """Run a tool that answers in JSON."""
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
        raise NotReadableError(_reason(tool, answer.complaint)) from error
    if not isinstance(parsed, dict):
        raise NotReadableError(f"{tool} answered in a form that is not known here")
    return parsed


def _reason(tool: str, complaint: str) -> str:
    """Say in a phrase why a tool failed."""
    if "ermission denied" in complaint or "not permitted" in complaint:
        return f"{tool} needs root"
    line = " ".join(complaint.split())[:_REASON_LENGTH]
    return f"{tool} failed: {line}" if line else f"{tool} failed without saying why"


def _nvme_figures(log: dict[str, Any], column: int) -> dict[str, Any]:
    """Return the figures of an NVMe health log, with amounts of data in bytes."""
    figures = {key: _number(log.get(names[column])) for key, names in _NVME_FIELDS.items()}
    for way in ("read", "written"):
        units = _number(log.get(f"data_units_{way}"))
        figures[f"data_{way}_bytes"] = None if units is None else units * _DATA_UNIT_BYTES
    return _known(figures)


def _number(value: object) -> int | None:
    """Return a field as a number; nvme-cli writes long ones as text, since 2.11 bits as a group."""
    if isinstance(value, dict):
        value = value.get("value")
    if isinstance(value, str) and value.replace(",", "").isdigit():
        value = int(value.replace(",", ""))
    return value if isinstance(value, int) else None


def _ata_figures(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes that count a SATA drive's errors, raw."""
    table = answer.get("ata_smart_attributes", {}).get("table", [])
    return {
        _ATA_ATTRIBUTES[row["id"]]: row.get("raw", {}).get("value")
        for row in table
        if row.get("id") in _ATA_ATTRIBUTES
    }


def _link_gb_s(answer: dict[str, Any], which: str) -> float | None:
    """Return a SATA drive's link speed, now or at most, in Gb/s."""
    speed = answer.get("interface_speed", {}).get(which, {})
    units, bits = speed.get("units_per_second"), speed.get("bits_per_unit")
    return units * bits / 1e9 if units and bits else None


def _known(figures: dict[str, Any]) -> dict[str, Any]:
    """Return the figures that have a value."""
    return {key: value for key, value in figures.items() if value is not None}
