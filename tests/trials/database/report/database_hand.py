"""A believable made-up run of a database: three drives, two scales, a checkpoint dip, a stall.

The figures are near those of the article of 2010 for its hard disk and its slower SSD, and far
above them for a drive of today. All draws come from one seed, so two calls give the same bytes.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from findings.analyses import with_analyses
from report.exports_hand import make_finding
from report.exports_hand import make_run as make_small_run
from seatrial._core import Histogram
from seatrial.findings.model import Summary
from seatrial.findings.summary import summarise_cell
from seatrial.fingerprint import Fingerprint, Machine
from seatrial.results.model import (
    DatabaseRecord,
    OperationResult,
    Outcome,
    Run,
    Sample,
    Series,
    Slice,
    Stall,
    Timeline,
)
from seatrial.stats.cell_estimates import estimate_of_rounds
from seatrial.stats.model import CellSummary, Estimate, Finding
from seatrial.study.cell import Cell, FactorValue
from seatrial.trials.database.analysis.model import (
    CacheSweep,
    DatabaseAnalysis,
    DatabaseCell,
    ReadShares,
    TimeVerdict,
)
from seatrial.trials.database.study.workloads import DatabaseSpec, LoadSpec
from seatrial.units import MIB

SLICE_NS = 500_000_000
STARTED_AT = 1_795_247_100.0
DURATION_S = 24.0
ROUNDS = 3
CHECKPOINT_AT_S, CHECKPOINT_S = 10.0, 4.0
STALL = Stall(
    start_s=17.2,
    length_s=1.7,
    cause="device",
    operations={"transaction": 10},
    depth=10,
    evidence={"device_in_flight_share": 0.98},
)
SETTINGS = {
    "shared_buffers": "128MB",
    "max_wal_size": "1GB",
    "checkpoint_timeout": "30s",
    "listen_addresses": "",
    "unix_socket_directories": "/run/seatrial-7f3a",
}
SERVER = "PostgreSQL 15.20"


@dataclass(frozen=True)
class Drive:
    """What a database finds on a drive, by scale: tps, shares of waits, shares of processors."""

    per_s: dict[int, float]
    waits: dict[str, float]
    user: float
    system: float
    iowait: float
    bound: str
    reads_per_s: float
    busy: float
    stall: Stall | None = None


DRIVES = {
    "hdd": Drive(
        per_s={100: 108.0, 1000: 35.0},
        waits={"io": 0.86, "lwlock": 0.09, "cpu": 0.03, "client": 0.02},
        user=0.02, system=0.02, iowait=0.71, bound="commit", reads_per_s=74.0, busy=0.99,
        stall=STALL,
    ),
    "sata-ssd": Drive(
        per_s={100: 455.0, 1000: 247.0},
        waits={"io": 0.55, "lwlock": 0.2, "cpu": 0.19, "lock": 0.03, "client": 0.03},
        user=0.13, system=0.08, iowait=0.34, bound="read", reads_per_s=2_100.0, busy=0.81,
    ),
    "nvme": Drive(
        per_s={100: 3_480.0, 1000: 2_210.0},
        waits={"io": 0.18, "lwlock": 0.16, "cpu": 0.5, "lock": 0.11, "client": 0.05},
        user=0.58, system=0.31, iowait=0.04, bound="cpu", reads_per_s=7_400.0, busy=0.22,
    ),
}  # fmt: skip


@dataclass
class Draft:
    """One cell to be made."""

    cell: Cell
    drive: Drive
    per_s: float
    shares: dict[str, float] = field(default_factory=lambda: {"transaction": 1.0})
    database_bytes: int = 1_520 * MIB


def make_cell(
    target: str, workload: str, clients: int, spec: DatabaseSpec, **factors: FactorValue
) -> Cell:
    """A cell as the study's plan makes it."""
    operation = "batch" if workload == "nightly" else "transaction"
    tail = "".join(f"/{name}={value}" for name, value in factors.items())
    return Cell(
        key=f"{target}/{workload}/{operation}/{clients}c{tail}",
        target=target,
        workload=workload,
        kind={"nightly": "batch"}.get(workload, workload),
        operation=operation,
        block_size_bytes=0,
        threads=clients,
        factors=factors,
        spec={"arrival": {"kind": "closed"}, "database": msgspec.to_builtins(spec)},
    )


def pgbench_cell(target: str, scale: int, clients: int, **factors: FactorValue) -> Cell:
    spec = DatabaseSpec(
        load=LoadSpec(kind="pgbench", scale=scale),
        clients=clients,
        processes=int(factors.get("processes", 1)),
        script=str(factors.get("script", "tpcb-like")),
        start=str(factors.get("start", "cold")),
    )
    return make_cell(target, "pgbench", clients, spec, scale=scale, **factors)


