"""One frozen call, as in research on what other tools hide: found, timed, and not averaged away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from .cells import (
    MS,
    S,
    access,
    cell,
    exact_percentile,
    histogram,
    logged_ns,
    measure_apart,
    preload,
)

FREEZE_MS = 1_000
RATE_PER_S = 1_000


def frozen_stall(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the one stall that lasted about as long as the freeze."""
    long = [stall for stall in parts["stalls"] if stall["length_s"] > 0.6]
    assert len(long) == 1, parts["stalls"]
    found: dict[str, Any] = long[0]
    return found


def longest_gap_ns(log: Sequence[tuple[int, int]]) -> int:
    """Return the longest time in which no call ended, by the log of the calls."""
    ends_ns = sorted(end_ns for _, end_ns in log)
    return max(later - earlier for earlier, later in pairwise(ends_ns))


@pytest.mark.parametrize("threads", [1, 4])
def test_a_freeze_is_found_with_its_length(memory_file, shim, tmp_path, threads):
    log = tmp_path / "log"
    env = preload(shim, freeze_call=2_000, freeze_ms=FREEZE_MS, take_us=20, log=log)
    spec = cell(memory_file, [access("read")], limit={"duration_s": 1.5}, threads=threads)
    parts = measure_apart(spec, env)["parts"]
    stall = frozen_stall(parts)
    assert stall["length_s"] * S == pytest.approx(longest_gap_ns(logged_ns(log)), abs=10 * MS)
    assert (stall["operations"], stall["depth"]) == ({"read": threads}, threads)
    assert stall["cause"] != "device", "no device was there to be waited for"
    assert stall["evidence"]["looks_device_busy"] == 0
    assert histogram(parts, "read").max_ns >= (FREEZE_MS - 10) * MS


def test_a_freeze_of_one_worker_is_no_stall_while_others_go_on(memory_file, shim):
    env = preload(shim, freeze_call=2_000, freeze_ms=FREEZE_MS, freeze_one=1, take_us=20)
    spec = cell(memory_file, [access("read")], limit={"duration_s": 1.4}, threads=4)
    parts = measure_apart(spec, env)["parts"]
    assert all(stall["length_s"] < 0.6 for stall in parts["stalls"])
    assert histogram(parts, "read").max_ns >= FREEZE_MS * MS


def lindley_ns(due_ns: Sequence[int], service_ns: Sequence[int]) -> list[int]:
    """Return the response times of a queue with one server (Lindley, 1952)."""
    responses, free_ns = [], 0
    for due, service in zip(due_ns, service_ns, strict=True):
        free_ns = max(due, free_ns) + service
        responses.append(free_ns - due)
    return responses


def test_a_schedule_shows_what_a_freeze_did_to_those_who_waited(memory_file, shim, tmp_path):
    """1,000 requests a second; one takes 1 s: a fifth of all are late, and none may hide it."""
    log: Path = tmp_path / "log"
    env = preload(shim, freeze_call=1_500, freeze_ms=FREEZE_MS, log=log)
    spec = cell(
        memory_file,
        [access("read")],
        limit={"duration_s": 5.0},
        arrival={"kind": "fixed", "rate_per_s": RATE_PER_S},
    )
    parts = measure_apart(spec, env)["parts"]
    service_ns = [end_ns - begin_ns for begin_ns, end_ns in logged_ns(log)]
    count = len(service_ns)
    # Who is woken after the end sends the last ones no more.
    assert 4.95 * RATE_PER_S <= count <= 5 * RATE_PER_S
    assert parts["outcome"]["completed"] == count
    due_ns = [index * S // RATE_PER_S for index in range(len(service_ns))]
    truth = lindley_ns(due_ns, service_ns)
    response, service = histogram(parts, "read"), histogram(parts, "read", "service")
    for percent in (85, 90, 95, 99, 99.9):
        assert response.percentile_ns(percent) == pytest.approx(
            exact_percentile(truth, percent), rel=0.02
        ), percent
    assert response.percentile_ns(99) == pytest.approx(0.95 * S, rel=0.02)
    assert response.mean_ns == pytest.approx(sum(truth) / len(truth), rel=0.02)
    assert response.max_ns == pytest.approx(FREEZE_MS * MS, rel=0.02)
    assert service.percentile_ns(99) < 2 * MS
    assert service.max_ns == pytest.approx(FREEZE_MS * MS, rel=0.02)
    assert response.count == service.count == count
    assert frozen_stall(parts)["length_s"] == pytest.approx(FREEZE_MS / 1_000, abs=0.01)
