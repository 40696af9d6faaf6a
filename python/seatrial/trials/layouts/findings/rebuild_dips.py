"""Finding ``rebuild_dips``: service degradation while a drive is missing or being rebuilt."""

from __future__ import annotations

from typing import Annotated, Final

from seatrial.findings.context import Context
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import (
    format_cell,
    format_duration_s,
    format_estimate,
    format_plural,
    format_share,
    format_value,
)
from seatrial.study.layouts.layout import LEVELS
from seatrial.trials.layouts.analysis.model import PhaseFigures, PhaseName, Recovery, layouts_of

SHARE_MAX: Final = 0.9
SHARE_ONCE_MAX: Final = 0.7
"""For a single round, whose variance is unknown."""
SHARE_WARNING: Final = 0.5
STALL_WARNING_S: Final = 1.0
_WHEN: Final = {
    "rebuild": "during the rebuild",
    "degraded": "while a drive was missing",
    "scrub": "during the scrub",
}


class RebuildDipsFigures(Figures, frozen=True, kw_only=True, tag="rebuild_dips"):
    cells_count: int
    worst_cell: str
    phase: PhaseName
    rate_ratio: float
    rate_ratio_high: float | None
    lowest_second_share: float | None
    lowest_second_before_share: float | None
    longest_stall_s: float
    failed_count: int
    worst: Annotated[Recovery, HIDDEN]
    phase_figures: Annotated[PhaseFigures, HIDDEN]

    def text(self) -> FindingText:
        return FindingText(
            sentence=_sentence(self.worst, self.phase_figures, self.cells_count),
            cause=_cause(self.worst, self.phase),
            next=(
                "Limit the rebuild speed (md: speed_limit_max; in a study a list of "
                "rebuild_limit_kib_per_s) to see the trade-off between service and time without "
                "redundancy."
            ),
        )


@from_samples(rank=350, section="Layouts", sees_faults=True)
def rebuild_dips(context: Context) -> list[Finding]:
    """Find cells with a significant drop of 10 % while a drive was missing; all merged.

    Means:
        The array was slower while a drive was missing or while it was rebuilt or scrubbed.

    Decided:
        The rate in that phase relative to the rate before it, by round, is significantly below 90 %
        (below 70 % for a single round). Warning if it is below half or nothing completed for a
        second; otherwise note. The slowest second is an extreme value that falls with observation
        time; the evidence has the slowest second before the fault for comparison.

    Do:
        Limit the rebuild speed; a list of `rebuild_limit_kib_per_s` shows the cost of each limit.
    """
    recoveries = analysis.recoveries if (analysis := layouts_of(context)) else []
    dips = [(each, phase) for each in recoveries if (phase := _worst_phase(each))]
    if not dips:
        return []
    worst, phase = min(dips, key=lambda pair: _share(pair[1]))
    return [
        Finding(
            severity="warning" if any(_is_grave(*pair) for pair in dips) else "note",
            cells=[each.cell.identity() for each, _ in dips],
            figures=RebuildDipsFigures(
                cells_count=len(dips),
                worst_cell=worst.cell.key,
                phase=phase.phase,
                rate_ratio=_share(phase),
                rate_ratio_high=phase.share.high if phase.share else None,
                lowest_second_share=worst.lowest_share,
                lowest_second_before_share=worst.lowest_share_before,
                longest_stall_s=worst.longest_stall_s,
                failed_count=sum(each.failed_count for each, _ in dips),
                worst=worst,
                phase_figures=phase,
            ),
        )
    ]


_CAUSES: Final = {
    "rebuild": (
        "A rebuild reads all other drives completely in addition to the load, and requests for "
        "data of the missing drive are reconstructed from all others."
    ),
    "degraded": (
        "Data of the missing drive are reconstructed from all others, so one read becomes a read "
        "from every remaining drive."
    ),
    "scrub": "A scrub reads all drives completely in addition to the load.",
}
_CAUSES_OF_COPIES: Final = {
    "rebuild": (
        "A rebuild reads the other copy completely in addition to the load, and fewer drives serve "
        "the reads."
    ),
    "degraded": "Reads of the data of the missing drive go to the drives with the other copies.",
}


def _cause(recovery: Recovery, phase: PhaseName) -> str:
    if phase == "degraded" and not recovery.variant.losses_survived:
        return "Requests for data of the missing drive fail."
    has_parity = LEVELS[str(recovery.variant.factors["level"])].parity_members > 0
    return _CAUSES[phase] if has_parity else (_CAUSES | _CAUSES_OF_COPIES)[phase]


def _worst_phase(recovery: Recovery) -> PhaseFigures | None:
    """Return the phase with the largest significant drop; None if no drop reaches 10 %."""
    known = [each for each in recovery.phases if each.phase in _WHEN and each.share]
    return min((each for each in known if _is_reported(each)), key=_share, default=None)


def _is_reported(phase: PhaseFigures) -> bool:
    share = phase.share
    if share is None:
        return False
    if share.rounds < 2 or share.high is None:
        return share.value < SHARE_ONCE_MAX
    return share.high < SHARE_MAX


def _share(phase: PhaseFigures) -> float:
    return phase.share.value if phase.share else 1.0


def _is_grave(recovery: Recovery, phase: PhaseFigures) -> bool:
    return _share(phase) < SHARE_WARNING or recovery.longest_stall_s >= STALL_WARNING_S


def _sentence(worst: Recovery, phase: PhaseFigures, count: int) -> str:
    where = format_cell(worst.cell)
    where = where if count == 1 else f"{where} (worst of {format_plural(count, 'test')})"
    reached = f"{format_estimate(phase.share)} of " if phase.share else ""
    before = worst.phase("before")
    tail = ""
    if phase.p99 and before and before.p99:
        tail = f", with p99 {format_value(phase.p99)} ({format_value(before.p99)} before)"
    lowest = ""
    if worst.lowest_share is not None:
        lowest = f"; slowest second {format_share(worst.lowest_share)}"
    stall = ""
    if worst.longest_stall_s:
        stall = f"; longest stall {format_duration_s(worst.longest_stall_s)}"
    return f"{where} reached {reached}its rate {_WHEN[phase.phase]}{tail}{lowest}{stall}."
