"""The rival explanations of a leading bound, and the figures that exclude them.

A figure excludes its rival if it is at or below its limit. A figure that was not measured excludes
nothing. The limits are in docs/method.md, "What bounds a database".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from seatrial.stats.estimate import Estimate
from seatrial.stats.wording import format_share
from seatrial.trials.database.analysis.checkpoints import CheckpointEffect
from seatrial.trials.database.analysis.model import Rival, ceiling_share
from seatrial.trials.database.analysis.readings import GROUPS, LEAD_RATIO_MIN, ClientTime

DRIVER_SHARE_MAX: Final = 0.7
"""Of a core, or of the driver's ceiling: above it the client may limit the rate (law 8)."""
DRIVER_CAUSE: Final = (
    "Above 70 % the driver affects the result: responses wait until it reads them. This happens "
    "with many short statements on a fast database."
)
BLOCK_BYTES: Final = 8192
HOLDERS_WAITS: Final = ("commit", "read", "standby")
"""What the holders of locks may wait for, while many others wait for their locks."""
WAITED_GROUPS: Final = ("commit", "read", "write", "lock", "standby", "other")


def driver_limits(core_share: float, ceiling_share: float, ceiling_per_s: str) -> str:
    """Return which limits of the driver were exceeded; empty if none was."""
    limits = []
    if core_share > DRIVER_SHARE_MAX:
        limits.append(
            f"the driver's busiest thread used up to {format_share(core_share)} of a core"
        )
    if ceiling_share > DRIVER_SHARE_MAX:
        limits.append(
            f"the rate reached {format_share(ceiling_share)} of the driver's maximum "
            f"({ceiling_per_s} against a null server)"
        )
    return " and ".join(limits)


def driver_sentence(core_share: float, ceiling_share: float, ceiling_per_s: str) -> str:
    """Return which limits of the driver were exceeded, and what the rate then means."""
    limits = driver_limits(core_share, ceiling_share, ceiling_per_s)
    return f"{limits}. The rate is a lower bound of what the database can do."


