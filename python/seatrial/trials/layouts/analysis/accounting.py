"""Device I/Os for each operation of an array, as counted, with the rule of its level.

The requests and bytes of every drive (/proc/diskstats) during a sample are divided by the
operations that completed in it: a ratio for each round, with an interval over the rounds. Writes
of the file system, the bitmap and the array's own metadata are included.

Sources: the kernel's Documentation/admin-guide/md.rst, and drivers/md/raid5.c: a parity array works
in rows of 4 KiB, one of each member, and for each row that a write modifies
``handle_stripe_dirtying`` takes the cheaper of two methods. Read-modify-write reads the overwritten
data and the parity; reconstruct-write reads the rest of the row. Equal costs go to
reconstruct-write (``rmw_level`` 1, the default). A row that is completely overwritten needs no
reads. dm-raid, and so LVM, is the same code. Measured on md of Linux 6.1 (docs/method.md,
"Arrays").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from seatrial.lazy import np
from seatrial.results.model import Sample
from seatrial.stats.cell_estimates import counted, estimate_of_rounds
from seatrial.stats.estimate import Estimate
from seatrial.stats.model import CellSummary, is_broken
from seatrial.stats.timeline import slice_counts
from seatrial.study.cell import Cell
from seatrial.study.layouts.layout import LayoutSpec
from seatrial.trials.database.study.workloads import is_of_database
from seatrial.trials.layouts.analysis.model import (
    Accounting,
    MemberIo,
    Rule,
    layout_of,
    leg_of,
    variant,
)
from seatrial.trials.layouts.analysis.recovery import spans_within
from seatrial.units import NS_PER_S

PAGE_BYTES: Final = 4096
"""Height of a row of a parity array (``STRIPE_SIZE``)."""
ONE_REQUEST_BYTES_MAX: Final = 128 * 1024
"""Any drive accepts this size as one request; larger ones may be split."""

MERGED_BYTES_MAX: Final = 64 * 1024
"""Up to this size the rows of one write are adjacent on a drive and are merged into one request.
Observed on md of Linux 6.1, whose drives in the lab take 64 KiB at once."""

OFFSETS_MAX: Final = 4096
"""Maximum number of offsets in a stripe over which a mean is computed."""

OFFSET_EFFECT_SHARE_MAX: Final = 0.1
"""A count that depends more on the file's offset within its stripe is not known."""

RULED_BACKENDS: Final = ("single", "md", "lvm", "md+md", "md+lvm")
"""Backends whose levels work by these rules; btrfs and ZFS allocate new blocks for each write."""

TICK_NS: Final = 10e6
"""The kernel counts busy time in ticks of up to 10 ms: a drive may be busy for less than one."""


@dataclass(frozen=True)
class Cost:
    """Mean bytes read and written for one operation, over all its offsets."""

    read_bytes: float
    write_bytes: float

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.read_bytes + other.read_bytes, self.write_bytes + other.write_bytes)

    def __mul__(self, share: float) -> Cost:
        return Cost(self.read_bytes * share, self.write_bytes * share)


NO_COST: Final = Cost(0.0, 0.0)


def write_rule(spec: LayoutSpec, size_bytes: int, align_bytes: int) -> Rule | None:
    """Return the device I/O for a write at a random offset; None where no rule is known.

    Args:
        spec: The layout.
        size_bytes: Size of one write.
        align_bytes: Its offsets are multiples of this, all equally frequent.
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
    """Return the device I/O for a read at a random offset; None where no rule is known.

    To reconstruct data of a missing drive, md reads all n - 1 others: 2(n-1)/n reads in the mean.
    This includes RAID6, for which n - 2 would suffice.

    Args:
        spec: The layout.
        size_bytes: Size of one read.
        align_bytes: Its offsets are multiples of this.
        degraded_share: Share of the reads during which a drive was missing.
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
    """Return the bytes of data in a full stripe of a leg."""
    return int(spec.facts.data_members(spec.drives) * spec.chunk_kib * 1024)


def _is_ruled(spec: LayoutSpec, size_bytes: int) -> bool:
    """Whether a layout works by these rules; a stripe over legs only for requests in one chunk."""
    if spec.backend not in RULED_BACKENDS or size_bytes <= 0:
        return False
    return not _is_striped(spec) or size_bytes <= spec.stripe_kib * 1024


def _is_striped(spec: LayoutSpec) -> bool:
    return spec.legs > 1 and spec.expose != "legs"


