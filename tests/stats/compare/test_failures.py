"""Comparisons of runs of arrays: what was broken, and what was measured in the lab."""

import msgspec
import pytest

from seatrial.errors import UsageError
from seatrial.stats.compare.comparison import compare
from stats.compare.sides import cells_of, driver_sample, side_of


def side(name, rates, *, broken_rates=(), **run):
    """A side of one sound cell and one in which a drive is made to fail, a round for each rate."""
    sound, failing = cells_of(2)
    failing = msgspec.structs.replace(failing, spec=failing.spec | {"fail": [{"deed": "fail"}]})
    samples = [driver_sample(sound, number, rate) for number, rate in enumerate(rates)]
    samples += [driver_sample(failing, number, rate) for number, rate in enumerate(broken_rates)]
    return side_of(name, samples, **run)


def test_a_rate_over_a_failure_is_no_figure_of_a_comparison():
    a = side("a", [1000, 1010, 990], broken_rates=[500, 510, 490])
    b = side("b", [1000, 1005, 995], broken_rates=[50, 51, 49])
    (found,) = compare(a, [b])
    assert len({each.key for each in found.comparands}) == 1
    assert found.overall["iops"].value == pytest.approx(1.0, abs=0.02)
    assert any(
        "1 test with injected faults is excluded from the comparison" in w for w in found.warnings
    )


def test_failures_alone_are_compared_with_failures():
    a, b = (side(name, [], broken_rates=[500, 510, 490]) for name in "ab")
    (found,) = compare(a, [b])
    assert found.comparands
    assert not any("is not compared" in warning for warning in found.warnings)


def test_the_lab_is_not_compared_with_drives_but_anyway_with_a_warning():
    a = side("a", [1000, 1010, 990], before={"machine": {"kernel": "6.1", "lab": "UML 6.1"}})
    b = side("b", [1000, 1010, 990])
    with pytest.raises(UsageError, match="a was measured in the lab, b was not"):
        compare(a, [b])
    (found,) = compare(b, [a], anyway=True)
    assert any("absolute speed is not" in warning for warning in found.warnings)
    assert compare(a, [a])
