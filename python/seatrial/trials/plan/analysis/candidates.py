"""Storage that could be bought or rented, found in the catalogue around a need."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from seatrial.catalogue.facts import Instance, Volume
from seatrial.catalogue.units import BytesPerS, Iops, Money, SizeBytes, throughput
from seatrial.catalogue.volumes import (
    Item,
    NoPriceError,
    ProvisionedVolume,
    instance_bill,
    limits_of,
    limits_of_instance,
    monthly_bill,
    total_of,
)
from seatrial.errors import UsageError
from seatrial.study.layouts.layout import LayoutSpec
from seatrial.trials.layouts.analysis.accounting import write_rule
from seatrial.trials.plan.analysis import queueing
from seatrial.trials.plan.analysis.array import LEAST_DRIVES, LEVELS, Array
from seatrial.trials.plan.analysis.demand import Limit
from seatrial.trials.plan.analysis.figure import Figure, exact
from seatrial.units import GIB

if TYPE_CHECKING:
    from seatrial.catalogue.facts import Drive, Instance, LatencyPrior, Volume
    from seatrial.catalogue.store import Catalogue
    from seatrial.trials.layouts.analysis.model import Rule
    from seatrial.trials.plan.analysis.queueing import Service
    from seatrial.trials.plan.analysis.stalls import ObservedStalls

IOPS_STEPS: Final = (0.6, 0.8, 1.0, 1.3, 1.7, 2.5, 5.0)
"""Provisioned IOPS to try, over what the need's busiest slot takes."""
BYTES_STEPS: Final = (0.8, 1.0, 1.5, 2.5)
SIZE_STEPS: Final = (1.0, 1.3, 2.0)
DRIVE_COUNTS: Final = (1, 2, 3, 4, 6, 8, 12)
SHEET_SHARE: Final = Figure(
    low=0.25, mid=0.6, high=1.0, origin="assumed share of a data sheet that lasts"
)
LOCAL_LOST: Final = Figure(
    low=0.01, mid=0.03, high=0.1, origin="assumed: an instance stops and its local disks are lost"
)
NETWORK_GB: Final = 1e9
PAGE_BYTES: Final = 4096
"""A small write, as data sheets count it."""
_P999_Z: Final = 3.09
_SIGMA_MIN: Final = 0.15
_SIGMA_MAX: Final = 1.6


@dataclass(frozen=True, kw_only=True)
class RequestTimes:
    """How long requests take while none has to wait.

    Attributes:
        kind: Kind of storage; candidates of one kind have the same times in a scenario.
        mean_ms: Mean time.
        service: The distribution around it.
        origin: Source of the figures.
        stalls: Times in which nothing is served; None where they are not known.
    """

    kind: str
    mean_ms: Figure
    service: Service
    origin: str
    stalls: ObservedStalls | None = None


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """Storage that could be bought or rented.

    Attributes:
        name: Unique, such as ``r7i.2xlarge + gp3:700GiB:10000:500``.
        kind: ``volume``, ``local`` or ``own``.
        capacity_bytes: What it holds.
        caps: All its limits.
        limits_share: Share of its limits that it delivers for long.
        reads: Times of reads.
        writes: Times of writes.
        bill: Its price a month, by item.
        month: The sum of the bill.
        lost_per_year: Probability of losing what it holds.
        memory_bytes: Memory of its instance; 0 where unknown.
        is_redundant: Whether its data survive the failure of any one drive.
        disk_share: Share of the reads that a cache in front leaves to it; 1 without one.
    """

    name: str
    kind: str
    capacity_bytes: float
    caps: tuple[Limit, ...]
    limits_share: Figure = field(default_factory=lambda: exact(1.0, "as promised"))
    reads: RequestTimes
    writes: RequestTimes
    bill: tuple[Item, ...]
    month: Money
    lost_per_year: Figure
    memory_bytes: float = 0.0
    is_redundant: bool = True
    disk_share: float = 1.0

    @property
    def limits_kind(self) -> str:
        """Key of the draw of ``limits_share``: candidates with the same key share it."""
        return self.limits_share.origin if self.kind == "own" else self.kind


@dataclass(frozen=True, kw_only=True)
class SearchBounds:
    """Bounds of a search.

    Attributes:
        iops: Requests per second in the busiest slot.
        bytes_per_s: Bytes per second in the busiest slot.
        mean_iops: Requests per second on average, for prices per request.
        capacity_bytes: Bytes to be stored in the end.
        write_bytes: Mean size of a write.
        provider: Provider of volumes and instances.
        region: Region of prices; empty for the only one known.
        instances: Names; empty for all with a known price.
        volumes: Names; empty for all with a known price, and for local disks.
        vcpu_min: Processors that the database needs.
        memory_min_bytes: Memory that it needs.
        currency: Currency of the comparison.
    """

    iops: float
    bytes_per_s: float
    capacity_bytes: float
    mean_iops: float = 0.0
    write_bytes: float = PAGE_BYTES
    provider: str = "aws"
    region: str = ""
    instances: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()
    vcpu_min: int = 0
    memory_min_bytes: float = 0.0
    currency: str = "USD"


