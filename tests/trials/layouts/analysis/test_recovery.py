"""What a failure costs: phases, dip, rebuild, window without redundancy, errors, lost data."""

import msgspec
import numpy as np
import pytest

from seatrial.fingerprint import Device, Target
from seatrial.results.model import DatabaseRecord
from seatrial.trials.layouts.analysis.figures import recovery_phrase, worst_recovery
from seatrial.trials.layouts.analysis.model import layouts_of
from seatrial.trials.layouts.analysis.recovery import (
    limit_tables,
    missing_max,
    recovery_of,
    spans_of,
)
from seatrial.trials.layouts.report.section import layout_columns
from seatrial.trials.layouts.report.tables import rebuild_text, unprotected_text
from seatrial.units import MIB
from stats.builders import stall_of
from stats.timed import noisy_counts

from .hand import (
    cell_of,
    event,
    finding_of,
    kinds,
    of_run,
    record_of,
    sample_of,
    spec_of,
    summary_of,
)

FAIL = [{"deed": "fail", "after_s": 3.0}]
SPEC = spec_of("raid5", 3, spares=1)
REBUILT = (event(3.0, "failed"), event(3.2, "rebuild_started"), event(6.0, "rebuild_ended"))


def counts(before=100, rebuild=40, after=100, *, spread=0.0, seed=1):
    """Completions of 90 slices of 100 ms: a failure after 3 s, a rebuild until 6 s."""
    levels = [before] * 30 + [rebuild] * 30 + [after] * 30
    if not spread:
        return levels
    noise = np.random.default_rng(seed).standard_normal(90)
    return np.rint(np.array(levels) * np.exp(spread * noise)).astype(int)


def broken(number=0, events=REBUILT, *, spec=SPEC, cell=None, **rest):
    cell = cell or cell_of(spec, fail=FAIL)
    given = rest.pop("counts", None)
    values = counts(spread=0.05, seed=number) if given is None else given
    return sample_of(spec, cell, counts=values, events=events, round=number, **rest)


def test_phases_follow_the_events():
    spans = [(span.phase, span.from_s, span.to_s) for span in spans_of(broken())]
    assert spans == [
        ("before", 0.0, 3.0),
        ("degraded", 3.0, 3.2),
        ("rebuild", 3.2, 6.0),
        ("after", 6.0, 9.0),
    ]


def test_a_second_failure_breaks_off_the_rebuild_and_the_next_one_ends_both():
    events = [
        *(event(2.0, "failed"), event(2.2, "rebuild_started"), event(4.0, "failed")),
        *(event(5.0, "rebuild_ended"), event(5.0, "rebuild_started"), event(7.0, "rebuild_ended")),
    ]
    sample = broken(events=events)
    assert missing_max(sample) == 2
    assert [span.phase for span in spans_of(sample)][-1] == "after"
    assert next(span.phase for span in spans_of(sample) if span.from_s >= 5.0) == "rebuild"


def test_time_with_faults_before_a_failure_is_not_after_it():
    events = [event(1.0, "bad_sectors"), *REBUILT]
    phases = [span.phase for span in spans_of(broken(events=events))]
    assert phases == ["before", "faulty", "degraded", "rebuild", "after"]
    found = recovery_of(summary_of(broken(events=events, counts=counts(after=50))))
    assert found.phase("after").share.value == pytest.approx(0.5)
    remaining = spans_of(broken(events=[event(1.0, "faltering")]))
    assert [span.phase for span in remaining] == ["before", "faulty"]


def window_columns(summary):
    """The exported time without redundancy, and whether it had not ended."""
    (columns,) = layout_columns(summary).values()
    return columns["failure_window_s"], columns["failure_window_is_open"]


