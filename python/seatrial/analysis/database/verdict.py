"""What bounds the throughput of a database's cell, with the ground for saying so.

The rules and their bounds are in docs/method.md, "What bounds a database". What the clients
waited for decides; processors, device and checkpoints are held against it. Where nothing
dominates, or nothing was seen, the answer is ``unclear``: a wrong reason costs its reader more
than none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from seatrial.analysis.database.checkpoints import CheckpointEffect
from seatrial.analysis.database.model import TimeVerdict
from seatrial.analysis.database.samples import ceiling_share
from seatrial.analysis.database.waits import GROUPS, ClientTime
from seatrial.analysis.estimate import Estimate
from seatrial.analysis.wording import format_estimate, format_iops, format_share

DOMINATES_SHARE_MIN: Final = 0.4
LEAD_RATIO_MIN: Final = 1.5
"""Over the next largest part: what is 40 and 35 % is neither."""
LOOKS_MIN: Final = 20
QUEUE_SHARE_MIN: Final = 0.6
"""Of locks together with what their holders wait for, where neither dominates by itself."""
DRIVER_SHARE_MAX: Final = 0.7
"""Of a core, or of its ceiling: above that the client may be what is measured (law 8)."""
CHECKPOINT_LOST_SHARE_MIN: Final = 0.25
CHECKPOINT_RUNNING_SHARE_MIN: Final = 0.5
BUSY_SHARE_MIN: Final = 0.85
"""Of all processors of the machine; more is no head room."""
OWN_SHARE_MIN: Final = 0.5
"""Of what kept the processors busy, the part of server and driver; else it was other work."""
WAITED_SHARE_MAX: Final = 0.5
"""Clients that wait half of their time for something else are not held up by the processors."""
ON_PROCESSOR_SHARE_MIN: Final = 0.5
"""Of the clients that wait for nothing with a name, those that must have had a processor."""
KEPT_RATE_SHARE_MIN: Final = 0.95


@dataclass(frozen=True)
class Grounds:
    """What a verdict looks at, of one cell.

    Attributes:
        time: What the clients' time went into; None where it was not seen.
        columns: Figures by name, as ``DatabaseCell.columns``.
        checkpoints: What they cost; None where it is not known.
        checkpoint_share: Share of the time in which one ran.
        rate: Transactions per second.
        asked_per_s: Of a schedule; None in a closed loop.
        client_cpu_share: Of the driver's busiest thread, of one core.
        ceiling_per_s: Of the driver with a server that answers at once.
        cpus: Processors of the server's machine; None where they are not known.
        cut_s: How much of each sample's start is left out of the rate.
    """

    time: ClientTime | None
    columns: Mapping[str, Estimate]
    checkpoints: CheckpointEffect | None
    checkpoint_share: float | None
    rate: Estimate
    asked_per_s: float | None
    client_cpu_share: float | None
    ceiling_per_s: float | None
    cpus: float | None
    cut_s: float = 0.0

    def column(self, name: str) -> float | None:
        """Return a column's figure; None where it is not known."""
        found = self.columns.get(name)
        return None if found is None else found.value

    @property
    def busy_share(self) -> float | None:
        """Of the processors, the share that did anything or was stolen.

        That of the machine, or what server and client used of what a limit leaves them.
        """
        idle, iowait = (self.column(f"cpu_{name}_share") for name in ("idle", "iowait"))
        of_machine = None if idle is None or iowait is None else 1 - idle - iowait
        known = [share for share in (of_machine, self.own_share) if share is not None]
        return min(1.0, max(known)) if known else None

    @property
    def own_share(self) -> float | None:
        """Of the processors that they can use, the share that server and driver used."""
        cores = [self.column(f"{who}_cpu_cores") for who in ("server", "client")]
        known = [each for each in cores if each is not None]
        if not self.cpus or len(known) < len(cores):
            return None
        return min(1.0, sum(known) / self.cpus)

    @property
    def ceiling_share(self) -> float | None:
        """Of the driver's own ceiling, what was reached."""
        return ceiling_share(self.rate.value, self.ceiling_per_s)

    @property
    def driver_is_near_its_limit(self) -> bool:
        """Whether the driver may be what is measured."""
        shares = (self.client_cpu_share or 0.0, self.ceiling_share or 0.0)
        return max(shares) > DRIVER_SHARE_MAX


