"""The histograms against a log of every single call, kept by somebody else."""

from __future__ import annotations

import pytest

from .cells import access, cell, exact_percentile, histogram, logged_ns, measure_apart, preload

# A bucket is at most 1/128 wide and a percentile its middle; the engine's own clock reading and
# the way to the call lie outside of what the log sees.
BUCKET = 1 / 128
CLOCK_NS = 1_500
# On a crowded machine so many requests in a hundred lose the processor between the two.
PREEMPTED = 0.5

# Operation, block in bytes, threads, least length of a call in us.
CASES = [("read", 4096, 1, 0), ("read", 65536, 1, 0), ("write", 8192, 1, 50), ("read", 4096, 4, 0)]


@pytest.mark.parametrize("case", CASES)
def test_percentiles_are_those_of_the_log(memory_file, shim, tmp_path, case):
    operation, block_bytes, threads, take_us = case
    log = tmp_path / "log"
    env = preload(shim, block_bytes, log=log, take_us=take_us, slow_every=20, slow_us=400)
    spec = cell(memory_file, [access(operation, block_bytes)], threads=threads)
    parts = measure_apart(spec | {"limit": {"duration_s": 1, "operations": 100_000}}, env)["parts"]
    calls_ns = [end_ns - begin_ns for begin_ns, end_ns in logged_ns(log)]
    measured = histogram(parts, operation)
    assert measured.count == len(calls_ns) == parts["outcome"]["completed"]
    assert parts["outcome"]["in_flight_at_end"] == 0
    for percent in (1, 10, 50, 75, 90, 97, 99):
        low_ns = exact_percentile(calls_ns, percent - PREEMPTED)
        high_ns = exact_percentile(calls_ns, percent + PREEMPTED)
        assert low_ns * (1 - BUCKET) <= measured.percentile_ns(percent), percent
        assert measured.percentile_ns(percent) <= high_ns * (1 + BUCKET) + CLOCK_NS, percent
    assert measured.min_ns >= min(calls_ns)
    assert measured.max_ns >= max(calls_ns)
    assert measured.mean_ns >= sum(calls_ns) / len(calls_ns)


def test_nothing_is_measured_that_was_not_called(memory_file, shim, tmp_path):
    """All calls lie within the sample, and it is as long as they are."""
    log = tmp_path / "log"
    env = preload(shim, log=log, take_us=200)
    parts = measure_apart(cell(memory_file, [access("read")], limit={"duration_s": 0.4}), env)
    parts = parts["parts"]
    calls = logged_ns(log)
    span_s = (calls[-1][1] - calls[0][0]) / 1e9
    assert span_s <= parts["duration_s"] * 1.00001
    assert parts["duration_s"] == pytest.approx(max(span_s, 0.4), abs=0.02)
    busy_s = sum(end_ns - begin_ns for begin_ns, end_ns in calls) / 1e9
    littles_depth = parts["outcome"]["completed"] * histogram(parts, "read").mean_ns / 1e9
    assert busy_s <= littles_depth <= parts["duration_s"]