@dataclass(frozen=True)
class LoadEvidence:
    """The figures of one cell that a verdict is based on.

    Attributes:
        time: Where the clients spent their time; None if no wait events were sampled.
        columns: Figures by name, as ``DatabaseCell.columns``.
        checkpoints: Their effect on the rate; None if unknown.
        checkpoint_share: Share of the time in which a checkpoint ran.
        rate: Transactions per second.
        requested_per_s: Requested rate of a schedule; None in a closed loop.
        client_cpu_share: CPU time of the driver's busiest thread, as a share of one core.
        ceiling_per_s: Rate of the driver against a null server.
        cpus: Processors of the server's machine; None if unknown.
        cut_s: Length of each sample's start that the rate leaves out.
        totals: Counters of the samples, summed over those that have them.
        client_delay_share: Share of the time in which the driver's thread was runnable but had no
            processor; None if it is not measured for one thread.
    """

    time: ClientTime | None
    columns: Mapping[str, Estimate]
    checkpoints: CheckpointEffect | None
    checkpoint_share: float | None
    rate: Estimate
    requested_per_s: float | None
    client_cpu_share: float | None
    ceiling_per_s: float | None
    cpus: float | None
    cut_s: float = 0.0
    totals: Mapping[str, float] = field(default_factory=dict)
    client_delay_share: float | None = None

    def column(self, name: str) -> float | None:
        """Return a column's figure; None if unknown."""
        found = self.columns.get(name)
        return None if found is None else found.value

    def share(self, group: str) -> float:
        """Return a wait group's share of the clients' time; 0 if it was not seen."""
        return self.time.shares.get(group, 0.0) if self.time else 0.0

    @property
    def waited_share(self) -> float:
        """Share of the clients' time spent waiting for anything but a CPU or their client."""
        return math.fsum(self.share(group) for group in WAITED_GROUPS)

    @property
    def busy_share(self) -> float | None:
        """Share of the processors that was busy or stolen.

        That of the machine, or that of server and client within a CPU limit if it is larger; None
        if the machine's is unknown.
        """
        idle, iowait = (self.column(f"cpu_{name}_share") for name in ("idle", "iowait"))
        if idle is None or iowait is None:
            return None
        return min(1.0, max(1 - idle - iowait, self.own_share or 0.0))

    @property
    def own_share(self) -> float | None:
        """Share that server and driver used of the processors available to them."""
        cores = [self.column(f"{who}_cpu_cores") for who in ("server", "client")]
        known = [core for core in cores if core is not None]
        if not self.cpus or len(known) < len(cores):
            return None
        return min(1.0, sum(known) / self.cpus)

    @property
    def others_cpu_share(self) -> float | None:
        """Share of the processors used by programs other than server, driver and Seatrial.

        Kernel threads are left out if they are known, because they carry out I/O.
        """
        others_cores = self.column("others_cpu_cores")
        if others_cores is None or not self.cpus:
            return None
        kernel_cores = self._cores_of("kernel_cpu_ns") or 0.0
        return min(1.0, max(0.0, others_cores - kernel_cores) / self.cpus)

    @property
    def seatrial_cpu_share(self) -> float | None:
        """Share of the processors used by Seatrial, including its session with the server."""
        cores = self.column("seatrial_cpu_cores")
        return None if cores is None or not self.cpus else cores / self.cpus

    @property
    def server_delay_share(self) -> float | None:
        """Share of the clients' time in which the server's processes waited for a processor.

        Over all of its processes, so it is at least that of the clients' backends.
        """
        delay_cores = self.column("server_delay_cores")
        connections = self.time.connections_mean if self.time else None
        if delay_cores is None or not connections:
            return None
        return min(1.0, delay_cores / connections)

    @property
    def others_io_share(self) -> float | None:
        """Upper bound of other processes' share of the bytes that the disks moved.

        The lower of two bounds: what other processes read and wrote anywhere, and what the disks
        moved beyond the server's known requests.
        """
        disk_bytes = self._total("disk_read_bytes", "disk_write_bytes")
        if not disk_bytes:
            return None
        requested_bytes = self._total("others_read_bytes", "others_write_bytes")
        unclaimed_bytes = self._unclaimed_bytes()
        known = [bound for bound in (requested_bytes, unclaimed_bytes) if bound is not None]
        return min(1.0, min(known) / disk_bytes) if known else None

    @property
    def checkpoint_bytes_share(self) -> float | None:
        """Upper bound of the checkpoints' share of the bytes written to the disks.

        The pages that they wrote, and the full-page images in the WAL that follow them.
        """
        written_bytes = self._total("disk_write_bytes")
        blocks = self._total("checkpoint_buffers", "wal_fpi")
        if not written_bytes or blocks is None:
            return None
        return min(1.0, blocks * BLOCK_BYTES / written_bytes)

    @property
    def checkpoints_count(self) -> float | None:
        """How many checkpoints began in all samples."""
        return self._total("checkpoints_timed", "checkpoints_requested")

    @property
    def ceiling_share(self) -> float | None:
        """The rate as a share of the driver's ceiling."""
        return ceiling_share(self.rate.value, self.ceiling_per_s)

    @property
    def driver_share(self) -> float | None:
        """How close the driver is to its limit: share of a core or of its ceiling, the larger."""
        known = [
            share for share in (self.client_cpu_share, self.ceiling_share) if share is not None
        ]
        return max(known, default=None)

    @property
    def on_processor_share(self) -> float | None:
        """Of the time without a wait event, the share in which the server ran on a processor."""
        cores, time = self.column("server_cpu_cores"), self.time
        if cores is None or time is None or not time.active_mean or not time.active_share:
            return None
        expected_cores = time.active_mean * self.share("cpu") / time.active_share
        if self.cpus:
            expected_cores = min(expected_cores, self.cpus)
        return min(1.0, cores / expected_cores) if expected_cores > 0 else None

    def figures(self) -> dict[str, float]:
        """Return every figure that the rules use, by name with unit last."""
        time, effect = self.time, self.checkpoints
        found: dict[str, float | None] = {
            "rate_per_s": self.rate.value,
            "requested_per_s": self.requested_per_s,
            "client_cpu_share": self.client_cpu_share,
            "client_delay_share": self.client_delay_share,
            "ceiling_share": self.ceiling_share,
            "driver_share": self.driver_share,
            "cpus_count": self.cpus,
            "busy_share": self.busy_share,
            "own_cpu_share": self.own_share,
            "others_cpu_share": self.others_cpu_share,
            "seatrial_cpu_share": self.seatrial_cpu_share,
            "kernel_cpu_cores": self._cores_of("kernel_cpu_ns"),
            "server_delay_share": self.server_delay_share,
            "on_processor_share": self.on_processor_share,
            "others_io_share": self.others_io_share,
            "checkpoint_running_share": self.checkpoint_share,
            "checkpoint_bytes_share": self.checkpoint_bytes_share,
            "checkpoint_rate_ratio": effect.rate_ratio.value if effect else None,
            "checkpoint_rate_ratio_high": effect.rate_ratio.high if effect else None,
            "checkpoint_lost_share": effect.lost_share if effect else None,
            "looks_count": time.observations if time else None,
            "active_share": time.active_share if time else None,
            **({f"wait_{group}_share": self.share(group) for group in GROUPS} if time else {}),
            **{name: self.column(name) for name in _EVIDENCE_COLUMNS},
        }
        return {name: value for name, value in found.items() if value is not None}

    def _total(self, *names: str) -> float | None:
        """Return the sum of some counters; None if any of them is unknown."""
        known = [self.totals[name] for name in names if name in self.totals]
        return math.fsum(known) if len(known) == len(names) else None

    def _cores_of(self, time_ns: str) -> float | None:
        """Return a counter of CPU time as cores, over all samples."""
        used_ns, elapsed_ns = self._total(time_ns), self._total("counters_elapsed_ns")
        return None if used_ns is None or not elapsed_ns else used_ns / elapsed_ns

    def _unclaimed_bytes(self) -> float | None:
        """Return the bytes that the disks moved beyond the server's requests; None if unknown."""
        read_bytes, write_bytes = (
            self._total(f"disk_{direction}_bytes") for direction in ("read", "write")
        )
        own_read_bytes = self._total("server_read_bytes")
        wal_bytes = self._total("wal_bytes")
        if None in (read_bytes, write_bytes, own_read_bytes, wal_bytes):
            return None
        # The WAL is written in whole pages: each write begins and ends within a page, which adds
        # half a page at either end on average.
        wal_pages_bytes = (wal_bytes or 0.0) + (self._total("wal_writes") or 0.0) * BLOCK_BYTES
        pages = math.fsum(
            self._total(f"{who}_buffers") or 0.0 for who in ("checkpoint", "bgwriter", "backend")
        )
        own_write_bytes = wal_pages_bytes + pages * BLOCK_BYTES
        return max(0.0, (read_bytes or 0.0) - (own_read_bytes or 0.0)) + max(
            0.0, (write_bytes or 0.0) - own_write_bytes
        )