def telemetry_cell(target: str = "nvme") -> Cell:
    load = LoadSpec(kind="telemetry", devices=1000, history_hours=24)
    spec = DatabaseSpec(load=load, clients=10, batch_rows=100, query_share=0.1, start="cold")
    return make_cell(target, "telemetry", 10, spec, devices=1000, history_hours=24, batch_rows=100)


def batch_cell(target: str = "nvme") -> Cell:
    load = LoadSpec(kind="pgbench", scale=100)
    spec = DatabaseSpec(load=load, clients=1, script="/srv/nightly.sql", start="cold")
    return make_cell(target, "nightly", 1, spec, file="nightly.sql", scale=100)


def drafts() -> Iterator[Draft]:
    """Yield three drives x two scales, two client processes on the larger, telemetry."""
    for target, drive in DRIVES.items():
        for scale, clients, processes in ((100, 10, 1), (1000, 10, 1), (1000, 10, 2)):
            more: dict[str, FactorValue] = {"processes": processes} if processes > 1 else {}
            per_s = drive.per_s[scale] * (0.92 if processes > 1 else 1.0)
            yield Draft(
                pgbench_cell(target, scale, clients, **more),
                drive, per_s, database_bytes=scale * processes * 15 * MIB,
            )  # fmt: skip
    yield Draft(
        telemetry_cell(), DRIVES["nvme"], 940.0,
        shares={"ingest": 0.9, "query": 0.1}, database_bytes=190 * MIB,
    )  # fmt: skip


class Maker:
    """Turns drafts into samples and summaries."""

    def __init__(self, seed: int = 8) -> None:
        self._random = random.Random(seed)
        self._position = 0

    def summary(self, draft: Draft, rounds: int = ROUNDS) -> CellSummary:
        return summarise_cell([self._sample(draft, index) for index in range(rounds)])

    def _sample(self, draft: Draft, index: int) -> Sample:
        self._position += 1
        stall = draft.drive.stall if index == 1 else None
        wobble = math.exp(self._random.gauss(0, 0.012))
        slices = list(self._slices(draft, wobble, stall))
        operations = {kind: total_of(slices, kind) for kind in draft.shares}
        completed = sum(part.completed for part in operations.values())
        outcome = Outcome(
            offered=completed, completed=completed, failed=0, late_skipped=0, in_flight_at_end=0
        )
        return Sample(
            id=self._position,
            run_id="20261121-074500-3fa2",
            cell=draft.cell,
            round=index,
            position=self._position,
            started_at=STARTED_AT + self._position * 30.0,
            duration_s=DURATION_S,
            engine="pgbench",
            engine_reason="of PostgreSQL 15.20",
            outcome=outcome,
            operations=operations,
            timeline=Timeline(slice_ns=SLICE_NS, slices=slices),
            stalls=[stall] if stall else [],
            series=self._series(draft, stall),
            database=make_record(draft, completed / DURATION_S, wobble),
        )

    def _slices(self, draft: Draft, wobble: float, stall: Stall | None) -> Iterator[Slice]:
        for index in range(round(DURATION_S * 1e9 / SLICE_NS)):
            at_s = index * SLICE_NS / 1e9
            if stall and stall.start_s <= at_s + 0.25 < stall.start_s + stall.length_s:
                continue
            pace = wobble * pace_at(draft, at_s) * self._random.uniform(0.94, 1.06)
            clients = draft.cell.threads * int(draft.cell.factors.get("processes", 1))
            for kind, share in draft.shares.items():
                count = max(1, round(draft.per_s * pace * share * SLICE_NS / 1e9))
                histogram = self._histogram(count, clients / (draft.per_s * pace) * 1e9)
                if stall and 0 <= at_s - (stall.start_s + stall.length_s) < 0.5:
                    histogram = histogram.merged(Histogram.of([round(stall.length_s * 1e9)] * 10))
                yield Slice(
                    index=index,
                    operation=kind,
                    completed=histogram.count,
                    transferred_bytes=0,
                    response=histogram.encode(),
                )

    def _histogram(self, count: int, mean_ns: float) -> Histogram:
        """Draw a few latencies and repeat them up to the count: quick, and still exact."""
        doublings = max(0, math.ceil(math.log2(count / 60)))
        draws = [
            round(mean_ns * 0.86 * math.exp(self._random.gauss(0, 0.5)))
            for _ in range(max(1, round(count / 2**doublings)))
        ]
        histogram = Histogram.of(draws)
        for _ in range(doublings):
            histogram = histogram.merged(histogram)
        return histogram

    def _series(self, draft: Draft, stall: Stall | None) -> Series:
        """Return the readings of each second, named as the measuring room names them."""
        drive = draft.drive
        columns: dict[str, list[float | None]] = {}

        def put(name: str, value: float | None) -> None:
            columns.setdefault(name, []).append(value)

        for second in range(round(DURATION_S)):
            pace = pace_at(draft, second) * self._random.uniform(0.92, 1.08)
            if stall and stall.start_s <= second + 0.5 < stall.start_s + stall.length_s:
                pace = 0.0
            checkpoint = is_checkpoint(second)
            user, system = drive.user * pace, drive.system * pace
            put("cpu_user_share", user)
            put("cpu_system_share", system)
            put("cpu_iowait_share", min(1 - user - system, drive.iowait * (2 - pace)))
            put("cpu_steal_share", 0.01)
            put("server_cpu_cores", 4 * (drive.user + drive.system) * pace)
            for name in ("cpu", "io", "lwlock", "lock", "client", "ipc", "timeout", "other"):
                more = 0.12 if checkpoint else 0.0
                share = drive.waits.get(name, 0.0) * (1 - more) + (more if name == "io" else 0.0)
                put(f"waits_{name}_share", None if second == 5 else share)
            put("checkpoint_running_share", 1.0 if checkpoint else 0.0)
            put("checkpoints_timed", 1.0 if second == CHECKPOINT_AT_S else 0.0)
            put("device_read_per_s", drive.reads_per_s * pace)
            put("device_write_per_s", draft.per_s * pace * 1.7 + (900 if checkpoint else 0))
            put("device_write_bytes_per_s", draft.per_s * pace * 14_000)
            put("device_read_bytes_per_s", drive.reads_per_s * pace * 8192)
            put("device_busy_share", min(1.0, drive.busy * (1.2 if checkpoint else 1.0)))
            put("wal_bytes_per_s", draft.per_s * pace * 9_000)
        return Series(period_s=1.0, columns=columns)


