"""A file of what the rows of a database are: written once, held against other databases later."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any, Final

import msgspec

from seatrial.errors import UsageError
from seatrial.postgres.row_content import Content, ContentColumn, TableContent

SUFFIX: Final = ".rows"
"""Behind the name of a trace: the rows that the captured database held at its end."""
VERSION: Final = 1
_HEAD: Final = "head"


class _Table(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    columns: list[ContentColumn]
    id_column: str
    words: list[int]
    fields: list[str]
    count: int


class _Head(msgspec.Struct, frozen=True, kw_only=True):
    """What the file says of itself; the rows stand behind it, by number of table and field."""

    version: int
    taken_at: float
    database: str
    server: str
    unread: dict[str, str]
    tables: list[_Table]


def packed(content: Content) -> bytes:
    """Return what such a file holds."""
    import numpy as np  # noqa: PLC0415 - heavy

    tables = [
        _Table(
            name=table.name,
            columns=table.columns,
            id_column=table.id_column,
            words=table.words,
            fields=[*table.fields],
            count=table.count,
        )
        for table in content.tables.values()
    ]
    head = _Head(
        version=VERSION,
        taken_at=content.taken_at,
        database=content.database,
        server=content.server,
        unread=content.unread,
        tables=tables,
    )
    arrays: dict[str, Any] = {
        _HEAD: np.frombuffer(msgspec.json.encode(head), dtype=np.uint8),
        **{
            f"{number}-{place}": field
            for number, table in enumerate(content.tables.values())
            for place, field in enumerate(table.fields.values())
        },
    }
    held = io.BytesIO()
    np.savez_compressed(held, **arrays)
    return held.getvalue()


def is_content(path: Path) -> bool:
    """Tell whether a file is such a one.

    Raises:
        OSError: when it cannot be read.
    """
    try:
        with zipfile.ZipFile(path) as held:
            return f"{_HEAD}.npy" in held.namelist()
    except zipfile.BadZipFile:
        return False


def load_content(path: Path) -> Content:
    """Read a file.

    Raises:
        UsageError: when it is invalid, or cannot be read.
    """
    import numpy as np  # noqa: PLC0415 - heavy

    try:
        with np.load(path, allow_pickle=False) as held:
            head = msgspec.json.decode(held[_HEAD].tobytes(), type=_Head)
            if head.version != VERSION:
                raise _unread(path, f"it is of version {head.version}")
            tables = {
                table.name: TableContent(
                    name=table.name,
                    columns=table.columns,
                    id_column=table.id_column,
                    words=table.words,
                    count=table.count,
                    fields={
                        field: held[f"{number}-{place}"] for place, field in enumerate(table.fields)
                    },
                )
                for number, table in enumerate(head.tables)
            }
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise _unread(path, str(error)) from None
    return Content(
        tables=tables,
        unread=head.unread,
        taken_at=head.taken_at,
        database=head.database,
        server=head.server,
    )


def _unread(path: Path, why: str) -> UsageError:
    return UsageError(
        seen=f"{path} holds no rows that can be compared: {why}",
        cause="It is another file, was cut short, or is of another version of Seatrial",
        next_step=f"Read them anew: seatrial sql rows postgresql://SERVER/DATABASE -o {path}",
    )
