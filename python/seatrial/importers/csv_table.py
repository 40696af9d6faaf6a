"""Tables as CSV: a row for each cell, or a matrix of block sizes against threads.

A row for each cell: the columns are known by their headings (importers/columns.py), in any order,
set apart by commas, semicolons or tabs. A column of text that nobody knows becomes a factor; one
of figures too, where it differs between rows that would else be one cell, or is left out with a
note. A row without a rate is a blank cell, and so is a row that a grid lacks. Rows of the same cell
are its rounds.

A matrix: the heading names numbers of threads, each further line begins with its block size, as
ORION and spreadsheets lay them out; the figures are IOPS.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Final

import msgspec

from seatrial.errors import UsageError
from seatrial.importers import own_csv
from seatrial.importers.building import (
    Draft,
    assumed,
    factor_value,
    imported,
    reported_operation,
    whole_requests,
)
from seatrial.importers.columns import Column, column_of, is_measure, names_rounds, names_test
from seatrial.importers.document import Document, no_number
from seatrial.importers.model import Imported
from seatrial.results.origin import BlankCell, Origin
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
"""A table is a grid where so much of all sizes and threads has a row."""
_WORDS: Final = re.compile(r"[a-z]+")
NO_FIGURE: Final = {"", "-", "–", "n/a", "na", "nan", "null", "none"}


class Line(msgspec.Struct, frozen=True):
    """One line of a table.

    Attributes:
        number: Its number in the file, from 1.
        fields: What stands in each column, without blanks around it.
    """

    number: int
    fields: list[str]


class Table(msgspec.Struct, frozen=True):
    """A CSV file taken apart."""

    headings: list[str]
    lines: list[Line]


class _Cell(msgspec.Struct):
    """What a row measured."""

    operation: str
    size_bytes: int
    threads: int
    depth: int = 1
    factors: dict[str, FactorValue] = msgspec.field(default_factory=lambda: {"pattern": "random"})


class Reading(msgspec.Struct):
    """A table being read: where it lies, what was blank, what could not be taken over."""

    document: Document
    blanks: list[BlankCell] = msgspec.field(default_factory=list)
    notes: list[str] = msgspec.field(default_factory=list)

    def blank(self, cell: _Cell) -> None:
        """Keep a cell that the table names without a figure."""
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
        """Return the number at a place, None for a blank; raises UsageError for a text."""
        if written.lower() in NO_FIGURE:
            return None
        try:
            value = float(written)
        except ValueError:
            value = math.nan
        if not 0 <= value <= RATE_PER_S_MAX:
            raise no_number(self.document, line, column, written, "a number")
        return value

    def count(self, line: Line, place: tuple[Column, str] | None) -> int:
        """Return threads or depth, 1 without such a column; raises UsageError for a text."""
        if place is None:
            return 1
        column, written = place
        if not _is_count(written):
            raise no_number(self.document, line.number, column.heading, written, "a whole number")
        return int(written)

    def size_bytes(self, line: int, column: Column, written: str) -> int:
        """Return the block size at a place; raises UsageError for anything else."""
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
    """Tell whether the first line of a text is the heading of a table of results."""
    table = _table(text)
    if own_csv.is_own(table.headings) or _is_matrix(table):
        return True
    roles = {column_of(heading).role for heading in table.headings}
    return "size" in roles and bool(roles & {"iops", "bandwidth"})


def read(document: Document) -> Imported:
    """Return the run of a table.

    Raises:
        UsageError: It has no line below its heading, a column lacks its unit, or a text stands
            where a figure should be; line and column are named.
    """
    table = _table(document.text)
    if not table.lines:
        raise UsageError(
            seen=f"{document.path} has a heading and no line below it",
            cause="The tool that should have written them was stopped",
            next_step="Name a file that holds figures",
        )
    if own_csv.is_own(table.headings):
        named = [
            (line.number, dict(zip(table.headings, line.fields, strict=False)))
            for line in table.lines
        ]
        return own_csv.read(document, named)
    reading = Reading(document)
    rows = _matrix_drafts if _is_matrix(table) else _row_drafts
    drafts = list(rows(reading, table))
    if not drafts:
        raise UsageError(
            seen=f"{document.path} holds no figure",
            cause="All its cells are blank",
            next_step="Name a file that holds figures",
        )
    origin = Origin(
        format="csv",
        file=document.name,
        tool="a table",
        blank_cells=reading.blanks,
        notes=[*reading.notes, "A table tells rates only: each stands for an assumed time."],
    )
    return imported(document, origin, drafts)


def _table(text: str) -> Table:
    """Return a table; lines that begin with # and empty ones are no part of it."""
    lines = text.splitlines()
    first = next((line for line in lines if line.strip() and not line.startswith("#")), "")
    delimiter = max(DELIMITERS, key=first.count)
    found: list[Line] = []
    for number, line in enumerate(lines, start=1):
        if line.strip() and not line.startswith("#"):
            fields = _fields(line, delimiter)
            if delimiter == ";":  # where a comma is the decimal point, semicolons part the fields
                fields = [field.replace(",", ".") for field in fields]
            missing = len(found[0].fields) - len(fields) if found else 0
            found.append(Line(number, [field.strip() for field in fields] + [""] * missing))
    return Table(found[0].fields if found else [], found[1:])


