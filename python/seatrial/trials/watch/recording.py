"""A recording of block requests: its metadata and its columns.

A recording is one file, or several where it was rotated (docs/recording.md). In memory a request
takes 55 bytes, and while it is read up to twice as much.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from seatrial import _core
from seatrial.errors import native_errors
from seatrial.lazy import np
from seatrial.published import filled
from seatrial.trials.watch.analysis.activity import OPERATIONS, TRANSFERS, Losses
from seatrial.units import NS_PER_S

if TYPE_CHECKING:
    from numpy.typing import NDArray

UNKNOWN: Final = -1
"""The value of a column where the source does not know it."""
COLUMN_TYPES: Final[Mapping[str, str]] = {
    "arrived_ns": "int64",
    "device": "int32",
    "operation": "uint8",
    "is_sync": "int8",
    "failed": "bool",
    "offset_bytes": "int64",
    "length_bytes": "int64",
    "queue_ns": "int64",
    "device_ns": "int64",
    "process": "int32",
    "relation": "int32",
}
"""The columns of a recording and the types of their values, in order."""
TIME: Final = "time"
OPERATION: Final = "operation"
ADDRESS: Final = "address"
"""The parts of requests that may be synthetic."""
_FORMER_NAMES: Final = {"place": ADDRESS}
"""Names in older recordings."""
SOURCE: Final = "seatrial watch"
"""The source of a recording that was made here, not imported."""
VERSION: Final = 1
"""Version of the format."""
_OF_UNKNOWN: Final = ("is_sync", "queue_ns", "device_ns", "process", "relation")


class RecordedDevice(msgspec.Struct, frozen=True, kw_only=True):
    """A device of a recording.

    Attributes:
        name: Its name in the kernel, or in the source.
        size_bytes: Its size; None where the source does not know it.
    """

    name: str
    size_bytes: int | None = None


class Omission(msgspec.Struct, frozen=True, kw_only=True):
    """Records that an import omitted for one reason.

    Attributes:
        reason: The reason, or what they are.
        count: How many.
    """

    reason: str
    count: int


class RecordingMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata of a recording.

    Attributes:
        version: Version of the format.
        began_at_s: Unix time of its beginning, to which arrivals refer; 0 where it is unknown.
        seconds: Its length; requests may arrive at its end, and none later.
        source: ``seatrial watch``, or the format that it was imported from.
        devices: Devices, in the order of their numbers in the column ``device``.
        processes: Processes as ``name (pid)``, or as the source names them.
        relations: Tables, indexes and other parts of a server.
        lost: Requests that were not recorded.
        knows_arrival: Whether arrivals are those in the block layer; else they are the times at
            which requests were issued to the device.
        knows_sync: Whether it is known which requests a process waits for.
        knows_failures: Whether it is known which requests failed.
        knows_queue: Whether the time in the queue is known.
        knows_device: Whether the time at the device is known, at least together with that in the
            queue.
        knows_process: Whether the process is known.
        knows_relations: Whether requests are assigned to relations.
        made_up: What is synthetic, as the source does not have it: ``time``, ``operation`` (all are
            reads), ``address``.
        left_out: Records that an import omitted.
        seatrial_version: The version that wrote it.
        is_cut_off: Whether its end is missing, as its recorder was killed or its disk was full.
        total_bytes: Size of its files; 0 if it was not read from any.
        files: How many files it has.
    """

    version: int
    began_at_s: float
    seconds: float
    source: str
    devices: tuple[RecordedDevice, ...]
    processes: tuple[str, ...] = ()
    relations: tuple[str, ...] = ()
    lost: Losses = Losses()
    knows_arrival: bool = True
    knows_sync: bool = True
    knows_failures: bool = True
    knows_queue: bool = True
    knows_device: bool = True
    knows_process: bool = True
    knows_relations: bool = False
    made_up: tuple[str, ...] = ()
    left_out: tuple[Omission, ...] = ()
    seatrial_version: str = ""
    is_cut_off: bool = False
    total_bytes: int = 0
    files: int = 0


class KnownFields(msgspec.Struct, frozen=True, kw_only=True):
    """Which fields a source has, as the file states it; see :class:`RecordingMetadata`."""

    arrival: bool
    sync: bool
    failures: bool
    queue: bool
    device: bool
    process: bool
    relations: bool


class StoredMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """:class:`RecordingMetadata` as it is stored in a file.

    Attributes:
        began_at_ns: Unix time of its beginning, in ns.
        length_ns: Its length.
        source: What recorded it.
        devices: Devices.
        processes: Processes.
        relations: Relations.
        lost: Requests that were not recorded.
        knows: Which fields the source has.
        made_up: What is synthetic.
        left_out: Records that an import omitted.
        seatrial_version: The version that wrote it.
        file: Number of the file, from 0.
        is_last: Whether no file follows.
        is_complete: Whether it was completed.
    """

    began_at_ns: int
    length_ns: int = 0
    source: str
    devices: tuple[RecordedDevice, ...] = ()
    processes: tuple[str, ...] = ()
    relations: tuple[str, ...] = ()
    lost: Losses = Losses()
    knows: KnownFields
    made_up: tuple[str, ...] = ()
    left_out: tuple[Omission, ...] = ()
    seatrial_version: str = ""
    file: int = 0
    is_last: bool = True
    is_complete: bool = False


