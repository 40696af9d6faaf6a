"""Judges every candidate in thousands of worlds: whether it holds, its response time, its price.

A world is one value for everything that is not known: what another day asks for, growth, what is
stored, how long requests take on each kind of storage, what of a data sheet lasts, prices. All
candidates are judged in the same worlds, so that what they have in common cancels in a comparison
(common random numbers).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from seatrial.trials.plan.analysis.buckets import buckets_of, factors_held
from seatrial.trials.plan.analysis.candidates import Candidate, Cap, Times
from seatrial.trials.plan.analysis.need import PERCENTILES, Need
from seatrial.trials.plan.analysis.queueing import Curve

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from seatrial.trials.plan.analysis.stalls import ObservedStalls

WORLDS: Final = 10_000
SEED: Final = 20
ENDS_PERCENT: Final = (5, 50, 95)
OTHER_DAY: Final = "what another day asks for"
GROWTH: Final = "growth"
CAPACITY: Final = "what is stored"
FOLLOWS: Final = "what of the log's work reaches storage"


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A candidate in all worlds.

    Attributes:
        candidate: The candidate.
        holds: How many times the load it holds, by its narrowest limit.
        narrowest: That limit.
        fits: Whether it holds load, capacity and objective; shape (worlds,), as all.
        response_ms: The objective's percentile; infinite where the load is not held.
        month: Price of a month.
        fit_share: Share of the worlds in which it fits.
        response_ends_ms: 5, 50 and 95 % of the worlds.
        miss: What most of the other worlds miss: ``load``, ``capacity`` or ``objective``.
        inputs: Names of the unknown inputs that it depends on.
        calm_ms: The median of the percentile without stalls; None where none are known.
    """

    candidate: Candidate
    holds: float
    narrowest: Cap
    fits: NDArray[np.bool_]
    response_ms: NDArray[np.float32]
    month: NDArray[np.float64]
    fit_share: float
    response_ends_ms: tuple[float, float, float]
    miss: str
    inputs: tuple[str, ...]
    calm_ms: float | None


class Worlds:
    """Drawn deviates of every input, by its name; the same name gives the same deviates.

    Args:
        count: How many worlds.
        seed: Of the draws.
    """

    def __init__(self, count: int = WORLDS, seed: int = SEED) -> None:
        self.count = count
        self._seed = seed
        self._drawn: dict[str, NDArray[np.float64]] = {}

    def of(self, name: str) -> NDArray[np.float64]:
        """Return the standard normal deviates of an input; shape (count,).

        They follow from the input's name alone, so that no order of candidates changes them.
        """
        import numpy as np  # noqa: PLC0415 - numpy is for analyses only

        if name not in self._drawn:
            random = np.random.default_rng([self._seed, zlib.crc32(name.encode())])
            self._drawn[name] = random.standard_normal(self.count)
        return self._drawn[name]

    @property
    def names(self) -> list[str]:
        """Names of all inputs that were drawn."""
        return list(self._drawn)


Curves = dict[tuple[int, float], Curve]
"""Simulated curves by service times and percentile, so that none is simulated twice."""


def judge(
    candidates: Sequence[Candidate], need: Need, worlds: Worlds, curves: Curves | None = None
) -> list[Judged]:
    """Return every candidate in all worlds, in their order.

    Args:
        candidates: What is judged.
        need: What it has to do.
        worlds: In which.
        curves: Of an earlier call with the same percentile and gaps, to be used again.
    """
    import numpy as np  # noqa: PLC0415 - numpy is for analyses only

    held = _held(candidates, need)
    growth = (1 + need.growth.at(worlds.of(GROWTH))) ** need.years
    load = need.other_day.at(worlds.of(OTHER_DAY)) * growth
    if need.follows is not None:
        load = load * need.follows.at(worlds.of(FOLLOWS))
    stored = need.capacity.at(worlds.of(CAPACITY)) * growth
    curves = {} if curves is None else curves
    months: dict[tuple[float, float, float], NDArray[np.float64]] = {}
    found = []
    for candidate, (factor, cap) in zip(candidates, held, strict=True):
        share = candidate.limits_share.at(worlds.of(f"limits of {candidate.limits_kind}"))
        busy = load / (factor * share)
        response = _response_ms(candidate, need, busy, worlds, curves)
        price = candidate.month
        ends = (price.low, price.mid, price.high)
        if ends not in months:
            months[ends] = _prices(ends, worlds)
        one = _judged(candidate, need, (factor, cap), busy, stored, response, months[ends])
        if _times(candidate, need).stalls is not None:
            calm = _response_ms(_calm(candidate), need, busy, worlds, curves)
            one = replace(one, calm_ms=float(np.median(calm)))
        found.append(one)
    return found


