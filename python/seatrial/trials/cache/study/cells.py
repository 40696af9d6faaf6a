"""From the workload ``l2arc`` to its cells, and what they cost."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from seatrial.study.cell import Cell, FactorValue
from seatrial.study.model import PlannedTarget
from seatrial.study.problems import ConstraintError
from seatrial.study.schema import Study
from seatrial.study.units import format_factor, format_size
from seatrial.study.values import many
from seatrial.trials.cache.study.workload import L2ARC, L2arc, PoolSpec, spec_of
from seatrial.units import MIB

USUAL: Final[Mapping[str, FactorValue]] = {"pool": "striped", "clients": "direct"}
"""Factors that a key and a cell do not name where they have these values."""
ARC_BYTES_MIN: Final = 16 * MIB
RECORD_BYTES: Final = (512, 128 << 10)
CACHE_BYTES_MIN: Final = 64 * MIB
FEED_BYTES_PER_S_MAX: Final = 42 << 20
BUILDING_S: Final = 9.0
"""Starting the daemon, making the pool, measuring its ceiling, exporting and importing it."""
FILL_BYTES_PER_S: Final = 100e6


def cells_of_l2arc(workload: L2arc, target: PlannedTarget, *, prefix: str) -> Iterator[Cell]:
    """Yield a cell for each combination of the factors.

    Args:
        workload: The workload.
        target: A directory, which holds the images of the disks.
        prefix: What every key begins with.
    """
    combinations = itertools.product(
        workload.record_sizes,
        many(workload.pools),
        many(workload.clients),
        workload.arc,
        many(workload.cache),
    )
    for record_bytes, pool_kind, clients, arc_bytes, has_cache in combinations:
        pool = PoolSpec(
            has_cache=has_cache,
            pool=pool_kind,
            clients=clients,
            record_bytes=int(record_bytes),
            arc_bytes=int(arc_bytes),
            working_set_bytes=int(workload.working_set_bytes),
            cache_bytes=int(workload.cache_bytes),
            client_cache_bytes=int(workload.client_cache_bytes),
            disks=workload.disks,
            disk_reads_per_s=workload.disk_reads_per_s,
            baseline_s=workload.baseline_s,
            watched_s=workload.duration_s if has_cache else workload.baseline_s,
            pattern=workload.pattern,
            theta=workload.theta,
        )
        factors = _factors(workload, pool)
        parts = [workload.label, "read", f"{record_bytes}B", f"{workload.threads}t"]
        named = [f"{name}={format_factor(value)}" for name, value in factors.items()]
        yield Cell(
            key=prefix + "/".join([*parts, *named]),
            target=target.label,
            workload=workload.label,
            kind=L2ARC,
            operation="read",
            block_size_bytes=record_bytes,
            threads=workload.threads,
            factors=factors,
            spec=_spec(workload, pool),
        )


def _factors(workload: L2arc, pool: PoolSpec) -> dict[str, FactorValue]:
    factors: dict[str, FactorValue] = {"pool": pool.pool, "clients": pool.clients}
    if len(workload.arc) > 1:
        factors["arc_bytes"] = pool.arc_bytes
    unusual = {name: value for name, value in factors.items() if USUAL.get(name) != value}
    return unusual | {"cache": pool.has_cache}


def _spec(workload: L2arc, pool: PoolSpec) -> dict[str, object]:
    """Return the specification of a cell: that of the engine without its path, and the pool's."""
    address: dict[str, object] = {"kind": workload.pattern}
    if workload.pattern == "zipf":
        address["theta"] = workload.theta
    access = {
        "operation": "read",
        "sizes": [{"bytes": pool.record_bytes, "weight": 1}],
        "align_bytes": pool.record_bytes,
        "address": address,
    }
    length_bytes = pool.records * pool.record_bytes
    return {
        "target": {
            "kind": "zfs",
            "file": "",
            "direct": pool.clients == "direct",
            "copy_to": None,
        },
        "range": {"start_bytes": 0, "length_bytes": length_bytes},
        "accesses": [access],
        "engine": "psync",
        "arrival": {"kind": "closed"},
        "verify": False,
        "limit": {"duration_s": pool.baseline_s + pool.watched_s, "bytes": None},
        "slice_ms": workload.slice_ms,
        "stall_threshold_ms": workload.stall_threshold_ms,
        L2ARC: msgspec.to_builtins(pool),
    }


