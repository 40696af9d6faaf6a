"""Replays as sides of a comparison, each with all of its rounds."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from seatrial.cli.compare_command import of_targets
from seatrial.cli.sources import NamedResult, load_source
from seatrial.errors import UsageError
from seatrial.results.model import Run, Sample
from seatrial.results.replay import ReplayRecord
from seatrial.statement_counters import Statement, added
from seatrial.stats.cell_estimates import counted
from seatrial.stats.compare.comparison import unfinished
from seatrial.stats.compare.model import Side
from seatrial.stats.compare.model import SideSamples as Measurement
from seatrial.stats.compare.pairing import CommonCell, MatchedCells, identity_without_target, match
from seatrial.stats.wording import format_count, format_plural
from seatrial.trials.replay.analysis.comparison import load_mismatches
from seatrial.trials.replay.analysis.model import is_replay, played
from seatrial.trials.replay.analysis.verdict import judge
from seatrial.trials.replay.compare.model import (
    CallFigures,
    MeasuredSide,
    QueryLabel,
    ServerWork,
    Unit,
)
from seatrial.units import NS_PER_S

BOTH: Final = 2
LOAD_FACTORS: Final = frozenset(
    {
        *("workload", "operation", "trace", "schema", "scale", "speed", "pace", "order", "ids"),
        *("read_only", "until", "threads", "databases", "allow"),
    }
)
"""Factors that change the load and are reported as that, or that are compared."""


class ReplaySides(msgspec.Struct, frozen=True, kw_only=True):
    """Two replays, and the A/A control if there is one.

    Attributes:
        before: The baseline.
        after: The side that is judged.
        control: A second measurement of before; None if absent.
        runs: Names and runs of before and after.
    """

    before: MeasuredSide
    after: MeasuredSide
    control: MeasuredSide | None
    runs: list[tuple[str, Run]]


def replay_sides(
    references: Sequence[str], control: str | None, results: Path, *, anyway: bool
) -> ReplaySides:
    """Return two replays as sides.

    Args:
        references: Two results, or one run with two targets or two schemas.
        control: A/A control, another measurement of the first.
        results: The results file that contains the runs.
        anyway: Whether replays of different loads are compared.

    Raises:
        ResultsFileError: when a results file cannot be read.
        UsageError: when there are not two sides with one replay in common, when two are the same
            result, or when their loads differ.
    """
    sources = [_load(reference, results) for reference in references]
    again: Measurement | None = None
    if len(sources) == 1:
        first, second, again = _split_run(sources[0], references[0])
    else:
        first, second = map(_measurement, sources)
        _require_distinct(first, second)
    if control is not None:
        again = _measurement(_load(control, results))
        for each in (first, second):
            _require_distinct(each, again)
    pair = _common_cell(first, second)
    warnings = [text for each in (first, second) if (text := unfinished(each))]
    warnings += _require_same_load(first, second, pair, anyway=anyway)
    third: MeasuredSide | None = None
    if again is not None:
        controls = _common_cell(first, again)
        warnings += _require_same_load(first, again, controls, anyway=anyway)
        third = _measured_side(again, controls.b)
    after = _measured_side(second, pair.b)
    return ReplaySides(
        before=_measured_side(first, pair.a),
        after=msgspec.structs.replace(after, warnings=[*after.warnings, *warnings]),
        control=third,
        runs=[(each.side.name, each.side.run) for each in (first, second)],
    )


def _split_run(
    source: NamedResult, reference: str
) -> tuple[Measurement, Measurement, Measurement | None]:
    """Return the two targets of a run, or the two schemas of its one target, and the A/A control.

    Raises:
        UsageError: when there are not two.
    """
    found = of_targets(source.run, source.samples)
    if found is None:
        schemas = list(dict.fromkeys(map(schema_of, source.samples)))
        if len(schemas) == BOTH:
            first, second = (
                _measurement(_with_schema(source, schema, f"{reference}:{schema}"))
                for schema in schemas
            )
            return first, second, None
        raise UsageError(
            seen=f"{source.name} has one target, and no other result is named",
            cause="A comparison needs two results, or a run of several targets",
            next_step=f"Name another one, as in `seatrial sql compare BEFORE {reference}`",
        )
    if len(found.others) > 1:
        names = [each.side.name for each in (found.first, *found.others)]
        raise UsageError(
            seen=f"{source.name} has {len(names)} targets",
            cause="Two targets are compared with each other",
            next_step="Name the two, as in `seatrial sql compare "
            f"{reference}:{names[0]} {reference}:{names[1]}`",
        )
    control = None if found.control is None else _only_replays(found.control)
    return _only_replays(found.first), _only_replays(found.others[0]), control


def replay_side(reference: str, results: Path) -> MeasuredSide:
    """Return a replay as a side; raises as ``replay_sides`` does."""
    found = _measurement(_load(reference, results))
    return _measured_side(found, _common_cell(found, found).a)


def schema_of(sample: Sample) -> str:
    """Return the name of a sample's schema; empty for that of the snapshot."""
    return str(played(sample.cell).get("schema") or "")


