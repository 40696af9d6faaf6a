"""Expands the workload ``filebench`` to cells, with the cost of each."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import UNSET

from seatrial.results.model import Sample
from seatrial.study.cell import Cell, FactorValue, SpecDocument
from seatrial.study.cost import OVERHEAD_S
from seatrial.study.layouts.cost import ASSUMED_BYTES_PER_S
from seatrial.study.model import PlannedTarget
from seatrial.study.units import format_factor, format_size
from seatrial.study.values import many
from seatrial.trials.filebench.study import FILEBENCH, Filebench, VariableValue
from seatrial.trials.filebench.wml.engine import Flowop, flowops_of
from seatrial.trials.filebench.wml.flowops import TYPES
from seatrial.trials.filebench.wml.source import is_path, text_of
from seatrial.trials.filebench.wml.workload import RUN_S_DEFAULT, Workload, workload_of

SPEC_KEY: Final = "filebench"
MADE_FILES_PER_S: Final = 2000
"""Assumed rate of creating small files, for a plan's duration."""


class FilesCost(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of a cell of files, stored in its specification.

    Attributes:
        made_bytes: Expected bytes of the files that are made before a sample.
        space_bytes: Expected bytes of all files of its sets, including growth.
        entries: Files and leaf folders of all sets.
        keeps_files: Whether a sample leaves the files as they were made.
        writes: Whether it writes data.
        descriptors: Maximum number of files open at once.
        notes: Differences from Filebench.
    """

    made_bytes: int
    space_bytes: int
    entries: int
    keeps_files: bool
    writes: bool
    descriptors: int
    notes: list[str] = []


def cells_of(workload: Filebench, target: PlannedTarget, *, prefix: str) -> Iterator[Cell]:
    """Yield a cell for each personality and each combination of variables.

    Args:
        workload: The workload.
        target: A directory.
        prefix: Prefix of every key.

    Raises:
        WorkloadFileError: when a workload file is malformed, or has an unsupported statement.
    """
    names = sorted(workload.variables)
    values: list[list[VariableValue]] = [many(workload.variables[name]) for name in names]
    for personality in many(workload.personality):
        text = text_of(personality)
        name = Path(personality).name if is_path(personality) else personality
        for combination in itertools.product(*values):
            variables = dict(zip(names, combination, strict=True))
            program = workload_of(personality, text, variables)
            for cold in many(workload.cold):
                factors = {"personality": name, **variables, **({"cold": True} if cold else {})}
                yield _cell(workload, target, program, factors, prefix)


def _cell(
    workload: Filebench,
    target: PlannedTarget,
    program: Workload,
    factors: Mapping[str, FactorValue],
    prefix: str,
) -> Cell:
    settings = [f"{k}={format_factor(v)}" for k, v in factors.items() if k != "personality"]
    parts = [workload.label, str(factors["personality"]), f"{program.threads}t", *settings]
    duration_s = workload.duration_s or program.run_s or RUN_S_DEFAULT
    growth_bytes = workload.growth_bytes * _growing_sets(program)
    cost = FilesCost(
        made_bytes=program.made_bytes,
        space_bytes=sum(program.set_bytes.values()) + growth_bytes,
        entries=program.entries,
        keeps_files=program.keeps_files,
        writes=program.writes,
        descriptors=program.descriptors,
        notes=program.notes,
    )
    engine = {
        **msgspec.to_builtins(program.engine),
        "cold": bool(factors.get("cold")),
        "growth_bytes": int(workload.growth_bytes),
        "limit_bytes": int(workload.limit_bytes),
    }
    return Cell(
        key=prefix + "/".join(parts),
        target=target.label,
        workload=workload.label,
        kind=FILEBENCH,
        operation="files",
        block_size_bytes=0,
        threads=program.threads,
        factors=dict(factors),
        spec={
            "target": {"kind": "directory", "direct": program.direct},
            "accesses": [],
            "limit": {"duration_s": duration_s, "bytes": int(workload.limit_bytes)},
            "slice_ms": workload.slice_ms,
            "stall_threshold_ms": workload.stall_threshold_ms,
            SPEC_KEY: {"engine": engine, "cost": msgspec.to_builtins(cost)},
        },
    )


def _growing_sets(program: Workload) -> int:
    """Return how many sets may grow: those appended to or written sequentially.

    All sets, where it is unknown which one a flowop uses.
    """
    growing: set[int] = set()
    for thread in program.engine.threads:
        of_slot: dict[int, set[int]] = {}
        flowops = list(flowops_of(thread.steps))
        for each in flowops:
            if each.set is not UNSET:
                of_slot.setdefault(each.slot, set()).add(each.set)
        for each in filter(_grows, flowops):
            if not of_slot.get(each.slot):
                return len(program.engine.sets)
            growing |= of_slot[each.slot]
    return len(growing)


def _grows(flowop: Flowop) -> bool:
    is_ordered = flowop.verb in ("write", "aiowrite") and flowop.random is UNSET
    return is_ordered or flowop.verb in ("appendfile", "appendfilerand")


def engine_of(cell: Cell) -> SpecDocument:
    """Return the engine's specification of a cell, without folder, seeds and duration."""
    engine: SpecDocument = cell.spec[SPEC_KEY]["engine"]
    return engine


def cost_of(cell: Cell) -> FilesCost:
    """Return the cost of a cell."""
    return msgspec.convert(cell.spec[SPEC_KEY]["cost"], FilesCost)


def making_s(cell: Cell) -> float:
    """Return the assumed time of creating the files of a cell (s)."""
    cost = cost_of(cell)
    return cost.made_bytes / ASSUMED_BYTES_PER_S + cost.entries / MADE_FILES_PER_S


def sample_s(cell: Cell) -> float:
    """Return the expected duration of one sample of a cell, including creating its files (s)."""
    return cell.parsed.duration_s + making_s(cell) + OVERHEAD_S


def sample_write_bytes(cell: Cell) -> int:
    """Return the maximum bytes that a sample of a cell writes, including its files."""
    cost = cost_of(cell)
    return cost.made_bytes + (cell.parsed.limit.bytes or 0 if cost.writes else 0)


def written_bytes(sample: Sample) -> int:
    """Return the bytes that a sample wrote, with those of making its files."""
    kinds = engine_of(sample.cell)["kinds"]
    writing = {kind["name"] for kind in kinds if TYPES[kind["verb"]].moves == "write"}
    parts = sample.operations.items()
    written = sum(part.transferred_bytes for name, part in parts if name in writing)
    return written + int(sample.counters.get("files_made_bytes", 0))


_MEMORY: Final = Path("/proc/meminfo")


def notes_of(cells: Sequence[Cell]) -> Iterator[str]:
    """Yield differences from Filebench, and cells whose files fit into the page cache."""
    own = [cell for cell in cells if cell.kind == FILEBENCH]
    yield from dict.fromkeys(note for cell in own for note in cost_of(cell).notes)
    memory_bytes = _memory_bytes()
    for cell in own:
        made_bytes = cost_of(cell).made_bytes
        is_cached = 0 < made_bytes < memory_bytes / 2 and not engine_of(cell)["cold"]
        if is_cached and not cell.parsed.target.direct:
            yield (
                f"{cell.key}: its files ({format_size(made_bytes)}) fit into the page cache, from "
                "which reads are answered, as with Filebench; --cold drops them from it before "
                "each sample"
            )


def _memory_bytes() -> int:
    """Return the memory of this machine in bytes; 0 if unknown."""
    try:
        lines = _MEMORY.read_text(encoding="utf-8").splitlines()
        kib = next(line.split()[1] for line in lines if line.startswith("MemTotal:"))
        return int(kib) * 1024
    except (OSError, StopIteration, ValueError, IndexError):
        return 0
