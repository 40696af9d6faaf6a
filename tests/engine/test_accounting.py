"""On real runs of every sort, all parts of a sample agree."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

import pytest

from seatrial import _core

from .cells import access, cell, histogram, measure, require_uring

MIXED = [access("read", 8192, 70), access("write", 8192, 30)]
WORKLOADS: dict[str, dict[str, Any]] = {
    "read": {"accesses": [access("read")]},
    "write": {"accesses": [access("write")]},
    "mixed": {"accesses": MIXED},
    "sync_every": {"accesses": [access("write")], "sync_every": 7},
    "bursts": {
        "accesses": MIXED,
        "arrival": {"kind": "bursts", "rate_per_s": 20_000, "burst": 300},
    },
    "poisson": {"accesses": MIXED, "arrival": {"kind": "poisson", "rate_per_s": 5_000}},
    "batches": {
        "accesses": MIXED,
        "arrival": {"kind": "batches", "rate_per_s": 5_000, "burst": 40},
    },
    "poisson_bursts": {
        "accesses": MIXED,
        "arrival": {
            "kind": "poisson_bursts",
            "rate_per_s": 5_000,
            "bursts": [
                {
                    "share": 2,
                    "groups": [
                        {"requests": 30, "spacing_s": 1e-5, "pause_s": 1e-4},
                        {"requests": 10},
                    ],
                },
                {"share": 1, "groups": [{"requests": 1}]},
            ],
        },
    },
    "commit": {"accesses": [access("commit")]},
    "copy": {"accesses": [access("copy", 16384)], "sync_every": 20},
    "null": {"accesses": MIXED, "target": {"kind": "null"}, "sync_every": 5},
}
SEQUENCES = ("commit", "copy")
SHAPES = [(threads, depth) for threads in (1, 10, 40) for depth in (1, 32, 128)]
CELLS = [
    (workload, threads, depth)
    for workload in WORKLOADS
    for threads, depth in SHAPES
    # A sequence of calls takes a thread for each request in flight.
    if workload not in SEQUENCES or threads * depth <= 40
]


def check_equation(parts: Mapping[str, Any]) -> None:
    outcome = parts["outcome"]
    ended = outcome["completed"] + outcome["failed"]
    assert outcome["offered"] == ended + outcome["late_skipped"] + outcome["in_flight_at_end"]
    totals = parts["operations"].values()
    assert outcome["completed"] == sum(total["completed"] for total in totals)
    assert outcome["failed"] == sum(total["failed"] for total in totals) == parts["errors_count"]


def check_timeline(parts: Mapping[str, Any]) -> None:
    completed, moved_bytes = Counter[str](), Counter[str]()
    merged: dict[str, _core.Histogram] = defaultdict(lambda: _core.Histogram.of([]))
    slice_ns = parts["timeline"]["slice_ns"]
    for index, operation, count, transferred_bytes, response in parts["timeline"]["slices"]:
        completed[operation] += count
        moved_bytes[operation] += transferred_bytes
        merged[operation] = merged[operation].merged(_core.Histogram.decode(response))
        assert index * slice_ns <= parts["duration_s"] * 1e9
    for operation, total in parts["operations"].items():
        assert completed[operation] == total["completed"]
        assert moved_bytes[operation] == total["transferred_bytes"]
        assert merged[operation].encode() == total["response"], operation


def block_bytes_of(spec: Mapping[str, Any], operation: str) -> int:
    """Return the block of an operation; a sync has none."""
    own = [one for one in spec["accesses"] if one["operation"] == operation]
    return own[0]["sizes"][0]["bytes"] if own else 0


@pytest.mark.parametrize(("workload", "threads", "depth"), CELLS)
def test_the_parts_add_up(trial_file, tmp_path, workload, threads, depth):
    if depth > 1 and workload not in SEQUENCES:
        require_uring()
    others = dict(WORKLOADS[workload])
    target = {"copy_to": str(tmp_path / "copy.dat")} | others.pop("target", {})
    spec = cell(
        trial_file,
        others.pop("accesses"),
        target=target,
        threads=threads,
        depth=depth,
        slice_ms=10,
        **others,
    )
    parts = measure(spec | {"limit": {"duration_s": 0.12}})
    check_equation(parts)
    check_timeline(parts)
    assert parts["outcome"]["completed"] > 0
    assert parts["outcome"]["failed"] == parts["outcome"]["in_flight_at_end"] == 0
    assert parts["duration_s"] >= 0.12
    for operation, total in parts["operations"].items():
        block_bytes = block_bytes_of(spec, operation)
        assert total["transferred_bytes"] == total["completed"] * block_bytes
        assert histogram(parts, operation).count == total["completed"]
        if "arrival" in spec:
            service = histogram(parts, operation, "service")
            assert service.count == total["completed"]
            assert service.mean_ns <= histogram(parts, operation).mean_ns
        else:
            assert total["service"] is None


@pytest.mark.parametrize("threads", [1, 10])
def test_little_holds(trial_file, threads):
    """In a closed loop, requests in flight = rate x mean response time."""
    require_uring()
    for depth in (1, 32):
        spec = cell(trial_file, [access("read", 65536)], threads=threads, depth=depth)
        parts = measure(spec | {"limit": {"duration_s": 0.4}})
        depth_mean = (
            parts["outcome"]["completed"]
            * histogram(parts, "read").mean_ns
            / (parts["duration_s"] * 1e9)
        )
        assert 0.75 * threads * depth <= depth_mean <= threads * depth * 1.001
