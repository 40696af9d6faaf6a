"""What a verdict on a database's cell looks at: every figure measured, by whom it was used."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from seatrial.stats.estimate import Estimate
from seatrial.trials.database.analysis.checkpoints import CheckpointEffect
from seatrial.trials.database.analysis.samples import ceiling_share
from seatrial.trials.database.analysis.waits import GROUPS, ClientTime

DRIVER_SHARE_MAX: Final = 0.7
"""Of a core, or of its ceiling: above that the client may be what is measured (law 8)."""
BLOCK_BYTES: Final = 8192
WAITED_GROUPS: Final = ("commit", "read", "write", "lock")


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
        totals: Counters of the samples, added up over those that know them.
        client_delay_share: Of the time, that in which the driver's thread could have run and had no
            processor; None where it is not measured for one thread.
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
    totals: Mapping[str, float] = field(default_factory=dict)
    client_delay_share: float | None = None

    def column(self, name: str) -> float | None:
        """Return a column's figure; None where it is not known."""
        found = self.columns.get(name)
        return None if found is None else found.value

    def share(self, group: str) -> float:
        """Return the share of the clients' time that went into a group of waits; 0 if unseen."""
        return self.time.shares.get(group, 0.0) if self.time else 0.0

    @property
    def waited_share(self) -> float:
        """Of the clients' time, what waited for storage or for other clients."""
        return math.fsum(self.share(group) for group in WAITED_GROUPS)

    @property
    def busy_share(self) -> float | None:
        """Of the processors, the share that did anything or was stolen.

        That of the machine, or what server and client used of what a limit leaves them, where that
        is more; None where the machine's is not known.
        """
        idle, iowait = (self.column(f"cpu_{name}_share") for name in ("idle", "iowait"))
        if idle is None or iowait is None:
            return None
        return min(1.0, max(1 - idle - iowait, self.own_share or 0.0))

    @property
    def own_share(self) -> float | None:
        """Of the processors that they can use, the share that server and driver used."""
        cores = [self.column(f"{who}_cpu_cores") for who in ("server", "client")]
        known = [each for each in cores if each is not None]
        if not self.cpus or len(known) < len(cores):
            return None
        return min(1.0, sum(known) / self.cpus)

    @property
    def others_cpu_share(self) -> float | None:
        """Of the processors, what programs used that are neither server, driver nor Seatrial.

        The kernel's own threads are left out where they are known: they carry out I/O.
        """
        others_cores = self.column("others_cpu_cores")
        if others_cores is None or not self.cpus:
            return None
        kernel_cores = self._cores_of("kernel_cpu_ns") or 0.0
        return min(1.0, max(0.0, others_cores - kernel_cores) / self.cpus)

    @property
    def seatrial_cpu_share(self) -> float | None:
        """Of the processors, what Seatrial used itself, its session with the server included."""
        cores = self.column("seatrial_cpu_cores")
        return None if cores is None or not self.cpus else cores / self.cpus

    @property
    def server_delay_share(self) -> float | None:
        """Of the clients' time, for how much the server's processes lacked a processor.

        All of its processes together, so no less than what its clients' backends lacked.
        """
        delay_cores = self.column("server_delay_cores")
        connections = self.time.connections_mean if self.time else None
        if delay_cores is None or not connections:
            return None
        return min(1.0, delay_cores / connections)

    @property
    def others_io_share(self) -> float | None:
        """Of the bytes that the disks moved, the most that can have been other processes'.

        Two bounds, of which the lower holds: what other processes read and wrote, wherever; and
        what the disks did beyond what the server is known to have asked for.
        """
        disk_bytes = self._total("disk_read_bytes", "disk_write_bytes")
        if not disk_bytes:
            return None
        asked_bytes = self._total("others_read_bytes", "others_write_bytes")
        unclaimed_bytes = self._unclaimed_bytes()
        known = [each for each in (asked_bytes, unclaimed_bytes) if each is not None]
        return min(1.0, min(known) / disk_bytes) if known else None

    @property
    def checkpoint_bytes_share(self) -> float | None:
        """Of the bytes written to the disks, the most that checkpoints can have caused.

        The pages that they wrote, and the images of whole pages in the WAL that follow them.
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
        """Of the driver's own ceiling, what was reached."""
        return ceiling_share(self.rate.value, self.ceiling_per_s)

    @property
    def driver_share(self) -> float | None:
        """How near its own limit the driver is: of a core, or of its ceiling, the larger."""
        known = [each for each in (self.client_cpu_share, self.ceiling_share) if each is not None]
        return max(known, default=None)

    @property
    def on_processor_share(self) -> float | None:
        """Of the time without a named wait, how much the server's processes had a processor."""
        cores, time = self.column("server_cpu_cores"), self.time
        if cores is None or time is None or not time.active_mean or not time.active_share:
            return None
        wanted_cores = time.active_mean * self.share("cpu") / time.active_share
        if self.cpus:
            wanted_cores = min(wanted_cores, self.cpus)
        return min(1.0, cores / wanted_cores) if wanted_cores > 0 else None

    def evidence(self) -> dict[str, float]:
        """Return every figure that the rules look at, by name with unit last."""
        time, effect = self.time, self.checkpoints
        found: dict[str, float | None] = {
            "rate_per_s": self.rate.value,
            "asked_per_s": self.asked_per_s,
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
            "looks_count": time.looks if time else None,
            "active_share": time.active_share if time else None,
            **({f"wait_{group}_share": self.share(group) for group in GROUPS} if time else {}),
            **{name: self.column(name) for name in _EVIDENCE_COLUMNS},
        }
        return {name: value for name, value in found.items() if value is not None}

    def _total(self, *names: str) -> float | None:
        """Return the sum of some counters; None where any of them is not known."""
        known = [self.totals[name] for name in names if name in self.totals]
        return math.fsum(known) if len(known) == len(names) else None

    def _cores_of(self, time_ns: str) -> float | None:
        """Return how many processors a counter of processor time kept busy over all samples."""
        used_ns, elapsed_ns = self._total(time_ns), self._total("surroundings_ns")
        return None if used_ns is None or not elapsed_ns else used_ns / elapsed_ns

    def _unclaimed_bytes(self) -> float | None:
        """Return what the disks moved beyond what the server asked for; None where unknown."""
        read_bytes, write_bytes = (self._total(f"disk_{way}_bytes") for way in ("read", "write"))
        own_read_bytes = self._total("server_read_bytes")
        wal_bytes = self._total("wal_bytes")
        if None in (read_bytes, write_bytes, own_read_bytes, wal_bytes):
            return None
        # The WAL is written in whole pages: each write begins and ends within one, on the average
        # half a page too early and too late.
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
