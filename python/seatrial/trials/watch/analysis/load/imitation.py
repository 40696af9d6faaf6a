"""A synthetic study that imitates a load, within the limits of the study language.

It imitates the operations and their shares, sizes, the share of sequential requests of each
operation, the footprint, the mean rate and, if all requests are random and of one size, the skew of
the accesses. The other properties are listed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from seatrial.stats.wording import format_duration_s, format_iops, format_share
from seatrial.study.load import Table
from seatrial.study.units import format_size
from seatrial.trials.watch.analysis.activity import TRANSFERS
from seatrial.trials.watch.analysis.load.mix import OperationShare
from seatrial.trials.watch.analysis.load.profile import LoadProfile
from seatrial.trials.watch.analysis.load.reuse import HOTTEST
from seatrial.trials.watch.analysis.load.streams import BurstGroup, Stream
from seatrial.units import MIB, SECTOR_BYTES

SECONDS: Final = 30
"""Length of a sample of the study."""
ROUNDS: Final = 3
THREAD_PER_S_MAX: Final = 30_000
"""Rate that one thread can sustain; several threads would divide a sequential stream."""

IN_FLIGHT_MIN: Final = 64
IN_FLIGHT_MAX: Final = 1024
"""Limits of the queue depth, which must be large enough that a slow target delays no request."""
PAUSE_S_MIN: Final = 1e-6
FILE_BYTES_MIN: Final = 16 * MIB
SKEW_MIN: Final = 0.4
"""Minimum difference between the hot region's share of the accesses and its share of the blocks."""
_BURSTY_INDEX_MIN: Final = 2.0
_ONE_SHARE_MIN: Final = 0.99
_SEQUENTIAL_SHARE_MAX: Final = 0.1
_LIMIT_FACTOR: Final = 1.2


class HotRegion(NamedTuple):
    """The most accessed blocks.

    Attributes:
        share: Share of the accessed blocks.
        access_share: Share of the accesses.
    """

    share: float
    access_share: float


class Imitation(msgspec.Struct, frozen=True, kw_only=True):
    """A study, and how similar it is.

    Attributes:
        study: The study as a mapping, in the format of a study file.
        imitated: The imitated properties, as sentences.
        left_out: The other properties, as sentences.
    """

    study: Table
    imitated: list[str]
    left_out: list[str]


def imitation_of(load: LoadProfile, name: str, streams: Sequence[Stream] = ()) -> Imitation | None:
    """Return a study that imitates a load; None for a load without reads and writes.

    Args:
        load: The load.
        name: Name of the study.
        streams: The streams of the load; without them its requests are mixed.
    """
    transfers = [each for each in load.mix if each.operation in TRANSFERS and _kept(each)]
    if not transfers:
        return None
    hot = _skew(load, transfers)
    if hot is not None or load.arrivals is None or _is_steady(load):
        streams = ()
    if streams:
        workload: Table = {"kind": "mix", "accesses": "recorded", **_sample(load)}
    elif hot is None:
        workload = {"kind": "mix", "accesses": "recorded"}
    else:
        workload = {
            "kind": "io",
            **_operations(transfers),
            "block_sizes": transfers[0].sizes[0].length_bytes,
            "pattern": "hot_cold",
            "hot_share": hot.share,
            "hot_access_share": round(hot.access_share, 4),
        }
    if not streams:
        workload |= _arrivals(load) | _flushes(load)
    study = {
        "name": name,
        "description": "Imitates a recorded load",
        "rounds": {"min": ROUNDS, "max": ROUNDS},
        "target": [{"label": "trial", "size": _file_bytes(load)}],
        "workload": [
            {"kind": "fill", "once": True},
            {"name": "imitation", **workload},
        ],
    }
    if streams:
        lines = [_stream_line(load, each) for each in streams]
        study["access"] = [{"name": "recorded", "lines": lines}]
    if hot is None and not streams:
        study["access"] = [{"name": "recorded", "lines": [_line(load, e) for e in transfers]}]
    return Imitation(
        study=study,
        imitated=list(
            _imitated_streams(load, streams) if streams else _imitated(load, transfers, hot)
        ),
        left_out=list(_left_out(load, transfers, hot, streams)),
    )


