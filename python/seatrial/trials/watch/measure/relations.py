"""Which relation of a PostgreSQL server a request belongs to, by the extents of its files.

A file belongs to a relation by its number (pg_relation_filepath), to the WAL or to another part of
the server by its folder (PostgreSQL manual, "Database File Layout"). What was written to a file
that is gone meanwhile still belongs to its former owner, unless another file was stored there.
"""

from __future__ import annotations

import array
import bisect
import fcntl
import os
import re
import stat
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from seatrial.descriptor import closing
from seatrial.errors import TargetError
from seatrial.machine.fingerprint.tree import LIVE
from seatrial.postgres.server_processes import server_pids
from seatrial.trials.watch.analysis.activity import NOT_MAPPED
from seatrial.trials.watch.measure.readings import ServerThread
from seatrial.trials.watch.measure.volume import DeviceNumber, Volume, volume_of

if TYPE_CHECKING:
    import psycopg

    from seatrial.postgres.connection import Address, Secret
    from seatrial.trials.database.measure.observe_server import Session

_SEGMENT: Final = re.compile(r"^(?P<number>t?\d+(?:_\d+)?)(?P<fork>_fsm|_vm|_init)?(?:\.\d+)?$")
_PARTS: Final = {
    "pg_wal": "WAL",
    "pg_xact": "transaction status",
    "pg_subtrans": "transaction status",
    "pg_multixact": "transaction status",
    "pg_commit_ts": "transaction status",
    "pg_logical": "logical decoding",
    "pg_replslot": "replication slots",
    "pg_stat": "statistics",
    "pg_stat_tmp": "statistics",
    "log": "server log",
    "global": "shared catalogues",
}
_START_S: Final = 10.0
_WAIT_S: Final = 0.25
"""How long an interval waits for the names of new files; later ones come with the next."""
_REST: Final = 4
"""Names are read for at most a fifth of the time: how long a rest is, in readings."""
_OF_DATABASES: Final = ("base", "pg_tblspc")
_VOLUMES_S: Final = 30.0
"""How long the layers below a file system count as unchanged."""
_KTHREADD: Final = "2"
"""The parent of all threads of the kernel."""
_KERNEL_THREADS: Final = ("kworker/", "jbd2/", "xfsaild/", "kswapd", "loop")
_TEMPORARY: Final = "temporary files"
_KINDS: Final = {"r": "", "i": "index", "t": "TOAST", "m": "materialised view", "S": "sequence"}
RELATIONS: Final = """
      FROM pg_class c
      LEFT JOIN pg_index i ON i.indexrelid = c.oid
      LEFT JOIN pg_class t ON t.oid = i.indrelid
      LEFT JOIN pg_class o ON o.reltoastrelid = c.oid
     WHERE c.relkind IN ('r', 'i', 't', 'm', 'S') AND pg_relation_filepath(c.oid) IS NOT NULL
"""
"""The relations of a database that have files."""
NAMES: Final = """
    SELECT CASE WHEN pg_table_is_visible(c.oid) OR c.relnamespace = 'pg_toast'::regnamespace
                THEN '' ELSE c.relnamespace::regnamespace::text || '.' END || c.relname,
           c.relkind::text, coalesce(t.relname, o.relname, '')
"""
"""What :func:`relation_name` takes of each of them; a name is unique in the database."""
_RELATIONS: Final = f"{NAMES}, pg_relation_filepath(c.oid) {RELATIONS}"
_DATABASES: Final = "SELECT oid::text, datname FROM pg_database"
_OWN: Final = """
    SELECT pg_backend_pid(), oid::text FROM pg_database WHERE datname = current_database()
"""


def relation_name(name: str, kind: str, table: str) -> str:
    """Return what a relation is called in a recording.

    Args:
        name: Its name, with its schema where that is not in the search path.
        kind: Its letter in ``pg_class.relkind``.
        table: The table that it belongs to; empty for none.
    """
    words = f" ({_KINDS[kind]}{f' of {table}' if table else ''})" if _KINDS[kind] else ""
    return f"{name}{words}"


class _Owner(NamedTuple):
    """Whose a file is, and whether names that are read later cannot tell more of it."""

    name: str
    is_final: bool = True


class _FileState(NamedTuple):
    """What a file looked like when its extents were read."""

    inode: int
    size_bytes: int
    allocated_blocks: int
    modified_ns: int
    owner: _Owner
    is_whole: bool
    volume: Volume
    extents: dict[DeviceNumber, list[Extent]]


