"""What two measurements of one and the same thing differ by, told as a factor of at least 1.

The usual floors are those of whole runs, identical ones of pgbench on a busy machine (30 runs;
rates with a coefficient of variation of 19 %, docs/method.md): of single runs that are far apart 98
of 100 pairs are within a factor of 1.9, of several runs against the next as many within 1.5. Runs
of less than the 6 s that those had differ by more, as they average less: by the fourth root of the
time on the scale of logarithms, for what drifts slowly is not averaged at all. Who has measured
the machine's own noise, by another measurement of before, may know better, as far as one pair can
tell: 95 of 100 pairs are within that pair's distance times Student's t of one degree of freedom.
Never less counts than what the halves of one and the same capture differ by. A single query's own
scatter, which it shows by its interval, comes on top (settled.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from seatrial.stats.student import t_of
from seatrial.trials.replay.compare.entered import CallTimeline, Entrant, Unit
from seatrial.trials.replay.compare.model import Basis, Floor
from seatrial.trials.replay.compare.sums import Sums, summed

USUAL = {"once": 1.9, "in_sequence": 1.5, "interleaved": 1.0}
USUAL_RUN_S = 6.0
SHORTEST_S = 0.05
CALLS_OF_A_HALF_MIN = 50
QUERIES_BELOW = 0.95


def floor_of(
    sides: Sequence[Entrant], basis: Basis, pair: tuple[Entrant, Entrant] | None
) -> Floor | None:
    """Return what counts as noise; None where rounds were in turns and nothing is known.

    Args:
        sides: Before and after.
        basis: What verdicts rest on.
        pair: Before, and before measured once more.
    """
    halves = [found for side in sides if (found := _halves_of(side))]
    of_all = max((whole for whole, _ in halves), default=None)
    of_query = max((query for _, query in halves), default=None)
    if pair is None and basis == "interleaved" and of_all is None:
        return None
    source, name = ("pair", pair[1].name) if pair else ("usual", "")
    whole, query = _of_pair(pair, basis, sides) if pair else _usual(basis, sides)
    if pair is None and basis == "interleaved":
        source = "halves"
    elif basis != "interleaved":
        # Halves of one capture are nearer to each other than captures are.
        whole, query = max(whole, of_all or 1.0), max(query, of_query or 1.0)
    return Floor(
        source=source,  # type: ignore[arg-type]  # one of the three
        name=name,
        overall=whole,
        query=query,
        halves_overall=of_all,
        halves_query=of_query,
    )


def overruling(floor: Floor | None, basis: Basis) -> tuple[float, float]:
    """Return the factors, overall and of a query, below which nothing is called different.

    Interleaved rounds know their own noise; halves of them say it once more, less sharply.
    """
    if floor is None or (basis == "interleaved" and floor.source != "pair"):
        return 1.0, 1.0
    return floor.overall, floor.query


def usual(basis: Basis, covered_s: float) -> float:
    """Return what measurements of the same usually differ by, as a factor.

    Args:
        basis: What verdicts rest on.
        covered_s: The time that the shorter side covers.
    """
    shorter = USUAL_RUN_S / max(covered_s, SHORTEST_S)
    return math.exp(math.log(USUAL[basis]) * max(1.0, shorter) ** 0.25)


def _usual(basis: Basis, sides: Sequence[Entrant]) -> tuple[float, float]:
    """Return the usual factors, overall and of a query; its own scatter is not in them."""
    factor = usual(basis, _shortest_s(sides))
    return factor, factor


def _shortest_s(sides: Sequence[Entrant]) -> float:
    """Return the time that the shortest side covers."""
    return min(math.fsum(map(_covered_s, side.units)) for side in sides)


def _covered_s(unit: Unit) -> float:
    """Return the time that a unit covers: that of its calls, where no more is known within it."""
    busy_s = math.fsum(each.total_s for each in unit.measured.values())
    if unit.covered_s is None:
        return busy_s
    return unit.covered_s if unit.timeline else min(unit.covered_s, busy_s)


def _of_pair(
    pair: tuple[Entrant, Entrant], basis: Basis, sides: Sequence[Entrant]
) -> tuple[float, float]:
    """Return what an A/A pair supports, overall and of a query."""
    whole, query = _distances(*(summed(side.units) for side in pair))
    if basis == "interleaved":
        return math.exp(whole), math.exp(query)
    usually = math.log(usual(basis, _shortest_s([*pair, *sides])))
    supported = max(whole, min(usually, t_of(1) * whole))
    return math.exp(supported), math.exp(max(supported, query))


def _halves_of(side: Entrant) -> tuple[float, float] | None:
    """Return what the halves of a side differ by, overall and of a query; None if too few."""
    if len(side.units) > 1:
        even = len(side.units) // 2 * 2
        ordered = sorted(side.units, key=lambda unit: unit.number)[:even]
        first, second = (summed(ordered[half::2]) for half in (0, 1))
        # Half of the rounds scatter wider by the square root of two than all of them.
        whole, query = _distances(first, second)
        return math.exp(whole / math.sqrt(2)), math.exp(query / math.sqrt(2))
    timeline = side.units[0].timeline
    if timeline is None or timeline.slices < 2:
        return None
    middle = timeline.slices // 2
    first = _of_slices(timeline, 0, middle)
    second = _of_slices(timeline, timeline.slices - middle, timeline.slices)
    whole, query = _distances(first, second)
    return math.exp(whole), math.exp(query)


def _of_slices(timeline: CallTimeline, begin: int, end: int) -> Sums:
    def within(values: Mapping[int, float]) -> float:
        return math.fsum(value for place, value in values.items() if begin <= place < end)

    return {
        key: (within(calls), within(timeline.total_s[key])) for key, calls in timeline.calls.items()
    }


def _distances(a: Sums, b: Sums) -> tuple[float, float]:
    """Return how far the logarithms of mean times are apart, overall and for 95 % of queries."""
    logs, weights_s = [], [0.0, 0.0]
    for key in a.keys() & b.keys():
        (calls_a, total_a_s), (calls_b, total_b_s) = a[key], b[key]
        if min(calls_a, calls_b) < 1 or min(total_a_s, total_b_s) <= 0:
            continue
        mean_a_s, mean_b_s = total_a_s / calls_a, total_b_s / calls_b
        weights_s[0] += total_a_s
        weights_s[1] += calls_a * mean_b_s
        if min(calls_a, calls_b) >= CALLS_OF_A_HALF_MIN:
            logs.append(abs(math.log(mean_b_s / mean_a_s)))
    whole = abs(math.log(weights_s[1] / weights_s[0])) if min(weights_s) > 0 else 0.0
    logs.sort()
    place = min(len(logs) - 1, math.ceil(QUERIES_BELOW * len(logs)) - 1)
    return whole, max(whole, logs[place]) if logs else whole
