"""Writes watched requests to a recording (docs/recording.md)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from seatrial import _core
from seatrial.errors import SeatrialError, SpaceError, native_errors
from seatrial.trials.watch.analysis.activity import NOT_MAPPED, Losses
from seatrial.trials.watch.measure.volume import DeviceNumber
from seatrial.trials.watch.recording import SOURCE, UNKNOWN, KnownFields, StoredMetadata
from seatrial.units import SECTOR_BYTES

POLL_S: Final = 0.5
"""How long requests are in the kernel's memory at most, and not in the recording."""
CHECKPOINT_S: Final = 1.0
"""How much of a recording a kill costs at most."""


class RecordingTarget(NamedTuple):
    """Where a recording goes.

    Attributes:
        path: Its first file.
        rotate_bytes: A file of this size is followed by another one.
    """

    path: Path
    rotate_bytes: int


class RecordingResult(NamedTuple):
    """A completed recording.

    Attributes:
        path: Its first file.
        requests: Requests in it.
        total_bytes: Size of its files.
        files: How many files it has.
        lost: What was not recorded.
    """

    path: Path
    requests: int
    total_bytes: int
    files: int
    lost: Losses


class StartTime(NamedTuple):
    """The start of a recording, by two clocks.

    Attributes:
        unix_ns: Unix time in ns.
        monotonic_ns: The same moment by CLOCK_MONOTONIC, in ns.
    """

    unix_ns: int
    monotonic_ns: int

    @classmethod
    def now(cls) -> StartTime:
        """Return this moment."""
        return cls(time.time_ns(), time.monotonic_ns())


class Recorder:
    """Writes requests as they are taken from the kernel."""

    def __init__(
        self,
        to: RecordingTarget,
        began: StartTime,
        *,
        devices: dict[DeviceNumber, str],
        knows_queue: bool,
        knows_relations: bool,
    ) -> None:
        """Begin a recording.

        Args:
            to: Where it goes.
            began: From when on requests are watched.
            devices: Names of the devices by their numbers.
            knows_queue: Whether arrivals, and so the times in the queue, are known.
            knows_relations: Whether requests are assigned to relations.

        Raises:
            SpaceError: if the disk is full.
            UsageError: if the file cannot be made, or another process writes it.
        """
        self._to = to
        self._began = began
        about = StoredMetadata(
            began_at_ns=began.unix_ns,
            source=SOURCE,
            knows=KnownFields(
                arrival=knows_queue,
                sync=True,
                failures=True,
                queue=knows_queue,
                device=True,
                process=True,
                relations=knows_relations,
            ),
        )
        with native_errors():
            self._writer = _core.RecordingWriter(
                to.path,
                msgspec.json.encode(about).decode(),
                began_ns=began.monotonic_ns,
                rotate_bytes=to.rotate_bytes,
            )
        for (major, minor), name in sorted(devices.items()):
            self._writer.name_device(major, minor, name, _size_bytes(name))
        self._relations: dict[str, int] = {"": UNKNOWN, NOT_MAPPED: UNKNOWN}
        self._secured_s = time.monotonic()

    def take(self, kernel: _core.Watch) -> None:
        """Record what completed since the last call.

        Raises:
            SpaceError: if the disk is full.
            UsageError: if the file cannot be written.
        """
        with self._abandoned_on_error():
            self._writer.take(kernel)

    def add(self, requests: Sequence[_core.WatchedRequest], relations: Sequence[str]) -> None:
        """Record requests, each with its relation; empty or ``not mapped`` where it has none.

        Raises:
            SpaceError: if the disk is full.
            UsageError: if the file cannot be written.
        """
        for name in set(relations) - self._relations.keys():
            self._relations[name] = self._writer.relation(name)
        with self._abandoned_on_error():
            self._writer.add(requests, [self._relations[name] for name in relations])

    def secure(self, lost: Losses) -> None:
        """Set a checkpoint about once a second, so that a kill costs no earlier requests.

        Raises:
            SpaceError: if the disk is full.
            UsageError: if the file cannot be written.
        """
        if time.monotonic() - self._secured_s < CHECKPOINT_S - POLL_S / 2:
            return
        with self._abandoned_on_error():
            self._writer.checkpoint(self._length_ns(), _json(lost))
        self._secured_s = time.monotonic()

    def finish(self, lost: Losses) -> RecordingResult:
        """Complete the recording.

        Raises:
            SpaceError: if the disk is full.
            UsageError: if the file cannot be written.
        """
        with self._abandoned_on_error():
            written = self._writer.finish(self._length_ns(), _json(lost))
        return RecordingResult(self._to.path, *written, lost)

    def _length_ns(self) -> int:
        return time.monotonic_ns() - self._began.monotonic_ns

    @contextmanager
    def _abandoned_on_error(self) -> Iterator[None]:
        """Abandon the recording on an error, which then says how much of it is kept."""
        try:
            with native_errors():
                yield
        except SeatrialError as error:
            raise self._abandoned(error) from None

    def _abandoned(self, error: SeatrialError) -> SeatrialError:
        self._writer.abandon()
        path = self._to.path
        kept = f"`seatrial trace show {path}` completes what was recorded until then"
        with suppress(SeatrialError), native_errors():
            reader = _core.RecordingReader(path)
            about = msgspec.json.decode(reader.about_json, type=StoredMetadata)
            seconds = about.length_ns / 1e9
            kept = (
                f"{reader.requests:,} requests of the first {seconds:.1f} s are kept in {path}, of "
                f"which `seatrial trace store {path}` makes a run"
            )
        next_step = "Record to a disk with more space, or free some"
        if not isinstance(error, SpaceError):
            next_step = error.next_step
        return type(error)(seen=error.seen, cause=f"{error.cause}; {kept}", next_step=next_step)


def _json(lost: Losses) -> str:
    return msgspec.json.encode(lost).decode()


def _size_bytes(name: str) -> int | None:
    try:
        return int(Path("/sys/block", name, "size").read_text()) * SECTOR_BYTES
    except (OSError, ValueError):  # removed meanwhile
        return None
