"""Commits in a closed loop: predicted from a recording, and true in a simulation of each client."""

from __future__ import annotations

import heapq
import math
import random
from dataclasses import dataclass, replace

import numpy as np
import pytest

from cli.command import seatrial
from seatrial.trials.plan.analysis.answer import plan_of
from seatrial.trials.plan.analysis.commits import (
    Allowance,
    CommitPath,
    commit_path_of,
    forecast_commits,
)
from seatrial.trials.plan.analysis.demand import Limit, constant_demand
from seatrial.trials.plan.analysis.figure import Figure, exact
from seatrial.trials.plan.analysis.scenarios import Scenarios, evaluate, with_commit_times
from seatrial.trials.plan.report.plan_text import is_without_syncs, notes
from seatrial.trials.plan.report.proof import proof_sentence
from seatrial.trials.watch.analysis.activity import OPERATIONS
from seatrial.trials.watch.recording import Recording
from trials.watch.recordings import FLUSH, WRITE, recording

from .test_plan import candidate, need

SECONDS = 20.0
WRITE_S, FLUSH_S = 0.0004, 0.0003
LOG_BYTES = 8192
DISCARD = OPERATIONS.index("discard")


@dataclass(frozen=True)
class Truth:
    """What the clients really did."""

    writes: list[tuple[float, float, float, int]]
    """Beginning of a write, its end, the end of its flush, the client that wrote."""
    commits_per_s: float
    transaction_ms_p99: float
    commit_ms_p99: float


class Throttle:
    """Requests in slices on a grid of a tenth of a second; parts of one are kept for the next."""

    def __init__(self, per_s: float) -> None:
        self._per_slice = per_s * 0.1
        self._slice, self._left = -1, 0.0

    def time_through(self, at_s: float) -> float:
        source_name = math.floor(at_s / 0.1)
        if source_name > self._slice:
            self._slice, self._left = source_name, self._per_slice
        if self._left < 1:
            self._slice, self._left = self._slice + 1, self._left + self._per_slice
        self._left -= 1
        return max(at_s, self._slice * 0.1)


def true_commits(clients: int, work_s: float, *, seed: int, iops: float | None = None) -> Truth:
    """Each client works, commits, and waits until a pair that began later than that has ended."""
    draw = random.Random(seed)
    throttle = Throttle(iops) if iops else None
    ready = [(draw.uniform(0.5, 1.5) * work_s, client) for client in range(clients)]
    last_s = [0.0] * clients
    heapq.heapify(ready)
    free_s, writes, took_ms, commits_ms = 0.0, [], [], []
    while free_s < SECONDS:
        start_s = max(free_s, ready[0][0])
        joined = []
        while ready and ready[0][0] <= start_s:
            joined.append(heapq.heappop(ready))
        begin_s = throttle.time_through(start_s) if throttle else start_s
        written_s = begin_s + draw.expovariate(1 / WRITE_S)
        flush_s = throttle.time_through(written_s) if throttle else written_s
        free_s = flush_s + draw.expovariate(1 / FLUSH_S)
        writes.append((begin_s, written_s, free_s, joined[0][1]))
        for ready_s, client in joined:
            commits_ms.append((free_s - ready_s) * 1000)
            took_ms.append((free_s - last_s[client]) * 1000)
            last_s[client] = free_s
            heapq.heappush(ready, (free_s + draw.uniform(0.5, 1.5) * work_s, client))
    p99_ms, commit_ms = (float(np.percentile(each, 99)) for each in (took_ms, commits_ms))
    return Truth(writes, len(took_ms) / free_s, p99_ms, commit_ms)