def _kept(own: OperationShare) -> list[tuple[int, int]]:
    """Return lengths and counts of the frequent sizes that a study supports."""
    return [
        (each.length_bytes, each.requests)
        for each in own.sizes
        if each.length_bytes and each.length_bytes % SECTOR_BYTES == 0
    ]


def _skew(load: LoadProfile, transfers: list[OperationShare]) -> HotRegion | None:
    """Return the hot region; None unless all requests are random and of one size.

    A study with several sizes does not support a hot region.
    """
    lengths = {each.sizes[0].length_bytes for each in transfers}
    is_one_size = len(lengths) == 1 and all(
        each.sizes[0].requests >= _ONE_SHARE_MIN * each.requests for each in transfers
    )
    is_random = all(
        each.sequential <= _SEQUENTIAL_SHARE_MAX * each.requests for each in load.sequentiality
    )
    return hottest(load) if is_one_size and is_random else None


def hottest(load: LoadProfile) -> HotRegion | None:
    """Return the region whose share of the accesses exceeds its size most; None without skew."""
    if load.reuse is None:
        return None
    parts = [HotRegion(share, load.reuse.hottest[f"{share:.0%}"]) for share in HOTTEST]
    most = max(parts, key=lambda each: each.access_share - each.share)
    return most if most.access_share - most.share >= SKEW_MIN else None


def _operations(transfers: list[OperationShare]) -> Table:
    if len(transfers) == 1:
        return {"operations": transfers[0].operation}
    return {"operations": "mixed", "read_share": _read_share(transfers)}


def _read_share(transfers: list[OperationShare]) -> float:
    reads = sum(each.requests for each in transfers if each.operation == "read")
    return round(reads / sum(each.requests for each in transfers), 4)


def _file_bytes(load: LoadProfile) -> int:
    """Return the footprint, rounded up to whole MiB."""
    return math.ceil(max(FILE_BYTES_MIN, load.footprint.unique_bytes) / MIB) * MIB


def _line(load: LoadProfile, own: OperationShare) -> Table:
    sizes = _kept(own)
    total = sum(count for _, count in sizes)
    return {
        "share": round(own.requests / load.requests, 4) or 0.0001,
        "sizes": [{"size": size, "share": round(count / total, 6)} for size, count in sizes],
        "read": 1 if own.operation == "read" else 0,
        "random": round(1 - _sequential_share(load, own.operation), 4),
    }


def _sequential_share(load: LoadProfile, operation: str) -> float:
    found = (e.sequential / e.requests for e in load.sequentiality if e.operation == operation)
    return next(found, 0.0)


def _stream_line(load: LoadProfile, own: Stream) -> Table:
    """Return the line of one stream, with its arrivals."""
    return {
        "share": round(own.requests / load.requests, 6) or 0.000001,
        "sizes": [
            {"size": size, "share": round(count / own.requests, 6)}
            for size, count in own.sizes_bytes
        ],
        "read": 1 if own.operation == "read" else 0,
        "random": round(1 - own.sequential / own.requests, 4),
        "stream": _stream(load, own),
    }


def _stream(load: LoadProfile, own: Stream) -> Table:
    if own.pause_s is not None:
        found: Table = {"arrival": "think", "pause": max(own.pause_s, PAUSE_S_MIN)}
        if own.flushes:
            found["sync_every"] = max(1, round(own.requests / own.flushes))
        return found
    threads = math.ceil(own.requests / load.seconds / THREAD_PER_S_MAX)
    in_flight = min(max(IN_FLIGHT_MIN, 2 * own.in_flight_max), IN_FLIGHT_MAX)
    found = {
        "rate": round(own.requests / load.seconds, 3),
        "threads": threads,
        "depth": math.ceil(in_flight / threads),
    }
    if not own.bursts:
        return {"arrival": "poisson", **found}
    return {"arrival": "poisson_bursts", **found, "bursts": [
        {"share": burst.count, "groups": [_group(each) for each in burst.groups]}
        for burst in own.bursts
    ]}  # fmt: skip


