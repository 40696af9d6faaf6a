"""Commits of a few clients on other storage: how many a second, and how long each takes.

A log write and its flush follow each other: the next pair begins when the one before has ended, and
carries what all clients that wait by then have to commit (group commit). So commits are a closed
loop: on slower storage clients wait longer, and send less, which no queue with given arrivals says.
The recorded pairs, with the pauses between them, are played again in blocks on storage with other
limits. As many commits share a pair as clients have become ready since the one before began: they
work for exponential times, those whose commits that one carried only since it ended.

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

from seatrial.trials.plan.analysis.figure import TAIL_Z, Figure

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from seatrial.trials.plan.analysis.candidates import Candidate, Cap
    from seatrial.trials.watch.recording import Recording

PAIRS_MIN: Final = 500
"""Fewer pairs of log write and flush say nothing of percentiles."""
CLIENT_SHARE_MIN: Final = 0.02
"""A process with a smaller share of the log writes is no client, but a part of the server."""
WORLDS: Final = 200
SECONDS: Final = 6.0
PAIRS: Final = 2000
"""Simulated in each world: so long, or until so many pairs, at the recorded rate, are through."""
ALIKE: Final = Figure(low=0.8, mid=1.0, high=1.25, origin="assumed: another device of the kind")
"""Times of requests at a device over those at another one of its kind."""
WORK_FACTOR_MIN: Final = 1.25
"""Pauses of clients at another hour are within this factor, at 5 and 95 % (assumed)."""
TICK_S: Final = 0.004
"""A request that a limit held up goes on up to so much after its slice began."""
LIMIT_SHARES: Final = (0.97, 1.03)
"""What is kept of a limit that is given out slice by slice: a slice ends up to a tick late, and one
at the beginning may come on top."""
_ENDS_PERCENT: Final = (2.5, 50.0, 97.5)
_BLOCK: Final = 50
_PARTS: Final = 10
_SEED: Final = 20
_STEPS_MAX: Final = 200_000
_WARM_SLICES: Final = 3
"""Nothing is counted in the first slices of a limit: the first one is whole, whenever it began."""
_FIT_STEPS: Final = 8
_FIT_WORLDS: Final = 16


@dataclass(frozen=True, kw_only=True)
class CommitPath:
    """How a server commits, as a recording shows it; a row a pair of log write and flush, in order.

    Attributes:
        clients: Processes that write the log.
        commits_per_s: Commits a second.
        write_s: Times of log writes at the device; shape (pairs,), as all.
        between_s: Pauses between a write and its flush.
        flush_s: Times of flushes; 0 without one.
        has_flush: Whether a flush follows.
        pause_s: Pauses before the next pair.
        write_bytes: Lengths of log writes.
        others_per_pair: Other requests for each pair.
        others_bytes_per_pair: Their bytes.
        work_s: Mean time that a client works between two commits.
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


class Foreseen(msgspec.Struct, frozen=True, kw_only=True):
    """Commits on other storage; 95 % of the worlds are between the ends of each figure.

    Attributes:
        commits_per_s: Commits a second.
        pairs_per_s: Log writes a second: several commits share one.
        transaction_ms_p99: 99th percentile of the time from one commit of a client to its next.
    """

    commits_per_s: Figure
    pairs_per_s: Figure
    transaction_ms_p99: Figure


@dataclass(frozen=True, kw_only=True)
class Allowance:
    """What a limit lets through: so much in each slice of time, and the rest in later ones.

    Attributes:
        per_s: Requests, or bytes, a second.
        slice_s: Length of a slice: 0.1 s is what Linux's block throttling uses.
        is_of_bytes: Whether bytes are counted.
    """

    per_s: float
    slice_s: float = 0.1
    is_of_bytes: bool = False


def foreseen_on(path: CommitPath, candidate: Candidate) -> Foreseen:
    """Return commits on a candidate, whose writes take longer or shorter than the recorded ones."""
    mean_ms = candidate.writes.mean_ms
    recorded_ms = float(path.write_s.mean()) * 1000
    times = mean_ms.times(1 / recorded_ms)
    return foresee(path, allowances_of(candidate.caps), times=times)


