"""Start-up phases that one side has and the other has not, or not surely."""

import numpy as np
import pytest

from seatrial.stats.compare.comparison import compare
from stats.builders import cell_of
from stats.timed import timed_sample

from .sides import side_of

SLICES = 50


def one_side(name, start_ratio, *, seed, rounds=5, slices=SLICES):
    """A side of two cells whose rate is 2,000 a second, but for the first two seconds."""
    draw = np.random.default_rng(seed)
    level = np.where(np.arange(slices) < 20, start_ratio, 1.0) * 200
    samples = [
        timed_sample(
            np.rint(level * np.exp(0.03 * draw.standard_normal(slices))).astype(int),
            cell_of(threads=threads),
            round=number,
            started_at=1000.0 + number,
        )
        for number in range(rounds)
        for threads in (1, 2)
    ]
    return side_of(name, samples, run_id="one")


@pytest.mark.parametrize(("start_a", "start_b"), [(1.14, 1.3), (1.3, 1.14)])
def test_a_start_cut_on_one_side_alone_is_no_difference(start_a, start_b):
    a, b = one_side("A", start_a, seed=1), one_side("B", start_b, seed=2)
    (reported,) = compare(a, [b], figures=["iops"])
    assert reported.overall["iops"].value == pytest.approx(1.0, abs=0.02)
    assert {each.answer for each in reported.comparands} <= {"same", "undecided"}
    (warning,) = (w for w in reported.warnings if "start-up phase" in w)
    assert warning.startswith("Some rounds of 2 tests")


@pytest.mark.parametrize("start", [1.0, 2.0])
def test_starts_that_are_alike_are_no_warning(start):
    (reported,) = compare(one_side("A", start, seed=1), [one_side("B", start, seed=2)])
    assert not any("start-up phase" in warning for warning in reported.warnings)


@pytest.mark.parametrize("slices", [10, 32])
def test_a_start_that_shorter_samples_do_not_outlast_is_cut_nowhere(slices):
    a, b = one_side("A", 2.0, seed=1), one_side("B", 2.0, seed=2, slices=slices)
    (reported,) = compare(a, [b], figures=["iops"])
    whole_b_per_s = 2000 * (1 + min(20, slices) / slices)
    for each in reported.comparands:
        assert each.a.value == pytest.approx(2800, rel=0.02)
        assert each.b.value == pytest.approx(whole_b_per_s, rel=0.02)
        assert (each.answer, each.ratio.low) == ("undecided", None)
    assert reported.overall == {}
    assert reported.verdict.startswith("Undecided")
    (warning,) = (w for w in reported.warnings if "start-up phase" in w)
    assert "cannot be excluded from every sample" in warning
