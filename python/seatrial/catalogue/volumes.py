"""What a volume gives for its size and what was bought, and what it costs a month.

Each limit has one of a few shapes (``Volume.rule``): bought above a free part, with the most for
each GiB and the throughput bounded by IOPS; proportional to the size; a step; or constant. A burst
is a bucket: a rate while credits last, refilled at the base rate.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

from seatrial.catalogue.facts import Instance, Price, Volume
from seatrial.catalogue.store import ANY, Catalogue
from seatrial.catalogue.units import (
    HOURS_PER_MONTH,
    BytesPerS,
    Iops,
    Money,
    SizeBytes,
    gib,
    throughput,
)
from seatrial.errors import UsageError
from seatrial.study.units import parse_size_bytes
from seatrial.units import DAY_S, GIB, KIB, TIB

IO1_STEP_IOPS: Final = 32_000
IO1_LOW_MIB_S: Final = 500
IO1_HIGH_UNIT_KIB: Final = 16
GP2_LOW_GIB: Final = 170
GP2_HIGH_GIB: Final = 334
MINUTE_S: Final = 60
HOUR_S: Final = 3600
MILLION: Final = 1_000_000


class NoPriceError(UsageError):
    """A price that is needed is not in the catalogue."""


class Bucket(msgspec.Struct, frozen=True, kw_only=True):
    """Credits above a base rate.

    Attributes:
        base_per_s: What lasts, and what refills the bucket while it is not used.
        burst_per_s: What it gives while credits last.
        credits_max: What a full bucket holds, in units of the rate times seconds.
        refill_per_s: The most that it gains; of most buckets what the load leaves of the base rate.
    """

    base_per_s: float
    burst_per_s: float
    credits_max: float
    refill_per_s: float = math.inf

    def lasts_s(self, at_per_s: float) -> float:
        """Return how long a full bucket lasts at a rate (s); infinite at the base rate or below."""
        above = min(at_per_s, self.burst_per_s) - self.base_per_s
        return self.credits_max / above if above > 0 else math.inf


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a volume or an instance carries.

    Attributes:
        iops: What lasts.
        bytes_per_s: Likewise.
        iops_bucket: The burst of requests; None where there is none.
        bytes_bucket: The burst of throughput; None where there is none.
        unit_bytes: What counts as one request; 0 where every request does.
        merges: Whether bytes count in such units, too: each random request as a whole one, as only
            sequential requests are merged.
        write_iops: What lasts of writes where that differs; ``iops`` is then that of reads.
    """

    iops: Iops
    bytes_per_s: BytesPerS
    iops_bucket: Bucket | None = None
    bytes_bucket: Bucket | None = None
    unit_bytes: SizeBytes = SizeBytes(0)
    merges: bool = False
    write_iops: Iops | None = None

    @property
    def iops_by_operation(self) -> dict[str, Iops]:
        """IOPS of reads and of writes where they differ; else of both, under an empty key."""
        if self.write_iops is None:
            return {"": self.iops}
        return {"read": self.iops, "write": self.write_iops}


class ProvisionedVolume(msgspec.Struct, frozen=True, kw_only=True):
    """A volume as somebody rents it.

    Attributes:
        volume: Which.
        size_bytes: Its size.
        iops: What was bought, with the free part; None for what its price includes.
        bytes_per_s: Likewise.
    """

    volume: Volume
    size_bytes: SizeBytes
    iops: Iops | None = None
    bytes_per_s: BytesPerS | None = None

    @property
    def name(self) -> str:
        """Return it as it is typed, such as ``gp3:700GiB:10000:500``."""
        parts = [self.volume.volume, f"{gib(self.size_bytes):g}GiB"]
        if self.iops is not None or self.bytes_per_s is not None:
            parts.append(f"{limits_of(self).iops:g}")
        if self.bytes_per_s is not None:
            parts.append(f"{self.bytes_per_s / throughput(1, self.volume.throughput_unit):g}")
        return ":".join(parts)


