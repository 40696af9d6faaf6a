"""Sizes: what is read, what is refused, and that printed sizes read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial._core import OFFSET_BYTES_MAX
from seatrial.study.units import (
    format_factor,
    format_seconds,
    format_size,
    parse_size_bytes,
)

UNITS = {"": 0, "B": 0, "k": 1, "K": 1, "KiB": 1, "kib": 1, "M": 2, "MiB": 2, "G": 3, "GiB": 3}


@pytest.mark.parametrize(
    ("written", "size_bytes"),
    [
        (512, 512),
        ("512", 512),
        ("512B", 512),
        ("4k", 4096),
        ("4K", 4096),
        ("4KiB", 4096),
        (" 4 KiB ", 4096),
        ("1.5MiB", 1572864),
        ("0.5k", 512),
        ("1GiB", 1 << 30),
        ("2T", 2 << 40),
    ],
)
def test_sizes_are_read(written: str | int, size_bytes: int) -> None:
    assert parse_size_bytes(written) == size_bytes


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("", "is not a size"),
        ("KiB", "is not a size"),
        ("4 parsecs", "'parsecs' is not a unit"),
        ("-4KiB", "is not a size"),
        ("1e6", "is not a size"),
        ("4KiB4", "is not a size"),
        ("\u0664KiB", "is not a size"),
        ("4kB", "write '4KiB'"),
        ("1GB", "write '1GiB'"),
        ("0", "is not between"),
        (0, "is not between"),
        (-1, "is not a size"),
        ("0.3k", "not a whole number of bytes"),
        ("8192P", "is not between"),
        (True, "is not a size"),
        (None, "is not a size"),
        ([4096], "is not a size"),
    ],
)
def test_what_is_no_size_is_refused(written: object, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_size_bytes(written)


@given(number=st.integers(1, 1 << 20), unit=st.sampled_from(sorted(UNITS)), blank=st.booleans())
def test_units_are_powers_of_1024(number: int, unit: str, blank: bool) -> None:
    written = f"{number}{' ' if blank else ''}{unit}"
    assert parse_size_bytes(written) == number * 1024 ** UNITS[unit]


@given(st.integers(1, OFFSET_BYTES_MAX))
def test_bytes_are_exact(size_bytes: int) -> None:
    assert parse_size_bytes(size_bytes) == parse_size_bytes(str(size_bytes)) == size_bytes


def read_or_refused(text: str) -> int | str:
    """The size of a text, or what is said of it."""
    try:
        return parse_size_bytes(text)
    except ValueError as error:
        return str(error)


@given(st.text(max_size=12))
def test_any_text_is_a_size_or_a_sentence(text: str) -> None:
    result = read_or_refused(text)
    if isinstance(result, str):
        assert repr(text) in result
    else:
        assert 0 < result <= OFFSET_BYTES_MAX


@given(st.sampled_from([0, 10, 20, 30, 40]), st.integers(1, 999))
def test_round_sizes_print_and_read_back(power: int, number: int) -> None:
    size_bytes = number << power
    assert parse_size_bytes(format_size(size_bytes)) == size_bytes


@given(st.integers(1, 1 << 60))
def test_printed_sizes_are_near(size_bytes: int) -> None:
    number, unit = format_size(size_bytes).split()
    assert len(number.replace(".", "")) <= 4
    shown = float(number) * 1024 ** ("B", "KiB", "MiB", "GiB", "TiB", "PiB").index(unit)
    assert shown == pytest.approx(size_bytes, rel=0.006)


@pytest.mark.parametrize(
    ("duration_s", "text"),
    [
        (0.35, "0.35 s"),
        (2, "2 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (84, "1 min 24 s"),
        (7200, "2 h"),
        (7530, "2 h 6 min"),
    ],
)
def test_durations_are_printed(duration_s: float, text: str) -> None:
    assert format_seconds(duration_s) == text


def test_factors_are_spelled_as_a_study_does() -> None:
    assert [format_factor(each) for each in (True, False, 0.99, 2.0, 8, "zipf")] == [
        "true",
        "false",
        "0.99",
        "2",
        "8",
        "zipf",
    ]
