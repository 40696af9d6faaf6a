"""Burst credit: distinguished from a cache, a link, a slow cell and noise."""

import numpy as np
import pytest

from seatrial.findings.context import Context
from seatrial.findings.summary import summarise_cell
from seatrial.trials.io.findings.burst_credit import burst_credit
from stats.builders import cell_of, run_of
from stats.timed import noisy_counts, timed_sample

BASE = 20  # completions in a slice, 200 a second
CREDIT = 4000


def run_on_credit(cells, *, credit=CREDIT, refill=BASE, values=60, pause_s=0.0, rounds=2):
    """The cells measured in turns on a volume that lends, pairs of cell and its own rate a slice.

    Returns summaries; credit lasts from sample to sample and comes back in the pauses.
    """
    left, clock_s, samples = float(credit), 1000.0, {}
    for number in range(rounds):
        for place, (cell, own) in enumerate(cells):
            counts = []
            for noise in noisy_counts(values, level=own, seed=number * 97 + place):
                done = min(noise, refill + left)
                left = min(credit, left + refill - done)
                counts.append(round(done))
            sample = timed_sample(counts, cell, round=number, position=place, started_at=clock_s)
            samples.setdefault(cell.key, []).append(sample)
            clock_s += values * 0.1 + pause_s
            left = min(credit, left + refill * pause_s * 10)
    return [summarise_cell(own) for own in samples.values()]


def cells_of(*own, target="trial"):
    kinds = ("read", "write", "read", "write")
    return [
        (cell_of(operation=kinds[place], block_size_bytes=4096 << place, target=target), rate)
        for place, rate in enumerate(own)
    ]


def found(cells):
    return burst_credit(Context(run_of(), cells))


def test_a_credit_spent_once_is_found_though_one_cell_alone_could_use_it():
    (finding,) = found(run_on_credit(cells_of(150, 120, 100, 130)))
    assert finding.severity == "critical"
    assert finding.evidence["base_per_s"] == pytest.approx(200, rel=0.03)
    assert finding.evidence["credit_operations"] == pytest.approx(CREDIT, rel=0.1)
    assert not finding.evidence["recovers"]
    assert "200 IOPS" in finding.sentence


def test_a_credit_that_comes_back_in_pauses_is_found_with_its_size():
    cells = run_on_credit(cells_of(150, 120, 100, 130), pause_s=60)
    (finding,) = found(cells)
    assert finding.evidence["recovers"]
    assert finding.evidence["episodes_count"] > 3
    assert finding.evidence["credit_operations"] == pytest.approx(CREDIT, rel=0.1)
    assert "start fast again" in finding.sentence


def test_each_target_has_its_own_credit():
    lent = run_on_credit(cells_of(150, 120, 100, target="lent"), pause_s=60)
    own = run_on_credit(cells_of(150, 120, 100, target="own"), credit=1e9)
    (finding,) = found([*lent, *own])
    assert {cell["target"] for cell in finding.cells} == {"lent"}


def test_plenty_of_credit_is_no_finding():
    assert found(run_on_credit(cells_of(150, 120, 100, 130), credit=1e9)) == []


def test_one_rate_for_all_cells_that_never_fell_is_a_limit_and_no_credit():
    assert found(run_on_credit(cells_of(150, 120, 100, 130), credit=0)) == []


def test_a_cache_that_spares_reads_is_no_credit():
    """Writes of two sizes fall to one drain rate; reads go on as they were."""
    writes = [(cell_of(operation="write", block_size_bytes=size), 150) for size in (4096, 8192)]
    cells = run_on_credit(writes, pause_s=60)
    reads = [(cell_of(block_size_bytes=4096), 100)]
    assert found([*cells, *run_on_credit(reads, credit=1e9)]) == []


def test_cells_that_fall_to_rates_of_their_own_share_no_credit():
    cells = []
    for place, factor in enumerate((0.2, 0.35, 0.5, 0.7)):
        kind = ("read", "write")[place % 2]
        cell = cell_of(operation=kind, block_size_bytes=4096 << place)
        counts = noisy_counts(60, level=150, seed=place)
        counts[25:] = np.rint(counts[25:] * factor)
        cells.append(summarise_cell([timed_sample(counts, cell, started_at=1000.0 + 10 * place)]))
    assert found(cells) == []


def test_a_fall_after_any_amount_of_work_is_no_credit():
    """All fall to one rate, but after 1,000, 2,500 and 4,000 requests, each after a long pause."""
    cells = []
    for place, until in enumerate((8, 20, 32)):
        cell = cell_of(operation=("read", "write")[place % 2], block_size_bytes=4096 << place)
        counts = noisy_counts(80, level=150, seed=place)
        counts[until:] = np.rint(counts[until:] * BASE / 150)
        sample = timed_sample(counts, cell, started_at=1000.0 + 10_000 * place)
        cells.append(summarise_cell([sample]))
    assert found(cells) == []


@pytest.mark.parametrize("spread", [0.05, 0.3])
def test_noise_raises_nothing(spread):
    for seed in range(15):
        cells = [
            summarise_cell([noisy_sample(cell, spread, seed, place, n) for n in range(3)])
            for place, (cell, _) in enumerate(cells_of(100, 100, 100, 100))
        ]
        assert found(cells) == []


def noisy_sample(cell, spread, seed, place, number):
    """A round about a level of its cell, with noise of its own."""
    own_seed = (seed * 4 + place) * 3 + number
    counts = noisy_counts(60, spread=spread, correlation=0.8, seed=own_seed)
    return timed_sample(counts, cell, round=number, position=place, started_at=1000.0 + number)


def test_a_target_that_stops_in_mid_sample_has_no_credit_and_ends_no_report():
    """As a disk does that fills up: every request fails from then on."""
    samples = [
        timed_sample([*noisy_counts(40, level=90, seed=place), *[0] * 40], cell, position=place)
        for place, (cell, _) in enumerate(cells_of(90, 90))
    ]
    assert not found([summarise_cell([sample]) for sample in samples])


def test_short_samples_alone_report_nothing():
    assert found(run_on_credit(cells_of(150, 120, 100, 130), values=10)) == []
