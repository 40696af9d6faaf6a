"""Reads all data of a trial file once after a fault, to find lost data with a resolution of 4 KiB.

The engine counts reads. Here blocks of 4 KiB are counted, each once, whatever the size of the
reads.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from seatrial import _core
from seatrial.descriptor import closing
from seatrial.errors import TargetError
from seatrial.measure.engine import measure_spec
from seatrial.measure.progress import Watcher
from seatrial.postgres.page_cache import drop_cached
from seatrial.results.model import Verification
from seatrial.study.units import format_size

COARSE_BYTES: Final = 1 << 20
FINE_BYTES: Final = 4096
FINE_PART_BYTES: Final = 2 << 20
"""Size read in small blocks at once: the engine gives up after 1,000 errors in a row."""
LOST_PART_BYTES: Final = 512 << 20
"""Likewise in large blocks, of an array that has failed."""
PARTS: Final = 8
DEPTH: Final = 16
KEPT_MAX: Final = 32


class DataCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The result of reading everything.

    Attributes:
        verification: Blocks of 4 KiB that were checked, and those that were wrong.
        checked_bytes: Bytes read and checked.
        wrong_bytes: Bytes of these that differ from what was written.
        unreadable_bytes: Bytes that could not be read.
        notes: Limitations of the result, as sentences.
    """

    verification: Verification
    checked_bytes: int
    wrong_bytes: int
    unreadable_bytes: int
    notes: list[str] = []


def check_all(spec: Mapping[str, Any], watcher: Watcher, *, is_lost: bool = False) -> DataCheck:
    """Read the whole trial file of a cell that verifies, and check every block of it.

    It is read in large blocks; where some are unreadable or wrong, their part of the file is read
    again in small ones, so that losses are known to 4 KiB.

    Args:
        spec: The engine's specification of the cell, with paths and ledger.
        watcher: Receives the progress.
        is_lost: Whether the array has failed: then unreadable data is known to 1 MiB only.

    Raises:
        KeyboardInterrupt: when the user ended it.
        SeatrialError: when the file cannot be opened at all.
    """
    size_bytes = int(spec["target"]["size_bytes"])
    watcher.step(f"Reading all data of {spec['target']['path']}: {format_size(size_bytes)}")
    # The page cache says nothing about the drives.
    notes = [] if spec["target"]["direct"] else _drop(Path(spec["target"]["path"]))
    parts: list[DataCheck] = []
    ranges = _lost_parts(size_bytes) if is_lost else [(0, size_bytes)]
    while ranges:
        start_bytes, length_bytes = ranges.pop()
        is_small = length_bytes <= FINE_PART_BYTES
        found = _pass(spec, start_bytes, length_bytes, COARSE_BYTES, watcher)
        if is_lost or not (found.unreadable_bytes or found.wrong_bytes):
            parts.append(_with_fine_blocks(spec, found, start_bytes, length_bytes, watcher))
        elif is_small:
            parts.append(_pass(spec, start_bytes, length_bytes, FINE_BYTES, watcher))
        else:
            ranges += _split(start_bytes, length_bytes)
    return _combined(parts, notes)


