"""Forecasts rate and duration of the commits of a few clients on other storage.

A log write and its flush follow each other: the next pair begins when the previous one has ended,
and carries the commits of all clients that wait by then (group commit). So commits are a closed
loop: on slower storage clients wait longer and send less, unlike in a queue with given arrivals.
The recorded pairs, with the pauses between them, are simulated again in blocks on storage with
other limits. A pair carries the commits of all clients that have become ready since the previous
one began. Clients work for exponential times; those of the previous pair start when it ends.

Sources: D. DeWitt et al., "Implementation Techniques for Main Memory Database Systems", SIGMOD
1984, for group commit; H. Künsch, "The Jackknife and the Bootstrap for General Stationary
Observations", Annals of Statistics 17 (3), 1989, for the blocks; block/blk-throttle.c of Linux for
limits that are kept slice by slice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import msgspec

from seatrial.lazy import np
from seatrial.trials.plan.analysis.figure import TAIL_Z, Figure
from seatrial.trials.watch.analysis.load.mix import latencies_ns
from seatrial.trials.watch.analysis.load.streams import are_serial

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from seatrial.trials.plan.analysis.candidates import Candidate
    from seatrial.trials.plan.analysis.demand import Limit
    from seatrial.trials.watch.recording import Recording

PAIRS_MIN: Final = 500
"""Fewer pairs of log write and flush give no percentiles."""
CLIENT_SHARE_MIN: Final = 0.02
"""A process with a smaller share of the log writes is not a client, but a part of the server."""
SCENARIOS: Final = 200
SECONDS: Final = 6.0
PAIRS: Final = 2000
"""A scenario lasts ``SECONDS``, or as long as ``PAIRS`` take at the recorded rate."""
OTHER_DEVICE: Final = Figure(
    low=0.8, mid=1.0, high=1.25, origin="assumed: another device of the kind"
)
"""Times of requests at a device over those at another one of its kind."""
WORK_FACTOR_MIN: Final = 1.25
"""Pauses of clients at another hour are within this factor, at 5 and 95 % (assumed)."""
TICK_S: Final = 0.004
"""A throttled request continues up to this long after its slice began."""
LIMIT_SHARES: Final = (0.97, 1.03)
"""Share of a throttling limit that is reached: a slice ends up to a tick late, and one more at the
beginning is possible."""
_ENDS_PERCENT: Final = (2.5, 50.0, 97.5)
_BLOCK: Final = 50
_PARTS: Final = 10
_SEED: Final = 20
_STEPS_MAX: Final = 200_000
_WARM_SLICES: Final = 3
"""Slices before counting begins: the first one is full, whenever it began."""
_FIT_STEPS: Final = 8
_FIT_SCENARIOS: Final = 16


@dataclass(frozen=True, kw_only=True)
class CommitPath:
    """Commits of a recorded server: one row for each pair of log write and flush, in order.

    Attributes:
        clients: Processes that write the log.
        commits_per_s: Commits a second.
        write_s: Times of log writes at the device; shape (pairs,), as all.
        between_s: Pauses between a write and its flush.
        flush_s: Times of flushes; 0 without one.
        has_flush: Whether a flush follows.
        pause_s: Pauses before the next pair.
        write_bytes: Lengths of log writes.
        others_per_pair: Other reads and writes for each pair.
        others_bytes_per_pair: Their bytes.
        work_s: Mean time of a client between two commits.
    """

    clients: int
    commits_per_s: float
    write_s: NDArray[np.float64]
    between_s: NDArray[np.float64]
    flush_s: NDArray[np.float64]
    has_flush: NDArray[np.bool_]
    pause_s: NDArray[np.float64]
    write_bytes: NDArray[np.float64]
    others_per_pair: float
    others_bytes_per_pair: float
    work_s: float = 0.0

    @property
    def pairs_per_s(self) -> float:
        """Log writes a second."""
        parts = (self.write_s, self.between_s, self.flush_s, self.pause_s)
        return len(self.write_s) / float(sum(each.sum() for each in parts))


class CommitForecast(msgspec.Struct, frozen=True, kw_only=True):
    """Commits on other storage; the interval of each figure holds 95 % of the scenarios.

    Attributes:
        commits_per_s: Commits a second.
        pairs_per_s: Log writes a second: several commits share one.
        transaction_ms_p99: 99th percentile of the time from one commit of a client to its next.
        commit_ms: The objective's percentile of the time that a commit takes, with its wait for
            the pair before; p99 without an objective of commits.
    """

    commits_per_s: Figure
    pairs_per_s: Figure
    transaction_ms_p99: Figure
    commit_ms: Figure


@dataclass(frozen=True, kw_only=True)
class Allowance:
    """A limit enforced slice by slice: an amount in each slice of time, the rest in later ones.

    Attributes:
        per_s: Requests, or bytes, a second.
        slice_s: Length of a slice: 0.1 s is what Linux's block throttling uses.
        is_of_bytes: Whether bytes are counted.
        least_bytes: The least that a random request counts; a log is written in sequence.
    """

    per_s: float
    slice_s: float = 0.1
    is_of_bytes: bool = False
    least_bytes: int = 0


class Forecasts:
    """Forecasts of commits on candidates; those with the same limits and times are simulated once.

    Args:
        path: The recorded commits.
        percentile: The percentile of a commit's time.
    """

    def __init__(self, path: CommitPath, percentile: float = 99.0) -> None:
        self._path = path
        self._percentile = percentile
        self._found: dict[tuple[object, ...], CommitForecast] = {}

    def on(self, candidate: Candidate) -> CommitForecast:
        """Return commits on a candidate, whose writes may take longer than the recorded ones."""
        mean_ms, allowances = candidate.writes.mean_ms, allowances_of(candidate.caps)
        if (mean_ms, allowances) not in self._found:
            recorded_ms = float(self._path.write_s.mean()) * 1000
            self._found[mean_ms, allowances] = forecast_commits(
                self._path,
                allowances,
                times=mean_ms.times(1 / recorded_ms),
                percentile=self._percentile,
            )
        return self._found[mean_ms, allowances]


def allowances_of(caps: Sequence[Limit]) -> tuple[Allowance, ...]:
    """Return the limits of a candidate that apply to writes, without burst credits.

    Of limits that count the same in the same slices, the lowest is enough.
    """
    lowest: dict[tuple[object, ...], Allowance] = {}
    for cap in caps:
        each = Allowance(
            per_s=cap.per_s,
            slice_s=cap.slice_s,
            is_of_bytes=cap.quantity == "throughput",
            least_bytes=cap.unit_bytes if cap.merges else 0,
        )
        key = each.slice_s, each.is_of_bytes, each.least_bytes
        if math.isfinite(cap.per_s) and cap.operation != "read":
            lowest[key] = min(lowest.get(key, each), each, key=lambda other: other.per_s)
    return tuple(lowest.values())


def commit_path_of(recording: Recording, commits_per_s: float | None = None) -> CommitPath | None:
    """Return the commits of a server; None if log writes are too few or overlap.

    Log writes are the writes that a process waits for, if each begins after the previous one.

    Args:
        recording: Recording of a server that commits.
        commits_per_s: Commits a second, which requests do not show; None if unknown: each log
            write then counts as one.
    """
    is_write = recording.is_operation("write")
    latency_ns = latencies_ns(recording)
    waited = is_write & (recording.is_sync == 1)
    known = recording.process[waited & (recording.process >= 0)]
    counts = np.bincount(known, minlength=1)
    clients = np.flatnonzero(counts >= max(1.0, CLIENT_SHARE_MIN * len(known)))
    of_clients = np.isin(recording.process, clients)
    writes = waited & of_clients
    if writes.sum() < PAIRS_MIN or not are_serial(recording.arrived_ns[writes], latency_ns[writes]):
        return None
    chain = writes | (recording.is_operation("flush") & of_clients)
    rows = _rows(is_write[chain], recording.arrived_ns[chain], latency_ns[chain])
    pairs = len(rows[0])
    others = recording.is_transfer & ~chain
    path = CommitPath(
        clients=len(clients),
        commits_per_s=0.0,
        write_s=rows[0],
        between_s=rows[1],
        flush_s=rows[2],
        has_flush=rows[2] > 0,
        pause_s=rows[3],
        write_bytes=recording.length_bytes[writes][:pairs].astype(np.float64),
        others_per_pair=int(others.sum()) / pairs,
        others_bytes_per_pair=float(recording.length_bytes[others].sum()) / pairs,
    )
    return with_commits(path, commits_per_s or path.pairs_per_s)


def with_commits(path: CommitPath, commits_per_s: float) -> CommitPath:
    """Return the path with the work of clients that gives the rates of commits and pairs.

    It is found by bisection: the shorter clients work, the more commits share a pair.
    """
    path = replace(path, commits_per_s=commits_per_s)
    low, high = 0.01 / path.pairs_per_s, 10 * path.clients / commits_per_s
    for _ in range(_FIT_STEPS):
        path = replace(path, work_s=math.sqrt(low * high))
        simulation = _CommitSimulation(
            path, (), _FIT_SCENARIOS, _seconds(path), OTHER_DEVICE
        ).simulate(with_times=False)
        is_more = (
            simulation.commits.sum() / simulation.pairs.sum() > commits_per_s / path.pairs_per_s
        )
        low, high = (path.work_s, high) if is_more else (low, path.work_s)
    return path


def _rows(
    is_write: NDArray[np.bool_], arrived_ns: NDArray[np.int64], latency_ns: NDArray[np.int64]
) -> tuple[NDArray[np.float64], ...]:
    """Return write, pause, flush and pause of each pair (s), all but the last pair."""
    begins = np.flatnonzero(is_write)
    first, following = begins[:-1], begins[1:]
    has_flush = following > first + 1
    last = np.where(has_flush, first + 1, first)
    ends_ns = arrived_ns + latency_ns
    between_ns = np.where(has_flush, arrived_ns[last] - ends_ns[first], 0)
    flush_ns = np.where(has_flush, np.maximum(1, latency_ns[last]), 0)
    pause_ns = arrived_ns[following] - ends_ns[last]
    parts = (latency_ns[first], np.maximum(0, between_ns), flush_ns, np.maximum(0, pause_ns))
    return tuple(each / 1e9 for each in parts)


def forecast_commits(
    path: CommitPath,
    allowances: Sequence[Allowance],
    *,
    times: Figure = OTHER_DEVICE,
    seconds: float | None = None,
    scenarios: int = SCENARIOS,
    percentile: float = 99.0,
) -> CommitForecast:
    """Return commits on storage with other limits, in scenarios of the unknowns.

    Args:
        path: The recorded commits.
        allowances: Limits of the storage.
        times: Times of requests within the limits, over the recorded ones.
        seconds: Length of a scenario; measurements of this length vary as the scenarios do.
        scenarios: Number of scenarios.
        percentile: The percentile of a commit's time.
    """
    seconds = seconds or _seconds(path)
    simulation = _CommitSimulation(path, allowances, scenarios, seconds, times).simulate()
    return CommitForecast(
        commits_per_s=_figure(simulation.commits / seconds),
        pairs_per_s=_figure(simulation.pairs / seconds),
        transaction_ms_p99=_figure(simulation.transaction_s_p99 * 1000),
        commit_ms=_figure(simulation.commit_s(percentile) * 1000),
    )


def work_of(path: CommitPath) -> Figure:
    """Return pauses of clients at another time over the recorded ones.

    Their spread is that between the means of tenths of the recording.
    """
    means = np.array([part.mean() for part in np.array_split(path.pause_s, _PARTS)])
    spread = float(np.log(np.maximum(means, 1e-9)).std(ddof=1))
    factor = max(WORK_FACTOR_MIN, math.exp(TAIL_Z * spread))
    return Figure(low=1 / factor, mid=1.0, high=factor, origin="as parts of the recording differ")


def _seconds(path: CommitPath) -> float:
    return min(SECONDS, PAIRS / path.pairs_per_s)


def _figure(values: NDArray[np.float64]) -> Figure:
    low, mid, high = (float(each) for each in np.percentile(values, _ENDS_PERCENT))
    return Figure(low=low, mid=mid, high=high, origin="simulated, from the recorded commits")


class _CommitSimulation:
    """All scenarios at once, one pair of log write and flush after the other."""

    def __init__(
        self,
        path: CommitPath,
        allowances: Sequence[Allowance],
        scenarios: int,
        seconds: float,
        times: Figure,
    ) -> None:
        self._random = np.random.default_rng(_SEED)
        self._path = path
        self._worlds = scenarios
        self._seconds = seconds
        self._device = times.at(self._random.standard_normal(scenarios))
        self._work = work_of(path).at(self._random.standard_normal(scenarios))
        share = self._random.uniform(*LIMIT_SHARES, scenarios)
        self._limits = [_Limit(each, share, self._random) for each in allowances]
        self._warm_s = _WARM_SLICES * max((each.slice_s for each in allowances), default=0.0)
        self._row = np.zeros(scenarios, dtype=np.int64)
        self.pairs = np.zeros(scenarios)
        self.commits = np.zeros(scenarios)
        self._last_s = np.zeros((scenarios, path.clients))
        self._next_client = np.zeros(scenarios, dtype=np.int64)
        self._latencies: list[NDArray[np.float64]] = []
        self._commit_times: list[NDArray[np.float64]] = []

    def simulate(self, *, with_times: bool = True) -> _CommitSimulation:
        """Run until every scenario has ended.

        Args:
            with_times: Whether the times of commits are kept; they take half of the computing.
        """
        clients = self._path.clients
        start_s = np.zeros(self._worlds)
        since_s = paused_s = np.full(self._worlds, 1 / self._path.pairs_per_s)
        commits = np.zeros(self._worlds, dtype=np.int64)
        end_of_all_s = self._warm_s + self._seconds
        for step in range(_STEPS_MAX):
            if (start_s >= end_of_all_s).all():
                break
            others = self._ready(clients - commits, since_s)
            commits = np.maximum(1, others + self._ready(commits, paused_s))
            end_s, pause_s = self._pair(start_s, step)
            counts = (end_s >= self._warm_s) & (end_s < end_of_all_s)
            if with_times:
                waited_s = self._since_ready_s(since_s, clients) - paused_s[:, None]
                self._keep_times(
                    took_s=end_s - start_s,
                    end_s=end_s,
                    waited_s=waited_s,
                    commits=commits,
                    others=others,
                    counts=counts,
                )
            self.pairs += counts
            self.commits += commits * counts
            paused_s, since_s = pause_s, end_s + pause_s - start_s
            start_s = end_s + pause_s
        return self

    def _keep_times(
        self,
        *,
        took_s: NDArray[np.float64],
        end_s: NDArray[np.float64],
        waited_s: NDArray[np.float64],
        commits: NDArray[np.int64],
        others: NDArray[np.int64],
        counts: NDArray[np.bool_],
    ) -> None:
        """Keep the times of the commits of one pair.

        Args:
            took_s: Time of the pair; shape (scenarios,), as all but ``waited_s``.
            end_s: When it ended.
            waited_s: Time from when a client became ready to the start of the pair; shape
                (scenarios, clients).
            commits: Number of clients that joined.
            others: How many of them became ready while the previous pair was written, and waited.
            counts: Whether the pair counts.
        """
        clients = self._path.clients
        order = np.mod(np.arange(clients) - self._next_client[:, None], clients)
        joined = order < commits[:, None]
        is_counted = joined & counts[:, None]
        waited_s = np.where(order < others[:, None], np.maximum(0.0, waited_s), 0.0)
        self._commit_times.append(np.where(is_counted, took_s[:, None] + waited_s, np.nan))
        taken_s = end_s[:, None] - self._last_s + self._extra_work_s(self._last_s.shape)
        self._latencies.append(np.where(is_counted, taken_s, np.nan))
        self._last_s = np.where(joined, end_s[:, None], self._last_s)
        self._next_client = np.mod(self._next_client + commits, clients)

    def _ready(self, working: NDArray[np.int64], time_s: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return how many of the working clients have become ready within a time."""
        chance = -np.expm1(-time_s / (self._path.work_s * self._work))
        return np.asarray(self._random.binomial(working, chance))

    def _since_ready_s(self, time_s: NDArray[np.float64], clients: int) -> NDArray[np.float64]:
        """Return how long ago clients became ready that did so within a time."""
        work_s = self._path.work_s * self._work
        draws = self._random.random((len(time_s), clients))
        share = draws * -np.expm1(-time_s / work_s)[:, None]
        return np.asarray(time_s[:, None] + work_s[:, None] * np.log1p(-share))

    def _extra_work_s(self, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Return the extra work of each client, drawn from the pauses of log writers.

        A processor may delay a client that no other one waits for, which mean pauses do not show.
        """
        pauses_s = self._path.pause_s
        pause_draws_s = pauses_s[self._random.integers(0, len(pauses_s), shape)]
        return np.asarray((pause_draws_s - pauses_s.mean()) * self._work[:, None])

    def _pair(
        self, start_s: NDArray[np.float64], step: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return when log write and flush have ended, and the pause before the next pair."""
        path = self._path
        if step % _BLOCK == 0:
            self._row = self._random.integers(0, len(path.write_s), self._worlds)
        row = self._row = (self._row + 1) % len(path.write_s)
        at_s = self._time_through(start_s, np.ones(self._worlds), path.write_bytes[row])
        at_s = at_s + path.write_s[row] * self._device + path.between_s[row] * self._work
        has_flush = path.has_flush[row].astype(np.float64)
        at_s = self._time_through(at_s, has_flush, np.zeros(self._worlds))
        for limit in self._limits:
            limit.use(limit.amount_of(path.others_per_pair, path.others_bytes_per_pair))
        return at_s + path.flush_s[row] * self._device, path.pause_s[row] * self._work

    def _time_through(
        self,
        at_s: NDArray[np.float64],
        requests: NDArray[np.float64],
        moved_bytes: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        for limit in self._limits:
            at_s = limit.time_through(at_s, moved_bytes if limit.is_of_bytes else requests)
        return at_s

    @property
    def transaction_s_p99(self) -> NDArray[np.float64]:
        """99th percentile of the time between two commits of a client, by scenario."""
        return self._percentile(self._latencies, 99.0)

    def commit_s(self, percentile: float) -> NDArray[np.float64]:
        """Return a percentile of the time that commits take, by scenario."""
        return self._percentile(self._commit_times, percentile)

    def _percentile(
        self, times_s: Sequence[NDArray[np.float64]], percentile: float
    ) -> NDArray[np.float64]:
        found = np.concatenate(times_s, axis=1)
        found[~np.isfinite(found).any(axis=1)] = self._seconds
        return np.asarray(np.nanpercentile(found, percentile, axis=1))


class _Limit:
    """One limit in all scenarios: the rest of the slice, and when the slice ends."""

    def __init__(
        self, allowance: Allowance, share: NDArray[np.float64], random: np.random.Generator
    ) -> None:
        self.is_of_bytes = allowance.is_of_bytes
        self._least_bytes = allowance.least_bytes
        self._slice_s = allowance.slice_s / share
        self._amount = allowance.per_s * allowance.slice_s
        self._end_s = random.random(len(share)) * self._slice_s
        self._left = np.full(len(share), self._amount)
        self._random = random

    def amount_of(self, requests: float, moved_bytes: float) -> float:
        """Return what random requests count."""
        return max(moved_bytes, requests * self._least_bytes) if self.is_of_bytes else requests

    def use(self, amount: float) -> None:
        """Take what others send; it may exceed the slice, and later requests then wait."""
        self._left -= amount

    def time_through(
        self, at_s: NDArray[np.float64], amount: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return when an amount that arrives at a time is through, and take it."""
        self._renew(at_s)
        lacking = np.where(amount > 0, np.maximum(0.0, amount - self._left), 0.0)
        slices = np.ceil(lacking / self._amount - 1e-9)
        late_s = self._random.random(len(at_s)) * TICK_S
        through_s = np.where(slices > 0, self._end_s + (slices - 1) * self._slice_s + late_s, at_s)
        self._left += slices * self._amount - amount
        self._end_s += slices * self._slice_s
        return np.asarray(np.maximum(through_s, at_s))

    def _renew(self, at_s: NDArray[np.float64]) -> None:
        """Begin the slice of a time: unused amounts are lost, debts stay."""
        slices = np.ceil(np.maximum(0.0, at_s - self._end_s) / self._slice_s)
        self._left = np.minimum(self._amount, self._left + slices * self._amount)
        self._end_s += slices * self._slice_s
