"""The bottleneck of a replay: client, server CPU, locks, disk, or the requested speed.

What bounds the database is decided as for any load (trials/database/analysis/verdict.py). Before
that, the rules check what only a replay has: a requested speed that was met, a single driver
thread for all sessions, and an order that delays statements.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from seatrial.findings.context import usable_cpus
from seatrial.results.model import Run, Sample
from seatrial.stats.estimate import Estimate
from seatrial.stats.estimates import counted
from seatrial.stats.model import CellSummary
from seatrial.stats.wording import format_iops, format_share
from seatrial.trials.database.analysis.cells import grounds_of
from seatrial.trials.database.analysis.model import Rival, TimeVerdict, ceiling_share
from seatrial.trials.database.analysis.rivals import DRIVER_SHARE_MAX, Grounds
from seatrial.trials.database.analysis.verdict import INCONCLUSIVE, rival_texts, time_verdict
from seatrial.trials.replay.analysis.model import (
    Bottleneck,
    Lateness,
    ReplayCell,
    is_of_replay,
    replays,
    speed_of,
    worst_of,
)
from seatrial.trials.replay.analysis.pace import (
    answered_per_s,
    captured_per_s,
    delivered,
    keeps_pace,
    lateness,
    ratio_to_capture,
)

ORDER_SHARE_MIN: Final = 0.4
"""Of the time of all connections, the share that statements waited for their order."""
DELAYED_SHARE_MIN: Final = 0.2
"""Of the time, the share in which the driver's thread was runnable but had no processor."""

WHO: Final[Mapping[str, str]] = {
    "cpu": "server CPU",
    "read": "disk",
    "commit": "disk",
    "checkpoint": "disk",
    "lock": "locks",
    "client": "client",
    "pace": "pace",
    "order": "order",
    INCONCLUSIVE: INCONCLUSIVE,
}
"""The bottleneck of a replay, by the bound of the database."""
_OPENINGS: Final[Mapping[str, str]] = {
    "client": "The client was the bottleneck",
    "server CPU": "The server's CPU was the bottleneck",
    "locks": "Locks were the bottleneck",
    "disk": "The disk was the bottleneck",
    "pace": "The requested speed set the rate",
    "order": "The statement order was the bottleneck",
    INCONCLUSIVE: "The bottleneck is inconclusive",
}


@dataclass(frozen=True)
class ReplayGrounds:
    """The figures that the verdict on a replay is based on.

    Attributes:
        database: The figures for the verdict on any database load.
        core_share: CPU time of the driver's thread over the time; the largest round.
        delay_share: Share of the time in which it was runnable without a processor, likewise.
        order_share: Of the time of all connections, the share that statements waited for order.
        delivered: Share of the requested rate; None at maximum speed.
        lateness: None at maximum speed.
        sessions_mean: Mean number of open connections; None if unknown.
    """

    database: Grounds
    core_share: float | None
    delay_share: float | None
    order_share: float | None
    delivered: Estimate | None
    lateness: Lateness | None
    sessions_mean: float | None = None

    @property
    def is_remote(self) -> bool:
        """Whether nothing is known about the server's machine."""
        seen = ("server_cpu_cores", "cpu_idle_share", "device_busy_share")
        return all(name not in self.database.columns for name in seen)


def replay_bottleneck(grounds: ReplayGrounds) -> Bottleneck:
    """Return the bottleneck by the first rule that applies, in the order of docs/method.md."""
    database = time_verdict(grounds.database)
    for rule in (_nothing, _of_pace, _of_server, _of_driver, _of_order, _of_sessions):
        found = rule(grounds, database)
        if found is not None:
            return _reported(grounds, found)
    return _reported(grounds, _of_database(database))


@dataclass(frozen=True)
class _Evidence:
    """A bound, the evidence for it without a full stop, and the rivals to report."""

    bound: str
    ground: str
    likely: str = ""
    rivals: Sequence[Rival] = ()
    next: str = ""


def _nothing(grounds: ReplayGrounds, _database: TimeVerdict) -> _Evidence | None:
    if grounds.database.rate.value > 0:
        return None
    return _Evidence(INCONCLUSIVE, "no statement was answered", next="Check the server's log")


def _of_pace(grounds: ReplayGrounds, _database: TimeVerdict) -> _Evidence | None:
    delivered, late = grounds.delivered, grounds.lateness
    if delivered is None or late is None or not keeps_pace(delivered, late):
        return None
    return _Evidence(
        "pace",
        f"the replay reached {format_share(min(1.0, delivered.value))} of it, and sent "
        f"{format_share(late.within_1ms_share)} of the statements within 1 ms of their scheduled "
        "time; this does not show the bottleneck at higher speeds",
    )


