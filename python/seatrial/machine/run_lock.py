"""One run at a time on a directory, file or device, by whatever name.

A lock is an abstract Unix socket whose name is derived from the identity of what is measured. The
kernel gives such a name to one process at a time, releases it when that process ends, and shows its
owner to all users of the machine. Each network namespace has its own names: runs in two containers
with separate networks do not see each other.
Sources: unix(7), abstract sockets and SO_PEERCRED; proc(5), ``/proc/net/unix``.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import socket
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self
from urllib.parse import parse_qs, urlsplit

from seatrial.errors import RefusedError
from seatrial.machine.fingerprint.medium import (
    extent_of_device,
    file_text,
    layers_below,
    medium_of_disk,
)
from seatrial.machine.fingerprint.mounts import devices_of
from seatrial.machine.fingerprint.stack import physical_directories
from seatrial.machine.fingerprint.tree import LIVE, SystemTree
from seatrial.process_identity import started_unix_s

POLL_S: Final = 0.5
_UNKNOWN_POLL_S: Final = 0.02
_UNKNOWN_MAX: Final = 50
_BACKLOG: Final = 4096
_POSTGRES_PORT: Final = 5432
_LOCK: Final = "seatrial/lock/"
_ON: Final = "seatrial/on/"
_COMMAND_CHARACTERS_MAX: Final = 120
_PASSWORD: Final = re.compile(r"(://[^:/@\s]*):[^@\s]*@")

Report = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Holder:
    """Another run.

    Attributes:
        pid: Its process; 0 where it is in a container and not visible from here.
        command: Its command line, without passwords; empty where it may not be read.
        since_unix_s: Start time of the process; 0 where it is not known.
    """

    pid: int
    command: str
    since_unix_s: float

    def __str__(self) -> str:
        if not self.pid:
            return "a process in another container"
        command = f" (`{self.command}`)" if self.command else ""
        began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.since_unix_s))
        since = f", since {began}" if self.since_unix_s else ""
        return f"process {self.pid}{command}{since}"


class RunLock:
    """The lock on all paths of a run, held as a context.

    Args:
        paths: Paths that are measured.
        servers: Addresses of the servers that are measured.
        waits: Whether to wait for another run to end rather than to refuse.
        report: Called once with a sentence when it waits.
        tree: The machine.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        *,
        servers: Sequence[str] = (),
        waits: bool,
        report: Report,
        tree: SystemTree = LIVE,
    ) -> None:
        self._paths = {name: str(path) for path in paths for name in identities(path, tree)}
        self._paths |= {_server_name(server): server for server in servers}
        self._media = sorted({name for path in paths for name in media(path, tree)})
        self._waits = waits
        self._report = report
        self._sockets: list[socket.socket] = []

    def __enter__(self) -> Self:
        """Take the lock.

        Raises:
            RefusedError: when another run holds a lock and ``waits`` is false.
        """
        reported = False
        unknown_count = 0
        while taken := self._take():
            path, holder = taken
            if holder is None and unknown_count < _UNKNOWN_MAX:
                # The other run has just ended or begun.
                unknown_count += 1
                time.sleep(_UNKNOWN_POLL_S)
                continue
            if not self._waits:
                raise _refused(path, holder)
            if not reported:
                self._report(f"Waiting for the run on {path} to finish: {holder}")
                reported = True
            time.sleep(POLL_S)
        for name in self._media:
            found = _bound(f"{_ON}{name}/{os.getpid()}")
            self._sockets += [found] if found else []
        return self

    def __exit__(self, *_exception: object) -> None:
        self._release()

    def neighbours(self) -> list[Holder]:
        """Return the other runs that measure on the same media now, in other files or folders."""
        prefixes = tuple(f"@{_ON}{name}/" for name in self._media)
        own = f"/{os.getpid()}"
        table = LIVE.text("/proc/net/unix") or ""
        names = {line.split()[-1] for line in table.splitlines() if f"@{_ON}" in line}
        found = {_holder(n[1:]) for n in names if n.startswith(prefixes) and not n.endswith(own)}
        return sorted((each for each in found if each), key=lambda each: each.pid)

    def _take(self) -> tuple[str, Holder | None] | None:
        """Take all locks or none, so that two runs cannot wait for each other."""
        for name, path in sorted(self._paths.items()):
            made = _bound(_LOCK + name)
            if made is None:
                holder = _holder(_LOCK + name)
                self._release()
                return path, holder
            self._sockets.append(made)
        return None

    def _release(self) -> None:
        for each in self._sockets:
            each.close()
        self._sockets = []


