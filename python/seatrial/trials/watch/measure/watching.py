"""What is watched, at which level, interval by interval.

Level 2 counts every request in the kernel (BPF); level 1, without rights, has the kernel's counters
of each disk: means without tails, and no processes.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from seatrial import _core
from seatrial.errors import SeatrialError, TargetError, native_errors
from seatrial.interrupts import uninterrupted
from seatrial.machine.fingerprint.tree import LIVE
from seatrial.postgres.server_processes import read_pid_file
from seatrial.process_identity import INITIAL_NAMESPACE, pid_namespace
from seatrial.trials.watch.analysis.activity import (
    NOT_MAPPED,
    OTHER_PROGRAMS,
    Interval,
    Losses,
    RequestGroup,
    size_class_bytes,
)
from seatrial.trials.watch.measure.clients import Clients
from seatrial.trials.watch.measure.group import GroupWatch
from seatrial.trials.watch.measure.recorder import (
    POLL_S,
    Recorder,
    RecordingResult,
    RecordingTarget,
    StartTime,
)
from seatrial.trials.watch.measure.relations import Relations
from seatrial.trials.watch.measure.volume import DeviceNumber
from seatrial.units import NS_PER_MS, SECTOR_BYTES

_DISKSTATS: Final = Path("/proc/diskstats")
_DISKS: Final = Path("/sys/block")
_COUNTED: Final = (("read", 0), ("write", 4), ("discard", 11))
"""Operations of a disk's counters and the index of the first: requests, merged, sectors, ms."""
_FLUSHES: Final = 15
_COMPARED: Final = ("read", "write")
"""Counters of a disk with which counted bytes are compared."""
_COMPARED_AS: Final = (*_COMPARED, "other")
"""The same operations as they are counted here: a disk counts the writing of zeroes as writes."""


class Level(msgspec.Struct, frozen=True, kw_only=True):
    """A level of detail of a watch.

    Attributes:
        number: 1 to 3, as docs/watch.md describes them.
        sees: What it shows.
        lacks: What it cannot see.
        cost: What watching costs, as measured (docs/watch.md).
        reason: Why the level is not higher; empty where none was requested or possible.
    """

    number: int
    sees: str
    lacks: str
    cost: str
    reason: str = ""


COUNTERS: Final = Level(
    number=1,
    sees="the kernel's counters of each disk",
    lacks="mean latencies alone: no percentiles, processes or files; requests for a flush count "
    "as writes",
    cost="nothing per request: the kernel counts them anyway",
)
HISTOGRAMS: Final = Level(
    number=2,
    sees="every block request, counted in the kernel by device, operation, size and process",
    lacks="files are not known: add --url for tables and indexes",
    cost="about 1 µs per request: reads of 4 KiB from memory took 17 % longer (11 to 30 %)",
)
REQUESTS: Final = Level(
    number=3,
    sees="every block request, one by one, with the file that it belongs to",
    lacks="requests beyond what one processor can read are counted as not recorded",
    cost="about 2 µs per request: reads of 4 KiB from memory took 34 % longer (15 to 59 %)",
)
RECORDS: Final = msgspec.structs.replace(
    REQUESTS, sees="every block request, one by one", lacks=HISTOGRAMS.lacks
)


SERVER: Final = Level(
    number=1,
    sees="what the server says of itself: requests to its operating system, WAL, waits",
    lacks="its disks, which are on another machine or not known here: no latency of requests",
    cost="a few queries per interval",
)


OF_RUN: Final = msgspec.structs.replace(HISTOGRAMS, lacks="no files")
NO_DISK: Final = Level(
    number=1,
    sees="the progress of the run",
    lacks="no block requests: its targets have no disk on this machine",
    cost="nothing per request",
)


class WatchOptions(NamedTuple):
    """The options of a watch.

    Attributes:
        devices: Whole disks; all of them if empty.
        pid: The process; any if None.
        relations: The server whose relations requests are assigned to.
        record: Where requests are recorded.
        sees_disks: False where the disks are of another machine: then nothing is counted here.
        clients: Identifies the processes of a measurement, where one is watched.
    """

    devices: Sequence[DeviceNumber] = ()
    pid: int | None = None
    relations: Relations | None = None
    record: RecordingTarget | None = None
    sees_disks: bool = True
    clients: Clients | None = None


