"""How an imported run tells that it is one, and where it comes from."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from seatrial.results.model import Run, Sample

REPORTED_MARK: Final = "†"
"""What stands behind a figure that another tool computed; a note of the run explains it."""
ASSUMED_DURATION: Final = "assumed_duration_s"
"""Counter of a sample whose duration only stands in for one that its source does not tell."""


class BlankCell(msgspec.Struct, frozen=True, kw_only=True):
    """A cell that a foreign table names but has no figure for.

    Attributes:
        workload: As its neighbours have it.
        operation: ``read`` or ``write``.
        block_size_bytes: Size of one request.
        threads: Concurrent workers.
        depth: Requests that each keeps in flight.
    """

    workload: str
    operation: str
    block_size_bytes: int
    threads: int
    depth: int = 1


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where an imported run comes from; stored as ``run.study["imported"]``.

    Attributes:
        format: ``fio-json``, ``fio-json+``, ``fio-log``, ``bm-flash``, ``pgbench-log`` or
            ``csv``.
        file: Name of the file, without its folder.
        tool: What wrote it, with its version where it says so.
        blank_cells: Cells that the source names but has no figure for.
        notes: What could not be taken over, as sentences.
        file_bytes: Size of the file or range that was under test; None where it is not known.
        is_dated: Whether the source tells when it was measured; else the times of run and samples
            are the file's last change.
    """

    format: str
    file: str
    tool: str
    blank_cells: list[BlankCell] = []
    notes: list[str] = []
    file_bytes: int | None = None
    is_dated: bool = True


def origin_of(run: Run) -> Origin | None:
    """Return where an imported run comes from; None for a run that was measured here."""
    reported: Any = run.study.get("imported")
    return None if reported is None else msgspec.convert(reported, Origin)


def known_duration_s(sample: Sample) -> float | None:
    """Return how long a sample lasted; None where a foreign result told its rate and no time."""
    return None if ASSUMED_DURATION in sample.counters else sample.duration_s
