"""From a workload to its cells, by the topic of the workload."""

from __future__ import annotations

from collections.abc import Iterator

from seatrial.study.cell import Cell, FactorValue
from seatrial.study.model import PlannedTarget
from seatrial.study.sampled import Sampled
from seatrial.study.schema import Study
from seatrial.topic import topic_of


def cells_of(
    workload: Sampled, target: PlannedTarget, study: Study, *, prefix: str = ""
) -> Iterator[Cell]:
    """Yield the cells of a workload on a target.

    Args:
        workload: The workload.
        target: The target.
        study: The study, for its access specifications.
        prefix: What every key begins with; the target's label where there are several.
    """
    yield from topic_of(workload).cells(workload, target, study, prefix=prefix)


def usual_factors(cell: Cell) -> dict[str, FactorValue]:
    """Return the factors that a cell leaves out where they have these values."""
    return topic_of(cell).usual_factors(cell)
