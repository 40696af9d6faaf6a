"""Finding ``rebuild_unfinished``: a rebuild had not ended when the array was last looked at."""

from __future__ import annotations

from seatrial.findings.context import Context
from seatrial.findings.rule import from_samples
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_cell, format_duration_s, format_plural, format_share
from seatrial.trials.layouts.analysis.model import layouts_of


@from_samples(rank=330, section="Of layouts", sees_faults=True)
def rebuild_unfinished(context: Context) -> list[Finding]:
    """Find rebuilds whose end was not seen, all cells merged.

    Means:
        A rebuild had not ended when the array was last looked at, so that its time is not known.

    Decided:
        A rebuild began and no end was seen, under load or in the wait after it. Warning.

    Do:
        Longer samples, less of each drive (`member_size`), a higher limit. Time grows with the
        drives' size.
    """
    recoveries = analysis.recoveries if (analysis := layouts_of(context)) else []
    open_ones = [each for each in recoveries if each.unfinished_count]
    if not open_ones:
        return []
    first = max(open_ones, key=lambda each: each.window_open_s or 0.0)
    count = sum(each.unfinished_count for each in open_ones)
    share = first.unfinished_share
    done = f", {format_share(share)} done when the load ended" if share is not None else ""
    lasted = f" after {format_duration_s(first.window_open_s)}" if first.window_open_s else ""
    return [
        Finding(
            kind="rebuild_unfinished",
            severity="warning",
            cells=[each.cell.identity() for each in open_ones],
            sentence=(
                f"{format_plural(count, 'rebuild')} had not ended{lasted} in "
                f"{format_cell(first.cell)}{done}: how long the array is without redundancy is "
                "not known, only that it is longer."
            ),
            cause=(
                "The load kept the drives busy, the limit of rebuilding is low, another drive "
                "failed meanwhile, or the drives are large."
            ),
            evidence={
                "rebuilds_count": count,
                "open_s_max": first.window_open_s,
                "done_share": share,
                "rebuild_limit_kib_per_s": first.rebuild_limit_kib_per_s,
            },
            next=(
                "Measure longer samples, a smaller part of the drives (member_size), or a higher "
                "rebuild_limit_kib_per_s; time grows with the drives' size."
            ),
        )
    ]
