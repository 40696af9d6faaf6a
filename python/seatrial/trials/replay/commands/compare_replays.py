"""Replays as sides of a comparison: one replay of each, with all of its rounds."""

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
from seatrial.stats.compare.model import Side
from seatrial.stats.compare.model import SideSamples as Measurement
from seatrial.stats.compare.pairing import CommonCell, MatchedCells, identity_without_target, match
from seatrial.stats.wording import format_count, format_plural
from seatrial.trials.replay.analysis.comparison import unlike_replays
from seatrial.trials.replay.analysis.judgement import judge
from seatrial.trials.replay.analysis.model import is_of_replay, played
from seatrial.trials.replay.compare.model import CallFigures, Entrant, Named, ServerWork, Unit
from seatrial.units import NS_PER_S

BOTH: Final = 2
OF_LOAD: Final = frozenset(
    {
        *("workload", "operation", "trace", "schema", "scale", "speed", "pace", "order", "ids"),
        *("read_only", "until", "threads", "databases", "allow"),
    }
)
"""Factors that make another load, reported as such; or that are what is compared."""


class Replays(msgspec.Struct, frozen=True, kw_only=True):
    """Two replays, and the first once more where it was measured so.

    Attributes:
        before: The measure.
        after: What is judged.
        control: Before, measured once more; None if absent.
        runs: Names and runs of before and after.
    """

    before: Entrant
    after: Entrant
    control: Entrant | None
    runs: list[tuple[str, Run]]


def two_replays(
    references: Sequence[str], control: str | None, results: Path, *, anyway: bool
) -> Replays:
    """Return two replays as sides.

    Args:
        references: Two results, or one run with two targets or two schemas.
        control: A/A control, another measurement of what the first is.
        results: The results file that runs are sought in.
        anyway: Whether replays that are not one load are compared.

    Raises:
        ResultsFileError: when a results file cannot be read.
        UsageError: when there are not two sides with one replay in common, when two are the same
            result, or when they are not one load.
    """
    sources = [_loaded(each, results) for each in references]
    again: Measurement | None = None
    if len(sources) == 1:
        first, second, again = _sides_of_run(sources[0], references[0])
    else:
        first, second = map(_measurement, sources)
        _require_distinct(first, second)
    if control is not None:
        again = _measurement(_loaded(control, results))
        for each in (first, second):
            _require_distinct(each, again)
    pair = _cells(first, second)
    warnings = _require_one_load(first, second, pair, anyway=anyway)
    third: Entrant | None = None
    if again is not None:
        controls = _cells(first, again)
        warnings += _require_one_load(first, again, controls, anyway=anyway)
        third = _of_replay(again, controls.b)
    after = _of_replay(second, pair.b)
    return Replays(
        before=_of_replay(first, pair.a),
        after=msgspec.structs.replace(after, warnings=[*after.warnings, *warnings]),
        control=third,
        runs=[(each.side.name, each.side.run) for each in (first, second)],
    )


def _sides_of_run(
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
                _measurement(_of_schema(source, each, f"{reference}:{each}")) for each in schemas
            )
            return first, second, None
        raise UsageError(
            seen=f"{source.name} has one target, and nothing else is named",
            cause="A comparison needs two results, or a run of several targets",
            next_step=f"Name another one, as in `seatrial sql compare BEFORE {reference}`",
        )
    if len(found.others) > 1:
        names = [each.side.name for each in (found.first, *found.others)]
        raise UsageError(
            seen=f"{source.name} has {len(names)} targets",
            cause="One is compared with one other",
            next_step="Name the two, as in `seatrial sql compare "
            f"{reference}:{names[0]} {reference}:{names[1]}`",
        )
    control = None if found.control is None else _only_replays(found.control)
    return _only_replays(found.first), _only_replays(found.others[0]), control


def one_replay(reference: str, results: Path) -> Entrant:
    """Return a replay as a side; as for ``two_replays``."""
    found = _measurement(_loaded(reference, results))
    return _of_replay(found, _cells(found, found).a)


def schema_of(sample: Sample) -> str:
    """Return what the schema is called that a sample was played on; empty for the snapshot's."""
    return str(played(sample.cell).get("schema") or "")


