"""Converts runs, cells and samples to rows of the results file and back.

A column has the name of its attribute; a name that ends in ``_json`` holds it as JSON.
docs/results-file.md describes the columns.

A histogram is the engine's own encoding (docs/engine.md), deflated. A timeline is one mapping of
equally long columns in MessagePack, deflated as a whole: neighbouring slices are similar, so
columns compress far better than rows.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable
from itertools import accumulate
from sqlite3 import Row
from typing import Any, Final

import msgspec

from seatrial.results.cache import CacheRecord
from seatrial.results.fleet import FleetRecord
from seatrial.results.model import (
    Corruption,
    DatabaseRecord,
    ErrorSample,
    LayoutRecord,
    OperationResult,
    Outcome,
    Run,
    Sample,
    Series,
    Slice,
    Stall,
    Timeline,
    Verification,
)
from seatrial.results.replay import ReplayRecord
from seatrial.study.cell import Cell

BLOB_BYTES_MAX = 1 << 28
"""A blob that inflates to more than this (256 MiB) is damaged: 64 MiB suffice for an hour."""

_PLAIN: Final = (
    *("round", "position", "started_at", "duration_s", "status", "engine", "engine_reason"),
    *("stalls_dropped", "oldest_in_flight_ns", "errors_count"),
)
"""Attributes of a sample that are stored as they are."""
_RECORDS: Final[dict[str, msgspec.json.Decoder[Any]]] = {
    "database": msgspec.json.Decoder(DatabaseRecord | None),
    "layout": msgspec.json.Decoder(LayoutRecord | None),
    "replay": msgspec.json.Decoder(ReplayRecord | None),
    "cache": msgspec.json.Decoder(CacheRecord | None),
    "fleet": msgspec.json.Decoder(FleetRecord | None),
}
"""Attributes of a sample that are stored as JSON."""


class _Columns(msgspec.Struct, frozen=True):
    """A timeline by column; entry ``i`` of each list belongs to the same slice.

    ``index_steps`` holds the differences of successive indexes, mostly 0 or 1, and ``operation``
    the index of the kind in ``operations``.
    """

    operations: list[str]
    index_steps: list[int]
    operation: list[int]
    completed: list[int]
    transferred_bytes: list[int]
    response: list[bytes]


def pack_histogram(encoded: bytes) -> bytes:
    """Compress an encoded histogram for storage."""
    return zlib.compress(encoded)


def unpack_histogram(blob: bytes) -> bytes:
    """Return the encoded histogram of a blob; raises ValueError when it is damaged."""
    return _inflate(blob)


def pack_timeline(timeline: Timeline) -> bytes:
    """Return the slices of a timeline as one blob, without ``slice_ns``."""
    slices = timeline.slices
    operations = sorted({part.operation for part in slices})
    index = {operation: position for position, operation in enumerate(operations)}
    before = [0, *(part.index for part in slices)]
    columns = _Columns(
        operations=operations,
        index_steps=[part.index - last for part, last in zip(slices, before, strict=False)],
        operation=[index[part.operation] for part in slices],
        completed=[part.completed for part in slices],
        transferred_bytes=[part.transferred_bytes for part in slices],
        response=[part.response for part in slices],
    )
    return zlib.compress(msgspec.msgpack.encode(columns))


def unpack_timeline(slice_ns: int, blob: bytes) -> Timeline:
    """Return the timeline of a blob; raises ValueError when it is damaged."""
    try:
        columns = msgspec.msgpack.decode(_inflate(blob), type=_Columns)
        rows = zip(
            accumulate(columns.index_steps),
            [columns.operations[index] for index in columns.operation],
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

    A reading that is not finite is stored as missing.
    """
    _require_equal_lengths(series)
    columns = {
        name: [value if value is None or math.isfinite(value) else None for value in column]
        for name, column in series.columns.items()
    }
    return zlib.compress(msgspec.msgpack.encode(Series(period_s=series.period_s, columns=columns)))


