"""What limits storage: each cap of volume, instance, array and device, next to the load."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec

from seatrial.catalogue.units import BytesPerS, Iops, Money
from seatrial.catalogue.volumes import (
    Bought,
    Limits,
    NoPriceError,
    limits_of,
    limits_of_instance,
    month_of,
    total_of,
)
from seatrial.published import Amount, one_of
from seatrial.trials.plan.analysis.buckets import UNSERVED_SHARE_MAX, buckets_of, play

if TYPE_CHECKING:
    from seatrial.catalogue.facts import Instance
    from seatrial.catalogue.store import Catalogue
    from seatrial.trials.plan.analysis.demand import Demand

AT_LIMIT_SHARE: Final = 0.9
"""A load above this share of a cap is at it."""

Quantity = Literal["IOPS", "throughput", "commits"]


class Cap(msgspec.Struct, frozen=True, kw_only=True):
    """One limit.

    Attributes:
        subject: What has it: ``volume``, ``instance``, ``array``, ``control group``, ``device``.
        name: Such as ``gp3:700GiB`` or ``r7i.2xlarge``.
        quantity: What is limited.
        per_s: What lasts (requests, bytes or commits per second).
        burst_per_s: What is given while credits last; None without a burst.
        burst_s: How long a full bucket lasts at that rate; None without a burst.
        load_per_s: The load in its busiest slot; None without a load.
        share: That over what lasts.
        dry_after_s: When credits, played through the load from a full bucket, run out for the
            first time; None where they do not, or without a load.
        unserved_share: Share of the load that had to wait then.
        origin: Where the limit is from.
    """

    subject: Annotated[
        str, one_of("volume", "instance", "array", "control group", "device", "commit")
    ]
    name: str
    quantity: Annotated[str, one_of("IOPS", "throughput", "commits")]
    per_s: Amount
    burst_per_s: Amount | None = None
    burst_s: Amount | None = None
    load_per_s: Amount | None = None
    share: Amount | None = None
    dry_after_s: Amount | None = None
    unserved_share: Amount | None = None
    origin: str

    @property
    def is_broken(self) -> bool:
        """Whether the load does not fit, bursts included."""
        return self.unserved_share is not None and self.unserved_share > UNSERVED_SHARE_MAX


class Wasted(msgspec.Struct, frozen=True, kw_only=True):
    """What is paid for and cannot be used for long.

    Attributes:
        iops: IOPS above what the instance can sustain.
        bytes_per_s: Likewise of throughput.
        month: What they cost a month.
    """

    iops: Amount
    bytes_per_s: Amount
    month: Money


class CapReport(msgspec.Struct, frozen=True, kw_only=True):
    """All caps.

    Attributes:
        caps: The one that binds first, by share of the load, or else by quantity and limit.
        binding: Those that bind: the lowest of each quantity, or with a load the one that it
            comes nearest to.
        wasted: None where nothing is, or where it is not known.
        load: Where the load is from; empty without one.
        load_s: Its length.
        repeated: Whether it was repeated to fill a day.
    """

    caps: list[Cap]
    binding: list[Cap]
    wasted: Wasted | None = None
    load: str = ""
    load_s: Amount = 0.0
    repeated: bool = False


def caps_of_volume(bought: Bought, facts: Catalogue) -> list[Cap]:
    """Return the caps of a volume; raises UsageError where it cannot be had so."""
    limits = limits_of(bought)
    return _caps("volume", bought.name, limits, bought.volume.origin(facts.today))


def caps_of_instance(instance: Instance, facts: Catalogue) -> list[Cap]:
    """Return what an instance carries to its volumes."""
    limits = limits_of_instance(instance)
    return _caps("instance", instance.instance, limits, instance.origin(facts.today))


def _caps(subject: str, name: str, limits: Limits, origin: str) -> list[Cap]:
    rows = (
        ("IOPS", limits.iops, limits.iops_bucket),
        ("throughput", limits.bytes_per_s, limits.bytes_bucket),
    )
    return [
        Cap(
            subject=subject,
            name=name,
            quantity=quantity,
            per_s=per_s,
            burst_per_s=bucket.burst_per_s if bucket else None,
            burst_s=bucket.lasts_s(bucket.burst_per_s) if bucket else None,
            origin=origin,
        )
        for quantity, per_s, bucket in rows
    ]


def found_without_load(caps: Sequence[Cap], wasted: Wasted | None) -> CapReport:
    """Return caps with the lowest of each quantity as those that bind."""
    quantities = dict.fromkeys(each.quantity for each in caps)
    ordered = sorted(caps, key=lambda cap: (list(quantities).index(cap.quantity), cap.per_s))
    binding = [next(cap for cap in ordered if cap.quantity == name) for name in quantities]
    return CapReport(caps=ordered, binding=binding, wasted=wasted)


def found_with_load(
    caps: Sequence[Cap],
    demand: Demand,
    bought: Bought | None,
    instance: Instance | None,
    wasted: Wasted | None,
) -> CapReport:
    """Return caps with a load played through each; the one that it comes nearest to binds.

    A load that is shorter than a day is repeated until one is over, for what a bucket loses in a
    busy hour may not come back in the next one.

    Raises:
        UsageError: when the volume cannot be had so.
    """
    fine, day = demand.to_play()
    by_subject = {}
    if bought is not None:
        by_subject["volume"] = limits_of(bought)
    if instance is not None:
        by_subject["instance"] = limits_of_instance(instance)
    judged = sorted(
        (_played(each, by_subject.get(each.subject), (fine, day)) for each in caps),
        key=lambda cap: (-cap.is_broken, -(cap.share or 0.0)),
    )
    binding = [each for each in judged if each.is_broken or (each.share or 0) >= AT_LIMIT_SHARE]
    return CapReport(
        caps=judged,
        binding=binding or judged[:1],
        wasted=wasted,
        load=demand.origin,
        load_s=demand.seconds,
        repeated=day.seconds > demand.seconds,
    )


def _played(cap: Cap, limits: Limits | None, demands: tuple[Demand, Demand]) -> Cap:
    """Return a cap with what becomes of a load under it, in fine slots and over a day."""
    if cap.quantity == "commits":
        return cap
    bucket = None
    if limits is not None:
        bucket = limits.iops_bucket if cap.quantity == "IOPS" else limits.bytes_bucket
    dry_after_s, unserved_share, busiest = math.inf, 0.0, 0.0
    for demand in demands:
        unit = limits.unit_bytes if limits else 0
        load = demand.bytes_per_s if cap.quantity == "throughput" else demand.counted_per_s(unit)
        played = play(load[None, :], demand.slot_s, buckets_of([(cap.per_s, bucket)]))
        dry_after_s = min(dry_after_s, float(played.dry_after_s[0]))
        unserved_share = max(unserved_share, float(played.unserved_share[0]))
        busiest = max(busiest, float(load.max()))
    return msgspec.structs.replace(
        cap,
        load_per_s=busiest,
        share=busiest / cap.per_s,
        dry_after_s=dry_after_s if bucket is not None and math.isfinite(dry_after_s) else None,
        unserved_share=unserved_share,
    )


def wasted_of(
    bought: Bought, instance: Instance, facts: Catalogue, region: str = ""
) -> Wasted | None:
    """Return what of a volume its instance cannot sustain, and what that costs.

    None where nothing is wasted, or where the price is not known.
    """
    limits, carried = limits_of(bought), limits_of_instance(instance)
    iops = max(0.0, limits.iops - carried.iops)
    through = max(0.0, limits.bytes_per_s - carried.bytes_per_s)
    volume = bought.volume
    if volume.rule not in ("provisioned", "io1") or not (iops or through):
        return None
    least = max(volume.free_iops, volume.base_iops, 1.0)
    smaller = Bought(
        volume=volume,
        size_bytes=bought.size_bytes,
        iops=Iops(max(least, limits.iops - iops)),
        bytes_per_s=_less(bought, BytesPerS(limits.bytes_per_s - through)),
    )
    try:
        now, then = (total_of(month_of(each, facts, region)) for each in (bought, smaller))
    except NoPriceError:
        return None
    if now.mid <= then.mid:
        return None
    saved = Money(now.low - then.low, now.mid - then.mid, now.high - then.high, now.currency)
    return Wasted(iops=iops, bytes_per_s=through, month=saved)


def _less(bought: Bought, carried: BytesPerS) -> BytesPerS | None:
    """Return the least throughput that can be bought and is no less than what is carried."""
    if bought.bytes_per_s is None:
        return None
    free = limits_of(Bought(volume=bought.volume, size_bytes=bought.size_bytes)).bytes_per_s
    return BytesPerS(max(free, min(carried, bought.bytes_per_s)))