def _copies(spec: LayoutSpec) -> int:
    if spec.level in ("raid1", "mirror"):
        return spec.drives
    return 2 if spec.level == "raid10" else 1


def _is_aligned(spec: LayoutSpec) -> bool:
    """Whether offsets in the target are offsets in the array: no file system, no volume above."""
    return spec.filesystem == "none" and spec.backend != "md+lvm"


def _pieces(spec: LayoutSpec, size_bytes: int, align_bytes: int) -> float | None:
    """Return into how many requests chunk boundaries split one; None where that varies."""
    if size_bytes > ONE_REQUEST_BYTES_MAX:
        return None
    has_chunks = spec.level not in ("single", "raid1", "mirror") and spec.drives > 1
    chunks = [spec.chunk_kib * 1024] if has_chunks else []
    chunks += [spec.stripe_kib * 1024] if _is_striped(spec) else []
    if not chunks:
        return 1.0
    chunk_bytes = math.gcd(*chunks)
    aligned, anywhere = (_pieces_at(size_bytes, chunk_bytes, step) for step in (align_bytes, 1))
    if not _is_aligned(spec) and anywhere > aligned * (1 + OFFSET_EFFECT_SHARE_MAX):
        return None
    return aligned


def _pieces_at(size_bytes: int, chunk_bytes: int, align_bytes: int) -> float:
    """Return the mean number of pieces, over offsets that are multiples of ``align_bytes``."""
    step_bytes = math.gcd(chunk_bytes, max(align_bytes, 512))
    offsets = range(0, chunk_bytes, step_bytes)
    boundaries = sum((offset + size_bytes - 1) // chunk_bytes for offset in offsets)
    return 1 + boundaries / len(offsets)


def _parity_write(spec: LayoutSpec, size_bytes: int, align_bytes: int) -> Rule | None:
    """Return the device I/O for a write to a parity array; None for several partial pages."""
    parity = spec.facts.parity_members
    if size_bytes < PAGE_BYTES:
        return _part_of_page(spec, size_bytes) if PAGE_BYTES % size_bytes == 0 else None
    if size_bytes % PAGE_BYTES or align_bytes % PAGE_BYTES:
        return None
    aligned = _mean_cost(spec, size_bytes, align_bytes) * (1 / size_bytes)
    anywhere = _mean_cost(spec, size_bytes, PAGE_BYTES) * (1 / size_bytes)
    worst = aligned if _is_aligned(spec) else anywhere
    reads = writes = None
    is_full_stripe = size_bytes % full_stripe_bytes(spec) == 0 and aligned.read_bytes == 0
    words = "the cheaper of read-modify-write and reconstruct-write, row by row"
    if size_bytes <= MERGED_BYTES_MAX and _pieces(spec, size_bytes, align_bytes) == 1:
        # Within one chunk all rows have equal costs, and each drive has one request.
        reads, writes = aligned.read_bytes, aligned.write_bytes
        words = f"min(n-{parity + 1}, {parity + 1}) + {parity + 1}"
    elif is_full_stripe:
        words = f"n/(n-{parity}) times the bytes, no reads"
    return Rule(
        reads=reads,
        writes=writes,
        read_bytes=aligned.read_bytes,
        write_bytes=aligned.write_bytes,
        read_bytes_max=max(aligned.read_bytes, worst.read_bytes),
        write_bytes_max=max(aligned.write_bytes, worst.write_bytes),
        words=words,
    )


def _part_of_page(spec: LayoutSpec, size_bytes: int) -> Rule:
    """Return the device I/O for a write of less than a page, which is read first."""
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
    """Return the mean cost over all offsets in a stripe, split at leg boundaries."""
    stripe_bytes = full_stripe_bytes(spec)
    unit_bytes = spec.stripe_kib * 1024 if _is_striped(spec) else stripe_bytes
    period_bytes = math.lcm(stripe_bytes, unit_bytes)
    step_bytes = math.gcd(period_bytes, align_bytes)
    step_bytes *= math.ceil(period_bytes / step_bytes / OFFSETS_MAX)
    offsets = range(0, period_bytes, step_bytes)
    total = NO_COST
    for offset in offsets:
        for start, length_bytes in _split(offset, size_bytes, unit_bytes):
            total += _cost_at(spec, start % stripe_bytes, length_bytes, stripe_bytes)
    return total * (1 / len(offsets))


def _split(start: int, size_bytes: int, unit_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield offset and length of the parts of a request, split at multiples of a unit."""
    end = start + size_bytes
    while start < end:
        until = min(end, (start // unit_bytes + 1) * unit_bytes)
        yield start, until - start
        start = until


def _cost_at(spec: LayoutSpec, start: int, length_bytes: int, stripe_bytes: int) -> Cost:
    """Return the cost of a write that begins at an offset in a stripe of a leg."""
    total = NO_COST
    for offset, part_bytes in _split(start, length_bytes, stripe_bytes):
        for rows, written in _rows(offset % stripe_bytes, part_bytes, spec.chunk_kib * 1024):
            total += _row_cost(spec, written) * rows
    return total


def _rows(start: int, length_bytes: int, chunk_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield numbers of rows of a stripe with the number of data pages written in each of them."""
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


def _row_cost(spec: LayoutSpec, written: int) -> Cost:
    """Return the cost of one row in which this many data pages are overwritten completely."""
    if written == 0:
        return NO_COST
    parity = spec.facts.parity_members
    unwritten = spec.drives - parity - written
    reads = min(written + parity, unwritten)
    return Cost(float(reads * PAGE_BYTES), float((written + parity) * PAGE_BYTES))


COMPLETED_MIN: Final = 100
"""With fewer operations in a round, the array's own writes would dominate."""
PER: Final = {"mixed": "request"}
LEG: Final = "leg"

Members = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class DriveCounters:
    """The counters of the drives during one sample."""

    sample: Sample
    members: Members

    @property
    def operations(self) -> int:
        """Operations that completed; the syncs of ``sync_every`` are part of writes."""
        return self.sample.outcome.completed - self.sample.completed_syncs

    @property
    def moved_bytes(self) -> int:
        """Bytes of the array that they transferred."""
        return sum(part.transferred_bytes for part in self.sample.operations.values())

    def total(self, name: str) -> float:
        """Return a counter's sum over all drives."""
        return math.fsum(drive.get(name, 0.0) for drive in self.members.values())


def accounting(cells: Sequence[CellSummary]) -> list[Accounting]:
    """Return the device I/O of every cell with known counters of its drives."""
    found = (accounting_of(summary) for summary in cells)
    return [each for each in found if each]


def accounting_of(summary: CellSummary) -> Accounting | None:
    """Return the device I/O of one cell; None where the counters of its drives are not known.

    Cells with injected faults are left out, since the I/O of a rebuild would be counted as that of
    the workload; the exception are reads from a degraded array that is not rebuilt.
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
        rule=rule_of(cell, spec, degraded_share) if _missing(parts) <= 1 else None,
        members=_members(parts),
        degraded_share=degraded_share,
    )


def rule_of(cell: Cell, spec: LayoutSpec, degraded_share: float = 0.0) -> Rule | None:
    """Return the device I/O that the level needs for one operation of a cell; None if unknown.

    It is known for direct reads and writes of one size at random offsets, and for sequential
    writes of full stripes. Other sequential requests are merged in the array's stripe cache. A
    cache device serves requests itself, and sends others of its own.
    """
    if spec.has_cache_device:
        return None
    addresses = cell.parsed.address_kinds
    is_direct = cell.parsed.target.direct
    size_bytes = cell.block_size_bytes
    if len(addresses) != 1 or not is_direct or not size_bytes or cell.parsed.sync_every:
        return None
    align_bytes = min(access.align_bytes or size_bytes for access in cell.parsed.accesses)
    if cell.operation == "read" and addresses == {"random"}:
        return read_rule(spec, size_bytes, align_bytes, degraded_share)
    if cell.operation != "write" or degraded_share:
        return None
    if addresses == {"random"}:
        return write_rule(spec, size_bytes, align_bytes)
    is_full = bool(spec.facts.parity_members) and size_bytes % full_stripe_bytes(spec) == 0
    is_sequential = addresses == {"sequential"}
    return write_rule(spec, size_bytes, size_bytes) if is_sequential and is_full else None


def _counted(sample: Sample, spec: LayoutSpec) -> DriveCounters | None:
    """Return the counters of a sample's drives; if its target is a leg, of that leg's drives."""
    record = sample.layout
    if record is None:
        return None
    leg = leg_of(spec, sample.cell.target)

    def is_counted(role: str) -> bool:
        # Behind a cache device, the requests that reach the array are counted, without the cache.
        if spec.has_cache_device and role == "cache":
            return False
        return not leg or role in (f"{LEG} {leg}", f"spare of {LEG} {leg}")

    members = {
        drive: counters
        for drive, counters in record.members.items()
        if is_counted(record.roles.get(drive, ""))
    }
    counters = DriveCounters(sample, members)
    return counters if members and counters.operations >= COMPLETED_MIN else None


def _degraded_share(sample: Sample) -> float | None:
    """Return the share of the operations while degraded; None if the array was also repaired."""
    if not is_broken(sample):
        return 0.0
    spans = spans_within(sample)
    is_repaired = any(span.phase not in ("before", "degraded") for span in spans)
    if sample.cell.operation != "read" or is_repaired:
        return None
    counts = slice_counts(sample)
    middles_s = (np.arange(len(counts)) + 0.5) * sample.timeline.slice_ns / NS_PER_S
    completed = {"before": 0.0, "degraded": 0.0}
    for span in spans:
        within = (span.from_s <= middles_s) & (middles_s < span.to_s)
        completed[span.phase] += float(counts[within].sum())
    total = math.fsum(completed.values())
    return completed["degraded"] / total if total else None


def _missing(parts: Sequence[DriveCounters]) -> int:
    """Return how many drives a leg lacked at most."""
    broken = [part.sample for part in parts if is_broken(part.sample)]
    return max((span.missing for sample in broken for span in spans_within(sample)), default=0)


def _for_each(parts: Sequence[DriveCounters], name: str) -> Estimate:
    return estimate_of_rounds([part.total(name) / part.operations for part in parts], "count")


def _for_each_byte(parts: Sequence[DriveCounters], name: str) -> Estimate:
    return estimate_of_rounds([part.total(name) / part.moved_bytes for part in parts], "ratio")


def _members(parts: Sequence[DriveCounters]) -> list[MemberIo]:
    """Return the I/O of each drive that is in all rounds, active drives first."""
    roles: dict[str, str] = {}
    for part in parts:
        roles |= part.sample.layout.roles if part.sample.layout else {}
    known = [drive for drive in parts[0].members if all(drive in part.members for part in parts)]
    known.sort(key=lambda drive: (_rank(roles.get(drive, "")), roles.get(drive, "")))
    peers = {drive: [d for d in known if _rank(roles.get(d, "")) == _rank(roles.get(drive, ""))]
             for drive in known}  # fmt: skip
    return [_member(parts, drive, roles.get(drive, ""), peers[drive]) for drive in known]


def _rank(role: str) -> int:
    """Return the rank of a role's kind; the drives of all legs have one, and so have all spares."""
    kinds = (LEG, "spare", "log", "cache")
    return next((rank for rank, kind in enumerate(kinds) if role.startswith(kind)), len(kinds))


def _member(
    parts: Sequence[DriveCounters], drive: str, role: str, peers: Sequence[str]
) -> MemberIo:
    def for_each(name: str) -> Estimate:
        values = [part.members[drive].get(name, 0.0) / part.operations for part in parts]
        return estimate_of_rounds(values, "count")

    has_busy = all("busy_ns" in part.members[drive] for part in parts)
    busy_share = _busy_share(parts, drive) if has_busy else None
    return MemberIo(
        drive=drive,
        role=role,
        reads=for_each("reads"),
        writes=for_each("writes"),
        bytes_ratio=_over_peers(parts, drive, peers, _bytes),
        busy_share=busy_share,
        busy_ratio=_over_peers(
            parts, drive, peers, lambda work: work.get("busy_ns", 0.0), floor=TICK_NS
        )
        if busy_share and busy_share.value
        else None,
    )


def _bytes(work: Mapping[str, Any]) -> float:
    return float(work.get("read_bytes", 0.0) + work.get("write_bytes", 0.0))


def _busy_share(parts: Sequence[DriveCounters], drive: str) -> Estimate:
    shares = [
        min(1.0, part.members[drive]["busy_ns"] / (part.sample.duration_s * 1e9)) for part in parts
    ]
    return estimate_of_rounds(shares, "share")


def _over_peers(
    parts: Sequence[DriveCounters],
    drive: str,
    peers: Sequence[str],
    figure: Callable[[Mapping[str, float]], float],
    floor: float = 0.0,
) -> Estimate | None:
    """Return a drive's figure over the mean of its peers; None without peers that did anything.

    A peer's figure is taken to be at least ``floor``.
    """
    others = [each for each in peers if each != drive]
    ratios = []
    for part in parts:
        sum_of_others = math.fsum(max(floor, figure(part.members[each])) for each in others)
        if sum_of_others <= 0:
            return None
        ratios.append(figure(part.members[drive]) * len(others) / sum_of_others)
    return estimate_of_rounds(ratios, "ratio")
