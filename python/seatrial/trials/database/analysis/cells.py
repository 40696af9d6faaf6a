"""From the samples of a database's cell to what is particular to it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from seatrial.results.model import DatabaseRecord, Sample
from seatrial.stats.estimate import Estimate
from seatrial.stats.estimates import counted, estimate_of_rounds, phases_of
from seatrial.stats.model import CellSummary
from seatrial.trials.database.analysis.checkpoints import checkpoint_effect, running_share
from seatrial.trials.database.analysis.grounds import Grounds
from seatrial.trials.database.analysis.model import DatabaseCell
from seatrial.trials.database.analysis.readings import Round, cell_columns
from seatrial.trials.database.analysis.reads import read_shares
from seatrial.trials.database.analysis.samples import records_of, specification
from seatrial.trials.database.analysis.verdict import time_verdict
from seatrial.trials.database.analysis.waits import (
    class_shares,
    client_time,
    event_shares,
    sightings,
)


def rounds_of(summary: CellSummary) -> list[Round]:
    """Return the samples that a cell's figures rest on, each with its running phase."""
    samples = counted(summary.samples)
    return [Round(s, phase) for s, phase in zip(samples, phases_of(samples), strict=True)]


def database_cell(summary: CellSummary, cpus: float | None = None) -> DatabaseCell:
    """Return what is particular to one cell, over the rounds that its figures rest on.

    Args:
        summary: The cell.
        cpus: Processors that server and clients can use; None where that is not known.
    """
    rounds = rounds_of(summary)
    samples = [each.sample for each in rounds]
    records = records_of(samples)
    seen = sightings(samples)
    columns = cell_columns(rounds)
    size_bytes = round(_median([r.database_bytes for r in records if r.database_bytes]) or 0)
    loaded_s = _median([r.loaded_s for r in records if r.loaded_s])
    last = records[-1] if records else None
    return DatabaseCell(
        cell=summary.cell,
        verdict=time_verdict(_grounds(summary, rounds, columns, cpus)),
        waits=class_shares(seen),
        wait_events=event_shares(seen),
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
        batch_s=_batch(records),
    )


def grounds_of(summary: CellSummary, cpus: float | None = None) -> Grounds:
    """Return what a verdict on a cell looks at; arguments as of :func:`database_cell`."""
    rounds = rounds_of(summary)
    return _grounds(summary, rounds, cell_columns(rounds), cpus)


def _grounds(
    summary: CellSummary,
    rounds: Sequence[Round],
    columns: dict[str, Estimate],
    cpus: float | None,
) -> Grounds:
    samples = [each.sample for each in rounds]
    records = records_of(samples)
    spec = specification(summary.cell)
    asked_per_s = spec.rate_per_s * spec.processes if spec and spec.rate_per_s else None
    # Of a server elsewhere nothing is known of its machine, and this one's is not its.
    is_here = "server_cpu_cores" in columns or "cpu_idle_share" in columns
    return Grounds(
        time=client_time(samples),
        columns=columns,
        checkpoints=checkpoint_effect(rounds),
        checkpoint_share=running_share(rounds),
        rate=summary.iops,
        asked_per_s=asked_per_s,
        client_cpu_share=_largest(records),
        ceiling_per_s=_median([r.ceiling_per_s for r in records if r.ceiling_per_s]),
        cpus=cpus if is_here else None,
        cut_s=summary.running_from_s,
        totals=_totals(samples),
    )


def _totals(samples: Sequence[Sample]) -> dict[str, float]:
    """Return the sums of those counters that every sample has: some alone say nothing of all."""
    shared = set.intersection(*(set(sample.counters) for sample in samples)) if samples else set()
    return {name: math.fsum(sample.counters[name] for sample in samples) for name in shared}


def _largest(records: Sequence[DatabaseRecord]) -> float | None:
    known = [r.client_cpu_share for r in records if r.client_cpu_share is not None]
    return max(known, default=None)


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _batch(records: Sequence[DatabaseRecord]) -> dict[str, Estimate]:
    """Return what a shell's ``time`` told, over the rounds that tell it; none of other cells."""
    reported = [record.batch_s for record in records if record.batch_s]
    names = dict.fromkeys(name for each in reported for name in each)
    return {
        name: estimate_of_rounds([each[name] for each in reported if name in each], "s")
        for name in names
    }