@dataclass(frozen=True, eq=False)
class Recording:
    """Recorded requests as columns of equal length, sorted by arrival.

    Attributes:
        about: Its metadata.
        arrived_ns: When each arrived, from the beginning; shape (requests,), as all.
        device: Index in ``about.devices``.
        operation: Index in ``_core.WATCHED_OPERATIONS``.
        is_sync: 1 if a process waits for it, 0 if none does, -1 where that is unknown.
        failed: Whether it failed; False where that is unknown.
        offset_bytes: Its first byte on the device; 0 for a request without an address, such as a
            flush.
        length_bytes: Its length.
        queue_ns: Its time in the queue, before it was issued; -1 where that is unknown.
        device_ns: Its time at the device; -1 where that is unknown.
        process: Index in ``about.processes``; -1 where that is unknown.
        relation: Index in ``about.relations``; -1 where it was not assigned.

    Raises:
        ValueError: if the columns differ in length, or arrivals are not in order.
    """

    about: RecordingMetadata
    arrived_ns: NDArray[np.int64]
    device: NDArray[np.int32]
    operation: NDArray[np.uint8]
    is_sync: NDArray[np.int8]
    failed: NDArray[np.bool_]
    offset_bytes: NDArray[np.int64]
    length_bytes: NDArray[np.int64]
    queue_ns: NDArray[np.int64]
    device_ns: NDArray[np.int64]
    process: NDArray[np.int32]
    relation: NDArray[np.int32]

    def __post_init__(self) -> None:
        """Check what is documented above."""
        for each in fields(self)[1:]:
            if getattr(self, each.name).shape != self.arrived_ns.shape:
                raise ValueError(f"the column {each.name} has another length than arrived_ns")
        if (self.arrived_ns[1:] < self.arrived_ns[:-1]).any():
            raise ValueError("a recording is sorted by arrival")

    @property
    def requests(self) -> int:
        """How many requests there are."""
        return len(self.arrived_ns)

    def is_operation(self, *names: str) -> NDArray[np.bool_]:
        """Return which requests are of these operations; shape (requests,)."""
        return np.isin(self.operation, [OPERATIONS.index(name) for name in names])

    @property
    def is_transfer(self) -> NDArray[np.bool_]:
        """Which requests read or write at least one byte; shape (requests,)."""
        return self.is_operation(*TRANSFERS) & (self.length_bytes > 0)

    @classmethod
    def of(
        cls,
        about: RecordingMetadata,
        *,
        arrived_ns: object,
        operation: object,
        offset_bytes: object,
        length_bytes: object,
        **others: object,
    ) -> Recording:
        """Return a recording of columns in any order of arrival; those left out are unknown.

        Args:
            about: Its metadata.
            arrived_ns: Any array-like of numpy, as all columns.
            operation: See the class.
            offset_bytes: See the class.
            length_bytes: See the class.
            others: Further columns by name; ``device`` is 0 and ``failed`` False by default.

        Raises:
            TypeError: if a column has another name.
            ValueError: if columns differ in length.
        """
        if unknown := others.keys() - COLUMN_TYPES.keys():
            raise TypeError(f"a recording has no column {', '.join(sorted(unknown))}")
        given = {
            **{"arrived_ns": arrived_ns, "operation": operation},
            **{"offset_bytes": offset_bytes, "length_bytes": length_bytes},
            **others,
        }
        order = np.argsort(np.asarray(arrived_ns, dtype=np.int64), kind="stable")
        columns = {}
        for name, kind in COLUMN_TYPES.items():
            column = given.get(name)
            if column is None:
                filling = UNKNOWN if name in _OF_UNKNOWN else 0
                columns[name] = np.full(len(order), filling, dtype=kind)
                continue
            array = np.asarray(column, dtype=kind)
            if array.shape != order.shape:
                raise ValueError(f"the column {name} has another length than arrived_ns")
            columns[name] = array[order]
        return cls(about, **columns)


def read(path: Path) -> Recording:
    """Read a recording whole; one that was cut off is completed first.

    Raises:
        SpaceError: if one that was cut off cannot be completed on a full disk.
        UsageError: if it cannot be read, is being written, is damaged or is not a recording.
    """
    reader = _opened(path)
    parts: dict[str, list[NDArray[np.generic]]] = {name: [] for name in COLUMN_TYPES}
    for columns in _parts(reader):
        for name, column in columns.items():
            parts[name].append(column)
    whole: dict[str, NDArray[np.generic]] = {}
    for name, kind in COLUMN_TYPES.items():
        arrays = parts.pop(name)
        whole[name] = np.concatenate(arrays) if arrays else np.empty(0, dtype=kind)
    return Recording.of(_about(reader), **whole)


def read_about(path: Path) -> RecordingMetadata:
    """Read the metadata of a recording, without its requests.

    Raises:
        SeatrialError: as :func:`read`.
    """
    return _about(_opened(path))


def read_parts(path: Path) -> Iterator[dict[str, NDArray[np.generic]]]:
    """Yield the columns of at most 65,536 requests at a time, in memory that does not grow.

    Raises:
        SeatrialError: as :func:`read`.
    """
    yield from _parts(_opened(path))


def _opened(path: Path) -> _core.RecordingReader:
    with native_errors():
        return _core.RecordingReader(path)


def _parts(reader: _core.RecordingReader) -> Iterator[dict[str, NDArray[np.generic]]]:
    while True:
        with native_errors():
            columns = reader.next_columns()
        if columns is None:
            return
        yield {
            name: np.frombuffer(columns[name], dtype=kind) for name, kind in COLUMN_TYPES.items()
        }


def _about(reader: _core.RecordingReader) -> RecordingMetadata:
    stored = msgspec.json.decode(reader.about_json, type=StoredMetadata)
    return filled(
        RecordingMetadata,
        stored,
        reader,
        version=VERSION,
        began_at_s=stored.began_at_ns / NS_PER_S,
        seconds=stored.length_ns / NS_PER_S,
        **{f"knows_{name}": known for name, known in msgspec.structs.asdict(stored.knows).items()},
        made_up=tuple(_FORMER_NAMES.get(name, name) for name in stored.made_up),
        is_cut_off=not stored.is_complete,
    )