def parse_volume(text: str, facts: Catalogue) -> ProvisionedVolume:
    """Return a volume as it is typed: ``gp3:700GiB:10000:500`` for name, size, IOPS, throughput.

    Args:
        text: IOPS and throughput may be left out; throughput is in the unit of the volume's row.
        facts: The catalogue.

    Raises:
        UsageError: when it is not a volume.
    """
    name, *rest = text.strip().split(":")
    expected = "write NAME:SIZE[:IOPS[:THROUGHPUT]], such as gp3:700GiB:10000:500"
    if not 1 <= len(rest) <= 3:
        raise UsageError(
            seen=f"{text!r} is not a volume",
            cause="A part of it is missing or invalid",
            next_step=expected,
        )
    volume = facts.find("volumes", name)
    try:
        size = SizeBytes(parse_size_bytes(rest[0]))
        numbers = [float(each) for each in rest[1:]]
    except ValueError as error:
        raise UsageError(seen=f"{text!r}: {error}", cause=expected, next_step=expected) from None
    if not isinstance(volume, Volume) or not all(0 < each < math.inf for each in numbers):
        raise UsageError(
            seen=f"{text!r} has a limit that is not above 0", cause=expected, next_step=expected
        )
    return ProvisionedVolume(
        volume=volume,
        size_bytes=size,
        iops=Iops(numbers[0]) if numbers else None,
        bytes_per_s=throughput(numbers[1], volume.throughput_unit) if len(numbers) > 1 else None,
    )


def limits_of_instance(instance: Instance) -> Limits:
    """Return what an instance carries to its network volumes.

    Its bucket is what the provider promises: minutes at the burst rate in 24 hours.
    """
    length_s = instance.burst_min_per_day * MINUTE_S
    base_bytes = throughput(instance.base_mb_s, "MB/s")
    burst_bytes = throughput(instance.burst_mb_s or 0.0, "MB/s")

    def daily(base_per_s: float, burst_per_s: float) -> Bucket | None:
        burst_credits = (burst_per_s - base_per_s) * length_s
        if burst_credits <= 0:
            return None
        return Bucket(
            base_per_s=base_per_s,
            burst_per_s=burst_per_s,
            credits_max=burst_credits,
            refill_per_s=burst_credits / DAY_S,
        )

    return Limits(
        iops=Iops(instance.base_iops),
        bytes_per_s=base_bytes,
        iops_bucket=daily(instance.base_iops, instance.burst_iops or 0.0),
        bytes_bucket=daily(base_bytes, burst_bytes),
    )


def limits_of(provisioned: ProvisionedVolume) -> Limits:
    """Return the limits of a volume as it was bought.

    Raises:
        UsageError: when it cannot be had so.
    """
    volume = provisioned.volume
    _check_size(provisioned)
    unit = SizeBytes(int(volume.io_unit_kib * KIB))
    if volume.rule in ("provisioned", "io1", "by-throughput"):
        found = _provisioned_limits(provisioned)
    else:
        if provisioned.iops is not None or provisioned.bytes_per_s is not None:
            raise _size_error(
                provisioned, "IOPS or throughput were given, but they follow from its size"
            )
        found = _limits_by_size(volume, gib(provisioned.size_bytes))
    merges = volume.rule == "throughput" and unit > 0
    return msgspec.structs.replace(found, unit_bytes=unit, merges=merges)


def _check_size(provisioned: ProvisionedVolume) -> None:
    volume, size_gib = provisioned.volume, gib(provisioned.size_bytes)
    if not volume.min_gib <= size_gib <= volume.max_gib:
        raise _size_error(
            provisioned,
            f"it has {size_gib:g} GiB, and {volume.volume} has {volume.min_gib:g} to "
            f"{volume.max_gib:g}",
        )