def _of_server(_grounds: ReplayGrounds, database: TimeVerdict) -> _Evidence | None:
    is_of_server = database.bound not in (INCONCLUSIVE, "client")
    return _of_database(database) if is_of_server else None


def _of_driver(grounds: ReplayGrounds, database: TimeVerdict) -> _Evidence | None:
    """Return the driver's thread, if it was saturated or had no processor to run on.

    The rivals decide whether the server's work or other work explains it as well.
    """
    core, delay = grounds.core_share or 0.0, grounds.delay_share or 0.0
    ceiling = grounds.database.ceiling_share or 0.0
    if database.bound != "client" and database.likely != "client":
        return None
    reported = []
    if core > DRIVER_SHARE_MAX:
        reported.append(f"its thread used {format_share(core)} of a core")
    if ceiling > DRIVER_SHARE_MAX:
        reported.append(_of_ceiling(grounds))
    if not reported and core + delay > DRIVER_SHARE_MAX and delay >= DELAYED_SHARE_MIN:
        reported.append(
            f"its thread used {format_share(core)} of a core, and waited for a CPU for "
            f"{format_share(delay)} of the time"
        )
    if not reported:
        return None
    found = _of_database(database)
    ground = f"{' and '.join(reported)}. {'. '.join(rival_texts(database.rivals))}"
    if found.bound == INCONCLUSIVE:
        ground = f", probably the client: {ground}. {_settles(database.next)}"
    return replace(found, ground=ground)


def _of_order(grounds: ReplayGrounds, database: TimeVerdict) -> _Evidence | None:
    share = grounds.order_share or 0.0
    if share < ORDER_SHARE_MIN:
        return None
    ground = (
        f"statements waited {format_share(share)} of the connections' time for statements of "
        "other sessions, to preserve the captured order"
    )
    # The statements waited for may be slow because of the machine, which the order does not show.
    left = [
        rival
        for rival in database.rivals
        if not rival.is_excluded and rival.name in ("others_cpu", "steal", "others_io")
    ]
    if not left:
        return _Evidence("order", ground, rivals=database.rivals)
    reported, settles = rival_texts(left)[0], ". ".join(dict.fromkeys(rival.next for rival in left))
    return _Evidence(
        INCONCLUSIVE,
        f", probably the order: {ground}. {reported}. {_settles(settles)}",
        likely="order",
        rivals=database.rivals,
        next=settles,
    )


def _of_sessions(grounds: ReplayGrounds, database: TimeVerdict) -> _Evidence | None:
    """Return an inconclusive result if both server and driver were idle."""
    time = grounds.database.time
    if "client" not in (database.bound, database.likely) or time is None:
        return None
    active = time.active_mean
    running = "" if active is None else f"; {active:.1f} statements ran concurrently on average"
    return _Evidence(
        INCONCLUSIVE,
        f"the server waited for the next statement {format_share(time.shares.get('client', 0.0))} "
        "of the clients' time while the driver was partly idle: network latency, or too few "
        f"sessions in the capture{running}",
        rivals=database.rivals,
        next="Run the replay on the server's machine, or replay several captures in parallel",
    )


def _settles(step: str) -> str:
    return f"To settle it, {step[:1].lower()}{step[1:]}"


def _of_database(verdict: TimeVerdict) -> _Evidence:
    """Return what bounds the database, as for any load.

    A qualification such as ``probably commit-bound`` stays before the evidence, after a comma.
    """
    opening, _, rest = verdict.sentence.partition(": ")
    aside = opening.partition(", ")[2]
    ground = (rest or opening).rstrip(".")
    return _Evidence(
        verdict.bound,
        f", {aside}: {ground}" if aside else ground,
        verdict.likely,
        verdict.rivals,
        verdict.next,
    )


def _reported(grounds: ReplayGrounds, found: _Evidence) -> Bottleneck:
    who = WHO[found.bound]
    # The rivals are separate sentences after the evidence.
    ground, stop, rest = found.ground.partition(". ")
    parts = [f"{_OPENINGS[who]}{'' if ground.startswith(', ') else ': '}{ground}"]
    if driver := _driver_words(grounds, who):
        parts.append(driver)
    if grounds.is_remote and found.bound != "pace":
        parts.append("CPU and disks of the server's machine were not monitored")
    return Bottleneck(
        who=who,
        bound=found.bound,
        sentence=f"{'; '.join(parts)}{stop}{rest}.",
        evidence=_evidence(grounds),
        likely=found.likely,
        rivals=list(found.rivals),
        next=found.next,
    )


