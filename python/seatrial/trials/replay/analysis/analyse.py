"""What the samples of a run's replays say, as one."""

from __future__ import annotations

from collections.abc import Sequence

from seatrial.findings.context import usable_cpus
from seatrial.results.model import Run
from seatrial.stats.estimates import counted
from seatrial.stats.model import CellSummary
from seatrial.trials.database.analysis.cells import grounds_of
from seatrial.trials.database.analysis.grounds import Grounds
from seatrial.trials.database.analysis.samples import ceiling_share
from seatrial.trials.replay.analysis.bottleneck import (
    ReplayGrounds,
    client_shares,
    of_driver_thread,
    order_share,
    replay_bottleneck,
    sessions_mean,
)
from seatrial.trials.replay.analysis.model import ReplayCell
from seatrial.trials.replay.analysis.pace import (
    answered_per_s,
    captured_per_s,
    delivered,
    lateness,
    ratio_to_capture,
)
from seatrial.trials.replay.analysis.samples import is_of_replay, speed_of, worst_of


def analyse_replays(run: Run, cells: Sequence[CellSummary]) -> list[ReplayCell]:
    """Return what is particular to a run's replays, in the order of the plan.

    Args:
        run: For what its fingerprint says of the machine.
        cells: All cells of the run.
    """
    cpus = usable_cpus(run.fingerprint_before)
    own = [summary for summary in cells if is_of_replay(summary.cell)]
    parts = [replay_cell(summary, grounds_of(summary, cpus)) for summary in own]
    return [part for part in parts if part is not None]


def replay_cell(summary: CellSummary, grounds: Grounds) -> ReplayCell | None:
    """Return what is particular to a replay, over all its rounds; None where none has a record.

    Args:
        summary: Of a replay.
        grounds: What the verdict on any load of a database looks at, of the same cell.
    """
    samples = counted(summary.samples)
    worst = worst_of(samples)
    if worst is None:
        return None
    speed = speed_of(summary.cell)
    core_share, delay_share = client_shares(samples)
    grounds = of_driver_thread(grounds, core_share, delay_share)
    found = ReplayGrounds(
        database=grounds,
        core_share=core_share,
        delay_share=delay_share,
        order_share=order_share(samples),
        delivered=delivered(samples, speed),
        lateness=lateness(samples),
        sessions_mean=sessions_mean(samples),
    )
    return ReplayCell(
        cell=summary.cell,
        speed=speed,
        bottleneck=replay_bottleneck(found),
        answered_per_s=answered_per_s(samples),
        captured_per_s=captured_per_s(samples),
        ratio=ratio_to_capture(samples),
        delivered=found.delivered,
        lateness=found.lateness,
        client_core_share=core_share,
        client_delay_share=delay_share,
        ceiling_per_s=grounds.ceiling_per_s,
        ceiling_share=ceiling_share(grounds.rate.value, grounds.ceiling_per_s),
        order_share=found.order_share,
        told_round=worst[0].round,
    )
