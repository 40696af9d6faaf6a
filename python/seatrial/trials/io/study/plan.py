"""Checks whether a target supports cells of block I/O, and lists the files that they need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from seatrial.errors import AlignmentError, DirectError, StudyError
from seatrial.study.cell import Cell
from seatrial.study.model import COPY_FILE, LOG_FILE, TRIAL_FILE, PlannedTarget, TrialFile
from seatrial.study.plan import misaligned, writes
from seatrial.study.spec import Spec
from seatrial.study.units import format_size
from seatrial.trials.io.study.workloads import WorkloadBase
from seatrial.units import SECTOR_BYTES


def is_possible(cell: Cell, workload: WorkloadBase, target: PlannedTarget) -> bool:
    """Return whether a target supports a cell; False if it may be skipped, else raise."""
    spec = cell.parsed
    if spec.target.direct and not target.direct:
        raise DirectError(
            seen=f"Workload {workload.label!r} bypasses the page cache (O_DIRECT), which target "
            f"{target.label!r} does not support",
            cause="Its file system, such as tmpfs, has no O_DIRECT",
            next_step="Measure another directory, or through the page cache with --buffered",
        )
    _check_fit(cell, workload, target)
    for block_bytes, what in _granules(spec, target):
        misaligned_bytes = next(
            (each for each in _positions_bytes(spec) if each % block_bytes), None
        )
        if misaligned_bytes is None:
            continue
        if workload.skip_unaligned:
            return False
        raise misaligned(
            target, f"In workload {workload.label!r} {what}", misaligned_bytes, block_bytes
        )
    return True


def _granules(spec: Spec, target: PlannedTarget) -> Iterator[tuple[int, str]]:
    """Yield alignments of sizes and offsets (bytes), each with its name in an error."""
    if spec.target.direct:
        yield target.logical_block_bytes, "a size or position past the page cache"
    if spec.data.kind == "verifiable":
        # Verifiable data differs from sector to sector.
        yield SECTOR_BYTES, "a size or position of verifiable data"


def _positions_bytes(spec: Spec) -> Iterator[int]:
    """Yield all sizes, alignments and starts of requests, in bytes."""
    yield spec.range.start_bytes
    for access in spec.accesses:
        yield from (size.bytes for size in access.sizes)
        if access.address.kind != "sequential":
            yield access.align_bytes or 0


def _check_fit(cell: Cell, workload: WorkloadBase, target: PlannedTarget) -> None:
    """Raise StudyError if a cell could not make a single request."""
    spec = cell.parsed
    block_bytes = max(size.bytes for access in spec.accesses for size in access.sizes)
    length_bytes = spec.range.length_bytes or 0
    limit_bytes = spec.limit.bytes
    name = f"Workload {workload.label!r}"
    if _needed_bytes(cell, block_bytes) > _room_bytes(spec):
        raise StudyError(
            seen=f"{name} has blocks of {format_size(block_bytes)} within "
            f"{format_size(length_bytes)} of target {target.label!r}, where they do not fit",
            cause=f"The trial file is {format_size(target.size_bytes)} long, or the part of it "
            "that the workload uses is too short",
            next_step="Make the trial file larger (of an array: its drives), or the blocks smaller",
        )
    if limit_bytes is not None and limit_bytes < block_bytes:
        raise StudyError(
            seen=f"{name} may write {format_size(limit_bytes)} a sample, less than one block of "
            f"{format_size(block_bytes)}",
            cause="'limit_bytes' is below the largest of the block sizes",
            next_step=f"Give limit_bytes of at least {block_bytes}",
        )
    if cell.kind == "fill" and length_bytes % block_bytes:
        raise AlignmentError(
            seen=f"The size of target {target.label!r}, {length_bytes} bytes, is not a multiple of "
            f"the {block_bytes} bytes that {name.lower()} writes at once",
            cause="The end of the trial file would stay empty, and reads of it would not reach "
            "the medium",
            next_step=f"Give --size {max(1, length_bytes // block_bytes) * block_bytes}",
        )


def _needed_bytes(cell: Cell, block_bytes: int) -> int:
    """Return the shortest range in which a cell can run."""
    strides = (access.address.stride_bytes for access in cell.parsed.accesses)
    owners = cell.threads if cell.parsed.data.kind == "verifiable" else 1
    return max(block_bytes * owners, *strides)


def _room_bytes(spec: Spec) -> int:
    """Return the length of the range from its first aligned position; negative if past the end."""
    start_bytes, length_bytes = spec.range.start_bytes, spec.range.length_bytes or 0
    if start_bytes + length_bytes > (spec.target.size_bytes or 0):
        return -1
    align_bytes = max(access.align_bytes or 0 for access in spec.accesses)
    return length_bytes - (-start_bytes) % align_bytes


def check_verified(targets: Sequence[PlannedTarget], cells: Sequence[Cell]) -> None:
    """Raise StudyError if a cell would verify data that was never written."""
    for target in targets:
        own = [cell for cell in cells if cell.target == target.label]
        if _read_as_is(target, own) and any(cell.parsed.verify for cell in own):
            raise StudyError(
                seen=f"Target {target.label!r} is to be verified, but nothing is written to it",
                cause=f"Only data written by this run can be verified, and the {target.kind} is "
                "only read",
                next_step="Write it as well (--operation mixed, or a workload 'fill'), or verify "
                "in a directory",
            )


def files(target: PlannedTarget, cells: Sequence[Cell]) -> Iterator[TrialFile]:
    """Yield the files that the cells of a target need."""
    own = [cell for cell in cells if cell.target == target.label]
    if not own or not target.is_storage:
        return
    on_trial_file = [cell for cell in own if cell.parsed.target.file == TRIAL_FILE]
    if on_trial_file:
        verified = any(cell.parsed.verify for cell in on_trial_file)
        filled = any(cell.kind == "fill" for cell in own)
        yield TrialFile(
            target=target.label,
            name=TRIAL_FILE,
            size_bytes=target.size_bytes,
            prefill=not filled and not _read_as_is(target, cells),
            data={"kind": "verifiable" if verified else "random"},
        )
    copied_to = [cell for cell in own if cell.parsed.target.copy_to == COPY_FILE]
    logging = [cell for cell in own if cell.parsed.target.file == LOG_FILE]
    for name, using in ((COPY_FILE, copied_to), (LOG_FILE, logging)):
        if using:
            yield TrialFile(
                target=target.label,
                name=name,
                size_bytes=max(cell.parsed.range.length_bytes or 0 for cell in using),
                prefill=True,
                data={"kind": "random"},
            )


def _read_as_is(target: PlannedTarget, cells: Sequence[Cell]) -> bool:
    """Return whether a device or file is only read, so that its content must not change."""
    return target.kind in ("device", "file") and not any(
        writes(cell) for cell in cells if cell.target == target.label
    )


def notes_on_reading(targets: Sequence[PlannedTarget], cells: Sequence[Cell]) -> list[str]:
    """Return a note on each device or file that is read as it is."""
    return [
        f"{target.label} is only read, as it is: parts that were never written read too fast"
        for target in targets
        if _read_as_is(target, cells)
    ]
