"""The blobs of a results file: a histogram, the columns of a timeline, and those of a series.

A histogram is the engine's own encoding (docs/engine.md), deflated. A timeline is one mapping of
equally long columns in MessagePack, deflated as a whole: neighbouring slices resemble each other,
so that columns of like values compress far better than rows would.
"""

from __future__ import annotations

import math
import zlib
from itertools import accumulate

import msgspec

from seatrial.results.model import Series, Slice, Timeline

BLOB_BYTES_MAX = 1 << 28
"""A blob that claims to inflate to more than this (256 MiB) is damaged: 64 MiB hold an hour."""


class _Columns(msgspec.Struct, frozen=True):
    """A timeline by column; entry ``i`` of each list belongs to the same slice.

    ``index_steps`` holds each index as its distance from the one before, mostly 0 or 1, and
    ``operation`` the place of the kind in ``operations``.
    """

    operations: list[str]
    index_steps: list[int]
    operation: list[int]
    completed: list[int]
    transferred_bytes: list[int]
    response: list[bytes]


def pack_histogram(encoded: bytes) -> bytes:
    """Return an encoded histogram as it is stored."""
    return zlib.compress(encoded)


def unpack_histogram(blob: bytes) -> bytes:
    """Return the encoded histogram of a stored blob; raises ValueError when it is damaged."""
    return _inflate(blob)


def pack_timeline(timeline: Timeline) -> bytes:
    """Return the slices of a timeline as one blob; ``slice_ns`` is not in it."""
    slices = timeline.slices
    operations = sorted({part.operation for part in slices})
    place = {operation: position for position, operation in enumerate(operations)}
    before = [0, *(part.index for part in slices)]
    columns = _Columns(
        operations=operations,
        index_steps=[part.index - last for part, last in zip(slices, before, strict=False)],
        operation=[place[part.operation] for part in slices],
        completed=[part.completed for part in slices],
        transferred_bytes=[part.transferred_bytes for part in slices],
        response=[part.response for part in slices],
    )
    return zlib.compress(msgspec.msgpack.encode(columns))


def unpack_timeline(slice_ns: int, blob: bytes) -> Timeline:
    """Return the timeline of a stored blob; raises ValueError when it is damaged."""
    try:
        columns = msgspec.msgpack.decode(_inflate(blob), type=_Columns)
        rows = zip(
            accumulate(columns.index_steps),
            [columns.operations[place] for place in columns.operation],
            columns.completed,
            columns.transferred_bytes,
            columns.response,
            strict=True,
        )
        slices = [
            Slice(
                index=index,
                operation=operation,
                completed=completed,
                transferred_bytes=transferred,
                response=response,
            )
            for index, operation, completed, transferred, response in rows
        ]
    except (ValueError, IndexError) as error:
        raise ValueError(f"the timeline is damaged: {error}") from error
    return Timeline(slice_ns=slice_ns, slices=slices)


def pack_series(series: Series) -> bytes:
    """Return a series of readings as one blob; raises ValueError when its columns differ in length.

    A reading that is no number is stored as none: nothing was read there.
    """
    _require_equal_lengths(series)
    columns = {
        name: [value if value is None or math.isfinite(value) else None for value in column]
        for name, column in series.columns.items()
    }
    return zlib.compress(msgspec.msgpack.encode(Series(period_s=series.period_s, columns=columns)))


def unpack_series(blob: bytes) -> Series:
    """Return the series of a stored blob; raises ValueError when it is damaged."""
    try:
        series = msgspec.msgpack.decode(_inflate(blob), type=Series)
        _require_equal_lengths(series)
    except ValueError as error:
        raise ValueError(f"the series is damaged: {error}") from error
    return series


def _require_equal_lengths(series: Series) -> None:
    lengths = {len(column) for column in series.columns.values()}
    if len(lengths) > 1:
        raise ValueError(f"columns of {min(lengths)} and of {max(lengths)} readings")


def _inflate(blob: bytes) -> bytes:
    inflater = zlib.decompressobj()
    try:
        content = inflater.decompress(blob, BLOB_BYTES_MAX)
    except zlib.error as error:
        raise ValueError(f"a blob is damaged: {error}") from error
    if not inflater.eof:
        raise ValueError("a blob is cut short or larger than any sample can be")
    return content