class Watcher:
    """Counts block requests until it is stopped."""

    def __init__(self, watched: WatchOptions) -> None:
        """Start at the highest level that this process may use.

        Raises:
            SeatrialError: if a recording cannot be begun.
            TargetError: if a process or a recording is requested, and only the counters can be
                read; or if there is no such process here.
        """
        if watched.pid is not None:
            _require_process(watched.pid)
        self._watched = watched
        self._since_s = time.monotonic()
        self._kernel: _core.Watch | None = None
        self._recorder: Recorder | None = None
        self._polled: Interval | None = None
        self.level = HISTOGRAMS
        self._counters = self._first = _diskstats()
        self._counted_bytes = 0
        if not watched.sees_disks:
            self.level = SERVER if watched.clients is None else NO_DISK
            return
        began = StartTime.now()
        try:
            with native_errors():
                self._kernel = _core.Watch([*watched.devices], records=self._has_records)
                if self._has_records:
                    self.level = REQUESTS if watched.relations is not None else RECORDS
                elif watched.clients is not None:
                    self.level = OF_RUN
        except SeatrialError as error:
            if watched.record is not None or watched.pid is not None:
                raise _refused(error, watched) from None
            self.level = msgspec.structs.replace(COUNTERS, reason=f"{error.seen} {error.cause}")
        if watched.record is not None and self._kernel is not None:
            self._recorder = self._recording(watched.record, began, self._kernel)

    @property
    def poll_s(self) -> float | None:
        """How often :meth:`poll` is to be called in an interval; None for never."""
        return POLL_S if self._recorder is not None else None

    @property
    def has_ended(self) -> bool:
        """Whether the process that is watched has ended."""
        return self._watched.pid is not None and not _is_process(self._watched.pid)

    @property
    def _has_records(self) -> bool:
        return self._watched.relations is not None or self._watched.record is not None

    def _recording(self, to: RecordingTarget, began: StartTime, kernel: _core.Watch) -> Recorder:
        names = device_names()
        wanted = self._watched.devices or [each for each in names if _has_requests(each)]
        try:
            return Recorder(
                to,
                began,
                devices={each: names[each] for each in wanted if each in names},
                knows_queue=kernel.knows_queue,
                knows_relations=self._watched.relations is not None,
            )
        except SeatrialError:
            kernel.stop()
            raise

    def poll(self) -> None:
        """Take what was completed until now, within an interval.

        Raises:
            SeatrialError: if it cannot be recorded.
        """
        self._polled = self.take()

    def end_recording(self) -> RecordingResult | None:
        """Record what was completed until now, and complete the recording; None without one.

        Raises:
            SeatrialError: if it cannot be recorded.
        """
        if self._recorder is None:
            return None
        lost = self.take().lost
        recorder, self._recorder = self._recorder, None
        return recorder.finish(lost)

    def take(self) -> Interval:
        """Return what was completed since the last call, or since the start.

        Raises:
            SeatrialError: if it cannot be recorded.
        """
        now_s = time.monotonic()
        ended_at = time.time()
        seconds, self._since_s = now_s - self._since_s, now_s
        if not self._watched.sees_disks:
            groups, lost = [], Losses()
        elif self._kernel is None:
            groups, lost = list(self._counter_deltas()), Losses()
        else:
            counted = self._kernel.take_groups()
            self._counted_bytes += sum(
                each.transferred_bytes for each in counted if each.operation in _COMPARED_AS
            )
            groups = self._grouped(self._kernel, counted)
            lost = _lost(self._kernel, self._counted_bytes, self._disks_bytes())
        if self._recorder is not None:
            self._recorder.secure(lost)
        taken = Interval(seconds=seconds, groups=groups, lost=lost, ended_at=ended_at)
        polled, self._polled = self._polled, None
        return taken if polled is None else polled.merged(taken)

    def group(self) -> GroupWatch | None:
        """Return what counts the control group of the process or server; None without one."""
        pid, relations = self._watched.pid, self._watched.relations
        if pid is None and relations is not None and (file := read_pid_file(relations.folder)):
            pid = file.pid
        return GroupWatch.of_process(pid) if pid is not None else None

    def disks(self) -> list[str]:
        """Return the names of the disks that are watched and there; of all, those with a size."""
        if not self._watched.sees_disks:
            return []
        names = device_names()
        if self._watched.devices:
            return [names[each] for each in self._watched.devices if each in names]
        return sorted(name for name in names.values() if _is_drive(name))

    def stop(self) -> None:
        """Stop watching."""
        if self._kernel is not None:
            self._kernel.stop()
        if self._watched.relations is not None:
            self._watched.relations.stop()

    def _disks_bytes(self) -> int:
        """Return the bytes that the watched disks have counted since the start."""
        now = _diskstats()
        return sum(
            counted.transferred_bytes - self._first[key].transferred_bytes
            for key, counted in now.items()
            if key in self._first
            and key[1] in _COMPARED
            and (not self._watched.devices or key[0] in self._watched.devices)
            and _has_requests(key[0])
        )

    def _grouped(
        self, kernel: _core.Watch, counted: Sequence[_core.WatchedGroup]
    ) -> list[RequestGroup]:
        names = device_names()
        relations = self._watched.relations
        if relations is not None:
            with uninterrupted():  # what was taken is recorded, too
                owned = _owned(kernel.take_requests(), relations, self._watched.pid)
                if self._recorder is not None:
                    main = [owners[0][0] for _, owners in owned]
                    self._recorder.add([each for each, _ in owned], main)
            return _by_relation(owned, names)
        if self._recorder is not None:
            self._record(kernel, self._recorder)
        clients = self._watched.clients
        return [
            RequestGroup(
                disk=names.get((each.major, each.minor), f"{each.major}:{each.minor}"),
                operation=each.operation,
                is_sync=each.is_sync,
                length_bytes_min=each.length_bytes_min,
                pid=each.pid,
                process=each.command,
                relation="",
                client=clients.client(each.pid, each.command) if clients else "",
                requests=each.requests,
                failed=each.failed,
                transferred_bytes=each.transferred_bytes,
                device_ns_sum=each.device_ns,
                queued=each.queued,
                queue_ns_sum=each.queue_ns,
                device=each.device,
                queue=each.queue,
            )
            for each in counted
            if self._watched.pid in (None, each.pid)
        ]

    def _record(self, kernel: _core.Watch, recorder: Recorder) -> None:
        pid = self._watched.pid
        if pid is None:
            recorder.take(kernel)
            return
        with uninterrupted():  # what was taken is recorded, too
            own = [each for each in kernel.take_requests() if each.pid == pid]
            recorder.add(own, [""] * len(own))

    def _counter_deltas(self) -> Iterator[RequestGroup]:
        before, self._counters = self._counters, _diskstats()
        names = device_names()
        for (number, operation), counted in self._counters.items():
            if self._watched.devices and number not in self._watched.devices:
                continue
            earlier = before.get((number, operation), _DiskCounters(0, 0, 0))
            requests = counted.requests - earlier.requests
            if requests > 0 and number in names:
                yield RequestGroup(
                    disk=names[number],
                    operation=operation,
                    requests=requests,
                    transferred_bytes=counted.transferred_bytes - earlier.transferred_bytes,
                    device_ns_sum=counted.total_ns - earlier.total_ns,
                )