def is_checkpoint(at_s: float) -> bool:
    return CHECKPOINT_AT_S <= at_s < CHECKPOINT_AT_S + CHECKPOINT_S


def pace_at(draft: Draft, at_s: float) -> float:
    """Return the share of its usual rate at a time: a checkpoint takes a part of it."""
    return 0.72 if is_checkpoint(at_s) and draft.drive.bound != "cpu" else 1.0


def total_of(slices: Sequence[Slice], kind: str) -> OperationResult:
    histogram = Histogram.of([])
    for part in slices:
        if part.operation == kind:
            histogram = histogram.merged(Histogram.decode(part.response))
    return OperationResult(
        completed=histogram.count, failed=0, transferred_bytes=0, response=histogram.encode()
    )


def make_record(draft: Draft, per_s: float, wobble: float) -> DatabaseRecord:
    processes = int(draft.cell.factors.get("processes", 1))
    shown = {"transactions": round(per_s * DURATION_S), "tps": per_s, "latency_ms_mean": 90.0}
    if processes > 1:
        for number, share in ((1, 0.49 * wobble), (2, 1 - 0.49 * wobble)):
            shown |= {
                f"tps_{number}": per_s * share,
                f"latency_ms_mean_{number}": draft.cell.threads / per_s / share * 1e3,
            }
    return DatabaseRecord(
        server=SERVER,
        binaries="installed",
        settings=SETTINGS,
        start_state="cold",
        cached_bytes=0,
        database_bytes=draft.database_bytes,
        loaded_s=draft.database_bytes / 42e6,
        loaded_rows=int(draft.cell.factors.get("scale", 0)) * 100_000,
        cloned="copy",
        cloned_s=draft.database_bytes / 400e6,
        waits={f"IO:{name}": 100 for name in ("WALSync", "DataFileRead")},
        reported=shown,
        client_cpu_share=0.03 + per_s / 9_000,
        ceiling_per_s=61_000.0,
    )


