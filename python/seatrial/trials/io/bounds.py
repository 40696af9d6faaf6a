"""Upper bounds of bandwidth from the path to the target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from seatrial.findings.context import usable_cpus
from seatrial.findings.traffic import (
    is_direct,
    requested_read_bytes,
    requested_write_bytes,
    span_bytes,
)
from seatrial.fingerprint import Controller, Device, Fingerprint, PcieLink, PciePath, Target
from seatrial.results.model import Run, Sample, origin_of
from seatrial.stats.cell_estimates import counted, estimate_of_rounds
from seatrial.stats.estimate import Estimate
from seatrial.stats.model import CellSummary
from seatrial.study.cell import Cell
from seatrial.study.hosts import hosts_of


class Declared(msgspec.Struct, frozen=True, kw_only=True):
    """Hardware under a result as declared by the user; None or empty if not declared.

    An imported table has no fingerprint, and a RAID controller presents an array as one disk. What
    is declared is added to the fingerprint in the same form, so that findings treat it like data
    read from the machine; ``declared: true`` marks it.

    Attributes:
        drives: Number of drives.
        link: The link of each drive (``sata_link_gb_s``, ``sas_link_gb_s`` with ``sas_lanes``, or
            ``link_bytes_per_s``).
        buses: The buses of the drives.
        controller_cache_bytes: Memory of the controller.
        memory_bytes: Memory of the machine.
        file_bytes: Size of the file or range under test, if the result does not contain it.
    """

    drives: int | None = None
    link: Device = Device()
    buses: Sequence[PcieLink] = ()
    controller_cache_bytes: int | None = None
    memory_bytes: int | None = None
    file_bytes: int | None = None

    @property
    def of_the_stack(self) -> bool:
        """Whether drives, buses or controllers were declared."""
        return bool(self.drives or self.buses or self.controller_cache_bytes)


def with_declared(
    run: Run, samples: Sequence[Sample], declared: Declared
) -> tuple[Run, list[Sample]]:
    """Return a run and its samples with the declared hardware in the fingerprint.

    Nothing is stored; the run itself is unchanged.
    """
    before = run.fingerprint_before
    if declared.memory_bytes:
        machine = replace(before.machine, memory_bytes=declared.memory_bytes)
        before = replace(before, machine=machine)
    if declared.of_the_stack:
        before = before.seen_by(_target(before.target or Target(), declared))
    origin = origin_of(run)
    file_bytes = declared.file_bytes or (origin.file_bytes if origin else None)
    with_sizes = [_with_size(sample, file_bytes) if file_bytes else sample for sample in samples]
    return replace(run, fingerprint_before=before), with_sizes


def _target(target: Target, declared: Declared) -> Target:
    """Return a target with the declared drives below its physical devices."""
    ends = [device.name for device in target.physical_devices]
    drives = [_drive(number, declared, ends) for number in range(declared.drives or 1)]
    names = [drive.name for drive in drives]
    stack = [
        device if device.children else replace(device, children=names) for device in target.stack
    ]
    return replace(target, stack=[*stack, *drives])


def _drive(number: int, declared: Declared, parents: list[str]) -> Device:
    """Return one declared drive; drives are assigned to the buses in turn."""
    buses, cache_bytes = declared.buses, declared.controller_cache_bytes
    bus_index = number % len(buses) if buses else 0
    return replace(
        declared.link,
        name=f"declared drive {number + 1}",
        kind="disk",
        declared=True,
        parents=parents,
        pcie=PciePath(
            narrowest=replace(buses[bus_index], address=f"declared bus {bus_index + 1}"),
            declared=True,
        )
        if buses
        else None,
        controller=Controller(name="declared controller", cache_bytes=cache_bytes, declared=True)
        if cache_bytes
        else None,
    )


def _with_size(sample: Sample, file_bytes: int) -> Sample:
    """Return a sample with the file size in its cell, if it was missing."""
    if sample.cell.parsed.target.size_bytes:
        return sample
    target = sample.cell.spec.get("target") or {}
    spec = sample.cell.spec | {"target": target | {"size_bytes": file_bytes}}
    cell: Cell = replace(sample.cell, spec=spec)
    return replace(sample, cell=cell)


BYTES_PER_S_PER_GB_S = 1e8
"""8b/10b encoding, ten bits on the wire per byte: Serial ATA Revision 3.5, section 7.3; SAS up to
12 Gb/s (SPL-4, section 5)."""
SAS_24G_GB_S = 22.5
SAS_24G_BYTES_PER_S_PER_GB_S = 1e9 * 128 / 150 / 8
"""24G SAS encodes 128 bits of data with 22 bits of error correction in 150 bits (SPL-5)."""


class Link(NamedTuple):
    """One link.

    Attributes:
        identity: The same for all devices behind the same link.
        bytes_per_s: Bandwidth in one direction, after encoding.
        words: Kind and speed: ``SATA 3 Gb/s``.
        declared: Whether the user declared it.
    """

    identity: str
    bytes_per_s: float
    words: str
    declared: bool


def own_link(device: Device) -> Link | None:
    """Return a drive's own link; None if it has none (NVMe) or its speed is unknown."""
    declared = device.declared is True
    name = f"link of {device.name}"
    sata_gb_s = device.sata_link_gb_s
    if sata_gb_s:
        return Link(name, sata_gb_s * BYTES_PER_S_PER_GB_S, f"SATA {sata_gb_s:g} Gb/s", declared)
    lane_gb_s = device.sas_link_gb_s
    if lane_gb_s:
        lanes = device.sas_lanes or 1
        words = f"SAS {lane_gb_s:g} Gb/s" + (f" x{lanes}" if lanes > 1 else "")
        return Link(name, lanes * sas_lane_bytes_per_s(lane_gb_s), words, declared)
    plain_bytes_per_s = device.link_bytes_per_s
    if plain_bytes_per_s:
        return Link(name, plain_bytes_per_s, device.transport or "link", declared)
    return None