class _DiskCounters(NamedTuple):
    requests: int
    transferred_bytes: int
    total_ns: int


def _diskstats() -> dict[tuple[DeviceNumber, str], _DiskCounters]:
    """Return the counters of all disks (the kernel's Documentation/admin-guide/iostats.rst)."""
    found = {}
    for line in _DISKSTATS.read_text(encoding="ascii", errors="replace").splitlines():
        parts = line.split()
        number = (int(parts[0]), int(parts[1]))
        fields = [int(each) for each in parts[3:]]
        for operation, index in _COUNTED:
            if len(fields) >= index + 4:
                requests, _, sectors, ms = fields[index : index + 4]
                found[number, operation] = _DiskCounters(
                    requests, sectors * SECTOR_BYTES, ms * NS_PER_MS
                )
        if len(fields) >= _FLUSHES + 2:
            found[number, "flush"] = _DiskCounters(
                fields[_FLUSHES], 0, fields[_FLUSHES + 1] * NS_PER_MS
            )
    return found


def device_names() -> dict[DeviceNumber, str]:
    """Return the names of whole disks in the kernel, by major and minor number.

    Raises:
        TargetError: when the kernel's list of disks cannot be read.
    """
    try:
        folders = [*_DISKS.iterdir()]
    except OSError as error:
        raise TargetError(
            seen=f"{_DISKS} cannot be read: {error.strerror}",
            cause="/sys is not mounted here; the names of disks are read there",
            next_step="Mount it with `mount -t sysfs sysfs /sys`, or watch from outside this "
            "container",
        ) from None
    names = {}
    for folder in folders:
        try:
            major, _, minor = (folder / "dev").read_text().strip().partition(":")
            names[int(major), int(minor)] = folder.name
        except (OSError, ValueError):  # removed meanwhile
            continue
    return names


def _is_drive(name: str) -> bool:
    """Return whether a disk has a size, and no disks below that are watched instead."""
    folder = _DISKS / name
    try:
        return int((folder / "size").read_text()) > 0 and not any((folder / "slaves").iterdir())
    except (OSError, ValueError):  # removed meanwhile
        return False