class Names(ServerThread):
    """What the files of a server are called."""

    def __init__(self, address: Address, secret: Secret | None) -> None:
        """Connect to the database whose relations are named; others are one each.

        Raises:
            TargetError: when the server cannot be reached.
        """
        self._changed = threading.Condition()
        self._is_requested = False
        self._rest_until_s = 0.0
        self._latest: dict[str, str] = {}
        super().__init__(address, secret)

    def ask(self, wait_s: float) -> dict[str, str]:
        """Return the names of now, or the last ones if the server does not answer in time."""
        with self._changed:
            # A server that has not answered yet is not waited for again.
            if not self._is_requested and time.monotonic() >= self._rest_until_s:
                self._is_requested = True
                self._changed.notify_all()
                self._changed.wait_for(lambda: not self._is_requested, wait_s)
            return self._latest

    def stop(self) -> None:
        """End the thread and the connection, also while a query hangs."""
        self._ended.set()
        with self._changed:
            self._changed.notify_all()
        super().stop()

    def _poll(self, session: Session) -> None:
        # Of many relations, reading takes longer than other queries may.
        session.rows("SELECT set_config('statement_timeout', '0', false)", {})
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_requested or self._ended.is_set())
            if self._ended.is_set():
                return
            began_s = time.monotonic()
            names = {f"base/{oid}": f"database {name}" for oid, name in _rows(session, _DATABASES)}
            for name, kind, table, path in _rows(session, _RELATIONS):
                names[path] = relation_name(name, kind, table)
            ended_s = time.monotonic()
            with self._changed:
                # Files of what was dropped are there until the next checkpoint.
                self._latest = self._latest | names
                self._rest_until_s = ended_s + _REST * (ended_s - began_s)
                self._is_requested = False
                self._changed.notify_all()


def _rows(session: Session, query: str) -> list[tuple[str, ...]]:
    return session.rows(query, {}) or []


