"""Adaptive matrices, whose cells may be predicted instead of measured."""

from __future__ import annotations

from typing import NamedTuple

from seatrial.study.cell import Cell
from seatrial.study.model import Plan
from seatrial.study.schema import Study
from seatrial.trials.io.study.workloads import Matrix


class Guidance(NamedTuple):
    """The cells to measure next, and the precision of the others.

    Attributes:
        keys: Cells to measure next; empty when the others have the requested precision.
        predicted_count: Cells that were not measured and are predicted to that precision.
        within_share: Half of the widest interval of these over its figure; None without any.
    """

    keys: list[str]
    predicted_count: int
    within_share: float | None


def is_adaptive(study: Study) -> bool:
    """Return whether a study has a matrix with unmeasured cells."""
    return bool(_matrices(study))


def predicted_within_share(study: Study) -> float:
    """Return the requested precision of predicted cells, the narrowest of all matrices.

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
