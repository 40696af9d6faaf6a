"""What is shown while a cell lasts agrees with what its sample says in the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .cells import S, access, cell, measure_apart, preload


def last_second(parts: Mapping[str, Any], elapsed_s: float) -> tuple[float, float]:
    """Requests and bytes per second in the whole slices of the second before, afterwards."""
    slice_ns = parts["timeline"]["slice_ns"]
    end = int(elapsed_s * S) // slice_ns
    begin = max(end - S // slice_ns, 0)
    within = [row for row in parts["timeline"]["slices"] if begin <= row[0] < end]
    length_s = (end - begin) * slice_ns / S
    return sum(row[2] for row in within) / length_s, sum(row[3] for row in within) / length_s


def test_live_readings_are_those_of_the_timeline(memory_file, shim):
    """Only a slice that was just over may not have been handed in yet when it was read."""
    env = preload(shim, take_us=300)
    result = measure_apart(cell(memory_file, [access("read")], limit={"duration_s": 1.5}), env)
    readings = [reading for reading in result["live"] if reading["elapsed_s"] >= 0.1]
    assert len(readings) > 10
    equal = 0
    for reading in readings:
        rate_per_s, bytes_per_s = last_second(result["parts"], reading["elapsed_s"])
        assert reading["iops"] <= rate_per_s * 1.000001
        assert abs(reading["bytes_per_s"] - reading["iops"] * 4096) < 1
        equal += abs(reading["bytes_per_s"] - bytes_per_s) < 1
    assert equal >= 0.8 * len(readings), f"{equal} of {len(readings)} readings are whole"
    # All zero before the start and after the end: a reading may fall into either.
    elapsed_s = [reading["elapsed_s"] for reading in result["live"] if reading["elapsed_s"] > 0]
    assert elapsed_s == sorted(elapsed_s)


def test_a_stall_is_live_and_the_rate_falls(memory_file, shim):
    env = preload(shim, take_us=500, freeze_call=400, freeze_ms=1_300)
    result = measure_apart(cell(memory_file, [access("read")], limit={"duration_s": 1.8}), env)
    live = result["live"]
    stuck = [reading for reading in live if reading["oldest_in_flight_ns"] > 200_000_000]
    assert max(reading["oldest_in_flight_ns"] for reading in stuck) > 1_100_000_000
    assert all(reading["stalls"] >= 1 for reading in stuck)
    assert min(reading["iops"] for reading in stuck) < 200
    assert max(stall["length_s"] for stall in result["parts"]["stalls"]) > 1.2
