"""A recording of block requests: what it says of itself, and its columns.

A recording is one file, or several where it was rotated (docs/recording.md). In memory a request
takes 55 bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final

import msgspec

from seatrial.trials.watch.analysis.activity import Lost

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

UNKNOWN: Final = -1
"""What a column holds where the source does not know the value."""
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
_OF_UNKNOWN: Final = ("is_sync", "queue_ns", "device_ns", "process", "relation")


class DeviceAbout(msgspec.Struct, frozen=True, kw_only=True):
    """A device of a recording.

    Attributes:
        name: Its name in the kernel, or in the source.
        size_bytes: Its size; None where the source does not know it.
    """

    name: str
    size_bytes: int | None = None


class RecordingAbout(msgspec.Struct, frozen=True, kw_only=True):
    """What a recording says of itself.

    Attributes:
        version: Version of the format.
        began_at_s: Unix time of its beginning, to which arrivals refer.
        seconds: Its length; requests may arrive at its end, and none later.
        source: What recorded it: ``seatrial watch``, or the format that it was imported from.
        devices: Devices, in the order of their numbers in the column ``device``.
        processes: Processes as ``name (pid)``, or as the source names them.
        relations: Tables, indexes and other parts of a server.
        lost: What was not recorded; the bytes of the disks' own counters beyond the recorded ones
            among it.
        knows_arrival: Whether arrivals are those in the block layer; else requests are known from
            when they were issued to the device.
        knows_sync: Whether it is known which requests a process waits for.
        knows_failures: Whether it is known which requests failed.
        knows_queue: Whether the time in the queue is known.
        knows_device: Whether the time at the device is known, if only with that in the queue.
        knows_process: Whether the process is known.
        knows_relations: Whether requests are assigned to relations.
        seatrial_version: The version that wrote it.
        is_cut_off: Whether its end is missing, as its recorder was killed or its disk was full.
    """

    version: int
    began_at_s: float
    seconds: float
    source: str
    devices: tuple[DeviceAbout, ...]
    processes: tuple[str, ...] = ()
    relations: tuple[str, ...] = ()
    lost: Lost = Lost()
    knows_arrival: bool = True
    knows_sync: bool = True
    knows_failures: bool = True
    knows_queue: bool = True
    knows_device: bool = True
    knows_process: bool = True
    knows_relations: bool = False
    seatrial_version: str = ""
    is_cut_off: bool = False


@dataclass(frozen=True, eq=False)
class Recording:
    """Recorded requests as columns of equal length, sorted by arrival.

    Attributes:
        about: What the recording says of itself.
        arrived_ns: When each arrived, from the beginning; shape (requests,), as all.
        device: Place in ``about.devices``.
        operation: Place in ``_core.WATCHED_OPERATIONS``.
        is_sync: 1 if a process waits for it, 0 if none does, -1 where that is unknown.
        failed: Whether it failed; False where that is unknown.
        offset_bytes: Its first byte on the device.
        length_bytes: Its length.
        queue_ns: Its time in the queue, before it was issued; -1 where that is unknown.
        device_ns: Its time at the device; -1 where that is unknown.
        process: Place in ``about.processes``; -1 where that is unknown.
        relation: Place in ``about.relations``; -1 where it was not assigned.

    Raises:
        ValueError: if the columns differ in length, or arrivals are not in order.
    """

    about: RecordingAbout
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

    @classmethod
    def of(
        cls,
        about: RecordingAbout,
        *,
        arrived_ns: object,
        operation: object,
        offset_bytes: object,
        length_bytes: object,
        **others: object,
    ) -> Recording:
        """Return a recording of columns in any order of arrival; those left out are unknown.

        Args:
            about: What it says of itself.
            arrived_ns: Anything that numpy makes an array of, as all columns.
            operation: See the class.
            offset_bytes: See the class.
            length_bytes: See the class.
            others: Further columns by name; ``device`` is 0 and ``failed`` False by default.

        Raises:
            TypeError: if a column has another name.
            ValueError: if columns differ in length.
        """
        import numpy as np  # noqa: PLC0415 - takes 0.1 s

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
