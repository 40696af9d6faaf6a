"""One session of a lab: it boots, runs one command as root of the guest, and is removed.

Each system call and each page fault of a guest is a switch between two processes of user-mode
Linux. On one CPU this is a context switch; between two it wakes an idle CPU, which takes several
times as long, even more in a virtual machine (bench/lab_speed.py).
"""

from __future__ import annotations

import os
import random
import re
import secrets
import selectors
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from seatrial.errors import TargetError, UsageError
from seatrial.lab.init import ENDED, READY, STOP, Script
from seatrial.lab.machine import Boot, Machine, disk_serial
from seatrial.lab.packages import Report, cache_folder, installed, set_up
from seatrial.lab.qemu import Qemu
from seatrial.lab.uml import UserModeLinux
from seatrial.machine.file import TrialFolder
from seatrial.machine.fingerprint.tree import LIVE, SystemTree
from seatrial.machine.undo_journal import UndoJournal

DISKS_MAX: Final = 16
"""Limit of user-mode Linux (arch/um/drivers/ubd_kern.c, MAX_DEV)."""


def make_disks(folder: TrialFolder, count: int, size_bytes: int) -> tuple[Path, ...]:
    """Create the files for a lab's disks.

    Raises:
        UsageError: if there are more than a lab supports.
    """
    if count > DISKS_MAX:
        raise UsageError(
            seen=f"{count} disks were requested",
            cause=f"A lab has at most {DISKS_MAX} disks, the limit of user-mode Linux",
            next_step=f"Use fewer with --disks {DISKS_MAX}x256M, or use --loop as root",
        )
    paths = tuple(folder.file(f"disk{number}") for number in range(1, count + 1))
    for path in paths:
        with path.open("wb") as file:
            file.truncate(size_bytes)
    return paths


_IDLE_SAMPLE_S: Final = 0.1
_TICKS_EQUAL_MAX: Final = 2
"""CPUs whose idle time differs by at most this are considered equal."""


@contextmanager
def on_one_processor() -> Iterator[None]:
    """Pin processes that this thread starts meanwhile to one CPU, the idlest one available.

    If a container does not allow this, the lab is slower, without other effects.
    """
    allowed = os.sched_getaffinity(0)
    with suppress(OSError):
        os.sched_setaffinity(0, {_chosen(allowed)})
    try:
        yield
    finally:
        with suppress(OSError):
            os.sched_setaffinity(0, allowed)


def idlest(before: Mapping[int, int], after: Mapping[int, int], allowed: set[int]) -> list[int]:
    """Return the CPUs that were idle longest between two readings of ``idle_ticks``.

    All of them if nothing is known.
    """
    rested = {number: after.get(number, 0) - before.get(number, 0) for number in allowed}
    most = max(rested.values())
    return sorted(number for number in allowed if most - rested[number] <= _TICKS_EQUAL_MAX)


def idle_ticks(tree: SystemTree = LIVE) -> dict[int, int]:
    """Return how long each CPU has been idle since boot, in clock ticks.

    Source: proc(5), ``/proc/stat``: the fourth number is idle, the fifth waits for I/O.
    """
    found = re.finditer(r"^cpu(\d+) ((?:\d+ ){4,}\d+)", tree.text("/proc/stat") or "", re.MULTILINE)
    return {int(line[1]): sum(map(int, line[2].split()[3:5])) for line in found}


def _chosen(allowed: set[int]) -> int:
    if len(allowed) == 1:
        return min(allowed)
    before = idle_ticks()
    time.sleep(_IDLE_SAMPLE_S)
    # Random among equals, so that labs that start together use different CPUs.
    return random.choice(idlest(before, idle_ticks(), allowed))


MEMORY_BYTES: Final = 1 << 30
STOP_GRACE_S: Final = 30.0
END_PATIENCE_S: Final = 20.0
_LINES_KEPT: Final = 20
_POLL_S: Final = 0.5
_UNFIT: Final = frozenset(" \t\n,:'\"\\")
"""Characters with a special meaning on a kernel's command line."""

# When seatrial ends, its end of the pipe is closed, and all processes are killed, the keeper last.
# The same happens when the machine ends, since some of its processes may remain. User-mode Linux
# has its own process group. The shell's own messages ("Killed") are discarded.
_KEEPER: Final = """\
alive=$1
shift
exec 3<&0 2>/dev/null
"$@" <&3 3<&- 2>&1 &
machine=$!
end() {
  kill -KILL $machine
  kill -KILL -$machine
  kill -KILL -$$
}
(read -r _ </proc/self/fd/"$alive"; end) &
wait $machine
end
"""


class BootError(TargetError):
    """The machine did not boot far enough to run the command."""


