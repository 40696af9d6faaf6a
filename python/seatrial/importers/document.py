"""A file of another tool as text, and common errors of the readers.

Most results contain a rate and no counts. A sample is counts over time, so the rate is stored as
the requests of one second (or of enough seconds to make them an integer), and the counter
``assumed_duration_s`` marks this duration as a placeholder that was never measured. The rate is
reproduced exactly, with one round: every reader of it says "measured once".
"""

from __future__ import annotations

import hashlib
import math
import os
import stat
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import msgspec

from seatrial import _core
from seatrial._core import Histogram
from seatrial.errors import UsageError
from seatrial.published import filled
from seatrial.results.model import (
    ASSUMED_DURATION,
    IMPORTED,
    REPORTED_MARK,
    OperationResult,
    Origin,
    Outcome,
    Run,
    Sample,
    Timeline,
)
from seatrial.study.cell import Cell, FactorValue, SpecDocument
from seatrial.study.units import format_factor


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """An imported result in the form of the results file.

    Attributes:
        run: ``study["imported"]`` is a ``results.origin.Origin`` in built-in types.
        samples: In the order of the source.
    """

    run: Run
    samples: list[Sample]


def unreadable(path: Path, error: OSError) -> UsageError:
    """Return the error for an unreadable file."""
    return UsageError(
        seen=f"{path} cannot be read: {error.strerror}",
        cause="It does not exist, is a directory, or is not readable by this user",
        next_step=f"Check `ls -ld {path}`",
    )


FORMATS: Final = (
    "fio JSON or JSON+ (--output-format=json+), fio's bw, iops and latency logs, the printed "
    "tables of bm-flash, pgbench's logs (--log), and CSV with columns such as size, threads and "
    "iops"
)
DOCUMENT_BYTES_MAX: Final = 1 << 30
"""A text larger than 1 GiB is not a supported result."""


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A file of another tool.

    Attributes:
        path: Its path.
        text: Its content, without a byte order mark.
        changed_at: Unix time in seconds of its last modification.
        digest: Hash of its bytes, in hexadecimal digits.
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
        UsageError: It cannot be read, is a device, is empty, is not UTF-8 text, or is larger than 1
            GiB.
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
            cause="The tool was stopped before it wrote its output, or wrote it elsewhere",
            next_step=f"Create the file again; supported formats: {FORMATS}",
        )
    return Document(
        path=path,
        text=_text(path, content),
        changed_at=status.st_mtime,
        digest=hashlib.sha256(content).hexdigest(),
    )


def _require_text_file(path: Path, status: os.stat_result) -> None:
    """Raise UsageError for a device, which may have no end, and for a file that is too large."""
    if stat.S_ISBLK(status.st_mode) or stat.S_ISCHR(status.st_mode):
        raise UsageError(
            seen=f"{path} is a device",
            cause="A result is a text file written by another tool; a device has to be measured",
            next_step=f"Measure it with `seatrial io {path}`, or specify a result file",
        )
    if status.st_size > DOCUMENT_BYTES_MAX:
        raise _too_large(path)


def _content(path: Path) -> bytes:
    """Return the content of a file, also of a pipe, whose length is unknown."""
    with path.open("rb") as file:
        content = file.read(DOCUMENT_BYTES_MAX + 1)
    if len(content) > DOCUMENT_BYTES_MAX:
        raise _too_large(path)
    return content


def _too_large(path: Path) -> UsageError:
    return UsageError(
        seen=f"{path} is larger than 1 GiB",
        cause="Results are smaller",
        next_step="Specify the result file, not an image or archive that contains it",
    )


def _text(path: Path, content: bytes) -> str:
    try:
        if b"\0" not in content:
            return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        pass
    raise UsageError(
        seen=f"{path} is a binary file",
        cause="Results are imported from UTF-8 text; this is compressed, an image, or UTF-16",
        next_step=f"Decompress or convert it (iconv -t utf-8); supported formats: {FORMATS}",
    )


def unknown_format(document: Document) -> UsageError:
    """Return the error for a text that no reader recognises."""
    return UsageError(
        seen=f"{document.path} has an unsupported format",
        cause=f"Supported are {FORMATS}",
        next_step="Let the tool write one of these formats; `seatrial import --help` has examples",
    )


