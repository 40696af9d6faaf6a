"""The study: what a study file declares, checked and completed with defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec
from msgspec import Meta, field

from seatrial import _core
from seatrial.study.hosts import Hosts
from seatrial.study.layouts.layout import Drives, Layout
from seatrial.study.sampled import SampledWorkload
from seatrial.study.thresholds import Thresholds
from seatrial.study.values import (
    Count,
    CountOrNone,
    Depth,
    PerSecond,
    Seconds,
    SecondsOrNone,
    Share,
    Size,
    StreamArrival,
    Threads,
)
from seatrial.topic import kinds_of_workload

Amount = Annotated[float, Meta(ge=0, le=_core.MODEL_AMOUNT_MAX)]
Rate = Annotated[float, Meta(gt=0, le=_core.MODEL_AMOUNT_MAX)]
Bytes = Annotated[int, Meta(ge=0, le=_core.OFFSET_BYTES_MAX)]


FlashShare = Annotated[float, Meta(gt=0, le=_core.FLASH_OVER_PROVISIONING_SHARE_MAX)]
PageBytes = Annotated[
    int,
    Meta(
        ge=_core.FLASH_PAGE_BYTES_MIN,
        le=_core.FLASH_PAGE_BYTES_MAX,
        multiple_of=_core.FLASH_PAGE_BYTES_MIN,
    ),
]
PagesPerBlock = Annotated[int, Meta(ge=_core.FLASH_BLOCK_PAGES_MIN, le=_core.FLASH_BLOCK_PAGES_MAX)]


class ServiceTime(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A service time: a fixed part and one for each KiB.

    Attributes:
        base_us: The fixed part.
        per_kib_us: For each KiB.
    """

    base_us: Amount
    per_kib_us: Amount = 0.0


