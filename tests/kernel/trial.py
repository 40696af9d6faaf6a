"""A real trial in the background, to which something is done while it runs."""

from __future__ import annotations

import os
import time
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
        tasks = Path(f"/proc/{self.pid}/task").iterdir()
        return [int(task.name) for task in tasks if (task / "comm").read_text().startswith(name)]

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
        """Wait until the trial file is filled and requests have gone to it for a while."""
        give_up_s = time.monotonic() + 30
        while not any(
            file.stat().st_size == FILE_BYTES for file in self._place.glob(".seatrial-*/trial.dat")
        ):
            assert self._process.poll() is None, self._process.communicate()
            assert time.monotonic() < give_up_s, "the trial file was never filled"
            time.sleep(0.005)
        time.sleep(STEADY_S)


def favour(pid: int) -> None:
    """Rank a process above the neighbours on this machine, whose load adds stalls of its own.

    With autogroups (sched(7)) the nice value of a process counts only within its session.
    """
    os.setpriority(os.PRIO_PROCESS, pid, -20)
    autogroup = Path(f"/proc/{pid}/autogroup")
    if autogroup.exists():
        autogroup.write_text("-20")
