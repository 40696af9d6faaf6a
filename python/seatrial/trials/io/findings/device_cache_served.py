"""Finding ``device_cache_served``: a cache between page cache and medium served requests."""

from __future__ import annotations

from collections import defaultdict
from typing import Annotated

from seatrial.findings.context import (
    AffectedCells,
    Context,
    identities,
    is_of_a_device,
)
from seatrial.findings.rule import from_samples
from seatrial.findings.traffic import (
    DEVICE_SHARE_MIN,
    device_read_share,
    is_direct,
    span_bytes,
)
from seatrial.published import HIDDEN
from seatrial.stats.cell_estimates import paired_ratio
from seatrial.stats.model import CellSummary, Estimate, Figures, Finding, FindingText
from seatrial.stats.wording import (
    format_estimate,
    format_plural,
    format_rate_bytes,
    format_share,
    format_size,
)
from seatrial.trials.io.bounds import Broken, broken_bound, controller_cache

SMALL_FILE_FACTOR = 1.5
SMALL_FILE_FACTOR_LOW = 1.1
CACHED_SHARE_MIN = 0.5
"""Least share of a file that a cache must be able to hold to put its cells in doubt."""


@from_samples(
    rank=200,
    section="Validity of the figures",
    holds_in_lab=False,
    doubt="a cache, not the device, served the requests",
)
def device_cache_served(context: Context) -> list[Finding]:
    """Find direct cells faster than their links, the device's traffic, or a larger file.

    Also finds cells without such proof whose file mostly fits in a controller's cache.

    Means:
        With direct I/O, a cache between page cache and medium served the requests: the drive's
        memory, a controller, a cache tier, the host of a virtual machine, a loop device backed by
        the page cache.

    Decided:
        Any of four, for direct tests:

        - the lower end of the interval of the bandwidth in one direction exceeds the bandwidth of
          the drives' links after encoding (SATA and SAS 100 MB/s per Gb/s and lane; for a drive
          without another link, the narrowest PCIe link on its path, at its highest speed; links
          of an array are added up, a shared one counts once), but not that of the bus
          (`bound_broken`): critical;
        - the device under the file system delivered less than half of the bytes read, by its own
          counters (samples of at least 16 MiB): critical;
        - a small file was more than 1.5 times as fast as a large one with all else equal, paired by
          round, and the interval begins above 1.1: warning;
        - the controller's cache, if it reports its size or `seatrial audit --controller-cache`
          gives it, can hold more than half of the file, and no bound proves more: "may be served
          by a cache", warning. No interface reports the contents of a drive's own cache.

        The first and second also apply to layers that compress, and to blocks that were never
        written.

    Do:
        Fill with incompressible data and repeat on a range of twice the cache size; attach loop
        devices with `--direct-io=on`; plan with the figures of the large file.
    """
    direct = [c for c in context.cells if is_of_a_device(c) and is_direct(c)]
    broken = {c.cell.key: broken_bound(context.before_of(c), c) for c in direct}
    plausible = [c for c in direct if broken[c.cell.key] is None]
    found = [
        _above_links(context, direct, broken),
        _device_idle(context, direct),
        _small_file(direct),
        _controller_cache(context, plausible),
    ]
    return [finding for finding in found if finding]


class DeviceCacheServedInShort(Figures, frozen=True, kw_only=True, tag="device_cache_served"):
    """Figures of every ``device_cache_served``."""

    def in_short(self, cells_count: int) -> str:
        return f"a cache below the file system served {format_plural(cells_count, 'test')}"