def allowances_of(caps: Sequence[Cap]) -> tuple[Allowance, ...]:
    """Return what limits of a candidate let through, their credits left out."""
    return tuple(
        Allowance(per_s=cap.per_s, slice_s=cap.slice_s, is_of_bytes=cap.quantity == "throughput")
        for cap in caps
        if math.isfinite(cap.per_s)
    )


def commit_path_of(recording: Recording, commits_per_s: float | None = None) -> CommitPath | None:
    """Return how a server commits; None where log writes are too few or do not wait for each other.

    Log writes are the writes that a process waits for, if each begins after the one before.

    Args:
        recording: Of a server that commits.
        commits_per_s: Commits a second meanwhile, which its requests do not show; None where they
            are unknown: each log write then counts as one.
    """
    import numpy as np  # noqa: PLC0415 - numpy is for analyses only

    from seatrial.trials.watch.analysis.activity import OPERATIONS  # noqa: PLC0415 - likewise
    from seatrial.trials.watch.analysis.load.mix import latencies_ns  # noqa: PLC0415 - likewise
    from seatrial.trials.watch.analysis.load.streams import are_serial  # noqa: PLC0415 - likewise

    write, flush = (OPERATIONS.index(name) for name in ("write", "flush"))
    latency_ns = latencies_ns(recording)
    waited = (recording.operation == write) & (recording.is_sync == 1)
    known = recording.process[waited & (recording.process >= 0)]
    counts = np.bincount(known, minlength=1)
    clients = np.flatnonzero(counts >= max(1.0, CLIENT_SHARE_MIN * len(known)))
    of_clients = np.isin(recording.process, clients)
    writes = waited & of_clients
    if writes.sum() < PAIRS_MIN or not are_serial(recording.arrived_ns[writes], latency_ns[writes]):
        return None
    chain = writes | ((recording.operation == flush) & of_clients)
    rows = _rows(
        recording.operation[chain] == write, recording.arrived_ns[chain], latency_ns[chain]
    )
    pairs = len(rows[0])
    path = CommitPath(
        clients=len(clients),
        commits_per_s=0.0,
        write_s=rows[0],
        between_s=rows[1],
        flush_s=rows[2],
        has_flush=rows[2] > 0,
        pause_s=rows[3],
        write_bytes=recording.length_bytes[writes][:pairs].astype(np.float64),
        others_per_pair=int((~chain).sum()) / pairs,
        others_bytes_per_pair=float(recording.length_bytes[~chain].sum()) / pairs,
    )
    return with_commits(path, commits_per_s or path.pairs_per_s)


def with_commits(path: CommitPath, commits_per_s: float) -> CommitPath:
    """Return the path with the work of clients, which follows from the rates of commits and pairs.

    It is found by halving an interval: the shorter clients work, the more commits share a pair.
    """
    path = replace(path, commits_per_s=commits_per_s)
    low, high = 0.01 / path.pairs_per_s, 10 * path.clients / commits_per_s
    for _ in range(_FIT_STEPS):
        path = replace(path, work_s=math.sqrt(low * high))
        run = _Run(path, (), _FIT_WORLDS, _seconds(path), ALIKE).played()
        is_more = run.commits.sum() / run.pairs.sum() > commits_per_s / path.pairs_per_s
        low, high = (path.work_s, high) if is_more else (low, path.work_s)
    return path


def _rows(
    is_write: NDArray[np.bool_], arrived_ns: NDArray[np.int64], latency_ns: NDArray[np.int64]
) -> tuple[NDArray[np.float64], ...]:
    """Return write, pause, flush and pause of each pair (s), all but the last pair."""
    import numpy as np  # noqa: PLC0415 - numpy is for analyses only

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


