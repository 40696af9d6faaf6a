"""No more digits than the interval allows, units stated, never a nan."""

import math
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.stats.model import Estimate
from seatrial.stats.wording import (
    digits_allowed,
    format_cell,
    format_count,
    format_duration_ns,
    format_duration_s,
    format_estimate,
    format_first,
    format_interval,
    format_iops,
    format_plural,
    format_rate_bytes,
    format_share,
    format_size,
)

from .builders import cell_of

positive = st.floats(min_value=1e-3, max_value=1e15)
shares = st.floats(min_value=1e-6, max_value=3.0)


def estimate(value, share=None, unit="IOPS", rounds=3):
    low, high = (None, None) if share is None else (value * (1 - share), value * (1 + share))
    return Estimate(value=value, low=low, high=high, rounds=rounds, unit=unit)


@pytest.mark.parametrize(
    ("value", "half_width", "digits"),
    [
        (74_123, 2_224, 2),
        (74_123, 224, 3),
        (74_123, 0.1, 3),
        (74_123, 74_123, 1),
        (74_123, 1e9, 1),
        (74_123, None, 2),
        (74_123, 0.0, 3),
        (0, 5.0, 1),
    ],
)
def test_digits_follow_the_interval(value, half_width, digits):
    assert digits_allowed(value, half_width) == digits


def significant_digits(text):
    """Digits of a printed number; zeros at the end of a whole number do not count."""
    digits = text.replace(",", "")
    shown = digits.replace(".", "").lstrip("0")
    return len(shown) if "." in digits else len(shown.rstrip("0"))


@given(positive, st.none() | shares)
def test_never_more_digits_than_allowed(value, share):
    half_width = None if share is None else value * share
    allowed = digits_allowed(value, half_width)
    for text in (
        format_iops(value, half_width),
        format_duration_ns(value, half_width),
        format_rate_bytes(value, half_width),
    ):
        number = re.match(r"[0-9.,]+", text)
        assert number, text
        assert significant_digits(number[0]) <= allowed, text


@given(positive, st.none() | shares)
def test_what_is_printed_is_the_value(value, share):
    half_width = None if share is None else value * share
    allowed = digits_allowed(value, half_width)
    scales = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}
    number, unit = format_duration_ns(value, half_width).split()
    read = float(number.replace(",", "")) * scales[unit]
    assert read == pytest.approx(value, rel=0.51 * 10 ** (1 - allowed))
    assert unit == "s" or float(number.replace(",", "")) < 1000


@given(
    st.floats(allow_nan=True, allow_infinity=True),
    st.none() | st.floats(min_value=0, allow_infinity=True, allow_nan=False),
)
def test_never_nan(value, half_width):
    magnitude = abs(value)
    for form in (format_iops, format_rate_bytes, format_duration_ns):
        assert not re.search("nan|inf", form(magnitude, half_width))
    for form in (format_duration_s, format_share):
        assert not re.search("nan|inf", form(magnitude))


@given(st.floats(min_value=1, max_value=1e9), st.floats(min_value=1e-4, max_value=0.24))
def test_the_interval_reported_is_never_narrower(value, share):
    reported = format_interval(estimate(value, share))
    match = re.fullmatch(r"± ([0-9.]+) %", reported)
    assert match, reported
    assert float(match[1]) / 100 >= share * (1 - 1e-6)


@pytest.mark.parametrize(
    ("given_estimate", "reported"),
    [
        (estimate(74_123, 0.03), "74k IOPS (± 3 %)"),
        (estimate(74_123, 0.0301), "74k IOPS (± 4 %)"),
        (estimate(1_240, 0.03), "1,240 IOPS (± 3 %)"),
        (estimate(1_240, 0.004), "1,240 IOPS (± 0.4 %)"),
        (estimate(1_240, rounds=1), "1,200 IOPS (measured once)"),
        (estimate(74_123, 0.9), "70k IOPS (7,400 to 140k)"),
        (estimate(410_300_000, 0.3, "B/s"), "400 MB/s (290 to 530 MB/s)"),
        (estimate(2_140_000, 0.04, "ns"), "2.14 ms (± 4 %)"),
        (estimate(2_140_000, 0.4, "ns"), "2.1 ms (1.3 ms to 3.0 ms)"),
        (estimate(410_300_000, 0.02, "B/s"), "410 MB/s (± 2 %)"),
        (estimate(12_288, 0.02, "B/s"), "12.3 kB/s (± 2 %)"),
        (estimate(1.0, 0.5, "B/s"), "1.0 B/s (0.50 to 1.5 B/s)"),
        (estimate(1_000_000, 0.5, "B/s"), "1.0 MB/s (500 kB/s to 1.5 MB/s)"),
        (estimate(1.84, 0.05, "ratio"), "1.84x (± 5 %)"),
        (estimate(1.12, 0.9, "ratio"), "1.1x (0.11x to 2.1x)"),
        (estimate(3.1e9, unit="ns", rounds=3), "3.1 s (largest of 3 rounds)"),
        (
            Estimate(value=1e6, low=64.0, high=4.7e11, rounds=2, unit="ns"),
            "about 1 ms (95 % CI wider than 10x)",
        ),
        (estimate(0, 0.0), "0 IOPS (0 to 0)"),
    ],
)
def test_estimates_in_words(given_estimate, reported):
    assert format_estimate(given_estimate) == reported


