"""A believable made-up run of layouts: a small sweep as the article's, and two drives that fail.

Figures follow simple laws (so much a drive, up to what the controller moves), so that what is
drawn can be worked out. The analysis is the analysis room's own.
"""

from __future__ import annotations

import functools

import msgspec

from report.exports_hand import make_run as make_small_run
from report.exports_hand import make_sample, repeated
from seatrial.findings.model import Summary
from seatrial.findings.summary import summarise
from seatrial.results.model import (
    ArrayEvent,
    LayoutRecord,
    OperationResult,
    Outcome,
    Run,
    Sample,
    Series,
    Slice,
    Timeline,
    Verification,
)
from seatrial.study.cell import Cell
from seatrial.study.layouts.layout import LayoutSpec
from seatrial.units import GIB, KIB

CONTROLLER_BYTES_PER_S = 900e6
DRIVE_BYTES_PER_S = 160e6
ROUNDS = 3
WOBBLE = (1.0, 1.012, 0.991)
SIZES_BYTES = (2 * KIB, 8 * KIB, 64 * KIB)
FAILED_S, REBUILD_S, REBUILT_S, ENDS_S = 20.0, 20.4, 38.0, 60.0
SLICE_NS = 500_000_000


def spec(label: str, level: str, drives: int, legs: int = 1, **more) -> LayoutSpec:
    return LayoutSpec(
        label=label,
        name=label.rpartition("-")[0],
        backend="md+lvm" if legs > 1 else "md",
        level=level,
        drives=drives,
        legs=legs,
        filesystem="xfs",
        **more,
    )


SPECS = (
    *(spec(f"raid0-{count}", "raid0", count) for count in (2, 4, 6, 8)),
    *(spec(f"raid5-{count}", "raid5", count, spares=1) for count in (4, 6, 8)),
    spec("raid05-2x4", "raid5", 4, legs=2),
)


def make_record(of: LayoutSpec, requests: int, kind: str, built: int, **more) -> LayoutRecord:
    """What a round tells of an array; parity levels read two and write two for each write."""
    drives = [f"/dev/disk{number}" for number in range(1, of.members + 1)]
    active = of.legs * of.drives
    reads, writes = (1.0, 0.0) if kind == "read" else (0.0, 1.0)
    if kind == "write" and of.level == "raid5":
        reads, writes = 2.0, 2.02
    share = requests / active
    working = {
        "reads": reads * share,
        "writes": writes * share,
        "flushes": 0.0,
        "read_bytes": reads * share * 8 * KIB,
        "write_bytes": writes * share * 8 * KIB,
        "busy_ns": 0.7e9,
    }
    idle = dict.fromkeys(working, 0.0)
    roles = {
        drive: f"leg {1 + index // of.leg_members}"
        if index % of.leg_members < of.drives
        else f"spare of leg {1 + index // of.leg_members}"
        for index, drive in enumerate(drives)
    }
    return LayoutRecord(
        layout=msgspec.to_builtins(of),
        device=f"/dev/md/seatrial-{of.label}",
        built_s=1.9 + 0.1 * built,
        synced_s=7.1 if of.level == "raid5" else 0.0,
        usable_bytes=int(of.data_members * 2 * GIB),
        facts={"metadata": "1.2", "bitmap": "none"},
        misaligned=["The stripe begins 1 KiB into a chunk."] if of.label == "raid0-6" else [],
        members={drive: working if "spare" not in role else idle for drive, role in roles.items()},
        roles=roles,
        commands=[
            f"mdadm --create /dev/md/seatrial-{of.label} --level={of.level} {' '.join(drives)}",
            f"mkfs.xfs -f /dev/md/seatrial-{of.label}",
        ],
        **more,
    )


def make_cell(target: str, workload: str, operation: str, size_bytes: int, threads: int, **factors):
    tail = "".join(f"/{name}={value}" for name, value in factors.items())
    return Cell(
        key=f"{target}/{workload}/{operation}/{size_bytes}B/{threads}t/1d{tail}",
        target=target,
        workload=workload,
        kind={"steady": "io"}.get(workload, workload),
        operation=operation,
        block_size_bytes=size_bytes,
        threads=threads,
        factors=factors,
        spec={
            "target": {"direct": True},
            "arrival": {"kind": "closed"},
            "accesses": [{"address": {"kind": factors.get("pattern", "sequential")}}],
        },
    )


def per_s(of: LayoutSpec, cell: Cell) -> float:
    """Requests a second: so much a drive and thread, up to what all drives or controllers move."""
    drives, size_bytes = of.legs * of.drives, cell.block_size_bytes or 1024 * KIB
    costs = 4.0 if of.level == "raid5" and cell.operation == "write" else 1.0
    moved = min(drives * DRIVE_BYTES_PER_S / costs, of.legs * CONTROLLER_BYTES_PER_S / costs)
    alone = cell.threads / (90e-6 + size_bytes / DRIVE_BYTES_PER_S)
    return min(alone, moved / size_bytes)


