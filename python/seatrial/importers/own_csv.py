"""Seatrial's own CSV (``export --format csv``), read back.

The export holds counts and rates of all rounds together, so a cell comes back as one sample: its
requests over the time in which they give its rate. Intervals and rounds stay behind; the results
file itself, or its JSON, keeps them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from seatrial.importers.building import Draft, factor_value, imported, reported_operation
from seatrial.importers.columns import column_of
from seatrial.importers.document import Document, no_number
from seatrial.importers.model import Imported
from seatrial.results.model import OPERATIONS, OperationResult
from seatrial.results.origin import Origin
from seatrial.study.cell import FactorValue

NEEDED: Final = (
    "cell_key",
    "kind",
    "target",
    "workload",
    "operation",
    "block_size_bytes",
    "threads",
    "depth",
    "completed_per_s",
    "request",
    "completed",
    "failed",
    "transferred_bytes",
)
KINDS: Final = ("fill", "matrix", "sequential", "copy", "map", "commit", "four", "mix", "io")
CELL_OPERATIONS: Final = ("read", "write", "mixed", "commit", "copy")
LATENCIES: Final = {
    "mean": "mean_ns",
    "p50": "p50_ns",
    "p90": "p90_ns",
    "p99": "p99_ns",
    "p99.9": "p99_9_ns",
    "max": "max_ns",
}
SETTINGS: Final = (
    *("kind", "target", "workload", "operation", "block_size_bytes", "threads", "depth"),
)
COUNT_MAX: Final = 2**62
Numbered = tuple[int, Mapping[str, str]]


def is_own(headings: Sequence[str]) -> bool:
    """Tell whether a table is an export of ours."""
    return set(NEEDED) <= set(headings)


def read(document: Document, rows: Sequence[Numbered]) -> Imported:
    """Return the run of our own CSV.

    Args:
        document: The file.
        rows: Each line's number and its fields by heading.

    Raises:
        UsageError: A text stands where a figure should be; line and column are named.
    """
    by_test: dict[tuple[str, ...], list[Numbered]] = {}
    settings: dict[str, set[tuple[str, ...]]] = {}
    for number, row in rows:
        setting = tuple(value for name, value in row.items() if _is_setting(name))
        settings.setdefault(row["cell_key"], set()).add(setting)
        by_test.setdefault((row.get("run_id", ""), row["cell_key"], *setting), []).append(
            (number, row)
        )
    unlike = {key for key, found in settings.items() if len(found) > 1}
    notes = ["The export holds no rounds, intervals and histograms; its figures stand alone."]
    if unlike:
        notes.append("Rows of one key differ in their settings: they are cells of their own.")
    drafts = [
        _draft(document, part, has_key=part[0][1]["cell_key"] not in unlike)
        for group in by_test.values()
        for part in _tests(group)
    ]
    origin = Origin(
        format="csv",
        file=document.name,
        tool="seatrial export --format csv",
        notes=notes,
    )
    return imported(document, origin, drafts)


def _is_setting(column: str) -> bool:
    """Tell whether a column says what a cell is, be it of the export or put in by hand."""
    return column in SETTINGS or column.startswith("factor_") or _is_factor(column)


def _is_factor(column: str) -> bool:
    """Tell whether a column that no export has sets something, such as ``users``."""
    return column_of(column).role in ("threads", "depth") and column not in SETTINGS


def _tests(group: Sequence[Numbered]) -> list[list[Numbered]]:
    """Return the rows of each test: a kind of request that comes again begins another round."""
    found: list[list[Numbered]] = []
    for each in group:
        request = each[1]["request"]
        if not found or any(row["request"] == request for _, row in found[-1]):
            found.append([])
        found[-1].append(each)
    return found


def _draft(document: Document, group: Sequence[Numbered], *, has_key: bool) -> Draft:
    number, first = group[0]
    operations = {row["request"]: _result(document, line, row) for line, row in group}
    completed = sum(result.completed for result in operations.values())
    rate_per_s = _number(document, number, first, "completed_per_s")
    return Draft(
        target=first["target"],
        workload=first["workload"],
        kind=_word(document, number, first, "kind", KINDS),
        operation=_word(document, number, first, "operation", CELL_OPERATIONS),
        block_size_bytes=_count(document, number, first, "block_size_bytes"),
        threads=max(1, _count(document, number, first, "threads")),
        depth=max(1, _count(document, number, first, "depth")),
        factors=dict(_factors(first)),
        key=first["cell_key"] if has_key else "",
        duration_s=completed / rate_per_s if completed and rate_per_s else 1.0,
        operations=operations,
        errors_count=sum(result.failed for result in operations.values()),
    )


def _result(document: Document, line: int, row: Mapping[str, str]) -> OperationResult:
    _word(document, line, row, "request", (*OPERATIONS, "mixed"))
    reported = reported_operation(
        _count(document, line, row, "completed"),
        _count(document, line, row, "transferred_bytes"),
        {
            name: _number(document, line, row, column)
            for name, column in LATENCIES.items()
            if row.get(column)
        },
    )
    return OperationResult(
        completed=reported.completed,
        failed=_count(document, line, row, "failed"),
        transferred_bytes=reported.transferred_bytes,
        response=reported.response,
        reported_ns=reported.reported_ns,
    )


def _factors(row: Mapping[str, str]) -> Iterator[tuple[str, FactorValue]]:
    for heading, written in row.items():
        if written and (heading.startswith("factor_") or _is_factor(heading)):
            yield heading.removeprefix("factor_"), factor_value(written)


def _number(document: Document, line: int, row: Mapping[str, str], column: str) -> float:
    try:
        value = float(row.get(column, ""))
    except ValueError:
        value = math.nan
    if not 0 <= value <= COUNT_MAX:
        raise no_number(document, line, column, row.get(column, ""), "a number")
    return value


def _count(document: Document, line: int, row: Mapping[str, str], column: str) -> int:
    return int(_number(document, line, row, column))


def _word(
    document: Document, line: int, row: Mapping[str, str], column: str, known: Sequence[str]
) -> str:
    word = row.get(column, "")
    if word not in known:
        raise no_number(document, line, column, word, f"one of {', '.join(known)}")
    return word