def rented(
    bounds: SearchBounds, facts: Catalogue, measured: dict[str, RequestTimes]
) -> list[Candidate]:
    """Return volumes on instances, and instances with local disks.

    Args:
        bounds: What the search is bounded by.
        facts: The catalogue.
        measured: Times by kind, such as ``gp3 read``, that a run measured.

    Raises:
        UsageError: when an instance or volume that was named is not known or has no price.
    """
    machines = _instances(bounds, facts)
    volumes = [
        (
            provisioned,
            tuple(monthly_bill(provisioned, facts, bounds.region, bounds.mean_iops)),
        )
        for volume in _volumes(bounds, facts)
        for provisioned in _sizes_and_rates(volume, bounds)
        if _has_price(provisioned, facts, bounds.region)
    ]
    found = [
        _volume_candidate(
            provisioned, lines, instance, item, bounds=bounds, facts=facts, measured=measured
        )
        for instance, item in machines
        for provisioned, lines in volumes
    ]
    for instance, item in machines if not bounds.volumes else ():
        found += _local_candidate(instance, item, bounds, facts, measured)
    return found


def _instances(bounds: SearchBounds, facts: Catalogue) -> list[tuple[Instance, Item]]:
    """Return the instances of a search with their prices."""
    if bounds.instances:
        named = [facts.find("instances", name) for name in bounds.instances]
        known = [each for each in named if isinstance(each, Instance)]
        return [(each, instance_bill(each, facts, bounds.region)) for each in known]
    found = []
    for each in facts.instances.values():
        fits = (each.vcpu or 0) >= bounds.vcpu_min and (
            (each.memory_gib or 0.0) * GIB >= bounds.memory_min_bytes
        )
        if each.provider == bounds.provider and fits:
            try:
                found.append((each, instance_bill(each, facts, bounds.region)))
            except NoPriceError:
                continue
    return found


def _volumes(bounds: SearchBounds, facts: Catalogue) -> list[Volume]:
    if bounds.volumes:
        named = [facts.find("volumes", name.partition(":")[0]) for name in bounds.volumes]
        return [each for each in named if isinstance(each, Volume)]
    return [each for each in facts.volumes.values() if each.provider == bounds.provider]


def _has_price(provisioned: ProvisionedVolume, facts: Catalogue, region: str) -> bool:
    try:
        return bool(monthly_bill(provisioned, facts, region, 0.0))
    except NoPriceError:
        return False


def _sizes_and_rates(volume: Volume, bounds: SearchBounds) -> Iterator[ProvisionedVolume]:
    """Yield a volume in the sizes and rates worth considering for a need."""
    wanted_gib = (max(bounds.capacity_bytes * step / GIB, volume.min_gib) for step in SIZE_STEPS)
    for size_gib in sorted({math.ceil(each) for each in wanted_gib}):
        size = SizeBytes(size_gib * GIB)
        if size > volume.max_gib * GIB:
            continue
        if volume.rule in ("provisioned", "io1"):
            yield from _provisioned_sizes(volume, size, bounds)
        else:
            yield from _if_valid(ProvisionedVolume(volume=volume, size_bytes=size))


def _provisioned_sizes(
    volume: Volume, size: SizeBytes, bounds: SearchBounds
) -> Iterator[ProvisionedVolume]:
    least = max(volume.free_iops, volume.base_iops, 100.0)
    most = min(volume.max_iops, volume.iops_per_gib_max * size / GIB)
    amounts = {
        max(least, min(most, math.ceil(bounds.iops * step / 100) * 100)) for step in IOPS_STEPS
    }
    has_provisioned_throughput = volume.mib_s_bought and volume.rule == "provisioned"
    one = throughput(1, volume.throughput_unit)
    for iops in sorted({least, *amounts}):
        highest = min(volume.max_mib_s, volume.mib_s_per_iops * iops)
        steps = {
            max(volume.free_mib_s, min(highest, math.ceil(bounds.bytes_per_s * step / one / 5) * 5))
            for step in BYTES_STEPS
        }
        for mib_s in sorted({volume.free_mib_s, *steps}) if has_provisioned_throughput else [0.0]:
            given = BytesPerS(mib_s * one) if mib_s > 0 and has_provisioned_throughput else None
            yield from _if_valid(
                ProvisionedVolume(
                    volume=volume, size_bytes=size, iops=Iops(iops), bytes_per_s=given
                )
            )


