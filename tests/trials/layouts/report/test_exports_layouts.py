"""Runs on layouts in the exports: every fact named, nothing published unexplained."""

from __future__ import annotations

import csv
import io
import json

import pytest

from report import json_schema
from seatrial.findings.model import Summary
from seatrial.report.exports import export
from seatrial.trials.layouts.analysis.model import layouts_of
from trials.layouts.report.layout_hand import layout_summary


@pytest.fixture(scope="module")
def summary() -> Summary:
    return layout_summary()


def test_json_is_as_published_and_names_cells_by_key(summary: Summary):
    document = json.loads(export(summary, "json"))
    json_schema.assert_published(document)
    layouts = document["layouts"]
    (recovery,) = layouts["recoveries"]
    keys = {cell["key"] for cell in document["cells"]}
    assert {recovery["key"], *(each["key"] for each in layouts["accounting"])} <= keys
    assert [variant["target"] for variant in layouts["variants"]] == [
        variant.target for variant in layouts_of(summary).variants
    ]
    (sample, *_) = [each for each in document["samples"] if each["cell_key"] == recovery["key"]]
    assert [event["what"] for event in sample["layout"]["events"]][:2] == [
        "failed",
        "rebuild_started",
    ]
    assert sample["layout"]["layout"]["level"] == "raid5"


def test_csv_reports_array_drives_and_failure(summary: Summary):
    rows = list(csv.DictReader(io.StringIO(export(summary, "csv"))))
    (broken,) = [row for row in rows if row["failure_rebuild_s"]]
    assert float(broken["failure_rebuild_s"]) == pytest.approx(17.6)
    assert (broken["layout"], broken["failure_failed"]) == ("raid5-4", "0")
    (write,) = [
        row for row in rows if row["cell_key"] == "raid5-4/matrix/write/8192B/10t/1d/pattern=random"
    ]
    assert float(write["device_writes"]) == pytest.approx(2.02, abs=0.01)
    assert (write["layout_level"], write["layout_drives"]) == ("raid5", "4")
    assert write["layout_usable_bytes"] == str(6 * 1024**3)
    assert write["failure_rebuild_s"] == ""


def test_markdown_has_the_tables_and_what_is_not_aligned(summary: Summary):
    text = export(summary, "markdown")
    for heading in ("## Layouts as built", "## Effects of failures", "## Layouts\n"):
        assert heading in text
    assert "raid0-6: The stripe begins 1 KiB into a chunk." in text
