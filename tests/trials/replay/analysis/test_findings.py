"""What a replay's findings say, where they are raised and where they are not."""

from __future__ import annotations

import msgspec
import pytest

from seatrial.findings.summary import summarise
from seatrial.results.replay import ReplayClassRows, ReplayIdClass, ReplayIdExample, ReplayIds
from seatrial.trials.replay.analysis.verdict import judge
from stats.builders import run_of
from trials.database.analysis.hand import MACHINE, kinds_of, only

from .hand import Play, changed, rounds_of, sample_of


def summary_of(*plays, rounds=3):
    samples = [sample for play in plays for sample in rounds_of(play, rounds)]
    return summarise(run_of(before=MACHINE), samples)


def with_parts(play, **parts):
    """One round with other parts in its record."""
    sample = sample_of(play)
    record = msgspec.structs.replace(sample.replay, **parts)
    return summarise(run_of(before=MACHINE), [msgspec.structs.replace(sample, replay=record)])


def replay_kinds(summary):
    return {kind for kind in kinds_of(summary) if kind.startswith("replay_")}


def test_a_replay_that_is_well_has_only_what_the_log_lacks():
    for play in (Play(), Play(speed=1.0), Play(speed=2.5)):
        summary = summary_of(play)
        assert replay_kinds(summary) == {"replay_skipped"}
        assert only(summary, "replay_skipped").severity == "note"


def test_errors_of_the_capture_are_no_errors_of_the_storage():
    summary = summary_of(Play(failed=30))
    assert "errors" not in kinds_of(summary)
    assert "replay_new_errors" not in kinds_of(summary)


def test_a_rate_that_follows_the_capture_is_no_steady_state_that_was_left():
    summary = summary_of(Play(speed=1.0, captured_s=300.0))
    wrong = {"not_steady", "left_steady_state", "start_up_phase", "slower_at_end", "burst_credit"}
    assert not wrong & set(kinds_of(summary))
    assert summary.steady == []


def test_new_errors_are_reported_with_the_most_frequent_and_as_grave_as_they_are():
    few = only(summary_of(Play(failed=30, new=20)), "replay_new_errors")
    assert few.severity == "warning"
    assert "20 with 40P01 (deadlock detected)" in few.sentence
    assert "20 statements of 11,760 sent (0.2 %)" in few.sentence
    assert "concurrency errors" in few.cause
    assert few.evidence["beyond_capture_count"] == 20
    many = only(summary_of(Play(failed=400, new=400)), "replay_new_errors")
    assert many.severity == "critical"


def test_an_order_is_advised_unless_the_replay_kept_it():
    def step(mode):
        order = msgspec.structs.replace(sample_of(Play()).replay.order, mode=mode)
        return only(with_parts(Play(failed=30, new=20), order=order), "replay_new_errors").next

    assert "--order commit" in step("session")
    assert "--order" not in step("key")


def test_errors_that_moved_to_other_statements_are_a_note():
    errors = sample_of(Play(failed=10, new=10)).replay.errors
    moved = msgspec.structs.replace(
        errors,
        gone=10,
        captured=10,
        examples=[
            *errors.examples,
            msgspec.structs.replace(
                errors.examples[0], kind="gone", captured_sqlstate="40P01", sqlstate=""
            ),
        ],
    )
    summary = with_parts(Play(failed=10, new=10), errors=moved)
    assert only(summary, "replay_new_errors").severity == "note"


def test_a_server_that_was_lost_is_under_delivery_and_nobody_trusts_the_rate():
    summary = summary_of(Play(ended_at_share=0.6, end="server_lost"))
    found = only(summary, "replay_under_delivered")
    assert found.severity == "critical"
    assert found.evidence["not_reached_count"] == 4_704
    assert "7,056 of 12,000 statements were sent, 240 skipped, 4,704 not reached" in found.sentence
    assert summary.verdict.startswith(
        "Do not trust these numbers: the capture was not replayed fully"
    )


def test_an_empty_database_is_critical():
    summary = summary_of(Play(empty_writes=3_500))
    found = only(summary, "replay_wrong_database")
    assert found.severity == "critical"
    assert "97 % of 3,600" in found.sentence
    assert summary.verdict.startswith("Do not trust these numbers: the database is not")
    assert "replay_wrong_database" not in kinds_of(summary_of(Play(empty_writes=1_700)))


def test_rows_that_differ_are_a_note_a_warning_or_another_database():
    assert only(summary_of(Play(rows_different=9)), "replay_rows_differ").severity == "note"
    found = only(summary_of(Play(rows_different=40)), "replay_rows_differ")
    assert found.severity == "warning"
    assert "40 of 1,000 statements with captured row counts" in found.sentence
    assert "replay_wrong_database" in kinds_of(summary_of(Play(rows_different=600)))


