"""Device I/Os for each operation: counted, by round, with the rule."""

import msgspec
import pytest

from seatrial.trials.layouts.analysis.accounting import accounting_of

from .hand import (
    cell_of,
    drives_of,
    event,
    finding_of,
    kinds,
    of_run,
    record_of,
    sample_of,
    spec_of,
    summary_of,
    work_of,
)

OPERATIONS = 600  # of a sample of hand.py: 30 slices of 20


def written(spec, reads=2.0, writes=2.02, *, slow=None, **rest):
    """Members that did so many reads and writes for each of the operations, evenly shared."""
    legs = [drive for drive, role in drives_of(spec).items() if role.startswith("leg")]
    return {
        drive: work_of(
            round(reads * OPERATIONS / len(legs)),
            round(writes * OPERATIONS / len(legs)),
            busy_ns=(3 if drive == slow else 1) * 1e8,
            **rest,
        )
        for drive in legs
    } | {drive: work_of() for drive in drives_of(spec) if drive not in legs}


def test_ios_are_counted_for_each_write_with_an_interval_over_rounds():
    spec = spec_of("raid5", 4, spares=1)
    found = accounting_of(
        summary_of(
            *(
                sample_of(spec, members=written(spec, writes=w), round=n)
                for n, w in enumerate((2.0, 2.02, 2.04))
            )
        )
    )
    assert found.reads.value == pytest.approx(2.0)
    assert found.writes.value == pytest.approx(2.02, abs=0.005)
    assert found.writes.low < 2.02 < found.writes.high
    assert found.write_bytes.value == pytest.approx(2.02, abs=0.005)
    assert (found.rule.reads, found.rule.writes) == (2.0, 2.0)
    assert found.rule.words == "min(n-2, 2) + 2"
    assert [member.role for member in found.members] == ["leg 1"] * 4 + ["spare of leg 1"]
    assert found.members[0].bytes_ratio.value == pytest.approx(1.0)


def test_syncs_are_part_of_writes():
    spec = spec_of("raid1", 2)
    cell = cell_of(spec)
    cell = msgspec.structs.replace(cell, spec=cell.spec | {"sync_every": 1})
    sample = sample_of(spec, cell, members=written(spec))
    operations = sample.operations | {"sync": sample.operations["write"]}
    outcome = msgspec.structs.replace(sample.outcome, completed=2 * OPERATIONS)
    synced = msgspec.structs.replace(sample, operations=operations, outcome=outcome)
    assert accounting_of(summary_of(synced)).writes.value == pytest.approx(2.02, abs=0.005)


def test_a_cell_that_breaks_something_is_not_counted():
    spec = spec_of()
    events = [event(1.0, "failed"), event(1.2, "rebuild_started"), event(2.0, "rebuild_ended")]
    assert accounting_of(summary_of(sample_of(spec, members=written(spec), events=events))) is None


