"""From a study's layouts to the targets of its plan: one a variant, or one a leg."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from seatrial.errors import StudyError
from seatrial.study.layouts.drives import DriveInfo, planned_drives
from seatrial.study.layouts.layout import Layout, LayoutSpec, assigned, variants
from seatrial.study.layouts.text import layout_text
from seatrial.study.model import PlannedTarget
from seatrial.study.schema import DEFAULT_SIZE_BYTES, Study
from seatrial.study.selection import all_variants
from seatrial.study.units import format_size

USED_SHARE: Final = 0.5
"""Of an array that is smaller than twice the usual trial file, so that a file system and what it
keeps for itself fit beside the file."""
_GRANULE_BYTES: Final = 1 << 20

_Placed = tuple[LayoutSpec, Sequence[DriveInfo]]
"""A variant and its drives."""


def layout_targets(study: Study, drives: Sequence[DriveInfo]) -> list[PlannedTarget]:
    """Return the targets that a study's layouts are, in its order.

    Args:
        study: The study.
        drives: What they are built of.

    Raises:
        StudyError: when a variant needs more drives than there are, and is not left out then.
    """
    skipped = {spec.label for layout in study.layouts for spec in _too_large(layout, len(drives))}
    placed = [
        (spec, _used(spec, drives)) for spec in all_variants(study) if spec.label not in skipped
    ]
    usual_bytes = _usual_size_bytes(study, placed)
    return [target for spec, used in placed for target in _targets(spec, used, usual_bytes)]


def notes_on_layouts(study: Study, drives: Sequence[DriveInfo]) -> Iterator[str]:
    """Yield a sentence on each layout of which variants are left out for want of drives."""
    for layout in study.layouts:
        skipped = _too_large(layout, len(drives))
        if not skipped:
            continue
        labels = [spec.label for spec in skipped]
        shown = labels[0] if len(labels) == 1 else f"{labels[0]} to {labels[-1]}"
        yield (
            f"{len(labels)} of {len(list(variants(layout)))} variants of layout {layout.name} are "
            f"left out ({shown}), for they need more than the {len(drives)} drives that there are"
        )


def _too_large(layout: Layout, count: int) -> list[LayoutSpec]:
    """Return the variants that are left out where there are so many drives."""
    return [spec for spec in variants(layout) if layout.skip_too_large and spec.members > count]


def drives_of(study: Study, known: Mapping[str, DriveInfo] | None = None) -> list[DriveInfo]:
    """Return the drives of a study, in its order; where it names none, as many as it needs.

    Args:
        study: The study.
        known: What is known of its devices, by path.
    """
    return planned_drives(study.drives, known) or _unnamed(list(all_variants(study)))


def usable_bytes(spec: LayoutSpec, drives: Sequence[DriveInfo]) -> int | None:
    """Return what a variant holds at most, by its level; None where a drive's size is unknown.

    A leg that is a target of its own holds its share.
    """
    sizes_bytes = [drive.size_bytes for drive in drives]
    known = [size for size in sizes_bytes if size is not None]
    if not known or len(known) < len(sizes_bytes):
        return None
    member_bytes = min(*known, spec.member_bytes or known[0])
    share = spec.legs if spec.expose == "legs" else 1
    return int(member_bytes * spec.data_members / share)


def _unnamed(specs: Sequence[LayoutSpec]) -> list[DriveInfo]:
    count = max((spec.members for spec in specs), default=0)
    return [DriveInfo(name=f"DRIVE{number}") for number in range(1, count + 1)]


def _used(spec: LayoutSpec, drives: Sequence[DriveInfo]) -> list[DriveInfo]:
    """Return the drives of a variant; raises StudyError when there are too few."""
    by_name = {drive.name: drive for drive in drives}
    try:
        return [by_name[name] for name in assigned(spec, list(by_name)).used]
    except ValueError as error:
        raise StudyError(
            seen=f"Layout {error}",
            cause=f"It is {layout_text(spec)}",
            next_step=f"Give {spec.members} drives (--devices, --loop {spec.members}x2G, or in the "
            f"lab --disks {spec.members}x256M), fewer to the layout, or skip_too_large = true to "
            "leave out what there are too few for",
        ) from None


def _usual_size_bytes(study: Study, placed: Sequence[_Placed]) -> int:
    """Return the length of the trial file where a layout gives none: the same for all of them.

    So that layouts differ in nothing else, it fits the smallest, with a copy beside it where the
    study makes one.
    """
    copied_share = max((each.copied_share for each in study.workloads), default=0)
    holds = [usable_bytes(spec, used) for spec, used in placed if spec.size_bytes is None]
    least_bytes = min((size for size in holds if size is not None), default=None)
    if least_bytes is None:
        return DEFAULT_SIZE_BYTES
    file_bytes = int(least_bytes * USED_SHARE / (1 + copied_share))
    whole_bytes = max(file_bytes // _GRANULE_BYTES, 1) * _GRANULE_BYTES
    return min(DEFAULT_SIZE_BYTES, whole_bytes)


def _targets(
    spec: LayoutSpec, used: Sequence[DriveInfo], usual_bytes: int
) -> Iterator[PlannedTarget]:
    whole = _target(_fitted(spec, used), used, usual_bytes)
    if spec.expose != "legs":
        yield whole
        return
    for leg, label in enumerate(spec.target_labels, start=1):
        yield msgspec.structs.replace(whole, label=label, leg=leg)


def _fitted(spec: LayoutSpec, used: Sequence[DriveInfo]) -> LayoutSpec:
    """Return a variant without a bound on its drives' size that the drives do not reach."""
    smallest_bytes = min((drive.size_bytes for drive in used if drive.size_bytes), default=None)
    if smallest_bytes is None or spec.member_bytes is None or smallest_bytes > spec.member_bytes:
        return spec
    return msgspec.structs.replace(spec, member_bytes=None)


def _target(spec: LayoutSpec, used: Sequence[DriveInfo], usual_bytes: int) -> PlannedTarget:
    holds_bytes = usable_bytes(spec, used)
    if holds_bytes is not None:
        _check_size(spec, holds_bytes)
    sizes = [drive.size_bytes for drive in used]
    return PlannedTarget(
        label=spec.label,
        kind="device" if spec.filesystem == "none" else "directory",
        path="",
        size_bytes=spec.size_bytes or usual_bytes,
        drive_bytes=sum(size or 0 for size in sizes) if all(sizes) else None,
        logical_block_bytes=max((drive.logical_block_bytes for drive in used), default=512),
        direct=True,
        layout=spec,
    )


def _check_size(spec: LayoutSpec, holds_bytes: int) -> None:
    if spec.size_bytes is None or spec.size_bytes <= holds_bytes:
        return
    raise StudyError(
        seen=f"The study uses {format_size(spec.size_bytes)} of layout {spec.label!r}, which holds "
        f"{format_size(holds_bytes)} at most",
        cause="'size' of the layout is larger than its drives and level allow",
        next_step="Give a smaller size, or larger drives",
    )
