"""Trimming a block device: telling it that what it holds is no longer needed."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from typing import Final

from seatrial.errors import TargetError
from seatrial.machine.guard import Permit

# Source: include/uapi/linux/fs.h.
_BLKDISCARD: Final = 0x1277
_NOT_SUPPORTED: Final = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOTTY)


def discard(permit: Permit, length_bytes: int) -> bool:
    """Trim a block device from its start, past its file systems and partitions.

    Args:
        permit: Leave to write to it, still open.
        length_bytes: How much of it; whole logical blocks.

    Returns:
        Whether it was trimmed; False where the device does not know how.

    Raises:
        TargetError: when the device refuses or fails.
    """
    try:
        descriptor = os.open(permit.safe_path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            permit.verify(descriptor)
            fcntl.ioctl(descriptor, _BLKDISCARD, struct.pack("=QQ", 0, length_bytes))
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno in _NOT_SUPPORTED:
            return False
        raise TargetError(
            seen=f"{permit.path} could not be trimmed: {error.strerror}",
            cause="The device failed, or forbids it as it is locked or read-only",
            next_step="Look at the kernel's log with `dmesg`, or go on without with --no-discard",
        ) from None
    return True
