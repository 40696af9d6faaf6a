"""Tables as CSV: a row for each cell, or a matrix of block sizes by threads.

A row for each cell: columns are recognised by their headings (importers/own_csv.py), in any order,
separated by commas, semicolons or tabs. An unknown text column becomes a factor; an unknown numeric
column too if it distinguishes rows that would otherwise be the same cell; else it is ignored with a
note. A row without a rate is a blank cell, and so is a missing row of a grid. Rows of the same cell
are its rounds.

A matrix: the heading has numbers of threads, each further line begins with its block size, as in
ORION and spreadsheets; the values are IOPS.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import product
from typing import Final

import msgspec

from seatrial.errors import UsageError
from seatrial.importers import own_csv
from seatrial.importers.decimal_marks import decimal_mark, is_ambiguous, plain_number
from seatrial.importers.document import (
    FIGURE_MIN,
    Document,
    Draft,
    Imported,
    assumed,
    factor_value,
    imported,
    no_number,
    reported_operation,
    whole_requests,
)
from seatrial.importers.own_csv import Column, column_of, is_measure, names_rounds, names_test
from seatrial.results.model import BlankCell, Origin
from seatrial.study.cell import FactorValue
from seatrial.study.units import parse_size_bytes

DELIMITERS: Final = ",;\t"
RATE_PER_S_MAX: Final = 1e15
WORKLOAD: Final = "matrix"
OPERATIONS: Final = {
    "read": "read",
    "r": "read",
    "write": "write",
    "w": "write",
    "mixed": "mixed",
    "readwrite": "mixed",
    "rw": "mixed",
}
GRID_SHARE_MIN: Final = 0.75
"""A table is a grid if at least this share of all sizes and threads has a row."""
UNLIKE: Final = 2.0
"""IOPS and bandwidth that differ by more cannot both be right: 1 MB/s may be 1.9 MB/s."""
_WORDS: Final = re.compile(r"[a-z]+")
NO_FIGURE: Final = {"", "-", "–", "n/a", "na", "nan", "null", "none"}


class Line(msgspec.Struct, frozen=True):
    """One line of a table.

    Attributes:
        number: Its number in the file, from 1.
        fields: The columns, without surrounding blanks.
    """

    number: int
    fields: list[str]


class Table(msgspec.Struct, frozen=True):
    """A CSV file taken apart.

    Attributes:
        headings: Of the columns.
        lines: Those below.
        decimals_known: Whether ``12.345`` is a number below 13, and not one above 12,000.
    """

    headings: list[str]
    lines: list[Line]
    decimals_known: bool = True


class _Cell(msgspec.Struct):
    """The measurement of a row."""

    operation: str
    size_bytes: int
    threads: int
    depth: int = 1
    factors: dict[str, FactorValue] = msgspec.field(default_factory=lambda: {"pattern": "random"})


class Reading(msgspec.Struct):
    """The state of reading a table: blank cells, notes, lines with figures that disagree."""

    document: Document
    decimals_known: bool = True
    unlike_lines: list[int] = msgspec.field(default_factory=list)
    blanks: list[BlankCell] = msgspec.field(default_factory=list)
    notes: list[str] = msgspec.field(default_factory=list)

    def blank(self, cell: _Cell) -> None:
        """Record a cell that the table names without a value."""
        self.blanks.append(
            BlankCell(
                workload=WORKLOAD,
                operation=cell.operation,
                block_size_bytes=cell.size_bytes,
                threads=cell.threads,
                depth=cell.depth,
            )
        )

    def figure(self, line: int, column: str, written: str) -> float | None:
        """Return the number in a field, None for a blank; raises UsageError for text."""
        if written.lower() in NO_FIGURE:
            return None
        if not self.decimals_known and is_ambiguous(written):
            wanted = "a number that shows whether its mark separates thousands or decimals"
            raise no_number(self.document, line, column, written, wanted)
        try:
            value = float(written)
        except ValueError:
            value = math.nan
        if value and not FIGURE_MIN <= value <= RATE_PER_S_MAX:
            wanted = f"a number, 0 or from {FIGURE_MIN:g} to {RATE_PER_S_MAX:g}"
            raise no_number(self.document, line, column, written, wanted)
        return value

    def count(self, line: Line, cell: tuple[Column, str] | None) -> int:
        """Return threads or depth, 1 without such a column; raises UsageError for text."""
        if cell is None:
            return 1
        column, written = cell
        if not _is_count(written):
            raise no_number(self.document, line.number, column.heading, written, "a whole number")
        return int(written)

    def size_bytes(self, line: int, column: Column, written: str) -> int:
        """Return the block size in a field; raises UsageError for anything else."""
        try:
            if column.has_unit:
                return parse_size_bytes(int(float(written) * column.scale))
            return parse_size_bytes(written)
        except (ValueError, OverflowError):
            raise no_number(
                self.document, line, column.heading, written, "a block size such as 4096 or 4KiB"
            ) from None


_ByRole = Mapping[str, tuple[Column, str]]


def is_table(text: str) -> bool:
    """Return whether the first line of a text is the heading of a results table."""
    table = _table(text)
    if own_csv.is_own(table.headings) or _is_matrix(table):
        return True
    roles = {column_of(heading).role for heading in table.headings}
    return "size" in roles and bool(roles & {"iops", "bandwidth"})


def read(document: Document) -> Imported:
    """Return the run of a table.

    Raises:
        UsageError: It has no line below its heading, a column lacks its unit, or a field has text
            instead of a number; the message names line and column.
    """
    table = _table(document.text)
    if not table.lines:
        raise UsageError(
            seen=f"{document.path} has a heading, but no lines below it",
            cause="The tool was stopped before it wrote its results",
            next_step="Specify a file with figures",
        )
    if own_csv.is_own(table.headings):
        named = [
            (line.number, dict(zip(table.headings, line.fields, strict=False)))
            for line in table.lines
        ]
        return own_csv.read(document, named)
    reading = Reading(document, table.decimals_known)
    rows = _matrix_drafts if _is_matrix(table) else _row_drafts
    drafts = list(rows(reading, table))
    if not drafts:
        raise UsageError(
            seen=f"{document.path} contains no figures",
            cause="All its cells are blank",
            next_step="Specify a file with figures",
        )
    origin = Origin(
        format="csv",
        file=document.name,
        tool="a table",
        blank_cells=reading.blanks,
        notes=[*reading.notes, "The table contains only rates: a duration is assumed for each."],
    )
    return imported(document, origin, drafts)


def _table(text: str) -> Table:
    """Return a table, without empty lines and lines that begin with #."""
    lines = text.splitlines()
    first = next((line for line in lines if line.strip() and not line.startswith("#")), "")
    delimiter = max(DELIMITERS, key=first.count)
    found: list[Line] = []
    for number, line in enumerate(lines, start=1):
        if line.strip() and not line.startswith("#"):
            fields = _fields(line, delimiter)
            missing = len(found[0].fields) - len(fields) if found else 0
            found.append(Line(number, [field.strip() for field in fields] + [""] * missing))
    headings, below = (found[0].fields if found else []), found[1:]
    # Where a comma is the decimal mark, semicolons separate fields.
    return _with_decimal_points(headings, below) if delimiter == ";" else Table(headings, below)


