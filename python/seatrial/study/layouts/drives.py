"""What layouts are built of: devices that are there, or ones that are made for the trial."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from seatrial.errors import StudyError
from seatrial.published import Count, Positive
from seatrial.study.layouts.layout import Drives
from seatrial.study.units import parse_size_bytes

COUNT_MAX: Final = 64
_WRITTEN: Final = re.compile(r"(?P<count>[0-9]{1,3})x(?P<size>.+)")


class DriveInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one drive before a plan is made.

    Attributes:
        name: Its path; of one that is still to be made ``loop1``, ``disk1``, and of one that
            nobody has named ``DRIVE1``.
        size_bytes: None where it is not known.
        logical_block_bytes: What O_DIRECT requests must be a multiple of.
    """

    name: str
    size_bytes: Count | None = None
    logical_block_bytes: Positive = 512


def planned_drives(drives: Drives, known: Mapping[str, DriveInfo] | None = None) -> list[DriveInfo]:
    """Return the drives of a study, in its order; none where it names none.

    Args:
        drives: What the study or the command line says.
        known: What is known of the devices, by path.

    Raises:
        StudyError: when a number and size such as ``6x2G`` is malformed.
    """
    if drives.loop:
        return _to_be_made("loop", drives.loop)
    if drives.lab:
        return _to_be_made("disk", drives.lab)
    return [(known or {}).get(path, DriveInfo(name=path)) for path in drives.devices]


def parse_drives(written: str) -> tuple[int, int]:
    """Return number and size (bytes) of what is written as ``6x2G``.

    Raises:
        StudyError: when it is malformed.
    """
    match = _WRITTEN.fullmatch(written.strip())
    if match is None:
        raise _not_understood(written, "it is no number and size")
    count = int(match["count"])
    if not 1 <= count <= COUNT_MAX:
        raise _not_understood(written, f"there may be 1 to {COUNT_MAX} of them")
    try:
        return count, parse_size_bytes(match["size"])
    except ValueError as error:
        raise _not_understood(written, str(error)) from None


def _not_understood(written: str, why: str) -> StudyError:
    return StudyError(
        seen=f"The drives {written!r} are not understood: {why}",
        cause="Drives that are made for the trial are given by number and size",
        next_step="Write for instance 6x2G: six of 2 GiB each",
    )


def _to_be_made(name: str, written: str) -> list[DriveInfo]:
    count, size_bytes = parse_drives(written)
    return [
        DriveInfo(name=f"{name}{number}", size_bytes=size_bytes) for number in range(1, count + 1)
    ]
