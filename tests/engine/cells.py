"""Cells for the tests of the engine: specifications, runs, and what they yielded."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from seatrial import _core

HERE = Path(__file__).parent
MS = 1_000_000
S = 1_000_000_000


def access(operation: str, block_bytes: int = 4096, weight: float = 1) -> dict[str, Any]:
    """Return one kind of request, at random addresses."""
    return {
        "weight": weight,
        "operation": operation,
        "sizes": [{"bytes": block_bytes, "weight": 1}],
        "align_bytes": block_bytes,
        "address": {"kind": "random"},
    }


def cell(path: Path, accesses: list[dict[str, Any]], **others: Any) -> dict[str, Any]:
    """Return the specification of a cell over the whole of an existing file, page-cached.

    ``target`` and ``limit`` among the others complete what stands here; all else replaces it.
    """
    size_bytes = path.stat().st_size
    target = {"kind": "file", "path": str(path), "size_bytes": size_bytes, "direct": False}
    spec: dict[str, Any] = {
        "seed": 7,
        "target": target | others.pop("target", {}),
        "range": {"start_bytes": 0, "length_bytes": size_bytes},
        "accesses": accesses,
        "limit": {"duration_s": 0.15} | others.pop("limit", {}),
    }
    return spec | others


def measure(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sample's parts of a cell measured in this process."""
    running = _core.start(json.dumps(spec))
    assert running.wait(60), "the cell did not end"
    return running.result()


def start_apart(spec: Mapping[str, Any], env: Mapping[str, Any] = {}) -> subprocess.Popen[str]:
    """Start a cell in a process of its own; it says ``started`` on stderr."""
    reported = {name: str(value) for name, value in env.items()}
    process = subprocess.Popen(
        [sys.executable, str(HERE / "run_cell.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **reported},
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(spec))
    process.stdin.close()
    process.stdin = None
    return process


def outcome_of(process: subprocess.Popen[str], timeout_s: float = 60) -> dict[str, Any]:
    """Return what ``run_cell.py`` tells: parts or error, live readings, the kernel's counts."""
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        pytest.fail(f"the engine hung for {timeout_s} s")
    assert process.returncode == 0, err
    outcome: dict[str, Any] = json.loads(out)
    return outcome


def measure_apart(spec: Mapping[str, Any], env: Mapping[str, Any] = {}) -> dict[str, Any]:
    """Return what a cell yields in a process of its own."""
    return outcome_of(start_apart(spec, env))


def histogram(parts: Mapping[str, Any], operation: str, of: str = "response") -> _core.Histogram:
    """Return a histogram of a sample, from this process or from another one."""
    encoded = parts["operations"][operation][of]
    return _core.Histogram.decode(bytes.fromhex(encoded) if isinstance(encoded, str) else encoded)


def preload(shim: Path, block_bytes: int = 4096, **settings: Any) -> dict[str, Any]:
    """Return the environment that controls the shim (see shim.c)."""
    named = {f"SHIM_{name.upper()}": value for name, value in settings.items()}
    return {"LD_PRELOAD": str(shim), "SHIM_LENGTH_BYTES": block_bytes, **named}


def logged_ns(log: Path) -> list[tuple[int, int]]:
    """Return (begin, end) of each call that the shim saw, in the order of their beginnings."""
    words = memoryview(log.read_bytes()).cast("Q")
    return list(zip(words[::2], words[1::2], strict=True))


def exact_percentile(values: Sequence[int], percent: float) -> int:
    """Return the value that ``percent`` of the values do not exceed."""
    rank = math.ceil(len(values) * Fraction(str(percent)) / 100)
    return sorted(values)[max(rank, 1) - 1]


def require(tool: str) -> str:
    """Return the path of a program; skips, and says so, where there is none."""
    found = shutil.which(tool)
    if found is None:
        pytest.skip(f"{tool} is not installed: apt-get install {'gcc' if tool == 'cc' else tool}")
    return found


def require_uring() -> None:
    """Skip where io_uring is forbidden or absent, with the engine's own reason."""
    reason = _core.io_uring_status()
    if reason:
        pytest.skip(f"io_uring: {reason}")