def _size_error(provisioned: ProvisionedVolume, why: str) -> UsageError:
    volume = provisioned.volume
    return UsageError(
        seen=f"{volume.key} cannot be configured this way: {why}",
        cause=f"The catalogue has this rule as of {volume.as_of}: "
        f"{volume.iops_rule or volume.rule}; {volume.throughput_rule or 'no throughput'}",
        next_step=f"Change it, or the rule: `seatrial catalogue show volumes/{volume.key}`",
    )


def _provisioned_limits(provisioned: ProvisionedVolume) -> Limits:
    volume, size_gib = provisioned.volume, gib(provisioned.size_bytes)
    unit = volume.throughput_unit
    if volume.rule == "by-throughput":
        given = provisioned.bytes_per_s or throughput(volume.free_mib_s, unit)
        return Limits(
            iops=Iops(given / throughput(1, unit) * volume.iops_per_mib_s), bytes_per_s=given
        )
    floor_iops = max(volume.free_iops, volume.base_iops)
    most = max(min(volume.max_iops, volume.iops_per_gib_max * size_gib), floor_iops)
    iops = provisioned.iops if provisioned.iops is not None else Iops(floor_iops)
    if iops <= 0:
        raise _size_error(provisioned, "no IOPS were given, and its price includes none")
    if not floor_iops <= iops <= most:
        raise _size_error(
            provisioned, f"{iops:,.0f} IOPS, and it has {floor_iops:,.0f} to {most:,.0f}"
        )
    free = throughput(volume.free_mib_s, unit)
    most_bytes = _throughput_max(volume, iops)
    if not volume.mib_s_bought or volume.rule == "io1":
        if provisioned.bytes_per_s is not None:
            raise _size_error(provisioned, "throughput was given, but it follows from its IOPS")
        return Limits(iops=iops, bytes_per_s=most_bytes)
    given = provisioned.bytes_per_s if provisioned.bytes_per_s is not None else free
    least = free if free else throughput(volume.base_mib_s, unit)
    if provisioned.bytes_per_s is None and not free:
        given = most_bytes
    if not least <= given <= max(most_bytes, free):
        one = throughput(1, unit)
        raise _size_error(
            provisioned,
            f"{given / one:,.0f} {unit}; with {iops:,.0f} IOPS it must be {least / one:,.0f} to "
            f"{max(most_bytes, free) / one:,.0f}",
        )
    return Limits(iops=iops, bytes_per_s=given)


def _throughput_max(volume: Volume, iops: Iops) -> BytesPerS:
    """Return the most throughput that so many IOPS allow."""
    mib_s = min(volume.max_mib_s, volume.mib_s_per_iops * iops)
    if volume.rule == "io1":
        above = iops * IO1_HIGH_UNIT_KIB / KIB
        low = min(IO1_LOW_MIB_S, mib_s)
        mib_s = low if iops <= IO1_STEP_IOPS else min(volume.max_mib_s, max(IO1_LOW_MIB_S, above))
    return throughput(mib_s, volume.throughput_unit)


def _limits_by_size(volume: Volume, size_gib: float) -> Limits:
    """Return limits that follow from the size alone."""
    unit = volume.throughput_unit
    if volume.rule == "gp2":
        return _gp2(volume, size_gib)
    if volume.rule == "throughput":
        tib = size_gib * GIB / TIB
        base = throughput(min(volume.mib_s_per_tib * tib, volume.max_mib_s), unit)
        burst = throughput(min(volume.burst_mib_s_per_tib * tib, volume.max_mib_s), unit)
        burst_credits = throughput(volume.burst_mib_per_tib * tib, unit)
        return Limits(
            iops=Iops(volume.base_iops),
            bytes_per_s=base,
            bytes_bucket=_bucket(base, burst, burst_credits),
        )
    if volume.rule == "tier":
        base_bytes = throughput(volume.base_mib_s, unit)
        burst_bytes = throughput(volume.burst_mib_s, unit)
        length_s = volume.burst_s
        return Limits(
            iops=Iops(volume.base_iops),
            bytes_per_s=base_bytes,
            iops_bucket=_bucket(
                volume.base_iops,
                volume.burst_iops,
                (volume.burst_iops - volume.base_iops) * length_s,
            ),
            bytes_bucket=_bucket(base_bytes, burst_bytes, (burst_bytes - base_bytes) * length_s),
        )
    iops = min(volume.base_iops + volume.iops_per_gib * size_gib, volume.max_iops)
    writes = min(volume.base_iops + volume.iops_per_gib_write * size_gib, volume.max_iops)
    mib_s = min(volume.base_mib_s + volume.mib_s_per_gib * size_gib, volume.max_mib_s)
    return Limits(
        iops=Iops(iops),
        bytes_per_s=throughput(mib_s, unit),
        write_iops=Iops(writes) if volume.iops_per_gib_write else None,
    )