def recorded(truth: Truth, discarded_bytes: int = 0) -> Recording:
    """What is seen of it at the disk: writes and flushes, with the process of each.

    With a discard at the end, which no client waits for.
    """
    begins, written, flushed, client = (np.array(each) for each in zip(*truth.writes, strict=True))
    arrived = np.stack([begins, written], axis=1).reshape(-1)
    took = np.stack([written - begins, flushed - written], axis=1).reshape(-1)
    count = len(truth.writes)
    columns = {
        "arrived_ns": (arrived * 1e9).astype(np.int64),
        "device_ns": np.maximum(1, np.floor(took * 1e9).astype(np.int64) - 2),
        "operation": np.tile([WRITE, FLUSH], count),
        "length_bytes": np.tile([LOG_BYTES, 0], count),
        "is_sync": np.ones(2 * count, dtype=np.int64),
        "process": np.repeat(client, 2),
    }
    if discarded_bytes:
        last = {"arrived_ns": int(SECONDS * 1e9) - 1, "device_ns": 1, "operation": DISCARD,
                "length_bytes": discarded_bytes, "is_sync": 0, "process": -1}  # fmt: skip
        columns = {name: np.append(column, last[name]) for name, column in columns.items()}
    return recording(
        seconds=SECONDS,
        processes=tuple(f"postgres ({each})" for each in range(client.max() + 1)),
        **columns,
    )


def path_of(truth: Truth) -> CommitPath:
    found = commit_path_of(recorded(truth), truth.commits_per_s)
    assert found is not None
    return found


@pytest.mark.parametrize(("clients", "work_s"), [(1, 0.002), (2, 0.003), (8, 0.004), (16, 0.006)])
def test_the_path_has_the_clients_and_rates_of_the_truth(clients, work_s):
    truth = true_commits(clients, work_s, seed=clients)
    path = path_of(truth)
    assert path.clients == clients
    assert path.pairs_per_s == pytest.approx(len(truth.writes) / SECONDS, rel=0.02)
    assert float(path.write_s.mean()) == pytest.approx(WRITE_S, rel=0.05)
    assert float(path.flush_s.mean()) == pytest.approx(FLUSH_S, rel=0.05)
    own = forecast_commits(path, (), scenarios=40)
    assert own.commits_per_s.low < truth.commits_per_s < own.commits_per_s.high


@pytest.mark.parametrize("clients", [2, 4, 8])
def test_a_slower_limit_is_predicted_as_it_comes_true(clients):
    """In at least nine of ten cases: an interval of 95 % for the rate and one for p99."""
    draw = random.Random(clients)
    path = path_of(true_commits(clients, 0.004, seed=1))
    held = 0
    for seed in range(10):
        iops = draw.randint(150, 900)
        truth = true_commits(clients, 0.004, seed=seed, iops=iops)
        found = forecast_commits(path, (Allowance(per_s=iops),), scenarios=60)
        rate, times, commit = found.commits_per_s, found.transaction_ms_p99, found.commit_ms
        assert commit.low * 0.9 <= truth.commit_ms_p99 <= commit.high * 1.1, (clients, seed)
        held += (
            rate.low * 0.98 <= truth.commits_per_s <= rate.high * 1.02
            and times.low * 0.98 <= truth.transaction_ms_p99 <= times.high * 1.02
        )
        assert rate.high < 3 * rate.low, "an interval that wide would be no answer"
    assert held >= 9, (clients, held)


def test_what_is_discarded_is_not_transferred():
    path = commit_path_of(recorded(true_commits(2, 0.004, seed=3), discarded_bytes=100 << 30))
    assert path is not None
    assert (path.others_per_pair, path.others_bytes_per_pair) == (0, 0)


def test_a_limit_that_is_never_reached_changes_nothing():
    path = path_of(true_commits(4, 0.004, seed=3))
    free, wide = forecast_commits(path, ()), forecast_commits(path, (Allowance(per_s=1e6),))
    assert wide.commits_per_s.mid == pytest.approx(free.commits_per_s.mid, rel=0.03)


