"""A believable made-up run: every workload, a stall, an absent cell, errors, hostile text.

It stands for an SSD behind a SATA link: reads saturate the link, writes are slower and freeze
once for two seconds, commits cost what a flush costs. All draws come from one seed, so that two
calls give the same bytes.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from seatrial._core import Histogram
from seatrial.findings.model import Summary
from seatrial.findings.summary import summarise_cell
from seatrial.fingerprint import Device as FoundDevice
from seatrial.fingerprint import (
    Filesystem,
    Fingerprint,
    FingerprintAfter,
    Health,
    KernelLog,
    LogLine,
    Machine,
    Target,
)
from seatrial.results.model import (
    ErrorSample,
    OperationResult,
    Outcome,
    Run,
    Sample,
    Slice,
    Stall,
    Timeline,
)
from seatrial.stats.model import CellSummary, Finding
from seatrial.study.cell import Cell, FactorValue
from seatrial.units import GIB, KIB, MIB
from stats.builders import finding_of

SLICE_NS = 100_000_000
STARTED_AT = 1_795_247_100.0  # 2026-11-21, a Saturday morning
HOSTILE = "</script><script>alert(1)</script><!-- \u2028 & 'quoted' \"twice\""
SIZES_BYTES = (512, 4 * KIB, 32 * KIB, 256 * KIB, 4 * MIB)
THREADS = (1, 10, 40)
ROUNDS = 3


@dataclass
class Device:
    """How long one request takes on the made-up device, and how many it serves at once."""

    base_ns: float
    per_byte_ns: float
    lanes: int
    tail: float = 0.25

    def service_ns(self, size_bytes: int) -> float:
        """Return the mean time of one request alone, in ns."""
        return self.base_ns + size_bytes * self.per_byte_ns

    def per_s(self, size_bytes: int, threads: int, link_bytes_per_s: float) -> float:
        """Return the requests per second that so many threads get."""
        lanes = min(threads, self.lanes)
        free = lanes * 1e9 / self.service_ns(size_bytes)
        limit = link_bytes_per_s / size_bytes
        return 1 / (1 / free**4 + 1 / limit**4) ** 0.25


READ = Device(base_ns=88_000, per_byte_ns=0.9, lanes=24)
WRITE = Device(base_ns=34_000, per_byte_ns=1.6, lanes=3, tail=0.45)
LINK_BYTES_PER_S = 548e6


@dataclass
class Draft:
    """One cell to be made: what it does and how fast it is."""

    cell: Cell
    per_s: float
    latency_ns: float
    tail: float = 0.3
    operations: dict[str, float] = field(default_factory=dict)
    duration_s: float = 0.5
    rounds: int = ROUNDS
    stall: Stall | None = None
    errors: int = 0
    absent: bool = False


class Maker:
    """Turns drafts into samples and summaries."""

    def __init__(self, seed: int = 7) -> None:
        self._random = random.Random(seed)
        self._position = 0

    def summary(self, draft: Draft) -> CellSummary:
        """Return one cell with all its rounds, as the analysis sums them up."""
        return summarise_cell(self.samples(draft))

    def samples(self, draft: Draft) -> list[Sample]:
        """Return all rounds of one cell."""
        return [self._sample(draft, index) for index in range(draft.rounds)]

    def _sample(self, draft: Draft, index: int) -> Sample:
        self._position += 1
        wobble = math.exp(self._random.gauss(0, 0.012))
        stall = draft.stall if index == 1 else None
        shares = draft.operations or {draft.cell.operation: 1.0}
        slices = [] if draft.absent else list(self._slices(draft, shares, wobble, stall))
        operations = {kind: total_of(slices, kind, draft.errors) for kind in shares}
        completed = sum(part.completed for part in operations.values())
        left = draft.cell.threads if draft.absent else 0
        return Sample(
            id=self._position,
            run_id="20261121-074500-3fa2",
            cell=draft.cell,
            round=index,
            position=self._position,
            started_at=STARTED_AT + self._position * 0.6,
            duration_s=draft.duration_s,
            engine="io_uring" if draft.cell.depth > 1 else "psync",
            engine_reason="depth 1: one request at a time needs no ring",
            outcome=Outcome(
                offered=completed + draft.errors + left,
                completed=completed,
                failed=draft.errors,
                late_skipped=0,
                in_flight_at_end=left,
            ),
            operations=operations,
            timeline=Timeline(slice_ns=SLICE_NS, slices=slices),
            stalls=[stall] if stall else [],
            oldest_in_flight_ns=4_200_000_000 if draft.absent else 0,
            errors_count=draft.errors,
            errors=[
                ErrorSample(
                    operation=draft.cell.operation,
                    offset_bytes=(7 + number) * MIB,
                    length_bytes=draft.cell.block_size_bytes,
                    errno=5,
                    name="EIO",
                    at_s=0.2 + number / 100,
                )
                for number in range(draft.errors)
            ],
            counters={"cpu_user_ns": 61e6, "cpu_system_ns": 190e6, "watchdog_lateness_ns_max": 9e4},
        )

    def _slices(
        self, draft: Draft, shares: dict[str, float], wobble: float, stall: Stall | None
    ) -> Iterator[Slice]:
        for index in range(round(draft.duration_s * 1e9 / SLICE_NS)):
            start_s = index * SLICE_NS / 1e9
            ends_stall = stall is not None and start_s <= stall.start_s + stall.length_s < (
                start_s + SLICE_NS / 1e9
            )
            if stall and not ends_stall and 0 <= start_s - stall.start_s < stall.length_s:
                continue
            for kind, share in shares.items():
                wanted = draft.per_s * wobble * share * SLICE_NS / 1e9
                slow_ns = stall.length_s * 1e9 if stall and ends_stall else None
                histogram = self._histogram(draft, wanted, slow_ns)
                yield Slice(
                    index=index,
                    operation=kind,
                    completed=histogram.count,
                    transferred_bytes=histogram.count * (draft.cell.block_size_bytes or 8 * KIB),
                    response=histogram.encode(),
                )

    def _histogram(self, draft: Draft, wanted: float, slow_ns: float | None) -> Histogram:
        """Draw a few latencies and repeat them up to the wanted count: quick, and still exact."""
        doublings = max(0, math.ceil(math.log2(max(1.0, wanted / 150))))
        distinct = max(1, round(wanted / 2**doublings))
        values = [
            int(draft.latency_ns * math.exp(self._random.gauss(0, draft.tail)))
            * (self._random.choice((3, 6, 14)) if self._random.random() < 0.012 else 1)
            for _ in range(distinct)
        ]
        histogram = Histogram.of(values)
        for _ in range(doublings):
            histogram = histogram.merged(histogram)
        if slow_ns is not None:
            slow = [int(slow_ns * (0.98 + 0.02 * k / draft.cell.threads)) for k in
                    range(draft.cell.threads)]  # fmt: skip
            histogram = histogram.merged(Histogram.of(slow))
        return histogram


def total_of(slices: Sequence[Slice], kind: str, failed: int) -> OperationResult:
    """Return one operation kind's sum over a timeline."""
    chosen = [part for part in slices if part.operation == kind]
    histogram = Histogram.of([])
    for part in chosen:
        histogram = histogram.merged(Histogram.decode(part.response))
    return OperationResult(
        completed=histogram.count,
        failed=failed,
        transferred_bytes=sum(part.transferred_bytes for part in chosen),
        response=histogram.encode(),
    )


