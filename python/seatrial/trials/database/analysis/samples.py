"""What a finding or a table asks of a database's cells and samples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from seatrial.results.model import DatabaseRecord, Sample
from seatrial.stats.estimate import Estimate
from seatrial.stats.estimates import counted, estimate_of_rounds
from seatrial.study.cell import Cell
from seatrial.trials.database.study.workloads import DatabaseSpec, spec_of

CEILING_PASSED_RATIO: Final = 1.1
"""Rate over ceiling: more is no noise of a driver at its limit."""


def specification(cell: Cell) -> DatabaseSpec | None:
    """Return what the measuring room was told of a cell; None of an imported one."""
    return spec_of(cell.spec) if "database" in cell.spec else None


def records_of(samples: Iterable[Sample]) -> list[DatabaseRecord]:
    """Return what is particular to the samples of a database, in their order."""
    return [sample.database for sample in samples if sample.database is not None]


def ceiling_share(rate_per_s: float, ceiling_per_s: float | None) -> float | None:
    """Return what was reached of a driver's own ceiling; None where that is not known.

    A ceiling that was surely passed is none: other work took its processors as it was measured,
    once for a whole run.
    """
    if not ceiling_per_s or rate_per_s > CEILING_PASSED_RATIO * ceiling_per_s:
        return None
    return rate_per_s / ceiling_per_s


def batch_length(samples: Sequence[Sample], name: str) -> Estimate | None:
    """Return ``real``, ``user`` or ``sys`` of a batch over its repeats, in s; None if not told."""
    records = [sample.database for sample in counted(samples)]
    values = [record.batch_s[name] for record in records if record and name in record.batch_s]
    return estimate_of_rounds(values, "s") if values and len(values) == len(records) else None
