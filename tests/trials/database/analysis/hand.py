"""Samples of a database made of the few values that a test is about."""

from __future__ import annotations

import msgspec

from seatrial._core import Histogram
from seatrial.findings.summary import summarise, summarise_cell
from seatrial.results.model import (
    DatabaseRecord,
    OperationResult,
    Outcome,
    Sample,
    Series,
    Slice,
    Timeline,
)
from seatrial.study.cell import Cell
from seatrial.trials.database.analysis.readings import COUNTED
from seatrial.trials.database.study.workloads import DatabaseSpec, LoadSpec
from seatrial.units import MIB
from stats.builders import MS_NS, run_of

SLICES_PER_S = 10
COMMIT = {"IO:WALSync": 600, "LWLock:WALWrite": 250, "IO:WALWrite": 50, "CPU": 100}
READ = {"IO:DataFileRead": 800, "CPU": 150, "IO:WALSync": 50}
LOCK = {"Lock:transactionid": 500, "Lock:tuple": 300, "IO:WALSync": 120, "CPU": 80}
PROCESSOR = {"CPU": 900, "LWLock:BufferContent": 60, "IO:DataFileRead": 40}
MACHINE = {"machine": {"cpus_online": 2}}


def cell_of(
    *,
    target="trial",
    workload="pgbench",
    kind=None,
    operation="transaction",
    clients=10,
    processes=1,
    scale=100,
    script="tpcb-like",
    rate_per_s=None,
    settings=None,
    memory_limit_bytes=None,
    alone=True,
    **factors,
):
    """A cell as the plan of a study makes it; ``alone`` where the study has one target."""
    load = LoadSpec(kind="pgbench", scale=scale)
    spec = DatabaseSpec(
        load=load,
        clients=clients,
        processes=processes,
        script=script,
        rate_per_s=rate_per_s,
        settings=settings or {},
        start="cold",
        memory_limit_bytes=memory_limit_bytes,
    )
    reported = {"scale": scale} | ({"script": script} if script != "tpcb-like" else {})
    reported |= {"processes": processes} if processes > 1 else {}
    reported |= {"rate": rate_per_s} if rate_per_s else {}
    reported |= {"memory_limit_bytes": memory_limit_bytes} if memory_limit_bytes else {}
    reported |= (settings or {}) | factors
    prefix = "" if alone else f"{target}/"
    tail = "".join(f"/{name}={value}" for name, value in reported.items())
    arrival = {"kind": "closed"}
    if rate_per_s:
        arrival = {"kind": "poisson", "rate_per_s": rate_per_s * processes}
    return Cell(
        key=f"{prefix}{workload}/{operation}/{clients}c{tail}",
        target=target,
        workload=workload,
        kind=kind or workload,
        operation=operation,
        block_size_bytes=0,
        threads=clients,
        factors=reported,
        spec={
            "target": {"kind": "database", "direct": False},
            "accesses": [],
            "arrival": arrival,
            "database": msgspec.to_builtins(spec),
        },
    )


def record_of(**changes):
    usual = {
        "server": "PostgreSQL 15.20",
        "binaries": "installed",
        "settings": {"shared_buffers": "128MB"},
        "start_state": "cold",
        "database_bytes": 1500 * MIB,
        "loaded_s": 30.0,
        "waits": dict(COMMIT),
        "client_cpu_share": 0.1,
        "ceiling_per_s": 50_000.0,
    }
    return DatabaseRecord(**usual | changes)


def columns_of(seconds, **values):
    """A column for each value; a list is taken as it is."""
    usual = {
        "cpu_user_share": 0.05,
        "cpu_system_share": 0.05,
        "cpu_iowait_share": 0.6,
        "cpu_steal_share": 0.0,
        "cpu_idle_share": 0.3,
        "server_cpu_cores": 0.1,
        "server_delay_cores": 0.02,
        "client_cpu_cores": 0.05,
        "client_delay_cores": 0.01,
        "seatrial_cpu_cores": 0.01,
        "others_cpu_cores": 0.04,
        "device_busy_share": 0.97,
        "device_read_per_s": 5.0,
        "device_flush_per_s": 110.0,
        "backends_active": 9.5,
        "backends_idle": 0.3,
        "backends_idle_in_transaction": 0.2,
        "checkpoint_running_share": 0.0,
    }
    return {
        name: list(value) if isinstance(value, list) else [value] * seconds
        for name, value in (usual | values).items()
        if value is not None
    }