def make_cell(
    kind: str, operation: str, size_bytes: int, threads: int, **factors: FactorValue
) -> Cell:
    """Return a cell as the study's plan would; ``start_bytes`` becomes the engine's range."""
    start_bytes = factors.pop("start_bytes", 0)
    tail = "/".join(f"{name}={value}" for name, value in factors.items())
    return Cell(
        key=f"{kind}/{operation}/{size_bytes}B/{threads}t/1d/{start_bytes}/{tail}",
        target="ssd",
        workload=kind,
        kind=kind,
        operation=operation,
        block_size_bytes=size_bytes,
        threads=threads,
        factors=factors,
        spec={"range": {"start_bytes": start_bytes, "length_bytes": GIB}},
    )


def random_draft(kind: str, operation: str, size_bytes: int, threads: int, **more: Any) -> Draft:
    """Return random access on the made-up device."""
    device = READ if operation == "read" else WRITE
    per_s = device.per_s(size_bytes, threads, LINK_BYTES_PER_S)
    factors = more.pop("factors", {})
    cell = make_cell(kind, operation, size_bytes, threads, **factors)
    return Draft(cell, per_s, threads * 1e9 / per_s * 0.96, tail=device.tail, **more)


def matrix_drafts(
    sizes_bytes: Sequence[int], threads: Sequence[int], rounds: int
) -> Iterator[Draft]:
    """Yield the random matrix: one write cell stalls, one never completes, one has errors."""
    stall = Stall(
        start_s=0.6,
        length_s=2.13,
        cause="device",
        operations={"write": 10},
        depth=10,
        evidence={"device_in_flight_share": 0.99, "run_queue_delay_ns": 1_200_000},
    )
    for operation in ("read", "write"):
        for size_bytes in sizes_bytes:
            for count in threads:
                draft = random_draft(
                    "matrix", operation, size_bytes, count,
                    rounds=rounds, factors={"pattern": "random"},
                )  # fmt: skip
                where = (operation, size_bytes, count)
                if where == ("write", 4 * KIB, 10):
                    draft.stall, draft.duration_s = stall, 4.0
                draft.absent = where == ("write", 4 * MIB, 40)
                draft.errors = 3 if where == ("write", 256 * KIB, 40) else 0
                yield draft


