"""What the analysis of a replay's samples yields. Pure data."""

from __future__ import annotations

from typing import Annotated

import msgspec

from seatrial.published import Count, named, one_of
from seatrial.stats.estimate import Estimate
from seatrial.stats.model import Analysed
from seatrial.study.cell import Cell
from seatrial.trials.database.analysis.model import BOUNDS, Rival

WHO = ("client", "server CPU", "locks", "disk", "pace", "order", "inconclusive")
"""Who a replay may have waited for; ``pace`` where it was asked for no more than it did."""


class Bottleneck(msgspec.Struct, frozen=True, kw_only=True):
    """Who was the bottleneck of a replay, and the ground for saying so.

    Attributes:
        who: Whom it waited for.
        bound: The same in the words of a database cell's verdict.
        sentence: With figures.
        evidence: The figures behind it, by name with unit last.
        likely: What leads where the verdict is inconclusive; empty where nothing does.
        rivals: What else it may be, each with the figure that excludes it or does not; empty where
            nothing leads.
        next: What would settle an inconclusive verdict; empty where nothing is to be settled.
    """

    who: Annotated[str, one_of(*WHO)]
    bound: Annotated[str, one_of(*BOUNDS)]
    sentence: str
    evidence: dict[str, float]
    likely: Annotated[str, one_of("", *BOUNDS)] = ""
    rivals: list[Rival] = []
    next: str = ""


class Lateness(msgspec.Struct, frozen=True, kw_only=True):
    """How a replay under a pace kept it, in the round that kept it worst.

    Attributes:
        round: That round, from 0.
        due: Statements that were due at a time.
        within_1ms_share: Of these, those sent within a millisecond of it.
        p50_ns: Median of the lag; ``p99_ns`` and ``max_ns`` likewise.
        p99_ns: Its 99th percentile.
        max_ns: The longest.
        first_ns: Mean lag of the first third of the time; None where it is not known.
        peak_ns: Of that third, of the two others, in which it was longest.
        grows: Whether it grew from the first third to that one.
        late_by: Statements more than 1 ms late, by what held them: ``session``, ``order``,
            ``connections``, ``driver``.
        driver_p99_ns: The driver's own lateness: from when a statement could be sent to when it
            was; ``driver_max_ns`` likewise.
        driver_max_ns: The longest.
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
        cell: What was played.
        speed: How many times faster than it was captured; None at maximum speed.
        bottleneck: Who it was.
        answered_per_s: Statements answered per second of the whole replay, errors included.
        captured_per_s: The capture's, of those statements that were to be sent; None where its
            time is not known.
        ratio: ``answered_per_s`` over ``captured_per_s``; None where that is not known.
        delivered: ``answered_per_s`` over what the speed asked for; None at maximum speed.
        lateness: None at maximum speed.
        client_core_share: Processor time of the driver's thread over the time; the largest round.
        client_delay_share: Time that it could have run and had no processor, likewise.
        ceiling_per_s: Statements of the driver with a server that answers at once.
        ceiling_share: Of that, what was reached; None where it is not known.
        order_share: Of the time of all connections, what statements waited for their order.
        told_round: The round whose account is told: the one with the most that went wrong.
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
    told_round: Count


def replays_of(analysed: Analysed) -> list[ReplayCell]:
    """Return what is known of each cell of a run that plays a trace."""
    found: list[ReplayCell] = analysed.analyses.get("replay", [])
    return found
