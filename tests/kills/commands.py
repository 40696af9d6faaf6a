"""The commands that are killed: small, real, and each with something to leave behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SEATRIAL = str(Path(sys.executable).with_name("seatrial"))

LAYOUTS = """
name = "two-mirrors"
description = "Arrays on loop devices, to be killed in mid-run"

[drives]
loop = "2x256MiB"
folder = "{folder}/target"

[[layout]]
name = "mirror"
backend = "{backend}"
level = "{level}"
drives = {drives}
filesystem = "{filesystem}"
size = "16MiB"

[[workload]]
kind = "fill"

[[workload]]
kind = "matrix"
operations = ["read"]
block_sizes = ["8KiB"]
threads = [1]
seconds = 0.3

[rounds]
min = 1
max = 1
"""

POOL = """
name = "pool"
description = "A cache device, to be killed in mid-run"

[rounds]
min = 1
max = 1

[[workload]]
kind = "l2arc"
cache = true
disks = 2
working_set = "16MiB"
arc = "16MiB"
cache_size = "64MiB"
baseline_seconds = 1
seconds = 2
"""

STATEMENTS = 1_500
LOG_LINE = (
    "2026-01-05 10:00:{second:02}.{ms:03} UTC,bench,bench,{pid},[local],65a.{pid},{line},SELECT,"
    "2026-01-05 10:00:00 UTC,1/{line},0,LOG,00000,"
    '"duration: 0.200 ms  statement: select abalance from pgbench_accounts where aid = {aid}"'
    ",,,,,,,,,bench,client backend,,0\n"
)


@dataclass(frozen=True)
class Trial:
    """One command to kill.

    Attributes:
        name: What it is called.
        arguments: Of ``seatrial``.
    """

    name: str
    arguments: tuple[str, ...]


def trials(folder: Path) -> list[Trial]:
    """The commands that this machine has all for, working in a folder.

    What is read, and never written, is made here once.
    """
    target = str(folder / "target")
    found = [
        Trial("io", ("io", target, "--size", "32MiB", "--seconds", "1", "--operation", "write")),
        Trial(
            "run",
            ("run", target, "--size", "32MiB", "--seconds", "0.2", "--rounds", "1"),
        ),
    ]
    if has_postgres():
        base = ("--seconds", "1", "--no-commit-truth", "--clients", "2")
        found.append(Trial("db", ("db", target, *base, "--scale", "1", "--rounds", "1")))
        found.append(Trial("crash", ("db", target, *base, "--crash=1")))
        trace = made_trace(folder)
        replay = ("sql", "replay", str(trace), "--to", target, "--scale", "1")
        found.append(Trial("replay", replay))
        if os.geteuid() == 0:
            found.append(Trial("power", ("db", target, *base, "--crash=1", "--power-cut")))
    if os.geteuid() == 0:
        study = folder / "layouts.toml"
        study.write_text(LAYOUTS.format(folder=folder, **_backend()))
        found.append(Trial("layouts", ("study", str(study))))
        if shutil.which("zfs-fuse"):
            pool = folder / "pool.toml"
            pool.write_text(POOL)
            found.append(Trial("pool", ("study", str(pool), "--target", target)))
    return found


def has_postgres() -> bool:
    """Whether there is a PostgreSQL to measure with."""
    return any(Path("/usr/lib/postgresql").glob("*/bin/pgbench"))


def made_trace(folder: Path) -> Path:
    """A trace of reads of pgbench's tables, read from a log that is made up."""
    log, trace = folder / "made.csv", folder / "made.trace"
    if trace.exists():
        return trace
    with log.open("w") as file:
        for number in range(STATEMENTS):
            at_ms = number * 3
            file.write(
                LOG_LINE.format(
                    second=at_ms // 1000,
                    ms=at_ms % 1000,
                    pid=1000 + number % 4,
                    line=number // 4 + 1,
                    aid=number * 37 % 100_000 + 1,
                )
            )
    command = [SEATRIAL, "sql", "read", str(log), "-o", str(trace)]
    subprocess.run(command, check=True, capture_output=True, cwd=folder)
    return trace


def _backend() -> dict[str, str | int]:
    known = Path("/proc/filesystems").read_text()
    if "btrfs" in known and shutil.which("mkfs.btrfs"):
        return {"backend": "btrfs", "level": "raid1", "drives": 2, "filesystem": "btrfs"}
    return {"backend": "single", "level": "single", "drives": 1, "filesystem": "ext4"}