def other_drafts() -> Iterator[Draft]:
    """Yield the workloads other than the matrix."""
    fill = make_cell("fill", "write", MIB, 1)
    yield Draft(fill, 402.0, 2_400_000, duration_s=2.0, rounds=1)
    for operation, limit in (("read", 541e6), ("write", 418e6)):
        for file, gain in (("big", 1.0), ("small", 3.1)):
            for size_bytes in (8 * KIB, 64 * KIB, 512 * KIB, 4 * MIB):
                cell = make_cell(
                    "sequential", operation, size_bytes, 1, pattern="sequential", file=file
                )
                alone = size_bytes / (60e-6 + size_bytes / limit) * gain
                yield Draft(cell, alone / size_bytes, size_bytes / alone * 1e9)
    copy = make_cell("copy", "copy", MIB, 4)
    yield Draft(copy, 205.0, 19_000_000)
    for zone in range(16):
        start_bytes, slowing = zone * GIB, 1 - 0.011 * zone
        where: dict[str, FactorValue] = {"zone": zone, "zones": 16, "start_bytes": start_bytes}
        rate = make_cell("map", "read", MIB, 1, pattern="sequential", **where)
        yield Draft(rate, 512 * slowing, 1.9e6 / slowing)
        access = make_cell("map", "read", 512, 1, pattern="random", **where)
        yield Draft(access, 9_800, 98_000 * (1 + 0.004 * zone), tail=0.12)
    for method, flush_ns in (("fdatasync", 640_000), ("o_dsync", 590_000)):
        for committers in (1, 4, 16):
            cell = make_cell("commit", "commit", 8 * KIB, committers, method=method)
            group = committers**0.72
            yield Draft(cell, group * 1e9 / flush_ns, committers / group * flush_ns, tail=0.35)
    for pattern, gain in (("sequential", 1.6), ("random", 1.0)):
        for operation in ("write", "read"):
            draft = random_draft("four", operation, 4 * KIB, 1, factors={"pattern": pattern})
            draft.per_s, draft.latency_ns = draft.per_s * gain, draft.latency_ns / gain
            yield draft
    for name, shares in (
        ("database", {"read": 0.67, "write": 0.33}),
        ("web server", {"read": 1.0}),
        ("file server", {"read": 0.8, "write": 0.2}),
    ):
        cell = make_cell("mix", "mixed", 0, 8, access=name)
        yield Draft(cell, 31_000 * shares["read"], 260_000, tail=0.5, operations=shares)


