"""The law of a cache: the article's figures, known laws with noise, and what it refuses."""

import math

import numpy as np
import pytest

from seatrial.trials.database.analysis.cache_sweep import CacheTime, cache_law
from seatrial.units import GIB, MIB

from .published import law_of_rates

# reference/sql-replay-2008.csv: lines of SQL per second by RDD cache, new schema; the SSD's run.
RATES_PER_S = {1512: 240.0, 3500: 288.0, 5500: 359.0, 11000: 407.0}
SSD_PER_S = 8198.0


def article(*sizes_mib):
    return law_of_rates(
        [size * MIB for size in sizes_mib],
        [RATES_PER_S[size] for size in sizes_mib],
        cpu_s=1 / SSD_PER_S,
    )


def test_three_points_of_the_article_predict_the_fourth():
    law = article(1512, 3500, 5500)
    predicted = law.rate_per_s(11000 * MIB)
    assert round(1e3 * law.cpu_s.value, 3) == 0.122
    assert round(predicted.value) == 426
    assert predicted.value / 407 - 1 == pytest.approx(0.047, abs=0.0005)
    assert predicted.low < 407 < predicted.high
    assert not law.obstacle


def test_all_four_points_of_the_article_lie_within_5_percent():
    law = article(*RATES_PER_S)
    for size_mib, rate_per_s in RATES_PER_S.items():
        assert law.rate_per_s(size_mib * MIB).value == pytest.approx(rate_per_s, rel=0.053)
    assert round(law.a.value, 2) == 0.29
    assert max(abs(math.expm1(off)) for off in law.residual_shares) < 0.05


def test_without_the_ssd_the_processor_time_stays_open():
    """Three points tell three parameters exactly and nothing of their doubt: it shows."""
    open_law = law_of_rates(
        [1512 * MIB, 3500 * MIB, 5500 * MIB], [RATES_PER_S[size] for size in (1512, 3500, 5500)]
    )
    reported = article(1512, 3500, 5500)
    wide, narrow = (law.rate_per_s(11000 * MIB) for law in (open_law, reported))
    assert wide.low < 407 < wide.high
    assert wide.high - wide.low > 1.5 * (narrow.high - narrow.low)
    assert open_law.cpu_s.low == 0.0
    assert open_law.cpu_s.high > 1e-3


SIZES_BYTES = [GIB, 2 * GIB, 4 * GIB, 8 * GIB]


def known_time_s(size_bytes, cpu_s=0.0005, exponent=0.6):
    return cpu_s + 0.004 * (size_bytes / GIB) ** -exponent


def test_a_known_law_is_found():
    points = [CacheTime(size, known_time_s(size), 0.001, 3) for size in SIZES_BYTES]
    law = cache_law(points, cpu_s=(0.0005, 0.0005))
    assert law.a.value == pytest.approx(0.6, abs=1e-3)
    assert law.time_s(16 * GIB).value == pytest.approx(known_time_s(16 * GIB), rel=1e-3)
    assert law.k_s * GIB**-law.a.value == pytest.approx(0.004, rel=1e-3)


@pytest.mark.parametrize("cpu_known", [True, False], ids=["cpu known", "cpu open"])
@pytest.mark.parametrize("noise", [0.01, 0.04])
def test_the_interval_holds_the_next_size(noise, cpu_known):
    """Of laws drawn by chance, at least 93 % of the next sizes' rates are within it."""
    draw = np.random.default_rng(5)
    trials, held = 45, 0
    for _ in range(trials):
        exponent, cpu_s = draw.uniform(0.2, 1.0), draw.uniform(0.0, 0.001)
        scatter = np.exp(noise * draw.standard_normal(5))
        times_s = [known_time_s(size, cpu_s, exponent) for size in (*SIZES_BYTES, 16 * GIB)]
        points = [
            CacheTime(size, time_s * off, noise / math.sqrt(3), 3)
            for size, time_s, off in zip(SIZES_BYTES, times_s, scatter, strict=False)
        ]
        law = cache_law(points, cpu_s=(cpu_s, cpu_s) if cpu_known else None)
        found = law.time_s(16 * GIB)
        held += found.low <= times_s[-1] * scatter[-1] <= found.high
    assert held / trials >= 0.93


def test_a_flat_line_is_refused():
    points = [
        CacheTime(size, 0.001 * off, 0.01, 3)
        for size, off in zip(SIZES_BYTES, (1.0, 1.01, 0.99, 0.98), strict=True)
    ]
    assert cache_law(points).obstacle == "A larger cache has no significant effect"


@pytest.mark.parametrize(
    ("times_s", "last_rounds"), [((1.0, 0.97, 0.93, 0.9), 10), ((1.0, 0.9, 0.8, 0.7), 2)]
)
def test_a_gain_within_the_noise_of_its_rounds_is_refused(times_s, last_rounds):
    """The side with fewer rounds determines how much its noise may be."""
    rounds = (10, 10, 10, last_rounds)
    points = [
        CacheTime(*each, 0.05, count)
        for *each, count in zip(SIZES_BYTES, times_s, rounds, strict=True)
    ]
    assert "no significant effect" in cache_law(points).obstacle


def test_points_off_the_law_are_refused():
    """Data that are all wanted equally often: misses fall in a straight line, then end."""
    times_s = [0.001 + 0.01 * max(0.0, 1 - size / (8 * GIB)) for size in SIZES_BYTES]
    points = [CacheTime(size, t, 0.01, 3) for size, t in zip(SIZES_BYTES, times_s, strict=True)]
    assert "The model does not fit" in cache_law(points).obstacle


@pytest.mark.parametrize("sizes_bytes", [[GIB, 2 * GIB], [GIB, GIB, 2 * GIB]], ids=str)
def test_too_few_sizes_are_no_law(sizes_bytes):
    with pytest.raises(ValueError, match="at least 3 different sizes"):
        cache_law([CacheTime(size, 1.0) for size in sizes_bytes])
