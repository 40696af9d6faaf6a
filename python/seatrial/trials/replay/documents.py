"""The JSON documents of ``seatrial sql read`` and ``sql show``.

As in all documents, clock times are Unix time in seconds, and percentiles of too few
statements are absent.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from seatrial.published import FLATTENED
from seatrial.report.exports.json_document import Document
from seatrial.trials.replay.reading import Reading
from seatrial.trials.replay.trace import Trace


class ReadingDocument(Document, frozen=True, kw_only=True):
    """The result of reading logs.

    ``seatrial sql read``: every record accounted for, and the trace that was written.

    Attributes:
        reading: The result.
    """

    kind: Literal["reading"] = "reading"
    reading: Annotated[Reading, FLATTENED]


class TraceDocument(Document, frozen=True, kw_only=True):
    """The contents of a trace.

    ``seatrial sql show``: sessions, statements, their timeline, and what of the log is missing.

    Attributes:
        contents: All of it.
    """

    kind: Literal["trace"] = "trace"
    contents: Annotated[Trace, FLATTENED]


def reading_document(reading: Reading) -> str:
    """Return the document of reading logs."""
    return ReadingDocument(reading=reading).as_text()


def trace_document(shown: Trace) -> str:
    """Return the document of a trace; without clock times, their fields are null or empty."""
    if not shown.has_clock:
        shown = msgspec.structs.replace(shown, mix=shown.mix.without_clock)
    return TraceDocument(contents=shown).as_text()