def _with_fine_blocks(
    spec: Mapping[str, Any],
    found: DataCheck,
    start_bytes: int,
    length_bytes: int,
    watcher: Watcher,
) -> DataCheck:
    """Return a pass over a part, with wrong large blocks read again in small ones.

    Up to 32 blocks, which are listed; further ones count as a whole.
    """
    block_bytes = _block_bytes(start_bytes, length_bytes, COARSE_BYTES)
    offsets = (each.offset_bytes // block_bytes for each in found.verification.corruptions)
    fine = [
        _pass(spec, block * block_bytes, block_bytes, FINE_BYTES, watcher)
        for block in sorted(set(offsets))
    ]
    if not fine:
        return found
    blocks = len(fine) * max(1, block_bytes // FINE_BYTES)
    rest = DataCheck(
        verification=Verification(
            checked_blocks=found.verification.checked_blocks - blocks,
            corrupt_blocks=found.verification.corrupt_blocks - blocks,
        ),
        checked_bytes=found.checked_bytes - len(fine) * block_bytes,
        wrong_bytes=found.wrong_bytes - len(fine) * block_bytes,
        unreadable_bytes=found.unreadable_bytes,
    )
    return _combined([rest, *fine], [])


def _drop(path: Path) -> list[str]:
    """Drop a file or device from the page cache; return what remained, as a note."""
    try:
        if path.is_file():
            if left_bytes := drop_cached(path.parent).bytes_cached_after:
                return [f"{format_size(left_bytes)} of the checked data were in the page cache."]
            return []
        with closing(os.open(path, os.O_RDONLY | os.O_CLOEXEC)) as descriptor:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    except OSError as error:
        return [f"The checked data may be those of the page cache: {error.strerror}."]
    return []


def unreadable(spec: Mapping[str, Any], error: TargetError) -> tuple[int, str]:
    """Return the bytes lost with a file that cannot be opened, and a note on it."""
    words = error.seen.rstrip(".")
    return int(spec["target"]["size_bytes"]), f"The final data check was impossible: {words}."


def merged(before: Verification | None, found: Verification) -> Verification:
    """Return the combined verification of a sample and of the check after it."""
    if before is None:
        return found
    return Verification(
        checked_blocks=before.checked_blocks + found.checked_blocks,
        corrupt_blocks=before.corrupt_blocks + found.corrupt_blocks,
        corruptions=[*before.corruptions, *found.corruptions][:KEPT_MAX],
    )


def _lost_parts(size_bytes: int) -> list[tuple[int, int]]:
    """Return the parts to read of an array that has failed; all but the last have large blocks."""
    even_bytes = size_bytes // COARSE_BYTES * COARSE_BYTES
    starts = [*range(0, even_bytes, LOST_PART_BYTES), even_bytes]
    ends = [*starts[1:], size_bytes]
    return [(start, end - start) for start, end in zip(starts, ends, strict=True) if end > start]


def _split(start_bytes: int, length_bytes: int) -> list[tuple[int, int]]:
    part_bytes = max(FINE_PART_BYTES, length_bytes // PARTS // COARSE_BYTES * COARSE_BYTES)
    end_bytes = start_bytes + length_bytes
    return [
        (at, min(part_bytes, end_bytes - at)) for at in range(start_bytes, end_bytes, part_bytes)
    ]


def _combined(parts: list[DataCheck], notes: list[str]) -> DataCheck:
    corruptions = [each for part in parts for each in part.verification.corruptions]
    return DataCheck(
        verification=Verification(
            checked_blocks=sum(part.verification.checked_blocks for part in parts),
            corrupt_blocks=sum(part.verification.corrupt_blocks for part in parts),
            corruptions=sorted(corruptions, key=lambda each: each.offset_bytes)[:KEPT_MAX],
        ),
        checked_bytes=sum(part.checked_bytes for part in parts),
        wrong_bytes=sum(part.wrong_bytes for part in parts),
        unreadable_bytes=sum(part.unreadable_bytes for part in parts),
        notes=notes,
    )


def _block_bytes(start_bytes: int, length_bytes: int, most_bytes: int) -> int:
    """Return the largest power of two, up to a limit, that divides a part of the file."""
    both = start_bytes | length_bytes
    return min(most_bytes, both & -both)


def _depth(spec: Mapping[str, Any], length_bytes: int, block_bytes: int) -> int:
    """Return the number of concurrent reads.

    If two reads shared a block of the ledger, one would be postponed, and another offset read twice
    instead: then it is one.
    """
    if block_bytes % int(spec["ledger_block_bytes"]):
        return 1
    return min(DEPTH, length_bytes // block_bytes)


def _pass(
    spec: Mapping[str, Any],
    start_bytes: int,
    length_bytes: int,
    block_bytes_max: int,
    watcher: Watcher,
) -> DataCheck:
    """Read a part once in blocks of at most the given number of bytes; errors do not end it."""
    block_bytes = _block_bytes(start_bytes, length_bytes, block_bytes_max)
    access = {
        "operation": "read",
        "sizes": [{"bytes": block_bytes, "weight": 1}],
        "align_bytes": block_bytes,
        "address": {"kind": "sequential"},
    }
    target = {key: value for key, value in spec["target"].items() if key != "copy_to"}
    reading = {
        "seed": spec["seed"],
        "target": target | {"create": False, "dsync": False},
        "range": {"start_bytes": start_bytes, "length_bytes": length_bytes},
        "accesses": [access],
        "threads": 1,
        "depth": _depth(spec, length_bytes, block_bytes),
        "data": spec["data"],
        "verify": True,
        "ledger_path": spec["ledger_path"],
        "ledger_block_bytes": spec["ledger_block_bytes"],
        "limit": {"duration_s": _core.DURATION_S_MAX, "bytes": length_bytes},
    }
    measured = measure_spec(reading, watcher)
    if measured.interrupted:
        raise KeyboardInterrupt
    read_bytes = sum(each["transferred_bytes"] for each in measured.parts["operations"].values())
    found = msgspec.convert(measured.parts["verification"], Verification)
    blocks_of_read = max(1, block_bytes // FINE_BYTES)
    return DataCheck(
        verification=Verification(
            checked_blocks=found.checked_blocks * blocks_of_read,
            corrupt_blocks=found.corrupt_blocks * blocks_of_read,
            corruptions=found.corruptions,
        ),
        checked_bytes=found.checked_blocks * block_bytes,
        wrong_bytes=found.corrupt_blocks * block_bytes,
        unreadable_bytes=length_bytes - read_bytes,
    )
