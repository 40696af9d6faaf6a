"""What the command line changes in a study."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from seatrial.errors import StudyError
from seatrial.study.layouts.override_drives import given_drives, sized_layouts
from seatrial.study.load import recheck
from seatrial.study.override_targets import placed
from seatrial.study.schema import Budget, Rounds, Study, Target
from seatrial.study.server_address import is_server_address
from seatrial.study.units import parse_size_bytes
from seatrial.study.values import Size

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
    target_paths: Sequence[str] = (),
    seed: int | None = None,
    buffered: bool = False,
    full: bool = False,
    devices: str = "",
    loop: str = "",
    loop_dir: str = "",
) -> Study:
    """Return the study with options of the command line put in place of what it says.

    Args:
        study: The study as read.
        size: Size of the trial file of every target and layout, in bytes or as text such as
            ``4GiB``.
        seconds: Seconds of each sample; fills still end when the file is full, batches when they
            are done, and replays when their trace ends.
        rounds: Exactly so many rounds, of odd cells too.
        budget_s: Seconds that the run may take.
        write_budget: Bytes that the run may write, in bytes or as text such as ``80GiB``.
        target_path: Path of the target that has none, or of the only one.
        target_paths: The same, or paths of several targets, each as ``LABEL=PATH``.
        seed: Seed of the order and of the addresses.
        buffered: Go through the page cache in every workload whose requests the engine makes.
        full: Measure every matrix with all of the article's block sizes and threads, without a
            bound of time unless ``budget_s`` gives one.
        devices: Block devices that layouts are built of, separated by commas.
        loop: Number and size of loop devices that they are built of, such as ``6x2G``.
        loop_dir: Where the files of those lie.

    Raises:
        StudyError: when an option is out of bounds, or there is no one target to give the path.
        UsageError: when options of drives do not go together.
    """
    workloads = [
        each.with_options(seconds, buffered=buffered, full=full) for each in study.workloads
    ]
    budget_time_s = budget_s if budget_s is not None else None if full else study.budget.time_s
    write_bytes = study.budget.write_bytes
    if write_budget is not None:
        write_bytes = _size(write_budget, "--write-budget")
    size_bytes = None if size is None else _size(size, "--size")
    changes: dict[str, Any] = {
        "workloads": workloads,
        "targets": _sized(placed(study, target_path, target_paths), size_bytes),
        "layouts": sized_layouts(study.layouts, size_bytes),
        "drives": given_drives(study.drives, devices, loop, loop_dir),
        "budget": Budget(time_s=budget_time_s, write_bytes=write_bytes),
    }
    if rounds is not None:
        changes["rounds"] = Rounds(
            min=rounds, max=rounds, precision=study.rounds.precision, remeasure=0
        )
    if seed is not None:
        changes["seed"] = seed
    return recheck(msgspec.structs.replace(study, **changes))


def _sized(targets: list[Target], size_bytes: Size | None) -> list[Target]:
    """Return the targets with a size put in place; an existing server has none."""
    if size_bytes is None:
        return targets
    return [
        target
        if target.kind == "database" or is_server_address(target.path)
        else msgspec.structs.replace(target, size_bytes=size_bytes)
        for target in targets
    ]


def _size(written: WrittenSize, option: str) -> Size:
    """Return the size of an option; raises StudyError when invalid."""
    try:
        return Size(parse_size_bytes(written))
    except ValueError as error:
        raise StudyError(
            seen=f"{option}: {error}",
            cause="Sizes are bytes, or a number with KiB, MiB, GiB or TiB",
            next_step=f"Give a size such as {option} 4GiB",
        ) from error
