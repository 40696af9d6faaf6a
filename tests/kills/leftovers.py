"""What a killed run may leave on a machine, looked for without asking Seatrial.

Other work on the machine is not mistaken for it: with root, all is looked at from namespaces of our
own (mounts, processes, shared memory); what the kernel has only once, loop devices and control
groups, is known by the run's folder or name.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

PROC = Path("/proc")
GRACE_S = 5.0
"""A process that was killed may hold files for a moment; then nothing may be left."""


class Machine:
    """Looks for leftovers of commands that work in one folder.

    Args:
        folder: Directory for everything that the commands use.
        is_private: Whether processes, mounts and shared memory are those of our namespaces.
    """

    def __init__(self, folder: Path, *, is_private: bool) -> None:
        self.folder = folder
        self._is_private = is_private
        self._before = set(self._shared())
        self._runs: set[str] = set()

    def leftovers(self) -> list[str]:
        """Everything that is left, one sentence each; waits a moment for what is ending."""
        give_up_at_s = time.monotonic() + GRACE_S
        while left := list(self._found()):
            if time.monotonic() > give_up_at_s:
                break
            time.sleep(0.1)
        return left

    def _found(self) -> Iterator[str]:
        for pid in self.processes():
            yield f"process {pid}: {words(pid)} (state {state(pid)})"
        for line in Path("/proc/self/mountinfo").read_text().splitlines():
            fields = line.split()
            # What the script itself has mounted is the folder above.
            if Path(fields[4]).is_relative_to(self.folder):
                yield f"mount: {fields[4]}"
        for name in self.loops():
            yield f"loop device {name}"
        for each in sorted(set(self._shared()) - self._before):
            yield each
        for each in self._files():
            yield f"file {each}"
        for each in self._groups():
            yield f"control group {each}"

    def processes(self) -> list[int]:
        """Processes of the commands: all but the script's own where they are private."""
        own = {os.getpid(), os.getppid()}
        numbers = [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()]
        return [pid for pid in numbers if pid not in own and self._is_ours(pid)]

    def _is_ours(self, pid: int) -> bool:
        if state(pid) in ("", "Z", "X"):
            return False
        return self._is_private or str(self.folder) in surroundings(pid)

    def loops(self) -> list[str]:
        """Loop devices whose files lie in the folder."""
        found = []
        for place in Path("/sys/block").glob("loop*/loop/backing_file"):
            try:
                backing = place.read_text()
            except OSError:
                continue
            if self.folder.name in backing:
                found.append(f"{place.parent.parent.name}: {backing.strip()}")
        return found

    def _shared(self) -> Iterator[str]:
        for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]:
            fields = line.split()
            # With many users' segments to be seen, only those of our processes can be judged.
            if self._is_private or fields[7] == str(os.getuid()):
                yield f"System V shared memory {fields[1]} (key {fields[0]}, made by {fields[4]})"
        if self._is_private:
            for each in Path("/dev/shm").iterdir():
                yield f"shared memory {each}"
            for each in Path("/tmp").glob("*seatrial-*"):
                if each != self.folder:
                    yield f"temporary {each}"

    def _files(self) -> Iterator[Path]:
        """Files where there were none: in target, temporary folders and state."""
        for name in ("target", "tmp", "runtime"):
            yield from (self.folder / name).iterdir()
        yield from (self.folder / "state").glob("*.undo*")
        yield from (self.folder / "state").glob(".seatrial-*")

    def _groups(self) -> Iterator[Path]:
        """Control groups that bear the name of a run that was seen in a journal."""
        # Others' groups may vanish meanwhile, which os.walk takes no notice of.
        beginnings = tuple(f"seatrial-{run}-" for run in self._runs)
        for folder, names, _ in os.walk("/sys/fs/cgroup") if beginnings else ():
            yield from (Path(folder, name) for name in names if name.startswith(beginnings))

    def note_runs(self) -> None:
        """Remember the runs of which there are journals now, for their control groups."""
        for each in (self.folder / "state").glob("*.undo.jsonl"):
            self._runs.add(each.name.removesuffix(".undo.jsonl"))


def state(pid: int) -> str:
    """A process's state, such as S or Z; empty where it is gone."""
    try:
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


def words(pid: int) -> str:
    """The command line of a process."""
    try:
        return (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except OSError:
        return ""


def surroundings(pid: int) -> str:
    """Command line, environment and working folder of a process, as far as they may be seen."""
    parts = [words(pid)]
    try:
        parts.append(str((PROC / str(pid) / "cwd").readlink()))
        parts.append((PROC / str(pid) / "environ").read_bytes().decode(errors="replace"))
    except OSError:
        pass
    return " ".join(parts)
