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
from seatrial.stats.cell_estimates import counted
from seatrial.stats.estimate import Estimate
from seatrial.stats.model import CellSummary
from seatrial.stats.wording import format_iops, format_share
from seatrial.trials.database.analysis.cells import load_evidence
from seatrial.trials.database.analysis.model import Rival, TimeVerdict, ceiling_share
from seatrial.trials.database.analysis.rivals import DRIVER_SHARE_MAX, LoadEvidence
from seatrial.trials.database.analysis.verdict import INCONCLUSIVE, rival_texts, time_verdict
from seatrial.trials.replay.analysis.model import (
    Bottleneck,
    Lateness,
    ReplayCell,
    is_replay,
    replays,
    speed_of,
    worst_round,
)
from seatrial.trials.replay.analysis.pace import (
    answered_per_s,
    captured_per_s,
    delivered,
    has_think_times,
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
    "standby": "standby",
    "client": "client",
    "pace": "pace",
    "order": "order",
    INCONCLUSIVE: INCONCLUSIVE,
}
"""Bottleneck of a replay by the bound of the database."""
_OPENINGS: Final[Mapping[str, str]] = {
    "client": "The client was the bottleneck",
    "server CPU": "The server's CPU was the bottleneck",
    "locks": "Locks were the bottleneck",
    "disk": "The disk was the bottleneck",
    "standby": "The synchronous standby was the bottleneck",
    "pace": "The requested speed set the rate",
    "order": "The statement order was the bottleneck",
    INCONCLUSIVE: "The bottleneck is inconclusive",
}


@dataclass(frozen=True)
class ReplayEvidence:
    """The figures that the verdict on a replay is based on.

    Attributes:
        database: The figures for the verdict on any database load.
        core_share: CPU time of the driver's busiest thread over the time, in the round in which it
            had the least time to spare.
        delay_share: Share of the time in which it was runnable without a processor, likewise.
        order_share: Share of the time of all connections in which statements waited for the order.
        delivered: Share of the requested rate; None at maximum speed.
        lateness: None at maximum speed.
        sessions_mean: Mean number of open connections; None if unknown.
        thinks: Whether sessions waited for the captured think times.
    """

    database: LoadEvidence
    core_share: float | None
    delay_share: float | None
    order_share: float | None
    delivered: Estimate | None
    lateness: Lateness | None
    sessions_mean: float | None = None
    thinks: bool = False

    @property
    def is_remote(self) -> bool:
        """Whether nothing is known about the server's machine."""
        seen = ("server_cpu_cores", "cpu_idle_share", "device_busy_share")
        return all(name not in self.database.columns for name in seen)


def replay_bottleneck(evidence: ReplayEvidence) -> Bottleneck:
    """Return the bottleneck by the first rule that applies, in the order of docs/method.md."""
    database = time_verdict(evidence.database)
    for rule in _RULES:
        diagnosis = rule(evidence, database)
        if diagnosis is not None:
            return _bottleneck(evidence, diagnosis)
    return _bottleneck(evidence, _from_time_verdict(database))


@dataclass(frozen=True)
class _Diagnosis:
    """A bound, the reason for it without a full stop, and the rival explanations to report."""

    bound: str
    reason: str
    likely: str = ""
    rivals: Sequence[Rival] = ()
    next: str = ""


def _no_answers(evidence: ReplayEvidence, _database: TimeVerdict) -> _Diagnosis | None:
    if evidence.database.rate.value > 0:
        return None
    return _Diagnosis(INCONCLUSIVE, "no statement was answered", next="Check the server's log")


def _limited_by_pace(evidence: ReplayEvidence, _database: TimeVerdict) -> _Diagnosis | None:
    delivered, late = evidence.delivered, evidence.lateness
    if delivered is None or late is None or not keeps_pace(delivered, late):
        return None
    return _Diagnosis(
        "pace",
        f"the replay reached {format_share(min(1.0, delivered.value))} of it, and sent "
        f"{format_share(late.within_1ms_share)} of the statements within 1 ms of their scheduled "
        "time; this does not show the bottleneck at higher speeds",
    )


def _limited_by_server(_grounds: ReplayEvidence, database: TimeVerdict) -> _Diagnosis | None:
    is_of_server = database.bound not in (INCONCLUSIVE, "client")
    return _from_time_verdict(database) if is_of_server else None


def _limited_by_driver(evidence: ReplayEvidence, database: TimeVerdict) -> _Diagnosis | None:
    """Return the driver's thread, if it was saturated or had no processor to run on.

    The rival explanations decide whether the server's or other work explains it as well.
    """
    core, delay = evidence.core_share or 0.0, evidence.delay_share or 0.0
    ceiling = evidence.database.ceiling_share or 0.0
    if database.bound != "client" and database.likely != "client":
        return None
    reasons = []
    if core > DRIVER_SHARE_MAX:
        reasons.append(f"its thread used {format_share(core)} of a core")
    if ceiling > DRIVER_SHARE_MAX:
        reasons.append(_ceiling_text(evidence))
    if not reasons and core + delay > DRIVER_SHARE_MAX and delay >= DELAYED_SHARE_MIN:
        reasons.append(
            f"its thread used {format_share(core)} of a core, and waited for a CPU for "
            f"{format_share(delay)} of the time"
        )
    if not reasons:
        return None
    diagnosis = _from_time_verdict(database)
    reason = f"{' and '.join(reasons)}. {'. '.join(rival_texts(database.rivals))}"
    if diagnosis.bound == INCONCLUSIVE:
        reason = f", probably the client: {reason}. {_next_step_text(database.next)}"
    return replace(diagnosis, reason=reason)


