"""Metrics as Prometheus reads native histograms: protobuf messages, each after its length.

A native histogram has a count for each bucket between powers of 2^(1/16), so that a percentile of
any rate is within 4.4 %; OpenMetrics 1.0 has no text for them.

Sources: io/prometheus/client/metrics.proto of prometheus/client_model v0.6.1 (the messages, and the
numbers of their fields); protobuf.dev/programming-guides/encoding (varint, zigzag, tags);
prometheus.io/docs/specs/native_histograms (bounds, zero bucket, spans).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from seatrial.report.exports.openmetrics import cumulative
from seatrial.units import NS_PER_S

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from seatrial._core import Histogram

MEDIA_TYPE: Final = (
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
)
SCHEMA: Final = 4
"""Each power of two has 2^4 buckets."""
ZERO_THRESHOLD_S: Final = 2.0**-128
"""Values up to it are in the zero bucket; client libraries use the same."""
_SKIPPED_MAX: Final = 2
"""A gap of so few empty buckets costs less than another span."""
_COUNTER, _GAUGE, _HISTOGRAM = 0, 1, 4
_KINDS: Final[Mapping[str, tuple[int, int]]] = {
    "counter": (_COUNTER, 3),
    "gauge": (_GAUGE, 2),
    "info": (_GAUGE, 2),
}
"""Type of a family, and the field of ``Metric`` that has its value."""
_VARINT, _FIXED64, _BYTES = 0, 1, 2
"""Wire types."""


def families_of(metrics: Iterable[Metric]) -> bytes:
    """Return metrics with one value each as messages, a family for each name of a sample.

    Raises:
        KeyError: if a metric is of another type.
    """
    found = []
    for metric in metrics:
        kind, field = _KINDS[metric.type]
        names = dict.fromkeys(each.name for each in metric.samples)
        for name in names:
            own = [
                _labelled(each.labels, _message(field, _double(1, each.value)))
                for each in metric.samples
                if each.name == name
            ]
            found.append(_family(name, metric.documentation, kind, own))
    return b"".join(found)


def histogram_family(
    name: str, meaning: str, series: Iterable[tuple[Mapping[str, str], Histogram, float]]
) -> bytes:
    """Return histograms as messages, with native buckets and with those of the text.

    Args:
        name: Name of the family; its values are seconds.
        meaning: Its documentation.
        series: Labels, times in ns, and the sum of these in s.
    """
    own = [_labelled(labels, _message(7, _native(times, sum_s))) for labels, times, sum_s in series]
    return _family(name, meaning, _HISTOGRAM, own)


def native_buckets(histogram: Histogram) -> tuple[int, dict[int, int]]:
    """Return the entries in the zero bucket, and those of each native bucket by its index.

    The bucket of index i has the values above 2^((i - 1) / 16) s, up to 2^(i / 16) s. A bucket of
    the histogram that such a bound divides counts above it, so that no percentile is too low; these
    buckets are at most 3.1 % wide.
    """
    zeros, found = 0, dict[int, int]()
    for upper_ns, count in zip(*histogram.buckets()[1:], strict=True):
        most_ns = upper_ns - 1
        if not most_ns:
            zeros += count
            continue
        index = math.ceil(math.log2(most_ns / NS_PER_S) * 2**SCHEMA)
        found[index] = found.get(index, 0) + count
    return zeros, found


def _native(histogram: Histogram, sum_s: float) -> bytes:
    zeros, buckets = native_buckets(histogram)
    spans, counts = _spans(buckets)
    parts = [
        _uint(1, histogram.count),
        _double(2, sum_s),
        *(
            _message(3, _uint(1, int(total)) + _double(2, float(bound_s)))
            for bound_s, total in cumulative(histogram)
        ),
        _sint(5, SCHEMA),
        _double(6, ZERO_THRESHOLD_S),
        _uint(7, zeros),
    ]
    parts += [_message(12, _sint(1, offset) + _uint(2, length)) for offset, length in spans]
    parts += [_sint(13, count - before) for before, count in pairwise([0, *counts])]
    return b"".join(parts)


def _spans(buckets: Mapping[int, int]) -> tuple[list[tuple[int, int]], list[int]]:
    """Return runs of neighbouring buckets, as the gap before each and its length; all counts."""
    spans: list[tuple[int, int]] = []
    counts: list[int] = []
    behind = 0
    for index in sorted(buckets):
        gap = index - behind
        if spans and gap <= _SKIPPED_MAX:
            spans[-1] = (spans[-1][0], spans[-1][1] + gap + 1)
            counts += [0] * gap
        else:
            spans.append((gap, 1))
        counts.append(buckets[index])
        behind = index + 1
    return spans, counts


def _family(name: str, meaning: str, kind: int, metrics: Iterable[bytes]) -> bytes:
    message = b"".join(
        [_text(1, name), _text(2, meaning), _uint(3, kind), *(_message(4, m) for m in metrics)]
    )
    return _varint(len(message)) + message


def _labelled(labels: Mapping[str, str], value: bytes) -> bytes:
    pairs = (_message(1, _text(1, name) + _text(2, label)) for name, label in labels.items())
    return b"".join([*pairs, value])


def _varint(value: int) -> bytes:
    """Return a number in groups of 7 bits, the lowest first; all but the last have the high bit."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _tag(field: int, wire: int) -> bytes:
    return _varint(field << 3 | wire)


def _uint(field: int, value: int) -> bytes:
    return _tag(field, _VARINT) + _varint(value)


def _sint(field: int, value: int) -> bytes:
    """Return a number that may be negative: 0, -1, 1, -2 ... are 0, 1, 2, 3 ... (zigzag)."""
    return _uint(field, value << 1 if value >= 0 else (-value << 1) - 1)


def _double(field: int, value: float) -> bytes:
    return _tag(field, _FIXED64) + struct.pack("<d", value)


def _message(field: int, content: bytes) -> bytes:
    return _tag(field, _BYTES) + _varint(len(content)) + content


def _text(field: int, value: str) -> bytes:
    return _message(field, value.encode())