class WriteCache(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cache that absorbs writes until it is full.

    Attributes:
        size_bytes: Its capacity.
        hit_us: Time of a write into it.
        drain_bytes_per_s: Rate at which it is drained.
    """

    size_bytes: Bytes
    hit_us: Amount
    drain_bytes_per_s: Rate


class BurstCredit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A burst credit: a rate above it is possible only while credit lasts; one token per request.

    Attributes:
        credit_operations: Initial and maximum number of tokens.
        refill_per_s: Tokens added per second.
    """

    credit_operations: Amount
    refill_per_s: Rate


class FlashTranslation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A flash translation layer: out-of-place page writes, greedy garbage collection.

    Attributes:
        over_provisioning_share: Flash beyond the target's size, as a share of that size.
        page_bytes: Unit of its mapping.
        pages_per_block: Pages that are erased together.
        read_us: Time to read a page, in addition to the read's time.
        program_us: Time to program a page, in addition to the write's time.
        erase_us: Time to erase a block.
    """

    over_provisioning_share: FlashShare = 0.07
    page_bytes: PageBytes = 4096
    pages_per_block: PagesPerBlock = 256
    read_us: Amount = 10.0
    program_us: Amount = 20.0
    erase_us: Amount = 3000.0


class Span(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A span of virtual time from the sample's start.

    Attributes:
        start_s: When it begins.
        length_s: How long it lasts.
    """

    start_s: Amount
    length_s: Amount


class SlowBlockSizes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Block sizes with slower service.

    Attributes:
        from_bytes: Smallest of them.
        to_bytes: Largest of them.
        slowdown_factor: How many times slower.
    """

    from_bytes: Bytes
    to_bytes: Bytes
    slowdown_factor: Amount


class DeviceModel(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A simulated device; all times are virtual.

    It has the keys of ``DeviceModel`` of crates/load/src/sim/model.rs, which reads them. They are
    checked here as well, so that a mistake is reported with its line and before a run starts.

    Attributes:
        channels: Requests served in parallel.
        read: Service time of a read.
        write: Service time of a write.
        sync_us: Service time of a sync.
        noise_share: Scatter: each service time is multiplied by 1 plus an exponential of this mean.
        write_cache: A cache that absorbs writes until it is full.
        burst: A burst credit.
        freezes: Intervals in which nothing completes.
        generator_pauses: Intervals in which the generator, not the device, is paused.
        gaps: Block sizes with slower service.
        error_share: Share of requests that fail.
        errno: Error number of these failures.
        vanishes_at_s: Time from which every request fails with ENODEV; None for never.
        lasting: Whether a sample starts with the cache, credit and flash state of the previous
            sample; otherwise each starts with a fresh device.
        ftl: The flash translation layer, whose garbage collection slows writes.
    """

    channels: Annotated[int, Meta(ge=1, le=_core.CHANNELS_MAX)] = 1
    read: ServiceTime = ServiceTime(base_us=100.0, per_kib_us=0.5)
    write: ServiceTime = ServiceTime(base_us=100.0, per_kib_us=0.5)
    sync_us: Amount = 500.0
    noise_share: Amount = 0.0
    write_cache: WriteCache | None = None
    burst: BurstCredit | None = None
    freezes: list[Span] = field(default_factory=list)
    generator_pauses: list[Span] = field(default_factory=list)
    gaps: list[SlowBlockSizes] = field(default_factory=list)
    error_share: Share = 0.0
    errno: Annotated[int, Meta(ge=1, le=_core.ERRNO_MAX)] = 5
    vanishes_at_s: Amount | None = None
    lasting: bool = False
    ftl: FlashTranslation | None = None

    def as_mapping(self) -> dict[str, object]:
        """Return the differences from the default device, as the engine reads them."""
        mapping: dict[str, object] = msgspec.to_builtins(self)
        return mapping


Weight = Annotated[float, Meta(gt=0, le=1e6)]


class SizeShare(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One size of a distribution.

    Attributes:
        size_bytes: The size (``size``).
        share: Frequency, relative to the other sizes.
    """

    size_bytes: Size = msgspec.field(name="size")
    share: Weight = 1.0


class BurstGroup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Requests of a burst that are evenly spaced.

    Attributes:
        requests: How many.
        spacing_s: Time between two of them (``spacing``).
        pause_s: Time after the last of them (``pause``).
    """

    requests: Count
    spacing_s: SecondsOrNone = field(default=0.0, name="spacing")
    pause_s: SecondsOrNone = field(default=0.0, name="pause")


class Burst(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of the bursts that a stream draws from.

    Attributes:
        groups: What it consists of, in order.
        share: Frequency, relative to the other bursts.
    """

    groups: Annotated[list[BurstGroup], Meta(min_length=1)]
    share: Weight = 1.0


class Stream(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Workers that a line of an access specification has for itself, and when they request.

    Attributes:
        arrival: ``closed``, ``fixed``, ``poisson``, ``batches``, ``poisson_bursts`` (drawn from
            ``bursts``, at random times), or ``think``: a request follows a pause after the one
            before and its sync.
        rate_per_s: Requests per second, for all but ``closed`` and ``think`` (``rate``).
        burst: Mean size of a batch, with ``batches``; requests before each pause, which begins when
            all have ended, with ``think``.
        bursts: What is drawn from, with ``poisson_bursts``.
        pause_s: Mean length of a pause, with ``think`` (``pause``).
        even_pauses: Whether each pause is as long, with ``think``; else they are random
            (exponential).
        threads: Workers.
        depth: Requests that each keeps in flight.
        sync_every: Sync after this many writes of a worker; 0 never does.
    """

    arrival: StreamArrival
    rate_per_s: PerSecond | None = field(default=None, name="rate")
    burst: Count | None = None
    bursts: Annotated[list[Burst], Meta(min_length=1)] | None = None
    pause_s: Seconds | None = field(default=None, name="pause")
    even_pauses: bool = False
    threads: Threads = 1
    depth: Depth = 1
    sync_every: CountOrNone = 0

    def as_mapping(self) -> dict[str, object]:
        """Return the stream as the engine reads it."""
        arrival: dict[str, object] = {"kind": self.arrival}
        for name in ("rate_per_s", "burst", "pause_s"):
            if (value := getattr(self, name)) is not None:
                arrival[name] = value
        if self.bursts is not None:
            arrival["bursts"] = [
                msgspec.structs.asdict(each)
                | {"groups": [msgspec.structs.asdict(group) for group in each.groups]}
                for each in self.bursts
            ]
        if self.even_pauses:
            arrival["is_even"] = True
        return {
            "threads": self.threads,
            "depth": self.depth,
            "arrival": arrival,
            "sync_every": self.sync_every,
        }


class AccessLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of an access specification.

    Attributes:
        share: Frequency, relative to the other lines.
        size_bytes: The only size (``size``); None where ``sizes`` is given.
        sizes: A distribution of sizes.
        read: Share of reads, 0 to 1; the rest are writes.
        random: Share of requests at random offsets, 0 to 1; the rest are sequential.
        align_bytes: Alignment of random requests (``align``); by default their size.
        stream: Workers of its own; without, all lines are mixed in every worker.
    """

    share: Weight = 1.0
    size_bytes: Size | None = msgspec.field(default=None, name="size")
    sizes: Annotated[list[SizeShare], Meta(min_length=1)] | None = None
    read: Share = 1.0
    random: Share = 1.0
    align_bytes: Size | None = msgspec.field(default=None, name="align")
    stream: Stream | None = None

    def distribution(self) -> list[SizeShare]:
        """Return the sizes with their shares, also for a single size."""
        if self.sizes is not None:
            return self.sizes
        return [SizeShare(size_bytes=self.size_bytes)] if self.size_bytes is not None else []

    def alignment_bytes(self, size_bytes: int) -> int:
        """Return the alignment of random requests of one of the sizes."""
        return self.align_bytes or size_bytes


class AccessSpecification(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A named mix.

    Attributes:
        name: Its name in ``mix`` workloads.
        lines: Its parts.
    """

    name: str
    lines: Annotated[list[AccessLine], Meta(min_length=1)]

    def streams(self) -> list[Stream]:
        """Return the streams of the lines, in order; none if the lines are mixed."""
        return [line.stream for line in self.lines if line.stream is not None]

    def read_share(self) -> float:
        """Return the share of reads over all lines, 0 to 1."""
        return sum(line.share * line.read for line in self.lines) / sum(
            line.share for line in self.lines
        )


def _line(percent_by_size: dict[str, float], *, read: float, random: float) -> AccessLine:
    """Return a line of sizes and their percentages."""
    shares = [
        SizeShare(size_bytes=Size.read(size), share=percent)
        for size, percent in percent_by_size.items()
    ]
    if len(shares) == 1:
        return AccessLine(size_bytes=shares[0].size_bytes, read=read, random=random)
    return AccessLine(sizes=shares, read=read, random=random)


_FILE_SERVER_PERCENT: Final = {
    "512": 10.0,
    "1KiB": 5.0,
    "2KiB": 5.0,
    "4KiB": 60.0,
    "8KiB": 2.0,
    "16KiB": 4.0,
    "32KiB": 4.0,
    "64KiB": 10.0,
}
_WEB_SERVER_PERCENT: Final = {
    "512": 22.0,
    "1KiB": 15.0,
    "2KiB": 8.0,
    "4KiB": 23.0,
    "8KiB": 15.0,
    "16KiB": 2.0,
    "32KiB": 6.0,
    "64KiB": 7.0,
    "128KiB": 1.0,
    "512KiB": 1.0,
}

CLASSIC: Final[dict[str, AccessSpecification]] = {
    name: AccessSpecification(name=name, lines=[line])
    for name, line in {
        "database": _line({"8KiB": 100.0}, read=0.67, random=1.0),
        "file-server": _line(_FILE_SERVER_PERCENT, read=0.8, random=1.0),
        "web-server": _line(_WEB_SERVER_PERCENT, read=1.0, random=1.0),
        "workstation": _line({"8KiB": 100.0}, read=0.8, random=0.8),
    }.items()
}
"""The four IOMeter specifications of Intel, used by reviews since 1999.

Sizes and shares as printed by Tom's Hardware ("Storage Charts 2009", IOMeter 2006.07.27). IOMeter
aligns requests to the sector of 512 bytes, the block size of drives at that time; here a request is
aligned to its size, as in databases and file systems.
"""

if TYPE_CHECKING:
    Workload = SampledWorkload
else:
    Workload = kinds_of_workload()
"""Any kind of workload."""

DEFAULT_SEED: Final = 20090220  # publication date of "One DVD per second"
DEFAULT_LABEL: Final = "trial"
DEFAULT_SIZE_BYTES: Final = 1 << 30


class Rounds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often each cell is measured.

    Attributes:
        min: Fewest rounds.
        max: Most rounds.
        precision: A cell is finished when half of its interval is at most this share of its figure.
        remeasure: How often outliers in a table of block sizes and threads are measured again; 0
            for never.
    """

    min: Annotated[int, Meta(ge=1, le=1000)] = 3
    max: Annotated[int, Meta(ge=1, le=1000)] = 10
    precision: Annotated[float, Meta(gt=0, le=1)] = 0.05
    remeasure: Annotated[int, Meta(ge=0, le=1000)] = 2


class Budget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of a run; it ends in order when one of them is reached.

    Attributes:
        time_s: Seconds; None for no limit.
        write_bytes: Bytes written to targets; None for no limit.
    """

    time_s: Seconds | None = None
    write_bytes: Size | None = None


class Target(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is under trial.

    Attributes:
        label: Its name in cells and findings.
        kind: ``auto`` (what the path turns out to be), ``directory``, ``device``, ``file``,
            ``null`` (the engine alone), ``simulated`` or ``database`` (an existing server).
        path: Directory, device or file; empty if the command line specifies it.
        size_bytes: Length of the trial file, or of the part of a device or file that is used
            (``size``); by default 1 GiB in a directory, otherwise the whole device or file.
        model: The simulated device; by default a plain one.
        url: Address of an existing server, without a password; only for a ``database``.
        database: An existing empty database to use, instead of one created for the run.
        pg_bin: Directory of the PostgreSQL programs; by default the newest installed.
    """

    label: str = DEFAULT_LABEL
    kind: Literal["auto", "directory", "device", "file", "null", "simulated", "database"] = "auto"
    path: str = ""
    size_bytes: Size | None = field(default=None, name="size")
    model: DeviceModel = DeviceModel()
    url: str = ""
    database: str = ""
    pg_bin: str = ""

    @property
    def location(self) -> str:
        """Its path or a server's address; empty if not yet given."""
        return self.path or self.url

    @property
    def has_location(self) -> bool:
        """Whether it has a path or an address, or needs none."""
        return bool(self.location) or self.kind in ("null", "simulated")


class Study(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole study file.

    Attributes:
        name: Short name.
        description: What it measures, in a sentence.
        seed: Seed for the order of cells and all addresses.
        rounds: How often each cell is measured.
        budget: Limits of a run.
        targets: What is under trial (``[[target]]``); by default one named ``trial``, or none if
            there are layouts.
        layouts: Arrays that are built, measured and removed (``[[layout]]``).
        drives: Drives of the layouts.
        workloads: Its workloads (``[[workload]]``).
        accesses: Additional access specifications (``[[access]]``).
        thresholds: Requirements for the results.
        hosts: Hosts of a cluster that measure together; None for this machine alone.
    """

    name: Annotated[str, Meta(min_length=1)]
    description: str = ""
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = DEFAULT_SEED
    rounds: Rounds = Rounds()
    budget: Budget = Budget()
    targets: list[Target] = field(default_factory=lambda: [Target()], name="target")
    layouts: list[Layout] = field(default_factory=list, name="layout")
    drives: Drives = Drives()
    workloads: Annotated[list[Workload], Meta(min_length=1)] = field(name="workload")
    accesses: list[AccessSpecification] = field(default_factory=list, name="access")
    thresholds: Thresholds = Thresholds()
    hosts: Hosts | None = None

    @property
    def plain_targets(self) -> list[Target]:
        """The existing targets; if there are layouts, only those with a path."""
        if not self.layouts:
            return self.targets
        return [each for each in self.targets if each.has_location]

    def target(self, label: str) -> Target:
        """Return the target of a label; raises KeyError when there is none."""
        for target in self.targets:
            if target.label == label:
                return target
        raise KeyError(label)
