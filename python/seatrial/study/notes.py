"""What is worth knowing of a plan before it is measured, as sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from seatrial.study.cell import Cell
from seatrial.study.database import Batch, is_of_database, spec_of
from seatrial.study.loadline import SAMPLES_MAX
from seatrial.study.schema import Study
from seatrial.study.units import format_seconds
from seatrial.study.workloads import Loadline, Matrix

OFF: Final = frozenset({"off", "false", "no", "0", "of", "f", "fa", "fal", "fals", "n"})
"""How PostgreSQL lets ``off`` be written, but for case."""

_COSTS: Final = {
    "fsync": "a power cut destroys the database, and the figures compare with no server that "
    "keeps what it acknowledged",
    "full_page_writes": "safe only where the file system never tears a page of 8 KiB",
    "synchronous_commit": "a commit is acknowledged before it is durable, and a crash loses the "
    "last of them",
}
"""What is given up where a setting is off."""


def notes_on(study: Study, cells: Sequence[Cell]) -> list[str]:
    """Return what is worth knowing of the cells of a study."""
    return [
        *_on_load_lines(study, cells),
        *_on_adaptive(study),
        *_on_durability(study, cells),
        *_on_batches(study, cells),
    ]


def _on_load_lines(study: Study, cells: Sequence[Cell]) -> Iterator[str]:
    """Yield a note on each load line, of which the plan knows the beginning only."""
    for cell in cells:
        for workload in study.workloads:
            if isinstance(workload, Loadline) and workload.label == cell.workload:
                yield (
                    f"{cell.key} is where a load line begins; it seeks the rate for "
                    f"{workload.percentile} <= {workload.limit} in at most {SAMPLES_MAX} samples "
                    f"and {format_seconds(workload.budget_s)}"
                )


def _on_adaptive(study: Study) -> Iterator[str]:
    """Yield a note on each matrix of which as few cells are measured as predict the others."""
    for each in study.workloads:
        if isinstance(each, Matrix) and each.adaptive:
            yield (
                f"{each.label} is adaptive: as few of its cells are measured as predict the others "
                f"within {100 * each.predicted_within:g} %"
            )


def _on_durability(study: Study, cells: Sequence[Cell]) -> Iterator[str]:
    """Yield a note on each setting that lets a server acknowledge what it may lose."""
    for workload in study.workloads:
        own = [cell for cell in cells if cell.workload == workload.label]
        specs = [spec_of(cell.spec) for cell in own if is_of_database(cell)]
        for name, cost in _COSTS.items():
            off = [spec for spec in specs if _value(spec.settings, name) in OFF]
            if off:
                some = "" if len(off) == len(specs) else f"{len(off)} of {len(specs)} cells of "
                yield f"{name} is off in {some}{workload.label}: {cost}"


def _value(settings: dict[str, str], name: str) -> str:
    """Return the value of a setting in lower case; names and words have no case."""
    return next((value.lower() for key, value in settings.items() if key.lower() == name), "")


def _on_batches(study: Study, cells: Sequence[Cell]) -> Iterator[str]:
    """Yield a note on each batch, whose time nobody knows beforehand."""
    for workload in study.workloads:
        if isinstance(workload, Batch) and any(c.workload == workload.label for c in cells):
            yield (
                f"{workload.label} takes as long as it takes; the plan counts the "
                f"{format_seconds(workload.duration_s)} after which it is ended"
            )
