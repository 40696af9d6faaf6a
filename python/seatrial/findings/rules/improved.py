"""Finding ``improved``: one side of a comparison is surely better than the measure."""

from __future__ import annotations

from seatrial.findings.comparing import Change
from seatrial.findings.rule import from_comparison
from seatrial.stats.compare.model import Comparison
from seatrial.stats.model import Finding


@from_comparison(rank=700, section="Against another run or target")
def improved(comparison: Comparison) -> list[Finding]:
    """Find rates that surely are higher on B, and latencies that surely are lower.

    Means:
        B is surely better than A, as `regressed` with the sign turned. Both can hold of one
        comparison: faster reads, slower writes.

    Decided:
        As `regressed`. Note.

    Do:
        See that it was not bought with safety: a cache that answers before the data are kept,
        barriers that are off, a smaller file.
    """
    change = Change(comparison, is_worse=False)
    if not change.cells and not change.overall:
        return []
    return [
        Finding(
            kind="improved",
            severity="note",
            cells=change.identities(),
            sentence=change.sentence(),
            cause=change.cause(),
            evidence=change.evidence(),
            next=(
                "Make sure that nothing was given away for it: look at the findings of both runs "
                "('seatrial show') for caches that answered in place of the device, and at the "
                "latencies of writes and commits."
            ),
        )
    ]
