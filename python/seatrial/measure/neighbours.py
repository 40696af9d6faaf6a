"""Who else was at the storage while cells were measured: other runs, and other programs."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any, Final

from seatrial.machine.fingerprint.process_io import own_processes, processes_io
from seatrial.machine.fingerprint.tree import LIVE
from seatrial.machine.marker import FOLDER_PREFIX
from seatrial.machine.run_lock import Holder, RunLock

NAMED_MAX: Final = 8
_WORTH_NAMING_BYTES: Final = 1 << 20


class Neighbours:
    """Looks before and after each sample; what happens during one is not disturbed.

    Args:
        lock: Of the run; it knows of other runs on the same media.
    """

    def __init__(self, lock: RunLock) -> None:
        self._lock = lock
        self._runs: dict[int, Holder] = {}
        self._before: dict[tuple[int, int], tuple[int, int]] = {}
        self._read_bytes: Counter[str] = Counter()
        self._write_bytes: Counter[str] = Counter()

    def before(self) -> None:
        """Look before a sample."""
        self._before = {
            (each.pid, each.began_ticks): (each.read_bytes, each.write_bytes)
            for each in processes_io()
        }

    def after(self) -> dict[str, float]:
        """Look after it; return what others moved meanwhile, by counter's name.

        ``other_process_read_bytes`` and ``other_process_write_bytes`` are sums over the processes
        that we may see, on whatever device; ``other_runs`` is the number of other runs on the
        same media.
        """
        runs = self._lock.neighbours()
        self._runs |= {run.pid: run for run in runs}
        own = own_processes()
        read_bytes = write_bytes = 0
        for each in processes_io():
            if each.pid in own or _is_server_of_a_trial(each.pid):
                continue
            was = self._before.get((each.pid, each.began_ticks), (0, 0))
            grown = (each.read_bytes - was[0], each.write_bytes - was[1])
            if max(grown) >= _WORTH_NAMING_BYTES:
                self._read_bytes[each.name] += grown[0]
                self._write_bytes[each.name] += grown[1]
            read_bytes += grown[0]
            write_bytes += grown[1]
        return {
            "other_process_read_bytes": float(read_bytes),
            "other_process_write_bytes": float(write_bytes),
            "other_runs": float(len(runs)),
        }

    def found(self) -> dict[str, Any]:
        """Return who was there, for the fingerprint after the run.

        Keys: ``other_runs``, with ``pid``, ``command`` and ``since_unix_s`` of each;
        ``other_processes``, with ``name``, ``read_bytes`` and ``write_bytes`` of those programs
        that moved most while cells were measured.
        """
        names = sorted(
            {*self._read_bytes, *self._write_bytes},
            key=lambda name: -self._read_bytes[name] - self._write_bytes[name],
        )
        return {
            "other_runs": [
                {"pid": run.pid, "command": run.command, "since_unix_s": run.since_unix_s}
                for run in self._runs.values()
            ],
            "other_processes": [
                {
                    "name": name,
                    "read_bytes": self._read_bytes[name],
                    "write_bytes": self._write_bytes[name],
                }
                for name in names[:NAMED_MAX]
            ],
        }


def _is_server_of_a_trial(pid: int) -> bool:
    """Tell whether a process works in the trial folder of a run, as its database servers do."""
    folder = LIVE.link(f"/proc/{pid}/cwd") or ""
    return f"{os.sep}{FOLDER_PREFIX}" in folder