def unpack_series(blob: bytes) -> Series:
    """Return the series of a blob; raises ValueError when it is damaged."""
    try:
        series = msgspec.msgpack.decode(_inflate(blob), type=Series)
        _require_equal_lengths(series)
    except ValueError as error:
        raise ValueError(f"the series is damaged: {error}") from error
    return series


def _require_equal_lengths(series: Series) -> None:
    lengths = {len(column) for column in series.columns.values()}
    if len(lengths) > 1:
        raise ValueError(
            f"time series of different lengths ({min(lengths)} and {max(lengths)} values)"
        )


def _inflate(blob: bytes) -> bytes:
    inflater = zlib.decompressobj()
    try:
        content = inflater.decompress(blob, BLOB_BYTES_MAX)
    except zlib.error as error:
        raise ValueError(f"a blob is damaged: {error}") from error
    if not inflater.eof:
        raise ValueError("a blob is truncated, or larger than a sample can be")
    return content


Columns = dict[str, Any]
RUNNING: Final = "running"
INTERRUPTED: Final = "interrupted"
EDITABLE: Final = ("label", "note", "edited_at")
"""Columns of a run that its user may change later."""
PARTS = ("operation", "stall", "error", "corruption", "counter")
"""The tables with the parts of a sample."""


def run_columns(run: Run) -> Columns:
    """Return the row of table ``run``; the seed is text, as it may exceed SQLite's 63 bits."""
    columns = _json_columns(run, ("study", "fingerprint_before", "fingerprint_after", "process"))
    return columns | {"seed": str(run.seed)}


def run_of(row: Row) -> Run:
    """Return the run of a row; raises ValueError when the row is damaged.

    A killed process cannot store its end, so whether a run is active depends on the existence of
    its process. On another machine, or after a reboot, it does not exist.
    """
    columns = _parsed(row)
    run = msgspec.convert(columns | {"seed": int(columns["seed"])}, Run)
    if run.status != RUNNING or (run.process is not None and run.process.is_seen_running()):
        return run
    return msgspec.structs.replace(run, status=INTERRUPTED)


def cell_columns(run_id: str, cell: Cell) -> Columns:
    """Return the row of table ``cell`` without its id."""
    return _json_columns(cell, ("factors", "spec")) | {"run_id": run_id}


def sample_columns(cell_id: int, sample: Sample) -> Columns:
    """Return the row of table ``sample`` without its id."""
    checked = sample.verification
    return msgspec.structs.asdict(sample.outcome) | {
        "cell_id": cell_id,
        **{name: getattr(sample, name) for name in _PLAIN},
        "checked_blocks": checked.checked_blocks if checked else None,
        "corrupt_blocks": checked.corrupt_blocks if checked else None,
        "slice_ns": sample.timeline.slice_ns,
        "timeline": pack_timeline(sample.timeline),
        "series": pack_series(sample.series) if sample.series else None,
        **{f"{name}_json": _json_of(getattr(sample, name)) for name in _RECORDS},
    }


def _json_of(record: msgspec.Struct | None) -> str:
    content = _finite(record) if isinstance(record, DatabaseRecord) else record
    return msgspec.json.encode(content).decode()


def _finite(record: DatabaseRecord) -> dict[str, object]:
    """Return a record without values that are not finite, which JSON cannot represent."""
    fields: Columns = msgspec.to_builtins(record)
    for name, value in fields.items():
        if isinstance(value, dict):
            fields[name] = {key: each for key, each in value.items() if _is_known(each)}
    return {name: value for name, value in fields.items() if _is_known(value)}


def _is_known(value: object) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def part_columns(sample: Sample) -> Iterable[tuple[str, Columns]]:
    """Yield table and row of each part of a sample, without ``sample_id``, in order."""
    for operation, result in sample.operations.items():
        yield "operation", _operation_columns(operation, result)
    for stall in sample.stalls:
        yield "stall", _json_columns(stall, ("operations", "evidence"))
    for error in sample.errors:
        yield "error", msgspec.structs.asdict(error)
    for corruption in sample.verification.corruptions if sample.verification else ():
        yield "corruption", msgspec.structs.asdict(corruption)
    for name, value in sample.counters.items():
        yield "counter", {"name": name, "value": value}