def test_shares_times_and_rates_have_intervals_over_rounds():
    array = Target(stack=[Device(name="md0", size_bytes=600 * MIB)])
    summary = summary_of(*(broken(number) for number in range(5)))
    found = recovery_of(summary, array)
    rebuild, after = found.phase("rebuild"), found.phase("after")
    assert rebuild.share.value == pytest.approx(0.4, abs=0.01)
    assert rebuild.share.low < 0.4 < rebuild.share.high
    assert after.share.value == pytest.approx(1.0, abs=0.02)
    assert found.rebuild_time.value == pytest.approx(2.8e9)
    assert found.rebuild_rate.value == pytest.approx(300 * MIB / 2.8), "of the array's device"
    assert recovery_of(summary).rebuild_rate is None, "its file system is smaller"
    assert found.window.value == pytest.approx(3.0e9)
    assert found.window_open_s is None
    assert found.exposed
    assert 0.3 < found.lowest_share < 0.4
    assert found.lowest_share_before > 0.9
    assert found.faults == ["drive /dev/d1 failed after 3.0 s"]


def test_one_round_has_the_interval_of_its_slices_and_says_so():
    share = recovery_of(summary_of(broken())).phase("rebuild").share
    assert share.over == "timeline"
    assert share.low < 0.4 < share.high


def test_noise_that_remembers_makes_no_dip_of_nothing():
    """A/A: in samples in which the failure costs nothing a dip is hardly ever reported."""
    false = 0
    for number in range(40):
        own = [
            broken(n, counts=noisy_counts(90, correlation=0.5, spread=0.1, seed=50 * number + n))
            for n in range(3)
        ]
        false += "rebuild_dips" in kinds(of_run(*own))
    assert false <= 2


def test_a_rebuild_under_way_at_the_end_is_open():
    events = REBUILT[:2]
    run = of_run(broken(events=events, shares=[None] * 16 + [0.1, 0.2, 0.43]))
    (found,) = layouts_of(run).recoveries
    assert found.rebuild_time is None
    assert (found.unfinished_count, found.unfinished_share) == (1, 0.43)
    assert found.window_open_s == pytest.approx(6.0)
    assert "43 % complete" in finding_of(run, "rebuild_unfinished").sentence
    assert "more than 6.0 s" in finding_of(run, "redundancy_window").sentence


def test_rebuilds_of_other_rounds_that_did_not_end_are_reported_with_the_time_of_those_that_did():
    run = of_run(broken(), broken(1, REBUILT[:2]), broken(2, REBUILT[:2]))
    (found,) = layouts_of(run).recoveries
    assert rebuild_text(found) == "2.8 s (1 round), 2 of 3 unfinished"
    assert "did not finish 2 of 3 rebuilds" in recovery_phrase(found)
    assert unprotected_text(found) == "more than 6.0 s"
    assert window_columns(run) == (pytest.approx(6.0), True)


def test_a_rebuild_that_outlives_the_load_says_so():
    events = (*REBUILT[:2], event(20.0, "rebuild_ended"))
    found = recovery_of(summary_of(broken(events=events)))
    assert found.after_load_count == 1
    assert found.window.value == pytest.approx(17e9)
    assert found.phase("after") is None


def test_raid6_keeps_redundancy_with_one_drive_gone():
    spec = spec_of("raid6", 5, spares=1)
    run = of_run(broken(spec=spec))
    assert not layouts_of(run).recoveries[0].exposed
    assert window_columns(run) == (0.0, False)
    assert "redundancy_window" not in kinds(run)
    unfinished = finding_of(of_run(broken(spec=spec, events=REBUILT[:2])), "rebuild_unfinished")
    assert "without redundancy" not in unfinished.sentence


def test_raid6_is_without_redundancy_only_while_two_drives_are_gone():
    """Two drives fail and one spare replaces one of them: one loss is survived again, not two."""
    spec = spec_of("raid6", 5, spares=1)
    events = [
        *(event(2.0, "failed"), event(3.0, "failed"), event(3.2, "rebuild_started", missing=2)),
        event(6.0, "rebuild_ended", missing=1),
    ]
    run = of_run(broken(spec=spec, events=events))
    (found,) = layouts_of(run).recoveries
    assert found.exposed
    assert found.window.value == pytest.approx(3e9)
    assert spans_of(broken(spec=spec, events=events))[-1].phase == "degraded"
    shown = finding_of(run, "redundancy_window").sentence
    assert "one more failure among the 3 other drives" in shown