def test_transactions_that_were_rolled_back_are_reported_by_their_number():
    found = only(summary_of(Play(rolled_back=5)), "replay_rolled_back")
    assert found.severity == "warning"
    assert "5 transactions of 1,200" in found.sentence
    assert only(summary_of(Play(rolled_back=50)), "replay_rolled_back").severity == "critical"
    # A COMMIT that was a rollback is reported once, not as a row that differs as well.
    assert "replay_rows_differ" not in kinds_of(summary_of(Play(rolled_back=5)))


def test_a_server_that_does_not_keep_the_pace_is_late_and_the_driver_s_part_is_apart():
    found = only(summary_of(Play(speed=5.0)), "replay_late")
    assert found.severity == "warning"
    assert "only 86 % of the requested speed" in found.sentence
    assert "were late because their session was still busy" in found.sentence
    assert "the driver's own lag was 340 µs at p99" in found.sentence
    assert found.evidence["late_by_driver_count"] > 0


def test_lateness_of_the_driver_is_its_own():
    lag = sample_of(Play(speed=1.0)).replay.lag
    late = msgspec.structs.replace(lag, within_1ms=lag.paced // 2, late_by_driver=lag.paced // 2,
                                   late_by_session=0)  # fmt: skip
    found = only(with_parts(Play(speed=1.0), lag=late), "replay_late")
    assert found.severity == "note"
    assert "caused by the driver, not by the server" in found.cause


@pytest.mark.parametrize(
    ("play", "words"),
    [
        (Play(core_share=0.85), "used up to 85 % of a core"),
        (Play(ceiling_per_s=1_100.0), "maximum (1,100 statements/s against a null server)"),
    ],
)
def test_a_client_at_its_limit_makes_the_rate_a_lower_bound(play, words):
    summary = summary_of(play)
    found = only(summary, "replay_client_bound")
    assert found.severity == "warning"
    assert words in found.sentence
    assert "client_limited" not in kinds_of(summary)  # its words are of transactions
    assert "replay_client_bound" not in kinds_of(summary_of(Play(core_share=0.69)))


def test_what_the_log_does_not_hold_is_reported_by_reason_and_what_was_requested_is_not():
    found = only(summary_of(Play(skipped={"cut_off": 600, "writes": 2_000})), "replay_skipped")
    assert found.severity == "warning"
    assert "600 texts or parameters truncated by the log, 240 COPY data" in found.sentence
    assert "writes_count" not in found.evidence


def test_an_order_that_was_broken_for_a_lock_is_a_note_and_for_patience_a_warning():
    lock = only(summary_of(Play(order="commit", released_by_lock=9)), "replay_order_released")
    assert lock.severity == "note"
    assert "9 because a backend waited for a lock" in lock.sentence
    patience = only(
        summary_of(Play(order="commit", released_by_patience=1)), "replay_order_released"
    )
    assert patience.severity == "warning"


def test_an_order_that_the_server_s_locks_changed_is_a_note():
    found = only(summary_of(Play(order="key", postponed=12)), "replay_order_changed")
    assert found.severity == "note"
    assert "12 statements of 11,760" in found.sentence
    assert "replay_order_changed" not in kinds_of(summary_of(Play(order="key")))


def test_cells_that_share_a_finding_are_one_and_rounds_are_reported_where_not_all_show_it():
    plays = [Play(target=name, alone=False, rolled_back=3) for name in ("hdd", "ssd", "nvme")]
    found = only(summary_of(*plays), "replay_rolled_back")
    assert found.sentence.startswith("3 of 3 tests: ")
    assert len(found.cells) == 3
    well = Play()
    samples = [sample_of(well, 0), sample_of(changed(well, rolled_back=2), 1)]
    one = only(summarise(run_of(before=MACHINE), samples), "replay_rolled_back")
    assert ", in 1 of 2 rounds: 2 transactions" in one.sentence


def test_the_made_up_replays_are_judged_as_they_were_made():
    assert judge(sample_of(Play()).replay).ok
    assert judge(sample_of(Play(speed=5.0)).replay).ok  # late, and nothing lost
    assert not judge(sample_of(Play(failed=3, new=3)).replay).ok


def mapped(**changes):
    """Ids of one column: 900 proved, 100 by pattern, but for these changes."""
    reported = {"column": "public.orders.id", "source": "public.orders_id_seq", "uses": 1_000,
            "proved": 900, "by_pattern": 100}  # fmt: skip
    return ReplayIds(mode="infer", classes=[ReplayIdClass(**reported | changes)])


def test_ids_that_were_all_mapped_or_not_requested_are_no_finding():
    for ids in (mapped(), mapped(not_generated=50), ReplayIds(mode="off"), None):
        assert replay_kinds(with_parts(Play(), ids=ids)) == {"replay_skipped"}
    left = msgspec.structs.replace(mapped(unresolved={"several_draws": 5}), mode="off")
    assert replay_kinds(with_parts(Play(), ids=left)) == {"replay_skipped"}