_EVIDENCE_COLUMNS: Final[Sequence[str]] = (
    *("server_cpu_cores", "client_cpu_cores", "seatrial_cpu_cores", "others_cpu_cores"),
    *("server_delay_cores", "client_delay_cores", "cpu_iowait_share", "cpu_steal_share"),
    *("psi_cpu_some_share", "psi_io_some_share", "psi_io_full_share", "psi_memory_some_share"),
    *("device_busy_share", "device_queue_mean", "device_read_per_s", "device_write_per_s"),
    *("device_flush_per_s", "wal_bytes_per_s", "wal_sync_latency_ms"),
)

OTHERS_CPU_SHARE_MAX: Final = 0.1
STEAL_SHARE_MAX: Final = 0.1
SEATRIAL_SHARE_MAX: Final = 0.05
DELAY_SHARE_MAX: Final = 0.05
"""Of the clients' time: how long the server's processes may have waited for a processor."""
CLIENT_DELAY_CORES_MAX: Final = 0.1
HEAD_ROOM_BUSY_SHARE_MAX: Final = 0.85
"""Of the processors: below it, a processor is free for the kernel's work on I/O."""
OTHERS_IO_SHARE_MAX: Final = 0.25
CHECKPOINT_RUNNING_SHARE_MAX: Final = 0.1
CHECKPOINT_BYTES_SHARE_MAX: Final = 0.25
WAITED_SHARE_MAX: Final = 1 / 3
"""Of the clients' time, if the processors are full: the rest is CPU time by two to one."""
OFF_PROCESSOR_SHARE_MAX: Final = 0.5
"""Of the time without a wait event: above it, the kernel delayed the server (cache, limits)."""
_OF_TIME: Final = "of the clients' time"
_OF_CPUS: Final = "of the CPU"