def findings() -> list[Finding]:
    """Return one finding of each severity, one of them with text that tries to break the page."""
    return [
        finding_of(
            kind="stall",
            severity="critical",
            cells=[
                {
                    "target": "ssd",
                    "workload": "matrix",
                    "operation": "write",
                    "block_size_bytes": 4096,
                    "threads": 10,
                    "depth": 1,
                    "pattern": "random",
                }
            ],
            sentence="All writes stood still once, for 2.1 s, in round 2 of random write 4 KiB, "
            "10 threads.",
            cause="The device: requests were in flight in the block layer all the time, and the "
            "thread was ready to go on. Drives do this when they collect garbage.",
            evidence={"stalls": 1, "length_s_max": 2.13, "device_in_flight_share": 0.99},
            next="See whether it comes back: 'seatrial io /mnt/ssd --operation write --block-size "
            "4KiB --threads 10 --duration 10m'.",
        ),
        finding_of(
            kind="errors",
            severity="critical",
            cells=[],
            sentence="9 of 13,412 writes of 256 KiB failed with EIO, the first at offset 7 MiB.",
            cause="The drive could not write these blocks, or the link to it was reset.",
            evidence={"errors": 9, "first_offset_bytes": 7 * MIB, "errno": "EIO"},
            next="Read the kernel's log: 'journalctl -k --since -1h'; then the drive's health: "
            "'smartctl -a /dev/sdb'.",
        ),
        finding_of(
            kind="link_narrow",
            severity="warning",
            cells=[],
            sentence="The SATA link runs at 3.0 Gbit/s and can run at 6.0 Gbit/s.",
            cause=f"A cable, a port or a setting. {HOSTILE}",
            evidence={"link_bytes_per_s": 300e6, "link_bytes_per_s_max": 600e6, "device": HOSTILE},
            next="Put the drive on another port, then run 'seatrial check /mnt/ssd'.",
        ),
        finding_of(
            kind="cell_not_repeatable",
            severity="note",
            cells=[],
            sentence="2 of 68 cells differ by more than 5 % between rounds.",
            cause="Other work on the machine, or a drive that is still settling.",
            evidence={"cells_count": 2, "half_width_share_max": 0.071},
            next="Measure more rounds: 'seatrial study studies/quick.toml --resume'.",
        ),
    ]


def make_run() -> Run:
    """Return the run: a study with hostile text in it, a machine before and what changed."""
    return Run(
        id="20261121-074500-3fa2",
        command="seatrial run /mnt/ssd",
        label="ssd before firmware 1.4",
        study_name="quick",
        study={
            "name": "quick",
            "title": HOSTILE,
            "rounds": 3,
            "precision_share": 0.05,
            "budget_s": 120.0,
            "target": [{"label": "ssd", "path": "/mnt/ssd", "size_bytes": 16 * GIB}],
            "workload": [
                {
                    "name": "matrix", "kind": "matrix", "operations": ["read", "write"],
                    "block_sizes_bytes": list(SIZES_BYTES), "threads": list(THREADS),
                },
                {"name": "commit", "kind": "commit", "committers": [1, 4, 16]},
            ],
        },
        plan_hash="9f2c51d07a1b",
        seed=7,
        status="complete",
        started_at=STARTED_AT,
        ended_at=STARTED_AT + 121.4,
        fingerprint_before=Fingerprint(
            machine=Machine(
                cpu_model="Xeon E-2278G", cpus_online=8, cpu_governor="performance",
                memory_bytes=64 * GIB, kernel="6.12.9-amd64", clock_source="tsc",
            ),
            target=Target(
                path="/mnt/ssd",
                filesystem=Filesystem(
                    type="xfs", mount_options=["rw", "noatime"], free_bytes=190 * GIB
                ),
                stack=[
                    FoundDevice(
                        name="sdb", model="MTRON MSP7535", firmware="0.18R1H3",
                        size_bytes=256_060_514_304, rotational=False, scheduler="mq-deadline",
                        link_bytes_per_s=300e6,
                    )
                ],
            ),
            health={"sdb": Health(temperature_c=34)},
        ),
        fingerprint_after=FingerprintAfter(
            health={"sdb": Health(temperature_c=41)},
            kernel_log=KernelLog(
                lines=[LogLine(text="ata3.00: exception Emask 0x0"), LogLine(text=HOSTILE)]
            ),
        ),
        seatrial_version="0.1.0",
    )  # fmt: skip


def sample_summary(
    sizes_bytes: Sequence[int] = SIZES_BYTES,
    threads: Sequence[int] = THREADS,
    rounds: int = ROUNDS,
    seed: int = 7,
) -> Summary:
    """Return the whole made-up run, as an analysis would hand it to a report."""
    maker = Maker(seed)
    drafts = [*matrix_drafts(sizes_bytes, threads, rounds), *other_drafts()]
    return Summary(
        run=make_run(),
        cells=[maker.summary(draft) for draft in drafts],
        findings=findings(),
        verdict="Do not run a database on it yet: writes stood still for 2.1 s, and 9 writes "
        "failed.",
    )