def _if_valid(provisioned: ProvisionedVolume) -> Iterator[ProvisionedVolume]:
    try:
        limits_of(provisioned)
    except UsageError:
        return
    yield provisioned


def _volume_candidate(
    provisioned: ProvisionedVolume,
    lines: tuple[Item, ...],
    instance: Instance,
    item: Item,
    *,
    bounds: SearchBounds,
    facts: Catalogue,
    measured: dict[str, RequestTimes],
) -> Candidate:
    volume = provisioned.volume
    bill = (*lines, item)
    low, high = volume.afr_percent_low, volume.afr_percent_high
    lost = (
        Figure(
            low=low / 100,
            mid=math.sqrt(low * high) / 100,
            high=high / 100,
            origin=volume.origin(facts.today),
        )
        if low is not None and high is not None
        else Figure(low=0.001, mid=0.002, high=0.01, origin="assumed")
    )
    return Candidate(
        name=f"{instance.instance} + {provisioned.name}",
        kind="volume",
        capacity_bytes=float(provisioned.size_bytes),
        caps=(*_volume_limits(provisioned), *_instance_limits(instance)),
        reads=_request_times(volume.volume, "read", facts, measured),
        writes=_request_times(volume.volume, "write", facts, measured),
        bill=bill,
        month=facts.in_currency(total_of(list(bill)), bounds.currency),
        lost_per_year=lost,
        memory_bytes=(instance.memory_gib or 0.0) * GIB,
    )


def _volume_limits(provisioned: ProvisionedVolume) -> list[Limit]:
    limits = limits_of(provisioned)
    subject = f"volume {provisioned.name}"
    slice_s = provisioned.volume.slice_ms / 1000
    return [
        *(
            Limit(
                subject=subject,
                quantity="IOPS",
                per_s=per_s,
                bucket=limits.iops_bucket,
                operation=operation,
                unit_bytes=limits.unit_bytes,
                merges=limits.merges,
                slice_s=slice_s,
            )
            for operation, per_s in limits.iops_by_operation.items()
        ),
        Limit(
            subject=subject,
            quantity="throughput",
            per_s=limits.bytes_per_s,
            bucket=limits.bytes_bucket,
            unit_bytes=limits.unit_bytes,
            merges=limits.merges,
            slice_s=slice_s,
        ),
    ]


def _instance_limits(instance: Instance) -> list[Limit]:
    limits = limits_of_instance(instance)
    subject = f"instance {instance.instance}"
    return [
        Limit(subject=subject, quantity="IOPS", per_s=limits.iops, bucket=limits.iops_bucket),
        Limit(
            subject=subject,
            quantity="throughput",
            per_s=limits.bytes_per_s,
            bucket=limits.bytes_bucket,
        ),
    ]


def _local_candidate(
    instance: Instance,
    item: Item,
    bounds: SearchBounds,
    facts: Catalogue,
    measured: dict[str, RequestTimes],
) -> Iterator[Candidate]:
    """Yield an instance with its local disks, where it has some and their rates are known."""
    family = instance.instance.partition(".")[0]
    known = next(
        (
            each
            for each in facts.local_disks.values()
            if each.provider == instance.provider and family in each.families.split()
        ),
        None,
    )
    if known is None or not instance.local_disks or instance.local_disk_type != "nvme":
        return
    capacity_bytes = instance.local_disks * instance.local_disk_gb * NETWORK_GB
    reads = known.read_iops_per_gib * capacity_bytes / GIB
    cost = known.read_iops_per_gib / known.write_iops_per_gib
    yield Candidate(
        name=f"{instance.instance} + local NVMe",
        kind="local",
        capacity_bytes=capacity_bytes,
        caps=(
            Limit(
                subject=f"local NVMe of {instance.instance}",
                quantity="IOPS",
                per_s=reads,
                # Their throughput is not known: what they read is counted in the 4 KiB of their
                # rate.
                unit_bytes=PAGE_BYTES,
                writes_cost=cost,
            ),
        ),
        reads=_local_times(family, facts, measured),
        writes=_local_times(family, facts, measured),
        bill=(item,),
        month=facts.in_currency(item.money, bounds.currency),
        lost_per_year=LOCAL_LOST,
        memory_bytes=(instance.memory_gib or 0.0) * GIB,
        is_redundant=False,
    )