def _driver_words(grounds: ReplayGrounds, who: str) -> str:
    """Return the driver's resource usage if it is not the verdict itself; empty if unknown."""
    if who == "client" or grounds.core_share is None:
        return ""
    reported = f"the driver used {format_share(grounds.core_share)} of a core"
    if (grounds.delay_share or 0.0) >= DELAYED_SHARE_MIN:
        lacked = format_share(grounds.delay_share or 0.0)
        reported += f", waited for a CPU for {lacked} of the time"
    if grounds.database.ceiling_share is None:
        return f"{reported}; its maximum rate was not measured"
    return f"{reported}, and {_of_ceiling(grounds)}"


def _of_ceiling(grounds: ReplayGrounds) -> str:
    share = grounds.database.ceiling_share or 0.0
    ceiling_per_s = grounds.database.ceiling_per_s or 0.0
    return (
        f"the rate reached {format_share(share)} of its maximum ({format_iops(ceiling_per_s)} "
        "statements/s against a null server)"
    )


def _evidence(grounds: ReplayGrounds) -> dict[str, float]:
    late, delivered = grounds.lateness, grounds.delivered
    found: dict[str, float | None] = {
        "client_core_share": grounds.core_share,
        "client_delay_share": grounds.delay_share,
        "order_share": grounds.order_share,
        "sessions_mean": grounds.sessions_mean,
        "delivered_ratio": delivered.value if delivered else None,
        "within_1ms_share": late.within_1ms_share if late else None,
        "lag_p99_ns": float(late.p99_ns) if late else None,
        **time_verdict(grounds.database).evidence,
    }
    return {name: value for name, value in found.items() if value is not None}


def client_shares(samples: Sequence[Sample]) -> tuple[float | None, float | None]:
    """Return the driver thread's CPU share and run-queue wait; each of the largest round."""
    used, lacked = [], []
    for sample, record in replays(samples):
        if sample.duration_s <= 0:
            continue
        client, whole_ns = record.client, sample.duration_s * 1e9
        used.append((client.cpu_user_ns + client.cpu_system_ns) / whole_ns)
        lacked.append(client.run_delay_ns / whole_ns)
    return max(used, default=None), max(lacked, default=None)


def of_driver_thread(
    grounds: Grounds, core_share: float | None, delay_share: float | None
) -> Grounds:
    """Return the grounds with the driver's thread counted as the client.

    A replay's driver runs in Seatrial's process, whose CPU time includes that of the thread.
    """
    columns = dict(grounds.columns)
    seatrial = columns.get("seatrial_cpu_cores")
    if seatrial is not None and core_share is not None:
        driver = min(core_share, seatrial.value)
        rest = seatrial.value - driver
        columns["seatrial_cpu_cores"] = _measured_once(rest, seatrial)
        columns["client_cpu_cores"] = _measured_once(core_share, seatrial)
    return replace(
        grounds,
        columns=columns,
        client_cpu_share=core_share if core_share is not None else grounds.client_cpu_share,
        client_delay_share=delay_share,
    )


def _measured_once(value: float, like: Estimate) -> Estimate:
    return Estimate(value=value, low=None, high=None, rounds=like.rounds, unit=like.unit)


def order_share(samples: Sequence[Sample]) -> float | None:
    """Return the share of all connections' time that statements waited for their order."""
    shares = [
        record.order.waited_ns / (record.sessions.open_max * sample.duration_s * 1e9)
        for sample, record in replays(samples)
        if record.sessions.open_max and sample.duration_s > 0
    ]
    return min(1.0, math.fsum(shares) / len(shares)) if shares else None


def sessions_mean(samples: Sequence[Sample]) -> float | None:
    """Return the mean number of open connections over the time of all rounds."""
    counts = [
        each.sessions
        for sample, record in replays(samples)
        for index, each in enumerate(record.timeline)
        if index * record.timeline_slice_s < sample.duration_s
    ]
    return math.fsum(counts) / len(counts) if counts else None


def analyse_replays(run: Run, cells: Sequence[CellSummary]) -> list[ReplayCell]:
    """Return the analysis of a run's replays, in the order of the plan.

    Args:
        run: The run; its fingerprint describes the machine.
        cells: All cells of the run.
    """
    cpus = usable_cpus(run.fingerprint_before)
    own = [summary for summary in cells if is_of_replay(summary.cell)]
    parts = [replay_cell(summary, grounds_of(summary, cpus)) for summary in own]
    return [part for part in parts if part is not None]


def replay_cell(summary: CellSummary, grounds: Grounds) -> ReplayCell | None:
    """Return the analysis of a replay over all its rounds; None if no round has a record.

    Args:
        summary: Of a replay.
        grounds: The figures for the verdict on any database load, of the same cell.
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
        reported_round=worst[0].round,
    )
