"""Risk against the exact Markov chain, and against what other causes must contribute."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.linalg import expm
from scipy.stats import gamma

from cli.command import Ended, seatrial
from report.json_schema import assert_published
from seatrial.errors import UsageError
from seatrial.trials.plan.analysis.array import Array, checked
from seatrial.trials.plan.analysis.figure import Figure, exact, parse_figure
from seatrial.trials.plan.analysis.risk import (
    HOURS_PER_YEAR,
    FailureRate,
    Risk,
    RiskAssumptions,
    rate_of_model,
    risk_of,
)
from seatrial.trials.plan.analysis.wear import amplification_over, endurance_of, wear_of
from seatrial.trials.plan.report.risk_text import chance_phrase

from .made import facts


def lost_in_chain(drives: int, tolerated: int, per_year: float, repair_h: float) -> float:
    """The exact probability of losing a group within 5 years, repairs one after the other."""
    chain = np.zeros((tolerated + 2, tolerated + 2))
    for failed in range(tolerated + 1):
        chain[failed, failed + 1] = (drives - failed) * per_year
        if failed:
            chain[failed, failed - 1] = HOURS_PER_YEAR / repair_h
        chain[failed, failed] = -chain[failed].sum()
    return float(expm(chain * 5)[0, tolerated + 1])


def simulated(
    level: str, drives: int, per_year: float, repair_h: float, *, exponential: bool = True, **more
) -> Risk:
    array = Array(
        level=level,
        drives=drives,
        legs=more.pop("legs", 1),
        spares=more.pop("spares", 0),
        drive_bytes=more.pop("drive_bytes", 1e12),
    )
    assumed = RiskAssumptions(
        failures=FailureRate(typed=exact(per_year, "typed"), origin="typed"),
        rebuild_h=exact(repair_h, "typed"),
        replace_h=exact(more.pop("replace_h", 0.0), "typed"),
        detect_h=exact(0.0, "typed"),
        unreadable_per_bit=exact(more.pop("uber", 0.0), "typed"),
        common_share=exact(more.pop("common", 0.0), "typed"),
        on_unreadable=more.pop("rule", "md"),
    )
    return risk_of(array, assumed, exponential=exponential, **more)


@pytest.mark.parametrize(
    ("level", "drives", "per_year", "repair_h"),
    [
        ("raid5", 8, -np.log(0.8), 72.0),
        ("raid5", 8, 0.015, 14.8),
        ("raid5", 4, 0.05, 200.0),
        ("raid6", 8, 0.015, 14.8),
        ("raid6", 12, 0.03, 100.0),
        ("raid10", 8, 0.015, 14.8),
        ("raid1", 3, 0.1, 100.0),
    ],
)
def test_the_simulation_is_the_markov_chain(level, drives, per_year, repair_h):
    tolerated = {"raid5": 1, "raid6": 2, "raid10": 1, "raid1": drives - 1}[level]
    members, groups = (2, drives // 2) if level == "raid10" else (drives, 1)
    exact_value = 1 - (1 - lost_in_chain(members, tolerated, per_year, repair_h)) ** groups
    found = simulated(level, drives, per_year, repair_h)
    assert found.lost.mean == pytest.approx(exact_value, rel=4 * found.error_share + 0.002)
    assert found.error_share < 0.03


def test_the_published_oracle_is_met():
    assert lost_in_chain(8, 1, -np.log(0.8), 72.0) == pytest.approx(0.10532, abs=1e-5)
    assert simulated("raid5", 8, -np.log(0.8), 72.0).lost.mean == pytest.approx(0.1053, abs=5e-4)


def test_the_leg_of_the_articles():
    """5 drives of 32 GB and a spare, rebuilt in 15 minutes; and both legs, twelve drives."""
    leg = {"drive_bytes": 32e9, "exponential": False, "replace_h": 24.0}
    with_spare = simulated("raid5", 5, 0.01, 0.25, spares=1, uber=1e-15, common=0.01, **leg)
    assert with_spare.by_drives.mean == pytest.approx(2.87e-7, rel=0.02)
    assert with_spare.unreadable.mean == pytest.approx(2.5e-4, rel=0.03)
    assert with_spare.by_common.mean == pytest.approx(2.5e-3, rel=0.02)
    without = simulated("raid5", 5, 0.01, 0.25, **leg)
    assert without.by_drives.mean / with_spare.by_drives.mean == pytest.approx(97, rel=0.04)
    both = simulated("raid5", 5, 0.01, 0.25, spares=1, legs=2, common=0.01, **leg)
    assert both.lost.mean == pytest.approx(2 * 2.5e-3, rel=0.02)
    assert both.array.usable_bytes == 256e9
    assert both.by_common.mean > 1000 * both.by_drives.mean


def test_an_unreadable_sector_costs_what_its_backend_loses():
    case = {"drive_bytes": 8e12, "uber": 1e-14, "exponential": False}
    md = simulated("raid5", 8, 0.015, 14.8, **case)
    assert md.by_unreadable.mean == 0
    assert md.unreadable.mean == pytest.approx(0.45, abs=0.01)
    assert md.lost_bytes.mean - md.lost.mean * md.array.usable_bytes == pytest.approx(
        0.6 * 4.48 * 4096, rel=0.05
    )
    hardware = simulated("raid5", 8, 0.015, 14.8, rule="hardware", **case)
    assert hardware.by_unreadable.mean == pytest.approx(0.45, abs=0.01)
    assert hardware.unreadable.mean == 0
    assert simulated("raid6", 8, 0.015, 14.8, **case).unreadable.mean < 1e-3


def test_sectors_are_unreadable_only_where_redundancy_is_exhausted():
    """At 7.7 bits expected, a rebuild without redundancy is nearly always hit, and no other."""
    case = {"drive_bytes": 16e12, "uber": 1e-14, "exponential": False, "rule": "hardware"}
    exhausted = 8 * 0.015 * 5 * (1 - np.exp(-7 * 0.015 * 72 / HOURS_PER_YEAR))
    found = simulated("raid6", 8, 0.015, 72.0, **case)
    assert found.by_unreadable.mean == pytest.approx(exhausted, rel=0.1)


def test_a_count_of_failures_is_an_interval():
    random = np.random.default_rng(1)
    drawn = FailureRate(failures=2, drive_years=160, origin="typed").draw(random, 200_000)
    assert np.percentile(drawn, (5, 95)) == pytest.approx([0.0036, 0.0346], rel=0.02)
    none = FailureRate(failures=0, drive_years=10, origin="typed").draw(random, 200_000)
    assert np.percentile(none, 95) == pytest.approx(gamma(0.5, scale=0.1).ppf(0.95), rel=0.02)
    rows = list(facts().failures.values())
    known = rate_of_model("ST8000NM0055", rows, "catalogue")
    assert (known.failures, round(known.drive_years)) == (1893, 100294)
    unknown = rate_of_model("no such drive", rows, "catalogue")
    assert len(unknown.models) == 46
    wide: NDArray[np.float64] = unknown.draw(random, 20_000)
    narrow = known.draw(random, 20_000)
    assert np.std(np.log(wide)) > 10 * np.std(np.log(narrow))


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from(["raid1", "raid5", "raid6", "raid10"]),
    st.floats(0.005, 0.1),
    st.floats(1, 100),
    st.floats(1.05, 3),
)
def test_worse_is_never_better(level, per_year, repair_h, factor):
    few = {"scenarios": 50, "lifetimes": 100, "exponential": False}
    base = simulated(level, 4, per_year, repair_h, **few)
    for worse in (
        simulated(level, 4, per_year * factor, repair_h, **few),
        simulated(level, 4, per_year, repair_h * factor, **few),
        simulated(level, 4, per_year, repair_h, common=0.01, **few),
    ):
        assert worse.lost.mean >= base.lost.mean * 0.98
    assert 0 <= base.lost.mean <= 1


def test_wear_is_arithmetic():
    array = Array(level="raid1", drives=2, drive_bytes=1.92e12)
    at_waf = {
        waf: wear_of(
            array,
            exact(20e6 * 86400, "typed"),
            exact(3504e12, "typed"),
            over_rated=exact(waf, "typed"),
        ).years.mid
        for waf in (1.0, 3.0)
    }
    assert at_waf == pytest.approx({1.0: 5.55, 3.0: 1.85}, rel=0.01)
    raid5 = Array(level="raid5", drives=5, drive_bytes=1e12)
    assert raid5.written_share == pytest.approx((0.25, 0.4))
    sheet = facts().drives["Kingston/DC600M/960GB"]
    found = endurance_of(sheet, 0.96e12, "catalogue")
    assert found is not None
    assert found.mid == 1752e12
    half = wear_of(array, exact(1e12, "typed"), found, used_share=0.5, over_rated=exact(1, "t"))
    assert half.years.mid == pytest.approx(1752 / 2 / 365.25)


def test_the_write_amplification_of_the_rating_counts_once(tmp_path: Path):
    """TBW is what the host may write in the vendor's test, with the amplification of that test."""
    assert amplification_over(exact(4, "typed"), exact(2, "typed")) == exact(2, "typed")
    wide = Figure(low=1, mid=2, high=4, origin="assumed")
    both = amplification_over(wide, wide)
    assert (both.mid, both.high) == pytest.approx((1, 2 ** (2**0.5)))
    words = (
        "--drives", "2", "--capacity", "1.92TB", "--level", "raid1", "--json",
        "--written", "1.728TB", "--endurance", "3504TB",
    )  # fmt: skip
    like_rated = called(tmp_path, *words, "--waf", "3", "--rated-waf", "3").document["wear"]
    assert like_rated["years"]["mid"] == pytest.approx(5.55, rel=0.01)
    unknown = called(tmp_path, *words).document["wear"]
    assert unknown["years"]["mid"] == pytest.approx(5.55, rel=0.03)
    assert unknown["over_rated"]["high"] == 2