RivalTest = Callable[[LoadEvidence, str], Rival]
"""Returns a rival of a bound."""


@dataclass(frozen=True)
class _Description:
    """A rival in words, and the next step that settles it."""

    text: str
    next: str


DESCRIPTIONS: Final[Mapping[str, _Description]] = {
    "other_waits": _Description(
        "other waits",
        "Vary clients and memory ('--clients', '--memory-limit'): the factor that changes the rate "
        "is the bottleneck",
    ),
    "processors": _Description(
        "the CPU",
        "Repeat with fewer clients than processors: waits for a CPU then disappear, other waits "
        "remain",
    ),
    "client": _Description(
        "the client",
        "Give the driver more threads or processes ('jobs', 'processes') or a separate machine "
        "('seatrial db --url'), and repeat",
    ),
    "others_cpu": _Description(
        "other work on the machine", "Stop the other work on the machine and repeat"
    ),
    "steal": _Description(
        "the hypervisor (steal time)",
        "Repeat when the host is less busy, or on a dedicated machine",
    ),
    "others_io": _Description(
        "I/O of other processes",
        "Stop the other users of the disk, or put the data on a separate disk, and repeat",
    ),
    "checkpoint": _Description(
        "checkpoints",
        "Repeat with a max_wal_size so large that no checkpoint runs ('--set max_wal_size=64GB'): "
        "the gain in rate is the cost of checkpoints",
    ),
    "seatrial": _Description(
        "Seatrial itself", "Put the driver on a separate machine ('seatrial db --url')"
    ),
    "kernel": _Description(
        "the kernel",
        "Repeat with more memory, and check limits on I/O and memory (cgroups)",
    ),
}


def rivals_of(evidence: LoadEvidence, bound: str) -> list[Rival]:
    """Return the rivals of a cell's leading bound, in the order of the method.

    Args:
        evidence: Evidence of the cell.
        bound: ``cpu``, ``read``, ``commit``, ``checkpoint``, ``lock``, ``standby`` or ``client``.
    """
    return [test(evidence, bound) for test in _TESTS_OF_BOUND[bound]]


def _rival(
    name: str,
    figure: str,
    value: float | None,
    allowed_max: float,
    *,
    of: str,
    text: str = "",
) -> Rival:
    description = DESCRIPTIONS[name]
    is_excluded = value is not None and value <= allowed_max
    subject = text or description.text
    if value is None:
        sentence = f"{subject} (not measured)"
    elif is_excluded:
        sentence = f"{subject} ({format_share(value)} {of})"
    else:
        sentence = f"{subject} ({format_share(value)} {of}, {format_share(allowed_max)} allowed)"
    return Rival(
        name=name,
        figure=figure,
        value=value,
        allowed_max=allowed_max,
        is_excluded=is_excluded,
        sentence=sentence,
        next=description.next,
    )


def _hidden_share(evidence: LoadEvidence) -> float:
    return evidence.server_delay_share or 0.0


