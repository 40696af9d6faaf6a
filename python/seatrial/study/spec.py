"""The specification of one cell as a structure; docs/engine.md describes its keys for the engine.

A cell stores it as the JSON document for the engine and the results file. The defaults here apply
to what a document omits, as for imported results.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class SpecTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The target of requests.

    Attributes:
        kind: ``file`` (also block devices), ``directory`` (of a topic's own files), ``database``,
            ``null`` or ``simulated``.
        path: Path opened by a run.
        file: Name of one of ``Plan.files``.
        size_bytes: Size of the file, or of the used part of a device; None if unknown.
        direct: Whether requests use direct I/O.
        dsync: Whether each write is durable before it completes.
        copy_to: Name of the file in ``Plan.files`` that copies are written to.
    """

    kind: str = ""
    path: str | None = None
    file: str | None = None
    size_bytes: int | None = None
    direct: bool = True
    dsync: bool = False
    copy_to: str | None = None


class SpecRange(msgspec.Struct, frozen=True, kw_only=True):
    """The used range of the target; ``length_bytes`` is None if unknown."""

    start_bytes: int = 0
    length_bytes: int | None = None


class SpecSize(msgspec.Struct, frozen=True, kw_only=True):
    """One of the block sizes of an access."""

    bytes: int
    weight: float = 1


class SpecAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Offsets within the range; ``kind`` is empty if unknown."""

    kind: str = ""
    stride_bytes: int = 0
    theta: float | None = None
    hot_share: float | None = None
    hot_access_share: float | None = None
    over_provisioning_share: float | None = None


class SpecAccess(msgspec.Struct, frozen=True, kw_only=True):
    """Requests of one kind, and their weight among all."""

    operation: str = ""
    weight: float = 1
    sizes: list[SpecSize] = []
    align_bytes: int | None = None
    address: SpecAddress = SpecAddress()
    stream: int = 0


class SpecBurstGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Requests of a burst, so far apart, and the pause after them."""

    requests: int = 1
    spacing_s: float = 0.0
    pause_s: float = 0.0


class SpecBurst(msgspec.Struct, frozen=True, kw_only=True):
    """One of the bursts that ``poisson_bursts`` draws from."""

    groups: list[SpecBurstGroup] = []


class SpecArrival(msgspec.Struct, frozen=True, kw_only=True):
    """The arrival schedule.

    Attributes:
        kind: ``closed``, ``fixed``, ``poisson``, ``bursts``, ``batches``, or ``streams``, where
            each has its own; of a stream also ``poisson_bursts`` and ``think``, the latter also of
            a job of fio that waits or has a limit; empty if unknown.
        rate_per_s: Total over all threads.
        burst: Number of requests due at once; of ``batches`` the mean.
        bursts: Those of ``poisson_bursts``, each at one thread.
    """

    kind: str = ""
    rate_per_s: float | None = None
    burst: int | None = None
    bursts: list[SpecBurst] = []

    @property
    def is_closed(self) -> bool:
        """Whether a request waits for the previous one, as far as known."""
        return self.kind == "closed"

    @property
    def is_scheduled(self) -> bool:
        """Whether requests follow a schedule, as far as known."""
        return self.kind not in ("", "closed", "think")


class SpecStream(msgspec.Struct, frozen=True, kw_only=True):
    """A load next to others; accesses name it by its number.

    Attributes:
        threads: Workers.
        depth: Requests that each keeps in flight.
        arrival: The schedule.
        sync_every: Number of writes of a worker per sync; 0 for none.
    """

    threads: int = 1
    depth: int = 1
    arrival: SpecArrival = SpecArrival()
    sync_every: int = 0

    @property
    def slots(self) -> int:
        """Requests that may be in flight."""
        return self.threads * self.depth


class SpecData(msgspec.Struct, frozen=True, kw_only=True):
    """The written data; ``share`` of it is compressible."""

    kind: str = "random"
    share: float | None = None


class SpecLimit(msgspec.Struct, frozen=True, kw_only=True):
    """When a sample ends: whichever comes first; None for no or an unknown limit."""

    duration_s: float | None = None
    bytes: int | None = None
    operations: int | None = None


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """The specification of one cell.

    Attributes:
        streams: Loads next to each other; empty for one load.
        sync_every: Number of writes of a worker per sync; 0 for none.
        verify: Whether reads are verified against the written data.
        slice_ms: Length of a slice of the timeline.
        stall_threshold_ms: Duration of a request from which it is a stall.
        fail: Injected faults, as in the study.
        rebuild_limit_kib_per_s: Rebuild rate limit; 0 for the kernel's default.
        fio_options: For results measured by fio.
        database: Specification of a database cell, read by its topic; None for other cells.
    """

    target: SpecTarget = SpecTarget()
    range: SpecRange = SpecRange()
    accesses: list[SpecAccess] = []
    engine: str = "auto"
    arrival: SpecArrival = SpecArrival()
    streams: list[SpecStream] = []
    sync_every: int = 0
    sync_kind: str = "fdatasync"
    data: SpecData = SpecData()
    verify: bool = False
    limit: SpecLimit = SpecLimit()
    slice_ms: int = 100
    stall_threshold_ms: int = 50
    iopoll: bool = False
    fail: list[Mapping[str, object]] = []
    rebuild_limit_kib_per_s: int = 0
    fio_options: Mapping[str, str] | None = None
    database: Mapping[str, object] | None = None

    @property
    def duration_s(self) -> float:
        """The planned duration of a sample; 0 if unknown."""
        return self.limit.duration_s or 0.0

    @property
    def is_scheduled(self) -> bool:
        """Whether requests follow a schedule, those of one of several streams at least."""
        if self.streams:
            return any(stream.arrival.is_scheduled for stream in self.streams)
        return self.arrival.is_scheduled

    @property
    def limits_rate(self) -> bool:
        """Whether a load next to no other was slower than its target could be, as far as known."""
        arrivals = [each.arrival for each in self.streams] or [self.arrival]
        return all(each.is_scheduled or each.kind == "think" for each in arrivals)

    @property
    def has_syncs(self) -> bool:
        """Whether workers sync after writes; rates of requests leave these syncs out."""
        return self.sync_every > 0 or any(stream.sync_every > 0 for stream in self.streams)

    @property
    def address_kinds(self) -> set[str]:
        """The address patterns of all accesses."""
        return {access.address.kind for access in self.accesses}
