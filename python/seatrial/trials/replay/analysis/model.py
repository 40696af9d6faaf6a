"""The results of the analysis of replay samples. Pure data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Final

import msgspec

from seatrial.published import Count, named, one_of
from seatrial.results.model import Sample
from seatrial.results.replay import ReplayErrorExample, ReplayRecord
from seatrial.stats.estimate import Estimate
from seatrial.stats.model import AnalysedRun, CellSummary
from seatrial.study.cell import Cell, SpecDocument
from seatrial.trials.database.analysis.model import BOUNDS, Rival
from seatrial.trials.replay.analysis.verdict import is_migrated, is_schema_error

WHO = ("client", "server CPU", "locks", "disk", "standby", "pace", "order", "inconclusive")
"""Bottlenecks of a replay; ``pace`` if it reached the requested rate."""


class Bottleneck(msgspec.Struct, frozen=True, kw_only=True):
    """The bottleneck of a replay, and the evidence for it.

    Attributes:
        who: What the replay waited for.
        bound: The same in the terms of a database cell's verdict.
        sentence: With figures.
        evidence: The figures behind it, by name with unit last.
        likely: The leading bound of an inconclusive verdict; empty if none leads.
        rivals: The alternative explanations, each with the figure that tests it; empty if no bound
            leads.
        next: What would settle an inconclusive verdict; empty if there is nothing to settle.
    """

    who: Annotated[str, one_of(*WHO)]
    bound: Annotated[str, one_of(*BOUNDS)]
    sentence: str
    evidence: dict[str, float]
    likely: Annotated[str, one_of("", *BOUNDS)] = ""
    rivals: list[Rival] = []
    next: str = ""


class Lateness(msgspec.Struct, frozen=True, kw_only=True):
    """The lag of a replay at a fixed speed, in the worst round.

    Attributes:
        round: That round, from 0.
        due: Statements with a scheduled time.
        within_1ms_share: Share of them sent within 1 ms of it.
        p50_ns: Median of the lag.
        p99_ns: Its 99th percentile.
        max_ns: The longest lag.
        first_ns: Mean lag of the first third of the time; None if unknown.
        peak_ns: Mean lag of the worse of the two other thirds.
        grows: Whether the lag grew from the first third to that one.
        late_by: Statements more than 1 ms late, by what delayed them: ``session``, ``order``,
            ``connections``, ``driver``.
        driver_p99_ns: The driver's own lag, from when a statement could be sent to when it was.
        driver_max_ns: The longest such lag.
    """

    round: Count
    due: Count
    within_1ms_share: float
    p50_ns: Count
    p99_ns: Count
    max_ns: Count
    first_ns: float | None
    peak_ns: float | None
    grows: bool
    late_by: dict[str, Count]
    driver_p99_ns: Count
    driver_max_ns: Count


class ReplayCell(msgspec.Struct, frozen=True, kw_only=True):
    """One cell of a replay over all its rounds; latencies are in its CellSummary.

    Attributes:
        cell: What was replayed.
        speed: As a multiple of the captured speed; None at maximum speed.
        bottleneck: What limited the replay.
        answered_per_s: Statements answered per second of the whole replay, errors included.
        captured_per_s: The same of the capture, for the statements that were to be sent; None if
            the capture has no times.
        ratio: ``answered_per_s`` over ``captured_per_s``; None if unknown.
        delivered: Statements sent per second over the requested rate; None at maximum speed.
        lateness: None at maximum speed.
        client_core_share: CPU time of the driver's busiest thread over the time, in the round in
            which the driver had the least time to spare.
        client_delay_share: Share of the time in which it was runnable without a processor, in the
            same round.
        ceiling_per_s: Statements per second of the driver against a null server.
        ceiling_share: The rate as a share of the ceiling; None if unknown.
        order_share: Share of the time of all connections in which statements waited for the order.
        reported_round: The round whose account is reported: the worst.
    """

    cell: Annotated[Cell, named("key")]
    speed: float | None
    bottleneck: Bottleneck
    answered_per_s: Estimate
    captured_per_s: float | None
    ratio: Estimate | None
    delivered: Estimate | None
    lateness: Lateness | None
    client_core_share: float | None
    client_delay_share: float | None
    ceiling_per_s: float | None
    ceiling_share: float | None
    order_share: float | None
    reported_round: Count


def replays_of(analysed: AnalysedRun) -> list[ReplayCell]:
    """Return the analysis of each replay cell of a run."""
    found: list[ReplayCell] = analysed.analyses.get("replay", [])
    return found


KIND: Final = "replay"
NOT_LOGGED: Final = frozenset(
    {
        *("copy_data", "binary_parameters", "cut_off", "unknown_portal", "fast_path"),
        *("other_encoding", "rolled_back", "never_ran", "unknown_text"),
    }
)
"""Reasons to skip that are the log's: it does not have the statement completely."""


