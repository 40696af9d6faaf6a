"""Finding ``rebuild_dips``: what a missing drive and its rebuild cost the service."""

from __future__ import annotations

from typing import Final

from seatrial.findings.context import Context
from seatrial.findings.rule import from_samples
from seatrial.stats.model import Finding
from seatrial.stats.wording import (
    format_cell,
    format_duration_s,
    format_estimate,
    format_plural,
    format_share,
    format_value,
)
from seatrial.trials.layouts.analysis.model import PhaseFigures, Recovery, layouts_of

SHARE_MAX: Final = 0.9
SHARE_ONCE_MAX: Final = 0.7
"""Of one round, whose scatter is not known."""
SHARE_WARNING: Final = 0.5
STALL_WARNING_S: Final = 1.0
_WHEN: Final = {
    "rebuild": "while the array was rebuilt",
    "degraded": "while a drive was missing",
    "scrub": "while the array was scrubbed",
}


@from_samples(rank=350, section="Of layouts", sees_faults=True)
def rebuild_dips(context: Context) -> list[Finding]:
    """Find cells that surely did a tenth less while a drive was missing; all merged.

    Means:
        While a drive was missing, an array was rebuilt or scrubbed, the service was slower.

    Decided:
        The rate of that phase over the rate before it, by round, is surely below 90 % (below 70 %
        of a single round). Warning where it is below half or nothing completed for a second; else
        note. The slowest second is an extreme and grows more extreme the longer one looks; that of
        the time before is in the evidence.

    Do:
        Limit the rebuild, with `rebuild_limit_kib_per_s` as a list to see the price of each limit.
    """
    recoveries = analysis.recoveries if (analysis := layouts_of(context)) else []
    reported = [(each, phase) for each in recoveries if (phase := _worst_phase(each))]
    if not reported:
        return []
    worst, phase = min(reported, key=lambda pair: _share(pair[1]))
    return [
        Finding(
            kind="rebuild_dips",
            severity="warning" if any(_is_grave(*pair) for pair in reported) else "note",
            cells=[each.cell.identity() for each, _ in reported],
            sentence=_sentence(worst, phase, len(reported)),
            cause=_CAUSES[phase.phase],
            evidence={
                "cells_count": len(reported),
                "worst_cell": worst.cell.key,
                "phase": phase.phase,
                "rate_ratio": _share(phase),
                "rate_ratio_high": phase.share.high if phase.share else None,
                "lowest_second_share": worst.lowest_share,
                "lowest_second_before_share": worst.lowest_share_before,
                "longest_stall_s": worst.longest_stall_s,
                "failed_count": sum(each.failed_count for each, _ in reported),
            },
            next=(
                "Limit the rebuild (md: speed_limit_max, in a study rebuild_limit_kib_per_s as a "
                "list) and read off what the service gains and the window without redundancy "
                "loses."
            ),
        )
    ]


_CAUSES: Final = {
    "rebuild": (
        "To rebuild a drive all others are read whole beside the load, and what the missing one "
        "held is computed from them for each request."
    ),
    "degraded": (
        "What the missing drive held is computed from all others, so that one read becomes as many "
        "as there are drives left."
    ),
    "scrub": "A scrub reads all drives whole beside the load.",
}


def _worst_phase(recovery: Recovery) -> PhaseFigures | None:
    """Return the phase that surely lost most; None where none surely lost a tenth."""
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
    where = where if count == 1 else f"the worst of {format_plural(count, 'cell')} ({where})"
    reported = f"{where} did {format_estimate(phase.share)} of its rate" if phase.share else where
    before = worst.phase("before")
    tail = ""
    if phase.p99 and before and before.p99:
        tail = f", with p99 {format_value(phase.p99)} against {format_value(before.p99)}"
    lowest = ""
    if worst.lowest_share is not None:
        lowest = f"; its slowest second did {format_share(worst.lowest_share)}"
    stall = ""
    if worst.longest_stall_s:
        stall = f", nothing completed for up to {format_duration_s(worst.longest_stall_s)}"
    when = _WHEN[phase.phase]
    return f"{when[0].upper()}{when[1:]}, {reported} before{tail}{lowest}{stall}."
