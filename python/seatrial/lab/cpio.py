"""Writes the archive from which a kernel starts: files and folders of root.

Source: the kernel's Documentation/driver-api/early-userspace/buffer-format.rst, format "newc".
"""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

_MAGIC: Final = b"070701"
_LAST: Final = "TRAILER!!!"
_ALIGNED_BYTES: Final = 4


def archive(folders: Sequence[str], programs: Mapping[str, bytes]) -> bytes:
    """Return an archive.

    Args:
        folders: Empty folders in it, each after the one that holds it; no name begins with a slash.
        programs: Content of files by name, all of which may be executed.
    """
    entries = [(name, stat.S_IFDIR | 0o755, b"") for name in folders]
    entries += [(name, stat.S_IFREG | 0o755, content) for name, content in programs.items()]
    entries.append((_LAST, 0, b""))
    return b"".join(
        part
        for inode, (name, mode, content) in enumerate(entries, start=1)
        for part in _entry(inode, name, mode, content)
    )


def _entry(inode: int, name: str, mode: int, content: bytes) -> Iterator[bytes]:
    raw_name = name.encode() + b"\0"
    # inode, mode, uid, gid, links, time, size, device (2), special device (2), length, checksum
    fields = (inode, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(raw_name), 0)
    yield from _padded(_MAGIC + b"".join(b"%08X" % field for field in fields) + raw_name)
    yield from _padded(content)


def _padded(data: bytes) -> Iterator[bytes]:
    yield data
    yield bytes(-len(data) % _ALIGNED_BYTES)
