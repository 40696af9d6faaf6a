"""Real runs of fio on a small file, and hand-made documents in its layout."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

FILE_BYTES = 16 << 20


def fio(folder: Path, *options: str, job_file: str = "", output: str = "fio.json") -> Path:
    """Run fio in a folder, on a job file or on options; skip loudly where there is none."""
    program = shutil.which("fio")
    if program is None:
        pytest.skip("fio is not installed: apt-get install fio")
    words = [program, "--output-format=json+", f"--output={output}", *options]
    if job_file:
        (folder / "job.fio").write_text(job_file, encoding="utf-8")
        words.append("job.fio")
    subprocess.run(words, cwd=folder, check=True, capture_output=True, timeout=60)
    return folder / output


def content_of(place: Path) -> dict[str, Any]:
    """The one document of a result that has no text around it."""
    return json.loads(place.read_text(encoding="utf-8"))


def latency(count: int, mean_ns: float = 100_000.0, **more: Any) -> dict[str, Any]:
    """One latency as fio prints it."""
    extremes = {"min": 50_000, "max": 900_000} if count else {"min": 0, "max": 0}
    return {**extremes, "mean": mean_ns if count else 0.0, "stddev": 1.0, "N": count, **more}


def direction(count: int = 0, size_bytes: int = 4096, **clat: Any) -> dict[str, Any]:
    """One direction of a job: so many requests in one second."""
    return {
        "io_bytes": count * size_bytes,
        "total_ios": count,
        "runtime": 1000 if count else 0,
        "slat_ns": latency(count, 2_000.0),
        "clat_ns": latency(count, 98_000.0, **clat),
        "lat_ns": latency(count),
    }


def job(name: str = "a", group: int = 0, reads: int = 1000, writes: int = 0, **more: Any) -> dict:
    """One entry of fio's list; ``options`` are its job options."""
    options = {"rw": "randread", "bs": "4k", "direct": "1"} | more.pop("options", {})
    return {
        "jobname": name,
        "groupid": group,
        "error": 0,
        "elapsed": 2,
        "job options": options,
        "read": direction(reads),
        "write": direction(writes),
        "trim": direction(),
        "sync": {"total_ios": 0, "lat_ns": latency(0)},
        "job_runtime": 1000,
        "usr_cpu": 10.0,
        "sys_cpu": 30.0,
        "ctx": 7,
        **more,
    }


def document(*jobs: dict, **more: Any) -> dict[str, Any]:
    """One document of fio."""
    return {"fio version": "fio-3.33", "timestamp": 1795258597, "jobs": list(jobs), **more}