def _limited_by_order(evidence: ReplayEvidence, database: TimeVerdict) -> _Diagnosis | None:
    share = evidence.order_share or 0.0
    if share < ORDER_SHARE_MIN:
        return None
    reason = (
        f"statements waited {format_share(share)} of the connections' time for statements of "
        "other sessions, to preserve the captured order"
    )
    # The statements waited for may be slow because of the machine, which the order does not show.
    open_rivals = [
        rival
        for rival in database.rivals
        if not rival.is_excluded and rival.name in ("others_cpu", "steal", "others_io")
    ]
    if not open_rivals:
        return _Diagnosis("order", reason, rivals=database.rivals)
    next_step = ". ".join(dict.fromkeys(rival.next for rival in open_rivals))
    return _Diagnosis(
        INCONCLUSIVE,
        f", probably the order: {reason}. {rival_texts(open_rivals)[0]}. "
        f"{_next_step_text(next_step)}",
        likely="order",
        rivals=database.rivals,
        next=next_step,
    )


def _limited_by_sessions(evidence: ReplayEvidence, database: TimeVerdict) -> _Diagnosis | None:
    """Return an inconclusive result if both server and driver were idle."""
    time = evidence.database.time
    if "client" not in (database.bound, database.likely) or time is None:
        return None
    active = time.active_mean
    running = "" if active is None else f"; {active:.1f} statements ran concurrently on average"
    cause = "the sessions' think times, network latency" if evidence.thinks else "network latency"
    return _Diagnosis(
        INCONCLUSIVE,
        f"the server waited for the next statement {format_share(time.shares.get('client', 0.0))} "
        f"of the clients' time while the driver was partly idle: {cause}, or too few sessions in "
        f"the capture{running}",
        rivals=database.rivals,
        next="Raise --speed, or use --pace arrivals"
        if evidence.thinks
        else "Run the replay on the server's machine, or replay several captures in parallel",
    )


def _next_step_text(step: str) -> str:
    return f"To settle it, {step[:1].lower()}{step[1:]}"


def _from_time_verdict(verdict: TimeVerdict) -> _Diagnosis:
    """Return the diagnosis from the verdict on any database load.

    A qualification such as ``probably commit-bound`` stays before the evidence, after a comma.
    """
    opening, _, rest = verdict.sentence.partition(": ")
    aside = opening.partition(", ")[2]
    reason = (rest or opening).rstrip(".")
    return _Diagnosis(
        verdict.bound,
        f", {aside}: {reason}" if aside else reason,
        verdict.likely,
        verdict.rivals,
        verdict.next,
    )


def _bottleneck(evidence: ReplayEvidence, diagnosis: _Diagnosis) -> Bottleneck:
    who = WHO[diagnosis.bound]
    # The rivals are separate sentences after the evidence.
    reason, stop, rest = diagnosis.reason.partition(". ")
    parts = [f"{_OPENINGS[who]}{'' if reason.startswith(', ') else ': '}{reason}"]
    if driver := _driver_text(evidence, who):
        parts.append(driver)
    if evidence.is_remote and diagnosis.bound != "pace":
        parts.append("CPU and disks of the server's machine were not monitored")
    return Bottleneck(
        who=who,
        bound=diagnosis.bound,
        sentence=f"{'; '.join(parts)}{stop}{rest}.",
        evidence=_figures(evidence),
        likely=diagnosis.likely,
        rivals=list(diagnosis.rivals),
        next=diagnosis.next,
    )


def _driver_text(evidence: ReplayEvidence, who: str) -> str:
    """Return the driver's resource usage if it is not the verdict itself; empty if unknown."""
    if who == "client" or evidence.core_share is None:
        return ""
    text = f"the driver used {format_share(evidence.core_share)} of a core"
    if (evidence.delay_share or 0.0) >= DELAYED_SHARE_MIN:
        delayed = format_share(evidence.delay_share or 0.0)
        text += f", waited for a CPU for {delayed} of the time"
    if evidence.database.ceiling_share is None:
        return f"{text}; its maximum rate was not measured"
    return f"{text}, and {_ceiling_text(evidence)}"


def _ceiling_text(evidence: ReplayEvidence) -> str:
    share = evidence.database.ceiling_share or 0.0
    ceiling_per_s = evidence.database.ceiling_per_s or 0.0
    return (
        f"the rate reached {format_share(share)} of its maximum ({format_iops(ceiling_per_s)} "
        "statements/s against a null server)"
    )