def cell_of(row: Row) -> Cell:
    """Return the cell of a row of ``sample`` joined with it; raises ValueError when damaged.

    Its columns have the prefix ``cell_``.
    """
    cell = {key[5:]: value for key, value in _parsed(row).items() if key.startswith("cell_")}
    return msgspec.convert(cell, Cell)


def sample_of(row: Row, cell: Cell, parts: dict[str, list[Row]], *, slices_min: int = 0) -> Sample:
    """Return the sample of a row of ``sample``.

    Args:
        row: Columns of ``sample``, and ``cell_run_id``.
        cell: Its cell, shared by all its samples.
        parts: The rows of each table of :data:`PARTS`, in insertion order.
        slices_min: The timeline of a sample with fewer slices is left empty.

    Raises:
        ValueError: The row or one of its parts is damaged.
    """
    columns = dict(row)
    return Sample(
        id=columns["id"],
        run_id=columns["cell_run_id"],
        cell=cell,
        outcome=msgspec.convert(columns, Outcome),
        operations={part["operation"]: _operation_of(part) for part in parts["operation"]},
        timeline=_timeline_of(columns, slices_min),
        stalls=[msgspec.convert(_parsed(part), Stall) for part in parts["stall"]],
        errors=[msgspec.convert(dict(part), ErrorSample) for part in parts["error"]],
        counters={part["name"]: part["value"] for part in parts["counter"]},
        verification=_verification_of(columns, parts["corruption"]),
        series=None if columns["series"] is None else unpack_series(columns["series"]),
        **{name: columns[name] for name in _PLAIN},
        **{name: each.decode(columns[f"{name}_json"]) for name, each in _RECORDS.items()},
    )


def _timeline_of(columns: Columns, slices_min: int) -> Timeline:
    slice_ns = columns["slice_ns"]
    if slices_min and columns["duration_s"] * 1e9 < slices_min * slice_ns:
        return Timeline(slice_ns=slice_ns, slices=[])
    return unpack_timeline(slice_ns, columns["timeline"])


def _operation_columns(operation: str, result: OperationResult) -> Columns:
    return _json_columns(result, ("reported_ns",)) | {
        "operation": operation,
        "response": pack_histogram(result.response),
        "service": None if result.service is None else pack_histogram(result.service),
    }


def _operation_of(row: Row) -> OperationResult:
    service = row["service"]
    return OperationResult(
        completed=row["completed"],
        failed=row["failed"],
        transferred_bytes=row["transferred_bytes"],
        response=unpack_histogram(row["response"]),
        service=None if service is None else unpack_histogram(service),
        reported_ns=msgspec.json.decode(row["reported_ns_json"]),
    )


def _verification_of(columns: Columns, corruptions: list[Row]) -> Verification | None:
    if columns["checked_blocks"] is None:
        return None
    return Verification(
        checked_blocks=columns["checked_blocks"],
        corrupt_blocks=columns["corrupt_blocks"],
        corruptions=[msgspec.convert(dict(row), Corruption) for row in corruptions],
    )


def _json_columns(struct: msgspec.Struct, names: tuple[str, ...]) -> Columns:
    """Return the attributes of ``struct``, those of ``names`` as JSON under ``<name>_json``."""
    columns = msgspec.structs.asdict(struct)
    for name in names:
        columns[f"{name}_json"] = msgspec.json.encode(columns.pop(name)).decode()
    return columns


def _parsed(row: Row) -> Columns:
    """Return the columns of ``row`` with each ``<name>_json`` decoded as ``<name>``."""
    columns: Columns = {}
    for key in row.keys():  # noqa: SIM118 - a Row iterates over its values
        value = row[key]
        if key.endswith("_json"):
            columns[key.removesuffix("_json")] = msgspec.json.decode(value)
        else:
            columns[key] = value
    return columns
