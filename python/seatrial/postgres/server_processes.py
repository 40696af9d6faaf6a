"""The processes of our server, identified by their working folder, and how to end them.

Every process of a server works in its data folder, so that a reused process number, or a user's
shell in that folder, is never affected.

Sources: PostgreSQL's src/include/utils/pidfile.h (the lines of ``postmaster.pid``); its
documentation, "Shutting Down the Server" (SIGTERM, SIGINT, SIGQUIT); proc_pid_cwd(5),
proc_pid_exe(5); pidfd_send_signal(2); shmctl(2).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from seatrial.machine.fingerprint.process_usage import parent_of
from seatrial.machine.fingerprint.tree import LIVE
from seatrial.machine.undo_result import PATIENCE_S, wait_until
from seatrial.postgres.memory import (
    mapped_by,
    read_header,
    remove_dynamic_memory,
    segments_mapped_by,
)
from seatrial.process_identity import start_ticks, started_unix_s

_PID_FILE: Final = "postmaster.pid"
_PROGRAMS: Final = frozenset({"postgres", "initdb", "setpriv"})
_IPC_RMID: Final = 0
_KEY_BITS: Final = 0xFFFFFFFF
"""A key has 32 bits; the kernel prints it signed, the pid file unsigned."""
_DETACH_TIMEOUT_S: Final = 1.0
_START_TOLERANCE_S: Final = 60.0


@dataclass(frozen=True, kw_only=True)
class PidFile:
    """The content of a server's ``postmaster.pid``.

    Attributes:
        pid: The postmaster's number, or that of initdb's single process.
        started_s: When it started, in seconds since 1970.
        segment: Key and id of its System V shared memory; None when it has none yet.
        is_ready: Whether it accepts connections.
    """

    pid: int
    started_s: int
    segment: tuple[int, int] | None
    is_ready: bool


def read_pid_file(data_folder: Path) -> PidFile | None:
    """Return the content of ``postmaster.pid``; None when it is missing or incomplete."""
    lines = (LIVE.text(f"{data_folder}/{_PID_FILE}") or "").splitlines()
    # A process without a postmaster, as initdb starts it, writes its number negated.
    number = lines[0].removeprefix("-") if lines else ""
    if len(lines) < 3 or not (number.isdigit() and lines[2].isdigit()):
        return None
    segment = lines[6].split() if len(lines) > 6 else []
    return PidFile(
        pid=int(number),
        started_s=int(lines[2]),
        segment=(int(segment[0]), int(segment[1])) if len(segment) == 2 else None,
        is_ready=len(lines) > 7 and lines[7].strip() == "ready",
    )


def server_pids(data_folder: Path) -> list[int]:
    """Return the numbers of all processes of the server of a data folder."""
    here = os.path.realpath(data_folder)
    numbers = [int(name) for name in LIVE.names("/proc") if name.isdigit()]
    found = [pid for pid in numbers if _works_in(pid, here)]
    return found or _processes_by_pid_file(data_folder, numbers)


def end_server(data_folder: Path, *, patience_s: float = PATIENCE_S) -> bool:
    """End a server by an immediate shutdown, then by killing it; return whether it is gone.

    Its System V shared memory and its pid file are removed as well: the next start would take the
    number of a dead process that init has not reaped yet for a running server.
    """
    written = read_pid_file(data_folder)
    if written is not None and written.pid in server_pids(data_folder):
        _signal(data_folder, [written.pid], signal.SIGQUIT)
        wait_until(lambda: not server_pids(data_folder), patience_s)
    is_gone = kill_server(data_folder, patience_s=patience_s)
    # A server that could not remove its shared memory could not remove its pid file either.
    if is_gone:
        remove_segments(data_folder)
        left = read_pid_file(data_folder)
        if left is not None and start_ticks(left.pid) is None:
            (data_folder / _PID_FILE).unlink(missing_ok=True)
    return is_gone


def kill_server(data_folder: Path, *, patience_s: float = PATIENCE_S) -> bool:
    """Kill all processes of a server at once; return whether all are gone.

    Its shared memory is removed as well, which a killed postmaster cannot do. It is identified by
    the processes that have it mapped: after a power cut the pid file may be missing or outdated.
    """
    shared: set[str] = set()
    segments: set[int] = set()

    def all_are_gone() -> bool:
        left = server_pids(data_folder)
        shared.update(path for pid in left for path in mapped_by(pid))
        segments.update(number for pid in left for number in segments_mapped_by(pid))
        written = read_pid_file(data_folder)
        # The postmaster first: it would restart processes that are killed before it.
        left.sort(key=lambda pid: written is None or pid != written.pid)
        _signal(data_folder, left, signal.SIGKILL)
        return not left

    is_gone = wait_until(all_are_gone, patience_s)
    if is_gone:
        remove_dynamic_memory(shared)
        for number in segments:
            _remove_segment(number)
    return is_gone


def remove_segments(data_folder: Path) -> None:
    """Remove the System V shared memory that a dead server of a folder left behind.

    It is the one in the pid file, or one whose key is the inode of the folder: a server that was
    killed early has not recorded it yet. It is removed only if no process is attached and its
    creator is dead, after the dynamic shared memory that it refers to.

    Source: PostgreSQL's src/backend/port/sysv_shmem.c, ``PGSharedMemoryCreate``.
    """
    # An exiting process shows no program any more while it is still attached to its memory.
    wait_until(
        lambda: not any(segment.attached for segment in _segments_of(data_folder)),
        _DETACH_TIMEOUT_S,
    )
    for segment in _segments_of(data_folder):
        if segment.attached == 0:
            header = read_header(segment.number)
            remove_dynamic_memory([header.control] if header and header.control else [])
            _remove_segment(segment.number)


def _remove_segment(number: int) -> None:
    ctypes.CDLL(None).shmctl(number, _IPC_RMID, None)


@dataclass(frozen=True, kw_only=True)
class _Segment:
    """A line of /proc/sysvipc/shm: unsigned key, id, creator, owner, attached processes."""

    key: int
    number: int
    creator_pid: int
    attached: int
    uid: int


def _segments_of(data_folder: Path) -> list[_Segment]:
    """Return the segments of a folder's dead server, by the rules of ``remove_segments``."""
    written = read_pid_file(data_folder)
    named = None
    if written is not None and written.segment is not None:
        named = (written.segment[0] & _KEY_BITS, written.segment[1], written.pid)
    status = LIVE.status(str(data_folder))
    return [
        segment
        for segment in _segments()
        if (segment.key, segment.number, segment.creator_pid) == named
        or (status is not None and _is_of_folder(segment, status))
    ]


