"""Samples that did not begin with the same data, and statements that do not fit a schema."""

from __future__ import annotations

import copy

import msgspec
import pytest

from seatrial.cli.outcome import exit_code
from seatrial.errors import EXIT_PARTIAL
from seatrial.findings.summary import summarise
from seatrial.results.model import StartRecord
from seatrial.results.replay import ReplayErrorExample
from seatrial.trials.replay.analysis.model import schema_errors
from seatrial.trials.replay.analysis.starts import (
    sides_differ,
    start_difference_text,
    start_differences,
)
from seatrial.trials.replay.analysis.verdict import judge
from stats.builders import run_of
from trials.database.analysis.hand import MACHINE, kinds_of, only

from .hand import Play, sample_of

START = StartRecord(
    lsn="0/30",
    checkpoint_lsn="0/28",
    sequences={"public.ids": 5, "public.ended": None},
    rows={"public.orders": 1_000, "public.lines": 0},
    contents={"public.orders": "1a"},
    source_rows_written=5,
    rows_estimated={"public.large": 5_000_000.0, "public.new": None},
    restored="reflink",
)


def begun(start: StartRecord | None, round_number: int = 0, target="trial", **reported):
    """A sample that began so; the arguments change what its cell says of the database."""
    sample = sample_of(Play(target=target), round_number)
    spec = copy.deepcopy(sample.cell.spec)
    spec.setdefault("database", {}).update(reported)
    database = msgspec.structs.replace(sample.database, start=start)
    cell = msgspec.structs.replace(sample.cell, spec=spec)
    return msgspec.structs.replace(sample, cell=cell, database=database)


def changed(**changes) -> StartRecord:
    return msgspec.structs.replace(START, **changes)


def summary_of(*samples):
    return summarise(run_of(before=MACHINE), list(samples))


def test_equal_starts_are_no_finding():
    later = changed(lsn="0/99", duration_s=3.0)
    samples = [begun(START), begun(later, 1), begun(changed(checkpoint_lsn="0/77"), 1, "other")]
    assert start_differences(samples) == []
    assert "replay_starts_differ" not in kinds_of(summary_of(*samples[:2]))


@pytest.mark.parametrize(
    ("captured", "severity"),
    [("de (icu), UTF8", "warning"), ("", "note"), ("C.utf8, UTF8", None)],
)
def test_another_locale_than_the_captured_one_is_a_finding(captured, severity):
    sample = begun(None)
    database = msgspec.structs.replace(
        sample.database, locale="C.UTF-8, UTF8", locale_captured=captured
    )
    summary = summary_of(msgspec.structs.replace(sample, database=database))
    if severity is None:
        assert "replay_locale_differs" not in kinds_of(summary)
    else:
        finding = only(summary, "replay_locale_differs")
        assert (finding.severity, finding.figures.locale_captured) == (severity, captured)


@pytest.mark.parametrize(
    ("changes", "what", "words"),
    [
        (
            {"rows": {"public.orders": 1_120, "public.lines": 0}},
            "rows",
            "in round 2 on trial public.orders had 1,120 rows, not 1,000",
        ),
        ({"rows": {"public.orders": 1_000}}, "rows", "public.lines was missing"),
        (
            {"sequences": {"public.ids": 1_205, "public.ended": None}},
            "sequence",
            "public.ids was at 1,205, not at 5",
        ),
        (
            {"contents": {"public.orders": "9f"}},
            "contents",
            "in round 2 on trial public.orders had other contents",
        ),
        (
            {"source_rows_written": 12},
            "source",
            "in round 2 on trial the source database had been written to (7 rows)",
        ),
        ({"checkpoint_lsn": "0/5D0"}, "checkpoint", "was at 0/5D0, not at 0/28"),
    ],
)
def test_what_differs_is_reported_and_ends_with_its_exit_code(changes, what, words):
    samples = [begun(START), begun(changed(**changes), 1)]
    (difference,) = start_differences(samples)
    assert difference.what == what
    summary = summary_of(*samples)
    finding = only(summary, "replay_starts_differ")
    assert finding.severity == "critical"
    assert words in finding.sentence
    assert exit_code(summary) == EXIT_PARTIAL


@pytest.mark.parametrize(
    ("unrestored", "restored", "is_reported"),
    [
        ("0/90000", "0/90000", True),  # nothing was written between
        ("0/90000", "0/90060", True),  # what a server writes by itself
        ("0/90000", "0/F0000", False),
        ("0/90000", "0/40", False),  # files of before were put back
        ("0/60", "0/60", False),  # the replay before wrote nothing
        ("", "0/90000", False),  # no command
    ],
)
def test_a_command_that_brought_nothing_back_is_reported(unrestored, restored, is_reported):
    samples = [begun(START), begun(changed(lsn_unrestored=unrestored, lsn=restored), 1)]
    found = start_differences(samples)
    assert bool(found) == is_reported
    if is_reported:
        assert "the restore command did nothing: it wrote" in start_difference_text(found[0])
    whole = {"rows": {"public.orders": 1_000}, "rows_estimated": {}}
    first, last = (
        begun(msgspec.structs.replace(sample.database.start, **whole), nth)
        for nth, sample in enumerate(samples)
    )
    assert start_differences([first, last]) == []


def test_other_rows_are_reported_once_and_unread_contents_are_no_difference():
    rows = {"public.orders": 1_120, "public.lines": 0}
    more = changed(rows=rows, contents={"public.orders": "9f"})
    (found,) = start_differences([begun(START), begun(more, 1)])
    assert found.what == "rows"
    assert start_differences([begun(START), begun(changed(contents={}), 1)]) == []


