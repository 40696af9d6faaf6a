"""Finding ``page_cache_served``: the page cache, not the device, served the requests."""

from __future__ import annotations

from typing import Annotated

from seatrial.findings.context import (
    AffectedCells,
    Context,
    identities,
    is_of_a_device,
    median_over_samples,
    memory_for_cache_bytes,
)
from seatrial.findings.rule import from_samples
from seatrial.findings.traffic import (
    DEVICE_SHARE_MIN,
    device_read_share,
    device_share,
    is_direct,
    requested_read_bytes,
    requested_write_bytes,
    span_bytes,
    writes_are_flushed,
)
from seatrial.published import HIDDEN
from seatrial.stats.model import CellSummary, Figures, Finding, FindingText
from seatrial.stats.wording import (
    format_estimate,
    format_plural,
    format_rate_bytes,
    format_share,
    format_size,
)
from seatrial.study.hosts import hosts_of
from seatrial.trials.io.bounds import Broken, busier_direction, outermost_below, path_bounds


@from_samples(rank=210, section="Validity of the figures", holds_in_lab=False)
def page_cache_served(context: Context) -> list[Finding]:
    """Find buffered cells that the page cache served.

    Decided by the device's counters if it has any; otherwise by the bandwidth of the drives' links
    and, for reads, by the size of memory.

    Means:
        Buffered tests measured memory.

    Decided:
        By the device's own counters: it delivered less than half of the bytes read, or less than
        half of the bytes written without a sync had reached it at the end of the sample. Without
        counters: the rate exceeds the bandwidth of the drives' links or the bus; or, for reads, the
        file (or the range that the test reads) is smaller than the memory that this process may
        use. Warning.

    Do:
        Use direct I/O, or a file of twice the memory. Keep the test only if the database will also
        have this data in memory.
    """
    buffered = [c for c in context.cells if is_of_a_device(c) and not is_direct(c)]
    found = [_reads(context, buffered), _writes(context, buffered)]
    return [finding for finding in found if finding]


def _above_path(context: Context, summary: CellSummary) -> Broken | None:
    """Return the link or bus whose bandwidth a buffered cell's rate exceeds."""
    # Hosts of a cluster may have other drives.
    bounds = [] if hosts_of(summary.cell) else path_bounds(context.before_of(summary))
    return outermost_below(busier_direction(summary), bounds)


def _fastest_above(context: Context, concerned: list[CellSummary]) -> Broken | None:
    """Return the fastest of the cells that exceed the bandwidth of their path."""
    above = [broken for c in concerned if (broken := _above_path(context, c))]
    return max(above, key=lambda broken: broken.rate.value, default=None)


def _path_phrase(above: Broken | None) -> list[str]:
    if above is None:
        return []
    limit = format_rate_bytes(above.bound.bytes_per_s, 0)
    return [f"{format_estimate(above.rate)}, but {above.bound.words} at {limit}"]


class PageCacheServedInShort(Figures, frozen=True, kw_only=True, tag="page_cache_served"):
    """Figures of every ``page_cache_served``."""

    def in_short(self, cells_count: int) -> str:
        return f"memory, not the device, served {format_plural(cells_count, 'test')}"


class ReadsCachedFigures(PageCacheServedInShort, frozen=True, kw_only=True):
    """Figures of ``page_cache_served``: reads cached."""

    device_read_share_min: float | None
    span_bytes_max: int
    memory_bytes: float | None
    cells_count: int
    concerned: Annotated[AffectedCells, HIDDEN]
    above: Annotated[Broken | None, HIDDEN]

    def text(self) -> FindingText:
        text = _path_phrase(self.above)
        if self.device_read_share_min is not None:
            text.append(
                f"the device delivered only {format_share(self.device_read_share_min)} of the bytes"
            )
        if self.span_bytes_max and self.memory_bytes:
            text.append(
                f"file size {format_size(self.span_bytes_max)}, memory "
                f"{format_size(int(self.memory_bytes))}"
            )
        return FindingText(
            sentence=(f"The page cache served the reads of {self.concerned}: {'; '.join(text)}."),
            cause=(
                "Buffered reads of a file that fits in memory are served by the page cache after "
                "the first pass, at the speed of a memory copy."
            ),
            next=(
                "To measure the device, use direct = true or a file of at least twice the memory; "
                "keep the test only if the database will also have this data in memory."
            ),
        )