_Owned = tuple[_core.WatchedRequest, list[tuple[str, int]]]
"""A request, and the relations that its bytes belong to, the one with the most bytes first."""


def _owned(
    requests: Sequence[_core.WatchedRequest], relations: Relations, pid: int | None
) -> list[_Owned]:
    """Return the requests of a process with their relations; extents are read again before."""
    relations.refresh()
    return [(each, _owners(each, relations)) for each in requests if pid in (None, each.pid)]


def _owners(request: _core.WatchedRequest, relations: Relations) -> list[tuple[str, int]]:
    if not request.length_bytes:
        return [("", 0)]
    disk = (request.major, request.minor)
    owners = relations.owners_of(disk, request.offset_bytes, request.length_bytes)
    if all(owner != NOT_MAPPED for owner, _ in owners):
        return owners
    if not relations.is_of_other_program(request.pid, request.command):
        return owners
    others = {NOT_MAPPED: OTHER_PROGRAMS}
    return [(others.get(owner, owner), part_bytes) for owner, part_bytes in owners]


def _by_relation(owned: Sequence[_Owned], names: dict[DeviceNumber, str]) -> list[RequestGroup]:
    """Return requests by relation.

    A request to several files counts where most of its bytes are, and its bytes where each is.
    """
    found: dict[_GroupKey, list[_core.WatchedRequest]] = {}
    bytes_of: Counter[_GroupKey] = Counter()
    for each, owners in owned:
        name = names.get((each.major, each.minor), f"{each.major}:{each.minor}")
        for index, (relation, part_bytes) in enumerate(owners):
            key = _GroupKey(
                name,
                each.operation,
                each.is_sync,
                size_class_bytes(each.length_bytes),
                each.pid,
                each.command,
                relation,
            )
            bytes_of[key] += part_bytes
            own = found.setdefault(key, [])
            if not index:
                own.append(each)
    return [_group(key, own, bytes_of[key]) for key, own in found.items()]


class _GroupKey(NamedTuple):
    disk: str
    operation: str
    is_sync: bool
    length_bytes_min: int
    pid: int
    process: str
    relation: str


def _group(
    key: _GroupKey, requests: Sequence[_core.WatchedRequest], transferred_bytes: int
) -> RequestGroup:
    device_ns = [each.device_ns for each in requests]
    queue_ns = [each.queue_ns for each in requests if each.queue_ns is not None]
    return RequestGroup(
        **key._asdict(),
        requests=len(requests),
        failed=sum(each.failed for each in requests),
        transferred_bytes=transferred_bytes,
        device_ns_sum=sum(device_ns),
        queued=len(queue_ns),
        queue_ns_sum=sum(queue_ns),
        device=_core.Histogram.of(device_ns),
        queue=_core.Histogram.of(queue_ns),
    )


def _is_process(pid: int) -> bool:
    return f"\nTgid:\t{pid}\n" in (LIVE.text(f"/proc/{pid}/status") or "")


def _require_process(pid: int) -> None:
    if pid_namespace() != INITIAL_NAMESPACE:
        raise TargetError(
            seen="--pid does not work in a container or other PID namespace.",
            cause="The kernel counts requests by the process numbers of the host.",
            next_step="Run it on the host, or without --pid: the table by process shows all",
        )
    if not _is_process(pid):
        raise TargetError(
            seen=f"There is no process {pid}.",
            cause="It has ended, or the number is wrong, or that of one of its threads.",
            next_step="`ps -e` lists the processes",
        )


def _refused(error: SeatrialError, watched: WatchOptions) -> TargetError:
    """Return why the kernel's counters are not enough for the options."""
    wanted = "--record" if watched.record is not None else "--pid"
    return TargetError(
        seen=f"{wanted} needs every request: {error.seen}",
        cause=error.cause,
        next_step=f"Run it as root, or with CAP_BPF and CAP_PERFMON; without {wanted}, the "
        "kernel's counters can be watched",
    )


def _has_requests(disk: DeviceNumber) -> bool:
    """Return whether a device is a whole disk with requests; zram, md and dm have none."""
    return Path(f"/sys/dev/block/{disk[0]}:{disk[1]}/mq").is_dir()


def _lost(kernel: _core.Watch, counted_bytes: int, disks_bytes: int) -> Losses:
    lost = kernel.lost()
    return Losses(
        unmatched=lost.unmatched,
        uncounted=lost.uncounted,
        unrecorded=lost.unrecorded,
        missed=lost.missed,
        unseen_bytes=max(0, disks_bytes - counted_bytes),
        counted_bytes=counted_bytes,
    )