def crash_summary(lost: int = 0, power_cut: str = "honest") -> CellSummary:
    """Three crashes of a server; in the last of them so many acknowledged commits were lost."""
    load = LoadSpec(kind="ledger")
    spec = DatabaseSpec(load=load, clients=4, script="ledger", start="cold")
    cell = make_cell("nvme", "crash", 4, spec, power_cut=power_cut)
    samples = []
    for index in range(3):
        response = Histogram.of([3_000_000] * 400).encode()
        shown = {
            "checked": 400 * (index + 1), "lost": lost if index == 2 else 0, "half": 0,
            "unsent": 0, "altered": 0, "in_flight": 3, "in_flight_kept": 1, "came_back": 1,
            "recovery_s": 0.31 + index / 100,
        }  # fmt: skip
        samples.append(
            Sample(
                cell=cell,
                round=index,
                position=index,
                started_at=STARTED_AT + 10.0 * index,
                duration_s=1.7 + index / 10,
                engine="ledger",
                outcome=Outcome(
                    offered=403, completed=400, failed=0, late_skipped=0, in_flight_at_end=3
                ),
                operations={
                    "transaction": OperationResult(
                        completed=400, failed=0, transferred_bytes=0, response=response
                    )
                },
                timeline=Timeline(slice_ns=100_000_000, slices=[]),
                counters={f"crash_{name}": float(value) for name, value in shown.items()},
                database=DatabaseRecord(server=SERVER, binaries="wheel", start_state="warm"),
            )
        )
    return summarise_cell(samples)


BATCH_REAL_S = (2_042.0, 2_031.5, 2_055.2)


def batch_summary() -> CellSummary:
    """The nightly job of the article of 2010, three times: 34 minutes each."""
    cell = batch_cell()
    samples = []
    for index, real_s in enumerate(BATCH_REAL_S):
        response = Histogram.of([round(real_s * 1e9)]).encode()
        samples.append(
            Sample(
                cell=cell,
                round=index,
                position=index,
                started_at=STARTED_AT + 3_000.0 * index,
                duration_s=real_s,
                engine="script",
                outcome=Outcome(
                    offered=1, completed=1, failed=0, late_skipped=0, in_flight_at_end=0
                ),
                operations={
                    "batch": OperationResult(
                        completed=1, failed=0, transferred_bytes=0, response=response
                    )
                },
                timeline=Timeline(slice_ns=100_000_000, slices=[]),
                database=DatabaseRecord(
                    server=SERVER,
                    binaries="installed",
                    settings=SETTINGS,
                    start_state="cold",
                    database_bytes=1_520 * MIB,
                    loaded_s=38.0,
                    loaded_rows=10_000_000,
                    cloned="copy",
                    cloned_s=4.0,
                    batch_s={"real": real_s, "user": 2.1 + index / 10, "sys": 0.4},
                ),
            )
        )
    return summarise_cell(samples)


def around(value: float, share: float, unit: str) -> Estimate:
    return Estimate(
        value=value, low=value * (1 - share), high=value * (1 + share), rounds=ROUNDS, unit=unit
    )


SENTENCES = {
    "commit": "Commit-bound: {io:.0%} of the clients' time was spent waiting for WAL syncs, "
    "the processors were 25 % idle and 71 % of their time waited for the device.",
    "read": "Read-bound: {io:.0%} of the clients' time was spent waiting for block reads, "
    "19 % of the blocks came from the device, which was 81 % busy.",
    "cpu": "CPU-bound: the processors were 89 % busy, {io:.0%} of the active clients' time "
    "waited for the device.",
}


def database_cell(summary: CellSummary) -> DatabaseCell:
    """What the analysis makes of a made-up cell."""
    drive = DRIVES[summary.cell.target]
    record = summary.samples[0].database
    assert record is not None
    per_s = summary.iops.value
    sentence = SENTENCES[drive.bound].format(io=drive.waits["io"]).replace("%", " %")
    columns = {
        "cpu_user_share": around(drive.user, 0.04, "share"),
        "cpu_system_share": around(drive.system, 0.06, "share"),
        "cpu_iowait_share": around(drive.iowait, 0.05, "share"),
        "cpu_steal_share": around(0.01, 0.5, "share"),
        "server_cpu_cores": around(4 * (drive.user + drive.system), 0.03, "cores"),
        "device_read_per_s": around(drive.reads_per_s, 0.04, "IOPS"),
        "device_write_per_s": around(per_s * 1.7, 0.04, "IOPS"),
        "device_read_bytes_per_s": around(drive.reads_per_s * 8192, 0.04, "B/s"),
        "device_write_bytes_per_s": around(per_s * 14_000, 0.06, "B/s"),
        "device_busy_share": around(drive.busy, 0.02, "share"),
        "wal_bytes_per_s": around(per_s * 9_000, 0.05, "B/s"),
        "checkpoints": around(1.0, 0.0, "count"),
        "shared_hits_per_s": around(per_s * 21, 0.05, "1/s"),
        "deadlocks": around(0.0, 0.0, "count"),
    }
    return DatabaseCell(
        cell=summary.cell,
        verdict=TimeVerdict(
            bound=drive.bound, sentence=sentence, evidence={"wait_io_share": drive.waits["io"]}
        ),
        waits=drive.waits,
        wait_events={"IO:WALSync": drive.waits["io"] * 0.8, "CPU": drive.waits["cpu"],
                     "LWLock:WALWrite": drive.waits["lwlock"]},
        reads=ReadShares(
            shared_buffers=around(0.62, 0.01, "share"),
            page_cache=around(0.19, 0.03, "share"),
            device=around(0.19, 0.04, "share"),
            blocks=4_812_400,
        ),
        server=record.server,
        settings=record.settings,
        start_state=record.start_state,
        database_bytes=record.database_bytes,
        loaded_s=record.loaded_s,
        load_bytes_per_s=42e6,
        client_cpu_share=record.client_cpu_share,
        ceiling_per_s=record.ceiling_per_s,
        columns={} if summary.cell.kind == "batch" else columns,
        batch_s={
            name: estimate_of_rounds(
                [s.database.batch_s[name] for s in summary.samples if s.database], "s"
            )
            for name in record.batch_s
        },
    )  # fmt: skip


