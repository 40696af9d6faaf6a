"""Whether a file system supports O_DIRECT, and with which alignment.

The kernel (STATX_DIOALIGN) and the device (its logical block size) are queried, and a real aligned
write and read are tried; the strictest result counts. A file system that reports nothing may accept
an unaligned request and serve it through the page cache, as btrfs does: there its own block size
counts too.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import struct
from pathlib import Path
from typing import Final

from seatrial.descriptor import closing
from seatrial.errors import AlignmentError, DirectError, TargetError
from seatrial.machine.fingerprint.medium import number_text
from seatrial.machine.fingerprint.mounts import mount_of
from seatrial.machine.fingerprint.tree import LIVE
from seatrial.machine.sysblock import node_by_number

_ALIGNMENTS_BYTES: Final = (512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)
_PROBE_NAME: Final = "direct-probe"

# Source: statx(2) and include/uapi/linux/stat.h.
_AT_EMPTY_PATH: Final = 0x1000
_STATX_DIOALIGN: Final = 0x2000
_STATX_BYTES: Final = 256
_DIO_ALIGN_OFFSET_BYTES: Final = 152


def direct_alignment(folder: Path) -> int:
    """Return the smallest block (bytes) that O_DIRECT accepts in a folder, by a probe file.

    Raises:
        DirectError: when the file system does not support O_DIRECT.
        TargetError: when the probe fails for another reason.
    """
    probe = folder / _PROBE_NAME
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_DIRECT | os.O_CLOEXEC | os.O_NOFOLLOW
    # Left by a killed run, or a link to another file: only the name is removed.
    probe.unlink(missing_ok=True)
    try:
        descriptor = os.open(probe, flags, 0o600)
    except OSError as error:
        probe.unlink(missing_ok=True)
        if error.errno == errno.EINVAL:
            raise _no_direct(folder) from None
        raise _probe_failed(folder, error) from None
    try:
        return max(_probed(descriptor, folder), _stated(descriptor, folder))
    finally:
        os.close(descriptor)
        probe.unlink(missing_ok=True)


def kernel_alignment(descriptor: int) -> int | None:
    """Return the offset alignment (bytes) by statx; 0 for no O_DIRECT, None if unknown."""
    buffer = ctypes.create_string_buffer(_STATX_BYTES)
    try:
        statx = ctypes.CDLL(None, use_errno=True).statx
    except (OSError, AttributeError):
        return None
    if statx(descriptor, b"", _AT_EMPTY_PATH, _STATX_DIOALIGN, buffer) != 0:
        return None
    (mask,) = struct.unpack_from("=I", buffer, 0)
    if not mask & _STATX_DIOALIGN:
        return None
    _memory_bytes, offset_bytes = struct.unpack_from("=II", buffer, _DIO_ALIGN_OFFSET_BYTES)
    return int(offset_bytes)


def require_multiple(what: str, size_bytes: int, block_bytes: int) -> None:
    """Check that a size or offset is a whole number of logical blocks.

    Args:
        what: Its name in a sentence, such as ``The block size``.
        size_bytes: The size or offset.
        block_bytes: The logical block of the target.

    Raises:
        AlignmentError: when it is not, with the nearest sizes that are.
    """
    if size_bytes % block_bytes == 0:
        return
    above = (size_bytes // block_bytes + 1) * block_bytes
    below = above - block_bytes
    nearest = f"{below} or {above}" if below else f"{above}"
    raise AlignmentError(
        seen=f"{what} is {size_bytes} bytes, not a multiple of the target's logical block size "
        f"of {block_bytes} bytes",
        cause="O_DIRECT transfers whole blocks only",
        next_step=f"Use {nearest} bytes, or measure through the page cache with --buffered",
    )


def _stated(descriptor: int, folder: Path) -> int:
    """Return the strictest alignment (bytes) reported by kernel, device and file system."""
    alignment = kernel_alignment(descriptor)
    if alignment == 0:
        raise _no_direct(folder)
    status = os.fstat(descriptor)
    disk = node_by_number(number_text(status.st_dev)).disk()
    logical_bytes = LIVE.integer(f"{disk.directory}/queue/logical_block_size") or 0
    mount = mount_of(LIVE, str(folder))
    block_bytes = 0
    if alignment is None and mount is not None and mount.kind == "btrfs":
        block_bytes = os.fstatvfs(descriptor).f_bsize
    return max(alignment or 0, logical_bytes, block_bytes)


def _probed(descriptor: int, folder: Path) -> int:
    """Return the smallest alignment (bytes) at which written data is read back intact."""
    largest_bytes = _ALIGNMENTS_BYTES[-1]
    # Anonymous memory is page-aligned, which satisfies any memory alignment of O_DIRECT.
    sent, got = (memoryview(mmap.mmap(-1, largest_bytes)) for _ in range(2))
    sent[:] = os.urandom(largest_bytes)
    for align_bytes in _ALIGNMENTS_BYTES:
        if _comes_back(descriptor, sent[:align_bytes], got[:align_bytes], folder):
            return align_bytes
    raise _no_direct(folder)


def _comes_back(descriptor: int, sent: memoryview, got: memoryview, folder: Path) -> bool:
    """Write one block after the position of another and read it back; False on EINVAL."""
    offset_bytes = len(sent)
    try:
        written = os.pwrite(descriptor, sent, offset_bytes)
        read = os.preadv(descriptor, [got], offset_bytes)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return False
        raise _probe_failed(folder, error) from None
    return written == read == len(sent) and sent == got


def _no_direct(folder: Path) -> DirectError:
    mount = mount_of(LIVE, str(folder))
    kind = f"the {mount.kind} file system on {mount.point}" if mount else "its file system"
    return DirectError(
        seen=f"{folder.parent} cannot be measured with direct I/O: {kind} does not support "
        "O_DIRECT",
        cause="Without O_DIRECT the page cache is measured, not the storage",
        next_step="Specify a directory on ext4, xfs or btrfs, or measure through the page cache "
        "with --buffered",
    )


def _probe_failed(folder: Path, error: OSError) -> TargetError:
    return TargetError(
        seen=f"A test write of one block in {folder.parent} failed: {error.strerror}",
        cause="The file system is full or over its quota, or its device is failing",
        next_step="Check `df -h` and the end of `dmesg`, then retry",
    )


def read_direct(device: str, offset_bytes: int, length_bytes: int) -> bytes:
    """Return bytes of a device; fewer at its end.

    Args:
        device: Its path.
        offset_bytes: Offset and length are whole logical blocks of the device.
        length_bytes: How many.

    Raises:
        OSError: when it cannot be opened, or does not answer.
    """
    flags = os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC
    # Anonymous memory is page-aligned, as O_DIRECT requires.
    with closing(os.open(device, flags)) as descriptor, mmap.mmap(-1, length_bytes) as buffer:
        return buffer[: os.preadv(descriptor, [buffer], offset_bytes)]