def _group(own: BurstGroup) -> Table:
    times = {"spacing": round(own.spacing_s, 9), "pause": round(own.pause_s, 9)}
    return {"requests": own.requests, **{name: each for name, each in times.items() if each}}


def _sample(load: LoadProfile) -> Table:
    """Return the duration of a sample, and the maximum that it may transfer."""
    total_bytes = sum(each.transferred_bytes for each in load.mix if each.operation in TRANSFERS)
    per_s = total_bytes / load.seconds if load.arrivals else 0.0
    limit_bytes = max(_file_bytes(load), round(per_s * SECONDS * _LIMIT_FACTOR))
    return {"seconds": SECONDS, "limit_bytes": math.ceil(limit_bytes / MIB) * MIB}


def _arrivals(load: LoadProfile) -> Table:
    sample = _sample(load)
    if load.arrivals is None:
        return sample | {"threads": 1}
    in_flight = IN_FLIGHT_MIN
    if load.concurrency is not None:
        in_flight = min(max(IN_FLIGHT_MIN, 2 * load.concurrency.found["p100"]), IN_FLIGHT_MAX)
    threads = math.ceil(_transfers_per_s(load) / THREAD_PER_S_MAX)
    return sample | {
        "threads": threads,
        "depths": math.ceil(in_flight / threads),
        **_schedule(load),
        "rate": round(_transfers_per_s(load), 3),
    }


def _schedule(load: LoadProfile) -> Table:
    """Return the schedule with the recording's burstiness in the shortest windows.

    Batches of geometric sizes with mean n at random times have an index of dispersion of 2 n - 1.
    """
    if _is_steady(load):
        return {"arrival": "fixed"}
    burst = _batch(load)
    return {"arrival": "batches", "burst": burst} if burst > 1 else {"arrival": "poisson"}


def _batch(load: LoadProfile) -> int:
    """Return the mean batch size; 1 if requests arrive individually."""
    assert load.arrivals is not None  # noqa: S101 - a defect of ours, not of a user
    shortest = next(iter(load.arrivals.dispersion), None)
    if shortest is None or shortest.low < _BURSTY_INDEX_MIN:
        return 1
    return min(max(1, round((shortest.index + 1) / 2)), IN_FLIGHT_MAX)


def _transfers_per_s(load: LoadProfile) -> float:
    """Return reads and writes per second: a study's rate counts nothing else."""
    count = sum(each.requests for each in load.mix if each.operation in TRANSFERS)
    return count / load.seconds


def _is_steady(load: LoadProfile) -> bool:
    assert load.arrivals is not None  # noqa: S101 - a defect of ours, not of a user
    found = load.arrivals.dispersion
    return bool(found) and all(each.high < 1 for each in found)


def _flushes(load: LoadProfile) -> Table:
    counts = {each.operation: each.requests for each in load.mix}
    if not counts.get("flush") or not counts.get("write"):
        return {}
    return {"sync_every": max(1, round(counts["write"] / counts["flush"]))}


