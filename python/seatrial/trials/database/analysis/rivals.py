"""What else may bound a cell than what leads, and the figure that excludes it.

A figure excludes its rival where it is at most its limit. One that was not measured excludes
nothing. The limits are in docs/method.md, "What bounds a database".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from seatrial.stats.wording import format_share
from seatrial.trials.database.analysis.grounds import DRIVER_SHARE_MAX, Grounds
from seatrial.trials.database.analysis.model import Rival
from seatrial.trials.database.analysis.waits import GROUPS, LEAD_RATIO_MIN

OTHERS_CPU_SHARE_MAX: Final = 0.1
STEAL_SHARE_MAX: Final = 0.1
SEATRIAL_SHARE_MAX: Final = 0.05
DELAY_SHARE_MAX: Final = 0.05
"""Of the clients' time: so long may the server's processes have lacked a processor."""
CLIENT_DELAY_CORES_MAX: Final = 0.1
HEAD_ROOM_BUSY_SHARE_MAX: Final = 0.85
"""Of the processors: below that the kernel's own work on I/O finds one, too."""
OTHERS_IO_SHARE_MAX: Final = 0.25
CHECKPOINT_RUNNING_SHARE_MAX: Final = 0.1
CHECKPOINT_BYTES_SHARE_MAX: Final = 0.25
WAITED_SHARE_MAX: Final = 1 / 3
"""Of the clients' time, where the processors are full: the rest is theirs by two to one."""
OFF_PROCESSOR_SHARE_MAX: Final = 0.5
"""Of the time without a named wait: with more, the kernel kept the server (page cache, limits)."""
_OF_TIME: Final = "of the clients' time"
_OF_CPUS: Final = "of the processors"

Judge = Callable[[Grounds, str], Rival]
"""Returns a rival of a bound."""


@dataclass(frozen=True)
class _Kind:
    """What is said of a rival: its name in words, and what settles it."""

    words: str
    next: str


_KINDS: Final[Mapping[str, _Kind]] = {
    "other_waits": _Kind(
        "other waits",
        "Vary clients and memory ('--clients', '--memory-limit'): what the rate follows is what "
        "bounds it",
    ),
    "processors": _Kind(
        "the processors",
        "Repeat with fewer clients than processors: waits for a processor then go away, others "
        "stay",
    ),
    "client": _Kind(
        "the client",
        "Give the driver more threads or processes ('jobs', 'processes'), or a machine of its own "
        "('seatrial db --url'), and repeat",
    ),
    "others_cpu": _Kind(
        "other work on the machine", "Stop the other work on the machine and repeat"
    ),
    "steal": _Kind("the hypervisor", "Repeat when the host is quieter, or on a machine of its own"),
    "others_io": _Kind(
        "others' I/O",
        "Stop what else uses the disk, or put the data on a disk of their own, and repeat",
    ),
    "checkpoint": _Kind(
        "checkpoints",
        "Repeat with a max_wal_size so large that no checkpoint comes ('--set max_wal_size=64GB'): "
        "what the rate gains is theirs",
    ),
    "seatrial": _Kind(
        "Seatrial itself", "Put the driver on a machine of its own ('seatrial db --url')"
    ),
    "kernel": _Kind(
        "the kernel",
        "Repeat with more memory, and look at limits on writing and on memory",
    ),
}


def rivals_of(grounds: Grounds, bound: str) -> list[Rival]:
    """Return what else may bound a cell of which a bound leads, in the order of the method.

    Args:
        grounds: Of the cell.
        bound: ``cpu``, ``read``, ``commit``, ``checkpoint``, ``lock`` or ``client``.
    """
    return [judge(grounds, bound) for judge in _JUDGES[bound]]


def _rival(
    name: str,
    figure: str,
    value: float | None,
    allowed_max: float,
    *,
    what: str,
    words: str = "",
) -> Rival:
    kind = _KINDS[name]
    is_excluded = value is not None and value <= allowed_max
    reported = words or kind.words
    if value is None:
        sentence = f"{reported} (not measured)"
    elif is_excluded:
        sentence = f"{reported} ({format_share(value)} {what})"
    else:
        sentence = f"{reported} ({format_share(value)} {what}, {format_share(allowed_max)} allowed)"
    return Rival(
        name=name,
        figure=figure,
        value=value,
        allowed_max=allowed_max,
        is_excluded=is_excluded,
        sentence=sentence,
        next=kind.next,
    )