def _local_times(family: str, facts: Catalogue, measured: dict[str, RequestTimes]) -> RequestTimes:
    """Return times of local disks, by the generation in the family's name; writes as reads."""
    generation = next((sign for sign in family if sign.isdigit()), "5")
    named = f"local NVMe, {generation}th generation"
    known = any(each.device == named for each in facts.latencies.values())
    return _request_times(named if known else "local NVMe, 5th generation", "read", facts, measured)


def _request_times(
    device: str, operation: str, facts: Catalogue, measured: dict[str, RequestTimes]
) -> RequestTimes:
    """Return times of requests: measured, or else the prior of the catalogue."""
    if f"{device} {operation}" in measured:
        return measured[f"{device} {operation}"]
    own = [
        each
        for each in facts.latencies.values()
        if each.op == operation and (device == each.device or device in each.device.split())
    ]
    if own:
        return prior_times(own[0], facts)
    wide = Figure(low=0.3, mid=1.5, high=8.0, origin="assumed")
    return RequestTimes(
        kind=f"{device} {operation}", mean_ms=wide, service=_log_normal(0.8), origin="assumed"
    )


def prior_times(prior: LatencyPrior, facts: Catalogue) -> RequestTimes:
    """Return times by the catalogue: log-normal, one request in a thousand at its maximum."""
    origin = prior.origin(facts.today)
    highest = prior.max_ms or prior.high_ms * 4
    sigma = _log_normal_sigma(highest / prior.mid_ms)
    return RequestTimes(
        kind=prior.key,
        mean_ms=Figure(low=prior.low_ms, mid=prior.mid_ms, high=prior.high_ms, origin=origin),
        service=_log_normal(sigma),
        origin=origin,
    )


def _log_normal_sigma(ratio: float) -> float:
    """Return the sigma of a log-normal from the ratio of 99.9th percentile and mean."""
    wanted = math.log(max(ratio, 1.01))
    under = _P999_Z**2 - 2 * wanted
    sigma = _P999_Z - math.sqrt(under) if under > 0 else _SIGMA_MAX
    return min(max(round(sigma, 1), _SIGMA_MIN), _SIGMA_MAX)


@functools.cache
def _log_normal(sigma: float) -> Service:
    return queueing.log_normal(sigma)


@dataclass(frozen=True, kw_only=True)
class OwnDrive:
    """A drive that could be bought.

    Attributes:
        name: Its model.
        drive_bytes: Its size.
        read_iops: By its data sheet, 4 KiB.
        write_iops: Likewise.
        read_bytes_per_s: Likewise; infinite where it does not say.
        write_bytes_per_s: Likewise; as reads where it does not say.
        price: Price of one drive.
        power_w: Power under load.
        reads: Times of reads.
        writes: Times of writes.
        limits_share: Share of its data sheet that lasts.
    """

    name: str
    drive_bytes: float
    read_iops: float
    write_iops: float
    read_bytes_per_s: float
    write_bytes_per_s: float
    price: Money
    power_w: float
    reads: RequestTimes
    writes: RequestTimes
    limits_share: Figure = SHEET_SHARE


def own_drive(sheet: Drive, drive_bytes: float, price: Money, facts: Catalogue) -> OwnDrive:
    """Return a drive by its data sheet.

    Raises:
        UsageError: when the sheet lacks its rates.
    """
    if not sheet.read_iops_4k or not sheet.write_iops_4k:
        raise UsageError(
            seen=f"The catalogue has no IOPS for {sheet.key}",
            cause="Its data sheet does not state them",
            next_step=f"Set them: `seatrial catalogue set drives/{sheet.key} read_iops_4k=90000 "
            "write_iops_4k=30000`",
        )
    origin = sheet.origin(facts.today)
    mean_ms = {
        "read": (sheet.read_latency_us or 150.0) / 1000,
        "write": (sheet.write_latency_us or 60.0) / 1000,
    }
    times = {
        operation: RequestTimes(
            kind=f"{sheet.key} {operation}",
            mean_ms=Figure(low=value * 0.7, mid=value, high=value * 3, origin=origin),
            service=_log_normal(1.0),
            origin=f"{origin}, a data sheet",
        )
        for operation, value in mean_ms.items()
    }
    return OwnDrive(
        name=sheet.model,
        drive_bytes=drive_bytes,
        read_iops=sheet.read_iops_4k,
        write_iops=sheet.write_iops_4k,
        read_bytes_per_s=(sheet.read_mb_s or math.inf) * 1e6,
        write_bytes_per_s=(sheet.write_mb_s or sheet.read_mb_s or math.inf) * 1e6,
        price=price,
        power_w=sheet.active_w or 10.0,
        reads=times["read"],
        writes=times["write"],
    )