def test_figures_are_read_and_refused():
    assert parse_figure("1%", "x").mid == 0.01
    assert parse_figure("2..8", "x").mid == 4
    assert parse_figure("1..2..9", "x") == Figure(low=1, mid=2, high=9, origin="typed")
    assert parse_figure("0..20%", "x").mid == pytest.approx(0.1)
    for wrong in ("", "x", "8..2", "-1", "1..2..3..4", "nan", "inf"):
        with pytest.raises(UsageError, match="is not a valid x"):
            parse_figure(wrong, "x")
    normal = np.random.default_rng(1).standard_normal(100_000)
    drawn = Figure(low=1, mid=2, high=9, origin="typed").at(normal)
    assert np.percentile(drawn, (5, 50, 95)) == pytest.approx([1, 2, 9], rel=0.03)
    from_none = Figure(low=0, mid=0.2, high=0.6, origin="assumed").at(normal)
    assert np.percentile(from_none, (50, 95)) == pytest.approx([0.2, 0.6], rel=0.03)
    # A quarter is below the median by 0.674 of the 1.645 deviates that 5 % are below it.
    assert np.percentile(from_none, 25) == pytest.approx(0.2 * (1 - 0.6745 / 1.6449), rel=0.03)
    assert from_none.min() == 0
    rare = Figure(low=0, mid=0, high=0.6, origin="typed").at(normal)
    assert np.percentile(rare, (50, 95)) == pytest.approx([0, 0.6], rel=0.03, abs=0.005)
    for level, drives in (("raid5", 2), ("raid6", 3), ("raid10", 5), ("raid1", 1), ("raid7", 4)):
        with pytest.raises(UsageError):
            checked(Array(level=level, drives=drives, drive_bytes=1e12))