def _loaded(reference: str, results: Path) -> NamedResult:
    """Return what a user names; behind a colon may be a target, and a schema behind another.

    Raises:
        ResultsFileError: when a results file cannot be read.
        UsageError: when nothing fits.
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
                return _of_schema(source, schema, reference)
        raise


def _of_schema(source: NamedResult, schema: str, name: str) -> NamedResult:
    samples = [each for each in source.samples if schema_of(each) == schema]
    return msgspec.structs.replace(source, name=name, samples=samples)


def _measurement(source: NamedResult) -> Measurement:
    """Return a result as a side.

    Raises:
        UsageError: when it holds no replay, or those of several targets.
    """
    name = source.run.label or source.run.id if source.name == "last" else source.name
    side = Side(name=name, run=source.run, target=source.target)
    found = _only_replays(Measurement(side=side, samples=source.samples))
    samples = found.samples
    targets = list(dict.fromkeys(each.cell.target for each in samples))
    if len(targets) > 1:
        raise UsageError(
            seen=f"{source.name} has {len(targets)} targets: {', '.join(targets)}",
            cause="A side is a replay to one of them",
            next_step=f"Name it, as in {source.name}:{targets[1]}",
        )
    return found


def _only_replays(found: Measurement) -> Measurement:
    samples = [each for each in found.samples if is_of_replay(each.cell) and each.replay]
    if not samples:
        raise UsageError(
            seen=f"{found.side.name} holds no replay",
            cause="It is a run of something else",
            next_step="See `seatrial compare` for other runs; `seatrial list` shows what there is",
        )
    return msgspec.structs.replace(found, samples=samples)


def _require_distinct(a: Measurement, b: Measurement) -> None:
    held = [
        {(each.side.run.id, sample.cell.key, sample.round) for sample in each.samples}
        for each in (a, b)
    ]
    if held[0] & held[1]:
        raise UsageError(
            seen=f"{a.side.name} and {b.side.name} are the same result",
            cause="A result does not differ from itself",
            next_step="Name two results; `seatrial list` shows the runs",
        )


def _cells(a: Measurement, b: Measurement) -> CommonCell:
    """Return the one replay of two sides: their only ones, else the one that both have.

    Raises:
        UsageError: when there is none, or more than one.
    """
    own = [list(dict.fromkeys(sample.cell.key for sample in each.samples)) for each in (a, b)]
    if all(len(keys) == 1 for keys in own):
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
        named = f"Name the schema, as in {run}:{target}:{schemas[0]}. " if schemas else ""
        whose = a.side.name if a is b else f"{a.side.name} and {b.side.name}"
        held = "holds" if a is b else "both have"
        raise UsageError(
            seen=f"{whose} {held} {len(found)} replays ({keys})",
            cause="Queries are compared of one replay of each side",
            next_step=f"{named}Compare all tests with `seatrial compare`, or measure one at a time",
        )
    return found[0]


def _require_one_load(
    a: Measurement, b: Measurement, cell: CommonCell, *, anyway: bool
) -> list[str]:
    """Return why two replays are not one load, as warnings, if they are to be compared anyway.

    Raises:
        UsageError: when they are not, and not to be compared.
    """
    errors = list(unlike_replays(a, b, MatchedCells(cells=[cell], only_a=[], only_b=[])))
    if errors and not anyway:
        raise errors[0]
    reported = [f"{error.seen} {error.cause}" for error in errors]
    first, second = (identity_without_target(each[0].cell) for each in (cell.a, cell.b))
    names = [
        name
        for name in dict.fromkeys([*first, *second])
        if name not in OF_LOAD and first.get(name) != second.get(name)
    ]
    if names:
        reported.append(
            f"{a.side.name} and {b.side.name} differ in {' and '.join(names)} too: what changes "
            "may come of that."
        )
    return reported


def _of_replay(found: Measurement, samples: Sequence[Sample]) -> Entrant:
    units: list[Unit] = []
    named: dict[str, Named] = {}
    for sample in samples:
        record = sample.replay
        if record is None:
            continue
        named |= {q.fingerprint: Named(q.text, q.class_) for q in record.queries}
        units.append(
            Unit(
                number=sample.round,
                measured=measured_of(record),
                begin_s=sample.started_at,
                covered_s=sample.duration_s,
            )
        )
    records = [sample.replay for sample in samples if sample.replay]
    return Entrant(
        name=found.side.name,
        kind="replay",
        clock="client",
        units=units,
        named=named,
        detail=samples[0].database.server if samples[0].database else "",
        server=_server_work(records),
        plans=_plans(records),
        warnings=list(_unwell(found.side.name, records)),
    )


def measured_of(record: ReplayRecord) -> dict[str, CallFigures]:
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


def _server_work(records: Sequence[ReplayRecord]) -> dict[str, ServerWork]:
    """Return what the server did for each query, per call, over all rounds that tell it."""
    sums: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    reported: dict[str, dict[str, bool]] = defaultdict(lambda: defaultdict(lambda: True))
    names = ("exec_ns", "blocks_hit", "blocks_read", "wal_bytes")
    for each in (query for record in records for query in record.queries_server):
        if not each.calls:
            continue
        sums[each.fingerprint]["calls"] += each.calls
        for name in names:
            value = getattr(each, name)
            reported[each.fingerprint][name] &= value is not None
            sums[each.fingerprint][name] += value or 0
    found = {}
    for key, own in sums.items():
        exec_ns, hit, read, wal = (
            own[name] / own["calls"] if reported[key][name] else None for name in names
        )
        found[key] = ServerWork(
            calls=own["calls"],
            exec_s=None if exec_ns is None else exec_ns / NS_PER_S,
            blocks_hit=hit,
            blocks_read=read,
            wal_bytes=wal,
        )
    return found


def _plans(records: Sequence[ReplayRecord]) -> dict[str, dict[str, str]]:
    """Return the shapes of each query's plans by their hashes, several where rounds differ."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for record in records:
        for query in record.queries_server:
            if query.plan_hash:
                found[query.fingerprint][query.plan_hash] = query.plan_shape
    return dict(found)


def _unwell(name: str, records: Sequence[ReplayRecord]) -> Iterator[str]:
    judged = [judge(record) for record in records]
    wrong = [each for each in judged if not each.ok]
    if wrong:
        yield (
            f"On {name} {len(wrong)} of {format_plural(len(judged), 'round')} did not do what was "
            f"captured ({wrong[0].faults[0].sentence}): what is compared is not the same load."
        )
    dropped = max((record.queries_dropped for record in records), default=0)
    if dropped:
        yield (
            f"On {name} {format_count(dropped)} statements are of queries that were too many to "
            "be distinguished: they are not compared."
        )
