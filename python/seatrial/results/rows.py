"""Turns runs, cells and samples into rows of the results file and back.

A column bears the name of the attribute that it holds; ``_json`` at its end says that it holds
the attribute as JSON. What the columns mean is in docs/results-file.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from sqlite3 import Row
from typing import Any, Final

import msgspec

from seatrial.results import blobs
from seatrial.results.model import (
    Corruption,
    DatabaseRecord,
    ErrorSample,
    LayoutRecord,
    OperationResult,
    Outcome,
    Run,
    Sample,
    Stall,
    Timeline,
    Verification,
)
from seatrial.results.replay import ReplayRecord
from seatrial.study.cell import Cell

Columns = dict[str, Any]
RUNNING: Final = "running"
INTERRUPTED: Final = "interrupted"
PARTS = ("operation", "stall", "error", "corruption", "counter")
"""The tables that hold the parts of a sample, a row each."""


def run_columns(run: Run) -> Columns:
    """Return the row of table ``run``; the seed is text, as it may exceed SQLite's 63 bits."""
    columns = _json_columns(run, ("study", "fingerprint_before", "fingerprint_after", "process"))
    return columns | {"seed": str(run.seed)}


def run_of(row: Row) -> Run:
    """Return the run of a row; raises ValueError when the row is damaged.

    A process that was killed cannot store its end, so whether a run still goes on is not what the
    row says, but whether its process is there. On another machine, or after a restart of this one,
    no process of that boot is.
    """
    columns = _parsed(row)
    run = msgspec.convert(columns | {"seed": int(columns["seed"])}, Run)
    if run.status != RUNNING or (run.process is not None and run.process.is_seen_running()):
        return run
    return msgspec.structs.replace(run, status=INTERRUPTED)


def cell_columns(run_id: str, cell: Cell) -> Columns:
    """Return the row of table ``cell`` but for its id."""
    return _json_columns(cell, ("factors", "spec")) | {"run_id": run_id}


def sample_columns(cell_id: int, sample: Sample) -> Columns:
    """Return the row of table ``sample`` but for its id."""
    checked = sample.verification
    return msgspec.structs.asdict(sample.outcome) | {
        "cell_id": cell_id,
        "round": sample.round,
        "position": sample.position,
        "started_at": sample.started_at,
        "duration_s": sample.duration_s,
        "status": sample.status,
        "engine": sample.engine,
        "engine_reason": sample.engine_reason,
        "stalls_dropped": sample.stalls_dropped,
        "oldest_in_flight_ns": sample.oldest_in_flight_ns,
        "errors_count": sample.errors_count,
        "checked_blocks": checked.checked_blocks if checked else None,
        "corrupt_blocks": checked.corrupt_blocks if checked else None,
        "slice_ns": sample.timeline.slice_ns,
        "timeline": blobs.pack_timeline(sample.timeline),
        "series": blobs.pack_series(sample.series) if sample.series else None,
        "database_json": msgspec.json.encode(_finite(sample.database)).decode(),
        "layout_json": msgspec.json.encode(sample.layout).decode(),
        "replay_json": msgspec.json.encode(sample.replay).decode(),
    }


def _finite(record: DatabaseRecord | None) -> dict[str, Any] | None:
    """Return a record without what is no number, which JSON has no word for: it is not known."""
    if record is None:
        return None
    reported: dict[str, Any] = msgspec.to_builtins(record)
    for name, value in reported.items():
        if isinstance(value, dict):
            reported[name] = {key: each for key, each in value.items() if _is_known(each)}
    return {name: value for name, value in reported.items() if _is_known(value)}


def _is_known(value: object) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def part_columns(sample: Sample) -> Iterable[tuple[str, Columns]]:
    """Yield table and row of each part of a sample, but for ``sample_id``, in order."""
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

    Its columns have ``cell_`` before their names.
    """
    cell = {key[5:]: value for key, value in _parsed(row).items() if key.startswith("cell_")}
    return msgspec.convert(cell, Cell)


def sample_of(row: Row, cell: Cell, parts: dict[str, list[Row]], *, slices_min: int = 0) -> Sample:
    """Return the sample of a row of ``sample``.

    Args:
        row: Columns of ``sample``, and ``cell_run_id``.
        cell: Its cell; samples of one cell share it.
        parts: The rows of each table of :data:`PARTS`, in the order in which they were added.
        slices_min: A timeline of a sample that lasted for fewer slices is left empty.

    Raises:
        ValueError: The row or one of its parts is damaged.
    """
    columns = dict(row)
    return Sample(
        id=columns["id"],
        run_id=columns["cell_run_id"],
        cell=cell,
        round=columns["round"],
        position=columns["position"],
        started_at=columns["started_at"],
        duration_s=columns["duration_s"],
        status=columns["status"],
        engine=columns["engine"],
        engine_reason=columns["engine_reason"],
        outcome=msgspec.convert(columns, Outcome),
        operations={part["operation"]: _operation_of(part) for part in parts["operation"]},
        timeline=_timeline_of(columns, slices_min),
        stalls=[msgspec.convert(_parsed(part), Stall) for part in parts["stall"]],
        stalls_dropped=columns["stalls_dropped"],
        oldest_in_flight_ns=columns["oldest_in_flight_ns"],
        errors_count=columns["errors_count"],
        errors=[msgspec.convert(dict(part), ErrorSample) for part in parts["error"]],
        counters={part["name"]: part["value"] for part in parts["counter"]},
        verification=_verification_of(columns, parts["corruption"]),
        series=None if columns["series"] is None else blobs.unpack_series(columns["series"]),
        database=msgspec.json.decode(columns["database_json"], type=DatabaseRecord | None),
        layout=msgspec.json.decode(columns["layout_json"], type=LayoutRecord | None),
        replay=msgspec.json.decode(columns["replay_json"], type=ReplayRecord | None),
    )


def _timeline_of(columns: Columns, slices_min: int) -> Timeline:
    slice_ns = columns["slice_ns"]
    if slices_min and columns["duration_s"] * 1e9 < slices_min * slice_ns:
        return Timeline(slice_ns=slice_ns, slices=[])
    return blobs.unpack_timeline(slice_ns, columns["timeline"])


def _operation_columns(operation: str, result: OperationResult) -> Columns:
    columns = _json_columns(result, ("reported_ns",))
    # The column keeps the name that it has in results files of before.
    columns["told_ns_json"] = columns.pop("reported_ns_json")
    return columns | {
        "operation": operation,
        "response": blobs.pack_histogram(result.response),
        "service": None if result.service is None else blobs.pack_histogram(result.service),
    }


def _operation_of(row: Row) -> OperationResult:
    service = row["service"]
    return OperationResult(
        completed=row["completed"],
        failed=row["failed"],
        transferred_bytes=row["transferred_bytes"],
        response=blobs.unpack_histogram(row["response"]),
        service=None if service is None else blobs.unpack_histogram(service),
        reported_ns=msgspec.json.decode(row["told_ns_json"]),
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
    """Return the columns of ``row``, each ``<name>_json`` read and under ``<name>``."""
    columns: Columns = {}
    for key in row.keys():  # noqa: SIM118 - a Row iterates over its values
        value = row[key]
        if key.endswith("_json"):
            columns[key.removesuffix("_json")] = msgspec.json.decode(value)
        else:
            columns[key] = value
    return columns
