"""The record of a replay is what the engine tells, and adds up."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from results.replay_records import make_replay_record
from seatrial.results import replay
from seatrial.results.replay import STATEMENTS, ReplayAccount, ReplayRecord
from seatrial.results.replay_ids import (
    ReplayIdClass,
    ReplayIdExample,
    ReplayIdPattern,
    ReplayIds,
)

CRATE = Path(__file__).parents[2] / "crates" / "playback" / "src"
OF_PYTHON = {
    "end",
    "words",
    "trace",
    "queries_server",
    "content",
}  # told beside the record, stored in it
STRUCTS = (
    *("Account", "Client", "Commits", "ErrorExample", "Errors", "Held", "Lag", "Moment", "Query"),
    *("ClassRows", "Record", "Rows", "RowsExample", "Sessions"),
)
STRUCTS_OF_IDS = {
    "Ids": ReplayIds,
    "ClassTold": ReplayIdClass,
    "PatternTold": ReplayIdPattern,
    "Example": ReplayIdExample,
}


@pytest.mark.parametrize("name", STRUCTS)
def test_the_fields_are_those_of_the_engine(name):
    """A field that only one of the two knows would be lost, or refused, after a long replay."""
    told = fields_in("played.rs", name)
    stored = set(getattr(replay, f"Replay{name}").__struct_encode_fields__)
    assert stored - told == (OF_PYTHON if name == "Record" else set())
    assert told - stored == set()


@pytest.mark.parametrize("name", STRUCTS_OF_IDS)
def test_the_fields_of_ids_are_those_of_the_engine(name):
    stored = set(STRUCTS_OF_IDS[name].__struct_encode_fields__)
    assert fields_in("rewrite/told.rs", name) == stored


def fields_in(file: str, name: str) -> set[str]:
    """The fields of a struct of the engine."""
    source = (CRATE / file).read_text()
    (body,) = re.findall(rf"pub struct {name} {{\n(.*?)\n}}", source, re.DOTALL)
    return set(re.findall(r"^    pub (\w+):", body, re.MULTILINE))


def test_the_classes_are_those_of_the_engine():
    source = (CRATE.parents[1] / "sqltext" / "src" / "lexer" / "class.rs").read_text()
    (table,) = re.findall(r"const NAMES: .*?\];", source, re.DOTALL)
    assert tuple(re.findall(r'"(\w+)"', table)) == STATEMENTS


def test_a_record_comes_back_from_json():
    record = make_replay_record()
    encoded = msgspec.json.encode(record)
    assert b'"class":"select"' in encoded
    assert msgspec.json.decode(encoded, type=ReplayRecord) == record


def test_accounts_add_up_over_all_classes():
    record = make_replay_record()
    assert all(account.adds_up for account in record.classes.values())
    total = record.total
    assert (total.captured, total.sent, total.not_reached) == (1105, 1082, 10)
    assert total.skipped == {"dependent": 8, "copy_data": 5}
    assert total.adds_up
    assert not ReplayAccount(captured=3, ok=1, failed=1).adds_up
