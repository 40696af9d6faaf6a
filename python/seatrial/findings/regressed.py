"""Finding ``regressed``: one side of a comparison is surely worse than the measure."""

from __future__ import annotations

from seatrial.findings.comparing import Change, severity
from seatrial.stats.compare.model import Comparison
from seatrial.stats.model import Finding


def regressed(comparison: Comparison) -> list[Finding]:
    """Find rates that surely are lower on B, and latencies that surely are higher."""
    change = Change(comparison, is_worse=True)
    if not change.cells and not change.overall:
        return []
    return [
        Finding(
            kind="regressed",
            severity=severity(change),
            cells=change.identities(),
            sentence=change.sentence(),
            cause=change.cause(),
            evidence=change.evidence(),
            next=(
                "Undo one of the differences at a time and measure again, both states as targets "
                "of one study where that is possible, so that rounds interleave; then "
                "'seatrial compare' says whether it was that one."
            ),
        )
    ]
