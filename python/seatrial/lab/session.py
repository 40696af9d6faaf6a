"""One life of a lab: it boots, runs one command as its root, and is gone."""

from __future__ import annotations

import os
import secrets
import selectors
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from seatrial.errors import TargetError
from seatrial.lab.disks import make_disks
from seatrial.lab.init import ENDED, READY, STOP, Script
from seatrial.lab.machine import Boot, Machine, disk_serial
from seatrial.lab.processor import on_one_processor
from seatrial.machine.file import TrialFolder
from seatrial.machine.undo import UndoJournal

MEMORY_BYTES: Final = 1 << 30
STOP_GRACE_S: Final = 30.0
END_PATIENCE_S: Final = 20.0
_LINES_KEPT: Final = 20
_POLL_S: Final = 0.5
_UNFIT: Final = frozenset(" \t\n,:'\"\\")
"""Characters that a kernel's command line gives a meaning of their own."""

# When seatrial is gone, its end of the pipe is closed, and everything is killed, the keeper last;
# so it is when the machine has ended, for not all of its processes end then. User-mode Linux has
# a process group of its own. The shell has nothing to tell of its own: it would say "Killed".
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

Tell = Callable[[str], None]
"""Told each line that the command writes."""


class BootError(TargetError):
    """The machine did not get as far as running the command."""


@dataclass(frozen=True, kw_only=True)
class Lab:
    """A lab's place on the host, before and after its machine runs.

    Attributes:
        machine: What it runs on.
        folder: Its own folder.
        disks: The files that are its disks.
        journal: Where all that it makes is recorded.
    """

    machine: Machine
    folder: TrialFolder
    disks: tuple[Path, ...]
    journal: UndoJournal

    @property
    def devices(self) -> list[str]:
        """The device of each disk, as the guest names it."""
        return self.machine.disk_names(len(self.disks))

    @property
    def serials(self) -> list[str]:
        """The serial number of each disk, as the guest reads it."""
        return [disk_serial(number) for number in range(len(self.disks))]


@contextmanager
def open_lab(
    machine: Machine, run_id: str, *, disks: int, disk_bytes: int, place: Path | None = None
) -> Iterator[Lab]:
    """Make a lab's folder and its disks; all of it is gone at the end.

    Args:
        machine: What it runs on.
        run_id: Names its folder and its undo journal.
        disks: How many.
        disk_bytes: Size of each.
        place: Where the folder lies; by default the folder for temporary files.

    Raises:
        UsageError: when there are too many disks, or the undo journal cannot be used.
        TargetError: when the folder cannot be made or has too little space for the disks.
    """
    where = (place or Path(tempfile.gettempdir())).resolve()
    _require_plain(where)
    with machine.packages.in_use(), UndoJournal(run_id) as journal:
        folder = TrialFolder(where, run_id, journal)
        with folder.open(disks * disk_bytes, direct=False, shrink_option="--disks"):
            made = make_disks(folder, disks, disk_bytes)
            yield Lab(machine=machine, folder=folder, disks=made, journal=journal)


def run_inside(
    lab: Lab,
    argv: Sequence[str],
    *,
    shared: Path,
    report: Tell,
    environment: Mapping[str, str] | None = None,
    working_folder: Path | None = None,
    memory_bytes: int = MEMORY_BYTES,
) -> int:
    """Run a command inside a lab as the root of its guest; return its exit status.

    Args:
        lab: The lab.
        argv: The command; every path of the host is there under its own name, and what is written
            is gone at the end.
        shared: A folder that the guest shares with the host; it finds the kernel's log there, too.
        report: Told each line of the command's output and complaints.
        environment: Variables of the command beside those that it needs.
        working_folder: Where it runs; by default the shared folder.
        memory_bytes: Memory of the guest.

    Raises:
        BootError: when the machine does not get as far as the command.
        TargetError: when it ends before the command does.
        KeyboardInterrupt: when interrupted; the command was asked to end, and has ended.
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
    """Return what every command inside gets: nothing of the host's own is passed on unasked."""
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
    """Start the machine in a session of its own; every process of it is ended at the end."""
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
    """What the guest says, line by line, and the few words that it is told."""

    def __init__(
        self, process: subprocess.Popen[bytes], nonce: str, machine: Machine, report: Tell
    ) -> None:
        self._process = process
        self._nonce = nonce
        self._machine = machine
        self._report = report
        self._unread: deque[str] = deque()
        self._last: deque[str] = deque(maxlen=_LINES_KEPT)
        self._rest = b""

    def await_ready(self) -> None:
        """Read on until the guest is ready.

        Raises:
            BootError: when it is not in time.
        """
        give_up_at_s = time.monotonic() + self._machine.boot_patience_s
        for line in self._lines(give_up_at_s):
            if line.startswith(f"{READY} {self._nonce}"):
                return
        raise self._not_booted()

    def await_end(self) -> int:
        """Read on until the command has ended; return its exit status.

        Raises:
            TargetError: when the machine ends before.
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
            seen=f"The lab's kernel ({self._machine.label}) ended before its command did. "
            f"It said last: {self._last_words()}",
            cause="It was killed, ran out of memory or met a defect of its own",
            next_step="Give it more memory with --memory 2G, or try --machine qemu",
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

    def _last_words(self) -> str:
        return " | ".join(self._last) or "nothing"

    def _not_booted(self) -> BootError:
        patience_s = self._machine.boot_patience_s
        return BootError(
            seen=f"{self._machine.label} was not ready within {patience_s:g} s. "
            f"It said last: {self._last_words()}",
            cause="This processor or this container may not allow what it needs, or the machine "
            "is overloaded",
            next_step="Try `seatrial lab --machine qemu`, or run the study as root with --loop",
        )


def _require_plain(place: Path) -> None:
    if not _UNFIT & set(str(place)):
        return
    raise TargetError(
        seen=f"The lab's folder cannot lie in {str(place)!r}",
        cause="A kernel's command line takes no blanks, commas, colons or quotes in a path",
        next_step="Set TMPDIR to a folder without them, and try again",
    )