def time_verdict(grounds: Grounds) -> TimeVerdict:
    """Return what bounds a cell; the first rule that applies, in the order of docs/method.md."""
    rules = (
        _of_schedule,
        _unseen,
        _of_checkpoints,
        _of_waits,
        _of_driver,
        _of_processors,
        _of_clients,
    )
    for rule in rules:
        found = rule(grounds)
        if found is not None:
            return _told(grounds, *found)
    return _told(grounds, "unclear", _nothing_dominates(grounds))


_Found = tuple[str, str] | None
"""A bound and the first part of its sentence."""


def _told(grounds: Grounds, bound: str, opening: str) -> TimeVerdict:
    more = [part for part in (_of_machine(grounds), _of_device(grounds)) if part]
    sentence = "; ".join([opening, *more])
    if grounds.cut_s > 0 and grounds.time is not None:
        sentence += (
            f". What was waited for is that of whole samples, up to {grounds.cut_s:.1f} s of "
            "start-up phase included"
        )
    return TimeVerdict(bound=bound, sentence=f"{sentence}.", evidence=_evidence(grounds))


def _of_schedule(grounds: Grounds) -> _Found:
    """Under a schedule that is kept, nothing but the schedule sets the rate."""
    asked_per_s = grounds.asked_per_s
    if not asked_per_s or grounds.rate.value < KEPT_RATE_SHARE_MIN * asked_per_s:
        return None
    return "unclear", (
        f"The schedule sets the rate: {format_iops(asked_per_s)} transactions a second were asked "
        f"for, and {format_estimate(grounds.rate)} done; what would bound it beyond is not seen"
    )


def _unseen(grounds: Grounds) -> _Found:
    """Without a look at the waits there is no ground, but for a driver at its own limit."""
    if grounds.time is not None and grounds.time.looks >= LOOKS_MIN:
        return None
    if grounds.driver_is_near_its_limit:
        return _of_driver(grounds)
    if grounds.time is None:
        return "unclear", "Unclear: what the clients waited for was not seen"
    return "unclear", f"Unclear: only {grounds.time.looks:.0f} looks at what the clients waited for"


def _of_checkpoints(grounds: Grounds) -> _Found:
    effect, time = grounds.checkpoints, grounds.time
    lost = effect is not None and effect.surely_below < 1
    if effect is not None and lost and effect.lost_share >= CHECKPOINT_LOST_SHARE_MIN:
        return "checkpoint", (
            f"Checkpoint-bound: checkpoints cost {format_share(effect.lost_share)} of the rate, "
            f"which in their seconds is {format_estimate(effect.rate_ratio)} of the usual"
        )
    running = grounds.checkpoint_share or 0.0
    if time is None or running < CHECKPOINT_RUNNING_SHARE_MIN or not _dominates(time, "write"):
        return None
    return "checkpoint", (
        f"Checkpoint-bound: {_of_time(time, 'write')} waited for data files and new WAL segments "
        f"to be written ({time.told('write')}), and a checkpoint ran {format_share(running)} of it"
    )


def _of_waits(grounds: Grounds) -> _Found:
    time = grounds.time
    if time is None:
        return None
    group = next((name for name in _OPENINGS if _dominates(time, name)), None)
    if group is None:
        return _of_queue(time)
    bound, words = _OPENINGS[group]
    opening = f"{words[0]}: {_of_time(time, group)} {words[1]} ({time.told(group)})"
    return bound, opening + (_holders(time) if group == "lock" else "")