def is_replay(cell: Cell) -> bool:
    """Return whether a cell replays a trace."""
    return cell.kind == KIND


def played(cell: Cell) -> SpecDocument:
    """Return the replay part of a cell's specification; empty if it has none."""
    replay = cell.spec.get("database", {}).get("replay")
    return replay if isinstance(replay, dict) else {}


def speed_of(cell: Cell) -> float | None:
    """Return a cell's speed as a multiple of the captured speed; None at maximum speed."""
    speed = played(cell).get("speed")
    return float(speed) if isinstance(speed, int | float) else None


def has_clock(record: ReplayRecord) -> bool:
    """Return whether the capture has times; those of a plain SQL file are made up."""
    return record.trace.get("clock") != "no"


def replays(samples: Iterable[Sample]) -> list[tuple[Sample, ReplayRecord]]:
    """Return the samples of a replay with their replay records, in their order."""
    return [(sample, sample.replay) for sample in samples if sample.replay is not None]


def worst_round(samples: Sequence[Sample]) -> tuple[Sample, ReplayRecord] | None:
    """Return the sample whose account is reported: the worst.

    Statements that were not reached count most, then failed ones, then skipped ones; among equals
    the slowest sample. None if there is no record.
    """

    def severity(pair: tuple[Sample, ReplayRecord]) -> tuple[int, int, int, float]:
        total = pair[1].total
        return total.not_reached, total.failed, total.skipped_count, pair[0].duration_s

    return max(replays(samples), key=severity, default=None)


def skipped_for(skipped: Mapping[str, int], reasons: Iterable[str]) -> dict[str, int]:
    """Return the statements skipped for some reasons, the most frequent first."""
    selected = set(reasons)
    counts = {reason: count for reason, count in skipped.items() if reason in selected and count}
    return dict(sorted(counts.items(), key=lambda item: -item[1]))


class SchemaErrors(msgspec.Struct, frozen=True, kw_only=True):
    """Statements of one replay with schema errors, in the round with the most of them.

    Attributes:
        schema: Name of the schema.
        is_migrated: Whether the schema is a migration of the snapshot's.
        statements: How many failed so that succeeded in the capture; a lower bound, since only the
            most frequent kinds of errors are distinguished.
        sent: Statements that were sent.
        examples: The most frequent first.
    """

    schema: str
    is_migrated: bool
    statements: int
    sent: int
    examples: list[ReplayErrorExample]


def schema_errors(summary: CellSummary) -> SchemaErrors | None:
    """Return a cell's schema errors; None if it names no schema or has no record."""
    schema = played(summary.cell).get("schema")
    records = [record for _, record in replays(summary.samples)]
    if not schema or not records:
        return None
    worst = max(records, key=schema_error_count)
    return SchemaErrors(
        schema=str(schema),
        is_migrated=is_migrated(worst),
        statements=schema_error_count(worst),
        sent=worst.total.sent,
        examples=sorted(_schema_error_examples(worst), key=lambda example: -example.count),
    )


def schema_error_count(record: ReplayRecord) -> int:
    """Return how many statements of a replay failed with schema errors."""
    return sum(example.count for example in _schema_error_examples(record))


def _schema_error_examples(record: ReplayRecord) -> list[ReplayErrorExample]:
    return [
        example
        for example in record.errors.examples
        if example.kind in ("new", "other") and is_schema_error(example.sqlstate)
    ]