def check_l2arc(study: Study) -> Iterator[ConstraintError]:
    """Yield what no pool can be built with."""
    for index, workload in enumerate(study.workloads):
        if isinstance(workload, L2arc):
            for key, seen, expected in _problems(workload):
                yield ConstraintError(seen, expected, "workload", index, key)


def _problems(workload: L2arc) -> Iterator[tuple[str, str, str]]:
    """Yield key, problem and remedy."""
    smallest, largest = RECORD_BYTES
    for size in workload.record_sizes:
        if not smallest <= size <= largest or size & (size - 1):
            expected = "Expected a power of two from 512 to 128 KiB, the record sizes of ZFS"
            yield "record_sizes", f"has {format_size(size)}", expected
    if min(workload.arc) < ARC_BYTES_MIN:
        expected = f"Expected at least {format_size(ARC_BYTES_MIN)}, the least that zfs-fuse takes"
        yield "arc", f"has {format_size(min(workload.arc))}", expected
    if workload.cache_bytes < CACHE_BYTES_MIN:
        expected = f"Expected at least {format_size(CACHE_BYTES_MIN)}, the smallest device of ZFS"
        yield "cache_size", f"is {format_size(workload.cache_bytes)}", expected
    if workload.working_set_bytes < 2 * max(workload.record_sizes):
        yield "working_set", f"is {format_size(workload.working_set_bytes)}", "Expected more"
    if "raid-z" in many(workload.pools) and workload.disks < 3:
        yield "disks", f"is {workload.disks}", "Expected at least 3 for raid-z"


def l2arc_cells(cells: Sequence[Cell]) -> list[Cell]:
    """Return those of the cells that build a pool."""
    return [cell for cell in cells if cell.kind == L2ARC]


def sample_s(cell: Cell) -> float:
    """Return how long a sample takes with all that is built for it (s)."""
    pool = spec_of(cell)
    return BUILDING_S + pool.working_set_bytes / FILL_BYTES_PER_S + cell.parsed.duration_s


def sample_write_bytes(cell: Cell) -> int:
    """Return the most that a sample writes: the file with its parity, and what is cached."""
    pool = spec_of(cell)
    fed_bytes = int(min(2 * pool.working_set_bytes, FEED_BYTES_PER_S_MAX * pool.watched_s))
    return 2 * pool.working_set_bytes + (fed_bytes if pool.has_cache else 0)


def space_bytes(cells: Sequence[Cell]) -> int:
    """Return the space of the images of one pool: only one exists at a time."""
    return max(map(_space_bytes, l2arc_cells(cells)), default=0)


def _space_bytes(cell: Cell) -> int:
    pool = spec_of(cell)
    return pool.disks * pool.disk_bytes + (pool.cache_bytes if pool.has_cache else 0)


def plan_phrase(cell: Cell) -> list[str]:
    """Return what a plan prints of the pool of a workload."""
    pool = spec_of(cell)
    limit = f"{pool.disk_reads_per_s} reads/s each" if pool.disk_reads_per_s else "not limited"
    skew = f" (theta {pool.theta:g})" if pool.pattern == "zipf" else ""
    return [
        f"{pool.disks} disks, {limit}",
        f"{format_size(pool.working_set_bytes)} read, {pool.pattern}{skew}",
        f"ARC {format_size(pool.arc_bytes)}",
        f"cache device {format_size(pool.cache_bytes)}",
    ]


def notes_on_pools(cells: Sequence[Cell]) -> Iterator[str]:
    """Yield what building pools changes on this machine."""
    own = l2arc_cells(cells)
    if not own:
        return
    disks = max(spec_of(cell).disks for cell in own)
    yield (
        f"Each sample makes up to {disks + 1} loop devices, a daemon of ZFS (zfs-fuse) in a mount "
        "namespace of its own, and a control group, and removes them; no pool of this machine is "
        "accessed. It needs root"
    )
    yield (
        "The effect of a cache device is predicted in each sample before it is added, and stored "
        "with it"
    )
