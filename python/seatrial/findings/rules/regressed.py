"""Finding ``regressed``: one side of a comparison is surely worse than the measure."""

from __future__ import annotations

from seatrial.findings.comparing import Change, severity
from seatrial.findings.rule import from_comparison
from seatrial.stats.compare.model import Comparison
from seatrial.stats.model import Finding


@from_comparison(rank=690, section="Against another run or target")
def regressed(comparison: Comparison) -> list[Finding]:
    """Find rates that surely are lower on B, and latencies that surely are higher.

    Means:
        B is surely worse than A, the measure: fewer requests a second, or a higher p50 or p99, over
        all common cells together or in some of them.

    Decided:
        The adjusted p value of the overall ratio or of a cell is at most 5 %, and the ratio is not
        within what an A/A pair shows. Warning where the largest such ratio is beyond the margin of
        sameness (5 % unless `--margin` says otherwise), else note. The likely reasons are the
        differences of the two fingerprints.

    Do:
        Undo one difference at a time and measure again, both states as targets of one study where
        that is possible; `--fail-if-slower` makes a check of it.
    """
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