def _bound_share(evidence: LoadEvidence, bound: str) -> float:
    """Return the lower bound of a bound's share of the clients' time."""
    own = _own_groups(evidence, bound)
    return sum(evidence.share(group) for group in own) - _hidden_share(evidence)


def _own_groups(evidence: LoadEvidence, bound: str) -> tuple[str, ...]:
    """Return the wait groups of a bound.

    Lock waits count with what the lock holders wait for, as in the verdict.
    """
    if bound == "checkpoint":
        return ("commit", "write", "lock")
    leads_alone = evidence.share(bound) >= LEAD_RATIO_MIN * evidence.share("lock")
    if bound in HOLDERS_WAITS and not leads_alone:
        return (bound, "lock")
    return (bound,)


def _other_waits(evidence: LoadEvidence, bound: str) -> Rival:
    """Return the next largest wait; the bound has to be 1.5 times as large."""
    own = _own_groups(evidence, bound)
    others = [g for g in GROUPS if g not in (*own, "cpu", "client")]
    value = max(evidence.share(group) for group in others) if evidence.time else None
    allowed = max(0.0, _bound_share(evidence, bound)) / LEAD_RATIO_MIN
    return _rival("other_waits", "next_wait_share", value, allowed, of=_OF_TIME)


def _waits(evidence: LoadEvidence, _bound: str) -> Rival:
    """Return all waits together, if the processors are full."""
    value = evidence.waited_share if evidence.time else None
    return _rival("other_waits", "waited_share", value, WAITED_SHARE_MAX, of=_OF_TIME, text="waits")


def _processors(evidence: LoadEvidence, bound: str) -> Rival:
    """Return the time without a wait event, plus run-queue time hidden in other waits."""
    delay = evidence.server_delay_share
    allowed = max(0.0, _bound_share(evidence, bound)) / LEAD_RATIO_MIN
    if delay is None:
        # Without run-queue figures: processors with headroom have no relevant queue.
        busy = evidence.busy_share
        return _rival("processors", "busy_share", busy, HEAD_ROOM_BUSY_SHARE_MAX, of="busy")
    value = evidence.share("cpu") + delay
    of = f"{_OF_TIME} on a CPU or waiting for one"
    return _rival("processors", "processor_time_share", value, allowed, of=of)


def _client_waits(evidence: LoadEvidence, bound: str) -> Rival:
    """Return the share of idle connections: the server waited for their next statement."""
    value = evidence.share("client") if evidence.time else None
    allowed = max(0.0, _bound_share(evidence, bound)) / LEAD_RATIO_MIN
    return _rival("client", "wait_client_share", value, allowed, of=_OF_TIME)


def _client_against_processors(evidence: LoadEvidence, _bound: str) -> Rival:
    """Return the driver's busiest thread, or its CPU compared with the server's.

    For a server that fills the processors. The driver's ceiling says little in that case: the null
    server shares the processors, too.
    """
    thread, limit = evidence.client_cpu_share, DRIVER_SHARE_MAX
    if thread is None or thread > limit:
        of = "of a core by its busiest thread"
        return _rival("client", "client_cpu_share", thread, limit, of=of)
    server, client = (evidence.column(f"{who}_cpu_cores") for who in ("server", "client"))
    value = None if server is None or client is None else client / max(server, 1e-9)
    return _rival(
        "client",
        "client_to_server_cpu_ratio",
        value,
        1 / LEAD_RATIO_MIN,
        of="of the server's CPU time",
    )


def _others_cpu(evidence: LoadEvidence, _bound: str) -> Rival:
    """Return other programs' CPU share, or the server's run-queue wait if there is headroom."""
    others, delay, busy = (
        evidence.others_cpu_share,
        evidence.server_delay_share,
        evidence.busy_share,
    )
    if others is not None and others <= OTHERS_CPU_SHARE_MAX:
        return _rival("others_cpu", "others_cpu_share", others, OTHERS_CPU_SHARE_MAX, of=_OF_CPUS)
    if busy is not None and busy <= HEAD_ROOM_BUSY_SHARE_MAX and delay is not None:
        of = f"{_OF_TIME} the server waited for a CPU"
        return _rival("others_cpu", "server_delay_share", delay, DELAY_SHARE_MAX, of=of)
    return _rival("others_cpu", "others_cpu_share", others, OTHERS_CPU_SHARE_MAX, of=_OF_CPUS)


