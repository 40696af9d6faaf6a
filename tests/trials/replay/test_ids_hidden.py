"""Ids where they are not easily seen: the right row is met, or a warning is given."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import pytest

from seatrial.postgres.connection import connect
from seatrial.results.replay import ReplayRecord
from trials.replay.capturing import capturing
from trials.replay.ids_hidden import FURTHER_ROWS, HELD, HIDDEN, TABLES, TOUCHED, TURNS, play_hidden
from trials.replay.targets import catalogue_of, play


@dataclass(frozen=True)
class ReplayVariant:
    """What came of a kind: what the source holds, what the target holds, and the record.

    Attributes:
        held: Rows of the source.
        now: Rows of the target.
        touched: Rows of the target that were there before, and were changed.
        record: The record of the replay.
    """

    held: list[tuple[object, ...]]
    now: list[tuple[object, ...]]
    touched: int
    record: ReplayRecord


def played(target, name: str, folder) -> ReplayVariant:
    """Capture a kind, and play it to a database that gives other ids."""
    hidden = HIDDEN[name]
    source = target.make("hidden_source", TABLES + hidden.tables)
    trace = folder / "hidden.trace"
    with capturing(target, source, trace) as capture:
        with contextlib.closing(connect(capture.address)) as session:
            play_hidden(session, hidden)
        capture.end()
    database = target.make("hidden_target", TABLES + hidden.tables + FURTHER_ROWS)
    address = target.address(database)
    record = play(trace, address, ids="infer", catalog=catalogue_of(address))
    ((touched,),) = target.run(database, TOUCHED)
    return ReplayVariant(target.run(source, HELD), target.run(database, HELD), touched, record)


@pytest.mark.parametrize("name", HIDDEN)
def test_no_row_is_wrong_of_which_nothing_is_reported(target, tmp_path, name):
    hidden = HIDDEN[name]
    found = played(target, name, tmp_path)
    assert found.record.end == "complete", found.record.words
    assert found.record.errors.new == 0, found.record.errors.examples
    ids = found.record.ids
    assert ids is not None
    unresolved = {reason for each in ids.classes for reason in each.unresolved}
    assert unresolved == hidden.reasons
    assert set(ids.not_followed) == hidden.places
    for each in ids.classes:
        assert each.rewritten == each.exact + each.proved + each.by_pattern
    if hidden.is_whole:
        assert found.touched == 0
        assert found.now == found.held
    else:
        left = sum(sum(each.unresolved.values()) for each in ids.classes)
        assert left + sum(ids.not_followed.values()) >= TURNS // 2


RULE = """
    CREATE TABLE entries (id bigserial PRIMARY KEY, key bigint);
    CREATE TABLE kept (id bigint, key bigint);
    CREATE RULE keep AS ON INSERT TO entries DO INSTEAD INSERT INTO kept VALUES (NEW.id, NEW.key);
"""


def test_a_rule_that_does_something_else_is_requested_nothing_back(target, tmp_path):
    source = target.make("rule_source", RULE)
    trace = tmp_path / "rule.trace"
    with capturing(target, source, trace) as capture:
        with contextlib.closing(connect(capture.address)) as session:
            for key in range(10):
                session.execute(f"INSERT INTO entries (key) VALUES ({key})".encode())
                session.execute(f"UPDATE entries SET key = {key} WHERE id = {key + 1}".encode())
        capture.end()
    address = target.address(target.make("rule_target", RULE))
    record = play(trace, address, ids="infer", catalog=catalogue_of(address))
    assert (record.end, record.errors.new) == ("complete", 0)
    assert record.ids is not None
    assert record.ids.returning_added == 0


def test_a_sequence_that_begins_again_at_its_end_is_known(target):
    name = target.make("cycling", "CREATE SEQUENCE one CYCLE MAXVALUE 5; CREATE SEQUENCE two;")
    reported = {
        each["name"]: each["cycles"] for each in catalogue_of(target.address(name))["sequences"]
    }
    assert reported == {"one": True, "two": False}