@dataclass(frozen=True, kw_only=True)
class Lab:
    """A lab's resources on the host, before and after its machine runs.

    Attributes:
        machine: The machine.
        folder: The lab's own folder.
        disks: The files of its disks.
        journal: The undo journal for everything that it creates.
    """

    machine: Machine
    folder: TrialFolder
    disks: tuple[Path, ...]
    journal: UndoJournal

    @property
    def devices(self) -> list[str]:
        """The device of each disk in the guest."""
        return self.machine.disk_names(len(self.disks))

    @property
    def serials(self) -> list[str]:
        """The serial number of each disk in the guest."""
        return [disk_serial(number) for number in range(len(self.disks))]


@contextmanager
def open_lab(
    machine: Machine, run_id: str, *, disks: int, disk_bytes: int, directory: Path | None = None
) -> Iterator[Lab]:
    """Create a lab's folder and its disks; both are removed at the end.

    Args:
        machine: The machine.
        run_id: Names its folder and its undo journal.
        disks: Number of disks.
        disk_bytes: Size of each disk.
        directory: Parent of the folder; by default the folder for temporary files.

    Raises:
        UsageError: if there are too many disks, or the undo journal cannot be used.
        TargetError: if the folder cannot be created or has too little space for the disks.
    """
    parent = (directory or Path(tempfile.gettempdir())).resolve()
    _require_plain(parent)
    with machine.packages.in_use(), UndoJournal(run_id) as journal:
        folder = TrialFolder(parent, run_id, journal)
        with folder.open(disks * disk_bytes, direct=False, shrink_option="--disks"):
            made = make_disks(folder, disks, disk_bytes)
            yield Lab(machine=machine, folder=folder, disks=made, journal=journal)


def run_inside(
    lab: Lab,
    argv: Sequence[str],
    *,
    shared: Path,
    report: Report,
    environment: Mapping[str, str] | None = None,
    working_folder: Path | None = None,
    memory_bytes: int = MEMORY_BYTES,
) -> int:
    """Run a command inside a lab as root of its guest; return its exit status.

    Args:
        lab: The lab.
        argv: The command; all paths of the host are available under the same names, and writes to
            them are discarded at the end.
        shared: A folder that the guest shares with the host; the kernel's log is stored there, too.
        report: Called with each line of the command's output and errors.
        environment: Additional variables of the command.
        working_folder: Its working folder; by default the shared folder.
        memory_bytes: Memory of the guest.

    Raises:
        BootError: if the machine does not boot far enough to run the command.
        TargetError: if the machine ends before the command.
        KeyboardInterrupt: when interrupted, after the command was stopped and has ended.
    """
    nonce = secrets.token_hex(8)
    script = Script(
        argv=argv,
        working_folder=working_folder or shared,
        environment=_environment(lab.machine) | dict(environment or {}),
        nonce=nonce,
        shares=[shared.resolve()],
        stop_grace_s=STOP_GRACE_S,
    )
    boot = Boot(folder=lab.folder.path, disks=lab.disks, memory_bytes=memory_bytes, script=script)
    lab.machine.prepare(boot)
    folder, program = str(boot.folder), str(lab.machine.program.resolve())
    run_id = lab.folder.run_id
    entry = lab.journal.record("lab", folder=folder, program=program, run_id=run_id)
    try:
        with _started(lab.machine, boot) as process:
            console = _Console(process, nonce, lab.machine, report)
            console.await_ready()
            return console.await_end()
    finally:
        lab.journal.undo(entry)


def _environment(machine: Machine) -> dict[str, str]:
    """Return the variables of every command inside; none of the host's are passed on implicitly."""
    return {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/run/lab/home",
        "TMPDIR": "/run/lab",
        "SEATRIAL_STATE_DIR": "/run/lab/undo",
        "SEATRIAL_LAB": machine.label,
        "PYTHONDONTWRITEBYTECODE": "1",
    }


@contextmanager
def _started(machine: Machine, boot: Boot) -> Iterator[subprocess.Popen[bytes]]:
    """Start the machine in its own session; all of its processes are killed at the end."""
    alive_read, alive_write = os.pipe()
    try:
        with on_one_processor() if machine.one_processor else nullcontext():
            process = subprocess.Popen(
                ["sh", "-c", _KEEPER, "sh", str(alive_read), *machine.command(boot)],
                cwd=boot.folder,
                env=os.environ | machine.environment(boot),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=[alive_read],
                start_new_session=True,
            )
    finally:
        os.close(alive_read)
    try:
        yield process
    finally:
        os.close(alive_write)
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