def test_a_dip_shorter_than_a_second_is_in_the_slowest_second():
    levels = [100] * 30 + [10] * 4 + [100] * 56
    events = (*REBUILT[:1], event(3.1, "rebuild_started"), event(3.4, "rebuild_ended"))
    found = recovery_of(summary_of(broken(counts=levels, events=events)))
    assert found.lowest_share == pytest.approx((4 * 10 + 6 * 100) / 1000)
    assert found.lowest_share_before == pytest.approx(1.0)


def test_what_is_at_stake_is_reported_with_a_scale_of_chance():
    found = finding_of(of_run(*(broken(number) for number in range(3))), "redundancy_window")
    assert "would have destroyed all 512 MiB" in found.sentence
    assert "2 other drives" in found.sentence
    assert found.evidence["second_failure_chance"] == pytest.approx(2 * 0.01 * 3 / 31_557_600)


def test_the_dip_is_reported_with_its_doubt():
    found = finding_of(of_run(*(broken(number) for number in range(5))), "rebuild_dips")
    assert found.severity == "warning"
    assert "of its rate during the rebuild" in found.sentence
    assert "reached 0.403x (± 2 %) of its rate" in found.sentence


@pytest.mark.parametrize(
    ("level", "drives", "cause"),
    [("raid5", 4, "a read from every"), ("raid10", 4, "other copies"), ("raid0", 3, "fail")],
)
def test_why_an_array_without_a_drive_is_slower_depends_on_its_level(level, drives, cause):
    spec = spec_of(level, drives)
    own = [broken(n, [event(3.0, "failed")], spec=spec, counts=counts()) for n in range(3)]
    assert cause in finding_of(of_run(*own), "rebuild_dips").cause


@pytest.mark.parametrize(
    ("level", "events", "cause"),
    [
        ("raid0", [event(3.0, "bad_sectors")], "no copies or parity"),
        ("raid5", [event(3.0, "bad_sectors")], "more drives than the level tolerates"),
        ("raid5", REBUILT, "While a drive was missing"),
    ],
)
def test_why_data_were_unreadable_follows_from_level_and_events(level, events, cause):
    spec = spec_of(level, 3)
    record = record_of(spec, events=events, unreadable_bytes=8192, checked_bytes=24 * MIB)
    assert cause in finding_of(of_run(broken(spec=spec, record=record)), "data_lost").cause


def test_nothing_lost_is_nothing_reported():
    run = of_run(broken(checked=1000, record=record_of(SPEC, events=REBUILT, unreadable_bytes=0)))
    assert not {"data_lost", "corruption", "array_failed", "errors"} & set(kinds(run))
    assert "lost no data" in run.verdict


def test_what_was_lost_is_reported_exactly():
    known = {"unreadable_bytes": 12_288, "checked_bytes": 24 * MIB, "wrong_bytes": 8192}
    record = record_of(SPEC, events=REBUILT, **known)
    run = of_run(broken(record=record, checked=8192, corrupt=5, failed=3))
    found = finding_of(run, "data_lost")
    assert found.severity == "critical"
    assert "lost 12 KiB (unreadable) and 8 KiB (corrupt)" in found.sentence
    assert "of 24 MiB verified, and returned corrupt data to 3 reads, after" in found.sentence
    assert "(btrfs, ZFS)" in found.next
    assert found.evidence["wrong_reads_count"] == 3
    assert "corruption" not in kinds(run)
    assert finding_of(run, "errors").severity == "warning"
    assert "lost 12 KiB" in run.verdict


def test_wrong_data_that_were_right_again_in_the_end_are_reported():
    record = record_of(SPEC, events=REBUILT, checked_bytes=MIB, wrong_bytes=0)
    run = of_run(broken(record=record, checked=8192, corrupt=2))
    assert finding_of(run, "data_lost").sentence.count("returned corrupt data to 2 reads") == 1
    assert "lost no data" not in run.verdict