def plain_samples(of: LayoutSpec, cell: Cell) -> list[Sample]:
    kind = cell.operation
    found = []
    for index in range(ROUNDS):
        count = round(per_s(of, cell) * WOBBLE[index])
        sample = make_sample(cell, {kind: count}, index=index, latency_ns=180_000)
        record = make_record(of, count, kind, built=index)
        found.append(msgspec.structs.replace(sample, layout=record))
    return found


def cells_of(of: LayoutSpec) -> list[Cell]:
    """The cells of figures 1 to 5 for all, those of figures 6 and 7 for four drives of RAID0."""
    sizes = SIZES_BYTES if of.label in ("raid0-4", "raid5-4") else (8 * KIB,)
    found = [
        make_cell(of.label, "matrix", kind, size_bytes, threads, pattern="random")
        for kind in ("read", "write")
        for size_bytes in sizes
        for threads in (1, 10, 40)
    ]
    found += [
        make_cell(of.label, "sequential", kind, 8 * KIB, 1, pattern="sequential", file="big")
        for kind in ("read", "write")
    ]
    return [*found, make_cell(of.label, "copy", "copy", 1024 * KIB, 1)]


def broken_sample(of: LayoutSpec, cell: Cell, index: int) -> Sample:
    """A minute with a failure after 20 s: three in ten requests are left until it is rebuilt."""
    operation = cell.operation
    usual = 100.0 * WOBBLE[index]
    slices = []
    for number in range(round(ENDS_S * 1e9 / SLICE_NS)):
        at_s = number * SLICE_NS / 1e9
        is_low = FAILED_S <= at_s < REBUILT_S
        count = round(usual * (0.3 if is_low else 1.0) * (0.97 + 0.02 * (number % 4)))
        histogram = repeated(9_000_000 if is_low else 2_500_000, count)
        slices.append(
            Slice(
                index=number,
                operation=operation,
                completed=count,
                transferred_bytes=count * 8 * KIB,
                response=histogram.encode(),
            )
        )
    total = sum(part.completed for part in slices)
    low = sum(p.completed for p in slices if FAILED_S <= p.index * SLICE_NS / 1e9 < REBUILT_S)
    response = repeated(9_000_000, low).merged(repeated(2_500_000, total - low))
    on_database = operation == "transaction"
    return Sample(
        cell=cell,
        round=index,
        position=0,
        started_at=1_795_247_101.0 + 70 * index,
        duration_s=ENDS_S,
        engine="pgbench" if on_database else "psync",
        outcome=Outcome(
            offered=total, completed=total, failed=0, late_skipped=0, in_flight_at_end=0
        ),
        operations={
            operation: OperationResult(
                completed=total,
                failed=0,
                transferred_bytes=total * 8 * KIB,
                response=response.encode(),
            )
        },
        timeline=Timeline(slice_ns=SLICE_NS, slices=slices),
        verification=None
        if on_database
        else Verification(checked_blocks=131_072, corrupt_blocks=0),
        series=rebuild_series(),
        layout=make_record(
            of,
            total,
            "write",
            built=index,
            events=failure_events(),
            unreadable_bytes=0,
            checked_bytes=512 << 20,
            wrong_bytes=0,
        ),
    )


def failure_events() -> list[ArrayEvent]:
    return [
        ArrayEvent(at_s=FAILED_S, what="failed", leg=1, member="/dev/disk2"),
        ArrayEvent(at_s=REBUILD_S, what="rebuild_started", leg=1, detail="on /dev/disk5"),
        ArrayEvent(at_s=REBUILT_S, what="rebuild_ended", leg=1),
        ArrayEvent(at_s=ENDS_S + 1.5, what="scrub_started", leg=1),
        ArrayEvent(at_s=ENDS_S + 4.0, what="scrub_ended", leg=1, detail="nothing did not agree"),
    ]


def rebuild_series() -> Series:
    period_s = 0.5
    share: list[float | None] = []
    missing: list[float | None] = []
    for index in range(round(ENDS_S / period_s)):
        at_s = index * period_s
        rebuilding = REBUILD_S <= at_s < REBUILT_S
        share.append((at_s - REBUILD_S) / (REBUILT_S - REBUILD_S) if rebuilding else None)
        missing.append(1.0 if FAILED_S <= at_s < REBUILT_S else 0.0)
    return Series(period_s=period_s, columns={"rebuild_share": share, "missing_members": missing})


def make_run(**changes) -> Run:
    values = {"study_name": "raid-sweep", "study": {"name": "raid-sweep"}} | changes
    return make_small_run(**values)


def layout_samples() -> list[Sample]:
    found = [sample for of in SPECS for cell in cells_of(of) for sample in plain_samples(of, cell)]
    return found + broken_samples()


def broken_samples() -> list[Sample]:
    of = next(each for each in SPECS if each.label == "raid5-4")
    steady = make_cell(of.label, "steady", "write", 8 * KIB, 4, pattern="random")
    steady = msgspec.structs.replace(
        steady, spec=steady.spec | {"fail": [{"after_s": FAILED_S, "deed": "fail", "member": 2}]}
    )
    return [broken_sample(of, steady, index) for index in range(ROUNDS)]


@functools.cache
def layout_summary() -> Summary:
    """The run, analysed once for all tests: it is frozen, and the analysis takes a while."""
    return summarise(make_run(), layout_samples())
