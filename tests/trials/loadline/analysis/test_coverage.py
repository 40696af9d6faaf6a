"""How often a search is invalid: counted on devices whose answer is known."""

from __future__ import annotations

import pytest
from scipy.stats import binom

from long import LONG
from seatrial.trials.loadline.analysis.rate_verdicts import count_against_limit
from trials.loadline.analysis.devices import CHOSEN_ON, COUNTED_ON, HONEST_WITHOUT_LOW, Known
from trials.loadline.analysis.virtual import Search

OUTSIDE_SHARE = 0.05
BUDGET_S = 90.0
BRIEF_SEEDS, LONG_SEEDS = range(1, 4), range(2001, 2023)
BAR = 0.99


def searched(known: Known, seeds) -> list[Search]:
    return [Search(known.device, seed, budget_s=BUDGET_S) for seed in seeds]


def is_above(search: Search, known: Known) -> bool:
    sustained = search.line.sustained
    return sustained is not None and sustained.low > known.sustained_per_s


def is_below(search: Search, known: Known) -> bool:
    broken_per_s = search.line.broken_per_s
    return broken_per_s is not None and broken_per_s < known.sustained_per_s


def outside(found: dict[str, list[Search]]) -> dict[str, tuple[int, int]]:
    """By device, how many intervals lie above the truth, and how many below."""
    return {
        name: (
            sum(is_above(search, COUNTED_ON[name]) for search in each),
            sum(is_below(search, COUNTED_ON[name]) for search in each),
        )
        for name, each in found.items()
    }


@pytest.fixture(scope="module")
def found():
    return {name: searched(known, BRIEF_SEEDS) for name, known in COUNTED_ON.items()}


def test_at_most_one_in_twenty_intervals_misses_the_truth_on_either_side(found):
    missed = outside(found)
    searches = sum(map(len, found.values()))
    for side in (0, 1):
        count = sum(each[side] for each in missed.values())
        assert count <= binom.ppf(BAR, searches, OUTSIDE_SHARE), missed


@pytest.mark.skipif(not LONG, reason="hundreds of searches: make test-long")
def test_at_most_one_in_twenty_of_hundreds_misses_the_truth_and_none_of_a_device_often():
    missed = outside({name: searched(known, LONG_SEEDS) for name, known in COUNTED_ON.items()})
    searches = len(COUNTED_ON) * len(LONG_SEEDS)
    assert sum(map(sum, missed.values())) <= OUTSIDE_SHARE * searches, missed
    most = binom.ppf(BAR, len(LONG_SEEDS), OUTSIDE_SHARE)
    assert all(sum(each) <= most for each in missed.values()), missed


def test_no_answer_is_given_only_where_that_is_honest(found):
    resolvable = [each for name, each in found.items() if name not in HONEST_WITHOUT_LOW]
    without = sum(search.line.sustained is None for each in resolvable for search in each)
    assert without <= 0.35 * sum(map(len, resolvable))


def test_no_knee_is_named_where_none_is_decided(found):
    for each in found.values():
        for search in each:
            line = search.line
            if line.sustained is None or line.broken_per_s is None:
                assert line.knee_per_s is None
                assert line.breaks not in ("knee", "cliff")


def test_a_search_takes_at_most_half_longer_than_a_minute(found):
    times_s = [search.spent_s for each in found.values() for search in each]
    assert max(times_s) <= BUDGET_S
    assert sum(times_s) / len(times_s) < 75


def test_a_flat_tail_ends_without_a_lower_end_and_says_so():
    search = Search(CHOSEN_ON["flat below the limit"].device, 3, budget_s=BUDGET_S)
    line = search.line
    assert line.sustained is None
    assert (line.breaks, line.knee_per_s) == ("undecided", None)
    assert line.sentence.startswith("Undecided")
    assert "too few groups of slow requests" in line.cause


def test_without_an_upper_end_only_the_lower_one_is_reported():
    line = Search(CHOSEN_ON["fast queue, M/M/1"].device, 1, budget_s=15.0).line
    proven = [step.offered_per_s for step in line.steps if step.holds]
    assert line.steps[-1].offered_per_s > 2 * proven[-1], "higher rates seemed to meet the limit"
    assert (line.sustained.value, line.sustained.high) == (proven[-1], None)


def test_a_throttles_credit_does_not_raise_what_is_sustained():
    """Each sample begins with a credit that carries it 5 % beyond what the throttle lets pass."""
    known = CHOSEN_ON["throttle"]
    for seed in (1, 2, 3):
        line = Search(known.device, seed, budget_s=BUDGET_S).line
        assert line.sustained.low <= known.sustained_per_s
        assert line.sustained.value <= 4_010
        assert known.sustained_per_s <= line.sustained.high


def test_the_start_of_a_sample_is_not_counted():
    search = Search(COUNTED_ON["even work, M/D/1"].device, 1, budget_s=10.0)
    sample = search.samples[-1]
    part = count_against_limit(sample, 2_000_000)
    assert part.begins_s == pytest.approx(0.2)
    assert part.schedule_s == pytest.approx(1.8)
    assert part.requests_total < 0.95 * sample.outcome.offered


def test_the_truth_of_the_devices_is_the_theorys():
    for known in (CHOSEN_ON["queue, M/M/1"], COUNTED_ON["fast queue, M/M/1"]):
        share = known.device.slow_share_at(known.sustained_per_s, requests=2_000_000, seed=1)
        assert share == pytest.approx(0.01, rel=0.1)