def _others_cpu_of_client(evidence: LoadEvidence, bound: str) -> Rival:
    """Return other programs that took CPU from the driver or from the server."""
    delay_cores = evidence.client_delay_share
    if delay_cores is None:
        delay_cores = evidence.column("client_delay_cores")
    if delay_cores is not None and delay_cores > CLIENT_DELAY_CORES_MAX:
        others = evidence.others_cpu_share
        return _rival("others_cpu", "others_cpu_share", others, OTHERS_CPU_SHARE_MAX, of=_OF_CPUS)
    return _others_cpu(evidence, bound)


def _others_cpu_strictly(evidence: LoadEvidence, _bound: str) -> Rival:
    """Return other programs' CPU share, if the CPU itself is the bound."""
    others = evidence.others_cpu_share
    return _rival("others_cpu", "others_cpu_share", others, OTHERS_CPU_SHARE_MAX, of=_OF_CPUS)


def _steal(evidence: LoadEvidence, _bound: str) -> Rival:
    value = evidence.column("cpu_steal_share")
    return _rival("steal", "cpu_steal_share", value, STEAL_SHARE_MAX, of=_OF_CPUS)


def _others_io(evidence: LoadEvidence, _bound: str) -> Rival:
    value = evidence.others_io_share
    of = "of the disk's traffic at most"
    return _rival("others_io", "others_io_share", value, OTHERS_IO_SHARE_MAX, of=of)


def _checkpoint(evidence: LoadEvidence, _bound: str) -> Rival:
    """Return how long checkpoints ran, or an upper bound of what they wrote."""
    running, written = evidence.checkpoint_share, evidence.checkpoint_bytes_share
    began = evidence.checkpoints_count
    is_rare = running is not None and running <= CHECKPOINT_RUNNING_SHARE_MAX
    if is_rare or written is None or began is None:
        limit = CHECKPOINT_RUNNING_SHARE_MAX
        return _rival("checkpoint", "checkpoint_running_share", running, limit, of="of the time")
    of = "of the bytes written at most"
    limit = CHECKPOINT_BYTES_SHARE_MAX
    return _rival("checkpoint", "checkpoint_bytes_share", written, limit, of=of)


def _seatrial(evidence: LoadEvidence, _bound: str) -> Rival:
    value = evidence.seatrial_cpu_share
    return _rival("seatrial", "seatrial_cpu_share", value, SEATRIAL_SHARE_MAX, of=_OF_CPUS)


def _kernel(evidence: LoadEvidence, _bound: str) -> Rival:
    """Return the time without a wait event in which the server had no processor either."""
    on = evidence.on_processor_share
    value = None if on is None else max(0.0, 1 - on - _delay_of_unnamed_share(evidence))
    of = "of the time without a wait event"
    return _rival("kernel", "off_processor_share", value, OFF_PROCESSOR_SHARE_MAX, of=of)


def _delay_of_unnamed_share(evidence: LoadEvidence) -> float:
    without_event = evidence.share("cpu")
    return _hidden_share(evidence) / without_event if without_event > 0 else 0.0


_WAITS: Final = (_other_waits, _processors, _client_waits, _others_cpu, _steal)
_DISK: Final = (*_WAITS, _others_io)
_TESTS_OF_BOUND: Final[Mapping[str, tuple[RivalTest, ...]]] = {
    "commit": (*_DISK, _checkpoint),
    "read": (*_DISK, _checkpoint),
    "checkpoint": _DISK,
    "lock": _WAITS,
    "standby": _WAITS,
    "cpu": (_waits, _client_against_processors, _others_cpu_strictly, _steal, _seatrial, _kernel),
    "client": (_other_waits, _processors, _others_cpu_of_client, _steal, _seatrial),
}
