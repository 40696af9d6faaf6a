"""A run as OpenMetrics text: gauges with their intervals, and each latency as a histogram.

For Prometheus (node exporter's textfile collector, a push gateway) and other readers of its format.
Latencies are counts by upper bound, summed over rounds; the bounds limit the precision of
percentiles. Source of the format: OpenMetrics 1.0, sections 4 and 5.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from seatrial._core import Histogram
from seatrial.findings.model import Summary
from seatrial.stats.cell_estimates import counted
from seatrial.stats.model import CellSummary, Estimate

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

BOUNDS_S: Final = tuple(
    round(step * 10.0**power, 9) for power in range(-5, 2) for step in (1, 2, 5)
)
"""Upper bounds of the histogram: 10 µs to 50 s, three a decade."""

OWN_LABELS: Final = {"run", "bound", "request", "le"}
"""Labels of the metrics themselves; a factor of such a name gets a prefix."""


class _Collected:
    """A collector as the writer of prometheus_client expects it."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        yield from self._metrics


def render(summary: Summary) -> str:
    """Return the run as OpenMetrics text, ending with ``# EOF``."""
    return text_of(_metrics(summary))


def text_of(metrics: Iterable[Metric]) -> str:
    """Return metrics as OpenMetrics text, ending with ``# EOF``."""
    from prometheus_client.openmetrics.exposition import generate_latest  # noqa: PLC0415

    text: bytes = generate_latest(_Collected(list(metrics)))
    return text.decode()


def _metrics(summary: Summary) -> Iterator[Metric]:
    from prometheus_client.metrics_core import GaugeMetricFamily  # noqa: PLC0415

    run = summary.run
    about = {"study": run.study_name, "label": run.label, "version": run.seatrial_version}
    about |= {"run": run.id, "status": run.status}
    # The node exporter refuses a file with a type that Prometheus's own format lacks, as `info`.
    info = GaugeMetricFamily("seatrial_run_info", "The run", labels=[*about])
    info.add_metric([*about.values()], 1)
    yield info
    started = GaugeMetricFamily(
        "seatrial_run_started_timestamp_seconds", "When the run began", labels=["run"]
    )
    started.add_metric([run.id], run.started_at)
    yield started
    names = label_names(summary)
    figures = {
        "seatrial_requests_per_second": ("Completed requests", attrgetter("iops")),
        "seatrial_bytes_per_second": ("Transferred bytes", attrgetter("bandwidth")),
    }
    for name, (meaning, figure) in figures.items():
        family = GaugeMetricFamily(
            name,
            f"{meaning}; bound is value, an end of the 95 % interval (low, high), or the slowest "
            "and fastest round where they differ by more than twice (lowest_round, highest_round)",
            labels=[*names, "bound"],
        )
        for part in summary.cells:
            labels = labels_of(part, run.id)
            for bound, value in _ends(figure(part)).items():
                family.add_metric([*(labels.get(n, "") for n in names), bound], value)
        yield family
    yield _findings(summary)
    yield _latencies(summary, names)


def _ends(estimate: Estimate) -> dict[str, float]:
    shown = estimate.shown
    low, high = ("lowest_round", "highest_round") if shown.over == "range" else ("low", "high")
    ends = {"value": shown.value, low: shown.low, high: shown.high}
    return {name: value for name, value in ends.items() if value is not None}


def labels_of(part: CellSummary, run_id: str) -> dict[str, str]:
    """Return what distinguishes a test from others, as labels of a metric."""
    identity = part.cell.identity().items()
    return {"run": run_id} | {
        f"factor_{name}" if name in OWN_LABELS else name: str(value) for name, value in identity
    }


def label_names(summary: Summary) -> list[str]:
    """Return the labels that any test of a run has."""
    names: dict[str, None] = {}
    for part in summary.cells:
        names |= dict.fromkeys(labels_of(part, summary.run.id))
    return list(names) or ["run"]


def _findings(summary: Summary) -> Metric:
    from prometheus_client.metrics_core import GaugeMetricFamily  # noqa: PLC0415

    family = GaugeMetricFamily(
        "seatrial_findings", "Findings by severity", labels=["run", "severity"]
    )
    for severity in ("critical", "warning", "note"):
        count = sum(each.severity == severity for each in summary.findings)
        family.add_metric([summary.run.id, severity], count)
    return family


def _latencies(summary: Summary, names: list[str]) -> Metric:
    from prometheus_client.metrics_core import HistogramMetricFamily  # noqa: PLC0415

    family = HistogramMetricFamily(
        "seatrial_response_seconds",
        "Response time, from when a request was due",
        labels=[*names, "request"],
    )
    for part in summary.cells:
        labels = labels_of(part, summary.run.id)
        for kind, histogram in _histograms(part).items():
            counts = cumulative(histogram)
            sum_s = histogram.mean_ns * histogram.count / 1e9
            family.add_metric([*(labels.get(n, "") for n in names), kind], counts, sum_s)
    return family


def _histograms(part: CellSummary) -> Mapping[str, Histogram]:
    """Return the response times of each kind of request over the rounds that count."""
    merged: dict[str, Histogram] = {}
    for sample in counted(part.samples):
        for kind, result in sample.operations.items():
            own = result.response_histogram()
            if own.count:
                merged[kind] = merged[kind].merged(own) if kind in merged else own
    return merged


def cumulative(histogram: Histogram) -> list[tuple[str, float]]:
    """Return the cumulative count at each bound (s), the last one of all entries.

    A bucket that contains a bound counts above it, so that no count is too high; buckets are at
    most 0.8 % wide.
    """
    _, uppers_ns, counts = histogram.buckets()
    totals = [0, *accumulate(counts)]
    known = [
        (str(bound_s), float(totals[bisect_right(uppers_ns, round(bound_s * 1e9) + 1)]))
        for bound_s in BOUNDS_S
    ]
    return [*known, ("+Inf", float(histogram.count))]
