"""Finding ``improved``: B is significantly better than A, the baseline."""

from __future__ import annotations

from seatrial.findings.comparing import ChangeFigures, changes
from seatrial.findings.rule import from_comparison
from seatrial.stats.compare.model import Comparison
from seatrial.stats.model import Finding, FindingText


class ImprovedFigures(ChangeFigures, frozen=True, kw_only=True, tag="improved"):
    def text(self) -> FindingText:
        return FindingText(
            sentence=self.sentence(),
            cause=self.cause(),
            next=(
                "Check that safety was not traded for it: read the findings of both runs "
                "('seatrial show') for caches that served requests instead of the device, and "
                "compare the latencies of writes and commits."
            ),
        )


@from_comparison(rank=700, section="Comparisons")
def improved(comparison: Comparison) -> list[Finding]:
    """Find rates that are significantly higher on B, and latencies significantly lower.

    Means:
        B is significantly better than A: the opposite of `regressed`. One comparison can have
        both: faster reads, slower writes.

    Decided:
        Like `regressed`. Note.

    Do:
        Check that durability was not traded for speed: a cache that acknowledges writes before
        they are durable, barriers turned off, a smaller file.
    """
    return changes(comparison, ImprovedFigures, is_worse=False)
