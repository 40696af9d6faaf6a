"""The rate of a target by the number of hosts: the universal scalability law.

``X(N) = a N / (1 + s (N - 1) + k N (N - 1))``: ``a`` is the rate of one host, ``s`` the share that
is not parallel (the target's limit is ``a / s``), ``k`` the cost of each pair of hosts. ``N /
X(N)`` is linear in the parameters, so that each round is fitted by least squares without negative
ones, and the interval is that over rounds.

Source: Gunther, Guerrilla Capacity Planning, 2007, chapter 4.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from seatrial.lazy import np
from seatrial.results.fleet import FleetRecord
from seatrial.results.model import Sample
from seatrial.stats.cell_estimates import counted, estimate_of_rounds
from seatrial.stats.model import CellSummary, Estimate
from seatrial.stats.running import running_per_s
from seatrial.study.hosts import FACTOR, LOST_FACTOR, hosts_of

COUNTS_MIN: Final = 3
"""Numbers of hosts needed for a fit: the law has three parameters."""
SATURATED_GAIN_MAX: Final = 1.1
"""Gain by twice the hosts up to which the target is at its limit."""


class ScalingStep(msgspec.Struct, frozen=True, kw_only=True):
    """One number of hosts.

    Attributes:
        hosts: Their number.
        rate: Requests per second of all of them.
        fairness: Jain's index of the hosts' rates, 1 / hosts to 1; of the median round.
        skew_ns_max: Maximum time between the first and the last start.
        cell: Key of its cell.
    """

    hosts: int
    rate: Estimate
    fairness: float
    skew_ns_max: int
    cell: str


class Scaling(msgspec.Struct, frozen=True, kw_only=True):
    """How one workload on one target scales.

    Attributes:
        target: The target.
        workload: The workload.
        name: Key of its cells without the number of hosts.
        steps: By number of hosts.
        one_host: Parameter ``a``, requests per second; None with too few numbers of hosts.
        serial_share: Parameter ``s``.
        pair_cost_share: Parameter ``k``.
        limit: The rate that no number of hosts exceeds, ``a / s``; None if the fit has no limit.
        is_at_limit: Whether more hosts hardly gained anything, with the interval of the gain.
        best_hosts: The number of hosts with the highest rate.
    """

    target: str
    workload: str
    name: str
    steps: list[ScalingStep]
    one_host: Estimate | None
    serial_share: Estimate | None
    pair_cost_share: Estimate | None
    limit: Estimate | None
    is_at_limit: bool
    best_hosts: int


def fairness(per_s: Sequence[float]) -> float:
    """Return Jain's index of rates: 1 if all are equal, 1 / n if one has everything.

    Source: Jain, Chiu and Hawe, A Quantitative Measure of Fairness, DEC TR-301, 1984.
    """
    squares = sum(rate * rate for rate in per_s)
    return sum(per_s) ** 2 / (len(per_s) * squares) if squares > 0 else 1.0


def usl_rate_per_s(
    hosts: float, one_per_s: float, serial_share: float, pair_cost_share: float
) -> float:
    """Return the rate of ``hosts`` hosts by the universal scalability law."""
    cost = 1 + serial_share * (hosts - 1) + pair_cost_share * hosts * (hosts - 1)
    return one_per_s * hosts / cost


def fit(points: Mapping[int, float]) -> tuple[float, float, float] | None:
    """Return ``a``, ``s`` and ``k`` of rates by number of hosts; None with too few of them."""
    from scipy.optimize import nnls  # noqa: PLC0415 - likewise

    known = {count: rate for count, rate in points.items() if rate > 0}
    if len(known) < COUNTS_MIN:
        return None
    counts = np.array(sorted(known), dtype=float)
    cost = counts / np.array([known[int(count)] for count in counts])
    terms = np.stack([np.ones_like(counts), counts - 1, counts * (counts - 1)], axis=1)
    weights = 1 / cost
    found, _ = nnls(terms * weights[:, None], np.ones_like(cost))
    first, serial, pairs = map(float, found)
    return (1 / first, serial / first, pairs / first) if first > 0 else None


def analyse(cells: Iterable[CellSummary]) -> list[Scaling]:
    """Return how each workload scales, in the order of the cells."""
    groups: dict[str, list[CellSummary]] = {}
    for each in cells:
        if hosts_of(each.cell) and LOST_FACTOR not in each.cell.factors and not each.blank:
            groups.setdefault(each.cell.key.rpartition("/")[0], []).append(each)
    return [_scaling(name, found) for name, found in groups.items()]


def _scaling(name: str, cells: Sequence[CellSummary]) -> Scaling:
    steps = sorted((_step(each) for each in cells), key=lambda step: step.hosts)
    rounds = _rounds(cells)
    fits = [found for points in rounds.values() if (found := fit(points))]
    one, serial, pairs = (
        _estimate([fitted[index] for fitted in fits], unit)
        for index, unit in enumerate(("requests/s", "share", "share"))
    )
    limits = [a / s for a, s, _ in fits if s > 0]
    limit = _estimate(limits, "requests/s") if fits and len(limits) == len(fits) else None
    return Scaling(
        target=cells[0].cell.target,
        workload=cells[0].cell.workload,
        name=name,
        steps=steps,
        one_host=one,
        serial_share=serial,
        pair_cost_share=pairs,
        limit=limit,
        is_at_limit=_is_at_limit(steps, rounds),
        best_hosts=max(steps, key=lambda step: step.rate.value).hosts,
    )


def _rounds(cells: Sequence[CellSummary]) -> dict[int, dict[int, float]]:
    """Return the rates of each round by number of hosts, as those of the steps are computed."""
    found: dict[int, dict[int, float]] = {}
    for each in cells:
        for sample in counted(each.samples):
            found.setdefault(sample.round, {})[hosts_of(each.cell)] = running_per_s(sample)
    return found


def _estimate(values: Sequence[float], unit: str) -> Estimate | None:
    if not values:
        return None
    return estimate_of_rounds([max(value, 0.0) for value in values], unit)


def _is_at_limit(steps: Sequence[ScalingStep], rounds: Mapping[int, Mapping[int, float]]) -> bool:
    """Return whether the last step gained less than a tenth of the possible gain.

    The interval of the gain over the rounds has to be below that, so one round shows no limit.
    """
    if len(steps) < 2:
        return False
    before, last = steps[-2].hosts, steps[-1].hosts
    pairs = [(found.get(before, 0.0), found.get(last)) for found in rounds.values()]
    gain = _estimate([after / rate for rate, after in pairs if rate > 0 and after is not None], "")
    possible = last / before
    gain_max = 1 + (SATURATED_GAIN_MAX - 1) * (possible - 1)
    return gain is not None and gain.high is not None and gain.high <= gain_max


def _step(summary: CellSummary) -> ScalingStep:
    records = records_of(counted(summary.samples))
    return ScalingStep(
        hosts=int(summary.cell.factors[FACTOR]),
        rate=summary.iops,
        fairness=statistics.median(
            fairness([float(host.window_completed) for host in each.hosts]) for each in records
        ),
        skew_ns_max=max(each.skew_ns for each in records),
        cell=summary.cell.key,
    )


def records_of(samples: Iterable[Sample]) -> list[FleetRecord]:
    """Return the records of samples that several hosts measured."""
    return [sample.fleet for sample in samples if sample.fleet]
