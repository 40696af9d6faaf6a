"""What layouts are built of, as the command line says it."""

from __future__ import annotations

import msgspec

from seatrial.errors import UsageError
from seatrial.study.layouts.layout import Drives, Layout
from seatrial.study.values import Size


def given_drives(drives: Drives, devices: str = "", loop: str = "", folder: str = "") -> Drives:
    """Return the drives of a study with those of the command line put in their place.

    Args:
        drives: What the study says.
        devices: Block devices, separated by commas; empty for none.
        loop: Number and size of loop devices, such as ``6x2G``; empty for none.
        folder: Where the files of loop devices lie; empty for where the study says.

    Raises:
        UsageError: when both kinds are given, or a folder without loop devices.
    """
    if devices and loop:
        raise UsageError(
            seen="Both --devices and --loop are given",
            cause="Layouts are built of the ones or of the others",
            next_step="Give one of the two",
        )
    given = drives
    if devices:
        named = [name.strip() for name in devices.split(",")]
        given = Drives(devices=[name for name in named if name])
    if loop:
        given = Drives(loop=loop, folder=drives.folder)
    if folder and not given.loop:
        raise UsageError(
            seen=f"--loop-dir names {folder}, but there are no loop devices",
            cause="It says where the files of loop devices lie",
            next_step="Give their number and size as well, such as --loop 6x2G",
        )
    return msgspec.structs.replace(given, folder=folder) if folder else given


def sized_layouts(layouts: list[Layout], size_bytes: Size | None) -> list[Layout]:
    """Return layouts with another size of their trial files; the same where there is none."""
    if size_bytes is None:
        return layouts
    return [msgspec.structs.replace(layout, size_bytes=size_bytes) for layout in layouts]