def test_ids_that_were_left_alone_are_reported_by_reason_with_the_first_of_them():
    few = mapped(unresolved={"several_draws": 6, "draw_failed": 2})
    example = ReplayIdExample(
        reason="several_draws", column="public.orders.id", value="4711",
        text="update orders set total = 17 where id = 4711", number=3, session="a.1", candidates=2,
    )  # fmt: skip
    found = only(
        with_parts(Play(), ids=msgspec.structs.replace(few, examples=[example])),
        "replay_ids_unresolved",
    )
    assert found.severity == "note"
    assert found.sentence.endswith(
        "1,000 of 1,008 IDs were mapped (900 proved, 100 by pattern), 8 unresolved (0.8 %): "
        "several inserts may have generated it (6); the statement that generated it failed in the "
        "replay (2). First example: public.orders.id 4711 in update orders set total = 17 where "
        "id = 4711."
    )
    assert found.evidence["draw_failed_count"] == 2
    many = only(with_parts(Play(), ids=mapped(unresolved={"random": 40})), "replay_ids_unresolved")
    assert many.severity == "warning"


def test_the_next_step_says_what_a_capture_on_the_wire_would_have_resolved():
    left = {"several_draws": 30, "spelling": 10}

    def next_step(**parts):
        ids = mapped(unresolved=left, **parts)
        return only(with_parts(Play(), ids=ids), "replay_ids_unresolved").next

    # Of 40 ids, 30 are not known for want of what was drawn; of 22, clients were given it.
    assert "it would have resolved 55 % of these IDs. If you use a log" in next_step(
        unresolved_given_back=22
    )
    none = next_step(unresolved_given_back=0)
    assert "Check the examples" in none
    assert "sql capture" not in none
    assert "would have resolved" not in next_step(draws=1_000, draws_given_back=750)
    assert "sql capture" not in next_step(unresolved_given_back=22, exact=100)
    both = msgspec.structs.replace(mapped(unresolved=left), tells_both_ends=True)
    found = only(with_parts(Play(), ids=both), "replay_ids_unresolved").next
    assert "sql capture" in found
    assert "log_duration" not in found


def test_values_that_may_be_ids_where_these_are_not_followed_are_reported():
    handed = msgspec.structs.replace(mapped(), not_followed={"function": 12, "unknown_table": 3})
    found = only(with_parts(Play(), ids=handed), "replay_ids_unresolved")
    assert found.severity == "note"
    assert found.sentence.endswith(
        "1,000 of 1,000 IDs were mapped (900 proved, 100 by pattern), 0 unresolved; 15 values that "
        "may be IDs were not mapped, because IDs are not tracked there: 12 in function arguments; "
        "3 in statements with tables that are not in the catalogue (temporary tables)."
    )
    assert found.evidence["not_followed_count"] == 15


def test_a_sequence_that_stands_elsewhere_is_another_moment():
    away = mapped(next_value_log=501, next_value_target=401, unresolved={"sequence_elsewhere": 30})
    found = only(with_parts(Play(), ids=away), "replay_sequence_mismatch")
    assert found.severity == "critical"
    assert (
        "the first value of public.orders_id_seq was 501 in the capture and 401 here; 30 IDs"
        in (found.sentence)
    )
    assert "older than the start of the log" in found.cause
    alike = with_parts(Play(), ids=mapped(next_value_log=501, next_value_target=501))
    assert "replay_sequence_mismatch" not in kinds_of(alike)
    unknown = with_parts(Play(), ids=mapped(next_value_log=None, next_value_target=401))
    assert "replay_sequence_mismatch" not in kinds_of(unknown)


def test_rows_that_differ_are_reported_by_class_where_that_is_known():
    rows = sample_of(Play(rows_different=40)).replay.rows
    by_class = {
        "select": ReplayClassRows(compared=900, expected_rows=9, observed_rows=8, different=3),
        "update": ReplayClassRows(compared=100, expected_rows=100, observed_rows=63, different=37),
    }
    reported = msgspec.structs.replace(rows, by_class=by_class)
    found = only(with_parts(Play(rows_different=40), rows=reported), "replay_rows_differ")
    assert "37 of them update: 100 rows expected, 63 observed" in found.sentence
    assert found.evidence["update_different_count"] == 37


def test_rows_of_copies_without_data_are_missing_in_any_order():
    summary = summary_of(Play(rows_different=40))
    found = only(summary, "replay_rows_differ")
    assert found.next.startswith("240 COPYs were skipped")
    assert "--order" not in found.next
    classes = dict(sample_of(Play(rows_different=40)).replay.classes)
    del classes["copy"]
    found = only(with_parts(Play(rows_different=40), classes=classes), "replay_rows_differ")
    assert "--order key" in found.next
