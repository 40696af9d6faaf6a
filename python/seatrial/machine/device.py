"""A block device as a target: its size, block sizes and the permit to write to it."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from seatrial.descriptor import closing
from seatrial.errors import TargetError
from seatrial.machine.guard import DeviceState, Permit, inspect, permit_write, unreadable

# Source: include/uapi/linux/fs.h.
_BLKSSZGET: Final = 0x1268
_BLKPBSZGET: Final = 0x127B


@dataclass(frozen=True, kw_only=True)
class Device:
    """A block device that may be measured.

    Attributes:
        path: Its real path.
        state: What it contains and who uses it.
        size_bytes: Its size.
        logical_block_bytes: Smallest block that can be read or written.
        physical_block_bytes: Smallest block that can be written without a read-modify-write.
        permit: Permit to write, claimed until ``close``; None when it is only read.
    """

    path: Path
    state: DeviceState
    size_bytes: int
    logical_block_bytes: int
    physical_block_bytes: int
    permit: Permit | None

    def close(self) -> None:
        """Release the claim, if any."""
        if self.permit is not None:
            self.permit.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


def open_device(path: Path | str, *, destroy: str | None = None, bytes_to_write: int = 0) -> Device:
    """Check a block device and, if anything is to be written, pass the guard.

    Reading (``bytes_to_write`` 0) is allowed on a device in use and without ``destroy``.

    Raises:
        RefusedError: when writing to it is unsafe or was not allowed by its serial number.
        TargetError: when it is not a block device, has no medium or cannot be opened.
    """
    state = inspect(path)
    if state.kind != "block":
        raise TargetError(
            seen=f"{state.path} is a regular file, not a block device",
            cause="A block device is required here",
            next_step="`lsblk` lists the block devices",
        )
    if state.size_bytes == 0:
        raise TargetError(
            seen=f"{state.path} has a size of 0 bytes",
            cause="It has no medium, or it is a loop or zram device that has not been set up",
            next_step="`lsblk` lists the block devices with their sizes",
        )
    permit = None
    if bytes_to_write == 0 and state.denied:
        raise unreadable(state.path, state.denied)
    if bytes_to_write > 0:
        permit = permit_write(path, destroy=destroy, bytes_to_write=bytes_to_write)
    logical_bytes, physical_bytes = _blocks_bytes(state.path)
    return Device(
        path=state.path,
        state=state,
        size_bytes=state.size_bytes,
        logical_block_bytes=logical_bytes,
        physical_block_bytes=physical_bytes,
        permit=permit,
    )


def _blocks_bytes(path: Path) -> tuple[int, int]:
    """Return the logical and the physical block (bytes)."""
    with closing(os.open(path, os.O_RDONLY | os.O_CLOEXEC)) as descriptor:
        logical, physical = (
            struct.unpack("=I", fcntl.ioctl(descriptor, request, bytes(4)))[0]
            for request in (_BLKSSZGET, _BLKPBSZGET)
        )
    return int(logical), int(physical)


# Source: include/uapi/linux/fs.h.
_BLKDISCARD: Final = 0x1277
_NOT_SUPPORTED: Final = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOTTY)


def discard(permit: Permit, length_bytes: int) -> bool:
    """Trim a block device from its start, including file systems and partitions.

    Args:
        permit: An open permit to write to it.
        length_bytes: How much of it; whole logical blocks.

    Returns:
        Whether it was trimmed; False where the device does not support it.

    Raises:
        TargetError: when the device refuses or fails.
    """
    try:
        with closing(os.open(permit.safe_path, os.O_WRONLY | os.O_CLOEXEC)) as descriptor:
            permit.verify(descriptor)
            fcntl.ioctl(descriptor, _BLKDISCARD, struct.pack("=QQ", 0, length_bytes))
    except OSError as error:
        if error.errno in _NOT_SUPPORTED:
            return False
        raise TargetError(
            seen=f"{permit.path} could not be trimmed: {error.strerror}",
            cause="The device failed, is locked or is read-only",
            next_step="Check `dmesg`, or continue without trimming with --no-discard",
        ) from None
    return True
