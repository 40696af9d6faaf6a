"""Runs of databases in every export: figures in full, and what a format has no words for named."""

from __future__ import annotations

import csv
import io
import json
import statistics

import msgspec
import pytest

from findings.analyses import with_analyses
from report import json_schema
from report.exports_hand import make_cell, make_sample, summarised
from seatrial.errors import UsageError
from seatrial.report.exports import export
from seatrial.trials.database.analysis.model import database_of
from trials.database.report.database_hand import database_summary

SUMMARY = database_summary()
KEYS = [part.cell.key for part in SUMMARY.cells]


def rows() -> dict[str, dict[str, str]]:
    found = csv.DictReader(io.StringIO(export(SUMMARY, "csv")))
    return {row["cell_key"]: row for row in found if row["request"] != "query"}


def test_json_is_as_published_and_names_each_cell():
    document = json.loads(export(SUMMARY, "json"))
    json_schema.assert_published(document)
    analysed = [each["key"] for each in document["database"]["cells"]]
    assert analysed == [cell.cell.key for cell in database_of(SUMMARY).cells]
    assert document["database"]["sweeps"][0]["sentence"] == database_of(SUMMARY).sweeps[0].sentence


def test_json_holds_what_the_driver_printed():
    document = json.loads(export(SUMMARY, "json"))
    first = SUMMARY.cells[0].samples[0]
    (sample,) = [
        each
        for each in document["samples"]
        if (each["cell_key"], each["round"]) == (first.cell.key, first.round)
    ]
    assert sample["database"]["reported"] == first.database.reported
    assert sample["database"]["start_state"] == "cold"
    assert "series" not in sample


def test_json_of_a_run_without_databases_says_so():
    plain = with_analyses(
        SUMMARY, cells=[summarised([make_sample(make_cell(), {"read": 2000})])], database=None
    )
    document = json.loads(export(plain, "json"))
    json_schema.assert_published(document)
    assert document["database"] is None
    assert [sample["database"] for sample in document["samples"]] == [None]


def test_csv_has_the_mean_of_the_runs_as_the_articles_report_it():
    part = SUMMARY.cells[0]
    shown = [sample.database.reported["tps"] for sample in part.samples]
    row = rows()[part.cell.key]
    assert float(row["reported_tps"]) == pytest.approx(statistics.fmean(shown), rel=1e-12)
    assert float(row["completed_per_s"]) == part.iops.value
    assert (row["server"], row["start_state"]) == ("PostgreSQL 15.20", "cold")
    assert row["bound"] == database_of(SUMMARY).cells[0].verdict.bound


def test_csv_has_the_mean_of_each_machine_where_there_were_two():
    (key,) = [key for key in KEYS if key.startswith("hdd/") and "processes=2" in key]
    row = rows()[key]
    each = [float(row[f"reported_tps_{number}"]) for number in (1, 2)]
    assert sum(each) == pytest.approx(float(row["reported_tps"]), rel=0.01)


def test_csv_has_the_real_time_of_a_batch():
    (key,) = [key for key in KEYS if "/batch/" in key]
    row = rows()[key]
    (analysed,) = [cell for cell in database_of(SUMMARY).cells if cell.cell.key == key]
    assert float(row["real_s"]) == analysed.batch_s["real"].value
    assert float(row["real_s_low"]) < float(row["real_s"]) < float(row["real_s_high"])
    assert rows()[KEYS[0]]["real_s"] == ""


def test_markdown_says_what_the_time_went_into():
    text = export(SUMMARY, "markdown")
    for cell in database_of(SUMMARY).cells:
        assert " ".join(cell.verdict.sentence.split(",")[0].split()) in text
    assert "## Gain of a larger cache" in text


@pytest.mark.parametrize("name", ["fio-json", "fio-job"])
def test_fio_has_no_databases(name: str):
    with pytest.raises(UsageError, match="fio has no options for any test"):
        export(SUMMARY, name)


def test_fio_leaves_databases_out_and_names_them():
    mixed = msgspec.structs.replace(
        SUMMARY, cells=[summarised([make_sample(make_cell(), {"read": 2000})]), *SUMMARY.cells]
    )
    document = json.loads(export(mixed, "fio-json"))
    assert document["seatrial"]["left_out"] == KEYS
    assert len(document["jobs"]) == 1
    job = export(mixed, "fio-job")
    assert job.count("is left out: fio has no databases") == len(KEYS)
    assert job.count("stonewall") == 1


def test_bm_flash_says_that_there_is_no_matrix():
    with pytest.raises(UsageError, match="no random matrix"):
        export(SUMMARY, "bm-flash")