def _gp2(volume: Volume, size_gib: float) -> Limits:
    """Return the limits of gp2, whose throughput has a burst of its own between two sizes."""
    unit = volume.throughput_unit
    base = min(max(volume.base_iops, volume.iops_per_gib * size_gib), volume.max_iops)
    high = throughput(volume.burst_mib_s, unit)
    between = GP2_LOW_GIB < size_gib < GP2_HIGH_GIB
    low = throughput(volume.base_mib_s, unit)
    steady = high if size_gib >= GP2_HIGH_GIB else low
    seconds = volume.burst_credits / (volume.burst_iops - base) if base < volume.burst_iops else 0
    return Limits(
        iops=Iops(base),
        bytes_per_s=steady,
        iops_bucket=_bucket(base, volume.burst_iops, volume.burst_credits),
        bytes_bucket=_bucket(low, high, (high - low) * seconds) if between else None,
    )


def _bucket(base_per_s: float, burst_per_s: float, credits_max: float) -> Bucket | None:
    if burst_per_s <= base_per_s:
        return None
    return Bucket(base_per_s=base_per_s, burst_per_s=burst_per_s, credits_max=credits_max)


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a monthly bill.

    Attributes:
        what: Such as ``700 GiB of gp3``.
        amount: How many units are paid for.
        unit: Its unit.
        money: What they cost a month.
        origin: Where the price is from.
    """

    what: str
    amount: float
    unit: str
    money: Money
    origin: str


def instance_bill(instance: Instance, prices: Catalogue, region: str = "") -> Item:
    """Return what an instance costs a month.

    Where only another one of its family has a price, it is taken in proportion to processors, as
    AWS and Azure price their families on demand; its origin says so.

    Raises:
        NoPriceError: when no price is known.
        UsageError: when no region is named, and prices are of several.
    """
    provider, name = instance.provider, instance.instance
    prices.check_region(provider, region)
    price = prices.price(provider, name, "instance", region)
    if price is not None:
        return _line(price, 1, name, prices)
    family, dot, _ = name.partition(".")
    for each in prices.prices.values():
        if (each.provider, each.component) != (provider, "instance") or not dot:
            continue
        other = prices.instances.get(f"{provider}/{each.item}")
        same = each.item.startswith(f"{family}.") and _is_in(each, region)
        if same and other is not None and other.vcpu and instance.vcpu:
            line = _line(each, instance.vcpu / other.vcpu, name, prices)
            derived = f"in proportion to {each.item}: {line.origin}"
            return msgspec.structs.replace(line, amount=1.0, origin=derived)
    return _line(_price(prices, provider, name, "instance", region), 1, name, prices)


def monthly_bill(
    provisioned: ProvisionedVolume,
    prices: Catalogue,
    region: str = "",
    requests_per_s: float | None = None,
) -> list[Item]:
    """Return what a volume costs a month, line by line.

    Args:
        provisioned: The volume.
        prices: The catalogue.
        region: Of the prices; empty for the only one known.
        requests_per_s: Mean load, of which some volumes charge each request; None if unknown.

    Raises:
        NoPriceError: when a price is not known, or depends on a load that is not known.
        UsageError: when no region is named, and prices are of several.
    """
    volume = provisioned.volume
    provider, item = volume.provider, volume.volume
    limits = limits_of(provisioned)
    if volume.rule == "tier":
        return [_line(_price(prices, provider, item, "disk", region), 1, item, prices)]
    size_gib = gib(provisioned.size_bytes)
    capacity = _price(prices, provider, item, "capacity", region)
    lines = [_line(capacity, size_gib, f"{size_gib:g} GiB of {item}", prices)]
    per_request = prices.price(provider, item, "request", region)
    if per_request is not None:
        lines.append(_requests(per_request, requests_per_s, prices))
    if volume.rule not in ("provisioned", "io1"):
        return lines
    if (above := limits.iops - volume.free_iops) > 0:
        lines += _steps(prices, provider, item, above, region)
    free = throughput(volume.free_mib_s, volume.throughput_unit)
    if volume.mib_s_bought and volume.rule != "io1" and limits.bytes_per_s > free:
        price = _price(prices, provider, item, "throughput", region)
        above = (limits.bytes_per_s - free) / throughput(1, price.unit.removesuffix("-month"))
        lines.append(_line(price, above, f"{above:g} {volume.throughput_unit} above free", prices))
    return lines


def _requests(price: Price, requests_per_s: float | None, prices: Catalogue) -> Item:
    if requests_per_s is None:
        raise NoPriceError(
            seen=f"{price.item} charges each request, and the load is not known",
            cause=f"Its price of {price.unit} is {price.mid:g} {price.currency}",
            next_step="Give a load: `seatrial plan reads=30,writes=10,size=8KiB`",
        )
    millions = requests_per_s * HOURS_PER_MONTH * HOUR_S / MILLION
    return _line(price, millions, f"{millions:.1f} million requests", prices)


def _steps(
    prices: Catalogue, provider: str, item: str, provisioned_iops: float, region: str
) -> list[Item]:
    """Return the lines of IOPS, each step at its own price."""
    steps = [(0.0, _price(prices, provider, item, "iops", region))]
    for each in prices.prices.values():
        start = each.component.removeprefix("iops from ")
        is_of_it = (each.provider, each.item) == (provider, item) and _is_in(each, region)
        if is_of_it and start.isdigit():
            steps.append((float(start) - 1, each))
    steps.sort(key=lambda step: step[0])
    ends = [*(start for start, _ in steps[1:]), math.inf]
    return [
        _line(price, min(provisioned_iops, end) - start, "IOPS", prices)
        for (start, price), end in zip(steps, ends, strict=True)
        if provisioned_iops > start
    ]


def _is_in(price: Price, region: str) -> bool:
    return not region or price.region in (region, ANY)


def _price(prices: Catalogue, provider: str, item: str, component: str, region: str) -> Price:
    found = prices.price(provider, item, component, region)
    if found is None:
        where, unit = region or ANY, _UNITS.get(component, "month")
        raise NoPriceError(
            seen=f"The catalogue has no price for {provider}/{item}, {component}"
            + (f", in {region}" if region else ""),
            cause="Seatrial ships no prices for most regions and instances",
            next_step=f"Set its PRICE per {unit}: `seatrial catalogue set prices/{provider}/{item}/"
            f"{component}/{where} mid=PRICE currency=USD unit={unit}`",
        )
    return found


_UNITS: Final = {
    "capacity": "GiB-month",
    "iops": "IOPS-month",
    "throughput": "MiB/s-month",
}


def _line(price: Price, amount: float, what: str, prices: Catalogue) -> Item:
    return Item(
        what=what,
        amount=amount,
        unit=price.unit.removesuffix("-month"),
        money=Money(price.low, price.mid, price.high, price.currency).times(amount),
        origin=price.origin(prices.today),
    )


def total_of(lines: list[Item]) -> Money:
    """Return the sum of a bill.

    Raises:
        UsageError: when it has two currencies.
        ValueError: when it is empty.
    """
    if not lines:
        raise ValueError("a bill without lines has no currency")
    total = lines[0].money
    for each in lines[1:]:
        total += each.money
    return total
