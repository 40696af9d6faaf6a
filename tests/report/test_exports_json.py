"""The JSON documents are as docs/schema/ says, and hold the results file's own figures."""

from __future__ import annotations

import json
import os
from typing import Any

import msgspec
import pytest

from findings.analyses import with_analyses
from report.exports_hand import (
    make_cell,
    make_finding,
    make_run,
    make_sample,
    make_stall,
    make_summary,
    make_threshold,
    summarised,
    summary_with,
)
from report.json_schema import assert_published, breaches
from report.sample_run import sample_summary
from report.steady_hand import make_steady
from seatrial.errors import UsageError
from seatrial.report.exports import export
from seatrial.report.exports.json_document import error_document, runs_document
from seatrial.results.model import Corruption, ErrorSample, Verification
from trials.audit.report.audit_hand import article_summary
from trials.loadline.report.loadline_hand import make_load_line


def exported(*cells, findings=()) -> dict[str, Any]:
    document = json.loads(export(make_summary(list(cells), list(findings)), "json"))
    assert isinstance(document, dict)
    return document


def full_sample():
    """A sample with every part that may be absent."""
    return msgspec.structs.replace(
        make_sample(make_cell(), {"read": 2000}),
        stalls=[make_stall()],
        stalls_dropped=1,
        oldest_in_flight_ns=4_200_000_000,
        errors_count=1,
        errors=[
            ErrorSample(
                operation="read",
                offset_bytes=4096,
                length_bytes=4096,
                errno=5,
                name="EIO",
                at_s=0.1,
            )
        ],
        verification=Verification(
            checked_blocks=2000,
            corrupt_blocks=1,
            corruptions=[Corruption(kind="stale", offset_bytes=8192, detail="generation 3, not 4")],
        ),
    )


def test_a_whole_run_is_as_published():
    assert_published(json.loads(export(sample_summary(), "json")))


def test_audits_steady_states_and_load_lines_are_as_published():
    summary = with_analyses(
        article_summary(),
        steady=[make_steady(), make_steady(over="rounds", round=None)],
        load_lines=[make_load_line(), make_load_line(sustained=None, closed_loop=None)],
    )
    document = json.loads(export(summary, "json"))
    assert_published(document)
    gaps = [gap["kind"] for audit in document["audits"] for gap in audit["gaps"]]
    assert gaps == ["start_transient", "collapse", "absent"]
    absent = document["audits"][1]["gaps"][1]["keys"]
    points = {point["key"]: point["iops"] for point in document["audits"][1]["table"]["points"]}
    assert all(points[key] is None for key in absent)
    assert [phase["state"] for phase in document["steady"][0]["phases"]] == [
        "fresh", "transition", "steady", "left",
    ]  # fmt: skip
    assert [step["holds"] for step in document["load_lines"][0]["steps"]].count(None) == 1


def test_a_sample_with_everything_is_as_published():
    document = exported(summarised([full_sample()]), findings=[make_finding()])
    assert_published(document)
    (sample,) = document["samples"]
    assert sample["stalls"] == [
        {
            "start_s": 0.25,
            "length_s": 0.5,
            "cause": "device",
            "operations": {"read": 3},
            "depth": 3,
            "evidence": {"device_in_flight_share": 0.98},
        }
    ]
    assert sample["verification"]["corruptions"][0]["kind"] == "stale"


def test_a_run_without_a_sample_is_as_published():
    assert_published(exported())


def test_lists_and_errors_are_as_published():
    runs = json.loads(runs_document([make_run(), make_run(id="b", ended_at=None)]).as_text())
    assert_published(runs)
    error = UsageError(
        seen="There is no run x.", cause="It is misspelt.", next_step="seatrial list"
    )
    document = json.loads(error_document(error).as_text())
    assert_published(document)
    assert (document["error"], document["exit_code"]) == ("UsageError", 2)