class _Console:
    """The guest's console: its output line by line, and the commands sent to it."""

    def __init__(
        self, process: subprocess.Popen[bytes], nonce: str, machine: Machine, report: Report
    ) -> None:
        self._process = process
        self._nonce = nonce
        self._machine = machine
        self._report = report
        self._unread: deque[str] = deque()
        self._last: deque[str] = deque(maxlen=_LINES_KEPT)
        self._rest = b""

    def await_ready(self) -> None:
        """Read until the guest is ready.

        Raises:
            BootError: if it is not ready in time.
        """
        give_up_at_s = time.monotonic() + self._machine.boot_patience_s
        for line in self._lines(give_up_at_s):
            if line.startswith(f"{READY} {self._nonce}"):
                return
        raise self._not_booted()

    def await_end(self) -> int:
        """Read until the command has ended; return its exit status.

        Raises:
            TargetError: if the machine ends before.
            KeyboardInterrupt: when interrupted, after the command has ended.
        """
        try:
            return self._status(None)
        except KeyboardInterrupt:
            self._say(STOP)
            self._status(time.monotonic() + STOP_GRACE_S + END_PATIENCE_S)
            raise

    def _status(self, give_up_at_s: float | None) -> int:
        for line in self._lines(give_up_at_s):
            if line.startswith(f"{ENDED} {self._nonce}"):
                return int(line.split()[2])
            self._report(line)
        raise TargetError(
            seen=f"The lab's kernel ({self._machine.label}) ended before its command. "
            f"Last output: {self._last_phrase()}",
            cause="It was killed, ran out of memory or crashed",
            next_step="Use more memory with --memory 2G, or try --machine qemu",
        )

    def _lines(self, give_up_at_s: float | None) -> Iterator[str]:
        """Yield lines until the machine has ended or the time is up."""
        assert self._process.stdout is not None  # noqa: S101 - it was started with a pipe
        handle = self._process.stdout.fileno()
        with selectors.DefaultSelector() as selector:
            selector.register(handle, selectors.EVENT_READ)
            while give_up_at_s is None or time.monotonic() < give_up_at_s:
                while self._unread:
                    yield self._unread.popleft()
                if not selector.select(_POLL_S):
                    continue
                data = os.read(handle, 1 << 16)
                if not data:
                    return
                self._take(data)

    def _take(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for raw in lines:
            line = raw.rstrip(b"\r").decode(errors="replace")
            self._unread.append(line)
            if line.strip() and not line.lstrip().startswith("[<"):
                self._last.append(line)

    def _say(self, word: str) -> None:
        assert self._process.stdin is not None  # noqa: S101 - it was started with a pipe
        self._process.stdin.write(f"{word}\n".encode())
        self._process.stdin.flush()

    def _last_phrase(self) -> str:
        return " | ".join(self._last) or "nothing"

    def _not_booted(self) -> BootError:
        patience_s = self._machine.boot_patience_s
        return BootError(
            seen=f"{self._machine.label} was not ready within {patience_s:g} s. "
            f"Last output: {self._last_phrase()}",
            cause="This CPU or this container may not support what it needs, or the machine is "
            "overloaded",
            next_step="Try `seatrial lab --machine qemu`, or run the study as root with --loop",
        )


def _require_plain(path: Path) -> None:
    if not _UNFIT & set(str(path)):
        return
    raise TargetError(
        seen=f"The lab's folder cannot be in {str(path)!r}",
        cause="A path on a kernel's command line cannot contain blanks, commas, colons or quotes",
        next_step="Set TMPDIR to a folder without them, and try again",
    )


Choice = Literal["auto", "uml", "qemu"]
KINDS: Final[tuple[type[Machine], ...]] = (UserModeLinux, Qemu)


def machines(choice: Choice) -> list[Machine]:
    """Return the machines that are set up and can run here, best first.

    Args:
        choice: Only this one; ``auto`` for all.

    Raises:
        TargetError: if there is none; it says what to install.
    """
    found: list[Machine] = []
    obstacles: list[str] = []
    for kind in _kinds(choice):
        packages = installed(kind.package_set)
        if packages is not None and not kind.obstacle():
            found.append(kind(packages))
        elif packages is not None:
            obstacles.append(kind.obstacle())
    if found:
        return found
    option = "" if choice == "auto" else f" --machine {choice}"
    if obstacles:
        raise TargetError(
            seen=f"No lab machine can run here: {'; '.join(obstacles)}",
            cause="A required program is missing",
            next_step=f"Install it as root, or run `seatrial lab --setup{option}`",
        )
    raise TargetError(
        seen=f"The packages of the lab are not in {cache_folder()}",
        cause="They have to be downloaded once (about 40 MB), which needs your consent",
        next_step=f"Add --setup{option}, which needs no root: "
        f"`seatrial lab --setup{option} STUDY` downloads them and continues",
    )


def is_fetched(choice: Choice) -> bool:
    """Return whether the packages of a machine have been downloaded.

    Args:
        choice: Only this one; ``auto`` for any.
    """
    return any(installed(kind.package_set) is not None for kind in _kinds(choice))


def set_up_for(choice: Choice, report: Report) -> Machine:
    """Download the packages of a machine, unless present; return the machine.

    Args:
        choice: The machine; with ``auto`` the best.
        report: Called with a sentence for each step.

    Raises:
        TargetError: if they cannot be downloaded.
    """
    kind = _kinds(choice)[0]
    return kind(set_up(kind.package_set, report))


def _kinds(choice: Choice) -> list[type[Machine]]:
    return [kind for kind in KINDS if choice in ("auto", kind.name)]