def _prices(ends: tuple[float, float, float], worlds: Worlds) -> NDArray[np.float64]:
    from seatrial.trials.plan.analysis.figure import Figure  # noqa: PLC0415 - as numpy

    return Figure(low=ends[0], mid=ends[1], high=ends[2], origin="").at(worlds.of("prices"))


def _judged(  # noqa: PLR0917 - what the loop above has at hand
    candidate: Candidate,
    need: Need,
    held: tuple[float, Cap],
    busy: NDArray[np.float64],
    stored: NDArray[np.float64],
    response: NDArray[np.float64],
    month: NDArray[np.float64],
) -> Judged:
    import numpy as np  # noqa: PLC0415 - numpy is for analyses only

    holds = busy < 1.0
    has_room = stored <= candidate.capacity_bytes
    is_fast = np.ones_like(holds)
    if need.objective is not None:
        is_fast = response <= need.objective.limit_ms
    fits = holds & has_room & is_fast
    missing = {
        "load": int((~holds).sum()),
        "capacity": int((~has_room).sum()),
        "objective": int((holds & ~is_fast).sum()),
    }
    inputs = [OTHER_DAY, GROWTH, CAPACITY, f"limits of {candidate.limits_kind}"]
    if need.follows is not None:
        inputs.append(FOLLOWS)
    if need.objective is not None:
        inputs.append(f"times of {_times(candidate, need).kind}")
        if _times(candidate, need).stalls is not None:
            inputs.append(_stalls_name(_times(candidate, need)))
    low, mid, high = np.percentile(response, ENDS_PERCENT, method="nearest")
    return Judged(
        candidate=candidate,
        holds=held[0],
        narrowest=held[1],
        fits=fits,
        response_ms=response.astype(np.float32),
        month=month,
        fit_share=float(fits.mean()),
        response_ends_ms=(float(low), float(mid), float(high)),
        miss=max(missing, key=lambda name: missing[name]) if not fits.all() else "",
        inputs=(*inputs, "prices"),
        calm_ms=None,
    )


def _calm(candidate: Candidate) -> Candidate:
    """Return a candidate as if it never stalled."""
    return replace(
        candidate,
        reads=replace(candidate.reads, stalls=None),
        writes=replace(candidate.writes, stalls=None),
    )


def _times(candidate: Candidate, need: Need) -> Times:
    of_writes = need.objective is not None and need.objective.is_of_writes
    return candidate.writes if of_writes else candidate.reads


def _response_ms(
    candidate: Candidate,
    need: Need,
    busy: NDArray[np.float64],
    worlds: Worlds,
    curves: Curves,
) -> NDArray[np.float64]:
    """Return the objective's percentile in each world, of k servers simulated."""
    times = _times(candidate, need)
    percentile = PERCENTILES[need.objective.percentile] if need.objective else 99.0
    key = (id(times.service), percentile)
    curve = curves.setdefault(key, Curve(times.service, percentile, need.gaps))
    mean_ms = times.mean_ms.at(worlds.of(f"times of {times.kind}"))
    iops = min(cap.per_s for cap in candidate.caps if cap.quantity == "IOPS")
    servers = iops * times.mean_ms.mid / 1000
    if times.stalls is None:
        return mean_ms * curve.at(servers, busy)
    per_s = times.stalls.per_s(worlds.of(_stalls_name(times)))
    return _with_stalls(times.stalls, per_s, curve, percentile, servers, mean_ms, busy)


