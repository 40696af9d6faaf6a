"""The facts of the catalogue: a structure for each table, every row with source and date."""

from __future__ import annotations

import datetime
import re
from typing import Annotated, ClassVar, Final, Literal

import msgspec

OLD_DAYS: Final = 365
"""A fact that is older is marked."""
DAYS_PER_YEAR: Final = 365.25

Confidence = Literal["high", "medium", "low"]
"""``high``: a provider's own text or interface; ``medium``: second hand, or several sources that
agree; ``low``: a maximum only, from memory, few cases, or sources that differ."""

Amount = Annotated[float, msgspec.Meta(ge=0, le=1e18)]
Figure = Annotated[float, msgspec.Meta(gt=0, le=1e18)]
Limit = Annotated[float, msgspec.Meta(gt=0)]
"""The most of something; infinite for none."""
Count = Annotated[int, msgspec.Meta(ge=0)]
Percent = Annotated[float, msgspec.Meta(ge=0, le=100)]

_DATE: Final = re.compile(r"(\d{4})(?:-(\d\d))?(?:-(\d\d))?")


class Fact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A row.

    Attributes:
        source: Where it is from.
        as_of: Year, month or day of the source.
        dated: Whether the source has that date, or whether that is when it was read.
        confidence: How far it is to be believed.
        contradicted: What another source says instead; empty where none is known.
        note: What its columns leave open.
        typed: Whether figures of the user are in it.
    """

    NAMED_BY: ClassVar[tuple[str, ...]]

    source: str
    as_of: str
    dated: Literal["source", "read"] = "source"
    confidence: Confidence
    contradicted: str = ""
    note: str = ""
    typed: bool = False

    def __post_init__(self) -> None:
        """Refuse a row without source or date; raises ValueError."""
        if not self.source.strip():
            raise ValueError("source is empty")
        first_day(self.as_of)

    @property
    def key(self) -> str:
        """Return what names the row within its table: the columns of ``NAMED_BY``."""
        return "/".join(getattr(self, name) for name in self.NAMED_BY)

    def is_old(self, today: datetime.date) -> bool:
        """Return whether it may be older than a year."""
        return (today - first_day(self.as_of)).days > OLD_DAYS

    def origin(self, today: datetime.date) -> str:
        """Return where it is from in a few words, such as ``catalogue, 2024-07, old``."""
        words = [f"typed, {self.as_of}" if self.typed else f"catalogue, {self.as_of}"]
        words += ["old"] * self.is_old(today) + ["contradicted"] * bool(self.contradicted)
        words += ["low confidence"] * (self.confidence == "low")
        return ", ".join(words)


def first_day(as_of: str) -> datetime.date:
    """Return the first day that a date may mean: of ``2024`` or ``2024-07``, the first day of it.

    Raises:
        ValueError: when it is not a date.
    """
    found = _DATE.fullmatch(as_of)
    if not found:
        raise ValueError(f"as_of is {as_of!r}, not a date such as 2026, 2026-07 or 2026-07-31")
    return datetime.date(int(found[1]), int(found[2] or 1), int(found[3] or 1))


def _check_above_0(**fields: float) -> None:
    for name, value in fields.items():
        if not 0 < value < float("inf"):
            raise ValueError(f"{name} is {value:g}, but must be above 0")


class Volume(Fact, frozen=True, kw_only=True):
    """A network volume: which IOPS and throughput it gives for its size and for what was bought.

    Attributes:
        provider: Such as ``aws``.
        volume: Such as ``gp3``.
        rule: What its limits follow from (seatrial.catalogue.volumes).
        min_gib: The least size.
        max_gib: The largest size.
        base_iops: What it has whatever its size.
        free_iops: What is included in its price.
        iops_per_gib: What it has for each GiB.
        iops_per_gib_write: Likewise for writes where they differ.
        iops_per_gib_max: The most that can be bought for each GiB.
        max_iops: The most that it can have.
        throughput_unit: What ``mib_s`` in the names of this row means.
        base_mib_s: What it has whatever its size.
        free_mib_s: What is included in its price.
        mib_s_per_gib: What it has for each GiB.
        mib_s_per_tib: Likewise for each TiB.
        mib_s_per_iops: The most for each of its IOPS.
        mib_s_bought: Whether throughput is bought, or follows from IOPS.
        iops_per_mib_s: IOPS that follow from throughput.
        max_mib_s: The most that it can have.
        burst_iops: What it gives while credits last.
        burst_credits: Requests above its base rate that a full bucket holds.
        burst_s: How long a full bucket lasts at the highest rate.
        burst_mib_s: What it gives while credits last.
        burst_mib_s_per_tib: Likewise for each TiB.
        burst_mib_per_tib: MiB above its base rate that a full bucket holds, for each TiB.
        io_unit_kib: What counts as one request; a larger one counts as several.
        slice_ms: Its limits are given out in slices of this length: what a slice allows may be
            used at once. The default is assumed, as no provider states it.
        afr_percent_low: The least share of volumes that the provider says fail in a year.
        afr_percent_high: The largest.
        performance_claim: What the provider says about keeping its limits.
        iops_rule: The rule of IOPS, as the source words it.
        throughput_rule: Likewise of throughput.
        burst_rule: Likewise of bursts.
    """

    NAMED_BY = ("provider", "volume")

    provider: str
    volume: str
    rule: Literal[
        "provisioned", "io1", "gp2", "throughput", "tier", "linear", "fixed", "by-throughput"
    ]
    min_gib: Amount = 0.0
    max_gib: Limit = float("inf")
    base_iops: Amount = 0.0
    free_iops: Amount = 0.0
    iops_per_gib: Amount = 0.0
    iops_per_gib_write: Amount = 0.0
    iops_per_gib_max: Limit = float("inf")
    max_iops: Limit = float("inf")
    throughput_unit: Literal["MiB/s", "MB/s"]
    base_mib_s: Amount = 0.0
    free_mib_s: Amount = 0.0
    mib_s_per_gib: Amount = 0.0
    mib_s_per_tib: Amount = 0.0
    mib_s_per_iops: Limit = float("inf")
    mib_s_bought: bool = True
    iops_per_mib_s: Amount = 0.0
    max_mib_s: Limit = float("inf")
    burst_iops: Amount = 0.0
    burst_credits: Amount = 0.0
    burst_s: Amount = 0.0
    burst_mib_s: Amount = 0.0
    burst_mib_s_per_tib: Amount = 0.0
    burst_mib_per_tib: Amount = 0.0
    io_unit_kib: Amount = 0.0
    slice_ms: Figure = 10.0
    afr_percent_low: Percent | None = None
    afr_percent_high: Percent | None = None
    performance_claim: str = ""
    iops_rule: str = ""
    throughput_rule: str = ""
    burst_rule: str = ""


class Price(Fact, frozen=True, kw_only=True):
    """What one unit of something costs a month.

    Attributes:
        provider: Such as ``aws``.
        item: Volume or instance.
        component: Component of its bill, such as ``capacity`` or ``iops``; ``iops from 32001`` is a
            step.
        unit: What the price is for.
        low: The least of several sources.
        mid: The price.
        high: The most of several sources.
        currency: Such as ``USD``.
        region: Where it holds.
    """

    NAMED_BY = ("provider", "item", "component", "region")

    provider: str
    item: str
    component: str
    unit: Literal[
        "GiB-month", "IOPS-month", "MiB/s-month", "MB/s-month", "million requests", "month"
    ]
    low: float
    mid: float
    high: float
    currency: str
    region: str

    def __post_init__(self) -> None:
        """Refuse what is not a price; raises ValueError."""
        super().__post_init__()
        if not 0 <= self.low <= self.mid <= self.high < float("inf"):
            raise ValueError("low, mid and high are not a price: 0 <= low <= mid <= high is needed")
        if not re.fullmatch("[A-Z]{3}", self.currency):
            raise ValueError(f"currency is {self.currency!r}, not a code such as USD")


class Instance(Fact, frozen=True, kw_only=True):
    """What a virtual machine carries to its network volumes, and its local disks.

    Attributes:
        provider: Such as ``aws``.
        instance: Such as ``r7i.2xlarge``.
        path: To which volumes.
        vcpu: Processors.
        memory_gib: Memory.
        base_iops: What it can sustain.
        base_mb_s: Likewise, in MB/s.
        burst_iops: What it carries while its credits last.
        burst_mb_s: Likewise, in MB/s.
        burst_min_per_day: How long that is at least, of 24 hours.
        local_disks: How many.
        local_disk_gb: Size of each.
        local_disk_type: Such as ``nvme``.
        local_iops: IOPS of all of them together.
        local_mb_s: Likewise, in MB/s.
    """

    NAMED_BY = ("provider", "instance")

    provider: str
    instance: str
    path: str = ""
    vcpu: Count | None = None
    memory_gib: Figure | None = None
    base_iops: float
    base_mb_s: float
    burst_iops: Figure | None = None
    burst_mb_s: Figure | None = None
    burst_min_per_day: Amount = 0.0
    local_disks: Count = 0
    local_disk_gb: Amount = 0.0
    local_disk_type: str = ""
    local_iops: Figure | None = None
    local_mb_s: Figure | None = None

    def __post_init__(self) -> None:
        """Refuse limits that no load can keep; raises ValueError."""
        super().__post_init__()
        _check_above_0(base_iops=self.base_iops, base_mb_s=self.base_mb_s)


class LocalDisk(Fact, frozen=True, kw_only=True):
    """What local disks of families of instances give for their size.

    Attributes:
        provider: Such as ``aws``.
        families: With blanks between.
        read_iops_per_gib: Reads of 4 KiB per second.
        write_iops_per_gib: Writes likewise.
    """

    NAMED_BY = ("provider", "families")

    provider: str
    families: str
    read_iops_per_gib: float
    write_iops_per_gib: float

    def __post_init__(self) -> None:
        """Refuse rates that cannot be; raises ValueError."""
        super().__post_init__()
        _check_above_0(
            read_iops_per_gib=self.read_iops_per_gib, write_iops_per_gib=self.write_iops_per_gib
        )


class LatencyPrior(Fact, frozen=True, kw_only=True):
    """How long a request is thought to take; a measurement replaces it.

    Attributes:
        device: Which volumes or disks, with blanks between.
        op: ``read`` or ``write``.
        low_ms: What it takes at least on average.
        mid_ms: What it takes on average.
        high_ms: What it takes at most on average.
        min_ms: What one request takes at least.
        max_ms: What one request takes at most.
    """

    NAMED_BY = ("device", "op")

    device: str
    op: Literal["read", "write"]
    low_ms: float
    mid_ms: float
    high_ms: float
    min_ms: float | None = None
    max_ms: float | None = None

    def __post_init__(self) -> None:
        """Refuse times that are not an interval; raises ValueError."""
        super().__post_init__()
        if not 0 < self.low_ms <= self.mid_ms <= self.high_ms < float("inf"):
            raise ValueError("0 < low_ms <= mid_ms <= high_ms is needed")


def rated_bytes(writes_per_day: float, size_bytes: float) -> float:
    """Return what a drive may be written by its drive writes per day.

    They are those of five years (JEDEC JESD218: over the warranty).
    """
    return writes_per_day * size_bytes * 5 * DAYS_PER_YEAR


class Drive(Fact, frozen=True, kw_only=True):
    """A data sheet; its key has the capacity where a model has several rows.

    Attributes:
        vendor: Such as ``Samsung``.
        model: Such as ``PM9A3``.
        class_: Such as ``NVMe TLC``.
        interface: Such as ``PCIe 4 U.2``.
        capacity_gb: Decimal.
        read_iops_4k: Random reads per second.
        write_iops_4k: Random writes per second.
        read_mb_s: Sequential, MB/s.
        write_mb_s: Likewise.
        read_latency_us: Typical.
        write_latency_us: Typical.
        dwpd_low: Drive writes per day, the least over capacities.
        dwpd_high: The most.
        tbw_tb: Terabytes that may be written.
        workload_tb_year: Terabytes that may be read and written in a year.
        power_loss_protection: As the data sheet says.
        active_w: Power.
        idle_w: Power.
        mtbf_million_h: As the data sheet says; field failures are three times as many.
        ube_max: Unreadable bits per bit read, at most.
    """

    NAMED_BY = ("vendor", "model")

    vendor: str
    model: str
    class_: str = msgspec.field(name="class")
    interface: str = ""
    capacity_gb: Figure | None = None
    read_iops_4k: Figure | None = None
    write_iops_4k: Figure | None = None
    read_mb_s: Figure | None = None
    write_mb_s: Figure | None = None
    read_latency_us: Figure | None = None
    write_latency_us: Figure | None = None
    dwpd_low: Amount | None = None
    dwpd_high: Amount | None = None
    tbw_tb: Amount | None = None
    workload_tb_year: Amount | None = None
    power_loss_protection: str = ""
    active_w: Amount | None = None
    idle_w: Amount | None = None
    mtbf_million_h: Figure | None = None
    ube_max: Figure | None = None

    @property
    def key(self) -> str:
        """Return vendor, model, and the capacity where a model has several rows."""
        return super().key + (f"/{self.capacity_gb:g}GB" if self.capacity_gb else "")


class FieldFailures(Fact, frozen=True, kw_only=True):
    """How many drives of a model failed in a fleet.

    Attributes:
        model: In lower case.
        capacity_gb: Decimal.
        drives: How many there were.
        drive_days: Days in service, of all together.
        failures: How many failed.
    """

    NAMED_BY = ("model",)

    model: str
    capacity_gb: float | None = None
    drives: int
    drive_days: int
    failures: int

    def __post_init__(self) -> None:
        """Refuse counts that cannot be; raises ValueError."""
        super().__post_init__()
        if self.drive_days <= 0 or self.failures < 0:
            raise ValueError("drive_days is not above 0, or failures is below 0")

    @property
    def drive_years(self) -> float:
        """Years in service, of all drives together."""
        return self.drive_days / DAYS_PER_YEAR


class Exchange(Fact, frozen=True, kw_only=True):
    """How much of one currency another one costs; only a user types it.

    Attributes:
        of: The currency that is exchanged.
        to: The currency that it is exchanged for.
        ratio: Units of ``to`` in one ``of``.
    """

    NAMED_BY = ("of", "to")

    of: str
    to: str
    ratio: float

    def __post_init__(self) -> None:
        """Refuse what is not a rate; raises ValueError."""
        super().__post_init__()
        _check_above_0(ratio=self.ratio)