def _figures(evidence: ReplayEvidence) -> dict[str, float]:
    late, delivered = evidence.lateness, evidence.delivered
    found: dict[str, float | None] = {
        "client_core_share": evidence.core_share,
        "client_delay_share": evidence.delay_share,
        "order_share": evidence.order_share,
        "sessions_mean": evidence.sessions_mean,
        "delivered_ratio": delivered.value if delivered else None,
        "within_1ms_share": late.within_1ms_share if late else None,
        "lag_p99_ns": float(late.p99_ns) if late else None,
        **time_verdict(evidence.database).evidence,
    }
    return {name: value for name, value in found.items() if value is not None}


_RULES: Final = (
    *(_no_answers, _limited_by_pace, _limited_by_server),
    *(_limited_by_driver, _limited_by_order, _limited_by_sessions),
)
"""They are tried in this order."""


def client_shares(samples: Sequence[Sample]) -> tuple[float | None, float | None]:
    """Return CPU share and run-queue wait of the driver's busiest thread.

    Both are of one round, the one in which that thread had the least time to spare.
    """
    shares = []
    for sample, record in replays(samples):
        if sample.duration_s > 0:
            client, whole_ns = record.client, sample.duration_s * 1e9
            shares.append((client.loop_cpu_ns / whole_ns, client.run_delay_ns / whole_ns))
            # The reader's run-queue wait is not known.
            shares.append((client.reader_cpu_ns / whole_ns, 0.0))
    if not shares:
        return None, None
    return max(shares, key=lambda share: (share[0] > DRIVER_SHARE_MAX, sum(share)))


def client_cores(samples: Sequence[Sample]) -> float | None:
    """Return the cores that all threads of the driver used; the largest round."""
    cores = [
        record.client.cpu_ns / (sample.duration_s * 1e9)
        for sample, record in replays(samples)
        if sample.duration_s > 0
    ]
    return max(cores, default=None)


def of_driver_thread(
    evidence: LoadEvidence,
    core_share: float | None,
    delay_share: float | None,
    cores: float | None,
) -> LoadEvidence:
    """Return the evidence with the driver's threads counted as the client.

    A replay's driver runs in Seatrial's process, whose CPU time includes that of its threads.
    """
    columns = dict(evidence.columns)
    seatrial = columns.get("seatrial_cpu_cores")
    if seatrial is not None and cores is not None:
        rest = max(0.0, seatrial.value - cores)
        columns["seatrial_cpu_cores"] = _measured_once(rest, seatrial)
        columns["client_cpu_cores"] = _measured_once(cores, seatrial)
    return replace(
        evidence,
        columns=columns,
        client_cpu_share=core_share if core_share is not None else evidence.client_cpu_share,
        client_delay_share=delay_share,
    )


def _measured_once(value: float, like: Estimate) -> Estimate:
    return Estimate(value=value, low=None, high=None, rounds=like.rounds, unit=like.unit)


def order_share(samples: Sequence[Sample]) -> float | None:
    """Return the share of all connections' time that statements waited for their order."""
    shares = []
    for sample, record in replays(samples):
        # A slice has the number at its end: of a replay of one slice, this may be 0.
        connections = sessions_mean([sample]) or record.sessions.open_max
        if connections and sample.duration_s > 0:
            shares.append(record.order.waited_ns / (connections * sample.duration_s * 1e9))
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
    own = [summary for summary in cells if is_replay(summary.cell)]
    parts = [replay_cell(summary, load_evidence(summary, cpus)) for summary in own]
    return [part for part in parts if part is not None]


def replay_cell(summary: CellSummary, evidence: LoadEvidence) -> ReplayCell | None:
    """Return the analysis of a replay over all its rounds; None if no round has a record.

    Args:
        summary: Summary of a replay.
        evidence: The figures for the verdict on any database load, of the same cell.
    """
    samples = counted(summary.samples)
    worst = worst_round(samples)
    if worst is None:
        return None
    speed = speed_of(summary.cell)
    core_share, delay_share = client_shares(samples)
    evidence = of_driver_thread(evidence, core_share, delay_share, client_cores(samples))
    replay_evidence = ReplayEvidence(
        database=evidence,
        core_share=core_share,
        delay_share=delay_share,
        order_share=order_share(samples),
        delivered=delivered(samples, speed),
        lateness=lateness(samples),
        sessions_mean=sessions_mean(samples),
        thinks=speed is not None and has_think_times(summary.cell),
    )
    return ReplayCell(
        cell=summary.cell,
        speed=speed,
        bottleneck=replay_bottleneck(replay_evidence),
        answered_per_s=answered_per_s(samples),
        captured_per_s=captured_per_s(samples),
        ratio=ratio_to_capture(samples),
        delivered=replay_evidence.delivered,
        lateness=replay_evidence.lateness,
        client_core_share=core_share,
        client_delay_share=delay_share,
        ceiling_per_s=evidence.ceiling_per_s,
        ceiling_share=ceiling_share(evidence.rate.value, evidence.ceiling_per_s),
        order_share=replay_evidence.order_share,
        reported_round=worst[0].round,
    )