def _fields(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:  # a field of more than 128 KiB is none of a table of results
        return [line]


def _is_matrix(table: Table) -> bool:
    """Tell whether the heading is numbers of threads and the first line begins with a size."""
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
    """Yield the cells of a table of block sizes against threads."""
    reading.notes.append("The table does not say what was done; it is taken as random reads.")
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
        reading.notes.append("The table does not say what was done; it is taken as reads.")
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
        rate_per_s, bytes_per_s = _per_second(reading, line, by_role, cell.size_bytes)
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
        yield _draft(target, cell, rate_per_s, bytes_per_s, latencies_ns)
    _note_missing(reading, cells.values())


def _note_missing(reading: Reading, series: Iterable[Sequence[_Cell]]) -> None:
    """Keep the cells of a grid of sizes and threads that have no row as blank ones."""
    missing = 0
    for cells in series:
        places = {(cell.size_bytes, cell.threads, cell.depth) for cell in cells}
        axes = [list(dict.fromkeys(values)) for values in zip(*sorted(places), strict=True)]
        grid = list(product(*axes))
        is_grid = sum(len(axis) > 1 for axis in axes) > 1
        if not is_grid or len(places) < GRID_SHARE_MIN * len(grid):
            continue
        for size_bytes, threads, depth in grid:
            if (size_bytes, threads, depth) not in places:
                reading.blank(_Cell(cells[0].operation, size_bytes, threads, depth))
                missing += 1
    if missing:
        reading.notes.append(f"The grid of sizes and threads lacks a row {missing} times.")


def _texts(columns: Sequence[Column], table: Table, role: str) -> list[str]:
    return [
        text
        for line in table.lines
        for column, text in zip(columns, line.fields, strict=False)
        if column.role == role
    ]


def _require_units(document: Document, columns: Sequence[Column], table: Table) -> None:
    """Raise UsageError where bandwidth is the only rate and nobody says in which unit."""
    if any(column.role == "iops" for column in columns):
        return
    for column in columns:
        if column.role == "bandwidth" and not column.has_unit:
            raise UsageError(
                seen=f"{document.path}, line 1: column {column.heading!r} has no unit",
                cause="Tools print bandwidth in KiB, MB or MiB per second, which differ",
                next_step="Name the column bw_mib_per_s, bw_mb_per_s or bw_bytes_per_s",
            )


def _columns(table: Table) -> list[Column]:
    """Return what the columns mean; of several with one meaning the first has it."""
    found: list[Column] = []
    for heading in table.headings:
        column = column_of(heading)
        is_taken = any(column.role == each.role for each in found)
        if is_taken and column.role not in ("latency", "bandwidth", ""):
            column = Column(heading)
        found.append(column)
    if any(column.role == "operation" for column in found):
        return found
    for place, column in enumerate(found):
        names = _column_texts(table, place)
        if names_test(column.heading) and names and all(map(_operation_in, names)):
            found[place] = Column(column.heading, "operation")
            break
    return found


def _column_texts(table: Table, place: int) -> list[str]:
    return [line.fields[place] for line in table.lines if place < len(line.fields)]


def _operation_in(name: str) -> str:
    """Return the word of a test's name that says what it does; empty where none does."""
    words = _WORDS.findall(name.lower())
    found = [word for word in words if word.removeprefix("rand").removeprefix("seq") in OPERATIONS]
    long = [word for word in found if len(word) > 1]
    return long[0] if len({_plain_operation(word) for word in long}) == 1 else ""


def _plain_operation(word: str) -> str:
    """Return a word for an operation without what it says of the pattern."""
    plain = word.removeprefix("rand").removeprefix("om").removeprefix("sequential")
    return plain.removeprefix("seq").strip("_- ")


def _factor_columns(reading: Reading, columns: Sequence[Column], table: Table) -> list[Column]:
    """Return the columns of no known meaning that tell tests apart; the others are noted."""
    factors, figures = [], []
    for place, column in enumerate(columns):
        if column.role == "bandwidth" and not column.has_unit:
            reading.notes.append(f"Column {column.heading!r} has no unit and is left out.")
        if column.role == "operation" and _has_names(table, place):
            factors.append(Column(column.heading))
            continue
        if column.role or not column.heading:
            continue
        is_text = any(text and not _is_number(text) for text in _column_texts(table, place))
        if names_rounds(column.heading):
            reading.notes.append(f"Column {column.heading!r} tells rounds apart; it is left out.")
        elif is_text:
            factors.append(column)
        else:
            figures.append(column)
    for column in figures:
        if not is_measure(column.heading) and _differs_within(columns, factors, column, table):
            factors.append(column)
        else:
            reading.notes.append(f"Column {column.heading!r} means nothing known; it is left out.")
    return factors


def _has_names(table: Table, place: int) -> bool:
    """Tell whether a column of operations holds names of tests, which say more than those."""
    return any(_plain_operation(t.lower()) not in OPERATIONS for t in _column_texts(table, place))


def _differs_within(
    columns: Sequence[Column], factors: Sequence[Column], column: Column, table: Table
) -> bool:
    """Tell whether a column differs between rows that are one test by all other columns."""
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
    """Return what a row measured, before its figures."""
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
) -> tuple[float | None, float | None]:
    """Return requests and bytes per second of a row; what one column lacks the other tells."""
    figures: dict[str, float | None] = {}
    for role in ("iops", "bandwidth"):
        column, written = by_role.get(role, (None, ""))
        known = column is not None and (role == "iops" or column.has_unit)
        value = reading.figure(line.number, column.heading, written) if column and known else None
        figures[role] = value * column.scale if column and value is not None else None
    rate_per_s, bytes_per_s = figures["iops"], figures["bandwidth"]
    if rate_per_s is None and bytes_per_s is not None:
        rate_per_s = bytes_per_s / size_bytes
    return rate_per_s, bytes_per_s


def _draft(
    target: str,
    cell: _Cell,
    rate_per_s: float,
    bytes_per_s: float | None,
    latencies_ns: Mapping[str, float] | None = None,
) -> Draft:
    completed, duration_s = whole_requests(rate_per_s)
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
        operations={
            kind: reported_operation(completed, moved_bytes, latencies_ns)
            for kind in [cell.operation]
        },
        counters=assumed(duration_s),
    )
