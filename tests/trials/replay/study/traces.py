"""Small traces, read from logs that are written here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from seatrial import _core

PREFIX = "%m [%p] %q%u@%d "
TIMEOUT_S = 60.0


def log_of(lines: Sequence[tuple[float, int, str, str]]) -> str:
    """A log with ``log_line_prefix`` as above: of each statement second, process, database, SQL."""
    return "".join(
        f"2026-11-21 12:{int(at_s) // 60:02}:{at_s % 60:06.3f} UTC [{process}] me@{database} "
        f"LOG:  duration: 1.000 ms  statement: {sql}\n"
        for at_s, process, database, sql in lines
    )


def read_trace(log: str, trace: Path, **spec: object) -> Path:
    """Read a log into a trace, which is put next to it."""
    path = trace.with_suffix(".log")
    path.write_text(log)
    wanted = {"logs": [str(path)], "output": str(trace), "prefix": PREFIX, "format": "stderr"}
    return _read(wanted | spec)


def make_trace(trace: Path, databases: Sequence[str] = ("shop",), **spec: object) -> Path:
    """A trace of 40 statements in 4 s, of two sessions in each database."""
    lines = []
    for number in range(40):
        database = databases[number % len(databases)]
        process = 100 + 2 * (number % len(databases)) + number // len(databases) % 2
        sql = ("SELECT 1", "UPDATE t SET a = 1")[number % 4 == 3]
        lines.append((0.1 * (number + 1), process, database, sql))
    return read_trace(log_of(lines), trace, **spec)


def read_csv(log: Path, trace: Path) -> Path:
    """Read a server's csvlog into a trace."""
    return _read({"logs": [str(log)], "output": str(trace)})


def read_raw(sql: Path, trace: Path, sessions: int = 1) -> Path:
    """Read a file of SQL into a trace of so many streams."""
    wanted = {"logs": [str(sql)], "output": str(trace), "format": "raw", "sessions": sessions}
    return _read(wanted)


def _read(wanted: dict[str, object]) -> Path:
    reading = _core.start_sql_read(json.dumps(wanted))
    assert reading.wait(TIMEOUT_S)
    reading.result()
    return Path(str(wanted["output"]))
