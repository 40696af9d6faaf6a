"""The load of a recording in sentences: its kind, notable properties, and confidence."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import Final

from seatrial.stats.facts import format_number
from seatrial.stats.wording import (
    format_count,
    format_duration_ns,
    format_duration_s,
    format_iops,
    format_plural,
    format_share,
)
from seatrial.study.units import format_size
from seatrial.trials.watch.analysis.activity import NOT_MAPPED, OTHER_PROGRAMS, TRANSFERS
from seatrial.trials.watch.analysis.load.arrivals import Dispersion
from seatrial.trials.watch.analysis.load.mix import OperationShare
from seatrial.trials.watch.analysis.load.profile import LoadProfile
from seatrial.trials.watch.analysis.load.reuse import HitRatio, Reuse
from seatrial.trials.watch.analysis.load.sequential import WINDOW
from seatrial.trials.watch.recording import ADDRESS, OPERATION, TIME, RecordingMetadata
from seatrial.trials.watch.report.terminal import all_loss_sentences

SEQUENTIAL_SHARE_MIN: Final = 0.7
RANDOM_SHARE_MAX: Final = 0.3
_ONE_KIND_SHARE_MIN: Final = 0.95
_ONE_SIZE_SHARE_MIN: Final = 0.6
_HOT_SHARE_MIN: Final = 0.5
_TAIL_RATIO_MIN: Final = 20
_PEAK_RATIO_MIN: Final = 2
_SHORT_S: Final = 60.0
_NO_REUSE_SHARE: Final = 0.05


def kind_line(load: LoadProfile) -> str:
    """Return the kind of a load in one line."""
    if not load.requests:
        return "No requests."
    transfers = [each for each in load.mix if each.operation in TRANSFERS]
    count = sum(each.requests for each in transfers)
    parts = [
        _kind(load, each) for each in transfers if each.requests > (1 - _ONE_KIND_SHARE_MIN) * count
    ]
    others = [each for each in load.mix if each.operation not in TRANSFERS]
    if not parts:
        parts = [f"only {' and '.join(_plural(each.operation) for each in others)}"]
    line = " and ".join(parts)
    if load.arrivals is not None:
        rate = format_iops(load.arrivals.requests_per_s).removesuffix(" IOPS")
        line = f"{line}, {rate} requests/s"
    return f"{line[0].upper()}{line[1:]}."


def _kind(load: LoadProfile, own: OperationShare) -> str:
    """Return ``71 % random reads of 8 KiB``; without the share where it is nearly all."""
    share = own.requests / sum(e.requests for e in load.mix if e.operation in TRANSFERS)
    order = next(
        (
            order_word(each.sequential / each.requests)
            for each in load.sequentiality
            if each.operation == own.operation
        ),
        "",
    )
    begin = "" if share >= _ONE_KIND_SHARE_MIN else format_share(share)
    words = (begin, order, _plural(own.operation), "of", _sizes(own))
    return " ".join(filter(None, words))


def order_word(sequential_share: float) -> str:
    """Return the word for a share of requests that continue earlier ones."""
    if sequential_share >= SEQUENTIAL_SHARE_MIN:
        return "sequential"
    return "random" if sequential_share <= RANDOM_SHARE_MAX else "partly sequential"


def _plural(operation: str) -> str:
    return {"flush": "flushes", "other": "other requests"}.get(operation, f"{operation}s")


def _sizes(own: OperationShare) -> str:
    if own.sizes and own.sizes[0].requests >= _ONE_SIZE_SHARE_MIN * own.requests:
        return format_size(own.sizes[0].length_bytes)
    low, high = own.length_bytes["p10"], own.length_bytes["p90"]
    return format_size(low) if low == high else f"{format_size(low)} to {format_size(high)}"


def notable(load: LoadProfile) -> list[str]:
    """Return notable properties, each in a sentence, the most important first."""
    return [
        *_hot(load.reuse),
        *_cache(load.reuse),
        *_bursts(load),
        *_runs(load),
        *_in_flight(load),
        *_tail(load),
        *_flushes(load),
        *_failed(load),
        *_relations(load),
    ]


def _hot(reuse: Reuse | None) -> Iterator[str]:
    if reuse is not None and reuse.hottest.get("10%", 0) >= _HOT_SHARE_MIN:
        yield (
            f"Skewed: 10 % of the accessed blocks receive "
            f"{format_share(reuse.hottest['10%'])} of the accesses."
        )


def _cache(reuse: Reuse | None) -> Iterator[str]:
    if reuse is None:
        return
    if reuse.repeated_share < _NO_REUSE_SHARE:
        yield (
            f"Hardly any reuse: {format_share(reuse.repeated_share)} of the accesses are to a "
            "block that was accessed before, so no cache can serve more of them."
        )
        return
    cache = cache_for(reuse, 0.9)
    yield (
        f"Reuse: {format_share(reuse.repeated_share)} of the accesses are to a block that was "
        f"accessed before; a cache of {format_size(cache.cache_bytes)} (least recently used) would "
        f"serve {_share(cache)} of all accesses."
    )


def nameless(breakdown: str) -> str:
    """Return what requests without a name are called in a breakdown, as ``watch`` calls them."""
    return NOT_MAPPED if breakdown == "relation" else "unknown"


def cache_for(reuse: Reuse, part: float) -> HitRatio:
    """Return the smallest cache that serves a part of the accesses that the largest one serves."""
    wanted = part * reuse.hit_ratios[-1].share
    return next(each for each in reuse.hit_ratios if each.share >= wanted)


def _share(ratio: HitRatio) -> str:
    if ratio.low == ratio.high:
        return format_share(ratio.share)
    low, high = format_share(ratio.low).removesuffix(" %"), format_share(ratio.high)
    return f"{format_share(ratio.share)} ({low} to {high})"


def _bursts(load: LoadProfile) -> Iterator[str]:
    arrivals = load.arrivals
    if arrivals is None or not arrivals.dispersion:
        return
    chosen = max(arrivals.dispersion, key=lambda each: each.low)
    scale = format_duration_s(chosen.window_s)
    interval = f"{number(chosen.low)} to {number(chosen.high)}"
    if chosen.low > 2:
        peak = ""
        if arrivals.peak_per_s >= _PEAK_RATIO_MIN * arrivals.requests_per_s:
            times = arrivals.peak_per_s / arrivals.requests_per_s
            peak = f"; the busiest second has {times:.1f} times the mean rate"
        yield (
            f"Bursts: in windows of {scale} the number of arrivals varies {number(chosen.index)} "
            f"times as much as by chance ({interval}){peak}."
        )
        return
    if all(each.low <= 1 <= each.high for each in arrivals.dispersion):
        yield "Arrivals vary as by chance (Poisson), at all scales."
        return
    lowest: Dispersion = min(arrivals.dispersion, key=lambda each: each.high)
    if lowest.high < 1:
        yield (
            f"Steady: in windows of {format_duration_s(lowest.window_s)} the number of arrivals "
            f"varies {number(lowest.index)} times as much as by chance "
            f"({number(lowest.low)} to {number(lowest.high)})."
        )


def number(value: float) -> str:
    """Return a number with two digits or more."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _runs(load: LoadProfile) -> Iterator[str]:
    for each in load.sequentiality:
        share = each.sequential / each.requests
        if share > RANDOM_SHARE_MAX:
            yield (
                f"{format_share(share)} of the {each.operation}s begin where one of the previous "
                f"{WINDOW} ended (sequential); half of their bytes are in runs of "
                f"{format_size(each.run_bytes['p50'])} or more."
            )


