"""Logs that are read in parts on the hosts of a cluster, and joined here in their order."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import msgspec

from seatrial import _core
from seatrial.errors import SeatrialError, UsageError, native_errors
from seatrial.fleet.cluster import Cluster
from seatrial.fleet.tasks import results_in_order

PART_BYTES: Final = 16 << 20
"""Of a log, what a task reads at once."""
TASK_BYTES: Final = 256 << 20
"""Memory that a task may take: with Python 35 MiB were measured, to which Ray adds its worker."""


class PartError(msgspec.Struct, frozen=True, kw_only=True):
    """The error of a host that could not read a part.

    Attributes:
        host: Its hostname.
        seen: The observation.
        cause: The likely cause.
        next_step: What to do.
    """

    host: str
    seen: str
    cause: str
    next_step: str


def read_part(part: str) -> Iterator[bytes | PartError]:
    """Read a part of a log on the host that runs this; yield the results piece by piece."""
    try:
        with native_errors():
            yield from _core.SqlPart(part, PART_BYTES)
    except SeatrialError as error:
        yield PartError(
            host=socket.gethostname(),
            seen=error.seen,
            cause=error.cause,
            next_step=error.next_step,
        )


def read_whole_part(part: str) -> list[bytes | PartError]:
    """Read a part of at most one piece."""
    return list(read_part(part))


def parts_read(
    cluster: Cluster, parts: Sequence[str], report: Callable[[int], object]
) -> Iterator[bytes]:
    """Yield the results of all parts, in their order.

    Args:
        cluster: The cluster whose hosts read.
        parts: Documents of ``sql_log_parts``.
        report: Called with the number of parts read.

    Raises:
        ClusterError: when a task fails on every try.
        UsageError: when a host cannot read a file.
    """
    done = 0
    for is_packed, group in groupby(map(_Part.of, parts), key=lambda part: part.is_packed):
        calls = [(part.document,) for part in group]
        function: Callable[..., Any] = read_part if is_packed else read_whole_part
        results = results_in_order(
            cluster, function, calls, memory_bytes=TASK_BYTES, is_streamed=is_packed
        )
        for result in results:
            for piece in [result] if is_packed else result:
                yield _checked(piece)
            done += not is_packed
            report(done)
        done += len(calls) if is_packed else 0


class _Part(msgspec.Struct, frozen=True):
    document: str
    is_packed: bool

    @classmethod
    def of(cls, document: str) -> _Part:
        """Return a part with an absolute path."""
        part = msgspec.json.decode(document)
        part["path"] = str(Path(part["path"]).absolute())
        return cls(msgspec.json.encode(part).decode(), part["end_bytes"] is None)


def _checked(piece: bytes | PartError) -> bytes:
    """Return a piece; raises UsageError for an error."""
    if not isinstance(piece, PartError):
        return piece
    raise UsageError(
        seen=f"{piece.seen} (on the host {piece.host})",
        cause=f"{piece.cause}; each host of the cluster reads the logs at the same path",
        next_step="Put the logs into a folder that every host mounts at that path, or omit --ray",
    )
