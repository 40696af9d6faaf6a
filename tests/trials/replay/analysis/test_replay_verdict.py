"""A replay is well only where it did what the capture holds; else the first sentence says not."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from results.replay_records import ROWS, SESSIONS, WELL, error, record_of, with_errors
from seatrial.findings.summary import summarise
from seatrial.results.replay import (
    CAPTURE,
    REPLAY,
    ReplayAccount,
    ReplayCodeErrors,
    ReplayCommits,
    ReplayContent,
    ReplayIdClass,
    ReplayIds,
    TableDifference,
)
from seatrial.trials.database.analysis.first_screen import database_tiles
from seatrial.trials.replay.analysis.verdict import (
    KINDS,
    errors_beyond,
    judge,
    replay_verdict,
    verdict_of_rounds,
)
from stats.builders import run_of
from trials.database.analysis.hand import MACHINE

from .hand import Play, sample_of

DIFFERENT = ReplayContent(
    against=REPLAY,
    file="round 1 on ssd",
    tables=5,
    different=[
        TableDifference(name="public.o", rows_captured=600, rows_now=600, rows_different=36)
    ],
)
ALL_SENT = "1,100 of 1,100 statements were sent, 0 new errors"


def kinds(record) -> list[str]:
    return [fault.kind for fault in judge(record).faults]


def of_class(**account):
    return record_of(classes={"select": ReplayAccount(**account)})


def test_what_is_well_is_said_with_its_figures():
    reported = judge(WELL)
    assert (reported.ok, reported.faults, reported.reasons) == (True, [], [])
    assert reported.sentence == ALL_SENT


@pytest.mark.parametrize(
    "reason",
    ["copy_data", "cut_off", "after_until", "writes", "ddl", "other_database", "dependent"],
)
def test_what_the_log_lacks_or_was_left_out_on_demand_is_reported_and_no_fault(reason):
    reported = judge(of_class(captured=100, ok=90, failed=0, skipped={reason: 10}))
    assert reported.ok
    assert reported.sentence == "90 of 100 statements were sent, 10 skipped, 0 new errors"


@pytest.mark.parametrize(
    ("account", "kind", "words"),
    [
        (
            {"captured": 100, "ok": 60, "failed": 0, "not_reached": 40},
            "under_delivery",
            "Not all statements were sent: 40 were not reached: 60 of 100 statements were sent, "
            "40 not reached, 0 new errors",
        ),
        (
            {"captured": 100, "ok": 60, "failed": 0, "skipped": {"no_connection": 40}},
            "under_delivery",
            "40 had no connection",
        ),
        (
            {"captured": 100, "ok": 0, "failed": 0, "skipped": {"other_database": 100}},
            "nothing_sent",
            "Nothing was sent: 100 for other database: 0 of 100 statements were sent",
        ),
        ({"captured": 0, "ok": 0, "failed": 0}, "nothing_sent", "The trace has no statements"),
        ({"captured": 100, "ok": 60, "failed": 0}, "not_accounted", "do not add up"),
    ],
)
def test_what_was_not_sent(account, kind, words):
    reported = judge(of_class(**account))
    assert not reported.ok
    assert reported.faults[0].kind == kind
    assert words in reported.sentence


def test_how_it_ended_comes_first():
    lost = judge(record_of(end="server_lost", words="57P01: shutting down"))
    assert lost.sentence == (
        "The connection to the server was lost during the replay (57P01: shutting down): "
        f"{ALL_SENT}"
    )
    none = replace(SESSIONS, connected=0, refused=8, words="28000: no")
    assert kinds(record_of(end="server_lost", sessions=none)) == ["refused"]
    assert kinds(record_of(end="interrupted")) == ["interrupted"]


def test_a_database_that_lacks_a_table_is_the_wrong_one():
    record = with_errors(error("new", now="42P01", count=12))
    reported = judge(record)
    assert kinds(record) == ["wrong_database", "more_errors"]
    assert reported.sentence.startswith(
        "Objects used by 12 statements are missing in the database (42P01: the server's words): "
    )
    assert judge(with_errors(error("same", now="42P01", captured="42P01"))).ok


def test_the_ddl_that_was_left_out_is_thought_of():
    record = with_errors(error("new", now="42P01", count=12))
    classes = {"ddl": ReplayAccount(captured=3, ok=0, failed=0, skipped={"ddl": 3}), **WELL.classes}
    reported = judge(replace(record, classes=classes))
    assert "3 DDL statements were skipped: --allow ddl" in reported.faults[0].next


@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        ({"empty_writes": 201}, ["empty_database"]),
        ({"empty_writes": 200}, []),
        ({"empty_reads": 450}, []),  # a queue that is polled
        ({"empty_reads": 451}, ["empty_database"]),
        ({"empty_writes": 201, "empty_reads": 251}, ["empty_database"]),
        ({"writes": 9, "empty_writes": 9}, []),
        ({"compared": 100, "equal": 49}, ["other_rows"]),
        ({"compared": 100, "equal": 50}, []),
    ],
)
def test_a_database_is_empty_or_another_where_most_rows_say_so(rows, kind):
    assert kinds(record_of(rows=replace(ROWS, **rows))) == kind


def test_lost_and_refused_sessions():
    sessions = replace(SESSIONS, lost=2, refused=1, words="53300: too many clients")
    skipped = ReplayAccount(captured=3, ok=0, failed=0, skipped={"no_connection": 3})
    reported = judge(record_of(sessions=sessions, classes={**WELL.classes, "insert": skipped}))
    assert reported.faults[0].kind == "lost_sessions"
    assert (
        "1 connection attempt was refused and 2 connections were lost (53300: " in reported.sentence
    )


def test_who_was_refused_at_first_was_not_at_work_meanwhile():
    reported = judge(record_of(sessions=replace(SESSIONS, refused=5)))
    assert reported.sentence.startswith("5 connection attempts were refused: ")


def test_more_errors_of_a_code_than_captured():
    reported = judge(
        with_errors(error("new", now="23505", count=3), error("gone", captured="40001"))
    )
    assert reported.faults[0].kind == "more_errors"
    assert reported.sentence == (
        "More errors than in the capture: 3 with 23505: 1,100 of 1,100 statements were sent, "
        "3 new errors"
    )


def test_errors_that_only_moved_are_not_more():
    moved = with_errors(
        error("new", now="40001", count=3),
        error("gone", captured="40001", count=3),
        error("same", now="23505", captured="23505", count=50),
    )
    assert judge(moved).ok
    assert "3 new errors" in judge(moved).sentence


def test_another_code_is_more_of_that_code():
    record = with_errors(error("other", now="25P02", captured="23505", count=2))
    assert errors_beyond(record.errors) == {"25P02": 2}
    assert "2 errors with another code than captured" in judge(record).sentence


def test_a_log_without_codes_may_have_had_any():
    gone = error("gone", captured="?????", count=2)
    assert judge(with_errors(error("new", now="23505", count=2), gone)).ok
    beyond = with_errors(error("new", now="23505", count=3), gone)
    assert errors_beyond(beyond.errors) == {"23505": 1}


def test_codes_are_counted_beyond_the_examples():
    codes = {"40001": ReplayCodeErrors(captured=90, now=90)}
    moved = with_errors(error("new", now="40001", count=9), new=90, gone=90, by_code=codes)
    assert judge(moved).ok
    more = codes | {"23505": ReplayCodeErrors(captured=1, now=3)}
    assert errors_beyond(with_errors(new=92, gone=90, by_code=more).errors) == {"23505": 2}


def test_in_an_old_file_an_error_that_is_not_listed_may_be_any():
    fewer_gone = with_errors(error("new", now="40001", count=9), new=9, gone=9)
    fewer_new = with_errors(error("gone", captured="40001", count=9), new=9, gone=9)
    assert not errors_beyond(fewer_gone.errors)
    assert not errors_beyond(fewer_new.errors)


def test_errors_beyond_the_examples_count_too():
    record = with_errors(error("new", now="23505"), error("gone", captured="23505"), new=40)
    assert errors_beyond(record.errors) == {"other codes": 39}
    assert kinds(record) == ["more_errors"]


@pytest.mark.parametrize(
    ("contents", "words"),
    [
        ([None], "rows not compared"),
        ([ReplayContent(against=CAPTURE, tables=5)], "rows equal the capture"),
        (
            [ReplayContent(against=CAPTURE, tables=49, not_compared={"public.big": "too large"})],
            "rows of 49 of 50 tables equal the capture",
        ),
        ([ReplayContent(against=CAPTURE, tables=5), None], "rows not compared"),
        ([ReplayContent(reason="first"), DIFFERENT], "rows differ from round 1 on ssd"),
        (
            [ReplayContent(reason="first"), replace(DIFFERENT, different=[])],
            "rows not compared with the capture",
        ),
    ],
)
def test_the_verdict_names_what_the_rows_were_compared_with(contents, words):
    samples = [
        replace(sample_of(Play(), number), replay=replace(WELL, content=content))
        for number, content in enumerate(contents)
    ]
    summary = summarise(run_of(before=MACHINE), samples)
    assert replay_verdict(summary).endswith(f"; {words}")


def test_statements_without_an_answer():
    assert kinds(with_errors(unanswered=2)) == ["more_errors"]


def test_a_commit_that_was_a_rollback():
    record = record_of(commits=ReplayCommits(captured=100, committed=95, rolled_back=3, failed=2))
    assert kinds(record) == ["rolled_back"]
    assert judge(record).sentence.startswith(
        "5 transactions of 100 that committed in the capture were rolled back"
    )


def test_a_replay_of_which_every_commit_failed():
    record = record_of(commits=ReplayCommits(captured=9, committed=0, rolled_back=0, failed=9))
    assert kinds(record) == ["rolled_back"]


def test_several_rounds_are_as_the_worst_of_them():
    lost = record_of(end="server_lost", words="gone")
    interrupted = record_of(end="interrupted")
    reported = verdict_of_rounds([WELL, interrupted, lost])
    assert reported.sentence.startswith(
        "2 of 3 rounds had faults; round 3: The connection to the server was lost"
    )
    assert not reported.ok
    assert verdict_of_rounds([WELL, WELL]).ok
    assert verdict_of_rounds([lost]).sentence == judge(lost).sentence
    with pytest.raises(ValueError, match="no round"):
        verdict_of_rounds([])


def test_faults_come_the_gravest_first():
    everything = replace(
        with_errors(error("new", now="42P01", count=12), unanswered=1),
        classes={
            "select": ReplayAccount(captured=9, ok=1, failed=0, not_reached=3),
            "update": ReplayAccount(captured=1, ok=0, failed=0, not_reached=1),
        },
        rows=replace(ROWS, empty_writes=400, compared=10, equal=0),
        sessions=replace(SESSIONS, lost=1),
        commits=ReplayCommits(captured=100, committed=97, rolled_back=5),
    )
    found = kinds(everything)
    assert found == sorted(found, key=KINDS.index)
    assert len(found) == 8


DIFFERS = ReplayContent(
    against=CAPTURE,
    file="prod.trace.rows",
    tables=5,
    rows=5_000,
    different=[
        TableDifference(
            name="public.orders",
            rows_captured=600,
            rows_now=600,
            rows_different=36,
            columns={"seen": 36, "note": 2},
        ),
        TableDifference(
            name="public.lines", rows_captured=1_200, rows_now=1_190, rows_different=10
        ),
    ],
)


def test_other_rows_than_the_captured_ones_are_a_fault():
    reported = judge(record_of(content=DIFFERS))
    assert [fault.kind for fault in reported.faults] == ["other_content"]
    assert reported.sentence.startswith(
        "Rows differ from the capture in 2 of 5 tables: 36 of 600 rows of public.orders (seen, "
        "note), 10 of 1,200 rows of public.lines (now 1,190 rows, captured 1,200)"
    )


def test_the_order_is_advised_where_it_may_help():
    def step(mode, sessions):
        order, own = replace(WELL.order, mode=mode), replace(SESSIONS, captured=sessions)
        return judge(record_of(content=DIFFERS, order=order, sessions=own)).faults[0].next

    assert "--order key" in step("session", 2)
    for mode, sessions in (("key", 2), ("object", 2), ("strict", 2), ("session", 1)):
        assert "--order" not in step(mode, sessions)


def test_rows_of_copies_without_data_are_missing_in_any_order():
    classes = dict(WELL.classes)
    classes["copy"] = ReplayAccount(captured=32, ok=0, failed=0, skipped={"copy_data": 32})
    record = record_of(content=DIFFERS, classes=classes, sessions=replace(SESSIONS, captured=2))
    verdict = judge(record).faults[0].next
    assert "32 COPYs" in verdict
    assert "--order" not in verdict


def test_rounds_that_leave_other_rows_are_no_fault():
    assert judge(record_of(content=replace(DIFFERS, against=REPLAY))).ok
    assert judge(record_of(content=ReplayContent(reason="nothing tells"))).ok


def test_a_doubt_is_settled_where_every_table_holds_the_captured_rows():
    ids = ReplayIds(mode="infer", classes=[], doubtful_uses=3)
    same = replace(DIFFERS, different=[])
    assert judge(record_of(ids=ids, content=same)).ok
    for unsettled in (
        replace(same, not_compared={"public.large": "beyond 256 MiB of tables"}),
        replace(same, against=REPLAY),
        ReplayContent(reason="nothing tells"),
    ):
        reported = judge(record_of(ids=ids, content=unsettled))
        assert [fault.kind for fault in reported.faults] == ["doubtful_ids"]


def test_ids_that_were_sent_as_captured_leave_a_doubt():
    assert judge(record_of(ids=ReplayIds(mode="infer", classes=[]))).ok
    reported = judge(record_of(ids=ReplayIds(mode="infer", classes=[], doubtful_uses=3)))
    assert [fault.kind for fault in reported.faults] == ["doubtful_ids"]
    assert reported.sentence.startswith("Rows may differ from the capture: 3 values")
    assert judge(record_of(ids=ReplayIds(mode="off", classes=[], doubtful_uses=3))).ok
    assert "capture through the proxy" in reported.faults[0].next
    exact = ReplayIdClass(column="public.o.id", source="sequence", exact=8)
    of_proxy = judge(record_of(ids=ReplayIds(mode="infer", classes=[exact], doubtful_uses=3)))
    assert "proxy" not in of_proxy.faults[0].next


def test_the_first_screen_counts_errors_in_the_rate_as_in_its_ratio():
    summary = summarise(run_of(before=MACHINE), [sample_of(Play(failed=900))])
    (replay,) = summary.analyses["replay"]
    rate, *_, ratio = database_tiles(summary.cells, summary.analyses)
    assert rate.estimate.value == pytest.approx(ratio.estimate.value * replay.captured_per_s)
