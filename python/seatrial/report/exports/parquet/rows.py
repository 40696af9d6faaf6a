"""From a run and its samples to rows of the tables, as stored; percentiles from full counts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from seatrial import _core
from seatrial.findings.context import is_of_lab
from seatrial.findings.model import Summary
from seatrial.findings.summary import summarise
from seatrial.fingerprint import Device, Target
from seatrial.report.exports.json_document import json_text
from seatrial.report.exports.parquet import tables
from seatrial.results.model import OperationResult, Run, Sample, known_duration_s, origin_of
from seatrial.stats.estimates import PERCENTS, entries_needed
from seatrial.stats.model import CellSummary, Estimate
from seatrial.stats.set_up import drive_of, firmware_of, host_of, kernel_of

OfSample = dict[str, Any]
"""The columns that identify a sample."""


def rows_of(
    run: Run, samples: Sequence[Sample], names: Collection[str]
) -> Iterator[tuple[str, Iterator[tables.Row]]]:
    """Yield the rows of a run by the name of their table, for those that are wanted."""
    if "runs" in names:
        yield "runs", iter([_run(run)])
    if "targets" in names:
        yield "targets", _targets(run, samples)
    for name, rows in _OF_SAMPLES.items():
        if name in names:
            yield name, (row for sample in samples for row in rows(sample, _of(run, sample)))
    if not tables.ANALYSED.isdisjoint(names):
        summary = summarise(run, samples)
        for name, analysed in _ANALYSED.items():
            if name in names:
                yield name, analysed(summary)


def _of(run: Run, sample: Sample) -> OfSample:
    return {"run_id": run.id, "cell_key": sample.cell.key, "round": sample.round}


def _run(run: Run) -> tables.RunRow:
    machine, origin = run.fingerprint_before.machine, origin_of(run)
    return tables.RunRow(
        run_id=run.id,
        label=run.label,
        note=run.note,
        command=run.command,
        study_name=run.study_name,
        study_json=json_text(run.study),
        plan_hash=run.plan_hash,
        seed=str(run.seed),
        status=run.status,
        started_at=run.started_at,
        ended_at=run.ended_at,
        seatrial_version=run.seatrial_version,
        imported_format=origin.format if origin else None,
        host=host_of(run) or None,
        kernel=kernel_of(run) or None,
        distribution=machine.distribution,
        cpu_model=machine.cpu_model,
        cpus_online=machine.cpus_online,
        memory_bytes=machine.memory_bytes,
        virtualisation=machine.virtualisation,
        container=machine.container,
        is_of_lab=is_of_lab(run),
        fingerprint_before_json=json_text(run.fingerprint_before),
        fingerprint_after_json=json_text(run.fingerprint_after),
    )


def _targets(run: Run, samples: Sequence[Sample]) -> Iterator[tables.TargetRow]:
    for label in dict.fromkeys(sample.cell.target for sample in samples):
        found = run.fingerprint_before.target_of(label) or Target()
        devices = found.physical_devices
        filesystem = found.filesystem
        sizes_bytes = [device.size_bytes for device in devices]
        known_bytes = [size_bytes for size_bytes in sizes_bytes if size_bytes is not None]
        is_known = bool(known_bytes) and len(known_bytes) == len(sizes_bytes)
        yield tables.TargetRow(
            run_id=run.id,
            target=label,
            path=found.path,
            kind=found.kind,
            filesystem=filesystem.type if filesystem else None,
            mount_options=",".join(filesystem.mount_options) if filesystem else None,
            drive=drive_of(run, label) or None,
            firmware=firmware_of(run, label) or None,
            transport=_each(devices, lambda device: device.transport),
            scheduler=_each(devices, lambda device: device.scheduler),
            write_cache=_each(devices, lambda device: device.write_cache),
            physical_devices=len(devices),
            physical_size_bytes=sum(known_bytes) if is_known else None,
        )


def _each(devices: Sequence[Device], fact: Callable[[Device], str | None]) -> str | None:
    known = dict.fromkeys(found for device in devices if (found := fact(device)))
    return ", ".join(known) or None


def _sample(sample: Sample, of: OfSample) -> Iterator[tables.SampleRow]:
    cell, outcome, checked = sample.cell, sample.outcome, sample.verification
    duration_s = known_duration_s(sample)
    yield tables.SampleRow(
        **of,
        target=cell.target,
        workload=cell.workload,
        kind=cell.kind,
        operation=cell.operation,
        block_size_bytes=cell.block_size_bytes,
        threads=cell.threads,
        depth=cell.depth,
        factors_json=json_text(cell.factors),
        position=sample.position,
        started_at=sample.started_at,
        duration_s=duration_s,
        status=sample.status,
        engine=sample.engine,
        engine_reason=sample.engine_reason,
        offered=outcome.offered,
        completed=outcome.completed,
        failed=outcome.failed,
        late_skipped=outcome.late_skipped,
        in_flight_at_end=outcome.in_flight_at_end,
        completed_per_s=sample.completed_per_s if sample.duration_s > 0 else None,
        transferred_bytes=sum(part.transferred_bytes for part in sample.operations.values()),
        transferred_bytes_per_s=sample.transferred_bytes_per_s if sample.duration_s > 0 else None,
        oldest_in_flight_ns=sample.oldest_in_flight_ns,
        stalls=len(sample.stalls),
        stalls_dropped=sample.stalls_dropped,
        errors_count=sample.errors_count,
        checked_blocks=checked.checked_blocks if checked else None,
        corrupt_blocks=checked.corrupt_blocks if checked else None,
        database_json=_json_or_none(sample.database),
        layout_json=_json_or_none(sample.layout),
        replay_json=_json_or_none(sample.replay),
        cache_json=_json_or_none(sample.cache),
        fleet_json=_json_or_none(sample.fleet),
    )


def _json_or_none(part: object) -> str | None:
    return None if part is None else json_text(part)


def _operations(sample: Sample, of: OfSample) -> Iterator[tables.OperationRow]:
    for name, result in sample.operations.items():
        response = _times("response", result.response_histogram())
        service = _times("service", result.service_histogram()) if result.service else {}
        yield tables.OperationRow(
            **of,
            operation=name,
            completed=result.completed,
            failed=result.failed,
            transferred_bytes=result.transferred_bytes,
            **(_UNKNOWN | response | service),
            reported_ns_json=json_text(result.reported_ns) if result.reported_ns else None,
        )


_UNKNOWN: Final[dict[str, Any]] = {
    column.name: None
    for column in tables.columns_of(tables.OperationRow)
    if column.name.startswith(("response_ns_", "service_ns_"))
}


def _times(what: str, histogram: _core.Histogram) -> dict[str, Any]:
    """Return what a histogram knows, by column."""
    if histogram.count == 0:
        return {}
    known = {
        f"{what}_ns_{name.replace('.', '_')}": histogram.percentile_ns(percent)
        for name, percent in PERCENTS.items()
        if histogram.count >= entries_needed(percent)
    }
    return known | {
        f"{what}_ns_min": histogram.min_ns,
        f"{what}_ns_mean": histogram.mean_ns,
        f"{what}_ns_max": histogram.max_ns,
    }


def _buckets(sample: Sample, of: OfSample) -> Iterator[tables.BucketRow]:
    for name, result in sample.operations.items():
        for time, histogram in _histograms(result):
            for low_ns, high_ns, count in zip(*histogram.buckets(), strict=True):
                yield tables.BucketRow(
                    **of, operation=name, time=time, low_ns=low_ns, high_ns=high_ns, count=count
                )


def _histograms(result: OperationResult) -> Iterator[tuple[str, _core.Histogram]]:
    yield "response", result.response_histogram()
    if result.service:
        yield "service", result.service_histogram()


def _slices(sample: Sample, of: OfSample) -> Iterator[tables.SliceRow]:
    length_ns = sample.timeline.slice_ns
    for part in sample.timeline.slices:
        yield tables.SliceRow(
            **of,
            operation=part.operation,
            slice=part.index,
            start_ns=part.index * length_ns,
            length_ns=length_ns,
            completed=part.completed,
            transferred_bytes=part.transferred_bytes,
        )


def _slice_buckets(sample: Sample, of: OfSample) -> Iterator[tables.SliceBucketRow]:
    for part in sample.timeline.slices:
        for low_ns, high_ns, count in zip(
            *_core.Histogram.decode(part.response).buckets(), strict=True
        ):
            yield tables.SliceBucketRow(
                **of,
                operation=part.operation,
                slice=part.index,
                low_ns=low_ns,
                high_ns=high_ns,
                count=count,
            )


def _series(sample: Sample, of: OfSample) -> Iterator[tables.SeriesRow]:
    if sample.series is None:
        return
    length_s = sample.series.period_s
    for name, column in sample.series.columns.items():
        for index, value in enumerate(column):
            yield tables.SeriesRow(
                **of, name=name, start_s=index * length_s, length_s=length_s, value=value
            )


def _counters(sample: Sample, of: OfSample) -> Iterator[tables.CounterRow]:
    for name, value in sample.counters.items():
        yield tables.CounterRow(**of, name=name, value=value)


def _stalls(sample: Sample, of: OfSample) -> Iterator[tables.StallRow]:
    for stall in sample.stalls:
        yield tables.StallRow(
            **of,
            start_s=stall.start_s,
            length_s=stall.length_s,
            cause=stall.cause,
            depth=stall.depth,
            operations_json=json_text(stall.operations),
            evidence_json=json_text(stall.evidence),
        )


def _errors(sample: Sample, of: OfSample) -> Iterator[tables.ErrorRow]:
    for error in sample.errors:
        yield tables.ErrorRow(
            **of,
            operation=error.operation,
            offset_bytes=error.offset_bytes,
            length_bytes=error.length_bytes,
            errno=error.errno,
            name=error.name,
            at_s=error.at_s,
        )


def _corruptions(sample: Sample, of: OfSample) -> Iterator[tables.CorruptionRow]:
    for found in sample.verification.corruptions if sample.verification else ():
        yield tables.CorruptionRow(
            **of, kind=found.kind, offset_bytes=found.offset_bytes, detail=found.detail
        )


def _figures(summary: Summary) -> Iterator[tables.Row]:
    for part in summary.cells:
        for operation, figure, estimate in _estimates(part):
            shown = estimate.shown
            yield tables.FigureRow(
                run_id=summary.run.id,
                cell_key=part.cell.key,
                operation=operation,
                figure=figure,
                value=shown.value,
                low=shown.low,
                high=shown.high,
                rounds=shown.rounds,
                unit=shown.unit,
                over=shown.over,
            )


def _estimates(part: CellSummary) -> Iterator[tuple[str | None, str, Estimate]]:
    yield None, "completed_per_s", part.iops
    yield None, "transferred_bytes_per_s", part.bandwidth
    for operation, figures in part.latency.items():
        for name, estimate in figures.items():
            yield operation, name, estimate


def _findings(summary: Summary) -> Iterator[tables.Row]:
    for position, finding in enumerate(summary.findings):
        yield tables.FindingRow(
            run_id=summary.run.id,
            position=position,
            kind=finding.kind,
            severity=finding.severity,
            sentence=finding.sentence,
            cause=finding.cause,
            next=finding.next,
            cells_json=json_text(finding.cells),
            evidence_json=json_text(finding.evidence),
        )


_OF_SAMPLES: Final[Mapping[str, Callable[[Sample, OfSample], Iterator[tables.Row]]]] = {
    "samples": _sample,
    "operations": _operations,
    "buckets": _buckets,
    "slices": _slices,
    "slice_buckets": _slice_buckets,
    "series": _series,
    "counters": _counters,
    "stalls": _stalls,
    "errors": _errors,
    "corruptions": _corruptions,
}
_ANALYSED: Final[Mapping[str, Callable[[Summary], Iterator[tables.Row]]]] = {
    "figures": _figures,
    "findings": _findings,
}
