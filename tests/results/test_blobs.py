"""Histograms and timelines are stored small, whole, and with their damage found."""

from __future__ import annotations

import math
import random
import zlib
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from results.builders import make_series
from seatrial._core import Histogram
from seatrial.results import rows
from seatrial.results.model import Series, Slice, Timeline

SLICE_NS = 100_000_000


def noisy_timeline(slices: int, entries: int) -> Timeline:
    """Log-normal latencies, as of a quiet SSD: about a hundred buckets a slice."""
    draw = random.Random(7)
    parts = []
    for index in range(slices):
        values = [int(90_000 * math.exp(draw.gauss(0, 0.12))) for _ in range(entries)]
        histogram = Histogram.of(values)
        parts.append(
            Slice(
                index=index,
                operation="read",
                completed=histogram.count,
                transferred_bytes=histogram.count * 4096,
                response=histogram.encode(),
            )
        )
    return Timeline(slice_ns=SLICE_NS, slices=parts)


def test_a_hundred_slices_of_a_hundred_buckets_stay_below_30_kb():
    timeline = noisy_timeline(slices=100, entries=1000)
    buckets = [len(Histogram.decode(part.response).buckets()[0]) for part in timeline.slices]
    assert sum(buckets) / len(buckets) >= 90
    assert len(rows.pack_timeline(timeline)) < 30_000


def test_slices_keep_order_gaps_and_kinds():
    parts = [
        Slice(index=index, operation=kind, completed=1, transferred_bytes=8, response=b"\1")
        for index, kind in [(0, "write"), (0, "read"), (7, "sync"), (900, "write")]
    ]
    timeline = Timeline(slice_ns=SLICE_NS, slices=parts)
    assert rows.unpack_timeline(SLICE_NS, rows.pack_timeline(timeline)) == timeline


@given(st.binary(max_size=300))
def test_any_bytes_come_back_or_are_refused(junk):
    assert rows.unpack_histogram(rows.pack_histogram(junk)) == junk
    for unpack in (rows.unpack_histogram, lambda blob: rows.unpack_timeline(1, blob)):
        with suppress(ValueError):
            unpack(junk)


def test_a_flipped_bit_is_found():
    blob = bytearray(rows.pack_histogram(Histogram.of(list(range(0, 90_000, 70))).encode()))
    blob[len(blob) // 2] ^= 4
    with pytest.raises(ValueError, match=r"damaged|cut short"):
        rows.unpack_histogram(bytes(blob))


def test_columns_of_unequal_length_are_refused():
    columns = {
        "operations": ["read"], "index_steps": [0, 1], "operation": [0, 0], "completed": [1],
        "transferred_bytes": [1, 1], "response": [b"", b""],
    }  # fmt: skip
    with pytest.raises(ValueError, match="damaged"):
        rows.unpack_timeline(1, zlib.compress(msgspec.msgpack.encode(columns)))


def test_a_series_comes_back_with_its_gaps():
    series = make_series()
    assert rows.unpack_series(rows.pack_series(series)) == series
    empty = Series(period_s=1.0, columns={})
    assert rows.unpack_series(rows.pack_series(empty)) == empty


def test_a_minute_of_fifty_columns_stays_below_30_kb():
    draw = random.Random(7)
    columns = {f"column_{n}": [draw.gauss(0, 1) for _ in range(60)] for n in range(50)}
    assert len(rows.pack_series(Series(period_s=1.0, columns=columns))) < 30_000


@given(st.binary(max_size=300))
def test_any_bytes_are_a_series_or_are_refused(junk):
    for blob in (junk, zlib.compress(junk)):
        with suppress(ValueError):
            rows.unpack_series(blob)


def test_a_series_of_unequal_columns_is_neither_stored_nor_read():
    uneven = Series(period_s=1.0, columns={"a_share": [1.0, 2.0], "b_share": [1.0]})
    with pytest.raises(ValueError, match=r"different lengths \(1 and 2 values\)"):
        rows.pack_series(uneven)
    with pytest.raises(ValueError, match="the series is damaged: time series of different lengths"):
        rows.unpack_series(zlib.compress(msgspec.msgpack.encode(uneven)))


def test_a_blob_that_would_fill_the_memory_is_refused(monkeypatch):
    monkeypatch.setattr(rows, "BLOB_BYTES_MAX", 1000)
    assert len(rows.unpack_histogram(zlib.compress(bytes(1000)))) == 1000
    with pytest.raises(ValueError, match="larger than a sample can be"):
        rows.unpack_histogram(zlib.compress(bytes(1001)))
