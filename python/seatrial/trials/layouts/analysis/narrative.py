"""Layouts in few words: which is best for what, and what a failure did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from seatrial.stats.wording import (
    format_count,
    format_duration_s,
    format_estimate,
    format_plural,
    format_size,
)
from seatrial.trials.layouts.analysis.model import Best, LayoutAnalysis, Recovery

EQUALS_NAMED_MAX: Final = 2
RECOVERIES_TOLD_MAX: Final = 2


def best_words(found: LayoutAnalysis) -> list[str]:
    """Return which layout is best for what, a phrase for each use; none where there is one only.

    The uses for which none of many is surely best have one phrase together: who happened to be
    first is told by the table.
    """
    open_uses = [each for each in found.best if _is_open(each) and each.among == "all"]
    names = {each.use for each in open_uses}
    reported = [
        f"{_opening(each)}{_against(each)}"
        for each in found.best
        if each.use not in names and not (_is_open(each) and each.among == "redundant")
    ]
    return [*reported, *([_undecided(open_uses)] if open_uses else [])]


def _is_open(best: Best) -> bool:
    """Tell whether the first of many is not surely better than any of them."""
    return best.ratio is None and len(best.equals) > EQUALS_NAMED_MAX


def _undecided(open_uses: Sequence[Best]) -> str:
    layouts = max(len(each.equals) for each in open_uses) + 1
    uses = [_in_brackets(each.use) for each in open_uses]
    listed = " or ".join([", ".join(uses[:-1]), uses[-1]] if len(uses) > 1 else uses)
    once = all(each.figure.rounds == 1 for each in open_uses)
    why = ": each was measured once" if once else ""
    return f"none of {layouts} layouts is significantly the fastest in {listed}{why}"


def _in_brackets(use: str) -> str:
    what, _, detail = use.partition(", ")
    return f"{what} ({detail})" if detail else what


def _opening(best: Best) -> str:
    figure = format_estimate(best.figure)
    if best.among == "redundant":
        return f"of those that survive the loss of a drive {best.target} at {figure}"
    return f"{best.use}: {best.target} at {figure}"


def _against(best: Best) -> str:
    reported = ""
    if best.ratio and best.runner_up:
        reported = f", {format_estimate(best.ratio)} of {best.runner_up}"
    if not best.equals:
        return reported
    if len(best.equals) > EQUALS_NAMED_MAX:
        others = f"{format_plural(len(best.equals), 'other')}"
    else:
        others = " and ".join(best.equals)
    return f"{reported}{' and' if reported else ','} not significantly more than {others}"


def recovery_words(recoveries: Sequence[Recovery]) -> list[str]:
    """Return what failures did, a phrase for each of the first cells.

    Those that lost data, or failed requests, come before the others.
    """
    reported = sorted(recoveries, key=_gravity)[:RECOVERIES_TOLD_MAX]
    return [f"{_when(each)}, {each.cell.target} {recovery_phrase(each)}" for each in reported]


def _gravity(recovery: Recovery) -> tuple[bool, bool]:
    return not lost_words(recovery), not recovery.failed_count


def _when(recovery: Recovery) -> str:
    """Return what was done to it, as the beginning of a sentence."""
    failed = sum("failed after" in fault for fault in recovery.faults)
    if failed == len(recovery.faults) > 0:
        return "when a drive failed" if failed == 1 else f"when {failed} drives failed"
    return "when something was broken"


def recovery_phrase(recovery: Recovery) -> str:
    """Return what a failure did: ``failed 0 of 1,240 requests, did 0.4x ...``."""
    parts = [
        f"failed {format_count(recovery.failed_count)} of "
        f"{format_plural(recovery.offered_count, 'request')}"
    ]
    phase = recovery.phase("rebuild") or recovery.phase("degraded") or recovery.phase("scrub")
    if phase and phase.share:
        meanwhile = {"rebuild": "while it was rebuilt", "scrub": "while it was scrubbed"}
        when = meanwhile.get(phase.phase, "without the drive")
        parts.append(f"did {format_estimate(phase.share)} of its rate {when}")
    if recovery.rebuild_time:
        parts.append(f"was rebuilt in {format_estimate(recovery.rebuild_time)}")
    elif recovery.unfinished_count:
        parts.append("was not rebuilt by the end")
    lost = lost_words(recovery)
    parts.append(lost or _kept_words(recovery))
    return ", ".join(parts)


def lost_words(recovery: Recovery) -> str:
    """Return what was lost: ``lost 12 KiB that cannot be read``; empty for nothing.

    What the load was given wrong is told where it was right again in the end.
    """
    reported = []
    if recovery.unreadable_bytes:
        reported.append(f"{format_size(recovery.unreadable_bytes)} that cannot be read")
    if recovery.wrong_bytes:
        reported.append(f"{format_size(recovery.wrong_bytes)} that holds something else")
    if reported:
        return f"lost {' and '.join(reported)}"
    if recovery.sums_differ_count:
        rounds = format_plural(recovery.sums_differ_count, "round")
        return f"lost parts of transactions in {rounds}"
    wrong = recovery.wrong_reads
    return f"gave wrong data to {format_plural(wrong, 'read')}" if wrong else ""


def _kept_words(recovery: Recovery) -> str:
    """Return what is known of data that nothing is known to be lost of."""
    if recovery.checked_blocks:
        return "lost no data"
    known = recovery.sums_differ_count is not None
    return "kept the sums of its database" if known else "was not checked for loss"


def checked_words(recovery: Recovery) -> str:
    """Return how much was checked: ``24 MiB``, or reads where all was not read in the end."""
    if not recovery.checked_blocks and recovery.sums_differ_count is not None:
        return "those in pgbench's tables, whose sums each transaction keeps equal"
    if recovery.wrong_bytes is not None:
        return f"{format_size(recovery.checked_bytes)} that could be read and checked"
    return f"{format_plural(recovery.checked_blocks, 'read')} that were checked"


def window_words(recovery: Recovery) -> str:
    """Return how long a drive was missing: ``4.1 s (± 3 %)``, ``more than 60 s``; else empty."""
    if recovery.window_open_s is not None:
        return f"more than {format_duration_s(recovery.window_open_s)}"
    return format_estimate(recovery.window) if recovery.window else ""
