"""What bounds the throughput of a database's cell, and the evidence for it.

The rules and limits are in docs/method.md, "What bounds a database". The clients' wait events show
which bound leads; that alone is not a verdict. It becomes one if measured figures exclude every
rival (rivals.py). Otherwise the verdict is ``inconclusive``, with what would settle it: a wrong
explanation is worse than none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from seatrial.stats.wording import format_estimate, format_iops, format_share
from seatrial.trials.database.analysis.model import Rival, TimeVerdict
from seatrial.trials.database.analysis.readings import (
    DOMINATES_SHARE_MIN,
    GROUPS,
    LEAD_RATIO_MIN,
    ClientTime,
)
from seatrial.trials.database.analysis.rivals import (
    DESCRIPTIONS,
    HOLDERS_WAITS,
    WAITED_SHARE_MAX,
    LoadEvidence,
    driver_limits,
    rivals_of,
)

INCONCLUSIVE: Final = "inconclusive"
OBSERVATIONS_MIN: Final = 20
QUEUE_SHARE_MIN: Final = 0.6
"""Of lock waits plus what the lock holders wait for, if neither dominates alone."""
CHECKPOINT_LOST_SHARE_MIN: Final = 0.25
CHECKPOINT_RUNNING_SHARE_MIN: Final = 0.5
CHECKPOINT_CAUSED_SHARE_MIN: Final = 0.6
"""Of the bytes written, the share caused by checkpoints, if commits wait for them."""
DEVICE_BUSY_SHARE_MIN: Final = 0.85
BUSY_SHARE_MIN: Final = 0.85
"""Of all processors of the machine; above it there is no headroom."""
KEPT_RATE_SHARE_MIN: Final = 0.95
LONGER: Final = "Measure for longer ('--seconds') to get more wait-event samples"

ON_STANDBY: Final = (
    "Repeat with synchronous_commit = local to measure this server's storage alone, and compare "
    "write_lag, flush_lag and replay_lag in pg_stat_replication: they show whether the network, "
    "the standby's storage or (with remote_apply) its replay is slow"
)

_Finding = tuple[str, str] | None
"""A leading bound and the evidence for it."""


def time_verdict(evidence: LoadEvidence) -> TimeVerdict:
    """Return what bounds a cell: the leading bound, if all rivals are excluded."""
    if opening := _schedule_text(evidence):
        return _inconclusive(
            evidence, opening, "Raise the requested rate until it is no longer reached"
        )
    if opening := _too_few_observations(evidence):
        return _inconclusive(evidence, opening, LONGER)
    for rule in (
        _checkpoint_bound,
        _wait_bound,
        _full_processor_bound,
        _cpu_bound,
        _client_bound,
    ):
        found = rule(evidence)
        if found is not None:
            return _verdict_on(evidence, *found)
    return _inconclusive(evidence, _shares_text(evidence), DESCRIPTIONS["other_waits"].next)


def _verdict_on(evidence: LoadEvidence, bound: str, reason: str) -> TimeVerdict:
    """Return the verdict on the leading bound; inconclusive if a rival is not excluded."""
    rivals = rivals_of(evidence, bound)
    open_rivals = [rival for rival in rivals if not rival.is_excluded]
    opening = f"{OPENINGS[bound]}: {reason}"
    steps = [rival.next for rival in open_rivals]
    if open_rivals:
        steps = [ON_STANDBY, *steps] if bound == "standby" else steps
        opening = f"Inconclusive, probably {OPENINGS[bound].lower()}: {reason}"
        opening = opening.replace("cpu-bound", "CPU-bound")
    return _verdict(
        evidence,
        opening,
        bound=INCONCLUSIVE if open_rivals else bound,
        likely=bound if open_rivals else "",
        rivals=rivals,
        next_step=". ".join(dict.fromkeys(steps)),
    )


def _inconclusive(evidence: LoadEvidence, opening: str, next_step: str) -> TimeVerdict:
    """Return an inconclusive verdict without a leading bound."""
    return _verdict(
        evidence, opening, bound=INCONCLUSIVE, likely="", rivals=[], next_step=next_step
    )


OPENINGS: Final[Mapping[str, str]] = {
    "commit": "Commit-bound",
    "read": "Read-bound",
    "lock": "Lock-bound",
    "standby": "Standby-bound",
    "checkpoint": "Checkpoint-bound",
    "cpu": "CPU-bound",
    "client": "Client-bound",
}


def _verdict(
    evidence: LoadEvidence,
    opening: str,
    *,
    bound: str,
    likely: str,
    rivals: Sequence[Rival],
    next_step: str,
) -> TimeVerdict:
    more = [part for part in (_machine_text(evidence), _device_text(evidence)) if part]
    sentences = ["; ".join([opening, *more])]
    if evidence.cut_s > 0 and evidence.time is not None:
        sentences.append(
            "Wait events cover whole samples, including up to "
            f"{evidence.cut_s:.1f} s of start-up phase"
        )
    sentences += rival_texts(rivals)
    if bound == INCONCLUSIVE and likely:
        sentences.append(f"To settle it, {next_step[:1].lower()}{next_step[1:]}")
    figures = {rival.figure: rival.value for rival in rivals if rival.value is not None}
    return TimeVerdict(
        bound=bound,
        sentence=f"{'. '.join(sentences)}.",
        evidence=evidence.figures() | figures,
        likely=likely,
        rivals=list(rivals),
        next=next_step,
    )


def rival_texts(rivals: Sequence[Rival]) -> list[str]:
    """Return the rivals that are not excluded and those that are, as sentences without stops."""
    texts = []
    for heading, is_excluded in (("Not excluded", False), ("Excluded", True)):
        sentences = [rival.sentence for rival in rivals if rival.is_excluded == is_excluded]
        if sentences:
            texts.append(f"{heading}: {', '.join(sentences)}")
    return texts


def _schedule_text(evidence: LoadEvidence) -> str:
    """Return that the schedule sets the rate, if the server keeps up with it."""
    requested_per_s = evidence.requested_per_s
    if not requested_per_s or evidence.rate.value < KEPT_RATE_SHARE_MIN * requested_per_s:
        return ""
    return (
        f"The schedule sets the rate: {format_iops(requested_per_s)} transactions/s were "
        f"requested, and {format_estimate(evidence.rate)} completed; this does not show the "
        "bottleneck at "
        "higher rates"
    )


def _too_few_observations(evidence: LoadEvidence) -> str:
    """Return that there are too few wait-event samples, and whether the driver is at its limit."""
    if evidence.time is not None and evidence.time.observations >= OBSERVATIONS_MIN:
        return ""
    observed = (
        "no wait events were sampled"
        if evidence.time is None
        else f"wait events were sampled only {evidence.time.observations:.0f} times"
    )
    driver = _driver_text(evidence)
    return f"Inconclusive: {observed}{f', and {driver}' if driver else ''}"


def _checkpoint_bound(evidence: LoadEvidence) -> _Finding:
    effect, time = evidence.checkpoints, evidence.time
    lost = effect is not None and effect.ratio_high < 1
    if effect is not None and lost and effect.lost_share >= CHECKPOINT_LOST_SHARE_MIN:
        return "checkpoint", (
            f"checkpoints reduced the rate by {format_share(effect.lost_share)}; during them it "
            f"was {format_estimate(effect.rate_ratio)} of the rate between them"
        )
    running = evidence.checkpoint_share or 0.0
    if time is None or running < CHECKPOINT_RUNNING_SHARE_MIN:
        return None
    if time.dominates("write"):
        return "checkpoint", (
            f"{_share_of_time(time, 'write')} was spent waiting for writes of data files and new "
            f"WAL segments ({time.events_text('write')}), and a checkpoint ran "
            f"{format_share(running)} of the time"
        )
    return _checkpoint_bound_by_bytes(evidence, time, running)


def _checkpoint_bound_by_bytes(
    evidence: LoadEvidence, time: ClientTime, running: float
) -> _Finding:
    """Return checkpoints if clients wait for writes that are mostly caused by checkpoints.

    Commits wait behind a checkpoint's writes. A running checkpoint alone does not show that: most
    waits must be for data files, or the device must be saturated.
    """
    caused, busy = evidence.checkpoint_bytes_share, evidence.column("device_busy_share") or 0.0
    if caused is None or caused < CHECKPOINT_CAUSED_SHARE_MIN or not evidence.checkpoints_count:
        return None
    writes, commits = (time.shares.get(name, 0.0) for name in ("write", "commit"))
    waits_for_files = writes >= DOMINATES_SHARE_MIN and time.is_confidently_above("write", commits)
    if not waits_for_files and busy < DEVICE_BUSY_SHARE_MIN:
        return None
    _, next_share = time.leading(set(GROUPS) - {"commit", "write", "lock"})
    if writes + commits < LEAD_RATIO_MIN * next_share:
        return None
    return "checkpoint", (
        f"{format_share(writes + commits)} of the clients' time was spent waiting for writes of "
        f"data files and WAL ({time.events_text('write')}), a checkpoint ran "
        f"{format_share(running)} of the time, and checkpoint writes and full-page images were at "
        f"most {format_share(caused)} of the bytes written"
    )


def _wait_bound(evidence: LoadEvidence) -> _Finding:
    time = evidence.time
    if time is None:
        return None
    bound = next((name for name in _WAITING if time.dominates(name)), None)
    if bound is None:
        return _lock_holder_bound(time)
    reason = f"{_share_of_time(time, bound)} {_WAITING[bound]} ({time.events_text(bound)})"
    return bound, reason + (_holders(time) if bound == "lock" else "")


_WAITING: Final[Mapping[str, str]] = {
    "commit": "was spent waiting for WAL writes and syncs",
    "read": "was spent waiting for block reads",
    "lock": "was spent waiting for locks",
    "standby": "was spent waiting for a synchronous standby to confirm commits",
}


def _lock_holder_bound(time: ClientTime) -> _Finding:
    """Return what the lock holders wait for, while many others wait for their locks.

    Faster commits shorten the queue for rows that are locked by a committing transaction.
    """
    lock_share = time.shares.get("lock", 0.0)
    bound, share = time.leading(HOLDERS_WAITS)
    _, next_share = time.leading(name for name in GROUPS if name not in ("lock", bound))
    leads = share >= LEAD_RATIO_MIN * next_share and time.is_confidently_above(bound, next_share)
    if not leads or lock_share + share < QUEUE_SHARE_MIN:
        return None
    return bound, (
        f"{_share_of_time(time, bound)} {_WAITING[bound]} ({time.events_text(bound)}), and "
        f"{format_share(lock_share)} waiting for locks held meanwhile "
        f"({time.events_text('lock')})"
    )


def _holders(time: ClientTime) -> str:
    """Return what the lock holders did meanwhile; empty if that is unknown."""
    group, share = time.leading(name for name in GROUPS if name != "lock")
    doing = {
        "commit": "waited to commit",
        "read": "waited for reads",
        "write": "waited for writes",
        "standby": "waited for the synchronous standby",
        "cpu": "used CPU",
        "client": "waited for the client's next statement",
    }
    if share <= 0 or group not in doing:
        return ""
    return f", and the lock holders mostly {doing[group]}"


def _driver_text(evidence: LoadEvidence) -> str:
    """Return how close the driver is to its limit; empty if it is not close."""
    ceiling_per_s = f"{format_iops(evidence.ceiling_per_s or 0.0)} transactions/s"
    return driver_limits(
        evidence.client_cpu_share or 0.0, evidence.ceiling_share or 0.0, ceiling_per_s
    )


def _full_processor_bound(evidence: LoadEvidence) -> _Finding:
    """Return server or driver, whichever uses more CPU, if the processors have no headroom."""
    busy = evidence.busy_share
    if busy is None or busy < BUSY_SHARE_MIN or evidence.waited_share > WAITED_SHARE_MAX:
        return None
    server, client = (evidence.column(f"{who}_cpu_cores") for who in ("server", "client"))
    reason = f"the processors were {format_share(busy)} busy"
    if server is None or client is None or server >= client:
        return "cpu", reason
    driver = _driver_text(evidence)
    return "client", (
        f"{reason}; the driver used {_cores(client)} cores and the server "
        f"{_cores(server)}{f'; {driver}' if driver else ''}"
    )


def _cpu_bound(evidence: LoadEvidence) -> _Finding:
    """Return the CPU if connections spend their time without a wait.

    Each connection uses one processor at a time: a few may be CPU-bound on an idle machine.
    """
    time = evidence.time
    if time is None or not time.dominates("cpu"):
        return None
    reason = f"{_share_of_time(time, 'cpu')} was spent without a wait event"
    on_processor = evidence.on_processor_share
    if on_processor is None:
        return "cpu", reason
    return "cpu", (
        f"{reason}, {format_share(on_processor)} of it on a CPU; each connection can use one CPU "
        "at a time"
    )


def _client_bound(evidence: LoadEvidence) -> _Finding:
    """Return the client if the server waits for statements, or the driver is near its limit."""
    time, driver = evidence.time, _driver_text(evidence)
    waits = time is not None and time.dominates("client")
    if time is None or not (waits or driver):
        return None
    reason = f"the server waited for the next statement {_share_of_time(time, 'client')}"
    return "client", f"{reason}{f', and {driver}' if driver else ' (network or driver)'}"


def _share_of_time(time: ClientTime, group: str) -> str:
    return f"{format_share(time.shares.get(group, 0.0))} of the clients' time"


def _shares_text(evidence: LoadEvidence) -> str:
    shares = sorted(((evidence.share(group), group) for group in GROUPS), key=lambda pair: -pair[0])
    time, (_, leading) = evidence.time, shares[0]
    opening = "Inconclusive because nothing dominates the clients' time"
    if time and leading in ("write", "other") and time.dominates(leading):
        events = time.events_text(leading)
        opening = (
            f"Inconclusive because it is not known what is behind most of the waits ({events})"
        )
    parts = [f"{format_share(share)} {_GROUP_NAMES[group]}" for share, group in shares[:3] if share]
    others = evidence.others_cpu_share or 0.0
    alongside = f"; other work used {format_share(others)} of the CPU" if others > 0.1 else ""
    return f"{opening}: {', '.join(parts)}{alongside}"


_GROUP_NAMES: Final = {
    "commit": "commits",
    "read": "reads",
    "write": "writes of data files",
    "lock": "locks",
    "standby": "waits for a standby",
    "cpu": "without a wait event",
    "client": "waits for the client",
    "other": "other waits",
}


def _machine_text(evidence: LoadEvidence) -> str:
    """Return how many cores the server used, and the steal time."""
    cores, steal = evidence.column("server_cpu_cores"), evidence.column("cpu_steal_share")
    parts = []
    if cores is not None:
        among = f" of {evidence.cpus:g} cores" if evidence.cpus else " cores"
        parts.append(f"the server used {_cores(cores)}{among}")
    elif evidence.busy_share is not None:
        parts.append(f"the processors were {format_share(evidence.busy_share)} busy")
    if steal is not None and steal > 0.1:
        parts.append(f"steal time was {format_share(steal)}")
    return " and ".join(parts)


def _cores(value: float) -> str:
    return f"{value:.2f}" if value < 1 else f"{value:.1f}"


def _device_text(evidence: LoadEvidence) -> str:
    """Return how busy the device was, and its rates of reads, writes and flushes."""
    busy = evidence.column("device_busy_share")
    if busy is None:
        return ""
    parts = [f"the device was {format_share(min(1.0, busy))} busy"]
    for name, words in (
        ("device_read_per_s", "reads"),
        ("device_write_per_s", "writes"),
        ("device_flush_per_s", "flushes"),
    ):
        value = evidence.column(name)
        if value is not None and value >= 1:
            parts.append(f"{format_iops(value)} {words}")
    return parts[0] if len(parts) == 1 else f"{parts[0]} with {', '.join(parts[1:])} per second"
