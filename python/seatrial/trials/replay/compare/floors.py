"""Noise floors: how much two measurements of the same thing differ, as a factor of at least 1.

The usual floors come from identical runs of pgbench on a busy machine (30 runs; rates with a
coefficient of variation of 19 %, docs/method.md): 98 of 100 pairs of single runs that are far apart
are within a factor of 1.9, and as many pairs of several runs in sequence within 1.5. Runs shorter
than the 6 s of those differ more, since they average less: by the fourth root of the time on the
log scale, because slow drift is not averaged out. A second measurement of before measures the
machine's own noise, as far as one pair can: 95 of 100 pairs are within that pair's distance times
Student's t with one degree of freedom. The floor is at least the difference of the halves of one
capture. A single query's own variance, shown by its interval, is added (verdict.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from seatrial.stats.estimate import t_of
from seatrial.trials.replay.compare.model import (
    Basis,
    CallFigures,
    CallTimeline,
    Floor,
    MeasuredSide,
    Unit,
)

Sums = dict[str, tuple[float, float]]
"""Calls and their time in s, by key."""


def summed_figures(units: Iterable[Unit]) -> Sums:
    """Return calls and time of each query in all of some units."""
    found: Sums = {}
    for unit in units:
        for key, measured in unit.measured.items():
            calls, total_s = found.get(key, (0.0, 0.0))
            found[key] = (calls + measured.calls, total_s + measured.total_s)
    return found


def common_share(before: MeasuredSide, control: MeasuredSide) -> float:
    """Return the share of the time of before that is of queries which its control has as well."""
    of_before, of_control = (summed_figures(side.units) for side in (before, control))
    whole_s = math.fsum(total_s for _, total_s in of_before.values())
    common_s = math.fsum(
        total_s for key, (_, total_s) in of_before.items() if of_control.get(key, (0, 0.0))[1] > 0
    )
    return common_s / whole_s if whole_s else 0.0


def mean_figures(side: MeasuredSide, key: str) -> CallFigures:
    """Return a query's sums on the average of a side's units, those without it counted as 0."""
    figures = [unit.measured[key] for unit in side.units if key in unit.measured]
    units = len(side.units)
    return CallFigures(
        calls=math.fsum(figure.calls for figure in figures) / units,
        total_s=math.fsum(figure.total_s for figure in figures) / units,
        errors=math.fsum(figure.errors for figure in figures) / units,
    )


USUAL = {"once": 1.9, "in_sequence": 1.5, "interleaved": 1.0}
USUAL_RUN_S = 6.0
SHORTEST_S = 0.05
HALF_CALLS_MIN = 50
QUERIES_SHARE = 0.95


def floor_of(
    sides: Sequence[MeasuredSide], basis: Basis, pair: tuple[MeasuredSide, MeasuredSide] | None
) -> Floor | None:
    """Return the noise floor; None if rounds were interleaved and none is known.

    Args:
        sides: Before and after.
        basis: What verdicts are based on.
        pair: Before, and a second measurement of before.
    """
    halves = [found for side in sides if (found := _half_floors(side))]
    halves_overall = max((overall for overall, _ in halves), default=None)
    halves_query = max((query for _, query in halves), default=None)
    if pair is None and basis == "interleaved" and halves_overall is None:
        return None
    source, name = ("pair", pair[1].name) if pair else ("usual", "")
    usual = usual_floor(basis, _shortest_s(sides))
    overall, query = _control_floors(pair, basis, sides) if pair else (usual, usual)
    if pair is None and basis == "interleaved":
        source = "halves"
    elif basis != "interleaved":
        # Halves of one capture differ less than separate captures.
        overall, query = max(overall, halves_overall or 1.0), max(query, halves_query or 1.0)
    return Floor(
        source=source,  # type: ignore[arg-type]  # one of the three
        name=name,
        overall=overall,
        query=query,
        halves_overall=halves_overall,
        halves_query=halves_query,
    )


def floor_factors(floor: Floor | None, basis: Basis) -> tuple[float, float]:
    """Return the factors, overall and per query, below which nothing is significant.

    Interleaved rounds include their own noise; their halves would only repeat it less precisely.
    """
    if floor is None or (basis == "interleaved" and floor.source != "pair"):
        return 1.0, 1.0
    return floor.overall, floor.query


def usual_floor(basis: Basis, covered_s: float) -> float:
    """Return the usual difference of identical measurements, as a factor.

    Args:
        basis: What verdicts are based on.
        covered_s: The time that the shorter side covers.
    """
    shorter = USUAL_RUN_S / max(covered_s, SHORTEST_S)
    return math.exp(math.log(USUAL[basis]) * max(1.0, shorter) ** 0.25)


def _shortest_s(sides: Sequence[MeasuredSide]) -> float:
    """Return the time that the shortest side covers."""
    return min(math.fsum(map(_covered_s, side.units)) for side in sides)


def _covered_s(unit: Unit) -> float:
    """Return the time that a unit covers; the time of its calls if nothing else is known."""
    busy_s = math.fsum(each.total_s for each in unit.measured.values())
    if unit.covered_s is None:
        return busy_s
    return unit.covered_s if unit.timeline else min(unit.covered_s, busy_s)


def _control_floors(
    pair: tuple[MeasuredSide, MeasuredSide], basis: Basis, sides: Sequence[MeasuredSide]
) -> tuple[float, float]:
    """Return the floors from an A/A control, overall and per query."""
    whole, query = _distances(*(summed_figures(side.units) for side in pair))
    if basis == "interleaved":
        return math.exp(whole), math.exp(query)
    usually = math.log(usual_floor(basis, _shortest_s([*pair, *sides])))
    supported = max(whole, min(usually, t_of(1) * whole))
    return math.exp(supported), math.exp(max(supported, query))


def _half_floors(side: MeasuredSide) -> tuple[float, float] | None:
    """Return the difference of a side's halves, overall and per query; None if too few."""
    if len(side.units) > 1:
        even = len(side.units) // 2 * 2
        ordered = sorted(side.units, key=lambda unit: unit.number)[:even]
        first, second = (summed_figures(ordered[half::2]) for half in (0, 1))
        # Half of the rounds have a standard error larger by the square root of two.
        whole, query = _distances(first, second)
        return math.exp(whole / math.sqrt(2)), math.exp(query / math.sqrt(2))
    timeline = side.units[0].timeline
    if timeline is None or timeline.slices < 2:
        return None
    middle = timeline.slices // 2
    first = _slice_sums(timeline, 0, middle)
    second = _slice_sums(timeline, timeline.slices - middle, timeline.slices)
    whole, query = _distances(first, second)
    return math.exp(whole), math.exp(query)


def _slice_sums(timeline: CallTimeline, begin: int, end: int) -> Sums:
    def within(values: Mapping[int, float]) -> float:
        return math.fsum(value for index, value in values.items() if begin <= index < end)

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
        if min(calls_a, calls_b) >= HALF_CALLS_MIN:
            logs.append(abs(math.log(mean_b_s / mean_a_s)))
    whole = abs(math.log(weights_s[1] / weights_s[0])) if min(weights_s) > 0 else 0.0
    logs.sort()
    index = min(len(logs) - 1, math.ceil(QUERIES_SHARE * len(logs)) - 1)
    return whole, max(whole, logs[index]) if logs else whole