def arrays_of(bounds: SearchBounds, drive: OwnDrive) -> list[Array]:
    """Return the arrays of a drive that hold the capacity."""
    found = []
    for level in LEVELS:
        for drives in DRIVE_COUNTS:
            is_odd = level == "raid10" and drives % 2
            if drives < LEAST_DRIVES[level] or (level == "raid1" and drives > 2) or is_odd:
                continue
            array = Array(level=level, drives=drives, drive_bytes=drive.drive_bytes)
            if array.usable_bytes >= bounds.capacity_bytes:
                found.append(array)
    return found


def own_arrays(
    arrays: Sequence[tuple[Array, Figure]],
    drive: OwnDrive,
    *,
    months: float,
    kwh: Money | None,
    write_bytes: float = PAGE_BYTES,
) -> list[Candidate]:
    """Return own drives in arrays, each with its probability of loss in a year.

    Args:
        arrays: Each with that probability (seatrial.trials.plan.analysis.risk).
        drive: The drive.
        months: Lifetime that its price is divided by.
        kwh: Price of a kWh; None to leave power out.
        write_bytes: Mean size of a write.
    """
    return [
        _own_candidate(array, lost, drive, months=months, kwh=kwh, write_bytes=write_bytes)
        for array, lost in arrays
    ]


def _own_candidate(
    array: Array,
    lost: Figure,
    drive: OwnDrive,
    *,
    months: float,
    kwh: Money | None,
    write_bytes: float,
) -> Candidate:
    count = array.drives
    lines = [
        Item(
            what=f"{count} {drive.name} over {months:g} months",
            amount=count,
            unit="drive",
            money=drive.price.times(count / months),
            origin="typed",
        )
    ]
    if kwh is not None:
        used = drive.power_w * count * 730 / 1000
        lines.append(
            Item(what="power", amount=used, unit="kWh", money=kwh.times(used), origin="typed")
        )
    name = f"{array.level} of {count} {drive.name}" if count > 1 else f"1 {drive.name}"
    return Candidate(
        name=name,
        kind="own",
        capacity_bytes=array.usable_bytes,
        caps=(
            Limit(
                subject=name,
                quantity="IOPS",
                per_s=drive.read_iops * count,
                # Without a throughput in the data sheet, bytes count in the 4 KiB of its rate.
                unit_bytes=0 if math.isfinite(drive.read_bytes_per_s) else PAGE_BYTES,
                writes_cost=_ios_of_write(array, drive.read_iops / drive.write_iops),
            ),
            Limit(
                subject=name,
                quantity="throughput",
                per_s=drive.read_bytes_per_s * count,
                writes_cost=_bytes_of_write(array, _write_slowdown(drive), write_bytes),
            ),
        ),
        limits_share=drive.limits_share,
        reads=drive.reads,
        writes=drive.writes,
        bill=tuple(lines),
        month=total_of(lines),
        lost_per_year=lost,
        is_redundant=array.groups.tolerated > 0,
    )


def _write_slowdown(drive: OwnDrive) -> float:
    """Return how much longer a byte takes to write than to read; 1 where neither is limited."""
    is_known = math.isfinite(drive.read_bytes_per_s)
    return drive.read_bytes_per_s / drive.write_bytes_per_s if is_known else 1.0


def _ios_of_write(array: Array, write_slowdown: float) -> float:
    """Return the cost of a small write with md's rules, in reads of a drive.

    Args:
        array: The array.
        write_slowdown: How many reads take as long as one write.
    """
    rule = _write_rule(array, PAGE_BYTES)
    assert rule.reads is not None  # noqa: S101 - of a page it is always known
    assert rule.writes is not None  # noqa: S101 - likewise
    return rule.reads + rule.writes * write_slowdown


def _bytes_of_write(array: Array, write_slowdown: float, write_bytes: float) -> float:
    """Return the cost of a written byte in bytes read; full stripes cost less.

    Args:
        array: The array.
        write_slowdown: How much longer a byte takes to write than to read.
        write_bytes: Mean size of a write.
    """
    pages = max(1, math.ceil(write_bytes / PAGE_BYTES))
    rule = _write_rule(array, pages * PAGE_BYTES)
    return rule.read_bytes + rule.write_bytes * write_slowdown


def _write_rule(array: Array, size_bytes: int) -> Rule:
    spec = LayoutSpec(label="a", name="a", backend="md", level=array.level, drives=array.drives)
    rule = write_rule(spec, size_bytes, PAGE_BYTES)
    assert rule is not None  # noqa: S101 - md's rules know whole pages
    return rule
