"""Converts a study's layouts to the targets of its plan: one per variant, or one per leg."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from seatrial.errors import StudyError
from seatrial.study.layouts.layout import (
    DriveInfo,
    Layout,
    LayoutSpec,
    assigned,
    planned_drives,
    variants,
)
from seatrial.study.layouts.text import layout_text
from seatrial.study.model import PlannedTarget
from seatrial.study.schema import DEFAULT_SIZE_BYTES, Study
from seatrial.study.selection import all_variants
from seatrial.study.units import format_size

USED_SHARE: Final = 0.5
"""Part of an array that is smaller than twice the default trial file, to leave space for the
overhead of a file system."""
_GRANULE_BYTES: Final = 1 << 20

_Variant = tuple[LayoutSpec, Sequence[DriveInfo]]
"""A variant and its drives."""


def layout_targets(study: Study, drives: Sequence[DriveInfo]) -> list[PlannedTarget]:
    """Return the targets that a study's layouts are, in its order.

    Args:
        study: The study.
        drives: What they are built of.

    Raises:
        StudyError: when a variant needs more drives than are available, and is not skipped.
    """
    skipped = {spec.label for layout in study.layouts for spec in _too_large(layout, len(drives))}
    variants = [
        (spec, _used(spec, drives)) for spec in all_variants(study) if spec.label not in skipped
    ]
    usual_bytes = _usual_size_bytes(study, variants)
    return [target for spec, used in variants for target in _targets(spec, used, usual_bytes)]


def notes_on_layouts(study: Study, drives: Sequence[DriveInfo]) -> Iterator[str]:
    """Yield a note for each layout with variants that are skipped for lack of drives."""
    for layout in study.layouts:
        skipped = _too_large(layout, len(drives))
        if not skipped:
            continue
        labels = [spec.label for spec in skipped]
        shown = labels[0] if len(labels) == 1 else f"{labels[0]} to {labels[-1]}"
        yield (
            f"{len(labels)} of {len(list(variants(layout)))} variants of layout {layout.name} "
            f"are skipped ({shown}): they need more than the {len(drives)} available drives"
        )


def _too_large(layout: Layout, count: int) -> list[LayoutSpec]:
    """Return the variants that are skipped with this number of drives."""
    return [spec for spec in variants(layout) if layout.skip_too_large and spec.members > count]


def drives_of(study: Study) -> list[DriveInfo]:
    """Return the drives of a study, in its order; if it names none, as many as it needs."""
    return planned_drives(study.drives) or _unnamed(list(all_variants(study)))


def usable_bytes(spec: LayoutSpec, drives: Sequence[DriveInfo]) -> int | None:
    """Return the capacity of a variant by its level; None if a drive's size is unknown.

    A leg that is a separate target has its share of the capacity.
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
            cause=f"The layout is {layout_text(spec)}",
            next_step=f"Provide {spec.members} drives (--devices, --loop {spec.members}x2G, or "
            f"in the lab --disks {spec.members}x256M), use fewer drives in the layout, or "
            "set skip_too_large = true to skip variants that need more",
        ) from None


def _usual_size_bytes(study: Study, variants: Sequence[_Variant]) -> int:
    """Return the default length of trial files, the same for all layouts.

    It fits the smallest layout, including a copy if the study makes one, so that layouts differ in
    nothing else.
    """
    copied_share = max((each.copied_share for each in study.workloads), default=0)
    holds = [usable_bytes(spec, used) for spec, used in variants if spec.size_bytes is None]
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
    """Return a variant without a size limit on drives that exceeds the size of the drives."""
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
        seen=f"The study uses {format_size(spec.size_bytes)} of layout {spec.label!r}, which has "
        f"a capacity of at most {format_size(holds_bytes)}",
        cause="'size' of the layout is larger than its drives and level allow",
        next_step="Use a smaller size, or larger drives",
    )
