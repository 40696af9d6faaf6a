"""A foreign file as text, and the errors that every reader of one raises."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import Final

import msgspec

from seatrial.errors import UsageError
from seatrial.importers.unreadable import unreadable

FORMATS: Final = (
    "fio JSON or JSON+ (--output-format=json+), fio's bw, iops and latency logs, the printed "
    "tables of bm-flash, pgbench's logs (--log), and CSV with columns such as size, threads and "
    "iops"
)
DOCUMENT_BYTES_MAX: Final = 1 << 30
"""A text larger than 1 GiB is no result of the kinds that are read here."""


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A foreign file.

    Attributes:
        path: Where it lies.
        text: What it holds, without a byte order mark.
        changed_at: Unix time in seconds of its last change.
        digest: Of its bytes, in hexadecimal digits.
    """

    path: Path
    text: str
    changed_at: float
    digest: str

    @property
    def name(self) -> str:
        """The file's name without its folder."""
        return self.path.name


def open_document(path: Path) -> Document:
    """Return a file as text.

    Raises:
        UsageError: It cannot be read, is a device, is empty, is no text in UTF-8, or is larger
            than 1 GiB.
    """
    try:
        status = path.stat()
        _require_text_file(path, status)
        content = _content(path)
    except OSError as error:
        raise unreadable(path, error) from None
    if not content.strip():
        raise UsageError(
            seen=f"{path} is empty",
            cause="The tool that should have written it was stopped, or wrote elsewhere",
            next_step=f"Let it write the file again; what can be read: {FORMATS}",
        )
    return Document(
        path=path,
        text=_text(path, content),
        changed_at=status.st_mtime,
        digest=hashlib.sha256(content).hexdigest(),
    )


def _require_text_file(path: Path, status: os.stat_result) -> None:
    """Raise UsageError for a device, which may have no end, and for what is too large."""
    if stat.S_ISBLK(status.st_mode) or stat.S_ISCHR(status.st_mode):
        raise UsageError(
            seen=f"{path} is a device",
            cause="A result is a text that another tool wrote; a device has yet to be measured",
            next_step=f"Measure it with `seatrial io {path}`, or name the file of a result",
        )
    if status.st_size > DOCUMENT_BYTES_MAX:
        raise _too_large(path)


def _content(path: Path) -> bytes:
    """Return what a file holds; a pipe, too, which does not know its length."""
    with path.open("rb") as file:
        content = file.read(DOCUMENT_BYTES_MAX + 1)
    if len(content) > DOCUMENT_BYTES_MAX:
        raise _too_large(path)
    return content


def _too_large(path: Path) -> UsageError:
    return UsageError(
        seen=f"{path} is larger than 1 GiB",
        cause="No result that can be imported is",
        next_step="Name the result itself, not an image or an archive that holds it",
    )


def _text(path: Path, content: bytes) -> str:
    try:
        if b"\0" not in content:
            return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        pass
    raise UsageError(
        seen=f"{path} is a binary file",
        cause="Results are imported from text in UTF-8; this is compressed, an image, or in UTF-16",
        next_step=f"Unpack or convert it (iconv -t utf-8); what can be read: {FORMATS}",
    )


def unknown_format(document: Document) -> UsageError:
    """Return the error for a text that no reader takes."""
    return UsageError(
        seen=f"{document.path} is in no format that Seatrial reads",
        cause=f"It reads {FORMATS}",
        next_step="Let the tool write one of these; `seatrial import --help` has examples",
    )


def no_number(document: Document, line: int, column: str, written: str, wanted: str) -> UsageError:
    """Return the error for a text where a figure should be.

    Args:
        document: The file.
        line: Number of the line, from 1.
        column: Name of the column, as the file has it.
        written: What stands there.
        wanted: What should, such as ``a number``.
    """
    return UsageError(
        seen=f"{document.path}, line {line}, column {column!r}: {written!r} is not {wanted}",
        cause="The table was edited or cut off, or its columns are not in line",
        next_step="Put the figure right, or leave it empty where nothing was measured",
    )
