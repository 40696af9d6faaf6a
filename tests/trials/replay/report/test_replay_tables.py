"""The tables of replays on a terminal, and in every export."""

from __future__ import annotations

import csv
import io
import json

import msgspec
import pytest

from report import json_schema
from seatrial.errors import UsageError
from seatrial.findings.summary import summarise
from seatrial.report.exports import export
from seatrial.report.table import as_text
from seatrial.report.tables import tables
from seatrial.trials.replay.report.tables import replay_tables
from trials.replay.analysis.hand import Play
from trials.replay.report.replay_hand import paced, several, summary_of, troubled


def test_tables_fit_a_terminal():
    for summary in (troubled(), paced(), several()):
        for table in replay_tables(summary):
            widest = max(map(len, as_text(table).splitlines()))
            assert widest <= 100, (table.id, widest)


def test_every_table_has_an_identifier_of_its_own():
    for summary in (troubled(), several()):
        ids = [table.id for table in tables(summary)]
        assert len(ids) == len(set(ids))


def test_several_replays_say_whose_each_table_is():
    titles = [table.title for table in replay_tables(several()) if "account" in table.id]
    assert titles[0].endswith(": hdd, speed 1")
    assert titles[5].endswith(": ssd, speed max")


def test_json_is_as_published():
    for summary in (troubled(), paced(), several()):
        document = json.loads(export(summary, "json"))
        json_schema.assert_published(document)


def test_json_reports_bottleneck_ratio_and_the_record_of_each_round():
    document = json.loads(export(paced(), "json"))
    (replay,) = document["replays"]
    assert replay["key"] == paced().cells[0].cell.key
    assert replay["bottleneck"]["who"] == "disk"
    assert replay["ratio"]["unit"] == "ratio"
    assert replay["lateness"]["grows"] in (True, False)
    records = [sample["replay"] for sample in document["samples"]]
    assert len(records) == 3
    for record in records:
        for account in record["classes"].values():
            rest = account["ok"] + account["failed"] + account["not_reached"]
            assert account["captured"] == rest + sum(account["skipped"].values())


def test_csv_has_a_row_for_each_class_and_columns_that_add_up():
    found = list(csv.DictReader(io.StringIO(export(troubled(), "csv"))))
    assert [row["request"] for row in found] == ["select", "update", "insert", "transaction"]
    for row in found:
        parts = ("ok", "failed", "skipped", "not_reached")
        assert int(row["replay_captured"]) == sum(int(row[f"replay_{part}"]) for part in parts)
        assert row["replay_bottleneck"] == "disk"
        assert row["replay_errors_new"] == "20"
    (first, *_) = csv.DictReader(io.StringIO(export(paced(), "csv")))
    assert 0 < float(first["replay_within_1ms_share"]) < 1


def test_markdown_has_the_bottleneck_and_the_account():
    text = export(troubled(), "markdown")
    assert "The disk was the bottleneck" in text
    assert "## Outcome of all captured statements" in text
    assert "| all | 12,000 | 11,677 | 30 | 293 | – |" in text


def test_a_query_is_cut_on_a_terminal_only():
    (table,) = [
        replay_table for replay_table in replay_tables(troubled()) if "queries" in replay_table.id
    ]
    assert all(len(row[0]) <= 24 for row in table.rows)
    assert any(row[0].endswith("…") for row in table.rows)


@pytest.mark.parametrize("name", ["fio-job"])
def test_formats_without_words_for_replays_say_so(name):
    with pytest.raises(UsageError):
        export(troubled(), name)


def test_a_query_of_which_nothing_ended_well_has_no_times():
    summary = troubled()
    samples = []
    for sample in summary.cells[0].samples:
        first, *others = sample.replay.queries
        failed = msgspec.structs.replace(first, ok=0, failed=first.ok, service_ns_p50=0)
        record = msgspec.structs.replace(sample.replay, queries=[failed, *others])
        samples.append(msgspec.structs.replace(sample, replay=record))
    (table,) = [
        replay_table
        for replay_table in replay_tables(summarise(summary.run, samples))
        if replay_table.id == "replay-queries-1"
    ]
    assert table.rows[0][4:6] == ["–", "–"]
    assert "0 ns" not in as_text(table)


def test_a_replay_of_which_nothing_was_sent_breaks_no_table():
    """It ended before anything was sent: nothing has a time."""
    summary = summary_of(Play(ended_at_share=0.0, end="interrupted"), rounds=1)
    texts = [as_text(table) for table in tables(summary)]
    assert any("Not reached" in text for text in texts)
    assert any("0 completed" in text for text in texts)
    assert "replay_under_delivered" in {finding.kind for finding in summary.findings}