def called(folder: Path, *words: str) -> Ended:
    return seatrial(
        "risk", *words, folder=folder, env={"SEATRIAL_CATALOGUE": str(folder / "own.toml")}
    )


def test_the_dominating_cause_is_in_the_first_sentence(tmp_path: Path):
    words = ("--drives", "8", "--model", "st8000nm0055", "--level", "raid6", "--spare", "1")
    done = called(tmp_path, *words)
    assert (done.code, done.err) == (0, "")
    assert "all of that by a common cause" in done.out.replace("\n", " ")
    assert "1,893 failures in 100,294 drive-years" in done.out
    document = called(
        tmp_path, *words, "--written", "1TB", "--endurance", "2000TB", "--json"
    ).document
    assert_published(document)
    assert document["risk"]["lost"]["low"] <= document["risk"]["lost"]["high"]
    assert document["wear"]["years"]["mid"] > 0


def test_ends_that_agree_are_one_figure(tmp_path: Path):
    words = ("--drives", "4", "--capacity", "8TB", "--level", "raid10", "--written", "1.7TB")
    done = called(tmp_path, *words, "--endurance", "3504TB")
    text = done.out.replace("\n", " ").replace("   ", " ")
    assert "At 1.7 TB written per day (typed), each drive lasts 11 years (5.7 to 22): 50 %" in text
    assert "Rebuild: 22.2 hours (11.1 to 44.4; assumed" in text


