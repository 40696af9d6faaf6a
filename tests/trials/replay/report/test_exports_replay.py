"""What is particular to a replay, in the exports."""

from __future__ import annotations

import json

import msgspec

from findings.analyses import with_analyses
from report import json_schema
from report.exports_hand import make_cell, make_sample, summarised
from results.replay_records import make_replay_record
from seatrial.report.exports import export
from seatrial.results.replay import ReplayRecord
from trials.database.report.database_hand import database_summary


def test_json_holds_the_record_as_published():
    sample = msgspec.structs.replace(
        make_sample(make_cell(), {"read": 2000}), replay=make_replay_record()
    )
    summary = with_analyses(database_summary(), cells=[summarised([sample])], database=None)
    document = json.loads(export(summary, "json"))
    json_schema.assert_published(document)
    (reported,) = [each["replay"] for each in document["samples"]]
    assert msgspec.convert(reported, ReplayRecord) == make_replay_record()


def test_every_name_of_the_record_is_published():
    published = json_schema.load("run")["$defs"]["ReplayRecord"]
    assert set(published["required"]) == set(ReplayRecord.__struct_encode_fields__)
