"""Scrubs of btrfs: started, watched while they go on, and counted when they have ended.

The counts come from the command's own last words: what it keeps in ``/var/lib`` cannot be written
in a lab.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, field
from typing import Final

from seatrial.errors import TargetError
from seatrial.machine.fingerprint.tree import program_path
from seatrial.trials.layouts.build.running import attempt

_PERCENT: Final = re.compile(r"\(([0-9.]+)%\)")
_COUNT: Final = re.compile(r"^\s*(\w+): (\d+)$", re.MULTILINE)
_SECTOR_BLOCKS: Final = 8
"""Blocks of 512 bytes in a sector of btrfs, the unit of its counts of errors."""
_WRONG: Final = ("csum_errors", "verify_errors", "read_errors")


@dataclass(kw_only=True)
class _Scrub:
    process: subprocess.Popen[str]
    counts: dict[str, int] = field(default_factory=dict)

    def settle(self) -> None:
        """Take in the counts once it has ended."""
        if self.process.poll() is not None and not self.counts:
            output, _ = self.process.communicate()
            self.counts = {name: int(count) for name, count in _COUNT.findall(output)}


def begin(*words: str) -> subprocess.Popen[str]:
    """Start a command of btrfs that goes on for as long as its work; the caller watches it.

    It outlives whoever started it: its work is the kernel's, and cancelled when that is undone.

    Raises:
        TargetError: when the program is not installed.
    """
    try:
        return subprocess.Popen(
            [program_path("btrfs") or "btrfs", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    except OSError as error:
        raise TargetError(
            seen=f"`btrfs {words[0]}` cannot be run: {error.strerror}",
            cause="The program is not installed, or not where it can be found",
            next_step="Install it with `apt-get install btrfs-progs` and try again",
        ) from None


class BtrfsScrubs:
    """The scrubs that this process has started, by where the file system is mounted."""

    def __init__(self) -> None:
        self._scrubs: dict[str, _Scrub] = {}

    def start(self, folder: str) -> None:
        """Start one.

        Raises:
            TargetError: when one goes on there, or the program is not installed.
        """
        if self.is_running(folder):
            raise TargetError(
                seen=f"{folder} is being scrubbed already",
                cause="The scrub before has not ended",
                next_step="Leave more time between two scrubs",
            )
        process = begin("scrub", "start", "-B", "-R", folder)
        self._scrubs[folder] = _Scrub(process=process)

    def is_running(self, folder: str) -> bool:
        """Tell whether one goes on."""
        scrub = self._settled(folder)
        return scrub is not None and scrub.process.poll() is None

    def share(self, folder: str) -> float | None:
        """Return how much of a scrub that goes on is done, 0 to 1; None where it is not told."""
        found = _PERCENT.search(attempt(["btrfs", "scrub", "status", folder]).output)
        return min(float(found[1]) / 100, 1.0) if found else None

    def mismatch_blocks(self, folder: str) -> int | None:
        """Return what the last one found wrong, in blocks of 512 bytes; None without counts."""
        counts = self._counts(folder)
        return _SECTOR_BLOCKS * sum(counts.get(name, 0) for name in _WRONG) if counts else None

    def facts(self, folder: str) -> dict[str, str]:
        """Return what the last one mended and what it could not, in sectors of 4 KiB."""
        counts = self._counts(folder)
        names = ("corrected_errors", "uncorrectable_errors")
        reported = {name.replace("_errors", " sectors"): counts.get(name) for name in names}
        return {name: str(count) for name, count in reported.items() if count is not None}

    def _counts(self, folder: str) -> dict[str, int]:
        scrub = self._settled(folder)
        return scrub.counts if scrub else {}

    def _settled(self, folder: str) -> _Scrub | None:
        scrub = self._scrubs.get(folder)
        if scrub is not None:
            scrub.settle()
        return scrub
