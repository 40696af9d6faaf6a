"""The analysis of a database cell from its samples."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Final

import msgspec

from seatrial.findings.context import usable_cpus
from seatrial.results.model import DatabaseRecord, Run, Sample
from seatrial.stats.cell_estimates import counted, phases_of
from seatrial.stats.estimate import Estimate
from seatrial.stats.model import CellSummary
from seatrial.study.hosts import loading_hosts
from seatrial.trials.database.analysis.cache_sweep import cache_sweeps
from seatrial.trials.database.analysis.checkpoints import checkpoint_effect, running_share
from seatrial.trials.database.analysis.model import (
    DatabaseAnalysis,
    DatabaseCell,
    ReadShares,
    TimeVerdict,
    batch_length,
    records_of,
    specification,
)
from seatrial.trials.database.analysis.readings import (
    Round,
    cell_columns,
    class_shares,
    client_time,
    event_shares,
    mean_of_rounds,
    wait_counts,
)
from seatrial.trials.database.analysis.rivals import LoadEvidence
from seatrial.trials.database.analysis.verdict import time_verdict
from seatrial.trials.database.study.workloads import is_of_database
from seatrial.trials.replay.analysis.model import ReplayCell

SOURCES: Final = ("shared_buffers", "page_cache", "device")
BLOCKS_MIN: Final = 1000
"""Of a round; fewer blocks are those of the catalog, and say nothing about the data."""


def read_shares(samples: Sequence[Sample]) -> ReadShares | None:
    """Return the shares over the rounds, of whole samples; None if any round lacks them.

    The blocks are counted over whole samples, including a start-up phase that the rate leaves out.
    """
    rounds = [_blocks(sample) for sample in samples]
    known = [blocks for blocks in rounds if blocks is not None]
    if not known or len(known) < len(rounds):
        return None
    shares = {
        source: mean_of_rounds(
            [blocks[source] / math.fsum(blocks.values()) for blocks in known], "share", high_max=1.0
        )
        for source in SOURCES
    }
    return ReadShares(
        blocks=round(math.fsum(math.fsum(blocks.values()) for blocks in known)), **shares
    )


def _blocks(sample: Sample) -> dict[str, float] | None:
    """Return the blocks (8 KiB) of a sample by source; None if too few or not all are known."""
    names = {source: f"reads_{source}" for source in SOURCES}
    if not all(name in sample.counters for name in names.values()):
        return None
    blocks = {source: max(0.0, sample.counters[name]) for source, name in names.items()}
    return blocks if math.fsum(blocks.values()) >= BLOCKS_MIN else None


def rounds_of(summary: CellSummary) -> list[Round]:
    """Return the samples behind a cell's figures, each with its running phase."""
    samples = counted(summary.samples)
    return [Round(s, phase) for s, phase in zip(samples, phases_of(samples), strict=True)]


def database_cell(summary: CellSummary, cpus: float | None = None) -> DatabaseCell:
    """Return the database analysis of one cell, over the rounds behind its figures.

    Args:
        summary: The cell.
        cpus: Processors that server and clients can use; None if unknown.
    """
    rounds = rounds_of(summary)
    samples = [round_.sample for round_ in rounds]
    records = records_of(samples)
    waits = wait_counts(samples)
    columns = cell_columns(rounds)
    size_bytes = round(_median([r.database_bytes for r in records if r.database_bytes]) or 0)
    loaded_s = _median([r.loaded_s for r in records if r.loaded_s])
    last = records[-1] if records else None
    return DatabaseCell(
        cell=summary.cell,
        verdict=time_verdict(_evidence(summary, rounds, columns, cpus)),
        waits=class_shares(waits),
        wait_events=event_shares(waits),
        reads=read_shares(samples),
        server=last.server if last else "",
        settings=last.settings if last else {},
        start_state=last.start_state if last else "",
        database_bytes=size_bytes,
        loaded_s=loaded_s,
        load_bytes_per_s=size_bytes / loaded_s if loaded_s and size_bytes else None,
        client_cpu_share=_largest(records),
        ceiling_per_s=_median([r.ceiling_per_s for r in records if r.ceiling_per_s]),
        columns=columns,
        batch_s=_batch(samples),
    )


