"""Finding ``redundancy_window``: how long one more failure would have lost data."""

from __future__ import annotations

from typing import Final

from seatrial.findings.context import Context
from seatrial.findings.rule import from_samples
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_size
from seatrial.trials.layouts.analysis.model import Recovery, layouts_of
from seatrial.trials.layouts.analysis.narrative import window_words

YEARLY_SHARE: Final = 0.01
"""Of drives that fail in a year, to have a scale; published rates of fleets are about that."""
_YEAR_S: Final = 365.25 * 86_400
_NS_PER_S: Final = 1e9


@from_samples(rank=340, section="Of layouts", sees_faults=True)
def redundancy_window(context: Context) -> list[Finding]:
    """Find arrays that were without redundancy, one finding for each layout, its longest time.

    Means:
        For so long one more failure would have lost the array.

    Decided:
        As long as so many drives of a leg were missing as the level survives: two of RAID6; the
        longest of a layout's cells. Note. The chance in the evidence takes 1 % of drives to fail in
        a year, each on its own; drives of one batch, firmware and power supply do not fail on their
        own, and the true chance is larger.

    Do:
        A hot spare, a faster rebuild, or a level that survives one loss more.
    """
    recoveries = analysis.recoveries if (analysis := layouts_of(context)) else []
    exposed = [each for each in recoveries if each.exposed and not each.array_failed_count]
    by_target: dict[str, Recovery] = {}
    for each in exposed:
        known = by_target.get(each.variant.target)
        if known is None or _window_s(each) > _window_s(known):
            by_target[each.variant.target] = each
    return [_finding(each, exposed) for each in by_target.values() if _window_s(each) > 0]


def _window_s(recovery: Recovery) -> float:
    closed_s = recovery.window.value / _NS_PER_S if recovery.window else 0.0
    return max(closed_s, recovery.window_open_s or 0.0)


def _finding(recovery: Recovery, exposed: list[Recovery]) -> Finding:
    target = recovery.variant.target
    others = _drives_of_leg(recovery) - max(1, recovery.variant.losses_survived)
    window_s = _window_s(recovery)
    chance = others * YEARLY_SHARE * window_s / _YEAR_S
    return Finding(
        kind="redundancy_window",
        severity="note",
        cells=[each.cell.identity() for each in exposed if each.variant.target == target],
        sentence=(
            f"{target} was without redundancy for {window_words(recovery)}: one more failure "
            f"among {_left(others)} meanwhile {_loss(recovery)}."
        ),
        cause=_cause(recovery),
        evidence={
            "window_s": window_s,
            "has_ended": recovery.window_open_s is None,
            "at_stake_bytes": recovery.at_stake_bytes,
            "other_drives_count": others,
            "assumed_failures_yearly_share": YEARLY_SHARE,
            "second_failure_chance": chance,
        },
        next=(
            "Keep a hot spare, so that the window begins to close at once, and let the rebuild be "
            "as fast as the service bears (rebuild_limit_kib_per_s as a list shows the price). "
            "The chance in the evidence is of drives that fail independently; those of one batch "
            "and firmware do not."
        ),
    )


def _drives_of_leg(recovery: Recovery) -> int:
    """Return how many drives a loss must come from: those of one leg."""
    variant = recovery.variant
    legs = int(variant.factors["legs"]) if variant.target == variant.label else 1
    return variant.drives // max(1, legs)


def _left(others: int) -> str:
    return "the other drive" if others == 1 else f"the {others} other drives"


def _loss(recovery: Recovery) -> str:
    whole = f"all {format_size(recovery.at_stake_bytes)} on it"
    if recovery.variant.factors["level"] == "raid10":
        return f"could have lost {whole}: it does if it is the drive with the other copy"
    return f"would have lost {whole}"


def _cause(recovery: Recovery) -> str:
    if not int(recovery.variant.factors["spares"]):
        return "It has no spare: until somebody replaces the drive nothing is rebuilt."
    return "Until the spare holds everything, each of the other drives is needed."
