"""Access to the machine's files and commands through a tree with a root.

All other modules here use a ``SystemTree``, so that tests can put a simulated ``/sys`` and
``/proc`` in a folder and check the result for hardware that is not available.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from seatrial.interrupts import uninterrupted

TEXT_LIMIT_BYTES: Final = 1 << 20
"""No file of ``/sys`` or ``/proc`` that is read here is longer."""

_LAST_WORDS_S: Final = 0.5
_IN_ORDER_S: Final = 5.0
_RECORD_BYTES_MAX: Final = 8192
_RECORDS_MAX: Final = 200_000


class CommandOutput(NamedTuple):
    """The result of a command.

    Attributes:
        status: Its exit status.
        output: Its standard output.
        error_output: Its standard error.
    """

    status: int
    output: str
    error_output: str


class CommandMissingError(Exception):
    """The command is not installed."""


class CommandTimeoutError(Exception):
    """The command did not end within its time and was killed."""


RunCommand = Callable[[Sequence[str], float], CommandOutput]
"""Runs a command with a timeout (s); raises the two errors above."""


def run_command(
    argv: Sequence[str],
    timeout_s: float,
    *,
    given: str | None = None,
    variables: Mapping[str, str] | None = None,
) -> CommandOutput:
    """Run a system command without a shell and return its output.

    Args:
        argv: Program and arguments.
        timeout_s: The command is killed after this time (s).
        given: Its standard input.
        variables: Environment variables in addition to ours.

    Raises:
        CommandMissingError: when it is not installed or may not be executed.
        CommandTimeoutError: when it ran longer than ``timeout_s`` seconds.
    """
    environment = {**os.environ, "LC_ALL": "C", "PATH": _search_path(), **(variables or {})}
    try:
        # In its own process group, so that Ctrl-C reaches only us, and we end it.
        with uninterrupted():
            process = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL if given is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                process_group=0,
            )
    except OSError as error:
        raise CommandMissingError(argv[0]) from error
    try:
        output, error_output = process.communicate(
            None if given is None else given.encode(), timeout=timeout_s
        )
    except subprocess.TimeoutExpired as error:
        _end(process)
        raise CommandTimeoutError(argv[0]) from error
    except BaseException:
        # Its changes will be undone next: it must not go on making them.
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_IN_ORDER_S)
        _end(process)
        raise
    return CommandOutput(
        process.returncode, output.decode(errors="replace"), error_output.decode(errors="replace")
    )


def program_path(name: str) -> str | None:
    """Return the path at which ``run_command`` finds a program; None if not installed."""
    return shutil.which(name, path=_search_path())


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that timed out, and wait for it only briefly.

    A command that queries a hanging drive cannot be killed before the drive responds; waiting for
    it would hang as well.
    """
    process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=_LAST_WORDS_S)


def _search_path() -> str:
    """Return PATH with the folders of system tools, which a user's PATH may lack."""
    return os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/local/sbin:/usr/sbin:/sbin"