@pytest.mark.parametrize(
    ("value", "reported"),
    [(0, "0"), (0.24, "0.24"), (9_960, "10k"), (9_949, "9,900"), (74_123, "74k"), (1.25e6, "1.2M")],
)
def test_iops(value, reported):
    assert format_iops(value) == reported


@pytest.mark.parametrize(
    ("value_ns", "reported"),
    [
        (0, "0 ns"),
        (850, "850 ns"),
        (999.9, "1.0 µs"),
        (18_400, "18 µs"),
        (999_600, "1.0 ms"),
        (2.1e6, "2.1 ms"),
        (3.1e9, "3.1 s"),
        (5e12, "5,000 s"),
    ],
)
def test_durations_in_ns(value_ns, reported):
    assert format_duration_ns(value_ns) == reported


@pytest.mark.parametrize(
    ("value_s", "reported"),
    [(0.05, "50 ms"), (4.2, "4.2 s"), (59.7, "1 min"), (125, "2 min 5 s"), (3_780, "1 h 3 min")],
)
def test_durations_in_s(value_s, reported):
    assert format_duration_s(value_s) == reported


@pytest.mark.parametrize(
    ("share", "reported"),
    [(0, "0 %"), (0.0004, "< 0.1 %"), (0.004, "0.4 %"), (0.25, "25 %"), (1.5, "150 %")],
)
def test_shares(share, reported):
    assert format_share(share) == reported


def test_counts_and_sizes():
    assert format_count(12_345) == "12,345"
    assert (format_plural(1, "stall"), format_plural(14, "stall")) == ("1 stall", "14 stalls")
    assert format_plural(2, "query", "queries") == "2 queries"
    assert (format_size(512), format_size(8192), format_size(3 << 29)) == (
        "512 B",
        "8 KiB",
        "1.5 GiB",
    )


def test_cells_are_named_as_a_reader_would():
    cell = cell_of(threads=10, depth=4, factors={"pattern": "random"})
    assert format_cell(cell) == "matrix: random read 8 KiB, 10 threads, depth 4"
    zone = cell_of(workload="map", factors={"pattern": "sequential", "zone": 3, "zones": 16})
    assert format_cell(zone) == "map: sequential read 8 KiB, 1 thread, zone 3 of 16"
    stride = cell_of(factors={"pattern": "strided", "stride_bytes": 65536})
    assert format_cell(stride).endswith("1 thread, stride 64 KiB")
    limited = cell_of(factors={"rebuild_limit_kib_per_s": 20000})
    assert format_cell(limited).endswith("1 thread, rebuild limit 20000 KiB/s")
    mixed = cell_of(workload="mix", operation="mixed", block_size_bytes=0, factors={"access": "a"})
    assert format_cell(mixed) == "mix: mixed, 1 thread, access a"
    paced = cell_of(workload="io", factors={"direct": False, "rate": 50_000.0})
    assert format_cell(paced) == "io: read 8 KiB, 1 thread, buffered, rate 50,000"


def test_a_cell_on_one_of_several_targets_reports_which():
    shared = cell_of(workload="io", target="ssd")
    assert format_cell(shared) == "io on ssd: read 8 KiB, 1 thread"
    namesake = msgspec.structs.replace(shared, target="io", key="io/read/8192B/1t/1d")
    assert format_cell(namesake) == "io: read 8 KiB, 1 thread"


def test_workers_on_a_database_are_clients():
    cell = cell_of(
        workload="pgbench",
        operation="transaction",
        block_size_bytes=0,
        threads=10,
        factors={"scale": 100, "shared_buffers": "128MB"},
    )
    assert format_cell(cell) == "pgbench: 10 clients, scale 100, shared_buffers 128MB"
    cut = msgspec.structs.replace(cell, workload="crash", factors={"power_cut": "lying"})
    assert format_cell(cut) == "crash: 10 clients, power cut lying"


def test_a_value_that_is_no_number_is_unknown():
    assert format_iops(math.nan) == "unknown"
    assert format_duration_ns(math.inf) == "unknown"


def test_the_first_of_several_are_named_and_the_others_counted():
    assert format_first(["a", "b"], 2) == "a, b"
    assert format_first(["a", "b", "c"], 1, between="; ") == "a and 2 more"
