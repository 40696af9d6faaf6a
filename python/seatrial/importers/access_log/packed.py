"""Files as they are or packed, as whoever rotates logs leaves them."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from seatrial.errors import UsageError
from seatrial.importers.unreadable import unreadable

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


@dataclass(frozen=True)
class _Packer:
    """What packs files: how it is known, and what undoes it."""

    program: str
    magic: bytes
    unpack: Callable[[BinaryIO], Any]


_PACKERS: Final = (
    _Packer("gzip", b"\x1f\x8b", lambda file: gzip.GzipFile(fileobj=file)),
    _Packer("zstd", b"\x28\xb5\x2f\xfd", zstd.ZstdFile),
)
_MAGIC_BYTES: Final = max(len(each.magic) for each in _PACKERS)
_DAMAGED: Final = (EOFError, gzip.BadGzipFile, zlib.error, zstd.ZstdError)


def open_unpacked(path: Path) -> BinaryIO:
    """Open a file, unpacked if need be: gzip and zstd are known by their first bytes.

    Raises:
        UsageError: when it cannot be opened.
    """
    try:
        file = path.open("rb")
        packer = _packer(file.read(_MAGIC_BYTES))
        file.seek(0)
    except OSError as error:
        raise unreadable(path, error) from None
    return packer.unpack(file) if packer else file


@contextmanager
def reporting_damage(path: Path) -> Iterator[None]:
    """Turn what is said of a damaged file, while it is unpacked, into our words.

    Raises:
        UsageError: when it is damaged.
    """
    try:
        yield
    except _DAMAGED as error:
        with path.open("rb") as file:
            packer = _packer(file.read(_MAGIC_BYTES))
        program = packer.program if packer else "file"
        raise UsageError(
            seen=f"{path} cannot be unpacked: {error}",
            cause="The file was cut off, or is damaged",
            next_step=f"See `{program} -t {path}`, and copy the file again",
        ) from None


def _packer(head: bytes) -> _Packer | None:
    return next((each for each in _PACKERS if head.startswith(each.magic)), None)
