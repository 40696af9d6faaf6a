"""Results of a real cache device in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from seatrial.stats.wording import (
    capitalized,
    format_duration_s,
    format_iops,
    format_plural,
    format_share,
)
from seatrial.study.units import format_size
from seatrial.trials.cache.analysis.warm_up import (
    BOUND_POINTS,
    BOUND_SHARE,
    LEVELS,
    CacheAnalysis,
    CacheCell,
)

NOT_REACHED: Final = "not reached"
UNKNOWN: Final = "–"


def pool_phrase(cell: CacheCell) -> str:
    """Return what a pool is: ``8 KiB, striped, ARC 32 MiB``; clients unless direct."""
    clients = ", cached clients" if cell.clients == "cached" else ""
    arc = f", ARC {format_size(cell.arc_bytes)}" if cell.arc_bytes else ""
    return f"{format_size(cell.record_bytes)}, {cell.pool}{arc}{clients}"


def signed_percent(share: float | None) -> str:
    """Return a signed share, such as ``+9 %``; a dash where it is unknown."""
    return UNKNOWN if share is None else f"{share * 100:+.0f} %"


def signed_points(points: float | None) -> str:
    """Return a signed difference of shares, such as ``-3.6``; a dash where it is unknown."""
    return UNKNOWN if points is None else f"{points * 100:+.1f}"


def time_phrase(time_s: float | None) -> str:
    """Return a time, or that it was not reached."""
    return NOT_REACHED if time_s is None else format_duration_s(time_s)


def verdict_phrase(found: CacheAnalysis) -> str:
    """Return the result of the first pool with a device in a few words, lower case."""
    ratios = (each for each in found.rows if each.ratio is not None)
    row = next(ratios, found.rows[0] if found.rows else None)
    if row is None:
        return "no pool was measured"
    warm = "not warm in the end" if row.warm_s is None else f"90 % warm after {row.warm_s:.0f} s"
    if row.ratio is not None:
        return f"the cache device gives {row.ratio:.1f}x the reads, {warm}"
    if row.with_bytes_per_s:
        rate = format_iops(row.with_bytes_per_s / row.record_bytes)
        return f"{rate} IOPS with the cache device, {warm}"
    return _memory_verdict(found.cells)


def _memory_verdict(cells: Sequence[CacheCell]) -> str:
    """Return what memory alone gives, of pools or layouts without a cache device."""
    most = max(cells, key=lambda cell: cell.plateau_bytes_per_s)
    rate = f"{format_iops(most.plateau_bytes_per_s / most.record_bytes)} IOPS"
    pairs = [(cell, _memory_share(cell)) for cell in cells]
    known = [(cell, share) for cell, share in pairs if cell.arc_bytes and share is not None]
    known.sort(key=lambda each: each[0].arc_bytes)
    if not known or known[-1][0] is not most:
        return f"up to {rate} without a cache device"
    large, small = known[-1], known[0]
    words = f"an ARC of {format_size(large[0].arc_bytes)} serves {format_share(large[1])}"
    if large[0].arc_bytes == small[0].arc_bytes:
        return f"{words} of the reads: {rate}"
    return (
        f"{words} of the reads, one of {format_size(small[0].arc_bytes)} {format_share(small[1])}: "
        f"up to {rate}"
    )


def _memory_share(cell: CacheCell) -> float | None:
    return cell.median_of(each.memory_share for each in cell.samples)


def sentences(found: CacheAnalysis) -> list[str]:
    """Return how good the predictions were, and whether every start was cold."""
    lines = []
    for cell in found.cells:
        if not cell.has_cache or not cell.law:
            continue
        errors = []
        for name in LEVELS:
            error = cell.median_of(each.error_of(name) for each in cell.samples)
            errors.append(f"{name} {signed_percent(error)}")
        line = f"{pool_phrase(cell)}: the prediction made before was off by {', '.join(errors)}"
        points = cell.median_of(each.fill_law_points for each in cell.samples)
        if points is not None:
            line += (
                f"; the device served {signed_points(points)} points of memory's misses more than "
                "it held of the file"
            )
        lines.append(f"{line}.")
    lines += _memory_sentences(found)
    warm = [sample for cell in found.cells for sample in cell.samples if not sample.is_cold]
    if warm:
        lines.append(f"{format_plural(len(warm), 'sample')} did not start cold.")
    else:
        lines.append("The counters prove a cold start of every sample.")
    return [capitalized(each) for each in lines]


def _memory_sentences(found: CacheAnalysis) -> list[str]:
    """Return how good the predictions of pools without a device were; empty without any."""
    samples = [each for cell in found.cells if not cell.has_cache for each in cell.samples]
    points = [each.memory_points for each in samples if each.memory_points is not None]
    rates = [each.plateau_error for each in samples if each.plateau_error is not None]
    if not points or not rates:
        return []
    return [
        "without a device, the share of the reads that memory serves was predicted within "
        f"{max(map(abs, points)) * 100:.1f} points, and the rate within "
        f"{format_share(max(map(abs, rates)))}."
    ]


def misses_of_bounds(found: CacheAnalysis) -> list[str]:
    """Return each prediction that was off by more than its bound, as a sentence."""
    lines = []
    for cell in found.cells:
        for sample in cell.samples:
            where = f"{pool_phrase(cell)}, round {sample.round + 1}"
            for name in LEVELS:
                error = sample.error_of(name)
                if error is not None and abs(error) > BOUND_SHARE:
                    lines.append(f"{where}: {name} was off by {signed_percent(error)}.")
            points = sample.fill_law_points
            if points is not None and abs(points) > BOUND_POINTS:
                lines.append(f"{where}: the fill law was off by {signed_points(points)} points.")
            points = sample.memory_points
            if points is not None and abs(points) > BOUND_POINTS:
                lines.append(f"{where}: memory's share was off by {signed_points(points)} points.")
    return lines
