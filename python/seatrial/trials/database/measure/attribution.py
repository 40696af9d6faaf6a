"""What a stall of a database may be put down to, by what was read around it.

pgbench's log tells when nothing ended, not why. The readings are of whole seconds, so a cause is
named only where they leave no room for another; else it stays ``unknown``, with what was seen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from seatrial.results.model import Series

STOLEN_SHARE_MIN: Final = 0.5
"""Of a stall, what the hypervisor must have taken of every processor to be its cause."""
BUSY_SHARE_MIN: Final = 0.9
"""Of a second that a stall covers whole, for which the device must have had requests."""
FLUSH_SHARE_MIN: Final = 0.5
"""Of a stall, what a flush of that second took on the average: one of them lasted as long."""

_EVIDENCE: Final = {
    "device_busy_share": "device_busy_share_max",
    "device_flush_latency_ms": "device_flush_latency_ms_max",
    "device_write_latency_ms": "device_write_latency_ms_max",
    "device_read_latency_ms": "device_read_latency_ms_max",
    "cpu_steal_share": "cpu_steal_share_max",
    "checkpoint_running_share": "checkpoint_running_share_max",
    "waits_lock_share": "waits_lock_share_max",
    "waits_io_share": "waits_io_share_max",
    "waits_lwlock_share": "waits_lwlock_share_max",
}
"""Columns of the series, and what their largest value in a stall is called as evidence."""


def attributed(stall: Mapping[str, Any], series: Series) -> dict[str, Any]:
    """Return a stall with its cause, as far as the series tells it, and the evidence.

    Args:
        stall: As the reader of the log gives it.
        series: What was read meanwhile; it begins with the sample.
    """
    first = int(stall["start_s"] / series.period_s)
    end = math.ceil((stall["start_s"] + stall["length_s"]) / series.period_s)
    evidence = {
        reported: value
        for column, reported in _EVIDENCE.items()
        if (value := _largest(series, column, first, end)) is not None
    }
    return {**stall, "cause": _cause(stall, series, evidence), "evidence": evidence}


def _cause(stall: Mapping[str, Any], series: Series, evidence: Mapping[str, float]) -> str:
    length_s = float(stall["length_s"])
    stolen_s = evidence.get("cpu_steal_share_max", 0.0) * series.period_s
    if stolen_s >= STOLEN_SHARE_MIN * length_s and length_s <= series.period_s:
        return "generator"
    latencies_ms = [
        evidence.get(f"device_{kind}_latency_ms_max", 0.0) for kind in ("flush", "write", "read")
    ]
    if max(latencies_ms) >= FLUSH_SHARE_MIN * length_s * 1e3:
        return "device"
    if _covers_busy_seconds(stall, series):
        return "device"
    return "unknown"


def _covers_busy_seconds(stall: Mapping[str, Any], series: Series) -> bool:
    """Tell whether the device was busy in all of the seconds that the stall covers whole."""
    first = math.ceil(stall["start_s"] / series.period_s)
    end = int((stall["start_s"] + stall["length_s"]) / series.period_s)
    busy = (series.columns.get("device_busy_share") or [])[first:end]
    return bool(busy) and all(share is not None and share >= BUSY_SHARE_MIN for share in busy)


def _largest(series: Series, column: str, first: int, end: int) -> float | None:
    values = [value for value in (series.columns.get(column) or [])[first:end] if value is not None]
    return max(values, default=None)