def _with_decimal_points(headings: list[str], lines: Sequence[Line]) -> Table:
    """Return a table whose numbers have points for decimals, and no marks between thousands."""
    marks = {decimal_mark(field) for line in lines for field in line.fields} - {""}
    mark = marks.pop() if len(marks) == 1 else ""
    plain = [
        Line(line.number, [plain_number(field, mark) for field in line.fields]) for line in lines
    ]
    return Table(headings, plain, decimals_known=bool(mark))


def _fields(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:  # a field of more than 128 KiB is not from a results table
        return [line]


def _is_matrix(table: Table) -> bool:
    """Return whether the heading has numbers of threads and the first line begins with a size."""
    counts = [heading for heading in table.headings[1:] if heading]
    if len(counts) < 2 or not all(_is_count(count) for count in counts) or not table.lines:
        return False
    try:
        parse_size_bytes(table.lines[0].fields[0])
    except ValueError:
        return False
    return True


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdecimal() and 0 < len(text) < 8 and int(text) > 0


def _matrix_drafts(reading: Reading, table: Table) -> Iterator[Draft]:
    """Yield the cells of a table of block sizes by threads."""
    reading.notes.append("The table does not specify the operation; random reads are assumed.")
    size = Column(table.headings[0] or "size", "size")
    for line in table.lines:
        size_bytes = reading.size_bytes(line.number, size, line.fields[0])
        for heading, written in zip(table.headings[1:], line.fields[1:], strict=False):
            if not heading:
                continue
            cell = _Cell("read", size_bytes, int(heading))
            rate_per_s = reading.figure(line.number, heading, written)
            if rate_per_s is None:
                reading.blank(cell)
            else:
                yield _draft(reading.document.path.stem, cell, rate_per_s, None)


def _row_drafts(reading: Reading, table: Table) -> Iterator[Draft]:
    """Yield the cells of a table with a row for each."""
    columns = _columns(table)
    _require_units(reading.document, columns, table)
    factors = _factor_columns(reading, columns, table)
    is_fio = any("rand" in text.lower() for text in _texts(columns, table, "operation"))
    if not any(column.role == "operation" for column in columns):
        reading.notes.append("The table does not specify the operation; reads are assumed.")
    cells: dict[tuple[str, ...], list[_Cell]] = {}
    for line in table.lines:
        fields = dict(zip(columns, line.fields, strict=False))
        by_role = {column.role: (column, text) for column, text in fields.items() if column.role}
        cell = _cell_of(reading, line, by_role, is_fio=is_fio)
        texts = dict(zip(table.headings, line.fields, strict=False))
        cell.factors.update(
            {column.heading: factor_value(texts.get(column.heading, "")) for column in factors}
        )
        series = (by_role.get("target", (None, ""))[1], cell.operation, str(cell.factors))
        cells.setdefault(series, []).append(cell)
        rate_per_s, bytes_per_s, steps = _per_second(reading, line, by_role, cell.size_bytes)
        if rate_per_s and bytes_per_s and not _agree(rate_per_s * cell.size_bytes, bytes_per_s):
            reading.unlike_lines.append(line.number)
        if rate_per_s is None:
            reading.blank(cell)
            continue
        latencies_ns = {
            column.name: value * column.scale
            for column, text in fields.items()
            if column.role == "latency"
            and (value := reading.figure(line.number, column.heading, text)) is not None
        }
        target = by_role.get("target", (None, ""))[1] or reading.document.path.stem
        yield _draft(target, cell, rate_per_s, bytes_per_s, latencies_ns, steps=steps)
    _note_missing(reading, cells.values())
    if lines := reading.unlike_lines:
        rows = "1 row" if len(lines) == 1 else f"{len(lines)} rows"
        reading.notes.append(
            f"IOPS times the block size is not the bandwidth in {rows} (line {lines[0]}): one has "
            "another unit, or another decimal mark."
        )


def _agree(bytes_per_s: float, printed_per_s: float) -> bool:
    """Return whether a bandwidth is the printed one, which may have a single digit."""
    return 1 / UNLIKE <= bytes_per_s / printed_per_s <= UNLIKE


def _note_missing(reading: Reading, series: Iterable[Sequence[_Cell]]) -> None:
    """Record missing rows of a grid of sizes and threads as blank cells."""
    missing = 0
    for cells in series:
        combinations = {(cell.size_bytes, cell.threads, cell.depth) for cell in cells}
        axes = [list(dict.fromkeys(values)) for values in zip(*sorted(combinations), strict=True)]
        grid = list(product(*axes))
        is_grid = sum(len(axis) > 1 for axis in axes) > 1
        if not is_grid or len(combinations) < GRID_SHARE_MIN * len(grid):
            continue
        for size_bytes, threads, depth in grid:
            if (size_bytes, threads, depth) not in combinations:
                reading.blank(_Cell(cells[0].operation, size_bytes, threads, depth))
                missing += 1
    if missing:
        reading.notes.append(
            f"The table lacks {missing} combination{'s' * (missing > 1)} of size and threads."
        )


def _texts(columns: Sequence[Column], table: Table, role: str) -> list[str]:
    return [
        text
        for line in table.lines
        for column, text in zip(columns, line.fields, strict=False)
        if column.role == role
    ]


def _require_units(document: Document, columns: Sequence[Column], table: Table) -> None:
    """Raise UsageError where bandwidth is the only rate and its unit is unknown."""
    if any(column.role == "iops" for column in columns):
        return
    for column in columns:
        if column.role == "bandwidth" and not column.has_unit:
            raise UsageError(
                seen=f"{document.path}, line 1: column {column.heading!r} has no unit",
                cause="Tools print bandwidth in KiB, MB or MiB per second, which differ",
                next_step="Rename the column to bw_mib_per_s, bw_mb_per_s or bw_bytes_per_s",
            )


def _columns(table: Table) -> list[Column]:
    """Return the meaning of the columns; of several with the same meaning, the first has it."""
    found: list[Column] = []
    for heading in table.headings:
        column = column_of(heading)
        is_taken = any(column.role == each.role for each in found)
        if is_taken and column.role not in ("latency", "bandwidth", ""):
            column = Column(heading)
        found.append(column)
    if any(column.role == "operation" for column in found):
        return found
    for index, column in enumerate(found):
        names = _column_texts(table, index)
        if names_test(column.heading) and names and all(map(_operation_in, names)):
            found[index] = Column(column.heading, "operation")
            break
    return found


def _column_texts(table: Table, index: int) -> list[str]:
    return [line.fields[index] for line in table.lines if index < len(line.fields)]


def _operation_in(name: str) -> str:
    """Return the operation in the name of a test; empty without one."""
    words = _WORDS.findall(name.lower())
    found = [word for word in words if word.removeprefix("rand").removeprefix("seq") in OPERATIONS]
    long = [word for word in found if len(word) > 1]
    return long[0] if len({_plain_operation(word) for word in long}) == 1 else ""


def _plain_operation(word: str) -> str:
    """Return an operation without the access pattern."""
    plain = word.removeprefix("rand").removeprefix("om").removeprefix("sequential")
    return plain.removeprefix("seq").strip("_- ")


def _factor_columns(reading: Reading, columns: Sequence[Column], table: Table) -> list[Column]:
    """Return unknown columns that distinguish tests; the others are noted."""
    factors, figures = [], []
    for index, column in enumerate(columns):
        if column.role == "bandwidth" and not column.has_unit:
            reading.notes.append(f"Column {column.heading!r} has no unit and is ignored.")
        if column.role == "operation" and _has_names(table, index):
            factors.append(Column(column.heading))
            continue
        if column.role or not column.heading:
            continue
        is_text = any(text and not _is_number(text) for text in _column_texts(table, index))
        if names_rounds(column.heading):
            reading.notes.append(f"Column {column.heading!r} numbers the rounds; it is ignored.")
        elif is_text:
            factors.append(column)
        else:
            figures.append(column)
    for column in figures:
        if not is_measure(column.heading) and _differs_within(columns, factors, column, table):
            factors.append(column)
        else:
            reading.notes.append(f"Column {column.heading!r} is unknown; it is ignored.")
    return factors


def _has_names(table: Table, index: int) -> bool:
    """Return whether a column of operations contains test names, which are more specific."""
    return any(_plain_operation(t.lower()) not in OPERATIONS for t in _column_texts(table, index))


def _differs_within(
    columns: Sequence[Column], factors: Sequence[Column], column: Column, table: Table
) -> bool:
    """Return whether a column differs between rows that are one test by all other columns."""
    settings = ("size", "threads", "depth", "operation", "pattern", "target")
    known = [each for each in columns if each.role in settings or each in factors]
    values: dict[tuple[str, ...], set[str]] = {}
    for line in table.lines:
        fields = dict(zip(columns, line.fields, strict=False))
        values.setdefault(tuple(fields.get(each, "") for each in known), set()).add(
            fields.get(column, "")
        )
    return any(len(found) > 1 for found in values.values())


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text.lower() in NO_FIGURE
    return True


def _cell_of(reading: Reading, line: Line, by_role: _ByRole, *, is_fio: bool) -> _Cell:
    """Return the cell of a row, without its values."""
    column, written = by_role["size"]
    cell = _Cell(
        "read",
        reading.size_bytes(line.number, column, written),
        reading.count(line, by_role.get("threads")),
        reading.count(line, by_role.get("depth")),
    )
    if "operation" in by_role:
        column, written = by_role["operation"]
        word = written.lower()
        if _plain_operation(word) not in OPERATIONS:
            word = _operation_in(word)
        plain = _plain_operation(word)
        if plain not in OPERATIONS:
            wanted = "one of read, write, mixed, randread, randwrite, randrw"
            raise no_number(reading.document, line.number, column.heading, written, wanted)
        cell.operation = OPERATIONS[plain]
        is_random = "rand" in written.lower() or not (is_fio or "seq" in written.lower())
        cell.factors["pattern"] = "random" if is_random else "sequential"
    if "pattern" in by_role and by_role["pattern"][1]:
        cell.factors["pattern"] = by_role["pattern"][1].lower()
    return cell


def _per_second(
    reading: Reading, line: Line, by_role: _ByRole, size_bytes: int
) -> tuple[float | None, float | None, int | None]:
    """Return requests and bytes per second of a row, computing one from the other if missing.

    The third is the number that gave the requests, in units of its last digit: 607 of ``60.7``.
    """
    figures: dict[str, float | None] = {}
    for role in ("iops", "bandwidth"):
        column, written = by_role.get(role, (None, ""))
        known = column is not None and (role == "iops" or column.has_unit)
        value = reading.figure(line.number, column.heading, written) if column and known else None
        figures[role] = value * column.scale if column and value is not None else None
    rate_per_s, bytes_per_s = figures["iops"], figures["bandwidth"]
    role = "iops"
    if rate_per_s is None and bytes_per_s is not None:
        rate_per_s, role = bytes_per_s / size_bytes, "bandwidth"
    if rate_per_s is None:
        return None, None, None
    number = Decimal(by_role[role][1])
    decimals = max(0, -int(number.as_tuple().exponent))
    return rate_per_s, bytes_per_s, int(number.scaleb(decimals))


def _draft(
    target: str,
    cell: _Cell,
    rate_per_s: float,
    bytes_per_s: float | None,
    latencies_ns: Mapping[str, float] | None = None,
    *,
    steps: int | None = None,
) -> Draft:
    completed, duration_s = whole_requests(rate_per_s, steps)
    moved_bytes = completed * cell.size_bytes
    if bytes_per_s is not None:
        moved_bytes = math.ceil(bytes_per_s * duration_s)
    return Draft(
        target=target,
        workload=WORKLOAD,
        kind="matrix",
        operation=cell.operation,
        block_size_bytes=cell.size_bytes,
        threads=cell.threads,
        depth=cell.depth,
        factors=cell.factors,
        duration_s=duration_s,
        operations={cell.operation: reported_operation(completed, moved_bytes, latencies_ns)},
        counters=assumed(duration_s),
    )
