"""A real trial in the background, to which something is done while it runs."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from cli.command import ended, start

FILE_BYTES = 16 << 20
STEADY_S = 0.4

STUDY = """
name = "kernel"
rounds = {{ min = 1, max = 1 }}

[[target]]
path = "{place}"
size = {file_bytes}

[[workload]]
kind = "io"
operations = "{operation}"
depths = {depth}
seconds = {seconds}
limit_bytes = "1TiB"
direct = {direct}
"""


class Trial:
    """``seatrial study`` of one cell, under way."""

    def __init__(
        self,
        place: Path,
        folder: Path,
        *,
        operation: str,
        depth: int,
        seconds: float,
        direct: bool = True,
    ) -> None:
        study = folder / "study.toml"
        study.write_text(
            STUDY.format(
                place=place,
                operation=operation,
                depth=depth,
                seconds=seconds,
                file_bytes=FILE_BYTES,
                direct=str(direct).lower(),
            )
        )
        self._place = place
        self._process = start("study", study, "--json", folder=folder, start_new_session=True)
        favour(self.pid)
        self._wait_until_steady()

    @property
    def pid(self) -> int:
        return self._process.pid

    def threads(self, name: str = "") -> list[int]:
        """The numbers of its threads whose names begin so."""
        found = []
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):
                if (task / "comm").read_text().startswith(name):
                    found.append(int(task.name))
        return found

    def document(self) -> dict[str, Any]:
        """Wait for its end and return what it printed."""
        told = ended(self._process)
        assert told.code == 0, told
        return told.document

    def __enter__(self) -> Trial:
        return self

    def __exit__(self, *_exception: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()

    def _wait_until_steady(self) -> None:
        """Wait until the file is filled and one worker, no longer that of the fill, is at it."""
        give_up_s = time.monotonic() + 30
        since_s, workers = time.monotonic(), []
        while not workers or time.monotonic() < since_s + STEADY_S:
            assert self._process.poll() is None, self._process.communicate()
            assert time.monotonic() < give_up_s, "the cell was never under way"
            now = self.threads("worker-") if self._is_filled() else []
            if now != workers:
                since_s, workers = time.monotonic(), now
            time.sleep(0.005)

    def _is_filled(self) -> bool:
        files = self._place.glob(".seatrial-*/trial.dat")
        return any(file.stat().st_size == FILE_BYTES for file in files)


def favour(pid: int) -> None:
    """Rank a process above the neighbours on this machine, whose load adds stalls of its own.

    With autogroups (sched(7)) the nice value of a process counts only within its session.
    """
    os.setpriority(os.PRIO_PROCESS, pid, -20)
    autogroup = Path(f"/proc/{pid}/autogroup")
    if autogroup.exists():
        autogroup.write_text("-20")