def identities(path: Path, tree: SystemTree = LIVE) -> list[str]:
    """Return the names under which a path is locked; paths that share bytes share a name.

    A block device is locked with every medium below it, so that two partitions or volumes of one
    disk count as one: each is affected by the load on the other.
    """
    number = tree.block_number(str(path))
    if number is None:
        status = tree.status(str(path))
        return [_hashed(f"file {file_text(status)}")] if status else []
    names: list[str] = []
    for each in (number, *layers_below(tree, number)):
        medium = extent_of_device(tree, each).medium
        names += [medium.own, *([medium.lasting] if medium.lasting else [])]
    return [_hashed(name) for name in dict.fromkeys(names)]


def media(path: Path, tree: SystemTree = LIVE) -> list[str]:
    """Return names of the physical media below a path; two paths to a disk have one in common."""
    names = []
    for directory in physical_directories(tree, devices_of(tree, str(path))):
        number = tree.word(f"{directory}/dev") or ""
        medium = medium_of_disk(tree, number, directory)
        names.append(_hashed(medium.lasting or medium.own))
    return names


def _hashed(name: str) -> str:
    """Return a name that is safe to publish: serial numbers are not for all users."""
    return hashlib.sha256(name.encode()).hexdigest()[:32]


def _bound(name: str) -> socket.socket | None:
    """Return a socket bound to that name; None when another process has it.

    Where a sandbox forbids such names the socket is unbound, and runs do not see each other.
    """
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        made.bind(b"\0" + name.encode())
        made.listen(_BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            made.close()
            return None
    return made


def _server_name(address: str) -> str:
    """Return the lock name of the server at a URL; databases of one server share its storage."""
    parts = urlsplit(address)
    host = parts.hostname or next(iter(parse_qs(parts.query).get("host", [])), "localhost")
    is_here = host in {"127.0.0.1", "::1"} or host.startswith("/")
    return _hashed(f"server {'localhost' if is_here else host}:{parts.port or _POSTGRES_PORT}")


def _holder(name: str) -> Holder | None:
    """Return the process that holds a name; None if it is free by now."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as asking:
        asking.setblocking(False)
        try:
            asking.connect(b"\0" + name.encode())
            credentials = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        except OSError:
            return None
    (pid, _user, _group) = struct.unpack("=iII", credentials)
    return Holder(pid=pid, command=_command(pid), since_unix_s=started_unix_s(pid) or 0.0)


def _command(pid: int) -> str:
    words = (LIVE.text(f"/proc/{pid}/cmdline") or "").split("\0")
    if len(words) > 1 and Path(words[0]).name.startswith("python"):
        words = words[1:]
    words[0] = Path(words[0]).name
    return _PASSWORD.sub(r"\1:***@", " ".join(words))[:_COMMAND_CHARACTERS_MAX].strip()


def _refused(path: str, holder: Holder | None) -> RefusedError:
    end = f", or end it with `kill -INT {holder.pid}`" if holder and holder.pid else ""
    return RefusedError(
        seen=f"Another run is measuring {path}: {holder or 'it has just ended'}",
        cause="Two runs at once on one directory, file or disk would disturb each other",
        next_step=f"Wait for it with `--wait`{end}",
    )