def load_evidence(summary: CellSummary, cpus: float | None = None) -> LoadEvidence:
    """Return the evidence for a verdict on a cell; arguments as of :func:`database_cell`."""
    rounds = rounds_of(summary)
    return _evidence(summary, rounds, cell_columns(rounds), cpus)


def _evidence(
    summary: CellSummary,
    rounds: Sequence[Round],
    columns: dict[str, Estimate],
    cpus: float | None,
) -> LoadEvidence:
    samples = [round_.sample for round_ in rounds]
    records = records_of(samples)
    spec = specification(summary.cell)
    requested_per_s = None
    if spec and spec.rate_per_s:
        # Each process of each host has the whole rate.
        requested_per_s = spec.rate_per_s * spec.processes * loading_hosts(summary.cell)
    # A remote server runs on another machine, of which nothing is known.
    is_here = "server_cpu_cores" in columns or "cpu_idle_share" in columns
    return LoadEvidence(
        time=client_time(samples),
        columns=columns,
        checkpoints=checkpoint_effect(rounds),
        checkpoint_share=running_share(rounds),
        rate=summary.iops,
        requested_per_s=requested_per_s,
        client_cpu_share=_largest(records),
        ceiling_per_s=_median([r.ceiling_per_s for r in records if r.ceiling_per_s]),
        cpus=cpus if is_here else None,
        cut_s=summary.running_from_s,
        totals=_totals(samples),
    )


def _totals(samples: Sequence[Sample]) -> dict[str, float]:
    """Return the sums of the counters that every sample has; partial sums would mislead."""
    shared = set.intersection(*(set(sample.counters) for sample in samples)) if samples else set()
    return {name: math.fsum(sample.counters[name] for sample in samples) for name in shared}


def _largest(records: Sequence[DatabaseRecord]) -> float | None:
    known = [r.client_cpu_share for r in records if r.client_cpu_share is not None]
    return max(known, default=None)


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _batch(samples: Sequence[Sample]) -> dict[str, Estimate]:
    """Return the times of a batch, as reported by ``time``, over the rounds that succeeded."""
    names = dict.fromkeys(name for record in records_of(samples) for name in record.batch_s)
    found = {name: batch_length(samples, name) for name in names}
    return {name: length for name, length in found.items() if length is not None}


def analyse(
    run: Run, cells: Sequence[CellSummary], replays: Sequence[ReplayCell] = ()
) -> DatabaseAnalysis | None:
    """Return the analysis of a run's database cells; None if it has none.

    Args:
        run: The run; its fingerprint describes the machine.
        cells: All cells of the run, in the order of the plan.
        replays: The analysis of those that replay a trace; it has a separate verdict.
    """
    own = [summary for summary in cells if is_of_database(summary.cell)]
    if not own:
        return None
    cpus = usable_cpus(run.fingerprint_before)
    bottlenecks = {each.cell.key: each for each in replays}
    parts = [
        _as_replay(part, bottlenecks.get(part.cell.key))
        for part in (database_cell(summary, cpus) for summary in own)
    ]
    return DatabaseAnalysis(cells=parts, sweeps=cache_sweeps(own, parts))


def _as_replay(part: DatabaseCell, replay: ReplayCell | None) -> DatabaseCell:
    """Return a cell with the verdict of its replay, if it is one."""
    if replay is None:
        return part
    found = replay.bottleneck
    verdict = TimeVerdict(**{name: getattr(found, name) for name in TimeVerdict.__struct_fields__})
    return msgspec.structs.replace(part, verdict=verdict)
