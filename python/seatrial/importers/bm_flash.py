"""The printed tables of bm-flash: block size by threads, random reads and writes.

bm-flash (EasyCo, 2008) prints integer IOPS and a bandwidth with one decimal for each cell, both
truncated. Both are stored as printed: ``completed`` over the assumed second is the IOPS column,
``transferred_bytes`` the bandwidth column, so that either can be compared with the page, and
``export --format bm-flash`` prints the same table. At low rates the bandwidth is more precise (24
IOPS at 12.2K are 24.4 requests of 512 bytes): a rate below 100 IOPS may be too low by up to one
request a second, as a note states.

A cell that bm-flash printed blank stays absent and is listed among the blank cells. The line on the
fill becomes a cell of kind ``fill``, with its megabytes as requests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from seatrial.errors import UsageError
from seatrial.importers.document import (
    Document,
    Draft,
    Imported,
    assumed,
    bytes_of,
    imported,
    no_number,
    reported_operation,
    whole_requests,
)
from seatrial.results.model import BlankCell, Origin
from seatrial.units import MIB

WORKLOAD: Final = "matrix"
IOPS_COARSE: Final = 100
BLOCK_BYTES_MAX: Final = 1 << 30
_UNITS_BYTES: Final = {"B": 1, "K": 1 << 10, "M": MIB, "G": 1 << 30, "": 1}
_TITLE: Final = re.compile(r"\b(Read|Write) Tests:")
_HEAD: Final = re.compile(r"^\s*Block\s*\|(?P<columns>.*)$")
_THREADS: Final = re.compile(r"\s*(\d{1,5}) threads?\s*")
_ROW: Final = re.compile(r"^\s*(?P<size>\S+)\s*\|(?P<figures>.*)$")
_SUBHEAD: Final = re.compile(r"^\s*(Size)?\s*\|")
_SIZE: Final = re.compile(r"(\d{1,9})([BKMG]?)")
_IOPS: Final = re.compile(r"\d{1,12}")
_BANDWIDTH: Final = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)([BKMG])")
_FILL: Final = re.compile(
    r"Filling\s+(?P<size>\S+)\s+before testing[\s.]*(?P<mb>\d{1,12}) MB done in\s+"
    r"(?P<seconds>\d{1,9}) seconds?\s*\((?P<rate>\d{1,12}) MB/sec\)"
)


class Cell(msgspec.Struct, frozen=True):
    """One printed cell; both figures are None where it is blank.

    Attributes:
        operation: ``read`` or ``write``.
        size_bytes: Block size.
        threads: Number of threads.
        iops: As printed.
        bandwidth_bytes_per_s: As printed.
    """

    operation: str
    size_bytes: int
    threads: int
    iops: int | None = None
    bandwidth_bytes_per_s: int | None = None


class Printout(msgspec.Struct):
    """One run of bm-flash.

    Attributes:
        fill_bytes: Bytes written by the fill; 0 without such a line.
        fill_s: Its duration, in whole seconds.
        cells: In the order of the output.
    """

    fill_bytes: int = 0
    fill_s: float = 0.0
    cells: list[Cell] = msgspec.field(default_factory=list)


def is_bm_flash(text: str) -> bool:
    """Return whether a text contains a table of bm-flash, possibly among other text."""
    return bool(_TITLE.search(text)) and any(_HEAD.match(line) for line in text.splitlines())


def read(document: Document) -> Imported:
    """Return the run of a text with one or more outputs; each is a separate target.

    Raises:
        UsageError: A table is truncated, or contains text instead of a number; the message names
            line and column.
    """
    printouts = _printouts(document)
    single = len(printouts) == 1
    stem = document.path.stem
    labels = [stem if single else f"{stem}-{number}" for number in range(1, len(printouts) + 1)]
    drafts, blanks = [], []
    for label, printout in zip(labels, printouts, strict=True):
        drafts += list(_drafts(label, printout))
        blanks += [_blank(cell) for cell in printout.cells if cell.iops is None]
    if not any(draft.kind == WORKLOAD for draft in drafts):
        raise UsageError(
            seen=f"{document.path} has a heading of bm-flash, but no figures below it",
            cause="The output is truncated",
            next_step="Let bm-flash run to its end, and specify its complete output",
        )
    origin = Origin(
        format="bm-flash",
        file=document.name,
        tool="bm-flash",
        blank_cells=blanks,
        notes=_notes(printouts),
        file_bytes=_common_bytes(printouts),
    )
    return imported(document, origin, drafts)


def _notes(printouts: Sequence[Printout]) -> list[str]:
    notes = [
        "bm-flash reports neither latencies nor its duration: each rate is treated as one "
        "measurement of one second.",
    ]
    coarse = [c for p in printouts for c in p.cells if c.iops is not None and c.iops < IOPS_COARSE]
    if coarse:
        tests = "1 test" if len(coarse) == 1 else f"{len(coarse)} tests"
        notes.append(
            f"IOPS are printed without decimals; below {IOPS_COARSE} IOPS ({tests}) the bandwidth "
            "is more precise."
        )
    for printout in printouts:
        sizes = [
            {cell.size_bytes for cell in printout.cells if cell.operation == operation}
            for operation in ("read", "write")
        ]
        if all(sizes) and sizes[0] != sizes[1]:
            notes.append(
                "Reads and writes have different block sizes: the output may be truncated."
            )
    if len(printouts) > 1:
        notes.append(f"The text has {len(printouts)} outputs; each is a separate target.")
    return notes


def _common_bytes(printouts: Sequence[Printout]) -> int | None:
    """Return the size of the filled file if all outputs agree."""
    sizes = {printout.fill_bytes for printout in printouts}
    return (sizes.pop() or None) if len(sizes) == 1 else None


def _blank(cell: Cell) -> BlankCell:
    return BlankCell(
        workload=WORKLOAD,
        operation=cell.operation,
        block_size_bytes=cell.size_bytes,
        threads=cell.threads,
    )


def _drafts(target: str, printout: Printout) -> Iterator[Draft]:
    spec = {"target": {"size_bytes": printout.fill_bytes}} if printout.fill_bytes else {}
    if printout.fill_bytes:
        filled = reported_operation(printout.fill_bytes // MIB, printout.fill_bytes)
        yield Draft(
            target=target,
            workload="fill",
            kind="fill",
            operation="write",
            block_size_bytes=0,
            threads=1,
            spec=spec,
            duration_s=printout.fill_s,
            operations={"write": filled},
        )
    for cell in printout.cells:
        if cell.iops is None or cell.bandwidth_bytes_per_s is None:
            continue
        completed, duration_s = whole_requests(cell.iops)
        figures = reported_operation(completed, cell.bandwidth_bytes_per_s)
        yield Draft(
            target=target,
            workload=WORKLOAD,
            kind="matrix",
            operation=cell.operation,
            block_size_bytes=cell.size_bytes,
            threads=cell.threads,
            factors={"pattern": "random"},
            spec=spec,
            duration_s=duration_s,
            operations={cell.operation: figures},
            counters=assumed(duration_s),
        )


def _printouts(document: Document) -> list[Printout]:
    """Return the outputs in a text: each begins with its fill, or with a repeated table."""
    printouts = [Printout()]
    operation = ""
    threads: list[int] = []
    for line, text in enumerate(document.text.splitlines(), start=1):
        if fill := _FILL.search(text):
            if printouts[-1].cells or printouts[-1].fill_bytes:
                printouts.append(Printout())
            _note_fill(printouts[-1], fill)
        elif title := _TITLE.search(text):
            operation, threads = title[1].lower(), []
            if any(cell.operation == operation for cell in printouts[-1].cells):
                printouts.append(Printout())
        elif operation and (head := _HEAD.match(text)):
            threads = _thread_counts(document, line, head["columns"])
        elif threads and (row := _ROW.match(text)) and not _SUBHEAD.match(text):
            printouts[-1].cells += _cells(document, line, operation, threads, row)
        elif text.strip() and "|" not in text:
            operation, threads = "", []
    return printouts


def _note_fill(printout: Printout, fill: re.Match[str]) -> None:
    filled_mb, fill_s, rate_mb_per_s = int(fill["mb"]), float(fill["seconds"]), int(fill["rate"])
    # A fill of less than a second is printed with 0 seconds; its rate gives the time.
    fill_s = fill_s or (filled_mb / rate_mb_per_s if rate_mb_per_s else 0.0)
    if filled_mb and fill_s:
        printout.fill_bytes, printout.fill_s = filled_mb * MIB, fill_s


def _thread_counts(document: Document, line: int, columns: str) -> list[int]:
    counts = []
    for column in columns.rstrip().rstrip("|").split("|"):
        parts = _THREADS.fullmatch(column)
        if parts is None or not int(parts[1]):
            raise no_number(document, line, "Block", column.strip(), "a number of threads")
        counts.append(int(parts[1]))
    return counts


def _cells(
    document: Document, line: int, operation: str, threads: Sequence[int], row: re.Match[str]
) -> Iterator[Cell]:
    size = _SIZE.fullmatch(row["size"])
    size_bytes = int(size[1]) * _UNITS_BYTES[size[2]] if size else 0
    if not 0 < size_bytes <= BLOCK_BYTES_MAX:
        raise no_number(document, line, "Size", row["size"], "a block size such as 4K")
    figures = row["figures"].split("|")
    figures += [""] * (len(threads) - len(figures))
    if any(text.strip() for text in figures[len(threads) :]):
        written = " ".join(figures[len(threads) :]).strip()
        raise no_number(document, line, "Size", written, "in a column without a thread heading")
    for count, text in zip(threads, figures, strict=False):
        column = f"{count} thread" if count == 1 else f"{count} threads"
        words = text.split()
        if not words:
            yield Cell(operation, size_bytes, count)
            continue
        iops = _IOPS.fullmatch(words[0])
        if iops is None:
            raise no_number(document, line, f"{column}, IOPS", words[0], "a whole number")
        bandwidth = _BANDWIDTH.fullmatch(words[1]) if len(words) == 2 else None
        if bandwidth is None:
            written = " ".join(words[1:])
            raise no_number(document, line, f"{column}, BW", written, "a figure such as 5.5M")
        bytes_per_s = bytes_of(bandwidth[1], _UNITS_BYTES[bandwidth[2]])
        yield Cell(operation, size_bytes, count, int(iops[0]), bytes_per_s)