class SystemTree:
    """The machine as files under a root. What does not exist reads as None, never as an error.

    Paths are given as on the machine (``/sys/block/sda/size``) whatever the root is.

    Attributes:
        root: Folder that represents ``/``.
        run: Runs a command; raises ``CommandMissingError`` or ``CommandTimeoutError``.
    """

    def __init__(self, root: Path = Path("/"), run: RunCommand = run_command) -> None:
        self.root = root
        self.run = run
        self._prefix = "" if str(root) == "/" else os.path.realpath(root)

    def at(self, path: str) -> str:
        """Return the real path below the root."""
        return self._prefix + path

    def data(self, path: str, limit_bytes: int = TEXT_LIMIT_BYTES) -> bytes | None:
        """Return the file's first ``limit_bytes`` bytes; None when it cannot be read.

        A special file is opened without blocking, so that no read here can hang.
        """
        try:
            handle = os.open(self.at(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return None
        parts: list[bytes] = []
        left_bytes = limit_bytes
        try:
            while left_bytes > 0 and (part := os.read(handle, min(left_bytes, 65536))):
                parts.append(part)
                left_bytes -= len(part)
        except OSError:
            return None
        finally:
            os.close(handle)
        return b"".join(parts)

    def records(self, path: str) -> bytes:
        """Return the current records of a log device such as ``/dev/kmsg``.

        Each read yields one record; EAGAIN ends them, and EPIPE means that some were overwritten.

        Raises:
            OSError: when it does not exist or is not readable.
        """
        handle = os.open(self.at(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        found: list[bytes] = []
        try:
            for _ in range(_RECORDS_MAX):
                try:
                    record = os.read(handle, _RECORD_BYTES_MAX)
                except BlockingIOError:
                    break
                except BrokenPipeError:
                    continue
                if not record:
                    break
                found.append(record)
        finally:
            os.close(handle)
        return b"".join(found)

    def text(self, path: str, limit_bytes: int = TEXT_LIMIT_BYTES) -> str | None:
        """Return the file's text without surrounding white space; None when it is not readable."""
        data = self.data(path, limit_bytes)
        return None if data is None else data.decode(errors="replace").strip("\0 \t\r\n")

    def word(self, path: str) -> str | None:
        """Return the file's text; None also when it is empty."""
        return self.text(path) or None

    def integer(self, path: str) -> int | None:
        """Return the file's number, decimal or ``0x`` hexadecimal; None when it holds none."""
        text = self.text(path)
        try:
            return None if text is None else int(text, 0 if text.startswith("0x") else 10)
        except ValueError:
            return None

    def flag(self, path: str) -> bool | None:
        """Return whether the file's number is not 0; None when it holds none."""
        number = self.integer(path)
        return None if number is None else number != 0

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted; empty when it cannot be read."""
        try:
            with os.scandir(self.at(folder)) as entries:
                return sorted(entry.name for entry in entries)
        except OSError:
            return []

    def exists(self, path: str) -> bool:
        """Return whether a path exists, links followed."""
        return self.status(path) is not None

    def status(self, path: str) -> os.stat_result | None:
        """Return stat(2) of the path, links followed; None when it does not exist."""
        try:
            return Path(self.at(path)).stat()
        except OSError:
            return None

    def resolve(self, path: str) -> str | None:
        """Return the path with every link followed; None when it does not exist."""
        try:
            real = os.path.realpath(self.at(path), strict=True)
        except OSError:
            return None
        inside = real == self._prefix or real.startswith(self._prefix + "/")
        return (real[len(self._prefix) :] or "/") if inside else None

    def link(self, path: str) -> str | None:
        """Return the target of a symbolic link, verbatim; None when it cannot be read."""
        try:
            return os.readlink(self.at(path))  # noqa: PTH115 - of every process, often
        except OSError:
            return None

    def block_number(self, path: str) -> str | None:
        """Return ``major:minor`` of the block device at a path; None for another kind.

        A name under ``/dev`` without a device node is looked up in sysfs.
        """
        status = self.status(path)
        if status is not None and stat.S_ISBLK(status.st_mode):
            return f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
        if not path.startswith("/dev/"):
            return None
        name = (self.resolve(path) or path).removeprefix("/dev/")
        # sysfs writes a slash in a device's name as an exclamation mark (cciss/c0d0).
        return self.word(f"/sys/class/block/{name.replace('/', '!')}/dev")

    def mount_id(self, path: str) -> int | None:
        """Return the kernel's number of the mount of a path; None when unknown.

        Source: proc(5), ``/proc/[pid]/fdinfo``: field ``mnt_id``, since Linux 3.15.
        """
        try:
            handle = os.open(self.at(path), os.O_PATH | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            lines = (self.text(f"/proc/self/fdinfo/{handle}") or "").splitlines()
        finally:
            os.close(handle)
        for line in lines:
            key, _, value = line.partition(":")
            if key == "mnt_id":
                return int(value)
        return None


LIVE: Final = SystemTree()
"""This machine."""
