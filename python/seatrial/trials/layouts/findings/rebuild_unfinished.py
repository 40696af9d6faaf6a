"""Finding ``rebuild_unfinished``: a rebuild was still running at the last check."""

from __future__ import annotations

from typing import Annotated

from seatrial.findings.context import Context
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_cell, format_duration_s, format_plural, format_share
from seatrial.trials.layouts.analysis.model import Recovery, layouts_of


class RebuildUnfinishedFigures(Figures, frozen=True, kw_only=True, tag="rebuild_unfinished"):
    rebuilds_count: int
    open_s_max: float | None
    done_share: float | None
    rebuild_limit_kib_per_s: int | None
    first: Annotated[Recovery, HIDDEN]

    def text(self) -> FindingText:
        done = (
            f" ({format_share(self.done_share)} complete when the load ended)"
            if self.done_share is not None
            else ""
        )
        lasted = f" after {format_duration_s(self.open_s_max)}" if self.open_s_max else ""
        exposed = (
            ": the time without redundancy is longer than this"
            if self.open_s_max and self.first.exposed
            else ""
        )
        return FindingText(
            sentence=(
                f"{format_plural(self.rebuilds_count, 'rebuild')} did not finish{lasted} in "
                f"{format_cell(self.first.cell)}{done}{exposed}."
            ),
            cause=(
                "The load kept the drives busy, the rebuild speed limit is low, another drive "
                "failed during the rebuild, or the drives are large."
            ),
            next=(
                "Use longer samples, a smaller part of each drive (member_size), or a higher "
                "rebuild_limit_kib_per_s; rebuild time grows with drive size."
            ),
        )


@from_samples(rank=330, section="Layouts", sees_faults=True)
def rebuild_unfinished(context: Context) -> list[Finding]:
    """Find rebuilds that did not finish, all cells merged.

    Means:
        A rebuild was still running at the last check, so its duration is unknown.

    Decided:
        A rebuild started but did not finish under load or in the wait after it. Warning.

    Do:
        Use longer samples, a smaller part of each drive (`member_size`) or a higher limit. Rebuild
        time grows with drive size.
    """
    recoveries = analysis.recoveries if (analysis := layouts_of(context)) else []
    open_ones = [each for each in recoveries if each.unfinished_count]
    if not open_ones:
        return []
    first = max(open_ones, key=lambda each: each.window_open_s or 0.0)
    return [
        Finding(
            severity="warning",
            cells=[each.cell.identity() for each in open_ones],
            figures=RebuildUnfinishedFigures(
                rebuilds_count=sum(each.unfinished_count for each in open_ones),
                open_s_max=first.window_open_s,
                done_share=first.unfinished_share,
                rebuild_limit_kib_per_s=first.rebuild_limit_kib_per_s,
                first=first,
            ),
        )
    ]