def _in_flight(load: LoadProfile) -> Iterator[str]:
    found = load.concurrency
    if found is not None:
        yield (
            f"In flight: {number(found.mean)} requests on average, "
            f"{number(found.found['p99'])} at the 99th percentile of arrivals; at least one during "
            f"{format_share(found.busy_share)} of the time."
        )


def _tail(load: LoadProfile) -> Iterator[str]:
    for each in load.mix:
        times = each.latency_ns
        if "p99" in times and times["p99"] >= _TAIL_RATIO_MIN * max(1, times["p50"]):
            yield (
                f"Long tail: half of the {_plural(each.operation)} take "
                f"{format_duration_ns(times['p50'])} or less, and 1 % take "
                f"{format_duration_ns(times['p99'])} or more, up to "
                f"{format_duration_ns(times['p100'])}."
            )


def _flushes(load: LoadProfile) -> Iterator[str]:
    counts = {each.operation: each.requests for each in load.mix}
    if counts.get("flush") and counts.get("write"):
        per_flush = counts["write"] / counts["flush"]
        noun = "write" if per_flush == 1 else "writes"
        yield f"One flush per {format_number(per_flush)} {noun}."


def _failed(load: LoadProfile) -> Iterator[str]:
    if failed := sum(each.failed for each in load.mix):
        yield f"{format_plural(failed, 'request')} failed."


