"""Finding ``device_cache_served``: something between page cache and medium answered."""

from __future__ import annotations

from collections import defaultdict

from seatrial.findings.context import Context, identities, is_of_a_device, median_over_samples
from seatrial.findings.rule import from_samples
from seatrial.findings.traffic import (
    DEVICE_SHARE_MIN,
    asked_read_bytes,
    device_share,
    is_direct,
    span_bytes,
)
from seatrial.stats.estimates import paired_ratio
from seatrial.stats.model import CellSummary, Estimate, Finding
from seatrial.stats.wording import (
    format_estimate,
    format_plural,
    format_rate_bytes,
    format_share,
    format_size,
)
from seatrial.trials.io.bounds.path import Broken, broken_bound, controller_cache

SMALL_FILE_FACTOR = 1.5
SMALL_FILE_FACTOR_LOW = 1.1
CACHED_SHARE_MIN = 0.5
"""Of a file, the least that a cache must be able to hold for its cells to be doubted."""


@from_samples(rank=200, section="Whose number is it?", holds_in_lab=False)
def device_cache_served(context: Context) -> list[Finding]:
    """Find direct cells faster than their links, than the device moved, or than a bigger file.

    Cells that are not proven to be a cache's, but whose file a controller's cache holds in good
    part, are told of as such.

    Means:
        With direct I/O, something between page cache and medium answered: the drive's memory, a
        controller, a cache tier, the host of a virtual machine, a loop device over the page cache.

    Decided:
        Any of four, for direct cells:

        - the lower end of the interval of what moved one way is above what the drives' links carry
          after encoding (SATA and SAS 100 MB/s per Gb/s and lane; where a drive has no other link,
          the narrowest PCIe link on its way; links of an array added up, a shared one once), though
          not above the bus (`bound_broken`): critical;
        - the device under the file system delivered less than half of the bytes read, by its own
          counters (samples of at least 16 MiB): critical;
        - a small file was more than 1.5 times as fast as a big one with all else equal, paired by
          round, and the interval begins above 1.1: warning;
        - the controller's cache, where it tells its size or `seatrial audit --controller-cache`
          does, can hold more than half of the file, and no bound proves more: "may be a cache's",
          warning. No interface tells what a drive itself holds.

        The first and second also hold for layers that compress, and for blocks that were never
        written.

    Do:
        Fill with incompressible data and repeat on a range of twice the cache; attach loop devices
        with `--direct-io=on`; plan with the big file's numbers.
    """
    direct = [c for c in context.cells if is_of_a_device(c) and is_direct(c)]
    broken = {c.cell.key: broken_bound(context.before_of(c), c) for c in direct}
    plausible = [c for c in direct if broken[c.cell.key] is None]
    found = [
        _above_links(context, direct, broken),
        _device_idle(context, direct),
        _small_file(direct),
        _held_by_controller(context, plausible),
    ]
    return [finding for finding in found if finding]


def _above_links(
    context: Context, direct: list[CellSummary], broken: dict[str, Broken | None]
) -> Finding | None:
    """Return what is faster than the drives' links; faster than the bus is ``bound_broken``."""
    above = {key: one for key, one in broken.items() if one and one.bound.name == "drive_links"}
    if not above:
        return None
    concerned = [c for c in direct if c.cell.key in above]
    bound, rate = max(above.values(), key=lambda one: one.rate.value)
    are = "is" if len(concerned) == 1 else "are"
    return Finding(
        kind="device_cache_served",
        severity="critical",
        cells=identities(concerned),
        sentence=(
            f"{context.of_cells(concerned)}, up to {format_estimate(rate)}, {are} served by a "
            f"cache: {bound.words} at {format_rate_bytes(bound.bytes_per_s, 0)} ({bound.detail})."
        ),
        cause=(
            "What no link can carry did not come over it: memory on the near side of the links "
            "answered (a RAID controller's cache, a loop device over the page cache, the host of a "
            "virtual machine, a cache tier), or a layer that compresses or knows empty blocks."
        ),
        evidence={
            "bandwidth_bytes_per_s": rate.value,
            "link_bytes_per_s": bound.bytes_per_s,
            "link_source": bound.source,
            "cells_count": len(concerned),
        },
        next=(
            "Do not read these cells as the device's. Measure a range of twice the cache's size, "
            "filled with incompressible data; look at the layers with 'lsblk' and 'losetup --list "
            "--output NAME,DIO,BACK-FILE'."
        ),
    )


def _held_by_controller(context: Context, plausible: list[CellSummary]) -> Finding | None:
    """Return the cells of which a controller's cache may have served at least half."""
    held = {
        c.cell.key: (cache, span)
        for c in plausible
        if (cache := controller_cache(context.before_of(c)))
        and (span := span_bytes(c))
        and cache.size_bytes > span * CACHED_SHARE_MIN
    }
    if not held:
        return None
    concerned = [c for c in plausible if c.cell.key in held]
    cache, span = min(held.values(), key=lambda one: one[1])
    return Finding(
        kind="device_cache_served",
        severity="warning",
        cells=identities(concerned),
        sentence=(
            f"{context.of_cells(concerned)} may be a cache's: {cache.words} "
            f"({format_size(cache.size_bytes)}) can hold "
            f"{format_share(min(1.0, cache.size_bytes / span))} of the file ({format_size(span)})."
        ),
        cause=(
            "A controller answers reads of what it holds, and takes writes before the drives do. "
            "Nothing here proves that it did, and nothing excludes it."
        ),
        evidence={
            "cache_bytes": cache.size_bytes,
            "cache_source": cache.source,
            "span_bytes_min": span,
            "cells_count": len(concerned),
        },
        next="Measure a range of at least twice the cache, and compare: --size.",
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
