"""Seatrial's own CSV (``export --format csv``), read back.

The export contains counts and rates over all rounds, so a cell is imported as one sample: its
requests over the time that gives their rate. Intervals and rounds are not imported; the results
file itself, or its JSON, contains them.

Headings are compared without regard to case, and with blanks, dashes and brackets as underscores,
so that ``Block size (KiB)`` is ``block_size_kib``. A unit may be at the end.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from seatrial.errors import UsageError
from seatrial.importers.document import (
    FIGURE_MIN,
    Document,
    Draft,
    Imported,
    factor_value,
    imported,
    no_number,
    reported_operation,
)
from seatrial.results.model import OPERATIONS, SYNC, OperationResult, Origin
from seatrial.study.cell import CELL_OPERATIONS, FactorValue
from seatrial.topic import is_kind

_NAMES: Final = {
    "size": ("size", "block_size", "bs", "blocksize", "block", "request_size", "io_size"),
    "threads": (
        *("threads", "thread", "jobs", "numjobs", "num_jobs", "workers", "num_threads", "users"),
        *("clients", "concurrency", "connections", "sessions", "streams", "processes"),
    ),
    "depth": ("depth", "iodepth", "io_depth", "queue_depth", "queuedepth", "qd", "outstanding"),
    "iops": ("iops", "io_per_s", "ios_per_s", "completed_per_s", "requests_per_s"),
    "bandwidth": ("bandwidth", "bw", "throughput", "rate", "transferred"),
    "operation": ("operation", "rw", "op", "direction", "access"),
    "pattern": ("pattern",),
    "target": ("configuration", "config", "target", "device", "drive", "array"),
}
"""What is read, and its headings."""

_SIZE_UNITS_BYTES: Final = {"bytes": 1, "b": 1, "kib": 1 << 10, "k": 1 << 10, "mib": 1 << 20}
_RATE_UNITS_BYTES: Final = {
    "bytes": 1,
    "b": 1,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "kb": 1000,
    "mb": 1000**2,
    "gb": 1000**3,
}
_TIME_UNITS_NS: Final = {"ns": 1.0, "us": 1e3, "usec": 1e3, "ms": 1e6, "msec": 1e6, "s": 1e9}
_RATE: Final = re.compile(r"(?P<name>\w+?)_(?P<unit>[a-z]+?)(?:_per_s|_per_sec|_s|_sec|ps)")
_LATENCY: Final = re.compile(
    r"(?:(?:lat|latency|clat|response|response_time)_)?(?P<name>mean|avg|max|min|p\d+(?:[_.]\d+)?)"
    r"(?:_(?:lat|latency|clat))?_(?P<unit>ns|us|usec|ms|msec|s)"
)
_PLAIN_LATENCY: Final = re.compile(r"(?:lat|latency|clat|response_time)_(?P<unit>ns|us|ms|s)")
_NAME_OF_TEST: Final = {"name", "test", "job", "jobname", "job_name", "workload", "type", "mode"}
_NAME_OF_ROUND: Final = re.compile(
    r"(?:round|run|iteration|iter|repetition|repeat|rep|pass|seed|id|no|nr|line|row)"
    r"(?:_id|_no|_nr)?"
    r"|(?:.*_)?(?:time|timestamp|date|started_at|ended_at)"
)
_MEASURE: Final = re.compile(
    r"(?:^|_)(?:lat|latency|clat|slat|cpu|util|utilization|temp|temperature|stddev|stdev|dev"
    r"|errors?|runtime|elapsed|duration|mean|avg|min|max|p\d+|power|watts|total|sum|count)(?:_|$)"
)


class Column(msgspec.Struct, frozen=True):
    """One column of a table.

    Attributes:
        heading: As the file has it.
        ``pattern``, ``target``, ``latency``; empty for an unknown heading.
        scale: Factor that converts a value of the column to bytes, bytes per second or ns.
        name: Name of a latency, such as ``p99.9``; else empty.
        has_unit: Whether the heading states the unit.
    """

    heading: str
    role: str = ""
    scale: float = 1.0
    name: str = ""
    has_unit: bool = False


def names_test(heading: str) -> bool:
    """Return whether a column may contain names of tests, such as ``randread-4k``."""
    return _plain(heading) in _NAME_OF_TEST


def names_rounds(heading: str) -> bool:
    """Return whether a column numbers or dates the rounds of a test."""
    return bool(_NAME_OF_ROUND.fullmatch(_plain(heading)))


def is_measure(heading: str) -> bool:
    """Return whether a column is a measured figure that is not imported."""
    return bool(_MEASURE.search(_plain(heading)))


def _plain(heading: str) -> str:
    return re.sub(r"[\s()\[\]/-]+", "_", heading.strip().lower()).strip("_")


def column_of(heading: str) -> Column:
    """Return the meaning of a column."""
    plain = _plain(heading)
    for role, names in _NAMES.items():
        if plain in names:
            return Column(heading, role)
    for found in (_size_column(heading, plain), _rate_column(heading, plain)):
        if found:
            return found
    return _latency_column(heading, plain) or Column(heading)


def _size_column(heading: str, plain: str) -> Column | None:
    name, _, unit = plain.rpartition("_")
    if name in _NAMES["size"] and unit in _SIZE_UNITS_BYTES:
        return Column(heading, "size", _SIZE_UNITS_BYTES[unit], has_unit=True)
    return None


def _rate_column(heading: str, plain: str) -> Column | None:
    parts = _RATE.fullmatch(plain)
    if parts and parts["name"] in _NAMES["bandwidth"] and parts["unit"] in _RATE_UNITS_BYTES:
        return Column(heading, "bandwidth", _RATE_UNITS_BYTES[parts["unit"]], has_unit=True)
    return None


def _latency_column(heading: str, plain: str) -> Column | None:
    if parts := _LATENCY.fullmatch(plain):
        name = parts["name"].replace("avg", "mean").replace("_", ".")
        return Column(heading, "latency", _TIME_UNITS_NS[parts["unit"]], name, has_unit=True)
    if parts := _PLAIN_LATENCY.fullmatch(plain):
        return Column(heading, "latency", _TIME_UNITS_NS[parts["unit"]], "mean", has_unit=True)
    return None


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
    """Return whether a table is an export of ours."""
    return set(NEEDED) <= set(headings)


def read(document: Document, rows: Sequence[Numbered]) -> Imported:
    """Return the run of our own CSV.

    Args:
        document: The file.
        rows: Each line's number and its fields by heading.

    Raises:
        UsageError: A field has text instead of a number; the message names line and column. Or no
            row is of a kind that a CSV brings back.
    """
    rows, left_out = _of_block_io(document, rows)
    by_test: dict[tuple[str, ...], list[Numbered]] = {}
    settings: dict[str, set[tuple[str, ...]]] = {}
    for number, row in rows:
        setting = tuple(value for name, value in row.items() if _is_setting(name))
        settings.setdefault(row["cell_key"], set()).add(setting)
        by_test.setdefault((row.get("run_id", ""), row["cell_key"], *setting), []).append(
            (number, row)
        )
    unlike = {key for key, found in settings.items() if len(found) > 1}
    notes = ["The export contains no rounds, intervals or histograms, only its figures."]
    notes += left_out
    if unlike:
        notes.append("Rows with the same key have different settings: they are separate tests.")
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


def _of_block_io(document: Document, rows: Sequence[Numbered]) -> tuple[list[Numbered], list[str]]:
    """Return the rows of kinds that a CSV brings back, and a note about the other tests."""
    kept = [each for each in rows if each[1]["kind"] in KINDS or not is_kind(each[1]["kind"])]
    others = {
        (row.get("run_id", ""), row["cell_key"]): row["kind"]
        for _, row in rows
        if row["kind"] not in KINDS and is_kind(row["kind"])
    }
    if not others:
        return kept, []
    kinds = ", ".join(sorted({*others.values()}))
    if not kept:
        raise UsageError(
            seen=f"{document.path} has no test that a CSV can bring back, only of {kinds}",
            cause="Tests of these kinds consist of more than the figures of a CSV",
            next_step="Use the results file that it was exported from",
        )
    tests = "1 test is" if len(others) == 1 else f"{len(others)} tests are"
    return kept, [f"{tests} left out, as a CSV cannot bring back their kind: {kinds}."]


def _is_setting(column: str) -> bool:
    """Return whether a column describes the cell, in the export or added by hand."""
    return column in SETTINGS or column.startswith("factor_") or _is_factor(column)


def _is_factor(column: str) -> bool:
    """Return whether a column that is not in the export is a setting, such as ``users``."""
    return column_of(column).role in ("threads", "depth") and column not in SETTINGS


def _tests(group: Sequence[Numbered]) -> list[list[Numbered]]:
    """Return the rows of each test: a repeated kind of request begins another round."""
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
    factors = dict(_factors(first))
    sync_every = factors.get("sync_every", 0)
    if first["kind"] == "mix" and SYNC in operations:
        sync_every = 1  # of a stream, whose number the export lacks
    # As in the exported rate, the syncs that follow writes are no requests.
    completed = sum(
        result.completed
        for request, result in operations.items()
        if not (sync_every and request == SYNC)
    )
    rate_per_s = _number(document, number, first, "completed_per_s")
    return Draft(
        target=first["target"],
        workload=first["workload"],
        kind=_word(document, number, first, "kind", KINDS),
        operation=_word(document, number, first, "operation", CELL_OPERATIONS),
        block_size_bytes=_count(document, number, first, "block_size_bytes"),
        threads=max(1, _count(document, number, first, "threads")),
        depth=max(1, _count(document, number, first, "depth")),
        factors=factors,
        spec={"sync_every": sync_every} if isinstance(sync_every, int) and sync_every else {},
        key=first["cell_key"] if has_key else "",
        duration_s=completed / rate_per_s if completed and rate_per_s else 1.0,
        operations=operations,
        errors_count=sum(result.failed for result in operations.values()),
    )


def _result(document: Document, line: int, row: Mapping[str, str]) -> OperationResult:
    _word(document, line, row, "request", (*OPERATIONS, "mixed"))
    result = reported_operation(
        _count(document, line, row, "completed"),
        _count(document, line, row, "transferred_bytes"),
        {
            name: _number(document, line, row, column)
            for name, column in LATENCIES.items()
            if row.get(column)
        },
    )
    return msgspec.structs.replace(result, failed=_count(document, line, row, "failed"))


def _factors(row: Mapping[str, str]) -> Iterator[tuple[str, FactorValue]]:
    for heading, written in row.items():
        if written and (heading.startswith("factor_") or _is_factor(heading)):
            yield heading.removeprefix("factor_"), factor_value(written)


def _number(document: Document, line: int, row: Mapping[str, str], column: str) -> float:
    try:
        value = float(row.get(column, ""))
    except ValueError:
        value = math.nan
    if value and not FIGURE_MIN <= value <= COUNT_MAX:
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