def no_number(document: Document, line: int, column: str, written: str, wanted: str) -> UsageError:
    """Return the error for text instead of a number.

    Args:
        document: The file.
        line: Number of the line, from 1.
        column: Name of the column, as the file has it.
        written: The actual text.
        wanted: The expected content, such as ``a number``.
    """
    return UsageError(
        seen=f"{document.path}, line {line}, column {column!r}: {written!r} is not {wanted}",
        cause="The table was edited or truncated, or its columns are shifted",
        next_step="Correct the value, or leave it empty if nothing was measured",
    )


SLICE_NS: Final = 100_000_000
STORED_MAX: Final = 2**63 - 1
"""The largest integer of a results file."""
FIGURE_MIN: Final = 1e-9
"""The smallest figure of a table but 0: with a smaller rate, a request would last for ever."""
NO_TIMELINE: Final = Timeline(slice_ns=SLICE_NS, slices=[])
NO_LATENCIES: Final = Histogram.of([]).encode()
IMPLIED: Final[Mapping[str, FactorValue]] = {"pattern": "random"}
"""Factors that are not part of a key, as in a study's cells."""


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement of a source, before its key and its round are known.

    Attributes:
        target: Name of the target.
        workload: Workload of the cell: ``matrix``, ``io``, ``fill`` or another name.
        kind: As in ``Cell``.
        operation: As in ``Cell``.
        block_size_bytes: As in ``Cell``.
        threads: As in ``Cell``.
        depth: As in ``Cell``.
        factors: As in ``Cell``.
        spec: As in ``Cell``, as far as known.
        key: The whole key if the source has it; otherwise it is made of the factors.
        started_at: Unix time in seconds; None if unknown.
        duration_s: Measured duration, or a placeholder.
        operations: Results by operation kind.
        errors_count: Requests that failed.
        late_skipped: Requests that were due and never started.
        parts: Further attributes of the ``Sample``, such as its timeline.
        counters: As in ``Sample``.
    """

    target: str
    workload: str
    kind: str
    operation: str
    block_size_bytes: int
    threads: int
    depth: int = 1
    factors: dict[str, FactorValue] = {}
    spec: SpecDocument = {}
    key: str = ""
    started_at: float | None = None
    duration_s: float
    operations: dict[str, OperationResult]
    errors_count: int = 0
    late_skipped: int = 0
    counters: dict[str, float] = {}
    parts: dict[str, Any] = {}


def whole_requests(rate_per_s: float, requests_max: int | None = None) -> tuple[int, float]:
    """Return an integer number of requests and the seconds that give a rate exactly.

    Args:
        rate_per_s: The rate.
        requests_max: At most so many requests: half a request is the resolution of a rate.
    """
    completed = math.ceil(rate_per_s)
    if requests_max is not None:
        completed = min(completed, requests_max)
    return completed, completed / rate_per_s if completed else 1.0


def assumed(duration_s: float) -> dict[str, float]:
    """Return the counter that marks a sample's duration as a placeholder."""
    return {ASSUMED_DURATION: duration_s}


def bytes_of(amount: str, unit_bytes: int) -> int:
    """Return the smallest number of bytes whose truncated value was printed."""
    return math.ceil(Fraction(amount) * unit_bytes)


def reported_operation(
    completed: int, transferred_bytes: int, reported_ns: Mapping[str, float] | None = None
) -> OperationResult:
    """Return the result of one kind of request where the source has no histogram."""
    return OperationResult(
        completed=completed,
        failed=0,
        transferred_bytes=transferred_bytes,
        response=NO_LATENCIES,
        reported_ns=dict(reported_ns or {}),
    )