class Relations:
    """The files of one server, and whose the bytes of its disks are."""

    def __init__(
        self, connection: psycopg.Connection, address: Address, secret: Secret | None = None
    ) -> None:
        """Find the files of a server, and read their names until it is stopped.

        Args:
            connection: A connection to the server; needed only here.
            address: The database whose relations are named; others are one each.
            secret: The password, if needed.

        Raises:
            TargetError: if the data directory cannot be read here, or the server not be reached.
        """
        self.folder = _data_folder(connection)
        row = connection.execute(_OWN).fetchone()
        is_here = row is not None and row[0] in server_pids(self.folder)
        if not is_here or not os.access(self.folder / "base", os.R_OK | os.X_OK):
            raise TargetError(
                seen=f"The data directory {self.folder} cannot be read.",
                cause="The server runs on another machine or in a container, or its files "
                "belong to another user.",
                next_step="Run it as root on the machine of the server, or without --url",
            )
        self._own_database = row[1] if row else ""
        self._reader = Names(address, secret)
        self._names = self._reader.ask(_START_S)
        self._files: dict[Path, _FileState] = {}
        self._former: dict[DeviceNumber, list[Extent]] = {}
        self._maps: dict[DeviceNumber, tuple[ExtentMap, ExtentMap]] = {}
        self._commands: set[str] = set()
        self._volumes: dict[int, Volume | None] = {}
        self._volumes_until_s = 0.0
        self.not_followed: dict[int, TargetError] = {}
        self.refresh()

    def stop(self) -> None:
        """End the reading of names."""
        self._reader.stop()

    @property
    def disks(self) -> list[DeviceNumber]:
        """The disks that hold its files."""
        return list(self._maps)

    def owners_of(
        self, disk: DeviceNumber, offset_bytes: int, length_bytes: int
    ) -> list[tuple[str, int]]:
        """Return the relations that a request belongs to, the one with the most bytes first."""
        maps = self._maps.get(disk)
        if maps is None:
            return [(NOT_MAPPED, length_bytes)]
        present, former = maps
        found: Counter[str] = Counter()
        at_bytes = offset_bytes
        for owner, part_bytes in present.parts(offset_bytes, offset_bytes + length_bytes):
            found[owner or former.owner_at(at_bytes) or NOT_MAPPED] += part_bytes
            at_bytes += part_bytes
        return found.most_common()

    def is_of_other_program(self, pid: int, command: str) -> bool:
        """Return whether a process is neither the server's nor one of the kernel's threads.

        Those write for any process that has written to the page cache. A process that has ended
        meanwhile is known by its name alone.
        """
        if command in self._commands or command.startswith(_KERNEL_THREADS):
            return False
        fields = (LIVE.text(f"/proc/{pid}/stat") or "").rpartition(")")[2].split()
        return not fields or fields[1] != _KTHREADD

    def refresh(self) -> None:
        """Read the extents of files that are new or have changed since the last time."""
        names = (LIVE.word(f"/proc/{pid}/comm") for pid in server_pids(self.folder))
        self._commands = {*filter(None, names)}
        found: dict[Path, _FileState] = {}
        self._expire_volumes()
        by_disk: dict[DeviceNumber, list[Extent]] = {}
        is_requested = False
        for path, status in _files(self.folder):
            if (volume := self._volume(status.st_dev)) is None:
                continue
            owner = self._owner(path)
            if status.st_size and not owner.is_final and not is_requested:
                self._names = self._reader.ask(_WAIT_S)
                is_requested = True
                owner = self._owner(path)
            file = self._read(path, status, volume, owner)
            found[path] = file
            for number, extents in file.extents.items():
                by_disk.setdefault(number, []).extend(extents)
        gone: dict[DeviceNumber, list[Extent]] = {}
        for path, file in self._files.items():
            if path not in found or found[path].inode != file.inode:
                for number, extents in file.extents.items():
                    gone.setdefault(number, []).extend(extents)
        for number, extents in gone.items():
            self._former[number] = replaced(self._former.get(number, []), extents)
        self._files = found
        self._maps = {
            number: (ExtentMap(extents), ExtentMap(self._former.get(number, [])))
            for number, extents in by_disk.items()
        }

    def _expire_volumes(self) -> None:
        """Forget the volumes of file systems from time to time, as they grow and are moved."""
        if time.monotonic() >= self._volumes_until_s:
            self._volumes, self.not_followed = {}, {}
            self._volumes_until_s = time.monotonic() + _VOLUMES_S

    def _volume(self, device: int) -> Volume | None:
        """Return the volume of a file system; None where that cannot be followed."""
        if device not in self._volumes:
            try:
                self._volumes[device] = volume_of(device)
            except TargetError as error:
                self._volumes[device] = None
                self.not_followed[device] = error
        return self._volumes[device]

    def _read(
        self, path: Path, status: os.stat_result, volume: Volume, owner: _Owner
    ) -> _FileState:
        known = self._files.get(path)
        state = (status.st_ino, status.st_size, status.st_blocks, status.st_mtime_ns, owner)
        is_known = known is not None and known.is_whole and known.volume == volume
        if known is not None and is_known and known[: len(state)] == state:
            return known
        try:
            found = extents_of(path, volume, owner.name)
        except OSError:  # deleted meanwhile, or a file system without FIEMAP
            found = FileExtents({}, is_whole=True)
        return _FileState(*state, found.is_whole, volume, found.extents)

    def _owner(self, path: Path) -> _Owner:
        known = self._files.get(path)
        if known is not None and known.owner.is_final:
            return known.owner
        inside = path.relative_to(self.folder)
        folder = inside.parts[0]
        if "pgsql_tmp" in path.as_posix():
            return _Owner(_TEMPORARY)
        segment = _SEGMENT.match(inside.name)
        relation = self._names.get(f"{inside.parent}/{segment['number']}") if segment else None
        if relation or folder not in _OF_DATABASES:
            return _Owner(relation or _PARTS.get(folder, folder))
        oid = inside.parent.name
        database = self._names.get(f"base/{oid}")
        # Of this database, what a transaction creates has a name when that commits.
        is_of_other = database is not None and oid != self._own_database
        return _Owner(database or folder, is_final=is_of_other or segment is None)


def _data_folder(connection: psycopg.Connection) -> Path:
    """Return the data directory of a server, as it names it.

    Raises:
        TargetError: if this role may not know it.
    """
    import psycopg  # noqa: PLC0415 - heavy, and only where there is a server

    try:
        row = connection.execute("SHOW data_directory").fetchone()
    except psycopg.errors.InsufficientPrivilege:
        raise TargetError(
            seen="The server does not reveal its data directory.",
            cause="The role is not a member of pg_read_all_settings.",
            next_step="Grant it pg_read_all_settings, or use another role",
        ) from None
    return Path(row[0] if row else "")


