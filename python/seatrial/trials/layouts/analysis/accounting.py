"""Device I/Os for each operation of an array, as counted, with the rule of its level.

Counted are the requests and bytes of every drive (/proc/diskstats) while a sample lasted, over the
operations that completed in it: a ratio for each round, with an interval over the rounds. What
the file system, the bitmap and the array's own metadata write besides is part of what is counted.

Sources: the kernel's Documentation/admin-guide/md.rst, and drivers/md/raid5.c: a parity array works
in rows of 4 KiB, one of each member, and for each row that a write touches
``handle_stripe_dirtying`` takes the cheaper of two ways. Read-modify-write reads what is
overwritten and the parity; reconstruct-write reads the rest of the row. Equal costs go to
reconstruct-write (``rmw_level`` 1, the default). A row that is written whole needs no reads.
dm-raid, and so LVM, is the same code. Measured on md of Linux 6.1 (docs/method.md, "Arrays").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from seatrial.results.model import Sample
from seatrial.stats.estimate import Estimate
from seatrial.stats.estimates import counted, estimate_of_rounds
from seatrial.stats.model import CellSummary, is_broken
from seatrial.study.cell import Cell
from seatrial.study.layouts.layout import LayoutSpec
from seatrial.trials.database.study.workloads import is_of_database
from seatrial.trials.layouts.analysis.model import (
    Accounting,
    MemberWork,
    Rule,
    layout_of,
    leg_of,
    variant,
)
from seatrial.trials.layouts.analysis.recovery import Span, spans_within

PAGE_BYTES: Final = 4096
"""Height of a row of a parity array (``STRIPE_SIZE``)."""
ONE_REQUEST_BYTES_MAX: Final = 128 * 1024
"""What any drive takes as one request; larger ones may be split."""
MERGED_BYTES_MAX: Final = 64 * 1024
"""Up to so much the rows of one write reach a drive merged into one request, as they lie one after
the other there; seen on md of Linux 6.1, whose drives in the lab take 64 KiB at once."""
PLACES_MAX: Final = 4096
"""Positions in a stripe that a mean is taken over."""
PLACE_MATTERS_SHARE: Final = 0.1
"""Where the place of a file within its stripe changes a count by more, the count is not known."""
RULED: Final = ("single", "md", "lvm", "md+md", "md+lvm")
"""Backends whose levels work by these rules; btrfs and ZFS place each write anew."""


@dataclass(frozen=True)
class Cost:
    """Bytes read and written for one operation, in the mean over its places."""

    read_bytes: float
    write_bytes: float

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.read_bytes + other.read_bytes, self.write_bytes + other.write_bytes)

    def __mul__(self, share: float) -> Cost:
        return Cost(self.read_bytes * share, self.write_bytes * share)


NOTHING: Final = Cost(0.0, 0.0)


def write_rule(spec: LayoutSpec, size_bytes: int, align_bytes: int) -> Rule | None:
    """Return what a write at any place costs; None where no rule is known.

    Args:
        spec: The layout.
        size_bytes: Of one write.
        align_bytes: Its places are multiples of this, each equally often.
    """
    if not _is_ruled(spec, size_bytes):
        return None
    if spec.facts.parity_members:
        return _parity_write(spec, size_bytes, align_bytes)
    copies = _copies(spec)
    pieces = _pieces(spec, size_bytes, align_bytes)
    return Rule(
        reads=None if pieces is None else 0.0,
        writes=None if pieces is None else copies * pieces,
        read_bytes=0.0,
        write_bytes=float(copies),
        read_bytes_max=0.0,
        write_bytes_max=float(copies),
        words=f"0 + {copies}",
    )


def read_rule(
    spec: LayoutSpec, size_bytes: int, align_bytes: int, degraded_share: float = 0.0
) -> Rule | None:
    """Return what a read at any place costs; None where no rule is known.

    Without a drive md reads all n - 1 others for what it held, RAID6 too, where a textbook's
    RAID6 would read n - 2: 2(n-1)/n in the mean.

    Args:
        spec: The layout.
        size_bytes: Of one read.
        align_bytes: Its places are multiples of this.
        degraded_share: Share of the reads that were done without one of the drives.
    """
    if not _is_ruled(spec, size_bytes):
        return None
    pieces = _pieces(spec, size_bytes, align_bytes)
    factor, words = 1.0, "1 + 0"
    if degraded_share and spec.facts.parity_members:
        if size_bytes > spec.chunk_kib * 1024 or _is_striped(spec):
            return None
        without = 2 * (spec.drives - 1) / spec.drives
        factor = 1 + degraded_share * (without - 1)
        words = f"2(n-1)/n without a drive, n = {spec.drives}"
        pieces = pieces if size_bytes <= PAGE_BYTES else None
    return Rule(
        reads=None if pieces is None else factor * pieces,
        writes=None if pieces is None else 0.0,
        read_bytes=factor,
        write_bytes=0.0,
        read_bytes_max=factor,
        write_bytes_max=0.0,
        words=words,
    )


def full_stripe_bytes(spec: LayoutSpec) -> int:
    """Return how many bytes of data a stripe of a leg holds."""
    return int(spec.facts.data_members(spec.drives) * spec.chunk_kib * 1024)


def _is_ruled(spec: LayoutSpec, size_bytes: int) -> bool:
    """Whether a layout works by these rules; over legs for what lies in one chunk of them."""
    if spec.backend not in RULED or size_bytes <= 0:
        return False
    return not _is_striped(spec) or size_bytes <= spec.stripe_kib * 1024


def _is_striped(spec: LayoutSpec) -> bool:
    return spec.legs > 1 and spec.expose != "legs"


def _copies(spec: LayoutSpec) -> int:
    if spec.level in ("raid1", "mirror"):
        return spec.drives
    return 2 if spec.level == "raid10" else 1


def _is_placed(spec: LayoutSpec) -> bool:
    """Whether the array's first byte is that of a stripe: no file system, no volume above."""
    return spec.filesystem == "none" and spec.backend != "md+lvm"