def _hidden_share(grounds: Grounds) -> float:
    return grounds.server_delay_share or 0.0


def _own_share(grounds: Grounds, bound: str) -> float:
    """Return the share of the clients' time that surely went into a bound.

    A queue for locks counts with what it waits behind, as the verdict reads it.
    """
    groups = {
        "cpu": ("cpu",),
        "checkpoint": ("commit", "write", "lock"),
        "commit": ("commit", "lock") if not _leads_alone(grounds, "commit") else ("commit",),
        "read": ("read", "lock") if not _leads_alone(grounds, "read") else ("read",),
    }.get(bound, (bound,))
    return sum(grounds.share(group) for group in groups) - _hidden_share(grounds)


def _leads_alone(grounds: Grounds, group: str) -> bool:
    return grounds.share(group) >= LEAD_RATIO_MIN * grounds.share("lock")


def _other_waits(grounds: Grounds, bound: str) -> Rival:
    """The next largest wait, against what is needed for the bound to lead by half."""
    own = {
        "checkpoint": ("commit", "write", "lock"),
        "commit": ("commit", "lock"),
        "read": ("read", "lock"),
    }.get(bound, (bound,))
    if bound in ("commit", "read") and _leads_alone(grounds, bound):
        own = (bound,)
    others = [g for g in GROUPS if g not in (*own, "cpu", "client")]
    value = max(grounds.share(group) for group in others) if grounds.time else None
    allowed = max(0.0, _own_share(grounds, bound)) / LEAD_RATIO_MIN
    return _rival("other_waits", "next_wait_share", value, allowed, what=_OF_TIME)


def _waits(grounds: Grounds, _bound: str) -> Rival:
    """All waits together, where the processors are full."""
    value = grounds.waited_share if grounds.time else None
    return _rival(
        "other_waits", "waited_share", value, WAITED_SHARE_MAX, what=_OF_TIME, words="waits"
    )


def _processors(grounds: Grounds, bound: str) -> Rival:
    """Time without a named wait, and what may be hidden in waits of processes that were woken."""
    delay = grounds.server_delay_share
    allowed = max(0.0, _own_share(grounds, bound)) / LEAD_RATIO_MIN
    if delay is None:
        # Where no queue can be seen, processors with room have none that matters.
        busy = grounds.busy_share
        return _rival("processors", "busy_share", busy, HEAD_ROOM_BUSY_SHARE_MAX, what="busy")
    value = grounds.share("cpu") + delay
    what = f"{_OF_TIME} on them or queued for them"
    return _rival("processors", "processor_time_share", value, allowed, what=what)


def _client_waits(grounds: Grounds, bound: str) -> Rival:
    """Connections that the server found idle: it waited for their next statement."""
    value = grounds.share("client") if grounds.time else None
    allowed = max(0.0, _own_share(grounds, bound)) / LEAD_RATIO_MIN
    return _rival("client", "wait_client_share", value, allowed, what=_OF_TIME)


def _client_beside_processors(grounds: Grounds, _bound: str) -> Rival:
    """The driver beside a server that fills the processors: its threads, then its share of them.

    Its ceiling says little there: the server that answers at once shares the processors, too.
    """
    thread, limit = grounds.client_cpu_share, DRIVER_SHARE_MAX
    if thread is None or thread > limit:
        what = "of a core by its busiest thread"
        return _rival("client", "client_cpu_share", thread, limit, what=what)
    server, client = (grounds.column(f"{who}_cpu_cores") for who in ("server", "client"))
    value = None if server is None or client is None else client / max(server, 1e-9)
    return _rival(
        "client",
        "client_to_server_cpu_ratio",
        value,
        1 / LEAD_RATIO_MIN,
        what="of the server's time",
    )


