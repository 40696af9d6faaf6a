"""Adaptive matrices, whose cells may be predicted instead of measured."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from seatrial.study.cell import Cell
from seatrial.study.model import Plan
from seatrial.study.schema import Study
from seatrial.trials.io.study.workloads import Matrix
from seatrial.units import NS_PER_S

if TYPE_CHECKING:
    from seatrial.results.model import Sample


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


def spent_and_full_s(
    samples: Iterable[Sample], measured_count: int, all_count: int
) -> tuple[float, float]:
    """Return the time of measured cells with their recovery checks, and the time for all cells.

    Args:
        samples: Samples of the measured cells.
        measured_count: How many cells were measured.
        all_count: How many there are.
    """
    cells_s = checks_ns = 0.0
    for sample in samples:
        cells_s += sample.duration_s
        checks_ns += sample.counters.get("recovery_check_ns", 0.0)
    return cells_s + checks_ns / NS_PER_S, cells_s * all_count / max(1, measured_count)
