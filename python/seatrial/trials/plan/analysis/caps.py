"""Caps of storage: those of volume, instance, array and device, next to the load."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec

from seatrial.catalogue.units import BytesPerS, Iops, Money
from seatrial.catalogue.volumes import (
    Bucket,
    Limits,
    NoPriceError,
    ProvisionedVolume,
    limits_of,
    limits_of_instance,
    monthly_bill,
    total_of,
)
from seatrial.published import Amount, Count, one_of
from seatrial.trials.plan.analysis.buckets import UNSERVED_SHARE_MAX, buckets_of, simulate
from seatrial.trials.plan.analysis.demand import Limit
from seatrial.units import DAY_S

if TYPE_CHECKING:
    from seatrial.catalogue.facts import Instance
    from seatrial.catalogue.store import Catalogue
    from seatrial.trials.plan.analysis.demand import Demand

AT_LIMIT_SHARE: Final = 0.9
"""A load above this share of a cap is at it."""

Quantity = Literal["IOPS", "throughput", "commits"]


class Cap(msgspec.Struct, frozen=True, kw_only=True):
    """A limit of storage.

    Attributes:
        subject: Owner of the limit: ``volume``, ``instance``, ``array``, ``device`` or such.
        name: Such as ``gp3:700GiB`` or ``r7i.2xlarge``.
        quantity: The limited quantity.
        operation: ``read`` or ``write`` if only these count; empty for both.
        per_s: Rate without credits (requests, bytes or commits per second).
        burst_per_s: Rate while credits last; None without a burst.
        burst_s: Time that a full bucket lasts at that rate; None without a burst.
        load: Source of the load, of several tests the one that loads this limit most; empty
            without a load.
        load_per_s: The load in its busiest slot; None without a load.
        share: Busiest load over the rate without credits.
        dry_after_s: Time until credits run out first, from a full bucket; None if they do not, or
            without a load.
        unserved_share: Share of the load that waits then.
        origin: Source of the limit.
    """

    subject: Annotated[
        str, one_of("volume", "instance", "array", "control group", "device", "commit")
    ]
    name: str
    quantity: Annotated[str, one_of("IOPS", "throughput", "commits")]
    operation: Annotated[str, one_of("", "read", "write")] = ""
    per_s: Amount
    burst_per_s: Amount | None = None
    burst_s: Amount | None = None
    load: str = ""
    load_per_s: Amount | None = None
    share: Amount | None = None
    dry_after_s: Amount | None = None
    unserved_share: Amount | None = None
    origin: str

    @property
    def limited(self) -> str:
        """The limited quantity with its operation, such as ``IOPS`` or ``write IOPS``."""
        return f"{self.operation} {self.quantity}".strip()

    @property
    def is_broken(self) -> bool:
        """Whether the load exceeds the limit, bursts included."""
        return self.unserved_share is not None and self.unserved_share > UNSERVED_SHARE_MAX


class WastedPerformance(msgspec.Struct, frozen=True, kw_only=True):
    """Performance that is paid for and cannot be used for long.

    Attributes:
        iops: IOPS above what the instance can sustain.
        bytes_per_s: Throughput above what the instance can sustain.
        month: Their price a month.
    """

    iops: Amount
    bytes_per_s: Amount
    month: Money


class CapReport(msgspec.Struct, frozen=True, kw_only=True):
    """All caps.

    Attributes:
        caps: By share of the load, the highest first, or else by quantity and limit.
        binding: Binding limits: the lowest of each quantity, or with a load those that it reaches
            or comes nearest to.
        wasted: None where nothing is, or where it is not known.
        load: Source of the load of the first binding limit; empty without one.
        load_s: Its length.
        repeated: Whether it was repeated to fill a day.
        throttled: Stalls of the run that the limit of a control group caused.
        not_judged: Type of this machine's instance whose limits are not in the catalogue; empty
            if none.
    """

    caps: list[Cap]
    binding: list[Cap]
    wasted: WastedPerformance | None = None
    load: str = ""
    load_s: Amount = 0.0
    repeated: bool = False
    throttled: Count = 0
    not_judged: str = ""


def caps_of_volume(provisioned: ProvisionedVolume, facts: Catalogue) -> list[Cap]:
    """Return the caps of a volume; raises UsageError where it cannot be had so."""
    limits = limits_of(provisioned)
    return _caps("volume", provisioned.name, limits, provisioned.volume.origin(facts.today))


def caps_of_instance(instance: Instance, facts: Catalogue) -> list[Cap]:
    """Return what an instance carries to its volumes."""
    limits, origin = limits_of_instance(instance), instance.origin(facts.today)
    # Google's limits differ by kind of volume, and the catalogue has only those of one.
    origin += f", to {instance.path}" if instance.provider == "gcp" else ""
    return _caps("instance", instance.instance, limits, origin)


def _caps(subject: str, name: str, limits: Limits, origin: str) -> list[Cap]:
    rows: list[tuple[str, str, float, Bucket | None]] = [
        ("IOPS", operation, per_s, limits.iops_bucket)
        for operation, per_s in limits.iops_by_operation.items()
    ]
    rows.append(("throughput", "", limits.bytes_per_s, limits.bytes_bucket))
    return [
        Cap(
            subject=subject,
            name=f"{name}, {operation}s" if operation else name,
            quantity=quantity,
            operation=operation,
            per_s=per_s,
            burst_per_s=bucket.burst_per_s if bucket else None,
            burst_s=bucket.lasts_s(bucket.burst_per_s) if bucket else None,
            origin=origin,
        )
        for quantity, operation, per_s, bucket in rows
    ]


def report_without_load(caps: Sequence[Cap], wasted: WastedPerformance | None) -> CapReport:
    """Return caps with the lowest of each quantity as those that bind."""
    quantities = list(dict.fromkeys(each.quantity for each in caps))
    ordered = sorted(caps, key=lambda cap: (quantities.index(cap.quantity), cap.per_s))
    return CapReport(caps=ordered, binding=lowest_of_each(ordered), wasted=wasted)


def lowest_of_each(caps: Sequence[Cap]) -> list[Cap]:
    """Return the lowest cap of each quantity and operation, in their order.

    Those that the others make unreachable are left out: of reads or writes if one of both is no
    higher, and of both if it is no lower than the sum of the two.
    """
    lowest: dict[tuple[str, str], Cap] = {}
    for cap in caps:
        key = cap.quantity, cap.operation
        lowest[key] = min(lowest.get(key, cap), cap, key=lambda each: each.per_s)

    def per_s(quantity: str, operation: str) -> float:
        found = lowest.get((quantity, operation))
        return found.per_s if found else math.inf

    return [
        cap
        for (quantity, operation), cap in lowest.items()
        if cap.per_s
        < (per_s(quantity, "") if operation else per_s(quantity, "read") + per_s(quantity, "write"))
    ]


def report_with_load(
    caps: Sequence[Cap],
    demands: Sequence[Demand],
    provisioned: ProvisionedVolume | None,
    instance: Instance | None,
    wasted: WastedPerformance | None,
) -> CapReport:
    """Return caps with the simulated load; the one that it comes nearest to binds.

    Of several tests, each limit is compared with the one that loads it most. Limits of commits are
    not compared: if there are no others, the lowest bind.

    A load that is shorter than a day is repeated for a day, as a bucket may not refill in the hour
    after a busy one.

    Raises:
        UsageError: when the volume cannot be had so.
    """
    by_subject = {}
    if provisioned is not None:
        by_subject["volume"] = limits_of(provisioned)
    if instance is not None:
        by_subject["instance"] = limits_of_instance(instance)
    evaluation = sorted(
        (_with_load(each, by_subject.get(each.subject), demands) for each in caps),
        key=lambda cap: (-cap.is_broken, -(cap.share or 0.0)),
    )
    binding = [each for each in evaluation if each.is_broken or (each.share or 0) >= AT_LIMIT_SHARE]
    judged = [each for each in evaluation if each.share is not None]
    binding = binding or judged[:1] or lowest_of_each(evaluation)
    binding_load = next((each for each in demands if each.origin == binding[0].load), demands[0])
    return CapReport(
        caps=evaluation,
        binding=binding,
        wasted=wasted,
        load=binding_load.origin,
        load_s=binding_load.seconds,
        repeated=binding_load.seconds < DAY_S,
    )


def _with_load(cap: Cap, limits: Limits | None, demands: Sequence[Demand]) -> Cap:
    """Return a cap with the results of the test that loads it most."""
    if cap.quantity == "commits":
        return cap
    bucket = None
    if limits is not None:
        bucket = limits.iops_bucket if cap.quantity == "IOPS" else limits.bytes_bucket
    limit = Limit(
        subject=cap.subject,
        quantity=cap.quantity,
        per_s=cap.per_s,
        operation=cap.operation,
        unit_bytes=limits.unit_bytes if limits else 0,
        merges=limits is not None and limits.merges,
    )
    # The highest peak may exceed a burst, and the highest mean may empty the credits.
    peak = max(demands, key=lambda each: float(each.counted_by(limit).max()))
    mean = max(demands, key=lambda each: float(each.counted_by(limit).mean()))
    found = [_simulated(cap, limit, bucket, each) for each in (peak, mean)]
    return max(found, key=lambda each: (each.unserved_share or 0.0, each.share or 0.0))


def _simulated(cap: Cap, limit: Limit, bucket: Bucket | None, demand: Demand) -> Cap:
    """Return a cap with the results of a load, in fine slots and over a day."""
    dry_after_s, unserved_share, busiest = math.inf, 0.0, 0.0
    for slots in demand.for_simulation():
        load = slots.counted_by(limit)
        outcome = simulate(load[None, :], slots.slot_s, buckets_of([(cap.per_s, bucket)]))
        dry_after_s = min(dry_after_s, float(outcome.dry_after_s[0]))
        unserved_share = max(unserved_share, float(outcome.unserved_share[0]))
        busiest = max(busiest, float(load.max()))
    return msgspec.structs.replace(
        cap,
        load=demand.origin,
        load_per_s=busiest,
        share=busiest / cap.per_s,
        dry_after_s=dry_after_s if bucket is not None and math.isfinite(dry_after_s) else None,
        unserved_share=unserved_share,
    )


def wasted_of(
    provisioned: ProvisionedVolume, instance: Instance, facts: Catalogue, region: str = ""
) -> WastedPerformance | None:
    """Return the part of a volume that its instance cannot sustain, and its price.

    None if there is no such part, or its price is unknown.
    """
    limits, sustained = limits_of(provisioned), limits_of_instance(instance)
    iops = max(0.0, limits.iops - sustained.iops)
    through = max(0.0, limits.bytes_per_s - sustained.bytes_per_s)
    volume = provisioned.volume
    if volume.rule not in ("provisioned", "io1") or not (iops or through):
        return None
    least = max(volume.free_iops, volume.base_iops, 1.0)
    smaller = ProvisionedVolume(
        volume=volume,
        size_bytes=provisioned.size_bytes,
        iops=Iops(max(least, limits.iops - iops)),
        bytes_per_s=_smaller_throughput(provisioned, BytesPerS(limits.bytes_per_s - through)),
    )
    try:
        now, then = (total_of(monthly_bill(each, facts, region)) for each in (provisioned, smaller))
    except NoPriceError:
        return None
    if now.mid <= then.mid:
        return None
    saved = Money(now.low - then.low, now.mid - then.mid, now.high - then.high, now.currency)
    return WastedPerformance(iops=iops, bytes_per_s=through, month=saved)


def _smaller_throughput(provisioned: ProvisionedVolume, sustained: BytesPerS) -> BytesPerS | None:
    """Return the least throughput that can be bought and is no less than what is carried."""
    if provisioned.bytes_per_s is None:
        return None
    free = limits_of(
        ProvisionedVolume(volume=provisioned.volume, size_bytes=provisioned.size_bytes)
    ).bytes_per_s
    return BytesPerS(max(free, min(sustained, provisioned.bytes_per_s)))
