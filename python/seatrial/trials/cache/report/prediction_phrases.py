"""A prediction of caches in words: the answer, notable facts, its certainty."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from seatrial.catalogue.units import Money, format_money
from seatrial.stats.wording import (
    format_count,
    format_duration_ns,
    format_duration_s,
    format_iops,
    format_rate_bytes,
    format_share,
)
from seatrial.study.units import format_size
from seatrial.trials.cache.analysis.curves import BEST, CachePoint, PolicyCurve
from seatrial.trials.cache.analysis.prediction import CachePrediction
from seatrial.trials.cache.analysis.tiers import CacheTiers
from seatrial.trials.watch.recording import RecordingMetadata
from seatrial.trials.watch.report.load_phrases import left_out_lines, unknown_lines
from seatrial.units import DAY_S

_ENOUGH_SHARE: Final = 0.95
"""A cache with this share of the highest hit share is enough."""
_LITTLE_SHARE: Final = 0.05
_TENTHS_BELOW: Final = 10
_POLICY_POINTS_MIN: Final = 0.05
_SHORT_S: Final = 600.0
_READS_MIN: Final = 5000
"""Reads with at least 1,000 in their last fifth, the basis of the tiers."""
_TIMES_MAX_RATIO: Final = 1.1


def verdict_line(found: CachePrediction) -> str:
    """Return the verdict in one line."""
    if not is_reused(found):
        return (
            f"No cache helps: {format_share(1 - found.repeated_share)} of the reads are of blocks "
            "that were not accessed before."
        )
    enough = enough_point(found)
    return (
        f"{format_size(enough.cache_bytes)} of cache would serve {share_phrase(enough)} of the "
        f"reads; more gains little: no size serves over {format_share(found.repeated_share)}."
    )


def is_reused(found: CachePrediction) -> bool:
    """Return whether a cache of any size could help."""
    return found.repeated_share >= _LITTLE_SHARE


def share_phrase(point: CachePoint) -> str:
    """Return the share of the reads that a cache serves, with its interval."""
    share = format_share(point.share)
    if point.low == point.high:
        return share
    return f"{share} ({format_share(point.low)} to {format_share(point.high)})"


def enough_point(found: CachePrediction) -> CachePoint:
    """Return the smallest cache of the curve beyond which little is gained."""
    points = curve(found, found.policy).points
    enough = _ENOUGH_SHARE * points[-1].share
    return next((each for each in points if each.share >= enough), points[-1])


def curve(found: CachePrediction, policy: str) -> PolicyCurve:
    """Return the curve of a policy."""
    return next(each for each in found.curves if each.policy == policy)


def notable(found: CachePrediction) -> list[str]:
    """Return notable facts, in a sentence each."""
    return [
        *_policy(found),
        *_faster(found),
        *_money(found),
        *_warm_up(found),
        *_streams(found),
        *_written(found),
        *_headers(found),
    ]


def _policy(found: CachePrediction) -> Iterator[str]:
    own, best = curve(found, found.policy), curve(found, BEST)
    gap, point, least = max(
        (
            (least.share - each.share, each, least)
            for each, least in zip(own.points, best.points, strict=True)
        ),
        key=lambda each: each[0],
    )
    if gap >= _POLICY_POINTS_MIN:
        yield (
            f"At {format_size(point.cache_bytes)} the policy {found.policy} serves "
            f"{format_share(point.share)} of the reads; the best possible one would serve "
            f"{format_share(least.share)}."
        )


def _faster(found: CachePrediction) -> Iterator[str]:
    known = [each for each in found.tiers if each.read_ns_mean is not None]
    if not known or found.reads < _READS_MIN:
        return
    best = min(known, key=lambda each: each.read_ns_mean or 0.0)
    least = max(known, key=lambda each: each.read_ns_mean or 0.0)
    rates = (best.reads_per_s, least.reads_per_s)
    if found.clients is not None and rates[0] and rates[1]:
        yield (
            f"{format_count(found.clients)} clients get {format_iops(rates[0])} of reads with "
            f"{sizes_phrase(best)}, and {format_iops(rates[1])} with {sizes_phrase(least)}."
        )
        return
    ratio = (least.read_ns_mean or 0.0) / max(1.0, best.read_ns_mean or 0.0)
    if ratio > _TIMES_MAX_RATIO:
        yield (
            f"Warm, {sizes_phrase(best)} gives a mean read time of "
            f"{format_duration_ns(best.read_ns_mean or 0.0)}; {sizes_phrase(least)} gives "
            f"{format_duration_ns(least.read_ns_mean or 0.0)}. Clients that wait for their reads "
            f"get {_ratio_phrase(ratio, best, least)} times as many."
        )


def _ratio_phrase(ratio: float, best: CacheTiers, least: CacheTiers) -> str:
    """Return a ratio of mean response times, with its interval where there is one."""
    low = (least.read_ns_mean_low or 0.0) / max(1.0, best.read_ns_mean_high or 0.0)
    high = (least.read_ns_mean_high or 0.0) / max(1.0, best.read_ns_mean_low or 0.0)
    return f"{ratio:.1f}" if high <= low else f"{ratio:.1f} ({low:.1f} to {high:.1f})"


def _money(found: CachePrediction) -> Iterator[str]:
    """Yield the cost of the caches with the cheapest saved reads, and of alternatives."""
    priced = [each for each in found.costs if each.month_per_read is not None]
    if not priced:
        return
    best = min(priced, key=lambda each: each.month_per_read.mid if each.month_per_read else 0.0)
    assert best.month_per_read is not None  # noqa: S101 - they were chosen by it
    yield (
        f"{caches_phrase(best.memory_bytes, best.device_bytes)} costs {format_money(best.month)} a "
        f"month: {per_read_phrase(best.month_per_read)} for each read per second that the storage "
        "no longer serves."
    )
    if best.storage_month is not None:
        yield (
            f"The storage itself costs {format_money(best.storage_month)} per month for as many "
            f"reads: {format_iops(best.saved_reads_per_s)}."
        )
    if best.memory_alone_bytes is not None and best.memory_alone_month is not None:
        yield (
            f"Memory alone serves as much with {format_size(best.memory_alone_bytes)}, which costs "
            f"{format_money(best.memory_alone_month)} per month."
        )
    worn = [each for each in found.costs if each.worn_out_years is not None]
    first = min(worn, key=lambda each: each.worn_out_years or 0.0, default=None)
    if first is not None:
        yield (
            f"{caches_phrase(first.memory_bytes, first.device_bytes)}: the SSD's endurance is used "
            f"up after {first.worn_out_years:.1f} years at this rate."
        )


def per_read_phrase(money: Money) -> str:
    """Return a small amount with two significant digits."""
    if money.is_exact:
        return f"{money.mid:.2g} {money.currency}"
    return f"{money.mid:.2g} ({money.low:.2g} to {money.high:.2g}) {money.currency}"


def sizes_phrase(tiers: CacheTiers) -> str:
    """Return the sizes of caches in words."""
    return caches_phrase(tiers.memory_bytes, tiers.device_bytes)


def caches_phrase(memory_bytes: int, device_bytes: int) -> str:
    """Return the sizes of memory and cache device in words."""
    memory = f"{format_size(memory_bytes)} of memory" if memory_bytes else "no memory"
    if not device_bytes:
        return memory
    return f"{memory} and {format_size(device_bytes)} of SSD"


def _when_phrase(found: CachePrediction) -> str:
    if found.clients is not None:
        return "when clients have read all that was recorded"
    return f"after {format_duration_s(found.seconds)}, when the recording ends"


def _warm_up(found: CachePrediction) -> Iterator[str]:
    cold = [each for each in found.tiers if not each.is_warm and each.disk_share < 1]
    if cold:
        yield (
            f"Not warm {_when_phrase(found)}: "
            f"{'; '.join(sizes_phrase(each) for each in cold[:3])}. They serve more when "
            "warm than is shown."
        )
    warm = [each for each in found.tiers if each.is_warm and each.device_bytes]
    for each in warm[:1]:
        yield (
            f"{sizes_phrase(each)}: half warm after {format_duration_s(each.warm_s['50%'] or 0)}, "
            f"90 % after {format_duration_s(each.warm_s['90%'] or 0)}."
        )


def _streams(found: CachePrediction) -> Iterator[str]:
    """Yield the share of reads in long streams, which an SSD leaves to the storage."""
    has_device = any(each.device_bytes for each in found.tiers)
    if has_device and found.stream_bytes_max and found.stream_share > _LITTLE_SHARE:
        yield (
            f"{format_share(found.stream_share)} of the reads are part of sequential streams from "
            f"{format_size(found.stream_bytes_max)} on, which {found.device_kind} leaves to the "
            "storage."
        )


def _written(found: CachePrediction) -> Iterator[str]:
    most = max(found.tiers, key=lambda each: each.device_written_bytes_per_day, default=None)
    if most is not None and most.device_written_bytes_per_day:
        per_day = most.device_written_bytes_per_day / most.device_bytes
        times = f"{per_day:.1f}" if per_day < _TENTHS_BELOW else format_count(round(per_day))
        yield (
            f"{sizes_phrase(most)}: "
            f"{format_rate_bytes(most.device_written_bytes_per_day / DAY_S)} "
            f"written to the SSD, {times} times its size per day."
        )


def _headers(found: CachePrediction) -> Iterator[str]:
    most = max(found.tiers, key=lambda each: each.header_bytes, default=None)
    if most is not None and most.header_bytes > most.memory_bytes * _LITTLE_SHARE:
        yield (
            f"The headers of {format_size(most.device_bytes)} of SSD take "
            f"{format_size(most.header_bytes)} of {format_size(most.memory_bytes)} of memory."
        )


def doubts(found: CachePrediction, about: RecordingMetadata) -> list[str]:
    """Return the limits of the prediction, in a sentence each."""
    return [*_doubts(found), *unknown_lines(about), *left_out_lines(about)]


def _doubts(found: CachePrediction) -> Iterator[str]:
    yield (
        "Only requests that reached the storage are recorded: memory is in addition to the caches "
        "that served the others."
    )
    if found.seconds < _SHORT_S:
        yield (
            f"Short: {format_duration_s(found.seconds)} hold few of the reuses that a large cache "
            "depends on."
        )
    if found.reads < _READS_MIN:
        yield (
            f"Few reads: shares by tier are of {format_count(max(1, found.reads // 5))} of them, "
            "too few to compare response times."
        )
    if found.clients is not None and found.other_ns is not None:
        yield (
            f"{format_count(found.clients)} clients, each of which waits for its reads and does "
            f"other things for {format_duration_ns(found.other_ns)} per block, as it follows from "
            "the recorded rate; times are theirs, not the recorded ones."
        )
    if found.method == "sampled":
        yield (
            f"From four samples of {format_share(found.sampled_share)} of the blocks each; "
            "intervals are 95 % over them."
        )
    priced = (found.tariff.memory, found.tariff.device, found.tariff.storage)
    origins = [each.origin for each in (*priced, found.tariff.endurance) if each is not None]
    if any(each != "typed" for each in origins):
        yield f"Prices and endurance: {'; '.join(dict.fromkeys(origins))}."
    if any(priced):
        yield "Saved reads are the mean of the recording: its busiest minute needs more."
    if found.tiers and not found.knows_disk_times:
        yield "The recording has no read latencies: response times are unknown."
    has_device = any(each.device_bytes for each in found.tiers)
    if has_device and found.knows_disk_times and not found.knows_device_times:
        yield "The SSD's read latency is unknown: name a run that measured it with --ssd-like."


def confidence(found: CachePrediction, about: RecordingMetadata) -> str:
    """Return the certainty of the prediction, as one paragraph."""
    basis = f"{format_count(found.reads)} reads of blocks of {format_size(found.block_bytes)}"
    return " ".join([f"{basis}, simulated.", *doubts(found, about)])