def _load(reference: str, results: Path) -> NamedResult:
    """Return the result of a reference: RUN, RUN:TARGET or RUN:TARGET:SCHEMA.

    Raises:
        ResultsFileError: when a results file cannot be read.
        UsageError: when there is none.
    """
    try:
        return load_source(reference, results)
    except UsageError:
        first, _, schema = reference.rpartition(":")
        if not first or not schema:
            raise
        with contextlib.suppress(UsageError):
            source = load_source(first, results)
            if schema in map(schema_of, source.samples):
                return _with_schema(source, schema, reference)
        raise


def _with_schema(source: NamedResult, schema: str, name: str) -> NamedResult:
    samples = [sample for sample in source.samples if schema_of(sample) == schema]
    return msgspec.structs.replace(source, name=name, samples=samples)


def _measurement(source: NamedResult) -> Measurement:
    """Return a result as a side.

    Raises:
        UsageError: when it has no replay, or those of several targets.
    """
    name = source.run.label or source.run.id if source.name == "last" else source.name
    side = Side(name=name, run=source.run, target=source.target)
    found = _only_replays(Measurement(side=side, samples=source.samples))
    samples = found.samples
    targets = list(dict.fromkeys(sample.cell.target for sample in samples))
    if len(targets) > 1:
        raise UsageError(
            seen=f"{source.name} has {len(targets)} targets: {', '.join(targets)}",
            cause="A side is a replay to one of them",
            next_step=f"Name it, as in {source.name}:{targets[1]}",
        )
    return found


def _only_replays(found: Measurement) -> Measurement:
    samples = [sample for sample in found.samples if is_replay(sample.cell) and sample.replay]
    if not samples:
        raise UsageError(
            seen=f"{found.side.name} has no replay",
            cause="It is a run of another topic",
            next_step="Use `seatrial compare` for other runs; `seatrial list` shows all runs",
        )
    return msgspec.structs.replace(found, samples=samples)


def _require_distinct(a: Measurement, b: Measurement) -> None:
    samples = [
        {(each.side.run.id, sample.cell.key, sample.round) for sample in each.samples}
        for each in (a, b)
    ]
    if samples[0] & samples[1]:
        raise UsageError(
            seen=f"{a.side.name} and {b.side.name} are the same result",
            cause="A result does not differ from itself",
            next_step="Name two results; `seatrial list` shows the runs",
        )


def _common_cell(a: Measurement, b: Measurement) -> CommonCell:
    """Return the replay of two sides: their only one, else the one that they have in common.

    Raises:
        UsageError: when there is none, or more than one.
    """
    cell_keys = [list(dict.fromkeys(sample.cell.key for sample in each.samples)) for each in (a, b)]
    if all(len(keys) == 1 for keys in cell_keys):
        cell = a.samples[0].cell
        return CommonCell(
            key=cell.key_without_target,
            identity=identity_without_target(cell),
            a=a.samples,
            b=b.samples,
        )
    found = match(a, b).cells
    if len(found) > 1:
        keys = ", ".join(cell.key for cell in found[:3])
        schemas = [each for each in dict.fromkeys(map(schema_of, a.samples)) if each]
        run, target = a.side.run.label or a.side.run.id, a.samples[0].cell.target
        hint = f"Name the schema, as in {run}:{target}:{schemas[0]}. " if schemas else ""
        names = a.side.name if a is b else f"{a.side.name} and {b.side.name}"
        verb = "has" if a is b else "have in common"
        raise UsageError(
            seen=f"{names} {verb} {len(found)} replays ({keys})",
            cause="Queries are compared for one replay of each side",
            next_step=f"{hint}Compare all tests with `seatrial compare`, or measure one at a time",
        )
    return found[0]


