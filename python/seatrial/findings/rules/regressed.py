"""Finding ``regressed``: B is significantly worse than A, the baseline."""

from __future__ import annotations

from seatrial.findings.comparing import ChangeFigures, changes
from seatrial.findings.rule import from_comparison
from seatrial.stats.compare.model import Comparison
from seatrial.stats.model import Finding, FindingText


class RegressedFigures(ChangeFigures, frozen=True, kw_only=True, tag="regressed"):
    def text(self) -> FindingText:
        return FindingText(
            sentence=self.sentence(),
            cause=self.cause(),
            next=(
                "Revert one difference at a time and measure again, with both states as targets "
                "of one study if possible, so that rounds interleave; 'seatrial compare' then "
                "shows whether it was the cause."
            ),
        )


@from_comparison(rank=690, section="Comparisons")
def regressed(comparison: Comparison) -> list[Finding]:
    """Find rates that are significantly lower on B, and latencies significantly higher.

    Means:
        B is significantly worse than A, the baseline: fewer requests per second, or a higher p50
        or p99, over all common tests together or in some of them.

    Decided:
        The adjusted p value of the overall ratio or of a test is at most 5 %, and the ratio is
        outside the noise floor of an A/A pair; or B completed nothing in any round of a test, and A
        something in each. Warning if the largest such ratio exceeds the
        equivalence margin (`--margin`, default 5 %), otherwise note. The likely reasons are the
        differences between the two fingerprints.

    Do:
        Revert one difference at a time and measure again, with both states as targets of one study
        if possible; `--fail-if-slower` turns this into an automatic check.
    """
    return changes(comparison, RegressedFigures, is_worse=True)