def foresee(
    path: CommitPath,
    allowances: Sequence[Allowance],
    *,
    times: Figure = ALIKE,
    seconds: float | None = None,
    worlds: int = WORLDS,
) -> Foreseen:
    """Return commits on storage with other limits, in worlds that differ in what is not known.

    Args:
        path: How the server commits.
        allowances: Limits of the storage.
        times: Times of requests within the limits, over the recorded ones.
        seconds: How long each world lasts; a measurement as long scatters as the worlds do.
        worlds: How many.
    """
    seconds = seconds or _seconds(path)
    run = _Run(path, allowances, worlds, seconds, times).played()
    return Foreseen(
        commits_per_s=_figure(run.commits / seconds),
        pairs_per_s=_figure(run.pairs / seconds),
        transaction_ms_p99=_figure(run.transaction_s_p99 * 1000),
    )


def work_of(path: CommitPath) -> Figure:
    """Return pauses of clients at another time over the recorded ones.

    They differ as tenths of the recording do: the mean of another one from that of the whole.
    """
    import numpy as np  # noqa: PLC0415 - numpy is for analyses only

    means = np.array([part.mean() for part in np.array_split(path.pause_s, _PARTS)])
    spread = float(np.log(np.maximum(means, 1e-9)).std(ddof=1))
    factor = max(WORK_FACTOR_MIN, math.exp(TAIL_Z * spread))
    return Figure(low=1 / factor, mid=1.0, high=factor, origin="as parts of the recording differ")


def _seconds(path: CommitPath) -> float:
    return min(SECONDS, PAIRS / path.pairs_per_s)


def _figure(values: NDArray[np.float64]) -> Figure:
    import numpy as np  # noqa: PLC0415 - numpy is for analyses only

    low, mid, high = (float(each) for each in np.percentile(values, _ENDS_PERCENT))
    return Figure(low=low, mid=mid, high=high, origin="simulated, from the recorded commits")


