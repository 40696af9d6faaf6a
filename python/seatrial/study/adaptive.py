"""Which cells of a plan may be predicted from others in place of being measured."""

from __future__ import annotations

from seatrial.study.cell import Cell
from seatrial.study.model import Plan
from seatrial.study.schema import Study
from seatrial.study.workloads import Matrix


def is_adaptive(study: Study) -> bool:
    """Return whether a study has a matrix of which only some cells are measured."""
    return any(isinstance(each, Matrix) and each.adaptive for each in study.workloads)


def adaptive_cells(plan: Plan) -> list[Cell]:
    """Return the cells of a plan's adaptive matrices, in the order of the plan."""
    labels = {
        each.label for each in plan.study.workloads if isinstance(each, Matrix) and each.adaptive
    }
    return [cell for cell in plan.cells if cell.workload in labels]
