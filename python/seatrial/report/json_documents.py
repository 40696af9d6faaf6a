"""What every JSON document has in common: one structure each, versioned, with a generated schema.

A document is a subclass of :class:`Document`; docs/schema/ is generated from all of them by
tools/generate/schemas.py. Names end in their unit; percentiles that too few requests could know
are absent, never zero.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, cast

import msgspec

from seatrial import _core
from seatrial.errors import SeatrialError
from seatrial.published import FLATTENED, Count, Positive, publish
from seatrial.study.cell import Cell, FactorValue

SCHEMA: Final = 1
"""Rises when a name goes or changes its meaning; a name that is only added leaves it."""


def _version() -> str:
    return _core.__version__


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """What leaves the program as JSON.

    Attributes:
        seatrial: Version of Seatrial that wrote the document.
        schema: Rises when a name goes or changes its meaning.
        kind: Which of the documents it is (docs/json.md).
    """

    seatrial: str = msgspec.field(default_factory=_version)
    schema: Literal[1] = SCHEMA
    kind: str


Operation = Literal["read", "write", "mixed", "commit", "copy", "transaction", "batch", "statement"]
"""What a cell does."""


class Factors(msgspec.Struct, frozen=True, kw_only=True):
    """What tells a cell from others: every factor, and its value.

    Attributes:
        target: Label of the target in the study.
        workload: Name of the workload in the study.
        operation: What it does.
        block_size_bytes: Size of one request; 0 where the workload has a distribution.
        threads: Concurrent workers; of a database, clients of each process.
        depth: Requests that each worker keeps in flight.
        others: The workload's own factors, such as ``pattern``, ``file``, ``zone`` or ``method``.
    """

    target: str
    workload: str
    operation: Operation
    block_size_bytes: Count
    threads: Positive
    depth: Positive
    others: Annotated[dict[str, FactorValue], FLATTENED]


def factors_of(cell: Cell) -> Factors:
    """Return the factors of a cell."""
    return Factors(
        target=cell.target,
        workload=cell.workload,
        operation=cast(Operation, cell.operation),
        block_size_bytes=cell.block_size_bytes,
        threads=cell.threads,
        depth=cell.depth,
        others=cell.factors,
    )


class ErrorDocument(Document, frozen=True, kw_only=True):
    """An error.

    Any command that could not do what it was asked to.

    Attributes:
        error: Its class, such as ResultsFileError.
        exit_code: What the command exits with.
        seen: What was seen.
        cause: The likely cause.
        next: The next command to try.
    """

    kind: Literal["error"] = "error"
    error: str
    exit_code: Positive
    seen: str
    cause: str
    next: str


def error_document(error: SeatrialError) -> ErrorDocument:
    """Return an error as a command with ``--json`` says it."""
    return ErrorDocument(
        error=type(error).__name__,
        exit_code=error.exit_code,
        seen=error.seen,
        cause=error.cause,
        next=error.next_step,
    )


def as_text(document: Document) -> str:
    """Return a document as indented JSON; what is not a finite number is null.

    Bytes of a file's name that are not UTF-8, which JSON cannot hold, stand there as their codes.
    """
    content = publish(document)
    try:
        encoded = msgspec.json.encode(content)
    except UnicodeEncodeError:
        encoded = msgspec.json.encode(_in_utf8(content))
    return msgspec.json.format(encoded, indent=2).decode() + "\n"


def _in_utf8(value: Any) -> Any:  # noqa: ANN401 - whatever JSON can hold
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    if isinstance(value, dict):
        return {_in_utf8(name): _in_utf8(item) for name, item in value.items()}
    return [_in_utf8(item) for item in value] if isinstance(value, list) else value
