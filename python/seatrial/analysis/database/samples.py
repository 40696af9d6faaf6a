"""What a finding or a table asks of a database's cells and samples."""

from __future__ import annotations

from collections.abc import Iterable

from seatrial.results.model import DatabaseRecord, Sample
from seatrial.study.cell import Cell
from seatrial.study.database import DatabaseSpec, spec_of


def specification(cell: Cell) -> DatabaseSpec | None:
    """Return what the measuring room was told of a cell; None of an imported one."""
    return spec_of(cell.spec) if "database" in cell.spec else None


def records_of(samples: Iterable[Sample]) -> list[DatabaseRecord]:
    """Return what is particular to the samples of a database, in their order."""
    return [sample.database for sample in samples if sample.database is not None]
