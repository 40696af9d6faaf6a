"""The part of a verdict on all layouts: the fastest for each use, and effects of failures."""

from __future__ import annotations

from collections.abc import Sequence

from seatrial.findings.model import Summary
from seatrial.findings.verdict import Overview, VerdictPart
from seatrial.stats.model import CellSummary
from seatrial.trials.layouts.analysis.figures import best_phrase, recovery_phrases, worst_recovery
from seatrial.trials.layouts.analysis.model import LayoutAnalysis, layouts_of


def verdict_line(summary: Summary) -> str:
    """Return what failures did, else which layout is best for the first use; empty for neither."""
    layouts = layouts_of(summary)
    if layouts is None:
        return ""
    return worst_recovery(layouts.recoveries) or next(iter(best_phrase(layouts)), "")


def overview(cells: Sequence[CellSummary], layouts: LayoutAnalysis) -> Overview:
    """Return the fastest layout for each use, and the effects of failures."""
    best = {each.target for each in layouts.best}
    broken = {each.cell.key for each in layouts.recoveries}
    of_best = tuple(c for c in cells if c.cell.target in best and c.cell.key not in broken)
    of_broken = tuple(c for c in cells if c.cell.key in broken)
    parts = [VerdictPart(words, of_best) for words in best_phrase(layouts)]
    parts += [VerdictPart(words, of_broken) for words in recovery_phrases(layouts.recoveries)]
    return Overview(parts, is_whole=bool(layouts.best))
