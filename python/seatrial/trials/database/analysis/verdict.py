"""What bounds the throughput of a database's cell, with the ground for saying so.

The rules and their bounds are in docs/method.md, "What bounds a database". What the clients
waited for says what leads; that alone is no verdict. It becomes one where a measured figure
excludes every rival (rivals.py). Else the answer is ``inconclusive``, with what would settle it: a
wrong reason costs its reader more than none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from seatrial.stats.wording import format_estimate, format_iops, format_share
from seatrial.trials.database.analysis.grounds import DRIVER_SHARE_MAX, Grounds
from seatrial.trials.database.analysis.model import Rival, TimeVerdict
from seatrial.trials.database.analysis.rivals import WAITED_SHARE_MAX, rivals_of
from seatrial.trials.database.analysis.waits import (
    DOMINATES_SHARE_MIN,
    GROUPS,
    LEAD_RATIO_MIN,
    ClientTime,
)

INCONCLUSIVE: Final = "inconclusive"
LOOKS_MIN: Final = 20
QUEUE_SHARE_MIN: Final = 0.6
"""Of locks together with what their holders wait for, where neither dominates by itself."""
CHECKPOINT_LOST_SHARE_MIN: Final = 0.25
CHECKPOINT_RUNNING_SHARE_MIN: Final = 0.5
CHECKPOINT_CAUSED_SHARE_MIN: Final = 0.6
"""Of the bytes written, what checkpoints caused, where commits wait for them."""
DEVICE_BUSY_SHARE_MIN: Final = 0.85
BUSY_SHARE_MIN: Final = 0.85
"""Of all processors of the machine; more is no head room."""
KEPT_RATE_SHARE_MIN: Final = 0.95
LONGER: Final = "Measure for longer ('--seconds'), so that there are more looks"
VARY: Final = (
    "Vary clients and memory ('--clients', '--memory-limit'): what the rate follows is what bounds "
    "it"
)

_Found = tuple[str, str] | None
"""A bound that leads and the ground for it."""


def time_verdict(grounds: Grounds) -> TimeVerdict:
    """Return what bounds a cell: what leads, where nothing else can be it."""
    if reported := _of_schedule(grounds):
        return _open(grounds, reported, "Raise the rate that is asked for until it is not reached")
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
    """Return the verdict on a bound that leads: the rivals decide whether it is one."""
    rivals = rivals_of(grounds, bound)
    left = [rival for rival in rivals if not rival.is_excluded]
    opening = f"{OPENINGS[bound]}: {ground}"
    if left:
        opening = f"Inconclusive, {OPENINGS[bound].lower()} if anything: {ground}"
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
    """Return a verdict where nothing leads."""
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
            f"What was waited for is that of whole samples, up to {grounds.cut_s:.1f} s of "
            "start-up phase included"
        )
    sentences += rival_texts(rivals)
    if bound == INCONCLUSIVE and likely:
        sentences.append(f"What settles it: {next_step[:1].lower()}{next_step[1:]}")
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
    """Return what is not excluded and what is, as sentences without full stops."""
    found = []
    for words, is_excluded in (("Not excluded", False), ("Excluded", True)):
        reported = [rival.sentence for rival in rivals if rival.is_excluded == is_excluded]
        if reported:
            found.append(f"{words}: {', '.join(reported)}")
    return found


def _of_schedule(grounds: Grounds) -> str:
    """Under a schedule that is kept, nothing but the schedule sets the rate."""
    asked_per_s = grounds.asked_per_s
    if not asked_per_s or grounds.rate.value < KEPT_RATE_SHARE_MIN * asked_per_s:
        return ""
    return (
        f"The schedule sets the rate: {format_iops(asked_per_s)} transactions a second were asked "
        f"for, and {format_estimate(grounds.rate)} done; what would bound it beyond is not seen"
    )


def _unseen(grounds: Grounds) -> str:
    """Without looks at the waits there is no ground; a driver at its limit is told of."""
    if grounds.time is not None and grounds.time.looks >= LOOKS_MIN:
        return ""
    seen = (
        "what the clients waited for was not seen"
        if grounds.time is None
        else f"only {grounds.time.looks:.0f} looks at what the clients waited for"
    )
    driver = _driver_words(grounds)
    return f"Inconclusive: {seen}{f', and {driver}' if driver else ''}"


def _of_checkpoints(grounds: Grounds) -> _Found:
    effect, time = grounds.checkpoints, grounds.time
    lost = effect is not None and effect.surely_below < 1
    if effect is not None and lost and effect.lost_share >= CHECKPOINT_LOST_SHARE_MIN:
        return "checkpoint", (
            f"checkpoints cost {format_share(effect.lost_share)} of the rate, "
            f"which in their seconds is {format_estimate(effect.rate_ratio)} of the usual"
        )
    running = grounds.checkpoint_share or 0.0
    if time is None or running < CHECKPOINT_RUNNING_SHARE_MIN:
        return None
    if time.dominates("write"):
        return "checkpoint", (
            f"{_of_time(time, 'write')} waited for data files and new WAL segments to be written "
            f"({time.told('write')}), and a checkpoint ran {format_share(running)} of it"
        )
    return _of_checkpoint_bytes(grounds, time, running)


def _of_checkpoint_bytes(grounds: Grounds, time: ClientTime, running: float) -> _Found:
    """Return checkpoints where clients wait for what mostly they have the disk write.

    Commits wait behind a checkpoint's writes. That they do takes more than that it runs: most waits
    are for data files, or the device has no time left.
    """
    caused, busy = grounds.checkpoint_bytes_share, grounds.column("device_busy_share") or 0.0
    if caused is None or caused < CHECKPOINT_CAUSED_SHARE_MIN or not grounds.checkpoints_count:
        return None
    writes, commits = (time.shares.get(name, 0.0) for name in ("write", "commit"))
    waits_for_files = writes >= DOMINATES_SHARE_MIN and time.surely_above("write", commits)
    if not waits_for_files and busy < DEVICE_BUSY_SHARE_MIN:
        return None
    _, next_share = time.leading(set(GROUPS) - {"commit", "write", "lock"})
    if writes + commits < LEAD_RATIO_MIN * next_share:
        return None
    return "checkpoint", (
        f"{format_share(writes + commits)} of the clients' time waited for data files and the WAL "
        f"to be written ({time.told('write')}), a checkpoint ran {format_share(running)} of it, "
        f"and {format_share(caused)} of the bytes written at most were its pages and the images of "
        "whole pages in the WAL behind it"
    )


def _of_waits(grounds: Grounds) -> _Found:
    time = grounds.time
    if time is None:
        return None
    bound = next((name for name in _WAITING if time.dominates(name)), None)
    if bound is None:
        return _of_queue(time)
    ground = f"{_of_time(time, bound)} {_WAITING[bound]} ({time.told(bound)})"
    return bound, ground + (_holders(time) if bound == "lock" else "")


_WAITING: Final[Mapping[str, str]] = {
    "commit": "waited for the WAL to be written and synced",
    "read": "waited for blocks to be read",
    "lock": "waited for what other clients held",
}


def _of_queue(time: ClientTime) -> _Found:
    """Return what they wait for who hold the locks that many others wait for meanwhile.

    A queue for the rows of one that waits to commit is shorter when commits are faster.
    """
    lock_share = time.shares.get("lock", 0.0)
    bound, share = time.leading(("commit", "read"))
    _, next_share = time.leading(name for name in GROUPS if name not in ("lock", bound))
    leads = share >= LEAD_RATIO_MIN * next_share and time.surely_above(bound, next_share)
    if not leads or lock_share + share < QUEUE_SHARE_MIN:
        return None
    return bound, (
        f"{_of_time(time, bound)} {_WAITING[bound]} ({time.told(bound)}), and "
        f"{format_share(lock_share)} for what others held meanwhile ({time.told('lock')})"
    )


def _holders(time: ClientTime) -> str:
    """Return what those did meanwhile who held the locks; empty where it is not told apart."""
    group, share = time.leading(name for name in GROUPS if name != "lock")
    doing = {
        "commit": "waited to commit",
        "read": "waited for reads",
        "write": "waited for writes",
        "cpu": "were at work on a processor",
        "client": "waited for the client's next statement",
    }
    if share <= 0 or group not in doing:
        return ""
    return f", and those who held it mostly {doing[group]}"


def _driver_words(grounds: Grounds) -> str:
    """Return how near its limit the driver is; empty where it is not."""
    reported = []
    if (grounds.client_cpu_share or 0.0) > DRIVER_SHARE_MAX:
        reported.append(
            f"the driver's busiest thread used {format_share(grounds.client_cpu_share or 0.0)} of "
            "a core"
        )
    if (grounds.ceiling_share or 0.0) > DRIVER_SHARE_MAX and grounds.ceiling_per_s:
        reported.append(
            f"it reached {format_share(grounds.ceiling_share or 0.0)} of the "
            f"{format_iops(grounds.ceiling_per_s)} transactions a second that the driver does "
            "with a server that answers at once"
        )
    return " and ".join(reported)


def _of_full_processors(grounds: Grounds) -> _Found:
    """Processors without head room: of server and driver the one that uses more of them leads."""
    busy = grounds.busy_share
    if busy is None or busy < BUSY_SHARE_MIN or grounds.waited_share > WAITED_SHARE_MAX:
        return None
    server, client = (grounds.column(f"{who}_cpu_cores") for who in ("server", "client"))
    ground = f"the processors were {format_share(busy)} busy"
    if server is None or client is None or server >= client:
        return "cpu", ground
    driver = _driver_words(grounds)
    return "client", (
        f"{ground}, the driver's processes used {_cores(client)} of them and the server's "
        f"{_cores(server)}{f'; {driver}' if driver else ''}"
    )


def _of_time_without_waits(grounds: Grounds) -> _Found:
    """Each connection uses one processor at a time: few are bound by theirs on an idle machine."""
    time = grounds.time
    if time is None or not time.dominates("cpu"):
        return None
    ground = f"{_of_time(time, 'cpu')} was spent without a wait that the server names"
    on_processor = grounds.on_processor_share
    if on_processor is None:
        return "cpu", ground
    return "cpu", (
        f"{ground}, {format_share(on_processor)} of it on a processor; each connection can use one "
        "at a time"
    )


def _of_client(grounds: Grounds) -> _Found:
    """The server waits for statements, or the driver is near its own limit."""
    time, driver = grounds.time, _driver_words(grounds)
    waits = time is not None and time.dominates("client")
    if time is None or not (waits or driver):
        return None
    ground = f"{_of_time(time, 'client')} the server waited for their next statement"
    return "client", f"{ground}{f', and {driver}' if driver else ' (the way to it, or the driver)'}"


def _of_time(time: ClientTime, group: str) -> str:
    return f"{format_share(time.shares.get(group, 0.0))} of the clients' time"


def _nothing_dominates(grounds: Grounds) -> str:
    shares = sorted(((grounds.share(group), group) for group in GROUPS), key=lambda pair: -pair[0])
    reported = [f"{format_share(share)} {_IN_SHORT[group]}" for share, group in shares[:3] if share]
    others = grounds.others_cpu_share or 0.0
    beside = f"; other work used {format_share(others)} of the processors" if others > 0.1 else ""
    return f"Inconclusive, as nothing dominates the clients' time: {', '.join(reported)}{beside}"


_IN_SHORT: Final = {
    "commit": "commits",
    "read": "reads",
    "write": "writes of data files",
    "lock": "locks",
    "cpu": "without a named wait",
    "client": "waits for the client",
    "other": "other waits",
}


def _of_machine(grounds: Grounds) -> str:
    """Return how many processors the server used, in cores, and whether they were stolen."""
    cores, steal = grounds.column("server_cpu_cores"), grounds.column("cpu_steal_share")
    reported = []
    if cores is not None:
        among = f" of {grounds.cpus:g} processors" if grounds.cpus else " processors"
        reported.append(f"the server used {_cores(cores)}{among}")
    elif grounds.busy_share is not None:
        reported.append(f"the processors were {format_share(grounds.busy_share)} busy")
    if steal is not None and steal > 0.1:
        reported.append(f"the host took {format_share(steal)} of them")
    return " and ".join(reported)


def _cores(value: float) -> str:
    return f"{value:.2f}" if value < 1 else f"{value:.1f}"


def _of_device(grounds: Grounds) -> str:
    """Return what the device did: how busy it was, and its reads or flushes."""
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
        else f"{reported[0]} with {', '.join(reported[1:])} a second"
    )