def test_less_is_committed_under_a_lower_limit_and_by_bytes_as_by_requests():
    path = path_of(true_commits(4, 0.004, seed=4))
    rates = [
        forecast_commits(path, (Allowance(per_s=iops),), scenarios=40).commits_per_s.mid
        for iops in (50, 200, 800, 3200)
    ]
    assert rates == sorted(rates)
    assert rates[0] < 0.3 * rates[-1]
    by_bytes = forecast_commits(
        path, (Allowance(per_s=100 * LOG_BYTES, is_of_bytes=True),), scenarios=40
    )
    assert by_bytes.pairs_per_s.mid == pytest.approx(100, rel=0.06)


def test_slower_storage_commits_less():
    path = path_of(true_commits(4, 0.004, seed=5))
    own, slow = forecast_commits(path, ()), forecast_commits(path, (), times=exact(8.0, "a test"))
    assert slow.commits_per_s.high < own.commits_per_s.low
    assert slow.transaction_ms_p99.mid > own.transaction_ms_p99.mid


@pytest.mark.parametrize(("limit_ms", "fits"), [(40, False), (200, True)])
def test_an_objective_of_commits_is_judged_by_their_forecast(limit_ms: int, fits: bool):
    """A write takes 0.1 ms, but the slices of the limit let commits wait for tens of ms."""
    truth = true_commits(4, 0.004, seed=2)
    loaded = need(
        0, f"commit.p99_ms={limit_ms}", demand=constant_demand("typed", 0, 250, LOG_BYTES),
        commits=path_of(truth), other_day=exact(1.0, "typed"),
    )  # fmt: skip
    limit = Limit(subject="volume a", quantity="IOPS", per_s=600, slice_s=0.1)
    storage = replace(candidate("a", 10, 600, 0.1), caps=(limit,))
    plan = plan_of([storage], loaded, scenarios=Scenarios(400))
    assert len(plan.choices) == fits
    assert plan.twice_fit_share is None
    (shown,) = plan.choices or plan.refused
    assert shown.commits is not None
    assert shown.response_ms_mid == pytest.approx(shown.commits.commit_ms.mid)
    assert 40 < true_commits(4, 0.004, seed=7, iops=600).commit_ms_p99 < 200
    assert shown.miss == ("" if fits else "objective")
    assert not is_without_syncs(plan)
    unknown = plan_of([storage], replace(loaded, commits=None), scenarios=Scenarios(400))
    assert is_without_syncs(unknown)
    assert "syncs" in notes(unknown)[0]
    assert "does not prove commits" in proof_sentence(unknown)


@pytest.mark.parametrize(("limit_ms", "share"), [(2.0, 0.025), (4.0, 0.5), (8.0, 0.975)])
def test_the_ends_of_a_forecast_hold_95_percent_of_the_scenarios(limit_ms: float, share: float):
    scenarios = Scenarios(10_000)
    (each,) = evaluate([candidate("a", 10, 1e6, 0.1)], need(100), scenarios)
    forecast = Figure(low=2.0, mid=4.0, high=8.0, origin="simulated")
    found = with_commit_times(each, forecast, limit_ms, scenarios)
    assert each.fit_share == 1
    assert found.fit_share == pytest.approx(share, abs=0.015)
    ends_ms = np.percentile(found.response_ms, (5, 50, 95))
    assert found.response_ends_ms == pytest.approx(tuple(ends_ms), rel=0.02)


def test_what_shows_no_commits_is_none():
    few = recording(arrived_ns=[0, 10**9], operation=[WRITE, WRITE], is_sync=[1, 1])
    assert commit_path_of(few) is None
    count = 2000
    together = recording(
        arrived_ns=np.arange(count) * 1_000_000,
        operation=[WRITE] * count,
        is_sync=[1] * count,
        device_ns=[50_000_000] * count,
        process=[0] * count,
        processes=("postgres (1)",),
    )
    assert commit_path_of(together) is None


def test_commits_of_what_shows_none_are_refused(tmp_path):
    done = seatrial(
        "plan", "reads=10,writes=10,size=8KiB", "--capacity", "10GiB", "--commits", "100",
        folder=tmp_path,
    )  # fmt: skip
    assert done.code == 2
    assert "does not show how its server commits" in done.err
