"""Finding ``array_failed``: more drives were gone than the array survives."""

from __future__ import annotations

from seatrial.findings.context import Context
from seatrial.findings.rule import from_samples
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_count, format_plural, format_size
from seatrial.trials.layouts.analysis.model import Recovery, layouts_of


@from_samples(rank=20, section="Of layouts", sees_faults=True)
def array_failed(context: Context) -> list[Finding]:
    """Find cells whose array failed, all merged.

    Means:
        More drives were gone at once than the level survives: the array itself failed.

    Decided:
        The backend said so while the sample lasted or after it. Where everything could be read
        still, it says that the array takes no more writes (md's raid10 that is told to drop an only
        copy). Critical, planned or not.

    Do:
        A level that survives one loss more, and a spare.
    """
    recoveries = analysis.recoveries if (analysis := layouts_of(context)) else []
    failed = [each for each in recoveries if each.array_failed_count]
    if not failed:
        return []
    first = failed[0]
    rounds = sum(each.array_failed_count for each in failed)
    return [
        Finding(
            kind="array_failed",
            severity="critical",
            cells=[each.cell.identity() for each in failed],
            sentence=(
                f"The array itself failed in {format_plural(rounds, 'sample')} "
                f"({first.variant.target}: {'; '.join(first.faults)}): {_lost(first)}; "
                f"{format_count(sum(each.failed_count for each in failed))} requests failed."
            ),
            cause=_cause(first),
            evidence={
                "samples_count": rounds,
                "losses_survived_count": first.variant.losses_survived,
                "at_stake_bytes": first.at_stake_bytes,
                "failed_count": sum(each.failed_count for each in failed),
                "faults": first.faults,
            },
            next=(
                "Where that must not happen take a level that survives one loss more (raid6, "
                "raid10, raidz2), and keep a spare, so that the time between two losses counts."
            ),
        )
    ]


def _lost(first: Recovery) -> str:
    """Return what of its data is gone: an array that takes no more writes may still be read."""
    whole = format_size(first.at_stake_bytes)
    is_right = first.checked_bytes > 0 and not (first.wrong_bytes or first.unreadable_bytes)
    if is_right and first.rounds == 1:
        checked = format_size(first.checked_bytes)
        return f"it takes no more writes, though all {checked} of the trial could be read still"
    return f"all {whole} on it are gone, or can be had only by hand"


def _cause(first: Recovery) -> str:
    survived = first.variant.losses_survived
    level = str(first.variant.factors["level"])
    if any("could not be" in fault for fault in first.faults):
        return (
            "A drive was to fail that held the only copy of its data: md does not let it go, and "
            "takes no writes from then on."
        )
    if survived == 0:
        return f"{level} survives no loss of a drive: it has no copy and no parity."
    return (
        f"{level} survives the loss of {format_plural(survived, 'drive')}, whichever they are; "
        "more were gone at the same time."
    )
