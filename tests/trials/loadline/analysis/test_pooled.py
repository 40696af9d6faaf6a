"""What all rates together say of the slow share at each, and what is known of a rate then."""

from __future__ import annotations

import random

import msgspec
import pytest

from long import trials
from seatrial._core import Histogram
from seatrial.results.model import Slice, Timeline
from seatrial.trials.loadline.analysis.measured_steps import measured_steps
from seatrial.trials.loadline.analysis.rate_verdicts import (
    LimitCounts,
    RateVerdict,
    above_limit,
    above_shares,
    grows,
    judge_rates,
)
from stats.builders import cell_of, sample_of
from trials.loadline.analysis.fake import MS_NS, latency_target_of, tally_of

TRIALS = trials(80, 1000)
LOOKS = 20


def judge(rate_per_s, limit_counts, latency_target) -> RateVerdict:
    (verdicts,) = judge_rates([(rate_per_s, part) for part in limit_counts], latency_target)
    return verdicts


def bunched(draw, share, every=0.1):
    """A sample whose slow requests all come in some of its clusters, a tenth of them by chance."""
    slow = [round(1_000 * share / every) if draw.random() < every else 0 for _ in range(20)]
    return msgspec.structs.replace(tally_of(0.0), above=tuple(slow))


def test_looking_after_each_sample_decides_wrongly_in_one_of_twenty_searches_at_most():
    """The share is just what is allowed: neither answer is right, however often one looks."""
    draw = random.Random(7)
    wrong = {True: 0, False: 0}
    for _ in range(TRIALS):
        parts = []
        for _ in range(LOOKS):
            parts.append(bunched(draw, 0.01))
            answer = judge(10_000, parts, latency_target_of()).holds
            if answer is not None:
                wrong[answer] += 1
                break
    assert max(wrong.values()) <= 0.05 * TRIALS, wrong


def test_rates_share_what_is_known_of_them():
    """None alone is measured enough; what a higher rate keeps within, a lower one does."""
    parts = [[tally_of(0.0, requests=4_000)] for _ in range(6)]
    rates_per_s = [1_800, 1_850, 1_900, 1_950, 1_990, 2_000]
    alone = above_shares(rates_per_s[:1], parts[:1], latency_target_of())
    shares = above_shares(rates_per_s, parts, latency_target_of())
    assert alone[0].high > 0.01 > shares[0].high
    assert [each.high for each in shares] == sorted(each.high for each in shares)


def test_shares_never_fall_as_the_rate_rises():
    parts = [[tally_of(share)] for share in (0.001, 0.012, 0.01, 0.3)]
    shares = above_shares([1_000, 2_000, 3_000, 4_000], parts, latency_target_of())
    assert [each.value for each in shares] == pytest.approx([0.001, 0.011, 0.011, 0.3])
    assert all(each.low <= each.value <= each.high for each in shares)


def test_rates_that_contradict_each_other_are_undecided():
    """A target that sleeps when it has little to do is slow at low rates."""
    parts = [(1_000.0, tally_of(0.2))] * 4 + [(2_000.0, tally_of(0.0))] * 4
    assert [each.holds for each in judge_rates(parts, latency_target_of())] == [None, None]


def test_syncs_are_not_requests_of_the_limit():
    """Writes keep the limit; the syncs after every fourth are far above it."""
    cell = cell_of(
        operation="write", sync_every=4, arrival={"kind": "poisson", "rate_per_s": 100.0}
    )
    writes, syncs = ([MS_NS] * 1000, [100 * MS_NS] * 250)
    sample = sample_of(cell, completed=1000, duration_s=10.0, late_skipped=5)
    sync = msgspec.structs.replace(
        sample.operations["write"], completed=250, response=Histogram.of(syncs).encode()
    )
    parts = [
        Slice(
            index=index,
            operation=kind,
            completed=len(times) // 100,
            transferred_bytes=0,
            response=Histogram.of(times[: len(times) // 100]).encode(),
        )
        for index in range(100)
        for kind, times in (("write", writes), ("sync", syncs))
    ]
    sample = msgspec.structs.replace(
        sample,
        operations=sample.operations | {"sync": sync},
        outcome=msgspec.structs.replace(sample.outcome, completed=1250, offered=1255),
        timeline=Timeline(slice_ns=100 * MS_NS, slices=parts),
    )
    (step,) = measured_steps([sample], latency_target_of("p90"))
    assert step.percentile("p90") == pytest.approx(MS_NS, rel=0.01)
    assert step.step.late_share == 5 / 1005
    (counts,) = step.limit_counts
    assert sum(counts.above) == 5  # those that were skipped
    assert sum(counts.requests) < 1100


def test_rounds_that_differ_widen_the_interval():
    steady = [[tally_of(0.002)] * 4]
    moody = [[tally_of(0.0), tally_of(0.0), tally_of(0.0), tally_of(0.008)]]
    (one,) = above_shares([1_000], steady, latency_target_of())
    (other,) = above_shares([1_000], moody, latency_target_of())
    assert one.value == pytest.approx(other.value)
    assert one.high < other.high


def test_one_freeze_alone_decides_nothing():
    frozen = msgspec.structs.replace(tally_of(0.0), above=(0,) * 8 + (1_000,) * 4 + (0,) * 8)
    assert judge(10_000, [frozen], latency_target_of()).holds is None


def test_one_round_knows_a_clear_case_and_not_a_near_one():
    assert judge(1_000, [tally_of(0.001)], latency_target_of()).holds is True
    assert judge(1_000, [tally_of(0.025)], latency_target_of()).holds is False
    assert judge(1_000, [tally_of(0.0099)], latency_target_of()).holds is None


def test_too_few_requests_hold_nothing():
    few = tally_of(0.0, requests=400)
    assert judge(1_000, [few], latency_target_of()).holds is None
    assert judge(1_000, [few] * 50, latency_target_of()).holds is True


def test_never_answered_requests_count_as_slow():
    part = tally_of(0.0)
    late = LimitCounts(
        requests=(*part.requests[:-1], part.requests[-1] + 600),
        above=(*part.above[:-1], 600),
        mean_ns=part.mean_ns,
        schedule_s=part.schedule_s,
        cluster_s=part.cluster_s,
    )
    assert late.above_share > 0.01
    assert judge(1_000, [late] * 3, latency_target_of()).holds is not True


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
    assert judge(1_000, [growing] * 6, latency_target_of(limit_ns=500 * MS_NS)).holds is True
    assert grows([growing], 5 * MS_NS)
    once, twice = (judge(1_000, [growing] * rounds, latency_target_of()) for rounds in (1, 2))
    assert (once.holds, once.seems_met, twice.holds) == (None, False, False)
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
