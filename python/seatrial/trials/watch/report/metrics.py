"""The sums of a watch since its start, in the formats of Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from seatrial.grouping import grouped
from seatrial.report.exports.openmetrics import cumulative, text_of
from seatrial.trials.watch.analysis.activity import Interval, Losses, RequestGroup, broken_down
from seatrial.trials.watch.analysis.events import Stall
from seatrial.trials.watch.report.native import families_of, histogram_family

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_BY = ("disk", "operation", "relation")
TEXT = "application/openmetrics-text"
MEDIA_TYPE = f"{TEXT}; version=1.0.0; charset=utf-8"
_TIMES = ("seatrial_watch_device_seconds", "Time from issue to completion")


class Totals:
    """The sums of a watch since its start."""

    def __init__(self) -> None:
        self.groups: Sequence[RequestGroup] = ()
        self.lost = Losses()
        self.in_flight: Mapping[str, float] = {}
        self.stalls: dict[int, Stall] = {}

    def add(self, interval: Interval, in_flight: Mapping[str, float]) -> None:
        """Add an interval, with the mean of the requests in flight by disk."""
        self.groups = broken_down([*self.groups, *interval.groups], _BY)
        self.lost, self.in_flight = interval.lost, in_flight

    def add_stall(self, stall: Stall) -> None:
        """Add a stall, or its new state."""
        self.stalls[stall.number] = stall


def metrics_text(totals: Totals, level: int, version: str) -> str:
    """Return the sums as OpenMetrics text."""
    return text_of([*_metrics(totals, level, version), _times(totals)])


def metrics_protobuf(totals: Totals, level: int, version: str) -> bytes:
    """Return the sums as messages with native histograms (``native``)."""
    series = (
        (dict(zip(_BY, _labels(group), strict=True)), group.device, group.device_ns_sum / 1e9)
        for group in totals.groups
        if group.device is not None and group.device.count
    )
    return families_of(_metrics(totals, level, version)) + histogram_family(*_TIMES, series)


def wants_protobuf(accept: str) -> bool:
    """Return whether a scraper prefers messages to text.

    Args:
        accept: Its header ``Accept`` (RFC 9110, section 12.5.1).
    """
    wanted = {TEXT: 0.0, "application/vnd.google.protobuf": 0.0}
    for each in accept.split(","):
        name, *parameters = (part.strip().lower() for part in each.split(";"))
        values = dict(part.split("=", 1) for part in parameters if "=" in part)
        is_other = values.get("encoding", "delimited") != "delimited"
        if name in wanted and not is_other:
            with suppress(ValueError):
                wanted[name] = max(wanted[name], float(values.get("q", 1)))
    return wanted["application/vnd.google.protobuf"] > wanted[TEXT]


def _metrics(totals: Totals, level: int, version: str) -> Iterator[Metric]:
    from prometheus_client.metrics_core import (  # noqa: PLC0415 - not for --help
        GaugeMetricFamily,
        InfoMetricFamily,
    )

    info = InfoMetricFamily("seatrial_watch", "The watch")
    info.add_metric([], {"level": str(level), "version": version})
    yield info
    for name, meaning, field in (
        ("requests", "Completed requests", "requests"),
        ("failed_requests", "Requests that failed, which are among them", "failed"),
        ("bytes", "Transferred bytes", "transferred_bytes"),
    ):
        yield _counter(name, meaning, totals.groups, field)
    flight = GaugeMetricFamily(
        "seatrial_watch_requests_in_flight", "Mean of the last interval", labels=["disk"]
    )
    for disk, mean in totals.in_flight.items():
        flight.add_metric([disk], mean)
    yield flight
    yield from _losses(totals.lost)
    yield from _stalls([*totals.stalls.values()])


def _times(totals: Totals) -> Metric:
    from prometheus_client.metrics_core import HistogramMetricFamily  # noqa: PLC0415

    times = HistogramMetricFamily(*_TIMES, labels=_BY)
    for group in totals.groups:
        if group.device is not None and group.device.count:
            sum_s = group.device_ns_sum / 1e9
            times.add_metric(_labels(group), cumulative(group.device), sum_s)
    return times


def _counter(name: str, meaning: str, groups: Iterable[RequestGroup], field: str) -> Metric:
    from prometheus_client.metrics_core import CounterMetricFamily  # noqa: PLC0415

    family = CounterMetricFamily(f"seatrial_watch_{name}", meaning, labels=_BY)
    for group in groups:
        family.add_metric(_labels(group), getattr(group, field))
    return family


def _labels(group: RequestGroup) -> list[str]:
    return [getattr(group, name) for name in _BY]


def _losses(lost: Losses) -> Iterator[Metric]:
    from prometheus_client.metrics_core import CounterMetricFamily  # noqa: PLC0415

    family = CounterMetricFamily(
        "seatrial_watch_lost", "Requests and events that were not seen", labels=["reason"]
    )
    for reason in ("unmatched", "uncounted", "unrecorded", "missed"):
        family.add_metric([reason], getattr(lost, reason))
    yield family


def _stalls(stalls: Sequence[Stall]) -> Iterator[Metric]:
    from prometheus_client.metrics_core import CounterMetricFamily  # noqa: PLC0415

    found = grouped(stalls, lambda each: (each.disk, each.cause))
    labels = ["disk", "cause"]
    number = CounterMetricFamily("seatrial_watch_stalls", "Stalls", labels=labels)
    length = CounterMetricFamily("seatrial_watch_stalled_seconds", "Their length", labels=labels)
    for key, own in found.items():
        number.add_metric(key, len(own))
        length.add_metric(key, sum(each.length_s for each in own))
    yield number
    yield length
