"""Writes tables as Parquet files, a row group at a time, through pyarrow."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from seatrial.errors import UsageError
from seatrial.report.exports.json_document import in_utf8
from seatrial.report.exports.parquet.rows import rows_of
from seatrial.report.exports.parquet.tables import TABLES, Column, Row, columns_of

if TYPE_CHECKING:
    from seatrial.results.model import Run, Sample

ROWS_A_GROUP: Final = 1 << 16
"""So many rows of a table are held in memory at most, and form a row group."""
MARK: Final = "seatrial_table"
"""Key in the metadata of each file; its value is the name of the table."""
_MAGIC: Final = b"PAR1"
_FOOTER_BYTES_MAX: Final = 1 << 24


def require_pyarrow() -> None:
    """Check that Parquet can be written.

    Raises:
        UsageError: The package is not installed.
    """
    if importlib.util.find_spec("pyarrow") is None:
        raise UsageError(
            seen="pyarrow is not installed, which `seatrial export --format parquet` needs",
            cause="It is an optional extra of Seatrial",
            next_step="Install it with `pip install 'seatrial[parquet]'`, or export one run with "
            "--format csv or json",
        )


def is_table(path: Path) -> bool:
    """Return whether a file is a table that Seatrial wrote.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        size_bytes = file.seek(0, os.SEEK_END)
        file.seek(max(0, size_bytes - 8))
        length, magic = file.read(4), file.read(4)
        footer_bytes = int.from_bytes(length, "little")
        if magic != _MAGIC or footer_bytes > min(size_bytes, _FOOTER_BYTES_MAX):
            return False
        file.seek(max(0, size_bytes - 8 - footer_bytes))
        return MARK.encode() in file.read(footer_bytes)


def write_tables(
    measured: Iterable[tuple[Run, list[Sample]]], places: Mapping[str, Path]
) -> dict[str, int]:
    """Write the tables of runs; return the number of rows of each.

    Each file appears under its name when all are complete, and none if anything fails. Memory is
    bounded by the largest run and by :data:`ROWS_A_GROUP` rows of each table.

    Args:
        measured: Runs with their samples, one at a time.
        places: The file of each table to be written, by the name of the table.

    Raises:
        OSError: A file cannot be written.
    """
    with ExitStack() as stack:
        written = {name: stack.enter_context(_table(name, place)) for name, place in places.items()}
        for run, samples in measured:
            for name, rows in rows_of(run, samples, places.keys()):
                for row in rows:
                    written[name].add(row)
        for table in written.values():
            table.finish()
        for table in written.values():
            table.part.replace(table.place)
    return {name: table.rows_count for name, table in written.items()}


@contextmanager
def _table(name: str, place: Path) -> Iterator[_Table]:
    part = place.with_name(f".seatrial-{os.urandom(8).hex()}.part")
    try:
        yield _Table(name, place, part)
    finally:
        part.unlink(missing_ok=True)


class _Table:
    """One file while it is written."""

    def __init__(self, name: str, place: Path, part: Path) -> None:
        import pyarrow as pa  # noqa: PLC0415 - optional, and slow to load
        from pyarrow import parquet  # noqa: PLC0415

        self.place = place
        self.part = part
        self.rows_count = 0
        self._columns = columns_of(TABLES[name])
        self._rows: list[Row] = []
        self._schema = pa.schema(
            [pa.field(each.name, _type(each), each.is_optional) for each in self._columns],
            metadata={MARK: name},
        )
        self._writer = parquet.ParquetWriter(part, self._schema, compression="zstd")

    def add(self, row: Row) -> None:
        """Add a row."""
        self._rows.append(row)
        if len(self._rows) >= ROWS_A_GROUP:
            self._write_group()

    def finish(self) -> None:
        """Write the rest and the footer, to disk."""
        if self._rows:
            self._write_group()
        self._writer.close()
        with self.part.open("rb") as file:
            os.fsync(file.fileno())

    def _write_group(self) -> None:
        import pyarrow as pa  # noqa: PLC0415

        arrays = [
            pa.array(_values(column, self._rows), field.type)
            for column, field in zip(self._columns, self._schema, strict=True)
        ]
        self._writer.write_batch(pa.record_batch(arrays, schema=self._schema))
        self.rows_count += len(self._rows)
        self._rows.clear()


def _type(column: Column) -> Any:  # noqa: ANN401 - pyarrow has no types
    import pyarrow as pa  # noqa: PLC0415

    types = {
        "text": pa.string(),
        "integer": pa.int64(),
        "real": pa.float64(),
        "boolean": pa.bool_(),
        "moment": pa.timestamp("us", tz="UTC"),
    }
    return types[column.type]


def _values(column: Column, rows: list[Row]) -> list[Any]:
    values = [getattr(row, column.name) for row in rows]
    if column.type == "moment":
        return [None if value is None else round(value * 1e6) for value in values]
    if column.type == "text":
        return [None if value is None else in_utf8(value) for value in values]
    return values