def _relations(load: LoadProfile) -> Iterator[str]:
    # A share of very few requests gets no sentence.
    least = (1 - _ONE_KIND_SHARE_MIN) * sum(each.reads + each.writes for each in load.relations)
    phrases = {"reads": "of the reads are of", "writes": "of the writes are to"}
    for kind, phrase in phrases.items():
        count = attrgetter(kind)
        total = sum(map(count, load.relations))
        ranked = sorted(load.relations, key=count, reverse=True)
        most = next((e for e in ranked if e.name not in (NOT_MAPPED, OTHER_PROGRAMS, "")), None)
        if most is None or total <= least:
            continue
        sentence = f"{format_share(count(most) / total)} {phrase} {most.name}"
        if ranked[0] is not most:
            name = ranked[0].name or NOT_MAPPED
            sentence += f" ({name}: {format_share(count(ranked[0]) / total)})"
        yield f"{sentence}."


def doubts(load: LoadProfile, about: RecordingMetadata) -> list[str]:
    """Return the limits of the figures, each in a sentence."""
    cut_off = ["The end of the recording is missing."] if about.is_cut_off else []
    return [
        *all_loss_sentences(about.lost),
        *cut_off,
        *left_out_lines(about),
        *unknown_lines(about),
        *_method(load),
    ]


_MADE_UP: Final = {
    TIME: "Times are synthetic: rates, bursts and working sets by time are unknown.",
    OPERATION: "Reads and writes are not distinguished: all requests count as reads.",
    ADDRESS: "Addresses are synthetic: which requests are sequential is unknown.",
}


def left_out_lines(about: RecordingMetadata) -> list[str]:
    """Return the records that an import left out, in a sentence each."""
    return [f"Left out: {each.reason} ({format_count(each.count)})." for each in about.left_out]


def unknown_lines(about: RecordingMetadata) -> list[str]:
    """Return the properties that the source does not have, in a sentence each."""
    made_up = [_MADE_UP[name] for name in about.made_up if name in _MADE_UP]
    return [*made_up, *_unknown(about)]


def _unknown(about: RecordingMetadata) -> Iterator[str]:
    names = {
        "the latency": about.knows_device,
        "the time in the queue": about.knows_queue or not about.knows_device,
        "whether a process waits": about.knows_sync,
        "which requests failed": about.knows_failures,
        "the process": about.knows_process,
    }
    unknown = [name for name, is_known in names.items() if not is_known]
    if unknown:
        yield f"Unknown in {about.source}: {', '.join(unknown)}."


def _method(load: LoadProfile) -> Iterator[str]:
    if load.seconds < _SHORT_S and load.arrivals is not None:
        yield (
            f"Short: {format_duration_s(load.seconds)} are too short for working sets and bursts "
            "that are minutes long."
        )
    if load.reuse is not None and load.reuse.method == "sampled":
        yield (
            f"Reuse is from four samples of {format_share(load.reuse.sampled_share)} of the blocks "
            "each (SHARDS); intervals are 95 % over the samples. All else is exact."
        )
    if load.arrivals is not None and load.arrivals.resolution_ns >= 10**6:
        yield (
            f"Times are multiples of {format_duration_ns(load.arrivals.resolution_ns)}: shorter "
            "bursts are not seen."
        )


def confidence(load: LoadProfile, about: RecordingMetadata) -> str:
    """Return the confidence in the figures, as one paragraph."""
    length = f" in {format_duration_s(load.seconds)}" if TIME not in about.made_up else ""
    basis = f"{format_count(load.requests)} requests{length}, from {about.source}."
    return " ".join([basis, *doubts(load, about)])
