"""The documents of ``--json``: one object, versioned, as docs/schema/ has them.

Every document states the version of Seatrial that wrote it, the number of the schema that it
follows and its kind. Names end in their unit; percentiles that too few requests could know are
absent, never zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from seatrial import _core
from seatrial.errors import SeatrialError
from seatrial.findings.model import Summary, ThresholdResult
from seatrial.report.lab import lab_notice, notices_of
from seatrial.results.model import OperationResult, Run, Sample
from seatrial.stats.estimates import PERCENTS, entries_needed
from seatrial.stats.model import CellSummary
from seatrial.trials.database.analysis.model import DatabaseAnalysis
from seatrial.trials.layouts.analysis.model import Accounting, LayoutAnalysis, Recovery
from seatrial.trials.replay.analysis.model import ReplayCell

SCHEMA: Final = 1
"""Rises when a name goes or changes its meaning; a name that is only added leaves it."""

Document = dict[str, Any]
_ESTIMATE: Final = {"value", "low", "high", "over", "scatter"}


def document(kind: str, **content: object) -> Document:
    """Return a document of one kind with its content."""
    head = {"seatrial": _core.__version__, "schema": SCHEMA, "kind": kind}
    return head | {name: _as_shown(msgspec.to_builtins(value)) for name, value in content.items()}


def _as_shown(value: Any) -> Any:  # noqa: ANN401 - whatever JSON can hold
    """Return builtins with each estimate as ``Estimate.shown`` has it: range, or interval."""
    if isinstance(value, list):
        return [_as_shown(item) for item in value]
    if not isinstance(value, dict):
        return value
    shown = {name: _as_shown(item) for name, item in value.items()}
    if shown.keys() >= _ESTIMATE and (scatter := shown.pop("scatter")):
        shown |= {"low": scatter["low"], "high": scatter["high"], "over": "range"}
    return shown


def run_document(summary: Summary) -> Document:
    """Return a run with its findings, cells and samples: docs/schema/run.schema.json."""
    return document(
        "run",
        run=run_facts(summary.run),
        notice=lab_notice(summary.run),
        verdict=summary.verdict,
        findings=summary.findings,
        thresholds=[_threshold(result) for result in summary.thresholds],
        audits=summary.audits,
        steady=summary.steady,
        load_lines=summary.load_lines,
        database=summary.database and _database(summary.database),
        layouts=summary.layouts and _layouts(summary.layouts),
        replays=[_replay(each) for each in summary.replays],
        analyses=summary.analyses,
        cells=[_cell(part) for part in summary.cells],
        samples=[_sample(sample) for part in summary.cells for sample in part.samples],
    )


def runs_document(runs: Sequence[Run]) -> Document:
    """Return the runs of a results file: docs/schema/runs.schema.json."""
    return document("runs", runs=[run_facts(run) for run in runs], notices=notices_of(runs))


def run_facts(run: Run) -> Document:
    """Return a run without its process, which tells nobody anything elsewhere."""
    return _without(msgspec.structs.asdict(run), "process")


def error_document(error: SeatrialError) -> Document:
    """Return an error as a command with ``--json`` says it: docs/schema/error.schema.json."""
    return document(
        "error",
        error=type(error).__name__,
        exit_code=error.exit_code,
        seen=error.seen,
        cause=error.cause,
        next=error.next_step,
    )


def as_text(content: Document) -> str:
    """Return a document as indented JSON; what is not a finite number is null.

    Bytes of a file's name that are not UTF-8, which JSON cannot hold, stand there as their codes.
    """
    try:
        encoded = msgspec.json.encode(content)
    except UnicodeEncodeError:
        encoded = msgspec.json.encode(_in_utf8(content))
    return msgspec.json.format(encoded, indent=2).decode() + "\n"


def _in_utf8(value: Any) -> Any:  # noqa: ANN401 - whatever JSON can hold
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    if isinstance(value, dict):
        return {_in_utf8(name): _in_utf8(item) for name, item in value.items()}
    return [_in_utf8(item) for item in value] if isinstance(value, list) else value


def render(summary: Summary) -> str:
    """Return a run as one JSON document."""
    return as_text(run_document(summary))


def _threshold(result: ThresholdResult) -> Document:
    return {
        "name": result.threshold.name,
        "condition": result.threshold.condition,
        "met": result.met,
        "doubtful": result.doubtful,
        "worst": result.worst,
        "cell_key": result.cell,
        "sentence": result.sentence,
    }


def _cell(summary: CellSummary) -> Document:
    return {
        "key": summary.cell.key,
        "kind": summary.cell.kind,
        **summary.cell.identity(),
        "iops": summary.iops,
        "bandwidth": summary.bandwidth,
        "latency": summary.latency,
        "latency_at_least": summary.latency_at_least,
        "completed": summary.completed,
        "failed": summary.failed,
        "blank": summary.blank,
        "spread": summary.spread,
        "running_from_s": summary.running_from_s,
    }


def _database(found: DatabaseAnalysis) -> Document:
    """Return what is particular to databases; its cells are named by their keys."""
    return {
        "cells": [
            {"key": each.cell.key, **_without(msgspec.structs.asdict(each), "cell")}
            for each in found.cells
        ],
        "sweeps": found.sweeps,
    }


def _layouts(found: LayoutAnalysis) -> Document:
    """Return what is particular to layouts; cells and variants are named by key and target."""
    return msgspec.structs.asdict(found) | {
        "accounting": [_keyed(each) for each in found.accounting],
        "recoveries": [_keyed(each) for each in found.recoveries],
    }


def _keyed(of: Accounting | Recovery) -> Document:
    others = _without(_without(msgspec.structs.asdict(of), "cell"), "variant")
    return {"key": of.cell.key, "target": of.variant.target, **others}


def _replay(found: ReplayCell) -> Document:
    return {"key": found.cell.key, **_without(msgspec.structs.asdict(found), "cell")}


def _without(content: Document, name: str) -> Document:
    return {key: value for key, value in content.items() if key != name}


def _sample(sample: Sample) -> Document:
    operations = sample.operations.items()
    return {
        "id": sample.id,
        "cell_key": sample.cell.key,
        "cell": sample.cell.identity(),
        "round": sample.round,
        "position": sample.position,
        "started_at": sample.started_at,
        "duration_s": sample.duration_s,
        "status": sample.status,
        "engine": sample.engine,
        "engine_reason": sample.engine_reason,
        "completed_per_s": sample.completed_per_s,
        "transferred_bytes_per_s": sample.transferred_bytes_per_s,
        "outcome": sample.outcome,
        "operations": {name: _operation(result) for name, result in operations},
        "stalls": sample.stalls,
        "stalls_dropped": sample.stalls_dropped,
        "oldest_in_flight_ns": sample.oldest_in_flight_ns,
        "errors_count": sample.errors_count,
        "errors": sample.errors,
        "counters": sample.counters,
        "verification": sample.verification,
        "database": sample.database,
        "layout": sample.layout,
        "replay": sample.replay,
    }


def _operation(result: OperationResult) -> Document:
    return {
        "completed": result.completed,
        "failed": result.failed,
        "transferred_bytes": result.transferred_bytes,
        "response_ns": _percentiles_ns(result.response_histogram()),
        "service_ns": result.service and _percentiles_ns(result.service_histogram()),
        "told_ns": result.told_ns,
    }


def _percentiles_ns(histogram: _core.Histogram) -> dict[str, float]:
    """Return what a histogram knows, in ns: nothing when empty, percentiles where entries do."""
    if histogram.count == 0:
        return {}
    known = {
        name: float(histogram.percentile_ns(percent))
        for name, percent in PERCENTS.items()
        if histogram.count >= entries_needed(percent)
    }
    return {"min": histogram.min_ns, "mean": histogram.mean_ns, **known, "max": histogram.max_ns}
