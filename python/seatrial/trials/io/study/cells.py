"""From a workload of block I/O to its cells: one for every combination of its factors' values."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

from seatrial.study.cell import Cell
from seatrial.study.cost import OVERHEAD_S
from seatrial.study.layouts.cost import ASSUMED_BYTES_PER_S
from seatrial.study.model import LOG_FILE, PlannedTarget
from seatrial.study.plan import writes
from seatrial.study.sampled import REBUILD_LIMIT, breaking
from seatrial.study.schema import Study
from seatrial.study.units import format_factor
from seatrial.study.values import many
from seatrial.trials.io.study.shapes import Factors, Shape, shapes_of
from seatrial.trials.io.study.workloads import WorkloadBase


def cells_of(
    workload: WorkloadBase, target: PlannedTarget, study: Study, *, prefix: str = ""
) -> Iterator[Cell]:
    """Yield the cells of a workload on a target.

    Args:
        workload: The workload.
        target: The target.
        study: The study, for its access specifications.
        prefix: Prefix of every key; the target's label if there are several.
    """
    for shape in shapes_of(workload, target, study):
        for variation in _variations(workload):
            factors = shape.factors | _non_default_factors(workload, variation)
            key_factors = {k: v for k, v in factors.items() if shape.implied.get(k) != v}
            yield Cell(
                key=prefix + _key(workload.label, shape, key_factors),
                target=target.label,
                workload=workload.label,
                kind=workload.kind,
                operation=shape.operation,
                block_size_bytes=shape.block_size_bytes,
                threads=shape.threads,
                depth=shape.depth,
                factors=factors,
                spec=_spec(workload, shape, variation, target),
            )


def _key(label: str, shape: Shape, factors: Factors) -> str:
    """Return the key of a cell without its prefix; it has only values that are not defaults."""
    size = f"{shape.block_size_bytes}B" if shape.block_size_bytes else "various"
    parts = [label, shape.operation, size, f"{shape.threads}t", f"{shape.depth}d"]
    return "/".join(
        [*parts, *(f"{name}={format_factor(value)}" for name, value in factors.items())]
    )


_LOAD_FACTORS: Final = (
    ("direct", "direct"),
    ("engine", "engine"),
    ("data", "data"),
    ("compressible_share", "compressible_share"),
    ("arrival", "arrival"),
    ("rate_per_s", "rate"),
    ("burst", "burst"),
    ("sync_every", "sync_every"),
    (REBUILD_LIMIT, REBUILD_LIMIT),
)
"""Attribute and name of the factors that all kinds share, in the order of the key."""


def _variations(workload: WorkloadBase) -> list[Factors]:
    """Return every combination of the load factors, without those that have no effect."""
    names, values = [], []
    for attribute, name in _LOAD_FACTORS:
        value = getattr(workload, attribute, None)
        if attribute == "arrival" and workload.SEEKS_RATE:
            value = "closed"  # for scale; the search adds the schedule
        if value is not None:
            names.append(name)
            values.append(many(value))
    combinations: list[Factors] = []
    for chosen in itertools.product(*values):
        factors = dict(zip(names, chosen, strict=True))
        if factors["data"] != "compressible":
            del factors["compressible_share"]
        if factors.get("arrival") not in ("bursts", "batches"):
            factors.pop("burst", None)
        if factors.get("arrival") == "closed":
            factors.pop("rate", None)
        if not workload.failures:
            del factors[REBUILD_LIMIT]
        if factors not in combinations:
            combinations.append(factors)
    return combinations


def usual_factors(kind: str) -> Factors:
    """Return the defaults of the load factors of a kind, which a cell omits."""
    return {
        "engine": "auto",
        "data": "random",
        "arrival": "closed",
        "sync_every": 0,
        "direct": kind != "commit",
        REBUILD_LIMIT: 0,
    }


def _non_default_factors(workload: WorkloadBase, variation: Factors) -> Factors:
    """Return the load factors that differ from the defaults of the workload's kind."""
    usual = usual_factors(workload.kind)
    return {name: value for name, value in variation.items() if usual.get(name) != value}


def _spec(
    workload: WorkloadBase, shape: Shape, variation: Factors, target: PlannedTarget
) -> dict[str, object]:
    """Return the engine's specification (docs/engine.md) without paths and seed.

    Injected faults are separate keys, which the engine does not get. ``target.file`` and
    ``target.copy_to`` are names of ``Plan.files``; ``limit.duration_s`` is that of the study.
    """
    kind = target.kind if not target.is_storage else "file"
    spec_target: dict[str, object] = {
        "kind": kind,
        "file": shape.file,
        "size_bytes": shape.length_bytes if shape.file == LOG_FILE else target.size_bytes,
        "direct": variation["direct"],
        "dsync": shape.dsync,
        "copy_to": shape.copy_to,
        "create": shape.create,
    }
    if target.kind == "simulated":
        spec_target["model"] = target.model
    data: dict[str, object] = {"kind": variation["data"]}
    if "compressible_share" in variation:
        data["share"] = variation["compressible_share"]
    arrival: dict[str, object] = {"kind": variation.get("arrival", "closed")}
    if "rate" in variation:
        arrival["rate_per_s"] = variation["rate"]
    if "burst" in variation:
        arrival["burst"] = variation["burst"]
    streams = {}
    if shape.streams:
        streams, arrival = {"streams": shape.streams}, {"kind": "streams"}
    return {
        "seed": 0,
        "target": spec_target,
        "range": {"start_bytes": shape.start_bytes, "length_bytes": shape.length_bytes},
        "accesses": shape.accesses,
        "threads": shape.threads,
        "depth": shape.depth,
        "engine": variation["engine"],
        "arrival": arrival,
        **streams,
        "sync_every": variation.get("sync_every", 0),
        "sync_kind": getattr(workload, "sync_kind", "fdatasync"),
        "data": data,
        "verify": workload.verify,
        "ledger_path": None,
        "limit": {
            "duration_s": workload.duration_s,
            "bytes": shape.limit_bytes,
            "operations": None,
        },
        "slice_ms": workload.slice_ms,
        "stall_threshold_ms": workload.stall_threshold_ms,
        "iopoll": workload.iopoll,
        **breaking(workload, int(variation.get(REBUILD_LIMIT, 0))),
    }


def sample_s(cell: Cell) -> float:
    """Return the expected time of a sample (s)."""
    duration_s = cell.parsed.duration_s
    if cell.kind == "fill":
        duration_s = min(duration_s, (cell.parsed.limit.bytes or 0) / ASSUMED_BYTES_PER_S)
    return duration_s + OVERHEAD_S


def sample_write_bytes(cell: Cell) -> int:
    """Return the upper limit of bytes that a sample writes to storage."""
    if not writes(cell) or cell.parsed.target.kind != "file":
        return 0
    return cell.parsed.limit.bytes or 0
