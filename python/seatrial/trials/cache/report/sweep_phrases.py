"""A sweep of shared buffers in words: the answer, notable facts, its limits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from seatrial.stats.wording import format_count, format_duration_s, format_share
from seatrial.study.units import format_size
from seatrial.trials.cache.analysis.sweep import CacheSweepResult, SweepCheck, SweepPoint
from seatrial.trials.cache.analysis.sweep_bound import CacheBound

HIT_POINTS_MAX: Final = 2.0
RATE_SHARE_MAX: Final = 0.15
"""A check with a larger error is reported in the first lines."""
_ENOUGH_SHARE: Final = 0.95
_GAIN_MIN: Final = 1.05
_SCANS_MIN: Final = 0.05
_LOST_MIN: Final = 0.01
_SATURATED: Final = 0.9
_LITTLE_POINTS: Final = 0.005
_SHORT_S: Final = 10.0


def verdict_line(found: CacheSweepResult) -> str:
    """Return the verdict in one line: the prediction, and whether sizes that were run refute it."""
    return f"{_predicted(found)}{_refuted(found)}"


def _refuted(found: CacheSweepResult) -> str:
    """Return the size whose prediction missed most; empty if all are close."""
    missed = [each for each in found.checks if not is_close(each)]
    if not missed:
        return ""
    worst = max(missed, key=lambda each: abs(each.rate_error_share))
    did = f"{_rate(worst.measured_per_s)} {found.unit}/s, predicted {_rate(worst.predicted_per_s)}"
    if abs(worst.rate_error_share) <= RATE_SHARE_MAX:
        worst = max(missed, key=lambda each: abs(each.hit_error_points))
        did = (
            f"a hit ratio of {format_share(worst.measured_hit_share)}, predicted "
            f"{format_share(worst.predicted_hit_share)}"
        )
    return (
        f" It missed {len(missed)} of {len(found.checks)} sizes that were run: "
        f"{format_size(worst.buffers_bytes)} did {did}."
    )


def _predicted(found: CacheSweepResult) -> str:
    present, best, enough = present_point(found), found.curve[-1], enough_point(found)
    rate = f"{_rate(present.per_s)} {found.unit}/s"
    if best.per_s < present.per_s * _GAIN_MIN:
        smaller = (
            f"; {format_size(enough.buffers_bytes)} would do {_rate(enough.per_s)}"
            if enough.buffers_bytes < present.buffers_bytes
            else ""
        )
        return (
            f"More shared buffers gain nothing: {format_size(present.buffers_bytes)} serve "
            f"{format_share(present.hit_share)} of the page accesses; {rate} are "
            f"predicted{smaller}."
        )
    return (
        f"{format_size(enough.buffers_bytes)} of shared buffers would do "
        f"{enough.per_s / present.per_s:.1f} times the work of "
        f"{format_size(present.buffers_bytes)}: {_rate(enough.per_s)} {found.unit}/s "
        f"({_rate(enough.per_s_low)} to {_rate(enough.per_s_high)}) are predicted, "
        f"{_rate(present.per_s)} at the present size."
    )


def present_point(found: CacheSweepResult) -> SweepPoint:
    """Return the point of the present size, or the nearest one."""
    return min(found.curve, key=lambda each: abs(each.buffers_bytes - found.present_bytes))


def enough_point(found: CacheSweepResult) -> SweepPoint:
    """Return the smallest size beyond which little is gained."""
    enough = _ENOUGH_SHARE * found.curve[-1].per_s
    return next(each for each in found.curve if each.per_s >= enough)


def notable(found: CacheSweepResult) -> list[str]:
    """Return notable facts, in a sentence each."""
    return [*_checks(found), *_fits(found), *_limits(found), *_behind(found)]


def _checks(found: CacheSweepResult) -> Iterator[str]:
    for each in found.checks:
        verb = "agrees" if is_close(each) else "is off"
        # What is rounded to 0 has no minus.
        points = round(each.hit_error_points, 1) + 0.0
        percent = round(100 * each.rate_error_share) + 0.0
        yield (
            f"Measured, {format_size(each.buffers_bytes)} {verb}: hit ratio "
            f"{format_share(each.measured_hit_share)}, predicted "
            f"{format_share(each.predicted_hit_share)} ({points:+.1f} points); "
            f"{_rate(each.measured_per_s)} {found.unit}/s, predicted "
            f"{_rate(each.predicted_per_s)} ({percent:+.0f} %)."
        )


def is_close(check: SweepCheck) -> bool:
    """Return whether a prediction is within 2 points and 15 %."""
    return (
        abs(check.hit_error_points) <= HIT_POINTS_MAX
        and abs(check.rate_error_share) <= RATE_SHARE_MAX
    )


def _fits(found: CacheSweepResult) -> Iterator[str]:
    for each in found.relations[:3]:
        if each.hit_shares[-1] - each.hit_shares[0] < _LITTLE_POINTS:
            continue
        if each.fits_bytes is not None:
            yield (
                f"{each.name} ({format_size(each.size_bytes)}) fits at "
                f"{format_size(each.fits_bytes)}: {format_share(each.hit_shares[-1])} of its "
                "accesses are then served."
            )
        else:
            yield (
                f"{each.name} ({format_size(each.size_bytes)}) gains up to the largest size: "
                f"{format_share(each.hit_shares[-1])} of its accesses."
            )


def _limits(found: CacheSweepResult) -> Iterator[str]:
    smallest = found.curve[0]
    used = smallest.reads_per_operation * found.operations / found.seconds
    if used > _SATURATED * found.storage_reads_per_s:
        yield (
            f"With the smallest buffers the storage is the limit: {_rate(used)} of the "
            f"{_rate(found.storage_reads_per_s)} page reads/s that it serves."
        )
    whole = (
        found.reads_ms_per_operation + found.writes_ms_per_operation + found.other_ms_per_operation
    )
    yield (
        f"With the smallest buffers, the {found.unit} take {_ms(whole)} each: "
        f"{_ms(found.reads_ms_per_operation)} are reads, {_ms(found.writes_ms_per_operation)} "
        f"writes that make room, and {_ms(found.other_ms_per_operation)} the rest (processor "
        f"{_ms(found.processor_ms_per_operation)}, commits, locks)."
    )


def _behind(found: CacheSweepResult) -> Iterator[str]:
    best = found.behind[-1] if found.behind else None
    if best is None or best.served_share <= 0:
        return
    enough = next(
        each for each in found.behind if each.served_share >= _ENOUGH_SHARE * best.served_share
    )
    yield (
        f"A page cache of {format_size(enough.memory_bytes)} behind "
        f"{format_size(found.present_bytes)} of shared buffers would serve "
        f"{format_share(enough.served_share)} of what they read."
    )


def doubts(found: CacheSweepResult) -> list[str]:
    """Return the limits of the prediction, in a sentence each."""
    return list(_doubts(found))


def _doubts(found: CacheSweepResult) -> Iterator[str]:
    yield (
        f"Warm: the first half of the replay is not counted. One replay of "
        f"{format_count(found.operations)} {found.unit} in {format_duration_s(found.seconds)}; "
        "the intervals cover its variation, not what the model leaves out."
    )
    yield (
        "Without page cache, autovacuum, timed checkpoints and background writer: a server with "
        "the latter three reads and writes more."
    )
    if found.seconds < _SHORT_S:
        yield "Short: few pages come back within such a replay."
    if found.scan_share > _SCANS_MIN:
        yield (
            f"{format_share(found.scan_share)} of the reads are of large scans, which PostgreSQL "
            "keeps to a small ring: they are simulated like all others."
        )
    if found.lost_share > _LOST_MIN:
        yield (
            f"{format_share(found.lost_share)} of the pages that the server read are not in the "
            "recording; they are assumed to be like the others."
        )
    if not found.checks:
        yield "No size was measured, so the prediction is not checked."
    for each in found.checks:
        if not is_close(each):
            yield f"At {format_size(each.buffers_bytes)} the prediction missed what was measured."
    if found.method == "sampled":
        yield "From four samples of the pages; intervals are 95 % over them."


def bound_verdict(found: CacheBound) -> str:
    """Return the verdict on a running server, in one line."""
    share = format_share(found.hit_share)
    start = (
        f"A bound, not a prediction: {format_size(found.present_bytes)} of shared buffers serve "
        f"{share} of the page accesses"
    )
    if found.reads_per_s is None:
        return (
            f"{start} that were counted; a transaction was open for "
            f"{format_duration_s(found.open_s)}, whose accesses count when it ends."
        )
    if found.gain_ratio_max is not None:
        return f"{start}, and no size does more than {found.gain_ratio_max:.1f} times the work."
    return f"{start}; the cost of the other accesses is unknown."


def bound_notable(found: CacheBound) -> list[str]:
    """Return notable facts of a running server, in a sentence each."""
    lines = []
    if found.reads_per_s is not None:
        lines.append(f"{_rate(found.reads_per_s)} pages/s come from the page cache or the storage.")
        if found.read_wait_share is not None:
            share = format_share(found.read_wait_share)
            lines.append(f"Sessions wait for them {share} of their active time.")
    whole = [
        each.name
        for each in found.relations
        if each.buffered_bytes is not None and each.buffered_bytes >= each.size_bytes > 0
    ]
    if whole:
        lines.append(f"Entirely in shared buffers: {', '.join(whole[:5])}.")
    return lines


def bound_doubts(found: CacheBound) -> list[str]:
    """Return the limits of a bound, in a sentence each."""
    lines = [
        "Bounds by size assume that each further byte gains no more than the previous ones. Scans "
        "that are larger than the cache violate this.",
        "Reads include those that the page cache serves.",
    ]
    if found.reads_per_s is None:
        lines.append(
            "What a long transaction accesses is missing, or of another time: sample for several "
            "times as long as the longest one."
        )
    if found.read_wait_share is None:
        lines.append("The server does not time its reads: set track_io_timing = on.")
    if all(each.buffered_bytes is None for each in found.relations):
        lines.append("What is in shared buffers is unknown: CREATE EXTENSION pg_buffercache.")
    lines.append("To predict every size, replay its log: `seatrial cache sweep DIR --log TRACE`.")
    return lines


def _rate(per_s: float) -> str:
    return f"{per_s:,.0f}" if per_s >= 100 else f"{per_s:.3g}"


def _ms(value: float) -> str:
    return f"{value:.3g} ms"