def _stalls_name(times: Times) -> str:
    """Return the name of how often storage stalls: alike for its reads and writes."""
    return f"stalls of {times.kind.rpartition(' ')[0]}"


def _with_stalls(  # noqa: PLR0917 - what the call above has at hand
    stalls: ObservedStalls,
    per_s: NDArray[np.float64],
    curve: Curve,
    percentile: float,
    servers: float,
    mean_ms: NDArray[np.float64],
    busy: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the percentile where some of the slowest requests wait for stalls.

    The others are above it less often: it is a higher percentile of the queue. If stalls alone
    hold up more requests than may be above it, it is a time of theirs.
    """
    import numpy as np  # noqa: PLC0415 - numpy is for analyses only

    above = 1 - percentile / 100
    share = stalls.waiting_share(per_s, busy)
    left = np.clip((above - share) / above / np.maximum(1 - share, 1e-9), 0.0, 1.0)
    queued_ms = mean_ms * curve.at(servers, busy, left)
    stalled_ms = stalls.wait_s(per_s, busy, above) * 1000 + mean_ms
    found = np.where(share < above, queued_ms, np.maximum(stalled_ms, queued_ms))
    return np.asarray(np.where(busy < 1.0, found, np.inf))


def _held(candidates: Sequence[Candidate], need: Need) -> list[tuple[float, Cap]]:
    """Return how many times the load each candidate holds, and by which limit; alike ones once."""
    import numpy as np  # noqa: PLC0415 - numpy is for analyses only

    places: dict[tuple[object, ...], int] = {}
    rows: list[Cap] = []
    for cap in (cap for candidate in candidates for cap in candidate.caps):
        if _key(cap) not in places:
            places[_key(cap)] = len(rows)
            rows.append(cap)
    factors = np.empty(len(rows))
    plain = [place for place, cap in enumerate(rows) if cap.bucket is None]
    bursting = [place for place, cap in enumerate(rows) if cap.bucket is not None]
    if bursting:
        limits = buckets_of([(rows[place].per_s, rows[place].bucket) for place in bursting])
        factors[bursting] = np.min(
            [
                factors_held(
                    np.stack([demand.counted_by(rows[place]) for place in bursting]),
                    demand.slot_s,
                    limits,
                )
                for demand in need.demand.to_play()
            ],
            axis=0,
        )
    for place in plain:
        factors[place] = _plain_factor(need.demand.counted_by(rows[place]), rows[place].per_s)
    found = []
    for candidate in candidates:
        best = min(candidate.caps, key=lambda cap: factors[places[_key(cap)]])
        found.append((float(factors[places[_key(best)]]), best))
    return found


def _plain_factor(load: NDArray[np.float64], limit_per_s: float) -> float:
    """Return how many times a load a limit without a burst holds: sorted, not bisected.

    The share above a limit falls with the limit; the limit at which it is just allowed is found
    among the sorted slots.
    """
    import numpy as np  # noqa: PLC0415 - numpy is for analyses only

    from seatrial.trials.plan.analysis.buckets import (  # noqa: PLC0415 - likewise
        FACTOR_MAX,
        FACTOR_MIN,
        UNSERVED_SHARE_MAX,
    )

    ordered = np.sort(load)[::-1]
    total = ordered.sum()
    if total <= 0 or not np.isfinite(limit_per_s):
        return FACTOR_MAX
    counts = np.arange(1, len(ordered) + 1)
    levels = (np.cumsum(ordered) - UNSERVED_SHARE_MAX * total) / counts
    level = float(levels.max())
    return float(np.clip(limit_per_s / max(level, 1e-300), FACTOR_MIN, FACTOR_MAX))


def _key(cap: Cap) -> tuple[object, ...]:
    return (
        cap.quantity, cap.per_s, cap.bucket, cap.unit_bytes, cap.writes_cost, cap.reads_share,
    )  # fmt: skip
