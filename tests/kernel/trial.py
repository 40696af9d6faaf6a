"""A real trial in the background, to which something is done while it runs."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from cli.command import Ended, ended, start
from kernel.injections import Injected, NothingHeldError, promptly

FILE_BYTES = 16 << 20
STEADY_S = 0.4
ATTEMPTS = 4

STUDY = """
name = "kernel"
rounds = {{ min = 1, max = 1 }}

[[target]]
path = "{place}"
size = {file_bytes}

[[workload]]
{workload}
seconds = {seconds}
limit_bytes = "1TiB"
"""

IO = """kind = "io"
operations = "{operation}"
depths = {depth}
direct = {direct}
"""

COMMITS = """kind = "commit"
methods = "{method}"
committers = {committers}
"""


class Trial:
    """``seatrial study`` of one cell, under way."""

    def __init__(
        self,
        place: Path,
        folder: Path,
        *,
        seconds: float,
        operation: str = "read",
        depth: int = 1,
        direct: bool = True,
        commits: str = "",
        committers: int = 1,
    ) -> None:
        """Start it: reads or writes, or commits where ``commits`` names their method."""
        study = folder / "study.toml"
        if commits:
            workload = COMMITS.format(method=commits, committers=committers)
        else:
            workload = IO.format(operation=operation, depth=depth, direct=str(direct).lower())
        study.write_text(
            STUDY.format(place=place, workload=workload, seconds=seconds, file_bytes=FILE_BYTES)
        )
        self.seconds = seconds
        self._process = start_favoured("study", study, "--json", folder=folder)
        with promptly():
            wait_until_steady(self._process, place, STEADY_S, filled=not commits)

    @property
    def pid(self) -> int:
        return self._process.pid

    def threads(self, name: str = "") -> list[int]:
        """The numbers of its threads whose names begin so."""
        return threads_of(self.pid, name)

    def document(self) -> dict[str, Any]:
        """Wait for its end and return what it printed."""
        reported = ended(self._process)
        assert reported.code == 0, reported
        return reported.document

    def __enter__(self) -> Trial:
        return self

    def __exit__(self, *_exception: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


def wait_until_steady(
    process: subprocess.Popen[str], place: Path, steady_s: float, *, filled: bool = True
) -> None:
    """Wait until the file is filled, and the same workers, no longer those of the fill, are at it.

    Args:
        process: The command.
        place: Where its trial file is.
        steady_s: How long they must have been at it.
        filled: Whether the trial's file is filled before it is used; a log of commits is not.
    """
    give_up_s = time.monotonic() + 30
    since_s, workers = time.monotonic(), []
    while not workers or time.monotonic() < since_s + steady_s:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < give_up_s, "the cell was never under way"
        now = threads_of(process.pid, "worker-") if not filled or is_filled(place) else []
        if now != workers:
            since_s, workers = time.monotonic(), now
        time.sleep(0.005)


def threads_of(pid: int, name: str) -> list[int]:
    """The numbers of a process's threads whose names begin so."""
    found = []
    with suppress(FileNotFoundError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):
                if (task / "comm").read_text().startswith(name):
                    found.append(int(task.name))
    return found


def is_filled(place: Path) -> bool:
    files = place.glob(".seatrial-*/trial.dat")
    return any(file.stat().st_size == FILE_BYTES for file in files)


def injected_into(
    make: Callable[[Path], Trial],
    inject: Callable[[Trial], Injected],
    folder: Path,
    *,
    ends_inside: bool = True,
) -> tuple[dict[str, Any], Injected]:
    """Do something to a trial while its sample lasts; return what it printed, and what was done.

    On a busy machine what is done may come too late, past the time that the sample was to last.
    That shows nothing of the trial, whatever it printed: another one is made, for a few times.

    Args:
        make: Starts a trial in a folder of its own.
        inject: What is done to it.
        folder: Where the folders are made.
        ends_inside: Whether what is done must be over before the sample is, too.
    """
    late = []
    for attempt in range(ATTEMPTS):
        own = folder / f"attempt-{attempt}"
        own.mkdir()
        with make(own) as trial:
            try:
                with promptly():
                    injected = inject(trial)
            except (ProcessLookupError, NothingHeldError) as error:
                late.append(repr(error))
                continue
            document = trial.document()
        (sample,) = document["samples"]
        last_s = injected.ended.before_s if ends_inside else injected.began.before_s
        if sample["started_at"] <= injected.began.after_s <= last_s <= planned_end_s(sample, trial):
            return document, injected
        late.append(f"{injected} in a sample from {sample['started_at']} for {trial.seconds} s")
    pytest.fail(f"never within the sample: {late}")


def planned_end_s(sample: dict[str, Any], trial: Trial) -> float:
    """By the wall clock; what a sample waits for beyond that is not of its time."""
    return sample["started_at"] + trial.seconds


def start_favoured(*arguments: str | Path, folder: Path, **how: Any) -> subprocess.Popen[str]:
    """Start ``seatrial`` above the neighbours on this machine, whose load adds waits of its own.

    It is measured, so that it has a process of its own, as a user's command has.
    """
    process = start(*arguments, folder=folder, start_new_session=True, **{"prefix": (), **how})
    favour(process.pid)
    return process


def favoured(*arguments: str | Path, folder: Path, timeout_s: float = 60.0, **how: Any) -> Ended:
    """Run ``seatrial`` to its end above the neighbours on this machine."""
    return ended(start_favoured(*arguments, folder=folder, **how), timeout_s)


def favour(pid: int) -> None:
    """Rank a process above the others.

    With autogroups (sched(7)) the nice value of a process counts only within its session.
    """
    os.setpriority(os.PRIO_PROCESS, pid, -20)
    autogroup = Path(f"/proc/{pid}/autogroup")
    if autogroup.exists():
        autogroup.write_text("-20")
