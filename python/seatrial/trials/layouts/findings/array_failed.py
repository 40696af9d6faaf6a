"""Finding ``array_failed``: more drives failed than the array tolerates."""

from __future__ import annotations

from typing import Annotated

from seatrial.findings.context import Context
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_count, format_plural, format_size
from seatrial.trials.layouts.analysis.model import Recovery, layouts_of


class ArrayFailedFigures(Figures, frozen=True, kw_only=True, tag="array_failed"):
    samples_count: int
    losses_survived_count: int
    at_stake_bytes: int
    failed_count: int
    faults: list[str]
    first: Annotated[Recovery, HIDDEN]

    def text(self) -> FindingText:
        return FindingText(
            sentence=(
                f"The array failed in {format_plural(self.samples_count, 'sample')} "
                f"({self.first.variant.target}: {'; '.join(self.faults)}): {_lost(self.first)}; "
                f"{format_count(self.failed_count)} requests failed."
            ),
            cause=_cause(self.first),
            next=(
                "If this is not acceptable, use a level that tolerates one more failure (raid6, "
                "raid10, raidz2), and a hot spare, so that the array is rebuilt between two "
                "failures."
            ),
        )


@from_samples(rank=20, section="Layouts", sees_faults=True)
def array_failed(context: Context) -> list[Finding]:
    """Find cells whose array failed, all merged.

    Means:
        More drives failed at once than the level tolerates: the array failed.

    Decided:
        The backend reported it during the sample or after it. If all data were still readable, the
        finding says that the array rejects writes (md raid10 when the drive with the only copy is
        failed). Critical, whether the faults were planned or not.

    Do:
        Use a level that tolerates one more failure, and a hot spare.
    """
    recoveries = analysis.recoveries if (analysis := layouts_of(context)) else []
    failed = [each for each in recoveries if each.array_failed_count]
    if not failed:
        return []
    first = failed[0]
    rounds = sum(each.array_failed_count for each in failed)
    return [
        Finding(
            severity="critical",
            cells=[each.cell.identity() for each in failed],
            figures=ArrayFailedFigures(
                samples_count=rounds,
                losses_survived_count=first.variant.losses_survived,
                at_stake_bytes=first.at_stake_bytes,
                failed_count=sum(each.failed_count for each in failed),
                faults=first.faults,
                first=first,
            ),
        )
    ]


def _lost(first: Recovery) -> str:
    """Return which data are lost: an array that rejects writes may still be readable."""
    whole = format_size(first.at_stake_bytes)
    is_right = first.checked_bytes > 0 and not (first.wrong_bytes or first.unreadable_bytes)
    if is_right and first.rounds == 1:
        checked = format_size(first.checked_bytes)
        return f"it rejects writes, but all {checked} of the trial file were still readable"
    return f"all {whole} on it are lost, or only recoverable manually"


def _cause(first: Recovery) -> str:
    survived = first.variant.losses_survived
    level = str(first.variant.factors["level"])
    if survived == 0:
        return f"{level} tolerates no drive failure: it has no copies and no parity."
    is_md = str(first.variant.factors["backend"]).startswith("md")
    if is_md and any(
        "could not be injected" in each and "(fail: " in each for each in first.faults
    ):
        return (
            "The drive to fail had the only copy of its data: md does not remove it, and rejects "
            "writes from then on."
        )
    return (
        f"{level} tolerates the failure of any {format_plural(survived, 'drive')}; more had failed "
        "at the same time."
    )