def _reads(context: Context, buffered: list[CellSummary]) -> Finding | None:
    memory_bytes = memory_for_cache_bytes(context.before)
    concerned = [c for c in buffered if _reads_were_cached(context, c, memory_bytes)]
    if not concerned:
        return None
    shares = [share for c in concerned if (share := device_read_share(c)) is not None]
    span = max(span_bytes(c) or 0 for c in concerned)
    above = _fastest_above(context, concerned)
    least_share = min(shares, default=None)
    figures = ReadsCachedFigures(
        device_read_share_min=least_share,
        span_bytes_max=span,
        memory_bytes=memory_bytes,
        cells_count=len(concerned),
        concerned=context.affected_cells(concerned),
        above=above,
    )
    return Finding(severity="warning", cells=identities(concerned), figures=figures)


def _reads_were_cached(context: Context, summary: CellSummary, memory_bytes: float | None) -> bool:
    if not any(requested_read_bytes(sample) for sample in summary.samples):
        return False
    share = device_read_share(summary)
    if share is not None:
        return share < DEVICE_SHARE_MIN
    span = span_bytes(summary)
    fits = bool(span and memory_bytes and span < memory_bytes)
    is_likely = fits or _above_path(context, summary) is not None
    return is_likely and not _was_delivered(summary)


def _was_delivered(summary: CellSummary) -> bool:
    """Return whether the device counted at least half of the bytes, however few these are."""
    counted = [sample for sample in summary.samples if "device_read_bytes" in sample.counters]
    delivered_bytes = sum(sample.counters["device_read_bytes"] for sample in counted)
    requested_bytes = sum(map(requested_read_bytes, counted))
    return bool(counted) and delivered_bytes >= DEVICE_SHARE_MIN * requested_bytes


def _write_share(summary: CellSummary) -> float | None:
    return median_over_samples(
        summary.samples,
        lambda sample: device_share(sample, "device_write_bytes", requested_write_bytes(sample)),
    )


def _writes_were_cached(context: Context, summary: CellSummary) -> bool:
    if writes_are_flushed(summary) or not any(map(requested_write_bytes, summary.samples)):
        return False
    share = _write_share(summary)
    if share is not None:
        return share < DEVICE_SHARE_MIN
    return _above_path(context, summary) is not None


class WritesCachedFigures(PageCacheServedInShort, frozen=True, kw_only=True):
    """Figures of ``page_cache_served``: writes cached."""

    device_write_share_min: float | None
    cells_count: int
    concerned: Annotated[AffectedCells, HIDDEN]
    above: Annotated[Broken | None, HIDDEN]

    def text(self) -> FindingText:
        text = _path_phrase(self.above)
        if self.device_write_share_min is not None:
            least = format_share(self.device_write_share_min)
            text.append(f"only {least} of the bytes had reached the device at the end")
        return FindingText(
            sentence=(
                f"The page cache absorbed the writes of {self.concerned}: {'; '.join(text)}."
            ),
            cause=(
                "Buffered writes without a sync complete in the page cache; the kernel writes "
                "them back later."
            ),
            next=(
                "To measure the device, use direct = true, sync_every, or a file larger than "
                "memory."
            ),
        )


def _writes(context: Context, buffered: list[CellSummary]) -> Finding | None:
    concerned = [c for c in buffered if _writes_were_cached(context, c)]
    if not concerned:
        return None
    shares = [share for c in concerned if (share := _write_share(c)) is not None]
    above = _fastest_above(context, concerned)
    least_share = min(shares, default=None)
    figures = WritesCachedFigures(
        device_write_share_min=least_share,
        cells_count=len(concerned),
        concerned=context.affected_cells(concerned),
        above=above,
    )
    return Finding(severity="warning", cells=identities(concerned), figures=figures)
