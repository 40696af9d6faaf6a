"""What bounds the throughput of a database's cell, and the evidence for it.

The rules and limits are in docs/method.md, "What bounds a database". The clients' wait events show
which bound leads; that alone is no verdict. It becomes one if measured figures exclude every rival
(rivals.py). Otherwise the verdict is ``inconclusive``, with what would settle it: a wrong
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
    DRIVER_SHARE_MAX,
    WAITED_SHARE_MAX,
    Grounds,
    rivals_of,
)

INCONCLUSIVE: Final = "inconclusive"
LOOKS_MIN: Final = 20
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
VARY: Final = (
    "Vary clients and memory ('--clients', '--memory-limit'): the factor that changes the rate is "
    "the bottleneck"
)

_Evidence = tuple[str, str] | None
"""A leading bound and the evidence for it."""


def time_verdict(grounds: Grounds) -> TimeVerdict:
    """Return what bounds a cell: the leading bound, if all rivals are excluded."""
    if reported := _of_schedule(grounds):
        return _open(grounds, reported, "Raise the requested rate until it is no longer reached")
    if reported := _unseen(grounds):
        return _open(grounds, reported, LONGER)
    for rule in (
        _of_checkpoints,
        _of_waits,
        _of_full_processors,
        _of_time_without_waits,
        _of_client,
    ):
        found = rule(grounds)
        if found is not None:
            return _judged(grounds, *found)
    return _open(grounds, _nothing_dominates(grounds), VARY)


def _judged(grounds: Grounds, bound: str, ground: str) -> TimeVerdict:
    """Return the verdict on the leading bound; inconclusive if a rival is not excluded."""
    rivals = rivals_of(grounds, bound)
    left = [rival for rival in rivals if not rival.is_excluded]
    opening = f"{OPENINGS[bound]}: {ground}"
    if left:
        opening = f"Inconclusive, probably {OPENINGS[bound].lower()}: {ground}"
        opening = opening.replace("cpu-bound", "CPU-bound")
    return _reported(
        grounds,
        opening,
        bound=INCONCLUSIVE if left else bound,
        likely=bound if left else "",
        rivals=rivals,
        next_step=". ".join(dict.fromkeys(rival.next for rival in left)),
    )


def _open(grounds: Grounds, opening: str, next_step: str) -> TimeVerdict:
    """Return an inconclusive verdict without a leading bound."""
    return _reported(
        grounds, opening, bound=INCONCLUSIVE, likely="", rivals=[], next_step=next_step
    )


OPENINGS: Final[Mapping[str, str]] = {
    "commit": "Commit-bound",
    "read": "Read-bound",
    "lock": "Lock-bound",
    "checkpoint": "Checkpoint-bound",
    "cpu": "CPU-bound",
    "client": "Client-bound",
}


def _reported(
    grounds: Grounds,
    opening: str,
    *,
    bound: str,
    likely: str,
    rivals: Sequence[Rival],
    next_step: str,
) -> TimeVerdict:
    more = [part for part in (_of_machine(grounds), _of_device(grounds)) if part]
    sentences = ["; ".join([opening, *more])]
    if grounds.cut_s > 0 and grounds.time is not None:
        sentences.append(
            "Wait events cover whole samples, including up to "
            f"{grounds.cut_s:.1f} s of start-up phase"
        )
    sentences += rival_texts(rivals)
    if bound == INCONCLUSIVE and likely:
        sentences.append(f"To settle it, {next_step[:1].lower()}{next_step[1:]}")
    figures = {rival.figure: rival.value for rival in rivals if rival.value is not None}
    return TimeVerdict(
        bound=bound,
        sentence=f"{'. '.join(sentences)}.",
        evidence=grounds.evidence() | figures,
        likely=likely,
        rivals=list(rivals),
        next=next_step,
    )


def rival_texts(rivals: Sequence[Rival]) -> list[str]:
    """Return the rivals that are not excluded and those that are, as sentences without stops."""
    found = []
    for words, is_excluded in (("Not excluded", False), ("Excluded", True)):
        reported = [rival.sentence for rival in rivals if rival.is_excluded == is_excluded]
        if reported:
            found.append(f"{words}: {', '.join(reported)}")
    return found


def _of_schedule(grounds: Grounds) -> str:
    """Return that the schedule sets the rate, if the server keeps up with it."""
    requested_per_s = grounds.requested_per_s
    if not requested_per_s or grounds.rate.value < KEPT_RATE_SHARE_MIN * requested_per_s:
        return ""
    return (
        f"The schedule sets the rate: {format_iops(requested_per_s)} transactions/s were "
        f"requested, and {format_estimate(grounds.rate)} completed; this does not show the "
        "bottleneck at "
        "higher rates"
    )


def _unseen(grounds: Grounds) -> str:
    """Return that there are too few wait-event samples, and whether the driver is at its limit."""
    if grounds.time is not None and grounds.time.looks >= LOOKS_MIN:
        return ""
    seen = (
        "no wait events were sampled"
        if grounds.time is None
        else f"wait events were sampled only {grounds.time.looks:.0f} times"
    )
    driver = _driver_words(grounds)
    return f"Inconclusive: {seen}{f', and {driver}' if driver else ''}"


def _of_checkpoints(grounds: Grounds) -> _Evidence:
    effect, time = grounds.checkpoints, grounds.time
    lost = effect is not None and effect.is_confidently_below < 1
    if effect is not None and lost and effect.lost_share >= CHECKPOINT_LOST_SHARE_MIN:
        return "checkpoint", (
            f"checkpoints reduced the rate by {format_share(effect.lost_share)}; during them it "
            f"was {format_estimate(effect.rate_ratio)} of the rate between them"
        )
    running = grounds.checkpoint_share or 0.0
    if time is None or running < CHECKPOINT_RUNNING_SHARE_MIN:
        return None
    if time.dominates("write"):
        return "checkpoint", (
            f"{_of_time(time, 'write')} was spent waiting for writes of data files and new WAL "
            f"segments ({time.events_words('write')}), and a checkpoint ran "
            f"{format_share(running)} of the time"
        )
    return _of_checkpoint_bytes(grounds, time, running)


def _of_checkpoint_bytes(grounds: Grounds, time: ClientTime, running: float) -> _Evidence:
    """Return checkpoints if clients wait for writes that are mostly caused by checkpoints.

    Commits wait behind a checkpoint's writes. A running checkpoint alone does not show that: most
    waits must be for data files, or the device must be saturated.
    """
    caused, busy = grounds.checkpoint_bytes_share, grounds.column("device_busy_share") or 0.0
    if caused is None or caused < CHECKPOINT_CAUSED_SHARE_MIN or not grounds.checkpoints_count:
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
        f"data files and WAL ({time.events_words('write')}), a checkpoint ran "
        f"{format_share(running)} of the time, and checkpoint writes and full-page images were at "
        f"most {format_share(caused)} of the bytes written"
    )


def _of_waits(grounds: Grounds) -> _Evidence:
    time = grounds.time
    if time is None:
        return None
    bound = next((name for name in _WAITING if time.dominates(name)), None)
    if bound is None:
        return _of_queue(time)
    ground = f"{_of_time(time, bound)} {_WAITING[bound]} ({time.events_words(bound)})"
    return bound, ground + (_holders(time) if bound == "lock" else "")


_WAITING: Final[Mapping[str, str]] = {
    "commit": "was spent waiting for WAL writes and syncs",
    "read": "was spent waiting for block reads",
    "lock": "was spent waiting for locks",
}


def _of_queue(time: ClientTime) -> _Evidence:
    """Return what the lock holders wait for, while many others wait for their locks.

    Faster commits shorten the queue for rows that are locked by a committing transaction.
    """
    lock_share = time.shares.get("lock", 0.0)
    bound, share = time.leading(("commit", "read"))
    _, next_share = time.leading(name for name in GROUPS if name not in ("lock", bound))
    leads = share >= LEAD_RATIO_MIN * next_share and time.is_confidently_above(bound, next_share)
    if not leads or lock_share + share < QUEUE_SHARE_MIN:
        return None
    return bound, (
        f"{_of_time(time, bound)} {_WAITING[bound]} ({time.events_words(bound)}), and "
        f"{format_share(lock_share)} waiting for locks held meanwhile "
        f"({time.events_words('lock')})"
    )


def _holders(time: ClientTime) -> str:
    """Return what the lock holders did meanwhile; empty if that is unknown."""
    group, share = time.leading(name for name in GROUPS if name != "lock")
    doing = {
        "commit": "waited to commit",
        "read": "waited for reads",
        "write": "waited for writes",
        "cpu": "used CPU",
        "client": "waited for the client's next statement",
    }
    if share <= 0 or group not in doing:
        return ""
    return f", and the lock holders mostly {doing[group]}"


def _driver_words(grounds: Grounds) -> str:
    """Return how close the driver is to its limit; empty if it is not close."""
    reported = []
    if (grounds.client_cpu_share or 0.0) > DRIVER_SHARE_MAX:
        reported.append(
            f"the driver's busiest thread used {format_share(grounds.client_cpu_share or 0.0)} of "
            "a core"
        )
    if (grounds.ceiling_share or 0.0) > DRIVER_SHARE_MAX and grounds.ceiling_per_s:
        reported.append(
            f"the rate reached {format_share(grounds.ceiling_share or 0.0)} of the driver's "
            f"maximum ({format_iops(grounds.ceiling_per_s)} transactions/s against a null server)"
        )
    return " and ".join(reported)


def _of_full_processors(grounds: Grounds) -> _Evidence:
    """Return server or driver, whichever uses more CPU, if the processors have no headroom."""
    busy = grounds.busy_share
    if busy is None or busy < BUSY_SHARE_MIN or grounds.waited_share > WAITED_SHARE_MAX:
        return None
    server, client = (grounds.column(f"{who}_cpu_cores") for who in ("server", "client"))
    ground = f"the processors were {format_share(busy)} busy"
    if server is None or client is None or server >= client:
        return "cpu", ground
    driver = _driver_words(grounds)
    return "client", (
        f"{ground}; the driver used {_cores(client)} cores and the server "
        f"{_cores(server)}{f'; {driver}' if driver else ''}"
    )


def _of_time_without_waits(grounds: Grounds) -> _Evidence:
    """Return the CPU if connections spend their time without a wait.

    Each connection uses one processor at a time: a few may be CPU-bound on an idle machine.
    """
    time = grounds.time
    if time is None or not time.dominates("cpu"):
        return None
    ground = f"{_of_time(time, 'cpu')} was spent without a wait event"
    on_processor = grounds.on_processor_share
    if on_processor is None:
        return "cpu", ground
    return "cpu", (
        f"{ground}, {format_share(on_processor)} of it on a CPU; each connection can use one CPU "
        "at a time"
    )


def _of_client(grounds: Grounds) -> _Evidence:
    """Return the client if the server waits for statements, or the driver is near its limit."""
    time, driver = grounds.time, _driver_words(grounds)
    waits = time is not None and time.dominates("client")
    if time is None or not (waits or driver):
        return None
    ground = f"the server waited for the next statement {_of_time(time, 'client')}"
    return "client", f"{ground}{f', and {driver}' if driver else ' (network or driver)'}"


def _of_time(time: ClientTime, group: str) -> str:
    return f"{format_share(time.shares.get(group, 0.0))} of the clients' time"


def _nothing_dominates(grounds: Grounds) -> str:
    shares = sorted(((grounds.share(group), group) for group in GROUPS), key=lambda pair: -pair[0])
    reported = [f"{format_share(share)} {_IN_SHORT[group]}" for share, group in shares[:3] if share]
    others = grounds.others_cpu_share or 0.0
    alongside = f"; other work used {format_share(others)} of the CPU" if others > 0.1 else ""
    return f"Inconclusive, nothing dominates the clients' time: {', '.join(reported)}{alongside}"


_IN_SHORT: Final = {
    "commit": "commits",
    "read": "reads",
    "write": "writes of data files",
    "lock": "locks",
    "cpu": "without a wait event",
    "client": "waits for the client",
    "other": "other waits",
}


def _of_machine(grounds: Grounds) -> str:
    """Return how many cores the server used, and the steal time."""
    cores, steal = grounds.column("server_cpu_cores"), grounds.column("cpu_steal_share")
    reported = []
    if cores is not None:
        among = f" of {grounds.cpus:g} cores" if grounds.cpus else " cores"
        reported.append(f"the server used {_cores(cores)}{among}")
    elif grounds.busy_share is not None:
        reported.append(f"the processors were {format_share(grounds.busy_share)} busy")
    if steal is not None and steal > 0.1:
        reported.append(f"steal time was {format_share(steal)}")
    return " and ".join(reported)


def _cores(value: float) -> str:
    return f"{value:.2f}" if value < 1 else f"{value:.1f}"


def _of_device(grounds: Grounds) -> str:
    """Return how busy the device was, and its rates of reads, writes and flushes."""
    busy = grounds.column("device_busy_share")
    if busy is None:
        return ""
    reported = [f"the device was {format_share(min(1.0, busy))} busy"]
    for name, words in (
        ("device_read_per_s", "reads"),
        ("device_write_per_s", "writes"),
        ("device_flush_per_s", "flushes"),
    ):
        value = grounds.column(name)
        if value is not None and value >= 1:
            reported.append(f"{format_iops(value)} {words}")
    return (
        reported[0]
        if len(reported) == 1
        else f"{reported[0]} with {', '.join(reported[1:])} per second"
    )