def _pieces(spec: LayoutSpec, size_bytes: int, align_bytes: int) -> float | None:
    """Return into how many requests the chunks of a stripe cut one; None where that varies."""
    if size_bytes > ONE_REQUEST_BYTES_MAX:
        return None
    has_chunks = spec.level not in ("single", "raid1", "mirror") and spec.drives > 1
    chunks = [spec.chunk_kib * 1024] if has_chunks else []
    chunks += [spec.stripe_kib * 1024] if _is_striped(spec) else []
    if not chunks:
        return 1.0
    cut_bytes = math.gcd(*chunks)
    placed, anywhere = (_pieces_at(size_bytes, cut_bytes, step) for step in (align_bytes, 1))
    if not _is_placed(spec) and anywhere > placed * (1 + PLACE_MATTERS_SHARE):
        return None
    return placed


def _pieces_at(size_bytes: int, cut_bytes: int, align_bytes: int) -> float:
    """Return the mean number of pieces, over places that are multiples of ``align_bytes``."""
    step_bytes = math.gcd(cut_bytes, max(align_bytes, 512))
    places = range(0, cut_bytes, step_bytes)
    cuts = sum((place + size_bytes - 1) // cut_bytes for place in places)
    return 1 + cuts / len(places)


def _parity_write(spec: LayoutSpec, size_bytes: int, align_bytes: int) -> Rule | None:
    """Return what a write to a parity array costs; None of pages in part but one alone."""
    parity = spec.facts.parity_members
    if size_bytes < PAGE_BYTES:
        return _part_of_page(spec, size_bytes) if PAGE_BYTES % size_bytes == 0 else None
    if size_bytes % PAGE_BYTES or align_bytes % PAGE_BYTES:
        return None
    placed = _mean_cost(spec, size_bytes, align_bytes) * (1 / size_bytes)
    anywhere = _mean_cost(spec, size_bytes, PAGE_BYTES) * (1 / size_bytes)
    worst = placed if _is_placed(spec) else anywhere
    reads = writes = None
    is_merged = size_bytes <= MERGED_BYTES_MAX and _pieces(spec, size_bytes, align_bytes) == 1
    if is_merged:  # in one chunk: the rows are alike, and each drive has one request
        reads, writes = placed.read_bytes, placed.write_bytes
    is_whole = size_bytes % full_stripe_bytes(spec) == 0 and placed.read_bytes == 0
    words = "the cheaper of read-modify-write and reconstruct-write, row by row"
    if is_merged:
        words = f"min(n-{parity + 1}, {parity + 1}) + {parity + 1}"
    elif is_whole:
        words = f"n/(n-{parity}) times the bytes, no reads"
    return Rule(
        reads=reads,
        writes=writes,
        read_bytes=placed.read_bytes,
        write_bytes=placed.write_bytes,
        read_bytes_max=max(placed.read_bytes, worst.read_bytes),
        write_bytes_max=max(placed.write_bytes, worst.write_bytes),
        words=words,
    )


def _part_of_page(spec: LayoutSpec, size_bytes: int) -> Rule:
    """Return what a write of less than a page costs: its page is no whole one, and is read."""
    parity = spec.facts.parity_members
    data = spec.drives - parity
    reads, writes = min(1 + parity, data), 1 + parity
    pages = PAGE_BYTES / size_bytes
    return Rule(
        reads=float(reads),
        writes=float(writes),
        read_bytes=reads * pages,
        write_bytes=writes * pages,
        read_bytes_max=reads * pages,
        write_bytes_max=writes * pages,
        words=f"min(n-{parity}, {parity + 1}) + {parity + 1}",
    )


def _mean_cost(spec: LayoutSpec, size_bytes: int, align_bytes: int) -> Cost:
    """Return the mean cost over all places in a stripe, cut where another leg begins."""
    stripe_bytes = full_stripe_bytes(spec)
    cut_bytes = spec.stripe_kib * 1024 if _is_striped(spec) else stripe_bytes
    period_bytes = math.lcm(stripe_bytes, cut_bytes)
    step_bytes = math.gcd(period_bytes, align_bytes)
    step_bytes *= math.ceil(period_bytes / step_bytes / PLACES_MAX)
    places = range(0, period_bytes, step_bytes)
    total = NOTHING
    for place in places:
        for start, length_bytes in _parts(place, size_bytes, cut_bytes):
            total += _cost_at(spec, start % stripe_bytes, length_bytes, stripe_bytes)
    return total * (1 / len(places))


def _parts(place: int, size_bytes: int, cut_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield start and length of what lies between two cuts."""
    end = place + size_bytes
    while place < end:
        until = min(end, (place // cut_bytes + 1) * cut_bytes)
        yield place, until - place
        place = until


def _cost_at(spec: LayoutSpec, start: int, length_bytes: int, stripe_bytes: int) -> Cost:
    """Return the cost of a write that begins at a place in a stripe of a leg."""
    total = NOTHING
    for place, part in _parts(start, length_bytes, stripe_bytes):
        for rows, touched in _rows(place % stripe_bytes, part, spec.chunk_kib * 1024):
            total += _row_cost(spec, touched) * rows
    return total


def _rows(start: int, length_bytes: int, chunk_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield how many rows of a stripe have how many of their data pages written."""
    first, row_from = start // chunk_bytes, start % chunk_bytes // PAGE_BYTES
    last, row_to = (
        (start + length_bytes) // chunk_bytes,
        (start + length_bytes) % chunk_bytes // PAGE_BYTES,
    )
    rows, whole = chunk_bytes // PAGE_BYTES, last - first - 1
    if whole < 0:
        yield row_to - row_from, 1
        return
    # Rows from ``row_from`` on are written in the first chunk, those before ``row_to`` in the last.
    both = max(0, row_to - row_from)
    neither = max(0, row_from - row_to)
    yield from ((both, whole + 2), (neither, whole), (rows - both - neither, whole + 1))


def _row_cost(spec: LayoutSpec, touched: int) -> Cost:
    """Return what one row costs of which so many data pages are written whole."""
    if touched == 0:
        return NOTHING
    parity = spec.facts.parity_members
    untouched = spec.drives - parity - touched
    reads = min(touched + parity, untouched)
    return Cost(float(reads * PAGE_BYTES), float((touched + parity) * PAGE_BYTES))


COMPLETED_MIN: Final = 100
"""Fewer operations of a round say little next to what the array writes of its own accord."""
PER: Final = {"mixed": "request"}
LEG: Final = "leg"

Members = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Counted:
    """What one sample tells of the drives."""

    sample: Sample
    members: Members

    @property
    def operations(self) -> int:
        """Operations that completed."""
        return self.sample.outcome.completed

    @property
    def moved_bytes(self) -> int:
        """Bytes that they moved, of the array's own."""
        return sum(part.transferred_bytes for part in self.sample.operations.values())

    def total(self, name: str) -> float:
        """Return a counter's sum over all drives."""
        return math.fsum(drive.get(name, 0.0) for drive in self.members.values())


def accounting(cells: Sequence[CellSummary]) -> list[Accounting]:
    """Return what the drives did, of every cell of which that is known."""
    found = (accounting_of(summary) for summary in cells)
    return [each for each in found if each]


def accounting_of(summary: CellSummary) -> Accounting | None:
    """Return what the drives did in one cell; None where their counters are not known.

    Cells that break something are left out, but for reads without a drive that nothing rebuilds:
    else the rebuild's own traffic would be counted for the workload's.
    """
    spec = layout_of(summary)
    if spec is None:
        return None
    parts = [part for s in counted(summary.samples) if (part := _counted(s, spec))]
    shares = [share for part in parts if (share := _degraded_share(part.sample)) is not None]
    if not parts or len(shares) < len(parts):
        return None
    cell, degraded_share = summary.cell, math.fsum(shares) / len(shares)
    has_bytes = all(part.moved_bytes for part in parts) and not is_of_database(cell)
    return Accounting(
        cell=cell,
        variant=variant(spec, cell.target),
        per=PER.get(cell.operation, cell.operation),
        reads=_for_each(parts, "reads"),
        writes=_for_each(parts, "writes"),
        flushes=_for_each(parts, "flushes"),
        read_bytes=_for_each_byte(parts, "read_bytes") if has_bytes else None,
        write_bytes=_for_each_byte(parts, "write_bytes") if has_bytes else None,
        rule=rule_of(cell, spec, degraded_share),
        members=_members(parts),
        degraded_share=degraded_share,
    )


def rule_of(cell: Cell, spec: LayoutSpec, degraded_share: float = 0.0) -> Rule | None:
    """Return what the level asks for one operation of a cell; None where that is not known.

    Known is it of reads and of writes past the page cache, of one size, at random places, and of
    writes in sequence that are whole stripes. Other sequences meet in the array's stripe cache.
    """
    places = cell.parsed.address_kinds
    is_direct = cell.parsed.target.direct
    size_bytes = cell.block_size_bytes
    if len(places) != 1 or not is_direct or not size_bytes or cell.parsed.sync_every:
        return None
    align_bytes = min(access.align_bytes or size_bytes for access in cell.parsed.accesses)
    if cell.operation == "read" and places == {"random"}:
        return read_rule(spec, size_bytes, align_bytes, degraded_share)
    if cell.operation != "write" or degraded_share:
        return None
    if places == {"random"}:
        return write_rule(spec, size_bytes, align_bytes)
    is_whole = bool(spec.facts.parity_members) and size_bytes % full_stripe_bytes(spec) == 0
    return (
        write_rule(spec, size_bytes, size_bytes) if places == {"sequential"} and is_whole else None
    )


def _counted(sample: Sample, spec: LayoutSpec) -> Counted | None:
    """Return a sample's counters, of the drives of its own leg where that is a target."""
    record = sample.layout
    if record is None or sample.outcome.completed < COMPLETED_MIN:
        return None
    leg = leg_of(spec, sample.cell.target)
    # Of an array behind a cache device, what reaches the array is counted, without the cache.
    own = {
        drive: work
        for drive, work in record.members.items()
        if not spec.has_cache_device or record.roles.get(drive) != "cache"
    }
    members = {
        drive: work
        for drive, work in own.items()
        if not leg or _is_of_leg(record.roles.get(drive, ""), leg)
    }
    return Counted(sample, members) if members else None


def _is_of_leg(role: str, leg: int) -> bool:
    return role in (f"{LEG} {leg}", f"spare of {LEG} {leg}")


def _degraded_share(sample: Sample) -> float | None:
    """Return the share of the operations that met a missing drive; None where more went on."""
    if not is_broken(sample):
        return 0.0
    spans = spans_within(sample)
    if sample.cell.operation != "read" or any(_is_repairing(span) for span in spans):
        return None
    whole_s = math.fsum(span.length_s for span in spans)
    missing_s = math.fsum(span.length_s for span in spans if span.phase == "degraded")
    return missing_s / whole_s if whole_s else None


def _is_repairing(span: Span) -> bool:
    return span.phase not in ("before", "degraded")


def _for_each(parts: Sequence[Counted], name: str) -> Estimate:
    return estimate_of_rounds([part.total(name) / part.operations for part in parts], "count")


def _for_each_byte(parts: Sequence[Counted], name: str) -> Estimate:
    return estimate_of_rounds([part.total(name) / part.moved_bytes for part in parts], "ratio")


def _members(parts: Sequence[Counted]) -> list[MemberWork]:
    """Return what each drive did that all rounds know, the legs' own first."""
    roles: dict[str, str] = {}
    for part in parts:
        roles |= part.sample.layout.roles if part.sample.layout else {}
    known = [drive for drive in parts[0].members if all(drive in part.members for part in parts)]
    known.sort(key=lambda drive: (_rank(roles.get(drive, "")), roles.get(drive, "")))
    peers = {drive: [d for d in known if _rank(roles.get(d, "")) == _rank(roles.get(drive, ""))]
             for drive in known}  # fmt: skip
    return [_member(parts, drive, roles.get(drive, ""), peers[drive]) for drive in known]


def _rank(role: str) -> int:
    """Return what kind of role it is: drives of all legs are equals, and so are all spares."""
    kinds = (LEG, "spare", "log", "cache")
    return next((place for place, kind in enumerate(kinds) if role.startswith(kind)), len(kinds))


def _member(parts: Sequence[Counted], drive: str, role: str, peers: Sequence[str]) -> MemberWork:
    def for_each(name: str) -> Estimate:
        values = [part.members[drive].get(name, 0.0) / part.operations for part in parts]
        return estimate_of_rounds(values, "count")

    has_busy = all("busy_ns" in part.members[drive] for part in parts)
    return MemberWork(
        drive=drive,
        role=role,
        reads=for_each("reads"),
        writes=for_each("writes"),
        bytes_ratio=_over_peers(parts, drive, peers, _bytes),
        busy_share=_busy_share(parts, drive) if has_busy else None,
        busy_ratio=_over_peers(parts, drive, peers, lambda work: work.get("busy_ns", 0.0)),
    )


def _bytes(work: Mapping[str, Any]) -> float:
    return float(work.get("read_bytes", 0.0) + work.get("write_bytes", 0.0))


def _busy_share(parts: Sequence[Counted], drive: str) -> Estimate:
    shares = [
        min(1.0, part.members[drive]["busy_ns"] / (part.sample.duration_s * 1e9)) for part in parts
    ]
    return estimate_of_rounds(shares, "share")


def _over_peers(
    parts: Sequence[Counted],
    drive: str,
    peers: Sequence[str],
    figure: Callable[[Mapping[str, float]], float],
) -> Estimate | None:
    """Return a drive's figure over the mean of its peers, itself among them."""
    ratios = []
    for part in parts:
        mean = math.fsum(figure(part.members[each]) for each in peers) / len(peers)
        if mean <= 0:
            return None
        ratios.append(figure(part.members[drive]) / mean)
    return estimate_of_rounds(ratios, "ratio") if len(peers) > 1 else None
