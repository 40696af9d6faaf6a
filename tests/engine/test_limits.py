"""When a cell ends, and how long it then was."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from seatrial.units import MIB

from .cells import access, cell, measure, require_uring


@pytest.mark.parametrize(
    ("engine", "threads", "depth"),
    [
        ("psync", 1, 1),
        ("psync", 10, 1),
        ("io_uring", 1, 32),
        ("io_uring", 4, 128),
    ],
)
def test_a_number_of_operations_is_kept_exactly(trial_file, engine, threads, depth):
    if engine == "io_uring":
        require_uring()
    shape = {"engine": engine, "threads": threads, "depth": depth}
    limit = {"duration_s": 20, "operations": 3_001}
    parts = measure(cell(trial_file, [access("read")], limit=limit, **shape))
    assert parts["outcome"]["offered"] == parts["outcome"]["completed"] == 3_001
    assert parts["status"] == "complete"
    assert parts["duration_s"] < 10
    span_s = parts["timeline"]["slices"][-1][0] * parts["timeline"]["slice_ns"] / 1e9
    assert span_s <= parts["duration_s"] <= span_s + 0.1


def test_a_number_of_bytes_is_kept_exactly(trial_file):
    limit = {"duration_s": 20, "bytes": 8 * MIB}
    spec = cell(trial_file, [access("write", 65536)], limit=limit, threads=3)
    parts = measure(spec | {"sync_every": 10})
    assert parts["operations"]["write"]["transferred_bytes"] == 8 * MIB
    assert parts["operations"]["sync"]["completed"] >= 8


def test_a_limit_that_is_not_reached_does_not_shorten_the_sample(trial_file):
    """Between the last of 10 requests a second and the end, time passed all the same."""
    spec = cell(trial_file, [access("read")], arrival={"kind": "fixed", "rate_per_s": 10})
    parts = measure(spec | {"limit": {"duration_s": 0.36, "operations": 1_000}})
    assert parts["outcome"]["completed"] == 4
    assert parts["duration_s"] == pytest.approx(0.36, abs=0.02)
    assert parts["duration_s"] >= 0.36


def test_a_schedule_offers_every_request_until_the_end(trial_file):
    """Far more than can be done: what is late at the end is skipped and counted."""
    spec = cell(trial_file, [access("read", 8 * MIB)], limit={"duration_s": 0.3})
    parts = measure(spec | {"arrival": {"kind": "fixed", "rate_per_s": 50_000}})
    outcome = parts["outcome"]
    assert outcome["offered"] == pytest.approx(15_000, abs=1)
    assert outcome["late_skipped"] == outcome["offered"] - outcome["completed"] > 10_000


def test_a_rate_far_above_all_does_not_lengthen_the_sample():
    spec = cell(Path("/dev/null"), [access("read")], limit={"duration_s": 0.3})
    spec["target"] |= {"kind": "null", "size_bytes": MIB}
    spec["range"]["length_bytes"] = MIB
    began_s = time.monotonic()
    parts = measure(spec | {"arrival": {"kind": "fixed", "rate_per_s": 1e9}})
    assert parts["outcome"]["offered"] == pytest.approx(3e8, abs=1)
    assert parts["duration_s"] == pytest.approx(0.3, abs=0.1)
    assert time.monotonic() - began_s < 2


def test_what_is_in_flight_at_the_end_counts_with_its_time(trial_file):
    require_uring()
    spec = cell(trial_file, [access("read", 4 * MIB)], depth=64, limit={"duration_s": 0.05})
    parts = measure(spec | {"engine": "io_uring"})
    assert parts["outcome"]["in_flight_at_end"] == 0
    assert parts["outcome"]["completed"] >= 64
    last = parts["timeline"]["slices"][-1]
    assert parts["duration_s"] * 1e9 >= last[0] * parts["timeline"]["slice_ns"]