def sas_lane_bytes_per_s(gb_s: float) -> float:
    """Return the bandwidth of a SAS lane at a rate in Gb/s."""
    if gb_s >= SAS_24G_GB_S:
        return gb_s * SAS_24G_BYTES_PER_S_PER_GB_S
    return gb_s * BYTES_PER_S_PER_GB_S


def bus_link(device: Device) -> Link | None:
    """Return the narrowest PCIe link on the path to a device; None if its speed is unknown."""
    pcie = device.pcie
    if pcie is None:
        return None
    ends = [pcie, *pcie.chain, *([pcie.narrowest] if pcie.narrowest else [])]
    links = [_pcie_link(end, declared=pcie.declared is True) for end in ends]
    return min(filter(None, links), key=lambda link: link.bytes_per_s, default=None)


def _pcie_link(end: PcieLink, *, declared: bool) -> Link | None:
    """Return the most that a PCIe link can carry; None if unknown.

    Its present width counts, but its maximum speed: a drive lowers the speed while it is idle, as
    when the fingerprint is taken.
    """
    speed, width = end.speed_max_gt_s, end.width_now
    if end.bandwidth_max_bytes_per_s and width and end.width_max:
        bytes_per_s = end.bandwidth_max_bytes_per_s * width / end.width_max
    elif end.bandwidth_now_bytes_per_s:
        speed, bytes_per_s = end.speed_now_gt_s, end.bandwidth_now_bytes_per_s
    else:
        return None
    return Link(
        identity=f"pcie {end.address}",
        bytes_per_s=bytes_per_s,
        words="PCIe" if speed is None or width is None else f"PCIe {speed:g} GT/s x{width}",
        declared=declared,
    )


def drive_links(fingerprint: Fingerprint) -> list[Link] | None:
    """Return the links of the target's physical drives; None if one of them is unknown.

    A drive without its own link (NVMe, a virtual disk) has its PCIe link. Drives behind one PCIe
    link share it, so it counts once.
    """
    found: dict[str, Link] = {}
    for device in fingerprint.physical_devices:
        link = own_link(device) or bus_link(device)
        if link is None:
            return None
        found[link.identity] = link
    return list(found.values()) or None


def bus_links(fingerprint: Fingerprint) -> list[Link] | None:
    """Return the PCIe links above the drives' own links.

    None if there is no such drive, or the path to one of them is unknown. A link that several
    drives share counts once.
    """
    stack = {device.name: device for device in fingerprint.stack}
    found: dict[str, Link] = {}
    for device in fingerprint.physical_devices:
        buses = _buses_of(device, stack)
        if own_link(device) is None or not buses:
            return None
        found |= {bus.identity: bus for bus in buses}
    return list(found.values()) or None


def _buses_of(device: Device, stack: dict[str, Device]) -> list[Link]:
    """Return the bus of a drive; for a declared drive without one, the buses of its parents."""
    own = bus_link(device)
    if own or device.declared is not True:
        return [own] if own else []
    above = [stack[name] for name in device.parents if name in stack]
    return [bus for node in above if (bus := bus_link(node))]


BoundName = Literal["drive_links", "host_bus", "memory_copy"]
"""From the medium outwards: a rate above one of them was served on the host's side of it."""


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """The maximum bandwidth of one part of the path in one direction.

    Attributes:
        name: The part.
        bytes_per_s: Its bandwidth after encoding.
        source: Source of the figure: ``fingerprint``, ``declared`` or ``measured``.
        words: The part and its verb before "at": ``the drives' links saturate``.
        detail: Its components: ``4 links, SATA 3 Gb/s``.
    """

    name: BoundName
    bytes_per_s: float
    source: str
    words: str
    detail: str


class Cache(msgspec.Struct, frozen=True, kw_only=True):
    """A cache below the page cache.

    Attributes:
        size_bytes: Its size; the sum if there are several.
        source: ``fingerprint`` or ``declared``.
        words: Its name in a sentence: ``the controller's cache``.
    """

    size_bytes: int
    source: str
    words: str


MEMORY_COPY_MARGIN = 1.5
"""The copy is measured for a few milliseconds; a CPU may be faster at another time."""
MEMORY_SPAN_BYTES_MIN = 64 << 20
"""A smaller range may stay in CPU caches, which are faster than memory."""