def counters_of(seconds, **changes):
    """What was counted meanwhile: a quiet machine, on whose disk the server alone writes."""
    usual = {
        "observer_looks": 10.0 * seconds,
        "counters_elapsed_ns": seconds * 1e9,
        "kernel_cpu_ns": 0.02 * seconds * 1e9,
        "disk_read_bytes": 40_000.0 * seconds,
        "disk_write_bytes": 1_000_000.0 * seconds,
        "server_read_bytes": 40_000.0 * seconds,
        "wal_bytes": 600_000.0 * seconds,
        "wal_writes": 110.0 * seconds,
        "wal_fpi": 5.0 * seconds,
        "checkpoint_buffers": 0.0,
        "checkpoints_timed": 0.0,
        "checkpoints_requested": 0.0,
        "others_read_bytes": 0.0,
        "others_write_bytes": 10_000.0 * seconds,
    }
    return {name: value for name, value in (usual | changes).items() if value is not None}


def sample_of(
    cell=None,
    *,
    per_s=100.0,
    seconds=20,
    round=0,  # noqa: A002
    rates=None,
    latency_ns=None,
    record=None,
    counters=None,
    columns=None,
    has_series=True,
    **rest,
):
    """A sample of whole seconds; ``rates`` (and ``latency_ns``) hold what each second did."""
    cell = cell or cell_of()
    rates = rates or [per_s] * seconds
    seconds = len(rates)
    slices, whole = [], Histogram.of([])
    for place in range(seconds * SLICES_PER_S):
        second = place // SLICES_PER_S
        count = _shared_out(rates[second], place % SLICES_PER_S)
        if not count:
            continue
        own_ns = latency_ns[second] if latency_ns else 10 * MS_NS
        histogram = Histogram.of([own_ns] * count)
        whole = whole.merged(histogram)
        slices.append(
            Slice(
                index=place,
                operation=cell.operation,
                completed=count,
                transferred_bytes=0,
                response=histogram.encode(),
            )
        )
    counted = {
        name: float(sum(filter(None, values)))
        for name, values in columns_of(seconds, **(columns or {})).items()
        if name in COUNTED
    }
    series = Series(period_s=1.0, columns=columns_of(seconds, **(columns or {})))
    return Sample(
        cell=cell,
        round=round,
        position=0,
        started_at=1000.0 + 100 * round,
        duration_s=float(seconds),
        engine="pgbench",
        outcome=Outcome(
            offered=whole.count,
            completed=whole.count,
            failed=0,
            late_skipped=0,
            in_flight_at_end=0,
        ),
        operations={
            cell.operation: OperationResult(
                completed=whole.count, failed=0, transferred_bytes=0, response=whole.encode()
            )
        },
        timeline=Timeline(slice_ns=100 * MS_NS, slices=slices),
        counters=counters_of(seconds, **(counted | (counters or {}))),
        series=series if has_series else None,
        database=record_of() if record is None else record,
        **rest,
    )


def _shared_out(per_s, place):
    """The completions of a tenth of a second, so that ten of them add up to a whole second."""
    return round(per_s * (place + 1) / SLICES_PER_S) - round(per_s * place / SLICES_PER_S)


def summary_of(*samples):
    return summarise_cell(samples)


def rounds_of(cell, rates_per_s, **rest):
    """A cell's samples, one round for each rate."""
    return [
        sample_of(cell, per_s=rate, round=number, **rest) for number, rate in enumerate(rates_per_s)
    ]


def summarised(*samples, before=None, **run):
    """All that is reported of a run with these samples."""
    return summarise(run_of(before=MACHINE if before is None else before, **run), samples)


def kinds_of(summary):
    return [finding.kind for finding in summary.findings]


def only(summary, kind):
    """The one finding of a kind."""
    (found,) = [finding for finding in summary.findings if finding.kind == kind]
    return found
