"""Simulated response times against exact formulas, and against a device whose truth is known."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cli.command import seatrial
from seatrial.results.store import ResultsFile
from seatrial.trials.plan.analysis.candidates import RequestTimes
from seatrial.trials.plan.analysis.figure import exact
from seatrial.trials.plan.analysis.queueing import (
    LOADS,
    SERVERS,
    TAIL_SHARES,
    Curve,
    Service,
    log_normal,
    measured_service,
    queued,
)
from seatrial.trials.plan.analysis.scenarios import Evaluation, Scenarios, evaluate
from seatrial.trials.plan.analysis.stalls import ObservedStalls
from seatrial.trials.plan.commands.measured_times import times_of_samples
from stats.builders import MS_NS, cell_of, sample_of, stall_of

from .test_plan import candidate, need

EXPONENTIAL = measured_service(-np.log1p(-(np.arange(4000) + 0.5) / 4000))


def response_times(
    service: Service,
    servers: int,
    load_share: float,
    *,
    requests: int,
    repetitions: int,
    seed: int,
) -> NDArray[np.float64]:
    """Response times of a Poisson process in mean service times, without the first tenth."""
    random = np.random.default_rng(seed)
    shape = (requests, repetitions)
    arrivals = np.cumsum(random.exponential(size=shape) / (servers * load_share), axis=0)
    return queued(arrivals, service.draw(random, shape), servers)[requests // 10 :]


def stalled_times(
    servers: int, load_share: float, *, gap_ratio: float, length_ratio: float
) -> NDArray[np.float64]:
    """Response times with exponential service where no request starts during a stall."""
    random = np.random.default_rng(4)
    shape = (200_000, 8)
    arrivals = np.cumsum(random.exponential(size=shape) / (servers * load_share), axis=0)
    service = random.exponential(size=shape)
    free_at, rows = np.zeros((8, servers)), np.arange(8)
    responses = np.empty(shape)
    for request, arrived in enumerate(arrivals):
        first = free_at.argmin(axis=1)
        start = np.maximum(arrived, free_at[rows, first])
        within = np.mod(start, gap_ratio + length_ratio)
        start = np.where(within > gap_ratio, start + gap_ratio + length_ratio - within, start)
        free_at[rows, first] = start + service[request]
        responses[request] = free_at[rows, first] - arrived
    return responses[len(responses) // 10 :]


def p99_of_m_m_k(servers: int, load_share: float) -> float:
    """The exact p99 of exponential times, in mean service times (Erlang's C, by bisection)."""
    offered = servers * load_share
    waiting = offered**servers / math.factorial(servers) / (1 - load_share)
    waiting /= sum(offered**n / math.factorial(n) for n in range(servers)) + waiting
    rate = servers * (1 - load_share)

    def above(at: float) -> float:
        if abs(rate - 1) < 1e-9:
            return math.exp(-at) * (1 + waiting * at)
        return math.exp(-at) + waiting * (math.exp(-at) - math.exp(-rate * at)) / (rate - 1)

    low, high = 0.0, 1000.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if above(middle) > 0.01 else (low, middle)
    return low


@pytest.mark.parametrize(("servers", "load_share"), [(1, 0.6), (4, 0.7), (8, 0.6), (16, 0.8)])
def test_exponential_times_are_as_the_formula_has_them(servers: int, load_share: float):
    found = response_times(
        EXPONENTIAL, servers, load_share, requests=20_000, repetitions=64, seed=1
    )
    exact = p99_of_m_m_k(servers, load_share)
    assert np.percentile(found, 99) == pytest.approx(exact, rel=0.05)


def test_few_slow_requests_are_worse_than_any_exponential():
    """2 % of 5 ms, mean 0.198 ms: eight servers at 60 % have p99 of 5 ms, not of 0.9."""
    mean_ms = 0.98 * 0.1 + 0.02 * 5
    two = Service(values=np.array([0.1] * 49 + [5.0]) / mean_ms)
    found = response_times(two, 8, 0.6, requests=40_000, repetitions=8, seed=2) * mean_ms
    assert np.percentile(found, 99) == pytest.approx(5.0, rel=0.03)
    assert p99_of_m_m_k(8, 0.6) * mean_ms == pytest.approx(0.9, rel=0.05)


def test_a_curve_is_the_simulation_and_rises():
    service = log_normal(0.9)
    assert service.values.mean() == pytest.approx(1)
    curve = Curve(service, 99.0)
    assert curve.table.shape == (len(SERVERS), len(TAIL_SHARES), len(LOADS))
    assert (np.diff(curve.table, axis=2) >= 0).all()
    assert (np.diff(curve.table, axis=1) >= 0).all()
    direct = response_times(service, 8, 0.7, requests=20_000, repetitions=64, seed=3)
    at = curve.at(8, np.array([0.7, 1.0, 1.5]))
    tenth = curve.at(8, np.array([0.7]), np.array([0.1]))
    assert tenth[0] == pytest.approx(np.percentile(direct, 99.9), rel=0.1)
    assert at[0] == pytest.approx(np.percentile(direct, 99), rel=0.05)
    assert np.isinf(at[1:]).all()


def test_waits_grow_up_to_full_utilisation():
    found = Curve(EXPONENTIAL, 99.0).at(1, np.array([0.97, 0.985, 0.997]))
    assert found[1:] / found[0] == pytest.approx([2, 10], rel=1e-6)


def test_recorded_gaps_are_replayed():
    bursts = np.tile([0.0] * 9 + [10.0], 1000)
    together, alone = (
        Curve(EXPONENTIAL, 99.0, gaps).at(1, np.array([0.3]))[0] for gaps in (bursts, None)
    )
    assert together > 1.5 * alone
    with pytest.raises(ValueError, match="above 0"):
        measured_service([])


@pytest.mark.parametrize("seed", range(6))
def test_the_truth_of_a_simulated_device_is_met_within_5_percent(tmp_path: Path, seed: int):
    """Times measured without load, then p99 predicted under load and measured there."""
    random = np.random.default_rng(seed)
    channels = int(random.choice([1, 2, 4, 8]))
    base_us = float(random.uniform(100, 400))
    noise = float(random.uniform(0.2, 1.0))
    (tmp_path / "m.toml").write_text(
        f"channels = {channels}\nnoise_share = {noise}\n"
        f"read = {{ base_us = {base_us}, per_kib_us = 0.0 }}\n"
    )
    run = ("io", "simulated", "--model", "m.toml", "--block-size", "8k", "--seconds")
    assert seatrial(*run, "30", folder=tmp_path).code == 0
    (_, times), *_ = measured_times(tmp_path)
    load_share = float(random.uniform(0.3, 0.8))
    rate = channels * load_share / (times.mean_ms.mid / 1000)
    loaded = ("--arrival", "poisson", "--rate", f"{rate:.0f}", "--depth", "256", "--threads", "1")
    assert seatrial(*run, f"{200_000 / rate:.0f}", *loaded, folder=tmp_path).code == 0
    (truth,) = samples(tmp_path)
    measured_ms = truth.operations["read"].response_histogram().percentile_ns(99) / 1e6
    found = response_times(
        times.service, channels, load_share, requests=20_000, repetitions=96, seed=seed
    )
    predicted_ms = float(np.percentile(found, 99)) * times.mean_ms.mid
    assert predicted_ms == pytest.approx(measured_ms, rel=0.05)


@pytest.mark.parametrize("percentile", ["p95", "p99", "p99.9"])
@pytest.mark.parametrize(
    ("stalls", "shortest_s", "longest_s"), [(24, 0.1, 0.5), (12, 0.3, 0.3), (3, 0.06, 0.1)]
)
def test_the_truth_of_a_device_that_stalls_is_met_within_5_percent(
    stalling, stalls: int, shortest_s: float, longest_s: float, percentile: str
):
    """Stalls found without load, then the percentile predicted under load and measured there."""
    times, load_share, channels, truth = stalling(stalls, shortest_s, longest_s)
    assert times.stalls is not None
    assert len(times.stalls.lengths_s) == stalls
    truth_ms = truth.percentile_ns(float(percentile[1:])) / 1e6
    found = forecast(times, channels, load_share, percentile)
    assert found.response_ends_ms[1] == pytest.approx(truth_ms, rel=0.05)
    assert found.calm_ms is not None
    if percentile == "p99.9":
        assert found.calm_ms < truth_ms / 5, "stalls decide it, and are what is missing without"


def test_none_seen_is_a_bound_and_not_zero():
    none = ObservedStalls(lengths_s=(), watched_s=1920.0, least_s=0.05)
    low, high = none.per_hour()
    assert 0 < low < 0.02
    assert high == pytest.approx(3600 * 1.92 / 1920, rel=0.01), "chi-squared of one, halved"
    ten = ObservedStalls(lengths_s=(0.2,) * 10, watched_s=3600.0, least_s=0.05).per_hour()
    assert ten[0] < 10 < ten[1]
    assert "none in 1,920 s, so up to 3.6 an hour" in none.words()


def test_waits_for_stalls_are_those_of_the_fluid_limit():
    """Stalls of 200 in 10,200 at a load of 0.2: 2.45 % wait, and 1 % for more than 118."""
    seen = ObservedStalls(lengths_s=(200.0,), watched_s=1.0, least_s=1.0)
    per_s, load = np.array([1 / 10_200]), np.array([0.2])
    assert seen.waiting_share(per_s, load)[0] == pytest.approx(200 / 10_200 / 0.8)
    wait = float(seen.wait_s(per_s, load, 0.01)[0])
    assert wait == pytest.approx(200 - 0.01 * 0.8 * 10_200)
    simulated = stalled_times(2, 0.2, gap_ratio=10_000, length_ratio=200)
    assert np.percentile(simulated, 99) == pytest.approx(wait + 1, rel=0.05)


@pytest.mark.parametrize(("service_ms", "stalls"), [(1, 2), (200, 1)])
def test_gaps_that_are_normal_for_slow_storage_are_no_stalls(service_ms: int, stalls: int):
    gaps = [stall_of(0.25), stall_of(3.0)]
    sample = sample_of(latency_ns=service_ms * MS_NS, completed=100, duration_s=60, stalls=gaps)
    ((_, times),) = times_of_samples("hdd", "x", [sample])
    assert times.stalls is not None
    assert len(times.stalls.lengths_s) == stalls


def test_a_fill_does_not_measure_the_times_of_writes():
    fill = sample_of(cell_of(kind="fill", operation="write"))
    samples = [fill, sample_of(cell_of())]
    assert [name for name, _ in times_of_samples("gp3", "x", samples)] == ["gp3 read"]
    assert [name for name, _ in times_of_samples("gp3", "x", [fill])] == ["gp3 write"]


@pytest.fixture(scope="module")
def stalling(tmp_path_factory):
    """Measure a device that stalls once without load and once with it, each case once."""
    known = {}

    def measured(stalls: int, shortest_s: float, longest_s: float):
        if (stalls, shortest_s, longest_s) in known:
            return known[stalls, shortest_s, longest_s]
        folder = tmp_path_factory.mktemp("stalling")
        random = np.random.default_rng(stalls)
        seconds, channels, load_share = 60, 4, 0.5
        starts_s = 1 + (np.arange(stalls) + random.uniform(0, 0.3, stalls)) * (58 / stalls)
        lengths_s = random.uniform(shortest_s, longest_s, stalls)
        freezes = ", ".join(
            f"{{ start_s = {start:.3f}, length_s = {length:.3f} }}"
            for start, length in zip(starts_s, lengths_s, strict=True)
        )
        (folder / "m.toml").write_text(
            f"channels = {channels}\nnoise_share = 0.5\nfreezes = [{freezes}]\n"
            "read = { base_us = 400.0, per_kib_us = 0.0 }\n"
        )
        run = ("io", "simulated", "--model", "m.toml", "--block-size", "8k", "--seconds")
        assert seatrial(*run, str(seconds), folder=folder).code == 0
        (_, times), *_ = measured_times(folder)
        rate = channels * load_share / (times.mean_ms.mid / 1000)
        loaded = ("--arrival", "poisson", "--rate", f"{rate:.0f}", "--depth", "256")
        done = seatrial(*run, str(seconds), *loaded, "--threads", "1", folder=folder)
        assert done.code == 0, done
        (sample,) = samples(folder)
        truth = sample.operations["read"].response_histogram()
        known[stalls, shortest_s, longest_s] = times, load_share, channels, truth
        return known[stalls, shortest_s, longest_s]

    return measured


def forecast(times: RequestTimes, channels: int, load_share: float, percentile: str) -> Evaluation:
    """Return storage of those times under a constant load."""
    per_s = channels / (times.mean_ms.mid / 1000)
    storage = candidate("x", 1.0, per_s)
    storage = dataclasses.replace(storage, reads=times)
    wanted = need(per_s * load_share, f"read.{percentile}_ms=1000", other_day=exact(1.0, "typed"))
    (found,) = evaluate([storage], wanted, Scenarios())
    return found


def samples(folder: Path):
    with ResultsFile.open(folder / "results.seatrial", read_only=True) as file:
        return file.samples(file.run("last").id)


def measured_times(folder: Path):
    return times_of_samples("gp3", "x", samples(folder))
