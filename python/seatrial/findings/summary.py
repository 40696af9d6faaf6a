"""The summary of a run: everything that a report or a terminal prints of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from seatrial.errors import SeatrialError
from seatrial.findings.context import Context
from seatrial.findings.model import Analyses, Summary
from seatrial.findings.registry import (
    find,
)
from seatrial.findings.rules.errors import name_of
from seatrial.findings.thresholds import evaluate
from seatrial.findings.verdict import verdict
from seatrial.grouping import grouped
from seatrial.results.model import Run, Sample
from seatrial.stats.cell_estimates import (
    bandwidth_estimate,
    counted,
    latency_at_least,
    latency_estimates,
    phases_of,
    rate_estimate,
    rate_spread,
)
from seatrial.stats.model import CellSummary, natural_order
from seatrial.stats.wording import format_count, format_duration_ns
from seatrial.study.load import study_from_mapping
from seatrial.study.plan import make_plan
from seatrial.study.schema import Study
from seatrial.topic import AnalysisInput, topics


def summarise(run: Run, samples: Iterable[Sample]) -> Summary:
    """Return cells in plan order, findings, verdict and thresholds with their results."""
    by_cell = grouped(samples, lambda sample: sample.cell.key)
    study = _study(run)
    positions = _positions(study) if study else {}
    cells = sorted(
        (summarise_cell(group) for group in by_cell.values()),
        key=lambda summary: (
            positions.get(summary.cell.key, len(positions)),
            natural_order(summary.cell),
        ),
    )
    analyses: Analyses = {}
    for topic in topics():
        found = topic.analyse(AnalysisInput(run, cells, study, analyses))
        if found is not None:
            analyses[topic.name] = found
    context = Context(run, cells, analyses)
    findings = find(context)
    summary = Summary(
        run=run,
        cells=cells,
        findings=findings,
        verdict=verdict(cells, findings, analyses),
        steady=context.without_faults.without_replays.steady,
        analyses=analyses,
    )
    judged = evaluate(study.thresholds, summary) if study else []
    return msgspec.structs.replace(summary, thresholds=judged)


def summarise_cell(samples: Sequence[Sample]) -> CellSummary:
    """Return the figures of one cell from its samples, at least one, in any order."""
    ordered = sorted(samples, key=lambda sample: (sample.round, sample.position))
    resting_on = counted(ordered)
    phases = phases_of(resting_on)
    completed = sum(sample.outcome.completed for sample in ordered)
    latency = latency_estimates(resting_on, phases)
    return CellSummary(
        cell=ordered[0].cell,
        iops=rate_estimate(resting_on, phases),
        bandwidth=bandwidth_estimate(resting_on, phases),
        latency=latency,
        latency_at_least=latency_at_least(latency, resting_on, phases),
        completed=completed,
        failed=sum(sample.outcome.failed for sample in ordered),
        blank="" if completed else _blank(ordered),
        samples=ordered,
        spread=rate_spread(resting_on, phases),
        running_from_s=max(phase.from_s for phase in phases),
    )


def _blank(samples: Sequence[Sample]) -> str:
    """Return the replacement of a missing figure: ``0 completed, oldest in flight 4.2 s``."""
    failed = sum(sample.outcome.failed for sample in samples)
    late = sum(sample.outcome.late_skipped for sample in samples)
    oldest_ns = max(sample.oldest_in_flight_ns for sample in samples)
    names = sorted({name_of(error) for sample in samples for error in sample.errors})
    texts = ["0 completed"]
    if failed:
        reasons = f" ({', '.join(names)})" if names else ""
        texts.append(f"{format_count(failed)} failed{reasons}")
    if late:
        texts.append(f"{format_count(late)} skipped as too late")
    if oldest_ns:
        texts.append(f"oldest in flight {format_duration_ns(oldest_ns)}")
    elif not failed and not late:
        texts.append("nothing was in flight")
    return ", ".join(texts)


def _study(run: Run) -> Study | None:
    """Return the run's study; None where it was imported, or written by another version."""
    try:
        return study_from_mapping(run.study, run.study_name)
    except SeatrialError:
        return None


def _positions(study: Study) -> dict[str, int]:
    """Return each cell's position in the plan of a study; none if no plan can be made here."""
    try:
        plan = make_plan(study)
    except SeatrialError:
        return {}
    return {cell.key: position for position, cell in enumerate(plan.cells)}
