"""What the command line changes in a study."""

from __future__ import annotations

from typing import Any

import msgspec

from seatrial.errors import StudyError
from seatrial.study.load import recheck
from seatrial.study.schema import Budget, Rounds, Study, Target
from seatrial.study.units import parse_size_bytes
from seatrial.study.values import BlockSizes, Size
from seatrial.study.workloads import (
    ARTICLE_THREADS,
    WHOLE_SWEEP,
    Fill,
    Matrix,
    Workload,
)

WrittenSize = str | int
"""Bytes, or text with a unit, such as ``4GiB``."""


def override(
    study: Study,
    *,
    size: WrittenSize | None = None,
    seconds: float | None = None,
    rounds: int | None = None,
    budget_s: float | None = None,
    write_budget: WrittenSize | None = None,
    target_path: str | None = None,
    seed: int | None = None,
    buffered: bool = False,
    full: bool = False,
) -> Study:
    """Return the study with options of the command line put in place of what it says.

    Args:
        study: The study as read.
        size: Size of every target's trial file, in bytes or as text such as ``4GiB``.
        seconds: Seconds of each sample; fills still end when the file is full.
        rounds: Exactly so many rounds, of odd cells too.
        budget_s: Seconds that the run may take.
        write_budget: Bytes that the run may write, in bytes or as text such as ``80GiB``.
        target_path: Path of the target that has none, or of the only one.
        seed: Seed of the order and of the addresses.
        buffered: Go through the page cache in every workload.
        full: Measure every matrix with all of the article's block sizes and threads, without a
            bound of time unless ``budget_s`` gives one.

    Raises:
        StudyError: when an option is out of bounds, or there is no one target to give the path.
    """
    workloads = [_workload(each, seconds, buffered, full) for each in study.workloads]
    budget_time_s = budget_s if budget_s is not None else None if full else study.budget.time_s
    write_bytes = study.budget.write_bytes
    if write_budget is not None:
        write_bytes = _size(write_budget, "--write-budget")
    changes: dict[str, Any] = {
        "workloads": workloads,
        "targets": _targets(study, size, target_path),
        "budget": Budget(time_s=budget_time_s, write_bytes=write_bytes),
    }
    if rounds is not None:
        changes["rounds"] = Rounds(
            min=rounds, max=rounds, precision=study.rounds.precision, remeasure=0
        )
    if seed is not None:
        changes["seed"] = seed
    return recheck(msgspec.structs.replace(study, **changes))


def _workload(workload: Workload, seconds: float | None, buffered: bool, full: bool) -> Workload:
    """Return a workload with what the options change of it."""
    changes: dict[str, Any] = {}
    if seconds is not None and not isinstance(workload, Fill):
        changes["duration_s"] = seconds
    if buffered:
        changes["direct"] = False
    if full and isinstance(workload, Matrix):
        changes |= {"block_sizes": BlockSizes(WHOLE_SWEEP), "threads": list(ARTICLE_THREADS)}
    return msgspec.structs.replace(workload, **changes)


def _targets(study: Study, size: WrittenSize | None, path: str | None) -> list[Target]:
    """Return the targets with size and path put in place."""
    targets = list(study.targets)
    if size is not None:
        size_bytes = _size(size, "--size")
        targets = [msgspec.structs.replace(target, size_bytes=size_bytes) for target in targets]
    if path is not None:
        index = _index_without_path(study)
        targets[index] = msgspec.structs.replace(targets[index], path=path)
    return targets


def _size(written: WrittenSize, option: str) -> Size:
    """Return the size of an option; raises StudyError when it is none."""
    try:
        return Size(parse_size_bytes(written))
    except ValueError as error:
        raise StudyError(
            seen=f"{option}: {error}",
            cause="Sizes are bytes, or a number with KiB, MiB, GiB or TiB",
            next_step=f"Give a size such as {option} 4GiB",
        ) from error


def _index_without_path(study: Study) -> int:
    """Return which target the command line's path is of; raises StudyError when none is."""
    if len(study.targets) == 1:
        return 0
    without = [index for index, target in enumerate(study.targets) if not target.path]
    if len(without) == 1:
        return without[0]
    raise StudyError(
        seen=f"A path was given, but study {study.name!r} has {len(study.targets)} targets, "
        f"{len(without)} of them without a path",
        cause="A path on the command line can only be that of the one target that has none",
        next_step="Write the paths into the study's [[target]] tables",
    )
