"""A histogram of values that were counted elsewhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial._core import Histogram

pairs = st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 30)), max_size=30)


@given(pairs)
def test_counts_give_what_each_value_gives(counted):
    values, counts = [v for v, _ in counted], [c for _, c in counted]
    each = [value for value, count in counted for _ in range(count)]
    assert Histogram.from_counts(values, counts) == Histogram.of(each)


@pytest.mark.parametrize(
    ("values", "counts", "named"),
    [
        ([1, 2], [3], "2 values and 1 counts"),
        ([1, 2], [2**64 - 1, 1], "more than 64 bits"),
        ([-1], [1], "."),
        ([1], [-1], "."),
        ([2**64], [1], "."),
        (["one"], [1], "."),
    ],
)
def test_what_does_not_fit_is_a_value_error(values, counts, named):
    with pytest.raises((ValueError, TypeError), match=named):
        Histogram.from_counts(values, counts)