def make_sweep(**changes) -> CacheSweep:
    """RDD of the article on the next XRAID: throughput rises as the cache grows."""
    sizes_bytes = [size * MIB for size in (1_000, 2_000, 4_000, 8_000)]
    cpu_s, k, a = 0.0011, 0.0032, 0.62
    times_s = [cpu_s + k * (size / 1e9) ** -a for size in sizes_bytes]
    next_bytes = 16_000 * MIB
    next_s = cpu_s + k * (next_bytes / 1e9) ** -a
    values = {
        "target": "sata-ssd",
        "workload": "pgbench",
        "factor": "shared_buffers",
        "where": {"scale": 1000, "threads": 10},
        "sizes_bytes": sizes_bytes,
        "time_s": [around(time_s, 0.03, "s") for time_s in times_s],
        "cpu_s": around(cpu_s, 0.2, "s"),
        "k": k * (1e9**a),
        "a": around(a, 0.15, "exponent"),
        "next_size_bytes": next_bytes,
        "predicted_per_s": around(1 / next_s, 0.08, "tps"),
        "fits": True,
        "sentence": "With twice the largest cache, 15.6 GiB, 600 tps are to be expected "
        "(550 to 650).",
        "evidence": {"exponent": a},
    }
    return CacheSweep(**values | changes)


def make_run(**changes) -> Run:
    study = {
        "name": "ssd-vs-hdd",
        "target": [{"label": label, "path": f"/mnt/{label}"} for label in DRIVES],
        "workload": [{"kind": "pgbench", "scale": [100, 1000], "clients": 10, "processes": [1, 2]}],
    }
    usual = {
        "command": "seatrial study studies/ssd-vs-hdd.toml",
        "study_name": "ssd-vs-hdd",
        "study": study,
        "started_at": STARTED_AT,
        "ended_at": STARTED_AT + 2_400,
        "fingerprint_before": Fingerprint(machine=Machine(cpu_model="Xeon E-2278G", cpus_online=4)),
    }
    return make_small_run(**usual | changes)


def findings() -> list[Finding]:
    return [
        make_finding(
            kind="flush_acknowledged_early",
            cells=[pgbench_cell("sata-ssd", 1000, 10).identity()],
            sentence="On sata-ssd 4,100 commits a second were acknowledged by a medium that can "
            "do 120: a volatile write cache acknowledges flushes, a power cut loses commits.",
            cause="The drive's write cache is on and not protected.",
            evidence={"commits_per_s": 4_100.0, "medium_per_s": 120.0},
            next="Turn the cache off: 'hdparm -W0 /dev/sdb'; then 'seatrial db --crash /mnt/ssd'.",
        )
    ]


def database_summary(**changes) -> Summary:
    """The whole made-up run, as an analysis would hand it to a report."""
    maker = Maker()
    cells = [
        *(maker.summary(draft) for draft in drafts()),
        batch_summary(),
        crash_summary(lost=2),
        crash_summary(power_cut="lying"),
    ]
    values = {
        "run": make_run(),
        "cells": cells,
        "findings": findings(),
        "verdict": "At scale 1000 with 10 clients, nvme does 2,200 tps (± 3 %), 63 times as many "
        "as hdd (35 tps); do not trust sata-ssd with commits: its write cache is volatile.",
    }
    database = DatabaseAnalysis(
        cells=[database_cell(part) for part in cells], sweeps=[make_sweep()]
    )
    return with_analyses(Summary(**values), **{"database": database} | changes)
