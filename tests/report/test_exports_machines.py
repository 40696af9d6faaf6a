"""OpenMetrics, JUnit and the summary of a CI job: read by the readers that others use."""

from __future__ import annotations

from xml.etree import ElementTree

import msgspec
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from report.exports_hand import (
    make_cell,
    make_finding,
    make_sample,
    make_summary,
    make_threshold,
    summarised,
    summary_with,
)
from seatrial._core import Histogram
from seatrial.findings.summary import summarise_cell
from seatrial.report.exports import export
from seatrial.report.exports.openmetrics import cumulative
from stats.builders import cell_of, sample_of


def cells():
    return [
        summary_with(make_cell("read", 4096, threads), (iops, iops * 0.97, iops * 1.03))
        for threads, iops in ((1, 12_000.0), (10, 74_000.0))
    ]


def metrics_of(summary):
    families = text_string_to_metric_families(export(summary, "openmetrics"))
    return {family.name: family for family in families}


def test_every_rate_has_its_value_and_interval():
    found = metrics_of(make_summary(cells(), [make_finding()]))
    rates = found["seatrial_requests_per_second"].samples
    of_ten = {s.labels["bound"]: s.value for s in rates if s.labels["threads"] == "10"}
    assert of_ten == {"value": 74_000, "low": 74_000 * 0.97, "high": 74_000 * 1.03}
    severities = {s.labels["severity"]: s.value for s in found["seatrial_findings"].samples}
    assert severities == {"critical": 1, "warning": 0, "note": 0}


def test_rounds_that_scatter_have_no_interval():
    cell = make_cell()
    rounds = [make_sample(cell, {"read": n}, index=n) for n in (100, 200, 900)]
    found = metrics_of(make_summary([summarised(rounds)]))["seatrial_requests_per_second"]
    ends = {s.labels["bound"]: s.value for s in found.samples}
    assert ends == {"value": 200, "lowest_round": 100, "highest_round": 900}


def test_a_factor_named_as_a_label_is_kept():
    (one, *_), names = cells(), {"bound": "low", "request": "a", "le": "1", "run": "b"}
    cell = msgspec.structs.replace(one.cell, factors=names)
    found = metrics_of(make_summary([msgspec.structs.replace(one, cell=cell)]))
    for name in ("seatrial_requests_per_second", "seatrial_response_seconds"):
        labels = found[name].samples[0].labels
        assert {key: labels[f"factor_{key}"] for key in names} == names
        assert labels["run"] == make_summary([]).run.id


def test_the_node_exporter_knows_every_type():
    text = export(make_summary(cells(), [make_finding()]), "openmetrics")
    types = {line.split()[3] for line in text.splitlines() if line.startswith("# TYPE")}
    assert types == {"gauge", "histogram"}
    assert "\nseatrial_run_info{" in text


def test_latencies_are_whole_histograms():
    rounds = [
        sample_of(cell_of(), completed=500, round=number, latency_ns=2_000_000) for number in (0, 1)
    ]
    found = metrics_of(make_summary([summarise_cell(rounds)]))["seatrial_response_seconds"]
    counts = {s.labels["le"]: s.value for s in found.samples if s.name.endswith("_bucket")}
    assert (counts["0.001"], counts["0.005"], counts["+Inf"]) == (0, 1000, 1000)


def test_no_count_is_too_high():
    values_ns = [9_000, 10_001, 1_000_000, 1_999_999, 70_000_000_000]
    counts = dict(cumulative(Histogram.of(values_ns)))
    for bound, count in counts.items():
        assert count <= sum(value <= float(bound) * 1e9 for value in values_ns)
    assert (counts["1e-05"], counts["0.005"], counts["+Inf"]) == (1, 4, 5)


def test_a_threshold_that_is_not_met_and_a_critical_finding_fail_in_junit():
    thresholds = [make_threshold(), make_threshold(met=True)]
    summary = make_summary(cells(), [make_finding()], thresholds=thresholds)
    (suite,) = ElementTree.fromstring(export(summary, "junit"))
    failed = [case.get("classname") for case in suite if case.find("failure") is not None]
    assert failed == ["seatrial.thresholds", "seatrial.findings"]
    assert (suite.get("tests"), suite.get("failures")) == ("4", "2")


def test_junit_is_xml_whatever_a_text_contains():
    summary = make_summary(cells())
    run = msgspec.structs.replace(summary.run, label="a\x1b[31m\x00\ud800b\tc")
    text = export(msgspec.structs.replace(summary, run=run), "junit")
    name = ElementTree.fromstring(text)[0].get("name")
    assert name == "a\ufffd[31m\ufffd\ufffdb\tc"


def test_the_summary_of_a_job_is_short_and_complete():
    summary = make_summary(cells(), [make_finding()], thresholds=[make_threshold()])
    text = export(summary, "ci-summary")
    assert text.startswith("**1 of 1 threshold breached")
    assert "| 4 KiB read" in text or "| 4 KiB random read" in text
    assert "**breached**" in text
    assert len(text.splitlines()) < 25


@pytest.mark.parametrize("name", ["openmetrics", "junit", "ci-summary"])
def test_an_export_can_be_replaced_by_a_newer_one(tmp_path, name):
    from seatrial.report.document import is_own

    place = tmp_path / "x"
    place.write_text(export(make_summary(cells()), name))
    assert is_own(place)
