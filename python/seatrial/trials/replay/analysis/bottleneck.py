"""Who was the bottleneck of a replay: client, server CPU, locks, disk, or its own pace.

What bounds the database is decided as for any load (trials/database/analysis/verdict.py). Before
that the rule looks at what only a replay has: a requested pace that was kept, one thread that
drives all sessions, and an order that delays statements.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from seatrial.results.model import Sample
from seatrial.stats.estimate import Estimate
from seatrial.stats.wording import format_iops, format_share
from seatrial.trials.database.analysis.grounds import DRIVER_SHARE_MAX, Grounds
from seatrial.trials.database.analysis.model import Rival, TimeVerdict
from seatrial.trials.database.analysis.verdict import INCONCLUSIVE, rival_texts, time_verdict
from seatrial.trials.replay.analysis.model import Bottleneck, Lateness
from seatrial.trials.replay.analysis.pace import keeps_pace
from seatrial.trials.replay.analysis.samples import replays

ORDER_SHARE_MIN: Final = 0.4
"""Of the time of all connections, what statements waited for their order."""
DELAYED_SHARE_MIN: Final = 0.2
"""Of the time, that in which the driver's thread could have run and had no processor."""

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
"""Who is meant by what a database is bound by."""
_OPENINGS: Final[Mapping[str, str]] = {
    "client": "The client was the bottleneck",
    "server CPU": "The server's CPU was the bottleneck",
    "locks": "Locks were the bottleneck",
    "disk": "The disk was the bottleneck",
    "pace": "The capture's own pace set the rate",
    "order": "The order was the bottleneck",
    INCONCLUSIVE: "The bottleneck is inconclusive",
}


@dataclass(frozen=True)
class ReplayGrounds:
    """What the verdict on a replay looks at.

    Attributes:
        database: What that on any load of a database looks at.
        core_share: Processor time of the driver's thread over the time; the largest round.
        delay_share: Time that it could have run and had no processor, likewise.
        order_share: Of the time of all connections, what statements waited for their order.
        delivered: Of what the speed asked for; None at maximum speed.
        lateness: None at maximum speed.
        sessions_mean: Connections that were open, in the mean; None where it is not known.
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
        """Whether nothing is known of the server's machine."""
        seen = ("server_cpu_cores", "cpu_idle_share", "device_busy_share")
        return all(name not in self.database.columns for name in seen)


def replay_bottleneck(grounds: ReplayGrounds) -> Bottleneck:
    """Return who it was; the first rule that applies, in the order of docs/method.md."""
    database = time_verdict(grounds.database)
    for rule in (_nothing, _of_pace, _of_server, _of_driver, _of_order, _of_sessions):
        found = rule(grounds, database)
        if found is not None:
            return _reported(grounds, found)
    return _reported(grounds, _of_database(database))


@dataclass(frozen=True)
class _Found:
    """A bound, the ground for it without a full stop, and what of the rivals is to be said."""

    bound: str
    ground: str
    likely: str = ""
    rivals: Sequence[Rival] = ()
    next: str = ""


def _nothing(grounds: ReplayGrounds, _database: TimeVerdict) -> _Found | None:
    if grounds.database.rate.value > 0:
        return None
    return _Found(INCONCLUSIVE, "nothing was answered", next="See what the server says in its log")


def _of_pace(grounds: ReplayGrounds, _database: TimeVerdict) -> _Found | None:
    delivered, late = grounds.delivered, grounds.lateness
    if delivered is None or late is None or not keeps_pace(delivered, late):
        return None
    return _Found(
        "pace",
        f"it did {format_share(min(1.0, delivered.value))} of what was asked for, with "
        f"{format_share(late.within_1ms_share)} of the statements sent within 1 ms of their time; "
        "what would bound it beyond is not seen",
    )


def _of_server(_grounds: ReplayGrounds, database: TimeVerdict) -> _Found | None:
    is_of_server = database.bound not in (INCONCLUSIVE, "client")
    return _of_database(database) if is_of_server else None


def _of_driver(grounds: ReplayGrounds, database: TimeVerdict) -> _Found | None:
    """The driver's one thread, where it had no time left, or no processor to run on.

    Whether anything else can be it, the server's work or that of others, is the rivals' to say.
    """
    core, delay = grounds.core_share or 0.0, grounds.delay_share or 0.0
    ceiling = grounds.database.ceiling_share or 0.0
    if database.bound != "client" and database.likely != "client":
        return None
    reported = []
    if core > DRIVER_SHARE_MAX:
        reported.append(f"its one thread used {format_share(core)} of a core")
    if ceiling > DRIVER_SHARE_MAX:
        reported.append(_of_ceiling(grounds))
    if not reported and core + delay > DRIVER_SHARE_MAX and delay >= DELAYED_SHARE_MIN:
        reported.append(
            f"its one thread used {format_share(core)} of a core, and for {format_share(delay)} of "
            "the time it could have run and had no processor"
        )
    if not reported:
        return None
    found = _of_database(database)
    ground = f"{' and '.join(reported)}. {'. '.join(rival_texts(database.rivals))}"
    if found.bound == INCONCLUSIVE:
        ground = f", the client if anything: {ground}. {_settles(database.next)}"
    return replace(found, ground=ground)


