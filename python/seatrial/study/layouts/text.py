"""Layouts in words: what a variant is, and what it is built of."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from seatrial.study.layouts.drives import DriveInfo, parse_drives
from seatrial.study.layouts.layout import FILESYSTEMS, Drives, LayoutSpec
from seatrial.study.units import format_size


def layout_text(spec: LayoutSpec) -> str:
    """Return what a variant is: ``md raid5 of 4 drives + 1 spare, chunk 128 KiB, xfs``."""
    return ", ".join(layout_parts(spec))


def layout_parts(spec: LayoutSpec) -> list[str]:
    """Return the same in parts: the array first, then each of its properties."""
    return [_array(spec), *_properties(spec)]


def drives_text(drives: Drives, infos: Sequence[DriveInfo]) -> str:
    """Return what layouts are built of, as a phrase.

    Args:
        drives: What the study or the command line says.
        infos: The drives of the plan: as many as are needed where none are named.
    """
    if drives.loop:
        count, size_bytes = parse_drives(drives.loop)
        folder = drives.folder or "the current folder"
        return f"{count} loop devices of {format_size(size_bytes)}, their files in {folder}"
    if drives.lab:
        count, size_bytes = parse_drives(drives.lab)
        return f"{count} disks of {format_size(size_bytes)} in the lab (`seatrial lab`)"
    if drives.devices:
        return ", ".join(_drive(info) for info in infos)
    return (
        f"{len(infos)} are needed, given when it runs with --devices A,B,... or "
        f"--loop {len(infos)}x2G, or made by `seatrial lab`"
    )


def _drive(info: DriveInfo) -> str:
    size = f" ({format_size(info.size_bytes)})" if info.size_bytes else ""
    return f"{info.name}{size}"


def _array(spec: LayoutSpec) -> str:
    leg = f"{spec.level} of {_counted(spec.drives, 'drive')}"
    if spec.spares:
        leg += f" + {_counted(spec.spares, 'spare')}"
    if spec.is_striped:
        return f"{spec.backend} stripe over {spec.legs} legs, each {leg}"
    if spec.expose == "legs":
        return f"{spec.legs} legs side by side, each {spec.backend} {leg}"
    return f"{spec.backend} {leg}" if spec.backend != "single" else "a single drive"


def _properties(spec: LayoutSpec) -> Iterator[str]:
    if spec.drives > 1 and spec.backend not in FILESYSTEMS:
        yield f"chunk {spec.chunk_kib} KiB"
    if spec.is_striped and spec.stripe_kib != spec.chunk_kib:
        yield f"stripe {spec.stripe_kib} KiB"
    for count, what in ((spec.logs, "log drive"), (spec.caches, "cache drive")):
        if count:
            yield _counted(count, what)
    if spec.filesystem == "none":
        yield "no file system"
    elif spec.filesystem != spec.backend:
        yield spec.filesystem
    if spec.read_ahead_kib is not None:
        yield f"read-ahead {spec.read_ahead_kib} KiB"
    if spec.scheduler:
        yield f"scheduler {spec.scheduler}"
    if spec.member_bytes is not None:
        yield f"{format_size(spec.member_bytes)} of each drive"
    if not spec.initial_sync:
        yield "not synchronised first"
    if spec.flaky:
        yield "sectors can be made to fail"
    delays = [f"{delay_ms:g}" for delay_ms, _ in itertools.groupby(spec.delay_ms)]
    if delays:
        yield f"each request delayed by {', '.join(delays)} ms"


def _counted(count: int, what: str) -> str:
    return f"1 {what}" if count == 1 else f"{count} {what}s"