def test_figures_are_those_of_the_summary():
    cell = make_cell("read", 4096, 10)
    summary = summarised([make_sample(cell, {"read": 2000 + i}, index=i) for i in range(3)])
    document = exported(summary)
    (found,) = document["cells"]
    assert found["key"] == cell.key
    p99 = summary.latency["read"]["p99"]
    for figure, of in ((found["iops"], summary.iops), (found["latency"]["read"]["p99"], p99)):
        assert figure | {"scatter": None} == msgspec.to_builtins(of)
    assert [sample["completed_per_s"] for sample in document["samples"]] == [2000, 2001, 2002]
    assert document["samples"][1]["cell_key"] == cell.key


def test_findings_name_their_cells_by_the_factors_of_the_samples():
    document = exported(summary_with(make_cell(), (100.0, 99.0, 101.0)), findings=[make_finding()])
    (finding,) = document["findings"]
    assert finding["cells"][0] == document["samples"][0]["cell"]
    assert set(finding) == {
        "kind", "severity", "cells", "sentence", "cause", "evidence", "next",
    }  # fmt: skip


def test_thresholds_say_what_was_demanded_and_seen():
    results = [make_threshold(), make_threshold(worst=None), make_threshold(met=True)]
    document = json.loads(export(make_summary([], thresholds=results), "json"))
    assert_published(document)
    assert [each["met"] for each in document["thresholds"]] == [False, False, True]
    breached, unknown, _ = document["thresholds"]
    assert (breached["name"], breached["condition"]) == ("matrix.p99_ms", "< 5")
    assert breached["worst"]["value"] == 9e6
    assert breached["cell_key"] == make_cell().key
    assert (unknown["worst"], unknown["cell_key"]) == (None, "")


def test_a_percentile_that_too_few_requests_know_is_absent():
    few = exported(summarised([make_sample(make_cell(), {"read": 50})]))
    response = few["samples"][0]["operations"]["read"]["response_ns"]
    assert set(response) == {"min", "mean", "p50", "max"}
    none = exported(summarised([make_sample(make_cell(), {"read": 0})], blank="0 completed"))
    assert none["samples"][0]["operations"]["read"]["response_ns"] == {}
    assert none["cells"][0]["blank"] == "0 completed"


def test_a_name_that_is_no_utf8_is_shown_by_its_codes():
    error = UsageError(seen=os.fsdecode(b"/mnt/n\xff is gone"), cause="c", next_step="n")
    document = json.loads(error_document(error).as_text())
    assert document["seen"] == "/mnt/n\\xff is gone."


def test_what_is_not_a_number_is_null_not_broken_json():
    sample = make_sample(make_cell(), {"read": 50})
    outlier = msgspec.structs.replace(sample, counters={"temperature_c": float("nan")})
    document = exported(summarised([outlier]))
    assert document["samples"][0]["counters"] == {"temperature_c": None}
    assert_published(document)


@pytest.mark.parametrize(
    ("change", "breach"),
    [
        (lambda d: d.pop("verdict"), "$: 'verdict' is a required property"),
        (lambda d: d.update(extra=1), "$: Additional properties are not allowed ('extra'"),
        (lambda d: d.update(schema=2), "$.schema: 1 was expected"),
        (
            lambda d: d["samples"][0].update(round="one"),
            "$.samples[0].round: 'one' is not of type 'integer'",
        ),
        (
            lambda d: d["samples"][0].update(duration_s=-1),
            "$.samples[0].duration_s: -1 is less than the minimum of 0",
        ),
        (
            lambda d: d["findings"][0].update(severity="bad"),
            "$.findings[0].severity: 'bad' is not one of",
        ),
        (
            lambda d: d["cells"][0]["iops"].pop("low"),
            "$.cells[0].iops: 'low' is a required property",
        ),
    ],
)
def test_the_check_objects_to_what_is_not_published(change, breach):
    document = exported(summarised([full_sample()]), findings=[make_finding()])
    change(document)
    found = breaches(document)
    assert len(found) == 1
    assert found[0].startswith(breach)
