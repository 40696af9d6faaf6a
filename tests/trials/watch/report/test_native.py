"""Native histograms: the bytes of Prometheus' own library, and buckets that hold their values."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.metrics_core import CounterMetricFamily, InfoMetricFamily

from seatrial import _core
from seatrial.trials.watch.report.metrics import wants_protobuf
from seatrial.trials.watch.report.native import (
    SCHEMA,
    families_of,
    histogram_family,
    native_buckets,
)

OF_CLIENT_MODEL = bytes.fromhex(
    "2e0a06775f696e666f1209546865207761746368180122170a0a0a056c6576656c1201321209090000000000"
    "00f03f520a10775f72657175657374735f746f74616c1209436f6d706c65746564180022180a0b0a04646973"
    "6b12037364611a09090000000000001c4022170a0a0a046469736b1202c3a91a09090000000000c07240f802"
    "0a09775f7365636f6e6473120554696d6573180422e1020a0b0a046469736b12037364613ad10208061156c5"
    "c8501d04f03f1a0b080411f168e388b5f8e43e1a0b080411f168e388b5f8f43e1a0b0804112d431cebe2360a"
    "3f1a0b0804112d431cebe2361a3f1a0b0804112d431cebe2362a3f1a0b080411fca9f1d24d62403f1a0b0804"
    "11fca9f1d24d62503f1a0b080511fca9f1d24d62603f1a0b0805117b14ae47e17a743f1a0b0805117b14ae47"
    "e17a843f1a0b0805117b14ae47e17a943f1a0b0805119a9999999999a93f1a0b0805119a9999999999b93f1a"
    "0b0805119a9999999999c93f1a0b080511000000000000e03f1a0b080511000000000000f03f1a0b08061100"
    "000000000000401a0b08061100000000000014401a0b08061100000000000024401a0b080611000000000000"
    "34401a0b08061100000000000049401a0b080611000000000000f07f280831000000000000f0373801620508"
    "e9041001620508aa021001620508be021001680668036800"
)
"""The same families, read and written again by Go's client_model v0.6.1 and protodelim."""
WIDTH_MAX = 1.008
"""Of the buckets of a histogram of ours."""


def test_the_bytes_are_those_of_prometheus_own_library():
    requests = CounterMetricFamily("w_requests", "Completed", labels=["disk"])
    requests.add_metric(["sda"], 7)
    requests.add_metric(["é"], 300)
    about = InfoMetricFamily("w", "The watch")
    about.add_metric([], {"level": "2"})
    times = _core.Histogram.of([0, 1500, 1500, 1520, 1_000_000, 1_000_000_000])
    series = [({"disk": "sda"}, times, 1.00100452)]
    own = families_of([about, requests]) + histogram_family("w_seconds", "Times", series)
    assert own == OF_CLIENT_MODEL


@given(st.integers(0, 1 << 37))
def test_a_time_is_in_the_bucket_whose_bounds_hold_it(value_ns):
    zeros, buckets = native_buckets(_core.Histogram.of([value_ns]))
    if not value_ns:
        assert (zeros, buckets) == (1, {})
        return
    ((index, count),) = buckets.items()
    assert (zeros, count) == (0, 1)
    value_s, step = value_ns / 1e9, 2.0**-SCHEMA
    assert value_s <= 2 ** (index * step) * (1 + 1e-12)
    assert value_s * WIDTH_MAX > 2 ** ((index - 1) * step)


def varint(data: Iterator[int]) -> int:
    value = shift = 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value
    raise EOFError


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message: a number, or the bytes of any other kind."""
    data = iter(message)
    while True:
        try:
            number, wire = divmod(varint(data), 8)
        except EOFError:
            return
        if wire == 0:
            yield number, varint(data)
        else:
            yield number, bytes(next(data) for _ in range(8 if wire == 1 else varint(data)))


def signed(value: int) -> int:
    return value >> 1 if value % 2 == 0 else -(value + 1 >> 1)


def buckets_read(message: bytes) -> dict[int, int]:
    """The native buckets of the only histogram of a family, as Prometheus reads them."""
    data = iter(message)
    family = bytes(next(data) for _ in range(varint(data)))
    (metric,) = (each for number, each in fields(family) if number == 4)
    (histogram,) = (each for number, each in fields(metric) if number == 7)
    deltas = [signed(each) for number, each in fields(histogram) if number == 13]
    found: dict[int, int] = {}
    index = count = 0
    for number, span in fields(histogram):
        if number == 12:
            (_, offset), (_, length) = fields(span)
            index += signed(offset)
            for _ in range(length):
                count += deltas.pop(0)
                found[index] = count
                index += 1
    assert not deltas
    return found


@given(st.lists(st.integers(1, 10**11), min_size=1, max_size=60))
def test_spans_and_differences_have_every_bucket(values_ns):
    times = _core.Histogram.of(values_ns)
    read = buckets_read(histogram_family("w", "", [({}, times, math.fsum(values_ns) / 1e9)]))
    _, expected = native_buckets(times)
    assert {index: count for index, count in read.items() if count} == expected
    assert sum(read.values()) == len(values_ns)


PROMETHEUS_2 = (
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,"
    "application/openmetrics-text;version=1.0.0;q=0.8,application/openmetrics-text;version=0.0.1;"
    "q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
"""What Prometheus 2.42 sends with native histograms enabled."""


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        (PROMETHEUS_2, True),
        (PROMETHEUS_2.partition(",")[2], False),
        ("application/openmetrics-text;q=0.9,application/vnd.google.protobuf;q=0.2", False),
        ("application/vnd.google.protobuf;encoding=text", False),
        ("application/vnd.google.protobuf;q=nonsense", False),
        ("*/*", False),
        ("", False),
    ],
)
def test_messages_are_for_a_scraper_that_prefers_them(accept, wanted):
    assert wants_protobuf(accept) is wanted