class Broken(NamedTuple):
    """A bound that a figure significantly exceeds.

    Attributes:
        bound: The outermost such bound.
        rate: Bandwidth in one direction, in B/s.
    """

    bound: Bound
    rate: Estimate


def bounds_of(fingerprint: Fingerprint, summary: CellSummary) -> list[Bound]:
    """Return the bounds of a cell's bandwidth in one direction, from the medium outwards.

    Args:
        fingerprint: Seen from the cell's target (``Context.before_of``).
        summary: The cell. Direct I/O is bounded by every part of the path, but not by the memory
            copy, as devices write to memory themselves; buffered I/O only by the memory copy.
            That of hosts of a cluster took paths of theirs, which are not known.
    """
    if hosts_of(summary.cell):
        return []
    if is_direct(summary):
        return path_bounds(fingerprint)
    memory_copy = _memory_copy(fingerprint, summary)
    return [memory_copy] if memory_copy else []


def path_bounds(fingerprint: Fingerprint) -> list[Bound]:
    """Return the bandwidth of the drives' links and of the bus to them, if known."""
    links, buses = drive_links(fingerprint), bus_links(fingerprint)
    parts: tuple[tuple[BoundName, list[Link] | None, str, str], ...] = (
        ("drive_links", links, "the drive's link saturates", "the drives' links saturate"),
        ("host_bus", buses, "the host bus saturates", "the host buses saturate"),
    )
    return [
        Bound(
            name=name,
            bytes_per_s=sum(link.bytes_per_s for link in links),
            source="declared" if any(link.declared for link in links) else "fingerprint",
            words=singular if len(links) == 1 else plural,
            detail=_detail(links),
        )
        for name, links, singular, plural in parts
        if links
    ]


def _detail(links: Sequence[Link]) -> str:
    """Return the links in words: ``4 links, SATA 3 Gb/s``."""
    counts = Counter(link.words for link in links)
    if len(counts) == 1:
        words, count = counts.popitem()
        return words if count == 1 else f"{count} links, {words}"
    return " and ".join(f"{count} x {words}" for words, count in counts.items())


def _memory_copy(fingerprint: Fingerprint, summary: CellSummary) -> Bound | None:
    """Return the memory copy bandwidth of all CPUs; None if unknown or not applicable."""
    one_thread_bytes_per_s = fingerprint.machine.memory_copy_bytes_per_s
    span = span_bytes(summary)
    if not one_thread_bytes_per_s or span is None or span < MEMORY_SPAN_BYTES_MIN:
        return None
    cpus = usable_cpus(fingerprint) or 1.0
    return Bound(
        name="memory_copy",
        bytes_per_s=one_thread_bytes_per_s * cpus * MEMORY_COPY_MARGIN,
        source="measured",
        words="memory copy saturates",
        detail=f"{MEMORY_COPY_MARGIN:g} times the copy bandwidth of {cpus:g} CPUs",
    )


def busier_direction(summary: CellSummary) -> Estimate:
    """Return bytes per second of reads or of writes, whichever is more.

    Links are full duplex, so the sum may exceed the bandwidth in one direction.
    """
    samples = [sample for sample in counted(summary.samples) if sample.duration_s > 0]
    directions = (requested_read_bytes, requested_write_bytes)
    rates = [
        [direction(sample) / sample.duration_s for sample in samples] or [0.0]
        for direction in directions
    ]
    return max((estimate_of_rounds(r, "B/s") for r in rates), key=lambda e: e.value)


def broken_bound(fingerprint: Fingerprint, summary: CellSummary) -> Broken | None:
    """Return the outermost bound that a cell's rate significantly exceeds; None if there is none.

    Significantly: by the lower end of its interval, or by the figure itself if measured once.
    """
    return outermost_below(busier_direction(summary), bounds_of(fingerprint, summary))


def outermost_below(rate: Estimate, bounds: Sequence[Bound]) -> Broken | None:
    """Return the last of the bounds, from the medium outwards, that a rate in B/s exceeds.

    Of two exceeded bounds, the outer one shows where the requests were served.
    """
    confident_bytes_per_s = rate.value if rate.low is None else rate.low
    broken = [bound for bound in bounds if confident_bytes_per_s > bound.bytes_per_s]
    return Broken(broken[-1], rate) if broken else None


def controller_cache(fingerprint: Fingerprint) -> Cache | None:
    """Return the caches of the controllers under a target; None if none reports any.

    Disks of one controller share its cache. No interface reports the contents of a drive's cache.
    """
    controllers = {
        device.controller.name: device.controller
        for device in fingerprint.stack
        if device.controller and device.controller.cache_bytes
    }
    if not controllers:
        return None
    declared = any(each.declared is True for each in controllers.values())
    return Cache(
        size_bytes=sum(each.cache_bytes or 0 for each in controllers.values()),
        source="declared" if declared else "fingerprint",
        words="the controller's cache" if len(controllers) == 1 else "the controllers' caches",
    )
