"""Which cells of a plan may be predicted from others in place of being measured."""

from __future__ import annotations

from seatrial.study.cell import Cell
from seatrial.study.model import Plan
from seatrial.study.schema import Study
from seatrial.trials.io.study.workloads import Matrix


def is_adaptive(study: Study) -> bool:
    """Return whether a study has a matrix of which only some cells are measured."""
    return bool(_matrices(study))


def predicted_within_share(study: Study) -> float:
    """Return how well cells that are not measured must be predicted: the narrowest that is asked.

    Raises:
        ValueError: when no matrix of the study is adaptive.
    """
    return min(matrix.predicted_within for matrix in _matrices(study))


def adaptive_cells(plan: Plan) -> list[Cell]:
    """Return the cells of a plan's adaptive matrices, in the order of the plan."""
    labels = {matrix.label for matrix in _matrices(plan.study)}
    return [cell for cell in plan.cells if cell.workload in labels]


def _matrices(study: Study) -> list[Matrix]:
    return [each for each in study.workloads if isinstance(each, Matrix) and each.adaptive]