class AboveLinksFigures(DeviceCacheServedInShort, frozen=True, kw_only=True):
    """Figures of ``device_cache_served``: above links."""

    bandwidth_bytes_per_s: float
    link_bytes_per_s: float
    link_source: str
    cells_count: int
    concerned: Annotated[AffectedCells, HIDDEN]
    rate: Annotated[Estimate, HIDDEN]
    bound_phrase: Annotated[str, HIDDEN]
    bound_detail: Annotated[str, HIDDEN]

    def text(self) -> FindingText:
        return FindingText(
            sentence=(
                f"A cache served {self.concerned}: up to {format_estimate(self.rate)}, but "
                f"{self.bound_phrase} at {format_rate_bytes(self.link_bytes_per_s, 0)} "
                f"({self.bound_detail})."
            ),
            cause=(
                "The rate exceeds the bandwidth of the links, so memory on the host's side of them "
                "served the requests (a RAID controller's cache, a loop device backed by the page "
                "cache, the host of a virtual machine, a cache tier), or a layer that compresses "
                "or skips empty blocks."
            ),
            next=(
                "These figures are not those of the device. Measure a range of twice the cache "
                "size, filled with incompressible data; check the layers with 'lsblk' and "
                "'losetup --list --output NAME,DIO,BACK-FILE'."
            ),
        )


def _above_links(
    context: Context, direct: list[CellSummary], broken: dict[str, Broken | None]
) -> Finding | None:
    """Return cells faster than the drives' links; faster than the bus is ``bound_broken``."""
    above = {key: one for key, one in broken.items() if one and one.bound.name == "drive_links"}
    if not above:
        return None
    concerned = [c for c in direct if c.cell.key in above]
    bound, rate = max(above.values(), key=lambda one: one.rate.value)
    figures = AboveLinksFigures(
        bandwidth_bytes_per_s=rate.value,
        link_bytes_per_s=bound.bytes_per_s,
        link_source=bound.source,
        cells_count=len(concerned),
        concerned=context.affected_cells(concerned),
        rate=rate,
        bound_phrase=bound.words,
        bound_detail=bound.detail,
    )
    return Finding(severity="critical", cells=identities(concerned), figures=figures)


class ControllerCacheFigures(DeviceCacheServedInShort, frozen=True, kw_only=True):
    """Figures of ``device_cache_served``: held by controller."""

    cache_bytes: int
    cache_source: str
    span_bytes_min: int
    cells_count: int
    concerned: Annotated[AffectedCells, HIDDEN]
    cache_phrase: Annotated[str, HIDDEN]

    def text(self) -> FindingText:
        return FindingText(
            sentence=(
                f"{self.concerned} may be served by a cache: {self.cache_phrase} "
                f"({format_size(self.cache_bytes)}) can hold "
                f"{format_share(min(1.0, self.cache_bytes / self.span_bytes_min))} of the file "
                f"({format_size(self.span_bytes_min)})."
            ),
            cause=(
                "A controller serves reads of cached blocks and acknowledges writes before the "
                "drives do. The measurement neither proves nor excludes this."
            ),
            next="Measure a range of at least twice the cache size (--size) and compare.",
        )


def _controller_cache(context: Context, plausible: list[CellSummary]) -> Finding | None:
    """Return the cells whose requests a controller's cache may have served by half or more."""
    cached_spans = {
        c.cell.key: (cache, span)
        for c in plausible
        if (cache := controller_cache(context.before_of(c)))
        and (span := span_bytes(c))
        and cache.size_bytes > span * CACHED_SHARE_MIN
    }
    if not cached_spans:
        return None
    concerned = [c for c in plausible if c.cell.key in cached_spans]
    cache, span = min(cached_spans.values(), key=lambda one: one[1])
    figures = ControllerCacheFigures(
        cache_bytes=cache.size_bytes,
        cache_source=cache.source,
        span_bytes_min=span,
        cells_count=len(concerned),
        concerned=context.affected_cells(concerned),
        cache_phrase=cache.words,
    )
    return Finding(severity="warning", cells=identities(concerned), figures=figures)


class DeviceIdleFigures(DeviceCacheServedInShort, frozen=True, kw_only=True):
    """Figures of ``device_cache_served``: device idle."""

    device_read_share_min: float
    device_read_share_allowed: float
    cells_count: int
    concerned: Annotated[AffectedCells, HIDDEN]

    def text(self) -> FindingText:
        return FindingText(
            sentence=(
                f"Most direct reads of {self.concerned} did not reach the device: it delivered "
                f"only {format_share(self.device_read_share_min)} of the bytes."
            ),
            cause=(
                "A layer below O_DIRECT served them from memory: a loop device backed by the page "
                "cache, a cache tier, a file system that caches or compresses (ZFS, btrfs), or "
                "blocks that were never written and need no read."
            ),
            next=(
                "Fill the file first, attach a loop device with 'losetup --direct-io=on', and "
                "measure the underlying device; watch 'iostat -x 1' meanwhile."
            ),
        )