class _Run:
    """Worlds side by side, pair of log write and flush by pair."""

    def __init__(
        self,
        path: CommitPath,
        allowances: Sequence[Allowance],
        worlds: int,
        seconds: float,
        times: Figure,
    ) -> None:
        import numpy as np  # noqa: PLC0415 - numpy is for analyses only

        self._random = np.random.default_rng(_SEED)
        self._path = path
        self._worlds = worlds
        self._seconds = seconds
        self._device = times.at(self._random.standard_normal(worlds))
        self._work = work_of(path).at(self._random.standard_normal(worlds))
        share = self._random.uniform(*LIMIT_SHARES, worlds)
        self._limits = [_Limit(each, share, self._random) for each in allowances]
        self._warm_s = _WARM_SLICES * max((each.slice_s for each in allowances), default=0.0)
        self._row = np.zeros(worlds, dtype=np.int64)
        self.pairs = np.zeros(worlds)
        self.commits = np.zeros(worlds)
        self._latencies: list[NDArray[np.float64]] = []

    def played(self) -> _Run:
        """Play until every world has ended."""
        import numpy as np  # noqa: PLC0415 - numpy is for analyses only

        clients = self._path.clients
        last_s = np.zeros((self._worlds, clients))
        next_client = np.zeros(self._worlds, dtype=np.int64)
        places = np.arange(clients)
        start_s = np.zeros(self._worlds)
        since_s = paused_s = np.full(self._worlds, 1 / self._path.pairs_per_s)
        commits = np.zeros(self._worlds, dtype=np.int64)
        end_of_all_s = self._warm_s + self._seconds
        for step in range(_STEPS_MAX):
            if (start_s >= end_of_all_s).all():
                break
            ready = self._ready(clients - commits, since_s) + self._ready(commits, paused_s)
            commits = np.maximum(1, ready)
            end_s, pause_s = self._pair(start_s, step)
            counts = (end_s >= self._warm_s) & (end_s < end_of_all_s)
            joined = np.mod(places - next_client[:, None], clients) < commits[:, None]
            taken_s = end_s[:, None] - last_s + self._held_up(last_s.shape)
            self._latencies.append(np.where(joined & counts[:, None], taken_s, np.nan))
            last_s = np.where(joined, end_s[:, None], last_s)
            next_client = np.mod(next_client + commits, clients)
            self.pairs += counts
            self.commits += commits * counts
            paused_s, since_s = pause_s, end_s + pause_s - start_s
            start_s = end_s + pause_s
        return self

    def _ready(self, working: NDArray[np.int64], time_s: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return how many of the working clients have become ready within a time."""
        import numpy as np  # noqa: PLC0415 - numpy is for analyses only

        chance = -np.expm1(-time_s / (self._path.work_s * self._work))
        return np.asarray(self._random.binomial(working, chance))

    def _held_up(self, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Return by how much longer than usual each client works, as those that write the log do.

        Processors hold up a client that others do not wait for, which their pauses do not show.
        """
        import numpy as np  # noqa: PLC0415 - numpy is for analyses only

        pauses_s = self._path.pause_s
        drawn_s = pauses_s[self._random.integers(0, len(pauses_s), shape)]
        return np.asarray((drawn_s - pauses_s.mean()) * self._work[:, None])

    def _pair(
        self, start_s: NDArray[np.float64], step: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return when log write and flush have ended, and the pause before the next pair."""
        import numpy as np  # noqa: PLC0415 - numpy is for analyses only

        path = self._path
        if step % _BLOCK == 0:
            self._row = self._random.integers(0, len(path.write_s), self._worlds)
        row = self._row = (self._row + 1) % len(path.write_s)
        at_s = self._through(start_s, np.ones(self._worlds), path.write_bytes[row])
        at_s = at_s + path.write_s[row] * self._device + path.between_s[row] * self._work
        has_flush = path.has_flush[row].astype(np.float64)
        at_s = self._through(at_s, has_flush, np.zeros(self._worlds))
        for limit in self._limits:
            limit.use(path.others_bytes_per_pair if limit.is_of_bytes else path.others_per_pair)
        return at_s + path.flush_s[row] * self._device, path.pause_s[row] * self._work

    def _through(
        self,
        at_s: NDArray[np.float64],
        requests: NDArray[np.float64],
        moved_bytes: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        for limit in self._limits:
            at_s = limit.passed(at_s, moved_bytes if limit.is_of_bytes else requests)
        return at_s

    @property
    def transaction_s_p99(self) -> NDArray[np.float64]:
        """99th percentile of the time between two commits of a client, by world."""
        import numpy as np  # noqa: PLC0415 - numpy is for analyses only

        found = np.concatenate(self._latencies, axis=1)
        found[~np.isfinite(found).any(axis=1)] = self._seconds
        return np.asarray(np.nanpercentile(found, 99, axis=1))


class _Limit:
    """One limit in all worlds: what is left of the slice, and when the slice ends."""

    def __init__(
        self, allowance: Allowance, share: NDArray[np.float64], random: np.random.Generator
    ) -> None:
        import numpy as np  # noqa: PLC0415 - numpy is for analyses only

        self.is_of_bytes = allowance.is_of_bytes
        self._slice_s = allowance.slice_s / share
        self._amount = allowance.per_s * allowance.slice_s
        self._end_s = random.random(len(share)) * self._slice_s
        self._left = np.full(len(share), self._amount)
        self._random = random

    def use(self, amount: float) -> None:
        """Take what others send; they may owe it, and what follows then waits."""
        self._left -= amount

    def passed(self, at_s: NDArray[np.float64], amount: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return when an amount is through that comes at a time, and take it."""
        import numpy as np  # noqa: PLC0415 - numpy is for analyses only

        self._renew(at_s)
        lacking = np.where(amount > 0, np.maximum(0.0, amount - self._left), 0.0)
        slices = np.ceil(lacking / self._amount - 1e-9)
        late_s = self._random.random(len(at_s)) * TICK_S
        through_s = np.where(slices > 0, self._end_s + (slices - 1) * self._slice_s + late_s, at_s)
        self._left += slices * self._amount - amount
        self._end_s += slices * self._slice_s
        return np.asarray(np.maximum(through_s, at_s))

    def _renew(self, at_s: NDArray[np.float64]) -> None:
        """Begin the slice of a time: what was not used is lost, what is owed stays."""
        import numpy as np  # noqa: PLC0415 - numpy is for analyses only

        slices = np.ceil(np.maximum(0.0, at_s - self._end_s) / self._slice_s)
        self._left = np.minimum(self._amount, self._left + slices * self._amount)
        self._end_s += slices * self._slice_s