def _imitated(
    load: LoadProfile, transfers: list[OperationShare], hot: HotRegion | None
) -> Iterator[str]:
    yield f"Reads: {format_share(_read_share(transfers))} of reads and writes, as recorded."
    for each in transfers:
        covered = sum(count for _, count in _kept(each)) / each.requests
        rest = "" if covered == 1 else "; the others get these sizes"
        yield f"Sizes of {each.operation}s: those of {format_share(covered)} of them{rest}."
    if hot is None:
        for each in transfers:
            share = format_share(_sequential_share(load, each.operation))
            yield f"Addresses of {each.operation}s: {share} sequential, the others random."
    else:
        part, accesses = format_share(hot.share), format_share(hot.access_share)
        yield f"Skew: the hottest {part} of the file receive {accesses} of the requests."
    yield _size_sentence(load)
    if load.arrivals is not None:
        per_s = format_iops(_transfers_per_s(load)).removesuffix(" IOPS")
        yield f"Rate: {per_s} reads and writes per second, {_times_phrase(load)}."
    if (every := _flushes(load)).get("sync_every"):
        yield f"Flushes: a sync after every {every['sync_every']} writes."


def _imitated_streams(load: LoadProfile, streams: Sequence[Stream]) -> Iterator[str]:
    for own in streams:
        name = f"{own.operation.capitalize()}s"
        if own.is_sync:
            name += " that a process waits for"
        else:
            name += " in the background" if own.is_sync is not None else ""
            name += " of more than 64 KiB" if own.is_large else " of at most 64 KiB"
        share = format_share(own.requests / sum(each.requests for each in streams))
        sequential = format_share(own.sequential / own.requests)
        yield (
            f"{name}: {share} of reads and writes, {sequential} sequential; "
            f"{_stream_phrase(load, own)}."
        )
    yield _size_sentence(load)


def _size_sentence(load: LoadProfile) -> str:
    accessed = format_size(load.footprint.unique_bytes)
    return f"Size of the file: {format_size(_file_bytes(load))}, for {accessed} accessed."


def _stream_phrase(load: LoadProfile, own: Stream) -> str:
    if own.pause_s is not None:
        flush = " and its flush" if own.flushes else ""
        return f"each {format_duration_s(own.pause_s)} (mean) after the end of the last one{flush}"
    per_s = format_iops(own.requests / load.seconds).removesuffix(" IOPS")
    if not own.bursts:
        return f"{per_s} per second at random times (Poisson)"
    sizes = [each.requests for each in own.bursts]
    of = f"{sizes[0]} to {sizes[-1]}" if sizes[0] < sizes[-1] else f"{sizes[0]}"
    return f"{per_s} per second in recorded bursts of {of} at random times"


def _times_phrase(load: LoadProfile) -> str:
    if _is_steady(load):
        return "evenly spaced"
    burst = _batch(load)
    if burst == 1:
        return "at random times (Poisson)"
    return f"in batches of {burst} on average at random times"


def _left_out(
    load: LoadProfile,
    transfers: list[OperationShare],
    hot: HotRegion | None,
    streams: Sequence[Stream],
) -> Iterator[str]:
    if hot is None and (lacking := hottest(load)) is not None:
        yield (
            f"Skew: {format_share(lacking.share)} of the accessed blocks receive "
            f"{format_share(lacking.access_share)} of the accesses, but a study with several "
            "sizes, or with sequential requests, accesses all blocks equally. A cache serves "
            "less of it."
        )
    if load.arrivals is None:
        yield "Rate: the times are unknown; each thread sends a request after the previous one."
    elif load.arrivals.dispersion and not streams:
        most = max(load.arrivals.dispersion, key=lambda each: each.low)
        ratio = most.low / (2 * _batch(load) - 1)
        if ratio > _BURSTY_INDEX_MIN:
            yield (
                f"Bursts: in windows of {format_duration_s(most.window_s)} the recording varies "
                f"{most.index / (2 * _batch(load) - 1):,.0f} times as much as the study's "
                "arrivals, so that its latencies may be higher at the same mean rate."
            )
    others = [each.operation for each in load.mix if each.operation in ("discard", "other")]
    if others:
        yield f"Operations: {', '.join(others)}."
    uneven = [each.operation for each in transfers if len(_kept(each)) < len(each.sizes)]
    if uneven:
        yield f"Sizes that are not multiples of 512 bytes, of {' and '.join(uneven)}s."
    yield "Dependencies between requests, and changes of the load over time."