def test_the_verdict_reports_first_of_what_lost_data():
    """Three cells broke something; two are named in the verdict, and the last one lost data."""
    known = {"events": REBUILT, "checked_bytes": MIB, "unreadable_bytes": 0}
    samples = []
    for size_bytes in (4096, 8192, 16_384):
        cell = cell_of(SPEC, block_size_bytes=size_bytes, fail=FAIL)
        wrong_bytes = 8192 if size_bytes == 16_384 else 0
        record = record_of(SPEC, wrong_bytes=wrong_bytes, **known)
        samples.append(broken(cell=cell, record=record, checked=256, corrupt=wrong_bytes // 4096))
    assert "lost 8 KiB (corrupt)" in of_run(*samples).verdict


def test_a_file_system_with_checksums_is_not_advised_to_itself():
    spec = spec_of("raid5", 3, backend="btrfs")
    record = record_of(spec, events=REBUILT, checked_bytes=MIB, wrong_bytes=8192)
    run = of_run(broken(spec=spec, record=record, checked=256, corrupt=2))
    assert "(btrfs, ZFS)" not in finding_of(run, "data_lost").next


def test_the_worst_loss_is_the_headline():
    """The first one lost little; the array of the second one failed with all its data."""
    little = record_of(SPEC, events=REBUILT, checked_bytes=MIB, wrong_bytes=8192)
    stripe = spec_of("raid0", 3)
    events = [event(3.0, "failed"), event(3.1, "array_failed")]
    whole = record_of(stripe, events=events, unreadable_bytes=MIB, wrong_bytes=0)
    run = of_run(broken(record=little, checked=256, corrupt=2), broken(spec=stripe, record=whole))
    found = layouts_of(run).recoveries
    assert worst_recovery(found).startswith("after a drive failure, raid0-3 lost 1 MiB")
    calm = of_run(broken(), broken(spec=spec_of("raid6", 4), counts=counts(rebuild=20)))
    assert "raid6-4 was not checked" in worst_recovery(layouts_of(calm).recoveries)


@pytest.mark.parametrize("holds", [1.0, 0.0])
def test_a_database_whose_sums_differ_has_lost_something(holds):
    database = DatabaseRecord(
        server="x", binaries="given", start_state="cold", reported={"invariant_holds": holds}
    )
    samples = [msgspec.structs.replace(broken(n), database=database) for n in range(2)]
    run = of_run(*samples)
    assert layouts_of(run).recoveries[0].sums_differ_count == (0 if holds else 2)
    assert ("data_lost" in kinds(run)) == (not holds)
    if holds:
        assert "preserved the sums of its database" in run.verdict
    else:
        shown = finding_of(run, "data_lost")
        assert (
            "lost parts of transactions in 2 rounds, of those in pgbench's tables" in shown.sentence
        )
        assert "have their old content" in shown.cause


def test_an_array_that_failed_is_reported():
    spec = spec_of("raid0", 3)
    run = of_run(broken(spec=spec, events=[event(3.0, "failed"), event(3.1, "array_failed")]))
    found = finding_of(run, "array_failed")
    assert "tolerates no drive failure" in found.cause


def test_an_array_that_takes_no_more_writes_is_not_reported_to_have_lost_what_was_read():
    """As md's raid10, which does not let the drive go that holds the only copy."""
    spec = spec_of("raid10", 4, spares=1)
    refused = msgspec.structs.replace(event(3.1, "fault_failed"), detail="fail: it is busy")
    events = [event(3.0, "failed"), refused, event(3.2, "array_failed")]
    record = record_of(
        spec, events=events, checked_bytes=24 * MIB, wrong_bytes=0, unreadable_bytes=0
    )
    found = finding_of(of_run(broken(spec=spec, record=record, checked=6144)), "array_failed")
    assert "rejects writes, but all 24 MiB of the trial file were still readable" in found.sentence
    assert "are gone" not in found.sentence
    assert "only copy" in found.cause


@pytest.mark.parametrize(
    ("backend", "level", "deed"),
    [("btrfs", "raid0", "replace"), ("btrfs", "raid5", "fail"), ("md", "raid5", "replace")],
)
def test_a_refusal_that_is_not_of_md_to_fail_a_drive_is_no_cause(backend, level, deed):
    refused = msgspec.structs.replace(event(4.0, "fault_failed"), detail=f"{deed}: read-only")
    events = [event(3.0, "failed"), event(3.1, "array_failed"), refused]
    run = of_run(broken(spec=spec_of(level, 3, backend=backend), events=events))
    assert "tolerates" in finding_of(run, "array_failed").cause


@pytest.mark.parametrize(
    ("what", "severity"), [("rotten", "note"), ("faltering", "note"), ("scrub_ended", "critical")]
)
def test_a_scrub_that_finds_anything(what, severity):
    events = [event(1.0, what), event(3.0, "scrub_started"), event(6.0, "scrub_ended")]
    record = record_of(SPEC, events=events, mismatch_blocks=8)
    run = of_run(broken(record=record))
    found = finding_of(run, "scrub_mismatch")
    assert found.severity == severity
    assert "4 KiB in" in found.sentence
    assert layouts_of(run).recoveries[0].phase("scrub").share.value == pytest.approx(0.4, abs=0.02)


def test_the_price_of_each_limit_is_a_table():
    found = []
    for limit, rebuild, until_s in ((1000, 90, 8.5), (0, 20, 4.0)):
        cell = cell_of(SPEC, fail=FAIL, factors={"rebuild_limit_kib_per_s": limit})
        events = (*REBUILT[:2], event(until_s, "rebuild_ended"))
        record = record_of(SPEC, events=events, rebuild_limit_kib_per_s=limit)
        levels = [100] * 30 + [rebuild] * int((until_s - 3) * 10)
        levels += [100] * (90 - len(levels))
        found.append(recovery_of(summary_of(broken(cell=cell, record=record, counts=levels))))
    (table,) = limit_tables(found)
    assert [row.limit_kib_per_s for row in table.rows] == [1000, None]
    assert [round(row.share.value, 2) for row in table.rows] == [0.9, 0.2]
    assert table.rows[0].rebuild_time.value > table.rows[1].rebuild_time.value
    never = {"rebuild_time": None, "unfinished_count": 0}
    assert limit_tables([msgspec.structs.replace(each, **never) for each in found]) == []


def test_what_a_failure_does_is_no_fault_to_other_findings():
    """A stall, a fall, errors and unequal rounds at a failure are the failure's."""
    stalls = [stall_of(2.0, start_s=3.0)]
    samples = [
        broken(number, counts=counts(rebuild=20 + 30 * number, after=60), stalls=stalls)
        for number in range(3)
    ]
    run = of_run(*samples)
    assert layouts_of(run).recoveries[0].longest_stall_s == pytest.approx(2.0)
    assert set(kinds(run)) <= {"rebuild_dips", "redundancy_window"}
    assert not run.steady
    assert run.cells[0].running_from_s == 0


def test_the_same_without_a_failure_would_be_reported():
    spec = spec_of("raid5", 3)
    stalls = [stall_of(2.0, start_s=3.0)]
    samples = [
        sample_of(spec, counts=counts(rebuild=20 + 30 * n, after=60), round=n, stalls=stalls)
        for n in range(3)
    ]
    assert "stall" in kinds(of_run(*samples))


def test_kernel_messages_are_notes_where_drives_were_made_to_fail():
    after = {"kernel_log": {"by_kind": {"io_error": 3}, "lines": []}}
    from seatrial.findings.summary import summarise
    from stats.builders import run_of

    meant = summarise(run_of(after=after), [broken()])
    assert finding_of(meant, "kernel_errors").severity == "note"
    sound = summarise(run_of(after=after), [sample_of(SPEC)])
    assert finding_of(sound, "kernel_errors").severity == "critical"