def test_what_sql_loads_is_held_against_the_same_load_alone():
    sql = {"kind": "sql", "file": "/seed.sql"}
    other = changed(contents={"public.orders": "9f"})
    on_both = [begun(START, load=sql), begun(other, 0, "ssd", load=sql)]
    assert start_differences(on_both) == []
    (found,) = start_differences([*on_both, begun(START, 1, "ssd", load=sql)])
    assert (found.what, found.sample.round, found.sample.cell.target) == ("contents", 1, "ssd")
    dump = {"kind": "archive", "file": "/prod.dump"}
    assert start_differences([begun(START, load=dump), begun(other, 0, "ssd", load=dump)])


def test_estimates_may_differ_a_little_and_are_a_warning_where_they_differ_more():
    near = begun(changed(rows_estimated={"public.large": 5_400_000.0, "public.new": 7.0}), 1)
    assert start_differences([begun(START), near]) == []
    far = begun(changed(rows_estimated={"public.large": 6_000_000.0, "public.new": None}), 1)
    summary = summary_of(begun(START), far)
    finding = only(summary, "replay_starts_differ")
    assert finding.severity == "warning"
    assert "public.large had about 6,000,000 rows, not about 5,000,000" in finding.sentence
    assert exit_code(summary) == 0


def test_sides_of_two_runs_are_held_against_each_other():
    own = changed(lsn="0/99", checkpoint_lsn="0/77")
    other = changed(rows={"public.orders": 7, "public.lines": 0})
    assert sides_differ([begun(START), begun(START, 1)], [begun(own)]) == []
    (found,) = sides_differ([begun(START)], [begun(own), begun(other, 1)])
    assert (found.what, found.name, found.sample.round) == ("rows", "public.orders", 1)
    migrated = begun(other, load={"kind": "archive", "migrate": "/new.sql"})
    assert sides_differ([begun(START)], [migrated]) == []
    assert sides_differ([begun(START)], [begun(other, clone="reuse")]) == []


def test_what_could_not_be_looked_at_is_no_difference():
    unread = changed(sequences={"public.ended": None}, unread=["public.ids"])
    estimated = changed(
        rows={"public.lines": 0}, rows_estimated=START.rows_estimated | {"public.orders": 990.0}
    )
    assert start_differences([begun(START), begun(unread, 1), begun(estimated, 2)]) == []


def test_only_what_should_be_alike_is_compared():
    other = changed(rows={"public.orders": 1})
    migrated = begun(other, 1, load={"kind": "archive", "migrate": "/new.sql"})
    aged = [begun(START, clone="reuse"), begun(other, 1, clone="reuse")]
    assert start_differences([begun(START), migrated, begun(None, 2), *aged]) == []
    targets = start_differences([begun(START), begun(other, 0, "ssd")])
    assert {target.sample.cell.target for target in targets} == {"ssd"}


def failing(*codes: tuple[str, str, int], migrate="/new.sql"):
    """A sample on a schema whose statements fail with these kinds, codes and counts."""
    sample = begun(None, load={"kind": "archive", "migrate": migrate})
    spec = copy.deepcopy(sample.cell.spec)
    spec["database"].setdefault("replay", {})["schema"] = "new"
    examples = [
        ReplayErrorExample(
            kind=kind, captured_sqlstate="", sqlstate=code, message="it is gone",
            text="SELECT gone FROM orders", count=count, number=1, session="1",
        )
        for kind, code, count in codes
    ]  # fmt: skip
    errors = msgspec.structs.replace(
        sample.replay.errors, examples=examples, new=sum(count for *_, count in codes)
    )
    trace = {"migrated": "yes" if migrate else "no"}
    return msgspec.structs.replace(
        sample,
        cell=msgspec.structs.replace(sample.cell, spec=spec),
        replay=msgspec.structs.replace(sample.replay, errors=errors, trace=trace),
    )


def test_statements_that_no_longer_fit_are_counted():
    summary = summary_of(
        failing(("new", "42703", 30), ("other", "42P01", 5), ("same", "42P01", 9),
                ("new", "42501", 7), ("new", "23505", 4))
    )  # fmt: skip
    found = schema_errors(summary.cells[0])
    assert (found.schema, found.statements, len(found.examples)) == ("new", 35, 2)
    finding = only(summary, "replay_schema_mismatch")
    assert "Schema new: 35 statements of" in finding.sentence
    assert "30 with 42703 (it is gone), such as SELECT gone FROM orders" in finding.sentence
    assert finding.severity == "note"
    assert not {"replay_wrong_database", "replay_new_errors"} & set(kinds_of(summary))


def test_many_schema_errors_are_a_warning_and_those_of_the_snapshots_schema_another_matter():
    many = summary_of(failing(("new", "42703", 3_000)))
    assert only(many, "replay_schema_mismatch").severity == "warning"
    own = summary_of(failing(("new", "42703", 3_000), migrate=""))
    assert "replay_schema_mismatch" not in kinds_of(own)
    assert "replay_wrong_database" in kinds_of(own)


def test_what_does_not_fit_is_no_fault_and_all_else_is():
    schema_errors_alone = failing(("new", "42703", 30), ("new", "25P02", 60)).replay
    assert judge(schema_errors_alone).ok
    for code in ("42501", "23503"):
        assert not judge(failing(("new", "42703", 30), ("new", code, 2)).replay).ok
    assert not judge(failing(("new", "25P02", 60)).replay).ok
    assert not judge(failing(("new", "42703", 30), migrate="").replay).ok