def _files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield the regular files of a data directory, its tablespaces and a linked WAL."""
    for parent, _, names in os.walk(folder, followlinks=True):
        for name in names:
            path = Path(parent, name)
            try:
                status = path.stat()
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode):
                yield path, status


_FIEMAP: Final = 0xC020660B
_HEADER: Final = struct.Struct("=QQLLLL")
_EXTENT: Final = struct.Struct("=QQQQQLLLL")
_EXTENTS_AT_ONCE: Final = 512
_LAST: Final = 0x1
_NO_ADDRESS: Final = 0x2 | 0x4 | 0x8
"""Unknown address, delayed allocation, encoded: the extent has no address on the disk."""


class Extent(NamedTuple):
    """A part of a disk that belongs to a file.

    Attributes:
        start_bytes: Its offset on the disk.
        end_bytes: Offset of its end.
        owner: The file's owner, as the map's user names it.
    """

    start_bytes: int
    end_bytes: int
    owner: str


class FileExtents(NamedTuple):
    """The parts of disks that hold a file.

    Attributes:
        extents: The parts, by disk.
        is_whole: Whether all of the file has an address; what was written a moment ago may get one
            later (delayed allocation).
    """

    extents: dict[DeviceNumber, list[Extent]]
    is_whole: bool


def extents_of(path: Path, volume: Volume, owner: str) -> FileExtents:
    """Return the parts of disks that hold a file.

    Args:
        path: The file.
        volume: The volume of its file system.
        owner: Its owner.

    Raises:
        OSError: if the file cannot be opened, or its file system has no FIEMAP.
    """
    with closing(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)) as file:
        addresses = list(_addresses(file))
    found: dict[DeviceNumber, list[Extent]] = {}
    for address in addresses:
        for part in volume.extents(*address) if address else ():
            extent = Extent(part.start_bytes, part.end_bytes, owner)
            found.setdefault(part.disk, []).append(extent)
    return FileExtents(found, is_whole=None not in addresses)


def _addresses(file: int) -> Iterator[tuple[int, int] | None]:
    """Yield start and end of each extent of an open file; None for one without an address."""
    start_bytes, is_last = 0, False
    empty = b"\0" * (_EXTENT.size * _EXTENTS_AT_ONCE)
    while not is_last:
        request = _HEADER.pack(start_bytes, (1 << 64) - 1, 0, 0, _EXTENTS_AT_ONCE, 0)
        buffer = array.array("B", request + empty)
        fcntl.ioctl(file, _FIEMAP, buffer)
        count = _HEADER.unpack_from(buffer)[3]
        if not count:
            return
        for index in range(count):
            entry = _EXTENT.unpack_from(buffer, _HEADER.size + index * _EXTENT.size)
            logical_bytes, physical_bytes, length_bytes, _, _, flags, *_ = entry
            start_bytes = logical_bytes + length_bytes
            is_last = bool(flags & _LAST)
            has_address = not flags & _NO_ADDRESS
            yield (physical_bytes, physical_bytes + length_bytes) if has_address else None


def disjoint(extents: Iterable[Extent]) -> list[Extent]:
    """Return extents in order; where several overlap, the one that begins first has the bytes."""
    found: list[Extent] = []
    end_bytes = 0
    for each in sorted(extents):
        if each.end_bytes > end_bytes:
            start_bytes = max(each.start_bytes, end_bytes)
            found.append(each._replace(start_bytes=start_bytes))
            end_bytes = each.end_bytes
    return found


def replaced(former: Iterable[Extent], gone: Iterable[Extent]) -> list[Extent]:
    """Return disjoint extents of files that are gone, of which the last ones win.

    Args:
        former: Extents of files that were gone before.
        gone: Extents of those that are gone now.
    """
    found = disjoint(gone)
    starts = [each.start_bytes for each in found]
    for each in former:
        index = max(0, bisect.bisect_right(starts, each.start_bytes) - 1)
        at_bytes = each.start_bytes
        while at_bytes < each.end_bytes:
            newer = found[index] if index < len(starts) else None
            until_bytes = min(each.end_bytes, newer.start_bytes) if newer else each.end_bytes
            if at_bytes < until_bytes:
                found.append(Extent(at_bytes, until_bytes, each.owner))
            at_bytes = max(at_bytes, until_bytes, newer.end_bytes if newer else 0)
            index += 1
    return found


class ExtentMap:
    """Whose the bytes of a disk are."""

    def __init__(self, extents: Iterable[Extent] = ()) -> None:
        self._extents = disjoint(extents)
        self._starts = [each.start_bytes for each in self._extents]

    def owner_at(self, offset_bytes: int) -> str | None:
        """Return the owner of a byte of the disk; None if it is not a file's that is known."""
        ((owner, _),) = self.parts(offset_bytes, offset_bytes + 1)
        return owner

    def parts(self, start_bytes: int, end_bytes: int) -> Iterator[tuple[str | None, int]]:
        """Yield the owners of a part of the disk, in order, and how many bytes are each one's.

        The kernel merges requests to neighbouring files into one.
        """
        index = max(0, bisect.bisect_right(self._starts, start_bytes) - 1)
        at_bytes = start_bytes
        while at_bytes < end_bytes:
            found = self._extents[index] if index < len(self._extents) else None
            if found is None or at_bytes < found.start_bytes:
                until_bytes = min(end_bytes, found.start_bytes) if found else end_bytes
                yield None, until_bytes - at_bytes
                at_bytes = until_bytes
            elif at_bytes < found.end_bytes:
                until_bytes = min(end_bytes, found.end_bytes)
                yield found.owner, until_bytes - at_bytes
                at_bytes = until_bytes
                index += 1
            else:
                index += 1