_OPENINGS: Final[Mapping[str, tuple[str, tuple[str, str]]]] = {
    "commit": ("commit", ("Commit-bound", "waited for the WAL to be written and synced")),
    "read": ("read", ("Read-bound", "waited for blocks to be read")),
    "lock": ("lock", ("Lock-bound", "waited for what other clients held")),
    "write": (
        "unclear",
        ("Unclear", "waited to write data files themselves, without a checkpoint"),
    ),
}


def _of_queue(time: ClientTime) -> _Found:
    """Return what they wait for who hold the locks that many others wait for meanwhile.

    A queue for the rows of one that waits to commit is shorter when commits are faster.
    """
    lock_share = time.shares.get("lock", 0.0)
    group, share = time.leading(("commit", "read"))
    _, next_share = time.leading(name for name in GROUPS if name not in ("lock", group))
    leads = share >= LEAD_RATIO_MIN * next_share and time.surely_above(group, next_share)
    if not leads or lock_share + share < QUEUE_SHARE_MIN:
        return None
    bound, words = _OPENINGS[group]
    return bound, (
        f"{words[0]}: {_of_time(time, group)} {words[1]} ({time.told(group)}), and "
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


def _of_driver(grounds: Grounds) -> _Found:
    if not grounds.driver_is_near_its_limit:
        return None
    told = []
    if (grounds.client_cpu_share or 0.0) > DRIVER_SHARE_MAX:
        told.append(f"the driver used {format_share(grounds.client_cpu_share or 0.0)} of a core")
    if (grounds.ceiling_share or 0.0) > DRIVER_SHARE_MAX and grounds.ceiling_per_s:
        told.append(
            f"it reached {format_share(grounds.ceiling_share or 0.0)} of the "
            f"{format_iops(grounds.ceiling_per_s)} transactions a second that the driver does "
            "with a server that answers at once"
        )
    return "client", f"Client-bound: {' and '.join(told)}"


def _of_processors(grounds: Grounds) -> _Found:
    busy, time = grounds.busy_share, grounds.time
    if time is None:
        return None
    waited_share = sum(time.shares.get(group, 0.0) for group in ("commit", "read", "write", "lock"))
    if busy is not None and busy >= BUSY_SHARE_MIN and waited_share < WAITED_SHARE_MAX:
        return _of_busy_processors(grounds, busy)
    if not _dominates(time, "cpu"):
        return None
    opening = f"{_of_time(time, 'cpu')} was spent without a wait that the server names"
    on_processor = _on_processor_share(grounds, time)
    if on_processor is None:
        return "cpu", f"CPU-bound, as far as the server tells: {opening}"
    if on_processor < ON_PROCESSOR_SHARE_MIN:
        return "unclear", (
            f"Unclear: {opening}, yet its processes had a processor in "
            f"{format_share(on_processor)} of that only: the kernel kept them (its page cache, a "
            "limit on writing or on memory)"
        )
    return "cpu", (f"CPU-bound: {opening}, on a processor; each connection can use one at a time")


def _of_busy_processors(grounds: Grounds, busy: float) -> _Found:
    """Return whose work kept the processors busy: the trial's own, or that of others."""
    own = grounds.own_share
    if own is None or own >= OWN_SHARE_MIN * busy:
        return "cpu", f"CPU-bound: the processors were {format_share(busy)} busy"
    return "unclear", (
        f"Unclear: the processors were {format_share(busy)} busy, but server and driver used only "
        f"{format_share(own)} of them; other work took the rest"
    )


def _on_processor_share(grounds: Grounds, time: ClientTime) -> float | None:
    """Return how much of the time without a named wait the server's processes had a processor."""
    cores = grounds.column("server_cpu_cores")
    share = time.shares.get("cpu", 0.0)
    if cores is None or time.active_mean is None or not time.active_share or share <= 0:
        return None
    wanted_cores = time.active_mean * share / time.active_share
    if grounds.cpus:
        wanted_cores = min(wanted_cores, grounds.cpus)
    return min(1.0, cores / wanted_cores)


def _of_clients(grounds: Grounds) -> _Found:
    time = grounds.time
    if time is None or not _dominates(time, "client"):
        return None
    return "client", (
        f"Client-bound: {_of_time(time, 'client')} the server waited for their next statement (the "
        "way to it, or the driver)"
    )


def _dominates(time: ClientTime, group: str) -> bool:
    """Tell whether a group has 40 % of the time, and surely half as much again as any other."""
    share = time.shares.get(group, 0.0)
    _, next_share = time.leading(name for name in GROUPS if name != group)
    return (
        share >= DOMINATES_SHARE_MIN
        and share >= LEAD_RATIO_MIN * next_share
        and time.surely_above(group, next_share)
    )


def _of_time(time: ClientTime, group: str) -> str:
    return f"{format_share(time.shares.get(group, 0.0))} of the clients' time"


def _nothing_dominates(grounds: Grounds) -> str:
    if grounds.time is None:
        return "Unclear: what the clients waited for was not seen"
    shares = sorted(grounds.time.shares.items(), key=lambda item: -item[1])
    told = [f"{format_share(share)} {_IN_SHORT[group]}" for group, share in shares[:3] if share]
    return f"Unclear, as nothing dominates the clients' time: {', '.join(told)}"


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
    told = []
    if cores is not None:
        among = f" of {grounds.cpus:g} processors" if grounds.cpus else " processors"
        told.append(f"the server used {_cores(cores)}{among}")
    elif grounds.busy_share is not None:
        told.append(f"the processors were {format_share(grounds.busy_share)} busy")
    if steal is not None and steal > 0.1:
        told.append(f"the host took {format_share(steal)} of them")
    return " and ".join(told)


def _cores(value: float) -> str:
    return f"{value:.2f}" if value < 1 else f"{value:.1f}"


def _of_device(grounds: Grounds) -> str:
    """Return what the device did: how busy it was, and its reads or flushes."""
    busy = grounds.column("device_busy_share")
    if busy is None:
        return ""
    told = [f"the device was {format_share(min(1.0, busy))} busy"]
    for name, words in (
        ("device_read_per_s", "reads"),
        ("device_write_per_s", "writes"),
        ("device_flush_per_s", "flushes"),
    ):
        value = grounds.column(name)
        if value is not None and value >= 1:
            told.append(f"{format_iops(value)} {words}")
    return told[0] if len(told) == 1 else f"{told[0]} with {', '.join(told[1:])} a second"


def _evidence(grounds: Grounds) -> dict[str, float]:
    """Return every figure that the rules look at, by name with unit last."""
    time, effect = grounds.time, grounds.checkpoints
    found: dict[str, float | None] = {
        "rate_per_s": grounds.rate.value,
        "asked_per_s": grounds.asked_per_s,
        "client_cpu_share": grounds.client_cpu_share,
        "ceiling_share": grounds.ceiling_share,
        "cpus_count": grounds.cpus,
        "busy_share": grounds.busy_share,
        "own_cpu_share": grounds.own_share,
        "checkpoint_running_share": grounds.checkpoint_share,
        "checkpoint_rate_ratio": effect.rate_ratio.value if effect else None,
        "checkpoint_rate_ratio_high": effect.rate_ratio.high if effect else None,
        "checkpoint_lost_share": effect.lost_share if effect else None,
        "looks_count": time.looks if time else None,
        "active_share": time.active_share if time else None,
        **(
            {f"wait_{group}_share": time.shares.get(group, 0.0) for group in GROUPS} if time else {}
        ),
        **{name: grounds.column(name) for name in _EVIDENCE_COLUMNS},
    }
    return {name: value for name, value in found.items() if value is not None}


_EVIDENCE_COLUMNS: Final[Sequence[str]] = (
    *("server_cpu_cores", "client_cpu_cores", "cpu_iowait_share", "cpu_steal_share"),
    *("psi_cpu_some_share", "psi_io_some_share", "psi_io_full_share", "psi_memory_some_share"),
    *("device_busy_share", "device_queue_mean", "device_read_per_s", "device_write_per_s"),
    *("device_flush_per_s", "wal_bytes_per_s", "wal_sync_latency_ms"),
)
