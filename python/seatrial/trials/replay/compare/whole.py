"""What the average is of: rounds in which both sides are whole, queries that ran in all of them.

A round in which the server took no connection is no measurement of either side. One that lacks
queries with more than a twentieth of the time is left out, of both sides where they are compared
round by round; of fewer, these queries leave the average. Both are told with their time.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from collections.abc import Set as AbstractSet

import msgspec

from seatrial.stats.wording import format_share
from seatrial.trials.replay.compare.entered import Entrant, Unit
from seatrial.trials.replay.compare.model import CallFigures, When

LACKING_MAX = 0.05
"""Of a side's time, that a round may lack."""
FAILED_MAX = 0.5
"""Of a query's calls, that may fail in a round beyond what fails in the usual one."""
BROKEN_MAX = 0.5
"""Of the rounds, that may be left out as broken; of more, only those without anything are."""


Shares = dict[int, float]
"""Of the side's time, what is lacking, by the round's number."""


def only_whole(
    before: Entrant, after: Entrant, *, paired: bool
) -> tuple[Entrant, Entrant, list[str]]:
    """Return both sides without broken rounds, and what was left out, as sentences.

    Args:
        before: The measure.
        after: What is judged.
        paired: Whether rounds are compared one by one: then both sides lose the same.
    """
    common = _keys(before) & _keys(after)
    broken = [_broken(side, common) for side in (before, after)]
    numbers = [set(each) for each in broken]
    also = ""
    if paired:
        numbers = [numbers[0] | numbers[1]] * 2
        also = ", and of the other side as well"
    kept = [
        msgspec.structs.replace(side, units=units)
        if (units := [unit for unit in side.units if unit.number not in own])
        else side
        for side, own in zip((before, after), numbers, strict=True)
    ]
    reported = [
        f"Round {number + 1} of {side.name} is left out{also}: queries with {format_share(share)} "
        "of the time did not run in it, or failed."
        for side, of, kept_side in zip((before, after), broken, kept, strict=True)
        if kept_side is not side
        for number, share in sorted(of.items())
    ]
    return kept[0], kept[1], reported


def whole_rounds(side: Entrant, key: str) -> dict[int, CallFigures]:
    """Return a query's sums by round, of those in which it took time and failed as ever."""
    found = {
        unit.number: measured
        for unit in side.units
        if (measured := unit.measured.get(key)) and measured.calls > 0 and measured.total_s > 0
    }
    if not found:
        return {}
    usual = statistics.median(map(failed_share, found.values()))
    return {
        number: each for number, each in found.items() if failed_share(each) <= usual + FAILED_MAX
    }


def failed_share(measured: CallFigures) -> float:
    """Return the share of calls that failed."""
    return min(1.0, measured.errors / measured.calls) if measured.calls else 0.0


def failing(before: CallFigures, after: CallFigures, margin_share: float) -> When | None:
    """Return on which side so many more of the calls failed that it may pass for a difference.

    What fails at once takes no time: a share of failures takes as much off the mean at most.

    Args:
        before: On the average of the units.
        after: Likewise.
        margin_share: A difference of less is no difference.
    """
    more = failed_share(after) - failed_share(before)
    if abs(more) <= margin_share:
        return None
    return "after" if more > 0 else "before"


def _keys(side: Entrant) -> set[str]:
    return {key for unit in side.units for key, each in unit.measured.items() if each.total_s > 0}


def _broken(side: Entrant, keys: AbstractSet[str]) -> Shares:
    """Return the rounds of a side that lack much of what both sides have."""
    if len(side.units) < 2 or not keys:
        return {}
    rounds = {key: whole_rounds(side, key) for key in keys}
    usual_s = {
        key: statistics.fmean(each.total_s for each in own.values()) for key, own in rounds.items()
    }
    whole_s = math.fsum(usual_s.values())
    lacking = {unit.number: _lacking_s(unit, rounds, usual_s) / whole_s for unit in side.units}
    found = {number: share for number, share in lacking.items() if share > LACKING_MAX}
    if len(found) > BROKEN_MAX * len(side.units):
        return {number: share for number, share in found.items() if share >= 1 - LACKING_MAX}
    return found


def _lacking_s(
    unit: Unit, rounds: Mapping[str, Mapping[int, CallFigures]], usual_s: Mapping[str, float]
) -> float:
    return math.fsum(usual_s[key] for key, own in rounds.items() if unit.number not in own)