def imported(
    document: Document, origin: Origin, drafts: Sequence[Draft], *, started_at: float | None = None
) -> Imported:
    """Return the run of an imported result.

    Equal cells become rounds, in the order of the source. The id is derived from the time and the
    file's content, so that a file always gives the same run.

    Args:
        document: The file.
        origin: Its source.
        drafts: Its measurements, in its order.
        started_at: Unix time in seconds of the first of them; by default the file's last
            modification.

    Raises:
        UsageError: A test has more requests or bytes than can be stored.
    """
    _refuse_overflow(document, drafts)
    begun_at = document.changed_at if started_at is None else started_at
    if started_at is None:
        note = (
            "The source contains no time of measurement; the modification time of the file is used."
        )
        origin = msgspec.structs.replace(origin, notes=[*origin.notes, note], is_dated=False)
    if any(_is_reported(result) for draft in drafts for result in draft.operations.values()):
        note = (
            f"{REPORTED_MARK} Response times are as reported by {origin.tool}. The individual "
            "requests are not available, so these values are excluded from statistics."
        )
        origin = msgspec.structs.replace(origin, notes=[*origin.notes, note])
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(begun_at))
    samples = list(_samples(drafts, begun_at))
    ended_at = max((sample.started_at + sample.duration_s for sample in samples), default=begun_at)
    run = Run(
        id=f"{stamp}-{document.digest[:4]}",
        command=f"seatrial import {document.name}",
        study_name=document.path.stem,
        study={"name": document.path.stem, "imported": msgspec.to_builtins(origin)},
        plan_hash=document.digest[:16],
        seed=0,
        status="complete",
        started_at=begun_at,
        ended_at=begun_at if started_at is None else ended_at,
        seatrial_version=_core.__version__,
    )
    return Imported(run=run, samples=samples)


def _refuse_overflow(document: Document, drafts: Sequence[Draft]) -> None:
    for draft in drafts:
        results = draft.operations.values()
        requests = draft.errors_count + draft.late_skipped + sum(each.completed for each in results)
        if max(requests, sum(each.transferred_bytes for each in results)) > STORED_MAX:
            raise UsageError(
                seen=f"{document.path}: {key_of(draft)} has more than 2^63 requests or bytes",
                cause="The file is damaged, or its figures are not in the units that it states",
                next_step="Correct or remove that test",
            )


def _is_reported(result: OperationResult) -> bool:
    return bool(result.reported_ns) and result.response == NO_LATENCIES


def _samples(drafts: Sequence[Draft], begun_at: float) -> Iterable[Sample]:
    prefixed = len({draft.target for draft in drafts}) > 1
    rounds: Counter[str] = Counter()
    for position, draft in enumerate(drafts):
        cell = _cell(draft, prefixed=prefixed)
        completed = sum(result.completed for result in draft.operations.values())
        yield Sample(
            cell=cell,
            round=rounds[cell.key],
            position=position,
            started_at=begun_at if draft.started_at is None else draft.started_at,
            duration_s=draft.duration_s,
            engine=IMPORTED,
            engine_reason="measured by another tool",
            outcome=Outcome(
                offered=completed + draft.errors_count + draft.late_skipped,
                completed=completed,
                failed=draft.errors_count,
                late_skipped=draft.late_skipped,
                in_flight_at_end=0,
            ),
            operations=draft.operations,
            errors_count=draft.errors_count,
            counters=draft.counters,
            **{"timeline": NO_TIMELINE} | draft.parts,
        )
        rounds[cell.key] += 1


def _cell(draft: Draft, *, prefixed: bool) -> Cell:
    key = draft.key or (f"{draft.target}/" if prefixed else "") + key_of(draft)
    return filled(Cell, draft, key=key)


def factor_value(written: str) -> FactorValue:
    """Return a factor as in its study, from text: true, 2, 0.67 or a word."""
    if written.lower() in ("true", "false"):
        return written.lower() == "true"
    for kind in (int, float):
        try:
            value = kind(written)
        except ValueError:
            continue
        if math.isfinite(value):
            return value
    return written


def key_of(draft: Draft) -> str:
    """Return the key that a study would give the cell, so that they can be compared."""
    size = f"{draft.block_size_bytes}B" if draft.block_size_bytes else "various"
    parts = [draft.workload, draft.operation, size, f"{draft.threads}t", f"{draft.depth}d"]
    named = {name: value for name, value in draft.factors.items() if IMPLIED.get(name) != value}
    return "/".join([*parts, *(f"{name}={format_factor(value)}" for name, value in named.items())])