def test_reads_without_a_drive_are_counted_by_the_share_that_met_it():
    spec = spec_of("raid5", 4)
    cell = cell_of(spec, operation="read")
    members = written(spec, reads=1.25, writes=0)
    sample = sample_of(spec, cell, members=members, events=[event(1.5, "failed")])
    found = accounting_of(summary_of(sample))
    assert found.degraded_share == pytest.approx(0.5)
    assert found.rule.reads == pytest.approx(1 + 0.5 * 0.5)
    slow = [
        msgspec.structs.replace(each, completed=each.completed // 2)
        if (each.index + 0.5) * sample.timeline.slice_ns >= 1.5e9
        else each
        for each in sample.timeline.slices
    ]
    timeline = msgspec.structs.replace(sample.timeline, slices=slow)
    slower = msgspec.structs.replace(sample, timeline=timeline)
    found = accounting_of(summary_of(slower))
    assert found.degraded_share == pytest.approx(1 / 3, abs=0.01), "of requests, not of time"


def test_a_leg_is_counted_by_its_own_drives():
    spec = spec_of("raid5", 3, legs=2, expose="legs")
    members = {drive: work_of(100, 100) for drive in drives_of(spec)}
    cell = cell_of(spec, target=f"{spec.label}-leg2")
    found = accounting_of(summary_of(sample_of(spec, cell, members=members)))
    assert {member.role for member in found.members} == {"leg 2"}
    assert found.variant.drives == 3


def test_sequences_mixtures_and_the_page_cache_have_no_rule():
    spec = spec_of()
    for changes in ({"address": "sequential"}, {"operation": "mixed"}, {"direct": False}):
        found = accounting_of(
            summary_of(sample_of(spec, cell_of(spec, **changes), members=written(spec)))
        )
        assert found.rule is None
        assert found.reads.value > 0


def test_writes_above_the_rule_are_reported_and_those_a_little_above_are_not():
    spec = spec_of()
    usual = [sample_of(spec, members=written(spec, 2.0, 2.05), round=n) for n in range(3)]
    assert "write_amplified" not in kinds(of_run(*usual))
    extra = [sample_of(spec, members=written(spec, 2.0, 2.9 + n / 50), round=n) for n in range(3)]
    found = finding_of(of_run(*extra), "write_amplified")
    assert "2.00 and 2.00 (min(n-2, 2) + 2)" in found.sentence
    assert "bitmap" not in found.cause  # md arrays are built without one
    assert "filesystem" in found.next
    reads = [sample_of(spec, members=written(spec, 3.0 + n / 50, 2.0), round=n) for n in range(3)]
    assert "There are too many reads" in finding_of(of_run(*reads), "write_amplified").cause


def test_volumes_of_lvm_have_a_bitmap_and_bare_ones_no_journal():
    spec = spec_of("raid5", 4, backend="lvm", filesystem="none")
    extra = [sample_of(spec, members=written(spec, 2.0, 2.9 + n / 50), round=n) for n in range(3)]
    found = finding_of(of_run(*extra), "write_amplified")
    assert "bitmap" in found.cause
    assert "journal" not in found.cause
    assert "filesystem" not in found.next


def test_the_rule_of_a_level_is_not_that_of_a_cache_in_front_of_it():
    spec = spec_of("raid5", 4, cache="dm-cache", caches=1)
    sample = sample_of(spec, members=written(spec, writes=3.5))
    assert accounting_of(summary_of(sample)).rule is None


def test_a_slow_member_is_found_by_its_busy_time_and_equal_ones_are_not():
    spec = spec_of()
    equal = [sample_of(spec, members=written(spec), round=n) for n in range(3)]
    assert "mixed_members" not in kinds(of_run(*equal))
    slow = [sample_of(spec, members=written(spec, slow="/dev/d2"), round=n) for n in range(3)]
    found = finding_of(of_run(*slow), "mixed_members")
    assert found.evidence["drive"] == "/dev/d2"
    assert found.evidence["busy_ratio"] == pytest.approx(3.0), "over the other members"


@pytest.mark.parametrize(
    ("busy_ticks", "slow"),
    [((2, 0, 3, 0), None), ((0, 0, 102, 0), "/dev/d2"), ((7, 7, 206, 1), "/dev/d2")],
)
def test_clock_ticks_make_no_member_slow_and_idle_peers_hide_none(busy_ticks, slow):
    spec = spec_of("raid10", 4)
    members = {
        f"/dev/d{number}": work_of(writes=600 if ticks or slow else 0, busy_ns=ticks * 10e6)
        for number, ticks in enumerate(busy_ticks)
    }
    run = of_run(*(sample_of(spec, members=members, round=n) for n in range(3)))
    found = [each.evidence["drive"] for each in run.findings if each.kind == "mixed_members"]
    assert found == ([slow] if slow else [])


def test_drives_of_two_models_are_reported():
    spec = spec_of()
    stack = [
        {
            "name": f"d{number}",
            "model": "A" if number else "B",
            "size_bytes": 1 << 30,
            "children": [],
        }
        for number in range(4)
    ]
    before = {"other_targets": {spec.label: {"stack": stack}}, "target": None}
    found = finding_of(
        of_run(sample_of(spec, members=written(spec)), before=before), "mixed_members"
    )
    assert "A of 1 GiB, B of 1 GiB" in found.sentence


def test_what_is_misaligned_is_reported_once_for_each_reason():
    spec = spec_of()
    record = record_of(spec, misaligned=["The file system does not know the stripe."])
    run = of_run(*(sample_of(spec, record=record, round=n) for n in range(2)))
    assert "does not know the stripe" in finding_of(run, "misaligned").sentence