def _is_of_folder(segment: _Segment, folder: os.stat_result) -> bool:
    """Return whether a segment was created by a dead server of a folder, even if incomplete."""
    if (segment.key, segment.uid) != (folder.st_ino & _KEY_BITS, folder.st_uid):
        return False
    if start_ticks(segment.creator_pid) is not None:
        return False
    header = read_header(segment.number)
    return header is None or (header.device, header.inode) == (folder.st_dev, folder.st_ino)


def _segments() -> Iterator[_Segment]:
    """Yield all segments of the machine; see proc_sysvipc_shm(5)."""
    for line in (LIVE.text("/proc/sysvipc/shm") or "").splitlines()[1:]:
        fields = [int(field) for field in line.split()]
        yield _Segment(
            key=fields[0] & _KEY_BITS,
            number=fields[1],
            creator_pid=fields[4],
            attached=fields[6],
            uid=fields[7],
        )


def _works_in(pid: int, folder: str) -> bool:
    """Return whether a process runs a server's program and works in a folder."""
    try:
        cwd = str(Path(f"/proc/{pid}/cwd").readlink())
        if cwd.removesuffix(" (deleted)") != folder:
            return False
        program = str(Path(f"/proc/{pid}/exe").readlink())
    except OSError:
        return False
    return Path(program.removesuffix(" (deleted)")).name in _PROGRAMS


def _processes_by_pid_file(data_folder: Path, numbers: list[int]) -> list[int]:
    """Return the processes found by ``postmaster.pid``, where working folders are hidden.

    A root without CAP_SYS_PTRACE, as in many containers, cannot read those of other users. Then
    owner, name and start time must match to exclude a reused number.
    """
    written = read_pid_file(data_folder)
    if written is None or not _is_postmaster(written, data_folder):
        return []
    return [written.pid, *_descendants(written.pid, numbers)]


def _is_postmaster(written: PidFile, data_folder: Path) -> bool:
    try:
        Path(f"/proc/{written.pid}/cwd").readlink()
    except PermissionError:
        pass
    except OSError:
        return False
    else:
        return False  # Its folder is readable and a different one.
    status = LIVE.status(f"/proc/{written.pid}")
    folder = LIVE.status(str(data_folder))
    if status is None or folder is None or status.st_uid != folder.st_uid:
        return False
    if LIVE.text(f"/proc/{written.pid}/comm") != "postgres":
        return False
    started_s = started_unix_s(written.pid)
    return started_s is not None and abs(started_s - written.started_s) < _START_TOLERANCE_S


def _descendants(pid: int, numbers: list[int]) -> Iterator[int]:
    for child in numbers:
        if parent_of(child) == pid:
            yield child
            yield from _descendants(child, numbers)


def _signal(data_folder: Path, pids: list[int], number: signal.Signals) -> None:
    """Send a signal to processes of the server, in quick succession."""
    handles: list[tuple[int, int]] = []
    try:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                handles.append((pid, os.pidfd_open(pid)))
        # Process numbers cannot be reused while their handles are open, so they are checked now.
        pids_now = set(server_pids(data_folder))
        for pid, handle in handles:
            if pid in pids_now:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(handle, number)
    finally:
        for _pid, handle in handles:
            os.close(handle)
