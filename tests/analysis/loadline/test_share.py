"""The interval of the slow share: it holds the truth where requests come in bunches."""

from __future__ import annotations

import random

import pytest
from scipy.stats import binomtest

from analysis.loadline.fake import MS_NS, asked_of, tally_of
from seatrial._core import Histogram
from seatrial.analysis.loadline.growth import grows
from seatrial.analysis.loadline.judged import judge
from seatrial.analysis.loadline.share import above_share, clustered_interval_share
from seatrial.analysis.loadline.tally import Tally, above_limit

TRIALS = 400
SHARE = 0.01


def bunched(draw, often, clusters=20, requests=500):
    """Slow requests in bunches: some clusters have ten times the share of the others."""
    high = SHARE / (often + (1 - often) / 10)
    shares = [high if draw.random() < often else high / 10 for _ in range(clusters)]
    return [(requests, sum(draw.random() < share for _ in range(requests))) for share in shares]


def test_without_bunches_it_is_the_exact_interval_of_scipy():
    alike = [(1_000, 10)] * 400
    low, high = clustered_interval_share(alike)
    exact = binomtest(4_000, 400_000).proportion_ci(method="exact")
    assert (low, high) == pytest.approx((exact.low, exact.high), rel=0.01)


def test_no_slow_request_among_few_leaves_room_for_many():
    low, high = clustered_interval_share([(10, 0)] * 20)
    exact = binomtest(0, 200).proportion_ci(method="exact")
    assert low == 0
    assert high >= exact.high > 0.01
    assert clustered_interval_share([(5_000, 0)] * 20)[1] < 0.0001


@pytest.mark.parametrize(("often", "least"), [(0.25, 0.91), (0.1, 0.84)])
def test_the_interval_holds_the_truth_where_slow_requests_come_in_bunches(often, least):
    draw = random.Random(7)
    held = naive = 0
    for _ in range(TRIALS):
        clusters = bunched(draw, often)
        low, high = clustered_interval_share(clusters)
        held += low <= SHARE <= high
        requests, slow = (sum(part) for part in zip(*clusters, strict=True))
        exact = binomtest(slow, requests).proportion_ci(method="exact")
        naive += exact.low <= SHARE <= exact.high
    assert held / TRIALS >= least
    assert naive / TRIALS < 0.6, "the oracle: independent requests would claim far too much"


def test_rounds_that_differ_widen_the_interval():
    steady = [tally_of(0.002)] * 4
    moody = [tally_of(0.0), tally_of(0.0), tally_of(0.0), tally_of(0.008)]
    assert above_share(steady).value == pytest.approx(above_share(moody).value)
    assert above_share(steady).high < 0.01 < above_share(moody).high


def test_one_round_knows_a_clear_case_and_not_a_near_one():
    assert judge(1_000, [tally_of(0.001)], asked_of()).holds is True
    assert judge(1_000, [tally_of(0.05)], asked_of()).holds is False
    assert judge(1_000, [tally_of(0.0099)], asked_of()).holds is None


def test_too_few_requests_hold_nothing():
    few = tally_of(0.0, requests=400)
    assert judge(1_000, [few], asked_of()).holds is None
    assert judge(1_000, [few] * 5, asked_of()).holds is True


def test_never_answered_requests_count_as_slow():
    part = tally_of(0.0)
    late = Tally(
        requests=(*part.requests[:-1], part.requests[-1] + 600),
        above=(*part.above[:-1], 600),
        mean_ns=part.mean_ns,
        schedule_s=part.schedule_s,
        cluster_s=part.cluster_s,
    )
    assert late.above_share > 0.01
    assert judge(1_000, [late] * 3, asked_of()).holds is not True


def test_a_bucket_counts_as_a_percentile_reads_it():
    times = Histogram.of([4 * MS_NS] * 98 + [6 * MS_NS] * 2)
    assert above_limit(times, 5 * MS_NS) == 2
    assert above_limit(times, 6 * MS_NS + 100_000) == 0
    assert above_limit(times, 6 * MS_NS - 100_000) == 2
    assert above_limit(Histogram.of([]), MS_NS) == 0


def rising(start_ns, per_cluster_ns, noise_ns=0.0, seed=1):
    draw = random.Random(seed)
    return [start_ns + per_cluster_ns * n + draw.gauss(0, noise_ns) for n in range(20)]


def test_a_backlog_that_grows_does_not_hold_though_it_is_within_the_limit_yet():
    growing = tally_of(0.0, means_ns=rising(MS_NS, 20_000, noise_ns=20_000))
    assert judge(1_000, [growing], asked_of(limit_ns=500 * MS_NS)).holds is True
    assert grows([growing], 5 * MS_NS)
    once, twice = (judge(1_000, [growing] * rounds, asked_of()) for rounds in (1, 2))
    assert (once.holds, once.leans, twice.holds) == (None, False, False)
    assert not grows([growing], 500 * MS_NS), "it would not reach that within a minute"


def test_a_queue_that_wavers_does_not_grow():
    wavering = [
        tally_of(0.0, means_ns=rising(MS_NS, 0, noise_ns=300_000, seed=seed)) for seed in range(200)
    ]
    assert sum(grows([part], 5 * MS_NS) for part in wavering) <= 4
    assert not grows([tally_of(0.0)], 5 * MS_NS), "nothing moves"


def test_few_clusters_seldom_rise_by_accident():
    wavering = [
        tally_of(0.0, means_ns=rising(MS_NS, 0, noise_ns=300_000, seed=seed)[:10])
        for seed in range(1_000)
    ]
    assert sum(grows([part], 5 * MS_NS) for part in wavering) <= 3


def test_most_rounds_must_grow():
    growing = tally_of(0.0, means_ns=rising(MS_NS, 200_000))
    assert grows([growing, growing, tally_of(0.0)], 5 * MS_NS)
    assert not grows([growing, tally_of(0.0)], 5 * MS_NS)