def _device_idle(context: Context, direct: list[CellSummary]) -> Finding | None:
    shares = {c.cell.key: device_read_share(c) for c in direct}
    least = {key: share for key, share in shares.items() if share is not None}
    concerned = [c for c in direct if least.get(c.cell.key, 1.0) < DEVICE_SHARE_MIN]
    if not concerned:
        return None
    share_min = min(least[c.cell.key] for c in concerned)
    figures = DeviceIdleFigures(
        device_read_share_min=share_min,
        device_read_share_allowed=DEVICE_SHARE_MIN,
        cells_count=len(concerned),
        concerned=context.affected_cells(concerned),
    )
    return Finding(severity="critical", cells=identities(concerned), figures=figures)


class SmallFileFigures(DeviceCacheServedInShort, frozen=True, kw_only=True):
    """Figures of ``device_cache_served``: small file."""

    ratio_max: float
    ratio_low: float | None
    ratio_allowed: float
    small_bytes: int
    big_bytes: int
    pairs_count: int
    most: Annotated[Estimate, HIDDEN]

    def text(self) -> FindingText:
        return FindingText(
            sentence=(
                f"The small file ({format_size(self.small_bytes)}) is up to "
                f"{format_estimate(self.most)} as fast as the large one "
                f"({format_size(self.big_bytes)}) in {format_plural(self.pairs_count, 'pair')} of "
                "tests."
            ),
            cause=(
                "The small file fits in a cache below the file system: the drive's memory, the SLC "
                "cache of a flash drive, or the cache of a controller or array. The large file "
                "does not."
            ),
            next=(
                "Plan with the figures of the large file, and repeat with an even larger one until "
                "the rate no longer decreases."
            ),
        )


def _small_file(direct: list[CellSummary]) -> Finding | None:
    """Return the speedup of a small file over a large one with everything else equal."""
    gains = [(small, big, gain) for small, big in _pairs(direct) if (gain := _gain(small, big))]
    gains = [one for one in gains if _is_gain(one[2])]
    if not gains:
        return None
    small, big, most = max(gains, key=lambda one: one[2].value)
    small_bytes, big_bytes = span_bytes(small) or 0, span_bytes(big) or 0
    concerned = [one[0] for one in gains]
    figures = SmallFileFigures(
        ratio_max=most.value,
        ratio_low=most.low,
        ratio_allowed=SMALL_FILE_FACTOR,
        small_bytes=small_bytes,
        big_bytes=big_bytes,
        pairs_count=len(gains),
        most=most,
    )
    return Finding(severity="warning", cells=identities(concerned), figures=figures)


def _pairs(direct: list[CellSummary]) -> list[tuple[CellSummary, CellSummary]]:
    """Return (small, big) cells that differ in the factor ``file`` alone."""
    by_other_factors = defaultdict(list)
    for summary in direct:
        if "file" in summary.cell.factors and span_bytes(summary):
            rest = {k: v for k, v in summary.cell.identity().items() if k != "file"}
            by_other_factors[tuple(sorted(rest.items()))].append(summary)
    groups = [
        sorted(group, key=lambda c: span_bytes(c) or 0) for group in by_other_factors.values()
    ]
    return [
        (group[0], group[-1]) for group in groups if span_bytes(group[0]) != span_bytes(group[-1])
    ]


def _gain(small: CellSummary, big: CellSummary) -> Estimate | None:
    return paired_ratio(small.samples, big.samples, lambda s: s.transferred_bytes_per_s)


def _is_gain(gain: Estimate) -> bool:
    significant = gain.low is None or gain.low > SMALL_FILE_FACTOR_LOW
    return gain.value > SMALL_FILE_FACTOR and significant
