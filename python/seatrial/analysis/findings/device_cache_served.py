"""Finding ``device_cache_served``: something between page cache and medium answered."""

from __future__ import annotations

from collections import defaultdict

from seatrial.analysis.estimates import counted, estimate_of_rounds, paired_ratio
from seatrial.analysis.findings.context import (
    Context,
    identities,
    is_of_a_device,
    median_over_samples,
    physical_devices,
)
from seatrial.analysis.findings.traffic import (
    DEVICE_SHARE_MIN,
    asked_read_bytes,
    asked_write_bytes,
    device_share,
    is_direct,
    links_bytes_per_s,
    span_bytes,
)
from seatrial.analysis.model import CellSummary, Estimate, Finding
from seatrial.analysis.wording import (
    format_estimate,
    format_plural,
    format_rate_bytes,
    format_share,
    format_size,
)

SMALL_FILE_FACTOR = 1.5
SMALL_FILE_FACTOR_LOW = 1.1


def device_cache_served(context: Context) -> list[Finding]:
    """Find direct cells faster than their link, than the device moved, or than a bigger file."""
    direct = [c for c in context.cells if is_of_a_device(c) and is_direct(c)]
    found = [_above_link(context, direct), _device_idle(context, direct), _small_file(direct)]
    return [finding for finding in found if finding]


def _busier_direction(summary: CellSummary) -> Estimate:
    """Return bytes per second of reads or of writes, whichever is more.

    A link carries both ways at once, so their sum may well be above what it carries one way.
    """
    samples = [sample for sample in counted(summary.samples) if sample.duration_s > 0]
    ways = (asked_read_bytes, asked_write_bytes)
    rates = [[way(sample) / sample.duration_s for sample in samples] or [0.0] for way in ways]
    return max((estimate_of_rounds(r, "B/s") for r in rates), key=lambda e: e.value)


def _above_link(context: Context, direct: list[CellSummary]) -> Finding | None:
    rates = {c.cell.key: _busier_direction(c) for c in direct}
    limits = {c.cell.key: links_bytes_per_s(physical_devices(context.before_of(c))) for c in direct}

    def is_above(summary: CellSummary) -> bool:
        rate, limit_bytes_per_s = rates[summary.cell.key], limits[summary.cell.key]
        surely_bytes_per_s = rate.value if rate.low is None else rate.low
        return limit_bytes_per_s is not None and surely_bytes_per_s > limit_bytes_per_s

    concerned = [c for c in direct if is_above(c)]
    if not concerned:
        return None
    worst = max(concerned, key=lambda c: rates[c.cell.key].value)
    fastest, limit_bytes_per_s = rates[worst.cell.key], limits[worst.cell.key] or 0.0
    return Finding(
        kind="device_cache_served",
        severity="critical",
        cells=identities(concerned),
        sentence=(
            f"{context.of_cells(concerned)}: {format_estimate(fastest)} is more than the link to "
            f"the device carries ({format_rate_bytes(limit_bytes_per_s)})."
        ),
        cause=(
            "What no link can carry did not come over it: memory below the file system answered "
            "(a loop device over the page cache, the host of a virtual machine, a cache tier), or "
            "a layer that compresses or knows empty blocks."
        ),
        evidence={
            "bandwidth_bytes_per_s": fastest.value,
            "link_bytes_per_s": limit_bytes_per_s,
            "cells_count": len(concerned),
        },
        next=(
            "Do not read these cells as the device's. Look at the layers with 'lsblk' and 'losetup "
            "--list --output NAME,DIO,BACK-FILE'; fill with incompressible data and repeat."
        ),
    )


def _device_idle(context: Context, direct: list[CellSummary]) -> Finding | None:
    shares = {
        c.cell.key: median_over_samples(
            c.samples,
            lambda sample: device_share(sample, "device_read_bytes", asked_read_bytes(sample)),
        )
        for c in direct
    }
    least = {key: share for key, share in shares.items() if share is not None}
    concerned = [c for c in direct if least.get(c.cell.key, 1.0) < DEVICE_SHARE_MIN]
    if not concerned:
        return None
    share_min = min(least[c.cell.key] for c in concerned)
    return Finding(
        kind="device_cache_served",
        severity="critical",
        cells=identities(concerned),
        sentence=(
            f"Direct reads of {context.of_cells(concerned)} hardly reached the device: it "
            f"delivered as little as {format_share(share_min)} of the bytes."
        ),
        cause=(
            "A layer below O_DIRECT answered from memory: a loop device over a file in the page "
            "cache, a cache tier, a file system that caches or compresses (ZFS, btrfs), or blocks "
            "that were never written, which need no reading."
        ),
        evidence={
            "device_read_share_min": share_min,
            "device_read_share_allowed": DEVICE_SHARE_MIN,
            "cells_count": len(concerned),
        },
        next=(
            "Fill the file first, attach a loop device with 'losetup --direct-io=on', and try the "
            "device below; compare with 'iostat -x 1' meanwhile."
        ),
    )


def _small_file(direct: list[CellSummary]) -> Finding | None:
    """Return what a small file gained over a big one with everything else equal."""
    gains = [(small, big, gain) for small, big in _pairs(direct) if (gain := _gain(small, big))]
    gains = [one for one in gains if _is_gain(one[2])]
    if not gains:
        return None
    small, big, most = max(gains, key=lambda one: one[2].value)
    small_bytes, big_bytes = span_bytes(small) or 0, span_bytes(big) or 0
    concerned = [one[0] for one in gains]
    return Finding(
        kind="device_cache_served",
        severity="warning",
        cells=identities(concerned),
        sentence=(
            f"The small file ({format_size(small_bytes)}) is up to {format_estimate(most)} as fast "
            f"as the big one ({format_size(big_bytes)}), in {format_plural(len(gains), 'pair')} "
            "of cells."
        ),
        cause=(
            "A cache below the file system holds the small file: the drive's own memory, a flash "
            "drive's fast region, a controller's or an array's cache. The big file shows the rest."
        ),
        evidence={
            "ratio_max": most.value,
            "ratio_low": most.low,
            "ratio_allowed": SMALL_FILE_FACTOR,
            "small_bytes": small_bytes,
            "big_bytes": big_bytes,
            "pairs_count": len(gains),
        },
        next=(
            "Plan with the big file's numbers, and repeat with a still bigger one: where the rate "
            "stops falling the cache no longer helps."
        ),
    )


def _pairs(direct: list[CellSummary]) -> list[tuple[CellSummary, CellSummary]]:
    """Return (small, big) cells that differ in the factor ``file`` alone."""
    alike = defaultdict(list)
    for summary in direct:
        if "file" in summary.cell.factors and span_bytes(summary):
            rest = {k: v for k, v in summary.cell.identity().items() if k != "file"}
            alike[tuple(sorted(rest.items()))].append(summary)
    groups = [sorted(group, key=lambda c: span_bytes(c) or 0) for group in alike.values()]
    return [
        (group[0], group[-1]) for group in groups if span_bytes(group[0]) != span_bytes(group[-1])
    ]


def _gain(small: CellSummary, big: CellSummary) -> Estimate | None:
    return paired_ratio(small.samples, big.samples, lambda s: s.transferred_bytes_per_s)


def _is_gain(gain: Estimate) -> bool:
    surely = gain.low is None or gain.low > SMALL_FILE_FACTOR_LOW
    return gain.value > SMALL_FILE_FACTOR and surely