def _require_same_load(
    a: Measurement, b: Measurement, cell: CommonCell, *, anyway: bool
) -> list[str]:
    """Return the differences between the loads of two replays, as warnings.

    Raises:
        UsageError: when they differ, and ``anyway`` is not set.
    """
    errors = list(load_mismatches(a, b, MatchedCells(cells=[cell], only_a=[], only_b=[])))
    if errors and not anyway:
        raise errors[0]
    warnings = [f"{error.seen} {error.cause}" for error in errors]
    first, second = (identity_without_target(each[0].cell) for each in (cell.a, cell.b))
    names = [
        name
        for name in dict.fromkeys([*first, *second])
        if name not in LOAD_FACTORS and first.get(name) != second.get(name)
    ]
    if names:
        warnings.append(
            f"{a.side.name} and {b.side.name} also differ in {' and '.join(names)}, which may be "
            "the cause of changes."
        )
    return warnings


def _measured_side(found: Measurement, measured: Sequence[Sample]) -> MeasuredSide:
    samples = _whole(measured)
    warnings = []
    if len(samples) < len(measured):
        warnings.append(
            f"On {found.side.name} {len(measured) - len(samples)} of "
            f"{format_plural(len(measured), 'round')} ended early: not compared."
        )
    units: list[Unit] = []
    labels: dict[str, QueryLabel] = {}
    for sample in samples:
        record = sample.replay
        if record is None:
            continue
        labels |= {q.fingerprint: QueryLabel(q.text, q.class_) for q in record.queries}
        units.append(
            Unit(
                number=sample.round,
                measured=call_figures(record),
                begin_s=sample.started_at,
                covered_s=sample.duration_s,
            )
        )
    records = [sample.replay for sample in samples if sample.replay]
    return MeasuredSide(
        name=found.side.name,
        kind="replay",
        clock="client",
        units=units,
        labels=labels,
        detail=samples[0].database.server if samples[0].database else "",
        server=_server_work(records),
        plans=_plans(records),
        warnings=[*warnings, *_fault_warnings(found.side.name, records)],
    )


def _whole(samples: Sequence[Sample]) -> list[Sample]:
    """Return the rounds that reached the end of the trace, or all if none did."""
    ordered = counted(samples)
    return [
        sample
        for sample in ordered
        if sample.replay and sample.replay.end == "complete" and not sample.replay.total.not_reached
    ] or ordered


def call_figures(record: ReplayRecord) -> dict[str, CallFigures]:
    """Return calls, time and errors of each query in one round."""
    return {
        query.fingerprint: CallFigures(
            calls=query.ok + query.failed,
            total_s=query.service_ns_sum / NS_PER_S,
            errors=query.failed,
        )
        for query in record.queries
        if query.ok + query.failed
    }


def server_work(total: Statement) -> ServerWork:
    """Return the server's work for a query, per call, from its counters."""
    per_call = {
        name: None if value is None or not total.calls else value / total.calls
        for name in ("exec_s", "blocks_hit", "blocks_read", "wal_bytes")
        for value in [getattr(total, name)]
    }
    return ServerWork(calls=total.calls, **per_call)


def _server_work(records: Sequence[ReplayRecord]) -> dict[str, ServerWork]:
    """Return the server's work for each query, per call, over all rounds that have it."""
    sums: dict[str, Statement] = {}
    for query in (query for record in records for query in record.queries_server):
        if query.calls and query.exec_ns is not None:
            counters = Statement(
                query="",
                calls=query.calls,
                exec_s=query.exec_ns / NS_PER_S,
                blocks_hit=query.blocks_hit,
                blocks_read=query.blocks_read,
                wal_bytes=query.wal_bytes,
            )
            sums[query.fingerprint] = added(sums.get(query.fingerprint), counters)
    return {key: server_work(total) for key, total in sums.items()}


def _plans(records: Sequence[ReplayRecord]) -> dict[str, dict[str, str]]:
    """Return the shapes of each query's plans by hash, several if rounds differ."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for record in records:
        for query in record.queries_server:
            if query.plan_hash:
                found[query.fingerprint][query.plan_hash] = query.plan_shape
    return dict(found)


def _fault_warnings(name: str, records: Sequence[ReplayRecord]) -> Iterator[str]:
    verdicts = [judge(record) for record in records]
    wrong = [verdict for verdict in verdicts if not verdict.ok]
    if wrong:
        yield (
            f"On {name} {len(wrong)} of {format_plural(len(verdicts), 'round')} had faults "
            f"({wrong[0].faults[0].sentence}): the compared loads are not the same."
        )
    dropped = max((record.queries_dropped for record in records), default=0)
    if dropped:
        yield (
            f"On {name} {format_count(dropped)} statements are of queries that were too many to "
            "be distinguished: they are not compared."
        )
