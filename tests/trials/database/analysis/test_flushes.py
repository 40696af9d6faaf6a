"""Commits that no medium can have kept: by its turns, by the flushes it saw, by what they cost."""

import pytest

from stats.builders import MS_NS, cell_of, sample_of

from .hand import cell_of as database_cell_of
from .hand import kinds_of, only, record_of, summarised
from .hand import sample_of as database_sample_of

US_NS = 1_000


def stack_of(**changes):
    device = {"name": "sda", "kind": "disk", "rotational": False, "write_cache": "write back"}
    return {"machine": {"virtualisation": None}, "target": {"stack": [device | changes]}}


HARD_DISK = stack_of(rotational=True)
FLASH = stack_of()


def commits(per_s, *, flushes=None, threads=1, took_ns=None, rounds=3, **spec):
    cell = cell_of(
        workload="commit-truth", kind="commit", operation="commit", threads=threads, **spec
    )
    counters = {} if flushes is None else {"device_flushes": float(flushes)}
    return [
        sample_of(
            cell,
            completed=per_s + number,
            latency_ns=took_ns or round(1e9 / per_s),
            round=number,
            counters=counters,
        )
        for number in range(rounds)
    ]


def writes(took_ns, **changes):
    changes = {"address": "sequential", "workload": "write-without-flush"} | changes
    cell = cell_of(operation="write", kind="io", **changes)
    return [sample_of(cell, completed=1000, latency_ns=took_ns, round=n) for n in range(3)]


def kinds(*samples, before):
    return kinds_of(summarised(*samples, before=before))


def test_a_hard_disk_faster_than_it_turns_lies():
    found = only(summarised(*commits(4100), before=HARD_DISK), "flushes_not_durable")
    assert found.severity == "critical"
    assert "but a disk rotates at most 250 times per second" in found.sentence
    assert "A volatile write cache acknowledges flushes: a power cut loses commits." in (
        found.sentence
    )
    assert "power-loss protection" in found.cause


def test_a_virtual_disk_may_only_say_that_it_rotates():
    before = HARD_DISK | {"machine": {"virtualisation": "kvm"}}
    found = only(summarised(*commits(4100), before=before), "flushes_not_durable")
    assert found.severity == "warning"
    assert "virtual and only reports that it rotates" in found.cause


def test_a_hard_disk_at_its_own_pace_does_not():
    assert "flushes_not_durable" not in kinds(*commits(120), before=HARD_DISK)
    assert "flushes_not_durable" not in kinds(*commits(490), before=HARD_DISK)


def test_several_sessions_share_a_flush_and_prove_nothing():
    many = commits(4100, threads=16, flushes=300)
    assert "flushes_not_durable" not in kinds(*many, before=HARD_DISK)


def test_commits_that_sent_no_flush_to_a_volatile_cache():
    found = only(summarised(*commits(2000, flushes=10), before=FLASH), "flushes_not_durable")
    assert found.severity == "critical"
    assert "only 0.5 % of the commits" in found.sentence
    assert "sent a flush to the device, whose write cache is volatile" in found.sentence


@pytest.mark.parametrize("flushes", [2000, 4000, None], ids=str)
def test_commits_that_sent_theirs_did(flushes):
    assert "flushes_not_durable" not in kinds(*commits(2000, flushes=flushes), before=FLASH)


def test_writes_that_force_the_medium_by_themselves_need_no_flush():
    assert "flushes_not_durable" not in kinds(*commits(2000, flushes=0, dsync=True), before=FLASH)


def test_a_cache_that_is_not_volatile_needs_no_flush():
    before = stack_of(write_cache="write through")
    assert "flushes_not_durable" not in kinds(*commits(2000, flushes=0), before=before)


def test_a_flush_that_adds_nothing_to_a_write():
    samples = [*commits(20_000, flushes=20_003, took_ns=50 * US_NS), *writes(40 * US_NS)]
    found = only(summarised(*samples, before=FLASH), "flushes_not_durable")
    assert found.severity == "warning"
    assert "a commit takes 1.25 times as long" in found.sentence
    assert found.cells == [samples[0].cell.identity()]


def test_a_flush_that_takes_its_time():
    samples = [*commits(1000, flushes=1003, took_ns=MS_NS), *writes(40 * US_NS)]
    assert "flushes_not_durable" not in kinds(*samples, before=FLASH)


@pytest.mark.parametrize(
    "other",
    [{"address": "random"}, {"block_size_bytes": 4096}, {"direct": False}, {"sync_every": 1}],
    ids=str,
)
def test_other_writes_are_no_measure_of_a_flush(other):
    samples = [*commits(20_000, took_ns=50 * US_NS), *writes(40 * US_NS, **other)]
    assert "flushes_not_durable" not in kinds(*samples, before=FLASH)


def test_a_database_whose_syncs_do_not_reach_the_device():
    counters = {"wal_syncs": 5000.0, "device_flushes": 20.0}
    sample = database_sample_of(counters=counters)
    assert only(summarised(sample, before=FLASH), "flushes_not_durable").severity == "critical"
    honest = database_sample_of(counters=counters | {"device_flushes": 5100.0})
    assert "flushes_not_durable" not in kinds(honest, before=FLASH)


def test_a_database_that_does_not_sync_has_its_own_finding():
    counters = {"wal_syncs": 5000.0, "device_flushes": 20.0}
    record = record_of(settings={"fsync": "off"})
    sample = database_sample_of(database_cell_of(), counters=counters, record=record)
    found = kinds(sample, before=FLASH)
    assert "flushes_not_durable" not in found
    assert "durability_off" in found


def test_nothing_is_known_of_a_foreign_result():
    assert "flushes_not_durable" not in kinds(*commits(4100), before={})