def _of_order(grounds: ReplayGrounds, database: TimeVerdict) -> _Found | None:
    share = grounds.order_share or 0.0
    if share < ORDER_SHARE_MIN:
        return None
    ground = (
        f"in {format_share(share)} of the connections' time a statement waited until those of "
        "other sessions had ended, as it was captured"
    )
    # Who is waited for may be slow for a reason of the machine, and the order does not say so.
    left = [
        rival
        for rival in database.rivals
        if not rival.is_excluded and rival.name in ("others_cpu", "steal", "others_io")
    ]
    if not left:
        return _Found("order", ground, rivals=database.rivals)
    reported, settles = rival_texts(left)[0], ". ".join(dict.fromkeys(rival.next for rival in left))
    return _Found(
        INCONCLUSIVE,
        f", the order if anything: {ground}. {reported}. {_settles(settles)}",
        likely="order",
        rivals=database.rivals,
        next=settles,
    )


def _of_sessions(grounds: ReplayGrounds, database: TimeVerdict) -> _Found | None:
    """The server waited for statements, and the driver had time: neither was busy."""
    time = grounds.database.time
    if "client" not in (database.bound, database.likely) or time is None:
        return None
    active = time.active_mean
    running = "" if active is None else f"; {active:.1f} statements ran at once, in the mean"
    return _Found(
        INCONCLUSIVE,
        f"in {format_share(time.shares.get('client', 0.0))} of the clients' time the server waited "
        "for their next statement, while the driver had time: the way between them, or too few "
        f"sessions in the capture{running}",
        rivals=database.rivals,
        next="Play it from the server's own machine, or several captures at once",
    )


def _settles(step: str) -> str:
    return f"What settles it: {step[:1].lower()}{step[1:]}"


def _of_database(verdict: TimeVerdict) -> _Found:
    """Return what bounds the database, as of any load.

    What a verdict says of itself, such as ``commit-bound if anything``, stays before the ground,
    after a comma.
    """
    opening, _, rest = verdict.sentence.partition(": ")
    aside = opening.partition(", ")[2]
    ground = (rest or opening).rstrip(".")
    return _Found(
        verdict.bound,
        f", {aside}: {ground}" if aside else ground,
        verdict.likely,
        verdict.rivals,
        verdict.next,
    )


def _reported(grounds: ReplayGrounds, found: _Found) -> Bottleneck:
    who = WHO[found.bound]
    # What is said of the rivals are sentences of their own behind the ground.
    ground, stop, rest = found.ground.partition(". ")
    parts = [f"{_OPENINGS[who]}{'' if ground.startswith(', ') else ': '}{ground}"]
    if driver := _driver_words(grounds, who):
        parts.append(driver)
    if grounds.is_remote and found.bound != "pace":
        parts.append("of the server's machine, its processors and its disks, nothing was seen")
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
    """Return what the driver used, where it is not the verdict itself; empty if unknown."""
    if who == "client" or grounds.core_share is None:
        return ""
    reported = f"the driver used {format_share(grounds.core_share)} of a core"
    if (grounds.delay_share or 0.0) >= DELAYED_SHARE_MIN:
        lacked = format_share(grounds.delay_share or 0.0)
        reported += f", lacked a processor for {lacked} of the time"
    if grounds.database.ceiling_share is None:
        return f"{reported}, and how much it could do was not measured"
    return f"{reported}, and {_of_ceiling(grounds).removeprefix('it ')}"


def _of_ceiling(grounds: ReplayGrounds) -> str:
    share = grounds.database.ceiling_share or 0.0
    ceiling_per_s = grounds.database.ceiling_per_s or 0.0
    return (
        f"it reached {format_share(share)} of the {format_iops(ceiling_per_s)} statements a second "
        "that it does with a server that answers at once"
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
    """Return what the driver's thread used of a core and lacked; of each the largest round."""
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
    """Return what a verdict looks at, with the driver's thread as the client that it is.

    A replay's driver runs within Seatrial's own process, whose processor time holds the thread's.
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
    """Return how many connections were open, in the mean over the time of all rounds."""
    counts = [
        each.sessions
        for sample, record in replays(samples)
        for place, each in enumerate(record.timeline)
        if place * record.timeline_slice_s < sample.duration_s
    ]
    return math.fsum(counts) / len(counts) if counts else None
