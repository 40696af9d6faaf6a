"""Every figure against what its path can carry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from seatrial.findings.context import entries, number, usable_cpus
from seatrial.findings.traffic import asked_read_bytes, asked_write_bytes, is_direct, span_bytes
from seatrial.stats.estimate import Estimate
from seatrial.stats.estimates import counted, estimate_of_rounds
from seatrial.stats.model import CellSummary
from seatrial.trials.io.bounds.links import Link, bus_links, drive_links
from seatrial.trials.io.bounds.model import Bound, BoundName, Cache

MEMORY_COPY_MARGIN = 1.5
"""The copy is measured for a few milliseconds of one moment; a processor may be faster later."""
MEMORY_SPAN_BYTES_MIN = 64 << 20
"""What is smaller may stay in a processor's caches and is copied faster than memory is."""


class Broken(NamedTuple):
    """A bound that a figure is surely above.

    Attributes:
        bound: The outermost of those.
        rate: What moved one way, in B/s.
    """

    bound: Bound
    rate: Estimate


def bounds_of(fingerprint: dict[str, Any], summary: CellSummary) -> list[Bound]:
    """Return what bounds a cell's bytes per second one way, from the medium outwards.

    Args:
        fingerprint: As the cell's target sees it (``Context.before_of``).
        summary: The cell. Past the page cache everything on the way bounds it, through it the
            copying of memory alone.
    """
    found = [_memory_copy(fingerprint, summary)]
    if is_direct(summary):
        found = [*path_bounds(fingerprint), *found]
    return [bound for bound in found if bound]


def path_bounds(fingerprint: dict[str, Any]) -> list[Bound]:
    """Return what the drives' links and the bus to them carry, where it is known."""
    parts: tuple[tuple[BoundName, list[Link] | None, str, str], ...] = (
        ("drive_links", drive_links(fingerprint), "the drive's link ends", "the drives' links end"),
        ("host_bus", bus_links(fingerprint), "the host bus ends", "the host buses end"),
    )
    return [
        Bound(
            name=name,
            bytes_per_s=sum(link.bytes_per_s for link in links),
            source="declared" if any(link.declared for link in links) else "fingerprint",
            words=one if len(links) == 1 else many,
            detail=_detail(links),
        )
        for name, links, one, many in parts
        if links
    ]


def _detail(links: Sequence[Link]) -> str:
    """Return what links there are: ``4 links, SATA 3 Gb/s``."""
    counts = Counter(link.words for link in links)
    if len(counts) == 1:
        words, count = counts.popitem()
        return words if count == 1 else f"{count} links, {words}"
    return " and ".join(f"{count} x {words}" for words, count in counts.items())


def _memory_copy(fingerprint: dict[str, Any], summary: CellSummary) -> Bound | None:
    """Return what all processors together copy; None where it is unknown or does not bound."""
    one_thread_bytes_per_s = number(fingerprint, "machine", "memory_copy_bytes_per_s")
    span = span_bytes(summary)
    if not one_thread_bytes_per_s or span is None or span < MEMORY_SPAN_BYTES_MIN:
        return None
    cpus = usable_cpus(fingerprint) or 1.0
    return Bound(
        name="memory_copy",
        bytes_per_s=one_thread_bytes_per_s * cpus * MEMORY_COPY_MARGIN,
        source="measured",
        words="copying of memory ends",
        detail=f"{MEMORY_COPY_MARGIN:g} times what {cpus:g} processors copy",
    )


def busier_direction(summary: CellSummary) -> Estimate:
    """Return bytes per second of reads or of writes, whichever is more.

    A link carries both ways at once, so their sum may well be above what it carries one way.
    """
    samples = [sample for sample in counted(summary.samples) if sample.duration_s > 0]
    ways = (asked_read_bytes, asked_write_bytes)
    rates = [[way(sample) / sample.duration_s for sample in samples] or [0.0] for way in ways]
    return max((estimate_of_rounds(r, "B/s") for r in rates), key=lambda e: e.value)


def broken_bound(fingerprint: dict[str, Any], summary: CellSummary) -> Broken | None:
    """Return the outermost bound that a cell's rate is surely above; None where there is none.

    Surely: the lower end of its interval, or the figure itself where it was measured once.
    """
    return outermost_below(busier_direction(summary), bounds_of(fingerprint, summary))


def outermost_below(rate: Estimate, bounds: Sequence[Bound]) -> Broken | None:
    """Return the last of the bounds, in their order outwards, that a rate in B/s is surely above.

    Of two broken bounds the outer one decides where the answer came from.
    """
    surely_bytes_per_s = rate.value if rate.low is None else rate.low
    broken = [bound for bound in bounds if surely_bytes_per_s > bound.bytes_per_s]
    return Broken(broken[-1], rate) if broken else None


def controller_cache(fingerprint: dict[str, Any]) -> Cache | None:
    """Return the memory of the controllers under a target; None where none tells of any.

    Disks of one controller share its memory. What a drive itself holds is told by no interface.
    """
    controllers = {
        str(node["controller"].get("name")): node["controller"]
        for node in entries(fingerprint, "target", "stack")
        if number(node, "controller", "cache_bytes")
    }
    if not controllers:
        return None
    declared = any(each.get("declared") is True for each in controllers.values())
    return Cache(
        size_bytes=sum(int(each["cache_bytes"]) for each in controllers.values()),
        source="declared" if declared else "fingerprint",
        words="the controller's cache" if len(controllers) == 1 else "the controllers' caches",
    )