def _others_cpu(grounds: Grounds, _bound: str) -> Rival:
    """Other programs: few, or with room for all so that the server hardly lacked a processor."""
    others, delay, busy = grounds.others_cpu_share, grounds.server_delay_share, grounds.busy_share
    if others is not None and others <= OTHERS_CPU_SHARE_MAX:
        return _rival("others_cpu", "others_cpu_share", others, OTHERS_CPU_SHARE_MAX, what=_OF_CPUS)
    if busy is not None and busy <= HEAD_ROOM_BUSY_SHARE_MAX and delay is not None:
        what = f"{_OF_TIME} the server lacked a processor"
        return _rival("others_cpu", "server_delay_share", delay, DELAY_SHARE_MAX, what=what)
    return _rival("others_cpu", "others_cpu_share", others, OTHERS_CPU_SHARE_MAX, what=_OF_CPUS)


def _others_cpu_of_client(grounds: Grounds, bound: str) -> Rival:
    """Other programs that took processors from the driver or from the server."""
    delay_cores = grounds.client_delay_share
    if delay_cores is None:
        delay_cores = grounds.column("client_delay_cores")
    if delay_cores is not None and delay_cores > CLIENT_DELAY_CORES_MAX:
        others = grounds.others_cpu_share
        return _rival("others_cpu", "others_cpu_share", others, OTHERS_CPU_SHARE_MAX, what=_OF_CPUS)
    return _others_cpu(grounds, bound)


def _others_cpu_strictly(grounds: Grounds, _bound: str) -> Rival:
    """Other programs, where the processors themselves are the bound."""
    others = grounds.others_cpu_share
    return _rival("others_cpu", "others_cpu_share", others, OTHERS_CPU_SHARE_MAX, what=_OF_CPUS)


def _steal(grounds: Grounds, _bound: str) -> Rival:
    value = grounds.column("cpu_steal_share")
    return _rival("steal", "cpu_steal_share", value, STEAL_SHARE_MAX, what=_OF_CPUS)


def _others_io(grounds: Grounds, _bound: str) -> Rival:
    value = grounds.others_io_share
    what = "of the disk's bytes at most"
    return _rival("others_io", "others_io_share", value, OTHERS_IO_SHARE_MAX, what=what)


def _checkpoint(grounds: Grounds, _bound: str) -> Rival:
    """Checkpoints: none ran, or what they can have written is little."""
    running, written = grounds.checkpoint_share, grounds.checkpoint_bytes_share
    began = grounds.checkpoints_count
    is_rare = running is not None and running <= CHECKPOINT_RUNNING_SHARE_MAX
    if is_rare or written is None or began is None:
        limit = CHECKPOINT_RUNNING_SHARE_MAX
        return _rival("checkpoint", "checkpoint_running_share", running, limit, what="of the time")
    what = "of the bytes written at most"
    limit = CHECKPOINT_BYTES_SHARE_MAX
    return _rival("checkpoint", "checkpoint_bytes_share", written, limit, what=what)


def _seatrial(grounds: Grounds, _bound: str) -> Rival:
    value = grounds.seatrial_cpu_share
    return _rival("seatrial", "seatrial_cpu_share", value, SEATRIAL_SHARE_MAX, what=_OF_CPUS)


def _kernel(grounds: Grounds, _bound: str) -> Rival:
    """Time without a named wait in which the server had no processor either."""
    on = grounds.on_processor_share
    value = None if on is None else max(0.0, 1 - on - _delay_of_unnamed_share(grounds))
    what = "of the time without a named wait"
    return _rival("kernel", "off_processor_share", value, OFF_PROCESSOR_SHARE_MAX, what=what)


def _delay_of_unnamed_share(grounds: Grounds) -> float:
    unnamed = grounds.share("cpu")
    return _hidden_share(grounds) / unnamed if unnamed > 0 else 0.0


_DISK: Final = (_other_waits, _processors, _client_waits, _others_cpu, _steal, _others_io)
_JUDGES: Final[Mapping[str, tuple[Judge, ...]]] = {
    "commit": (*_DISK, _checkpoint),
    "read": (*_DISK, _checkpoint),
    "checkpoint": _DISK,
    "lock": (_other_waits, _processors, _client_waits, _others_cpu, _steal),
    "cpu": (_waits, _client_beside_processors, _others_cpu_strictly, _steal, _seatrial, _kernel),
    "client": (_other_waits, _processors, _others_cpu_of_client, _steal, _seatrial),
}
