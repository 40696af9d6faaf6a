"""Which cells to measure again before anything is said of them."""

from __future__ import annotations

from collections.abc import Sequence

from seatrial.findings.summary import summarise_cell
from seatrial.results.model import Run, Sample
from seatrial.trials.audit.analysis.audit import audit_tables


def odd_keys(run: Run, samples: Sequence[Sample]) -> list[str]:
    """Return the keys of the cells that are gaps and were seen once.

    Of an imported run none: nobody here can measure it again.

    Args:
        run: The run.
        samples: What was measured so far, in any order.
    """
    by_cell: dict[str, list[Sample]] = {}
    for sample in samples:
        by_cell.setdefault(sample.cell.key, []).append(sample)
    audits = audit_tables(run, [summarise_cell(group) for group in by_cell.values()])
    return [
        key
        for audit in audits
        if not audit.table.imported
        for gap in audit.gaps
        if gap.status == "seen_once" and gap.kind != "bound_broken"
        for key in gap.keys
        if len(by_cell[key]) == 1
    ]
