"""What is worth knowing of what a plan breaks, as sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from seatrial.study.cell import Cell
from seatrial.study.layouts.failure import Failure
from seatrial.study.model import PlannedTarget
from seatrial.study.schema import Study


def notes_on_failures(
    study: Study, targets: Sequence[PlannedTarget], cells: Sequence[Cell]
) -> Iterator[str]:
    """Yield a note on each workload that breaks more of a layout than its level survives."""
    for workload in study.workloads:
        run_on = {cell.target for cell in cells if cell.workload == workload.label}
        for target in targets:
            if not (workload.failures and target.layout and target.label in run_on):
                continue
            layout = target.layout
            survived = layout.facts.losses_survived(layout.drives)
            failing = _most_failures(workload.failures)
            if failing <= survived:
                continue
            bound = f"{layout.level} on {layout.drives} drives survives {survived}"
            hope = " unless a rebuild is through by then" if survived else ""
            yield (
                f"{workload.label} on {target.label}: of a leg {failing} fail, and {bound}: "
                f"all its data are lost{hope}"
            )


def _most_failures(faults: Sequence[Failure]) -> int:
    """Return how many drives of one leg fail, of that leg of which the most do."""
    failing = [fault.leg for fault in faults if fault.fault == "fail"]
    return max(map(failing.count, failing), default=0)
