"""Finding ``redundancy_window``: how long the array had no redundancy."""

from __future__ import annotations

from typing import Annotated, Final

from seatrial.findings.context import Context
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_size
from seatrial.trials.layouts.analysis.figures import window_phrase
from seatrial.trials.layouts.analysis.model import Recovery, layouts_of

YEARLY_SHARE: Final = 0.01
"""Assumed annual failure rate of drives; published rates of fleets are about this."""
_YEAR_S: Final = 365.25 * 86_400


@from_samples(rank=340, section="Layouts", sees_faults=True)
def redundancy_window(context: Context) -> list[Finding]:
    """Find arrays that were without redundancy, one finding per layout with the longest time.

    Means:
        During this time, one more drive failure would have destroyed the array.

    Decided:
        The time during which as many drives of a leg were missing as the level tolerates (two for
        RAID6); the longest over the tests of a layout. Note. The probability in the evidence
        assumes independent failures and an annual failure rate of 1 %. Drives of one batch,
        firmware and power supply do not fail independently, so the true probability is higher.

    Do:
        Use a hot spare, a faster rebuild, or a level that tolerates one more failure.
    """
    recoveries = analysis.recoveries if (analysis := layouts_of(context)) else []
    exposed = [each for each in recoveries if each.exposed and not each.array_failed_count]
    by_target: dict[str, Recovery] = {}
    for each in exposed:
        known = by_target.get(each.variant.target)
        if known is None or each.window_s > known.window_s:
            by_target[each.variant.target] = each
    return [_finding(each, exposed) for each in by_target.values() if each.window_s > 0]


class RedundancyWindowFigures(Figures, frozen=True, kw_only=True, tag="redundancy_window"):
    window_s: float
    has_ended: bool
    at_stake_bytes: int
    other_drives_count: int
    assumed_failures_yearly_share: float
    second_failure_chance: float
    target: Annotated[str, HIDDEN]
    recovery: Annotated[Recovery, HIDDEN]

    def text(self) -> FindingText:
        return FindingText(
            sentence=(
                f"{self.target} was without redundancy for {window_phrase(self.recovery)}: in this "
                f"time one more failure among {_left(self.other_drives_count)} "
                f"{_loss(self.recovery)}."
            ),
            cause=_cause(self.recovery),
            next=(
                "Use a hot spare, so that the rebuild starts at once, and rebuild as fast as the "
                "service tolerates (a list of rebuild_limit_kib_per_s shows the trade-off). The "
                "probability in the evidence assumes independent failures; drives of one batch and "
                "firmware do not fail independently."
            ),
        )


def _finding(recovery: Recovery, exposed: list[Recovery]) -> Finding:
    target = recovery.variant.target
    others = _drives_of_leg(recovery) - max(1, recovery.variant.losses_survived)
    chance = others * YEARLY_SHARE * recovery.window_s / _YEAR_S
    return Finding(
        severity="note",
        cells=[each.cell.identity() for each in exposed if each.variant.target == target],
        figures=RedundancyWindowFigures(
            window_s=recovery.window_s,
            has_ended=recovery.window_open_s is None,
            at_stake_bytes=recovery.at_stake_bytes,
            other_drives_count=others,
            assumed_failures_yearly_share=YEARLY_SHARE,
            second_failure_chance=chance,
            target=target,
            recovery=recovery,
        ),
    )


def _drives_of_leg(recovery: Recovery) -> int:
    """Return the number of drives of one leg."""
    variant = recovery.variant
    legs = int(variant.factors["legs"]) if variant.target == variant.label else 1
    return variant.drives // max(1, legs)


def _left(others: int) -> str:
    return "the other drive" if others == 1 else f"the {others} other drives"


def _loss(recovery: Recovery) -> str:
    whole = f"all {format_size(recovery.at_stake_bytes)} on it"
    if recovery.variant.factors["level"] == "raid10":
        return f"could have destroyed {whole} (if the drive had the other copy)"
    return f"would have destroyed {whole}"


def _cause(recovery: Recovery) -> str:
    if not int(recovery.variant.factors["spares"]):
        return "There is no spare: the rebuild starts only after the drive has been replaced."
    return "All other drives are needed until the rebuild onto the spare is complete."
