"""Every PostgreSQL at hand, every format, every protocol, both ways to log: all is understood."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest

from trials.replay.loads import (
    BYTES,
    FORGED,
    LOADS,
    NAME,
    OF_PGBENCH,
    TEXT,
    UNUSUAL_LOADS,
    Logged,
    Trace,
)
from trials.replay.logging_server import CLIENTS, PREFIX, TRANSACTIONS

SCRIPT = ("BEGIN", "UPDATE", "SELECT", "UPDATE", "UPDATE", "INSERT", "END")
HISTORY = "INSERT INTO pgbench_history"
OTHER_SESSIONS = 2
"""Of pgbench before its clients start, and of the test that ends the logging."""

every_load = pytest.mark.parametrize("load", LOADS)
of_pgbench = pytest.mark.parametrize("load", OF_PGBENCH)
of_oddities = pytest.mark.parametrize("load", UNUSUAL_LOADS)


@pytest.fixture
def one(logged, load) -> Logged:
    return logged[load]


@pytest.fixture
def traces(one) -> list[Trace]:
    return list(one.traces.values())


def starting_with(statements: list[dict[str, Any]], text: str) -> list[dict[str, Any]]:
    return [statement for statement in statements if statement["sql"].startswith(text)]


@every_load
def test_the_formats_give_the_same_trace(one, traces):
    assert len(traces) == (3 if one.major >= 15 else 2)
    first, *others = traces
    for other in others:
        assert other.by_session() == first.by_session()
        assert other.reading.session_count == first.reading.session_count
        assert other.reading.started_at == first.reading.started_at
        assert other.reading.ended_at == first.reading.ended_at


@every_load
def test_nothing_is_unreadable_and_all_is_accounted_for(one):
    for form, trace in one.traces.items():
        accounting = trace.reading.accounting
        assert accounting.unreadable == {}, trace.reading.unreadable
        assert accounting.faults() == []
        assert accounting.statements == len(trace.statements)
        assert [file.format for file in trace.reading.files] == [form]


@every_load
def test_a_prefix_is_guessed(one):
    (file,) = one.traces["stderr"].reading.files
    assert (file.prefix, file.is_guessed) == (PREFIX, True)


@of_pgbench
def test_every_statement_of_pgbench_is_understood(one, traces):
    assert one.transactions == CLIENTS * TRANSACTIONS
    for trace in traces:
        assert trace.reading.session_count == CLIENTS + OTHER_SESSIONS
        assert trace.reading.accounting.skipped == {}
        clients = {each["session"] for each in starting_with(trace.statements, HISTORY)}
        assert len(clients) == CLIENTS
        for client in clients:
            sent = [statement for statement in trace.statements if statement["session"] == client]
            words = [each["sql"].split()[0].rstrip(";") for each in sent]
            assert words == list(SCRIPT) * TRANSACTIONS
            numbers = [each["transaction"] for each in sent]
            assert numbers == [1 + place // len(SCRIPT) for place in range(len(sent))]


@of_pgbench
def test_every_parameter_is_what_the_server_stored(one, traces):
    for trace in traces:
        stored = map(stored_values, starting_with(trace.statements, HISTORY))
        assert sorted(stored) == one.history


def stored_values(statement: dict[str, Any]) -> tuple[int, ...]:
    """tid, bid, aid and delta: as parameters, or out of the text."""
    inside = statement["sql"].partition("VALUES (")[2]
    values = statement["parameters"] or inside.split(",")[:4]
    return tuple(int(value) for value in values)


@of_pgbench
def test_the_protocol_and_names_are_as_sent(traces, load):
    protocol = load.partition("-")[0]
    sent = "simple" if protocol == "simple" else "extended"
    for trace in traces:
        own = starting_with(trace.statements, HISTORY)
        assert {each["protocol"] for each in own} == {sent}
        assert {bool(each["prepared"]) for each in own} == {protocol == "prepared"}


@every_load
def test_durations_are_known_where_they_are_logged(traces, load):
    is_timed = load.endswith("log_min_duration")
    for trace in traces:
        ended = [statement for statement in trace.statements if statement["error"] is None]
        assert {each["duration_us"] is not None for each in ended} == {is_timed}


@every_load
def test_a_sessions_statements_come_one_after_the_other(traces, load):
    # Stamps are in ms; a start that is reckoned from a duration is off by no more.
    slack_us = 1_000 if load.endswith("log_min_duration") else 0
    for trace in traces:
        for statements in trace.by_session():
            starts = [statement["start_us"] for statement in statements]
            gaps_us = [later - earlier for earlier, later in itertools.pairwise(starts)]
            assert all(gap_us >= -slack_us for gap_us in gaps_us)


@of_oddities
def test_what_a_log_has_trouble_with(traces):
    for trace in traces:
        statements = trace.statements
        by_sql = Counter(statement["sql"] for statement in statements)
        assert by_sql["SELECT *\n  FROM odd\n\tWHERE t = 'a\tb' -- not all\n"] == 1
        assert by_sql["SELECT 1; SELECT 2"] == 1
        written = "\\x" + BYTES.hex()
        inserts = starting_with(statements, "INSERT INTO odd")
        assert [insert["parameters"] for insert in inserts] == [
            [TEXT, written, None],
            [TEXT, written, "3"],
        ]
        prepared = starting_with(statements, "SELECT $1::int")
        assert [each["parameters"] for each in prepared] == [["5"], ["6"]]
        assert len({each["prepared"] for each in prepared}) == 1
        assert trace.reading.accounting.skipped == {"copy_data": 1}


@of_oddities
def test_what_a_function_writes_into_the_log_is_no_statement(traces):
    for trace in traces:
        assert FORGED not in {statement["sql"] for statement in trace.statements}
        assert len(starting_with(trace.statements, "DO $$")) == 1


@of_oddities
def test_a_name_may_have_what_ends_names(traces):
    for trace in traces:
        (named,) = starting_with(trace.statements, "SELECT 'by name'")
        assert named["prepared"] == NAME


@of_oddities
def test_what_failed_is_known_with_its_code(traces):
    for trace in traces:
        failed = [
            (statement["sql"], statement["error"])
            for statement in trace.statements
            if statement["error"]
        ]
        assert Counter(failed) == {
            ("SELEC 1", "42601"): 1,
            ("SELECT 1/0", "22012"): 2,
            ("SELECT * FROM nowhere", "42P01"): 1,
        }


@of_oddities
def test_a_block_is_one_transaction_whatever_fails_in_it(traces):
    for trace in traces:
        statements = trace.statements
        (begin,) = [n for n, each in enumerate(statements) if each["sql"] == "BEGIN"]
        (end,) = [n for n, each in enumerate(statements) if each["sql"] == "COMMIT"]
        inside = statements[begin : end + 1]
        assert {each["transaction"] for each in inside} == {1}
        outside = statements[:begin] + statements[end + 1 :]
        assert {each["transaction"] for each in outside} == {0}
        words = {each["sql"].split()[0] for each in inside}
        assert words >= {"SAVEPOINT", "SELECT", "ROLLBACK", "DECLARE", "FETCH", "COPY"}