def test_a_failure_rate_is_a_percentage_with_and_without_its_sign(tmp_path: Path):
    words = ("--drives", "4", "--capacity", "8TB", "--level", "raid5", "--json", "--afr")
    plain, signed = (called(tmp_path, *words, afr).document["risk"] for afr in ("1..2", "1%..2%"))
    assert signed == plain
    assert plain["assumed"]["failures"]["typed"]["high"] == pytest.approx(0.02)


RAID6 = ("--drives", "4", "--capacity", "8TB", "--level", "raid6")


def test_drives_that_never_fail_lose_nothing(tmp_path: Path):
    words = ("--drives", "4", "--capacity", "8TB", "--level", "raid5", "--afr", "0..2")
    assert max(len(line) for line in called(tmp_path, *words).out.splitlines()) < 200
    assert (chance_phrase(1e-300), chance_phrase(1e-12)) == ("none", "1 in 1,000,000,000,000")
    assert [chance_phrase(share, 0.034) for share in (0.012, 0.0017)] == ["1.2 %", "0.17 %"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--drives", "3", "--capacity", "8TB", "--level", "raid6"), "at least 4 drives"),
        (("--drives", "4", "--level", "raid6"), "size of a drive is unknown"),
        (("--drives", "4", "--capacity", "8", "--level", "raid6", "--failures", "1"), "needs both"),
        (
            ("--drives", "4", "--capacity", "8XB", "--level", "raid6"),
            "'8XB' is not a valid capacity",
        ),
        (("--drives", "4", "--capacity", "8TB", "--level", "raid6", "--afr", "x"), "--afr"),
        (
            ("--drives", "4", "--capacity", "8TB", "--level", "raid6", "--written", "1TB"),
            "The lifetime of the drives is unknown",
        ),
        ((*RAID6, "--written", "1TB", "--endurance", "9TB", "--waf", "0"), "amplification of 0"),
        ((*RAID6, "--endurance", "9TB"), "--endurance is of no use"),
        ((*RAID6, "--common-cause", "5"), "--common-cause 5 is 500 %"),
        ((*RAID6, "--spare", "9999999"), "0<=x<=100"),
        ((*RAID6, "--load", "reads=1,writes=0,size=8KiB", "--waf", "2"), "Nothing is written"),
    ],
)
def test_bad_input_is_one_sentence(tmp_path: Path, words: tuple[str, ...], said: str):
    done = called(tmp_path, *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_a_run_without_a_rebuild_is_refused(tmp_path: Path):
    assert seatrial("io", "null", "--seconds", "0.2", folder=tmp_path).code == 0
    words = ("--drives", "4", "--capacity", "8TB", "--level", "raid5", "--rebuild", "last")
    done = called(tmp_path, *words)
    assert (done.code, "has no rebuild whose rate is known" in done.err) == (2, True)
