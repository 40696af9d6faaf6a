"""Shapes of cells by kind of workload: operations, block sizes, ranges, files."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from seatrial import _core
from seatrial.study.cell import FactorValue
from seatrial.study.model import COPY_FILE, LOG_FILE, TRIAL_FILE, PlannedTarget
from seatrial.study.schema import CLASSIC, AccessLine, AccessSpecification, Study
from seatrial.study.values import many
from seatrial.trials.io.study.workloads import (
    Commit,
    Concurrent,
    Copy,
    Fill,
    Four,
    Map,
    Mix,
    Patterned,
    Sequential,
    WorkloadBase,
)

Factors = dict[str, FactorValue]
Access = dict[str, Any]

FOUR_BLOCK_BYTES: Final = 4096
PAGE_BYTES: Final = 4096
FAULT_BYTES_PER_S: Final = 2 << 30
"""Highest throughput of a sample with an injected fault in its array."""


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """The requests of a cell without its load factors; the kinds of workload differ in it.

    Attributes:
        operation: ``read``, ``write``, ``mixed``, ``commit`` or ``copy``.
        block_size_bytes: Size of one request; 0 for a distribution.
        threads: Concurrent workers.
        depth: Requests that each keeps in flight.
        accesses: Accesses of the engine.
        start_bytes: Start of the range in the file.
        length_bytes: Length of the range.
        factors: Other factors.
        implied: Factors that the key omits, as the kind implies them.
        file: The file that requests go to.
        copy_to: The file that copies are written to.
        create: Whether the cell makes the file.
        dsync: Whether the file is opened with O_DSYNC.
        limit_bytes: Bytes after which a sample ends; None if it does not write.
        streams: Loads next to each other, as the engine reads them; empty for one load.
    """

    operation: str
    block_size_bytes: int
    threads: int
    depth: int
    accesses: list[Access]
    start_bytes: int = 0
    length_bytes: int
    factors: Factors = {}
    implied: Factors = {}
    file: str = TRIAL_FILE
    copy_to: str | None = None
    create: bool = False
    dsync: bool = False
    limit_bytes: int | None
    streams: list[dict[str, object]] = []


def shapes_of(workload: WorkloadBase, target: PlannedTarget, study: Study) -> Iterator[Shape]:
    """Yield the shapes of a workload's cells on a target.

    Raises:
        TypeError: for a workload of no known kind.
    """
    for kind, shapes in _KINDS:
        if isinstance(workload, kind):
            yield from shapes(workload, target, study)
            return
    raise TypeError(f"no shapes for {type(workload).__name__}")


def _fill(workload: Fill, target: PlannedTarget, _study: Study) -> Iterator[Shape]:
    for size_bytes, threads, depth in _concurrency(workload, workload.block_sizes):
        sequential = Shape(
            operation="write",
            block_size_bytes=size_bytes,
            threads=threads,
            depth=depth,
            accesses=[_sequential_access("write", size_bytes)],
            length_bytes=target.size_bytes,
            create=target.kind in ("directory", "file"),
            limit_bytes=target.size_bytes,
        )
        is_one_pass = workload.pattern == "one_pass"
        yield _one_pass(workload, sequential) if is_one_pass else sequential


def _one_pass(workload: Fill, sequential: Shape) -> Shape:
    """Return a fill in random order, with as many writes as the engine will make.

    The file already exists, as a new one would be allocated in the order of the writes.
    """
    share = workload.over_provisioning_share
    size_bytes = sequential.block_size_bytes
    address: Access = {"kind": "one_pass", "over_provisioning_share": share}
    writes = _core.one_pass_writes(sequential.length_bytes // size_bytes, share)
    return msgspec.structs.replace(
        sequential,
        accesses=[_access("write", size_bytes, address)],
        factors={"pattern": "one_pass", "over_provisioning_share": share},
        create=False,
        limit_bytes=writes * size_bytes,
    )


def _patterned(workload: Patterned, target: PlannedTarget, _study: Study) -> Iterator[Shape]:
    start_bytes = int(workload.range_start_bytes or 0)
    rest_bytes = max(0, target.size_bytes - start_bytes)
    length_bytes = int(workload.range_length_bytes or rest_bytes)
    for operation, read in _operations(workload):
        for pattern, address, pattern_factors in _addresses(workload):
            for size_bytes, threads, depth in _concurrency(workload, workload.block_sizes):
                factors = _range_factors(workload) | {"pattern": pattern} | pattern_factors
                yield Shape(
                    operation=operation,
                    block_size_bytes=size_bytes,
                    threads=threads,
                    depth=depth,
                    accesses=_directions(read, size_bytes, address),
                    start_bytes=start_bytes,
                    length_bytes=length_bytes,
                    factors=factors | ({"read_share": read} if operation == "mixed" else {}),
                    implied={"pattern": "random"},
                    limit_bytes=_limit_bytes(workload, operation, length_bytes),
                )


def _operations(workload: Patterned) -> Iterator[tuple[str, float]]:
    """Yield each operation and its share of reads."""
    for operation in many(workload.operations):
        if operation == "mixed":
            yield from (("mixed", read) for read in many(workload.read_share))
        else:
            yield operation, 1.0 if operation == "read" else 0.0


def _addresses(workload: Patterned) -> Iterator[tuple[str, Access, Factors]]:
    """Yield each pattern with its address specification and its own factors."""
    for pattern in many(workload.pattern):
        if pattern == "zipf":
            for theta in many(workload.theta):
                yield pattern, {"kind": "zipf", "theta": theta}, {"theta": theta}
        elif pattern == "hot_cold":
            shares = itertools.product(many(workload.hot_share), many(workload.hot_access_share))
            for hot, access in shares:
                chosen: Factors = {"hot_share": hot, "hot_access_share": access}
                yield pattern, {"kind": "hot_cold", **chosen}, chosen
        elif pattern == "strided":
            stride_bytes = int(workload.stride_bytes or 0)
            address: Access = {"kind": "strided", "stride_bytes": stride_bytes}
            yield pattern, address, {"stride_bytes": stride_bytes}
        else:
            yield pattern, {"kind": pattern}, {}


def _range_factors(workload: Patterned) -> Factors:
    """Return the range if the workload uses a part of the file."""
    factors: Factors = {}
    if workload.range_start_bytes is not None:
        factors["range_start_bytes"] = int(workload.range_start_bytes)
    if workload.range_length_bytes is not None:
        factors["range_length_bytes"] = int(workload.range_length_bytes)
    return factors


def _sequential(workload: Sequential, target: PlannedTarget, _study: Study) -> Iterator[Shape]:
    for operation in many(workload.operations):
        for name, share in workload.files.items():
            part_bytes = _part_bytes(target, share)
            for size_bytes, threads, depth in _concurrency(workload, workload.block_sizes):
                yield Shape(
                    operation=operation,
                    block_size_bytes=size_bytes,
                    threads=threads,
                    depth=depth,
                    accesses=[_sequential_access(operation, size_bytes)],
                    length_bytes=part_bytes,
                    factors={"pattern": "sequential", "file": name},
                    implied={"pattern": "sequential"},
                    limit_bytes=_limit_bytes(workload, operation, part_bytes),
                )


def _copy(workload: Copy, target: PlannedTarget, _study: Study) -> Iterator[Shape]:
    for size_bytes, threads, depth in _concurrency(workload, workload.block_sizes):
        part_bytes = _part_bytes(target, workload.share)
        length_bytes = min(part_bytes, workload.limit_bytes or part_bytes)
        length_bytes -= length_bytes % size_bytes
        yield Shape(
            operation="copy",
            block_size_bytes=size_bytes,
            threads=threads,
            depth=depth,
            accesses=[_sequential_access("copy", size_bytes)],
            length_bytes=length_bytes,
            copy_to=COPY_FILE if target.holds_files else None,
            limit_bytes=length_bytes,
        )


def _map(workload: Map, target: PlannedTarget, _study: Study) -> Iterator[Shape]:
    granule_bytes = _granule_bytes(target)
    zone_bytes = target.size_bytes // workload.zones // granule_bytes * granule_bytes
    sizes = {"rate": workload.rate_block_bytes, "access": workload.access_block_bytes}
    for operation, probe in itertools.product(many(workload.operations), many(workload.probes)):
        pattern = "sequential" if probe == "rate" else "random"
        for size_bytes, threads, depth in _concurrency(workload, (int(sizes[probe]),)):
            for zone in range(workload.zones):
                yield Shape(
                    operation=operation,
                    block_size_bytes=size_bytes,
                    threads=threads,
                    depth=depth,
                    accesses=[_access(operation, size_bytes, {"kind": pattern})],
                    start_bytes=zone * zone_bytes,
                    length_bytes=zone_bytes,
                    factors={"pattern": pattern, "zone": zone, "zones": workload.zones},
                    limit_bytes=_limit_bytes(workload, operation, zone_bytes),
                )


def _commit(workload: Commit, target: PlannedTarget, _study: Study) -> Iterator[Shape]:
    log_bytes = int(workload.log_bytes)
    if not target.holds_files:
        log_bytes = min(log_bytes, target.size_bytes)
    committers = itertools.product(
        many(workload.methods), workload.size_bytes, many(workload.committers)
    )
    for method, size_bytes, threads in committers:
        yield Shape(
            operation="commit",
            block_size_bytes=size_bytes,
            threads=threads,
            depth=1,
            accesses=[_sequential_access("commit", size_bytes)],
            length_bytes=log_bytes,
            factors={"method": method},
            file=LOG_FILE if target.holds_files else TRIAL_FILE,
            dsync=method == "o_dsync",
            limit_bytes=_limit_bytes(workload, "commit", target.size_bytes),
        )


def _four(workload: Four, target: PlannedTarget, _study: Study) -> Iterator[Shape]:
    """Sequential and random, write and read, in the order of reference/xbench-2008.csv."""
    numbers = itertools.product(("sequential", "random"), ("write", "read"))
    for pattern, operation in numbers:
        for size_bytes, threads, depth in _concurrency(workload, (FOUR_BLOCK_BYTES,)):
            yield Shape(
                operation=operation,
                block_size_bytes=size_bytes,
                threads=threads,
                depth=depth,
                accesses=[_access(operation, size_bytes, {"kind": pattern})],
                length_bytes=target.size_bytes,
                factors={"pattern": pattern},
                limit_bytes=_limit_bytes(workload, operation, target.size_bytes),
            )


def _mix(workload: Mix, target: PlannedTarget, study: Study) -> Iterator[Shape]:
    known = CLASSIC | {access.name: access for access in study.accesses}
    for name in many(workload.accesses):
        specification = known[name]
        read = specification.read_share()
        operation = "mixed" if 0 < read < 1 else "read" if read else "write"
        streams = specification.streams()
        concurrency = _concurrency(workload, (_only_size_bytes(specification),))
        if streams:
            threads = sum(each.threads for each in streams)
            depth = max(each.depth for each in streams)
            concurrency = iter([(_only_size_bytes(specification), threads, depth)])
        for size_bytes, threads, depth in concurrency:
            yield Shape(
                operation=operation,
                block_size_bytes=size_bytes,
                threads=threads,
                depth=depth,
                accesses=list(_of_lines(specification)),
                length_bytes=target.size_bytes,
                factors={"access": name},
                limit_bytes=_limit_bytes(workload, operation, target.size_bytes),
                streams=[each.as_mapping() for each in streams],
            )


def _of_lines(specification: AccessSpecification) -> Iterator[Access]:
    """Yield the requests of all lines as the engine reads them, each of which may be a stream."""
    has_streams = bool(specification.streams())
    for number, line in enumerate(specification.lines):
        for access in _line(line):
            yield access | {"stream": number} if has_streams else access


def _only_size_bytes(specification: AccessSpecification) -> int:
    """Return the size of all requests (bytes); 0 if there are several."""
    sizes = {size.size_bytes for line in specification.lines for size in line.distribution()}
    return int(sizes.pop()) if len(sizes) == 1 else 0


def _line(line: AccessLine) -> Iterator[Access]:
    """Yield the accesses of one line for the engine.

    Random requests of an access have one alignment, so there is one access for each size.
    Sequential requests of an access follow each other, so there is one access for all sizes.
    """
    sizes = line.distribution()
    weight_of_all = sum(size.share for size in sizes)
    for operation, share in (("read", line.read), ("write", 1 - line.read)):
        for size in sizes:
            weight = line.share * share * line.random * size.share / weight_of_all
            if weight > 0:
                align_bytes = int(line.alignment_bytes(size.size_bytes))
                access = _access(operation, size.size_bytes, {"kind": "random"})
                yield access | {"weight": weight, "align_bytes": align_bytes}
        weight = line.share * share * (1 - line.random)
        if weight > 0:
            yield {
                "weight": weight,
                "operation": operation,
                "sizes": [{"bytes": int(s.size_bytes), "weight": s.share} for s in sizes],
                "align_bytes": int(min(line.alignment_bytes(size.size_bytes) for size in sizes)),
                "address": {"kind": "sequential"},
            }


def _directions(read: float, size_bytes: int, address: Access) -> list[Access]:
    """Return the accesses of reads and writes at one size, with a share of reads."""
    return [
        _access(operation, size_bytes, address) | {"weight": weight}
        for operation, weight in (("read", read), ("write", 1 - read))
        if weight > 0
    ]


def _access(operation: str, size_bytes: int, address: Access) -> Access:
    """Return one access of one size, with the alignment of its addresses."""
    align_bytes = int(size_bytes)
    if address["kind"] == "sequential":
        align_bytes = math.gcd(align_bytes, PAGE_BYTES)
    elif address["kind"] == "strided":
        align_bytes = math.gcd(align_bytes, address["stride_bytes"])
    return {
        "weight": 1.0,
        "operation": operation,
        "sizes": [{"bytes": int(size_bytes), "weight": 1.0}],
        "align_bytes": align_bytes,
        "address": address,
    }


def _sequential_access(operation: str, size_bytes: int) -> Access:
    """Return one access that goes from start to end."""
    return _access(operation, size_bytes, {"kind": "sequential"})


def _concurrency(
    workload: Concurrent, sizes_bytes: tuple[int, ...]
) -> Iterator[tuple[int, int, int]]:
    """Yield every combination of block size (bytes), threads and depth."""
    return itertools.product(sizes_bytes, many(workload.threads), many(workload.depths))


def _limit_bytes(workload: WorkloadBase, operation: str, default_bytes: int) -> int | None:
    """Return the limit of bytes, which every writing sample has.

    A sample with an injected fault must not end before the time of the fault, so its limit is more
    than any present array writes.
    """
    if operation == "read":
        return None
    if workload.limit_bytes is None and workload.failures:
        return max(default_bytes, int(workload.duration_s * FAULT_BYTES_PER_S))
    return int(workload.limit_bytes or default_bytes)


def _granule_bytes(target: PlannedTarget) -> int:
    """Return the alignment of parts of a file (bytes)."""
    return math.lcm(PAGE_BYTES, target.logical_block_bytes)


def _part_bytes(target: PlannedTarget, share: float) -> int:
    """Return the length of a share of the trial file, aligned unless it is the whole file."""
    if share == 1:
        return target.size_bytes
    granule_bytes = _granule_bytes(target)
    return int(target.size_bytes * share) // granule_bytes * granule_bytes


_KINDS: Final[tuple[tuple[type, Callable[..., Iterator[Shape]]], ...]] = (
    (Fill, _fill),
    (Patterned, _patterned),
    (Sequential, _sequential),
    (Copy, _copy),
    (Map, _map),
    (Commit, _commit),
    (Four, _four),
    (Mix, _mix),
)
