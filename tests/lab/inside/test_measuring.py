"""Arrays of the kernel's md measured, broken and mended: the same as on hardware, but for speed."""

from __future__ import annotations

import pytest

from seatrial.results.model import Sample
from seatrial.units import MIB
from trials.layouts.measure.trial import at_s, measured, whats

HEAD = """
    name = "lab"
    rounds = {{ min = 1, max = 1 }}
    [drives]
    devices = [{devices}]
"""
COUNTS = """
    [[layout]]
    name = "raid5"
    level = "raid5"
    drives = 3
    filesystem = "none"
    initial_sync = false
    size = "96MiB"
    [[layout]]
    name = "raid6"
    level = "raid6"
    drives = 4
    filesystem = "none"
    initial_sync = false
    size = "96MiB"
    [[workload]]
    kind = "io"
    operations = "write"
    block_sizes = "4KiB"
    seconds = 0.7
"""
RAID5 = """
    [[layout]]
    name = "raid5"
    level = "raid5"
    drives = 3
    spares = 1
    filesystem = "ext4"
    member_size = "64MiB"
    size = "48MiB"
    [[workload]]
    name = "through-a-failure"
    kind = "io"
    operations = "mixed"
    block_sizes = "8KiB"
    data = "verifiable"
    verify = true
    threads = 2
    seconds = 3
    fail = { after_s = 1, member = 2 }
    rebuild_limit_kib_per_s = 16384
"""
WORN = """
    [[layout]]
    name = "worn"
    level = "raid5"
    drives = 3
    spares = 1
    filesystem = "ext4"
    member_size = "64MiB"
    size = "48MiB"
    flaky = true
    [[workload]]
    name = "bad"
    kind = "io"
    operations = "read"
    block_sizes = "8KiB"
    data = "verifiable"
    verify = true
    seconds = 3
    fail = [{ after_s = 0.5, fault = "bad_sectors", member = 1, sectors = 12 },
            { after_s = 1, member = 2 }]
    [[workload]]
    name = "rot"
    kind = "io"
    operations = "read"
    block_sizes = "8KiB"
    data = "verifiable"
    verify = true
    seconds = 3
    fail = [{ after_s = 0.5, fault = "rot" }, { after_s = 1, fault = "scrub" }]
"""
LOST = """
    [[layout]]
    name = "lost"
    level = "raid5"
    drives = 3
    filesystem = "ext4"
    member_size = "64MiB"
    size = "48MiB"
    [[workload]]
    kind = "io"
    operations = "mixed"
    block_sizes = "8KiB"
    data = "verifiable"
    verify = true
    seconds = 2.5
    fail = [{ after_s = 0.5, member = 1 }, { after_s = 1, member = 2 }]
"""
FLAKY = """
    [[layout]]
    name = "flaky"
    level = "raid5"
    drives = 3
    spares = 1
    filesystem = "ext4"
    member_size = "64MiB"
    size = "48MiB"
    flaky = true
    [[workload]]
    name = "faltering"
    kind = "io"
    operations = "mixed"
    block_sizes = "8KiB"
    data = "verifiable"
    verify = true
    seconds = 3.5
    fail = { after_s = 0.5, fault = "falter", member = 2 }
    [[workload]]
    name = "dropping"
    kind = "io"
    operations = "write"
    block_sizes = "8KiB"
    data = "verifiable"
    verify = true
    seconds = 2.5
    fail = [{ after_s = 0.5, fault = "drop_writes", member = 1 },
            { after_s = 1.2, fault = "scrub" }]
"""
DATABASE = """
    [[layout]]
    name = "raid5"
    level = "raid5"
    drives = 3
    filesystem = "ext4"
    [[workload]]
    kind = "pgbench"
    scale = 1
    clients = 2
    seconds = 8
    fail = [{ after_s = 1, member = 2 }, { after_s = 3, fault = "replace", member = 2 }]
"""


def samples_of(study: str, disks: list[str], tmp_path) -> dict[str, Sample]:
    """Measure a study on disks; its samples by the beginning of their cells' keys."""
    devices = ", ".join(f'"{disk}"' for disk in disks)
    _, samples = measured(tmp_path, HEAD.format(devices=devices) + study, destroy=disks)
    return {sample.cell.key: sample for sample in samples}


def test_a_small_write_costs_what_its_level_must(disks, tmp_path):
    """Device requests for each write of the array, as they were counted on another kernel.

    Of 12,288 rows of blocks 256 are in md's cache of stripes, which saves 2 % of the reads.
    """
    samples = samples_of(COUNTS, disks[:4], tmp_path)
    for level, drives, reads, writes in (("raid5", 3, 1.00, 2.02), ("raid6", 4, 1.00, 3.03)):
        sample = next(each for key, each in samples.items() if key.startswith(level))
        members = sample.layout.members
        assert set(members) == set(sample.layout.roles) == set(disks[:drives])
        offered = sample.outcome.completed
        assert offered > 200
        each_reads = sum(own["reads"] for own in members.values()) / offered
        each_writes = sum(own["writes"] for own in members.values()) / offered
        assert each_reads == pytest.approx(reads, abs=0.06), level
        # None of it is left behind when the sample ends.
        assert each_writes == pytest.approx(writes, abs=0.06), level


def test_a_failed_drive_is_rebuilt_on_the_spare_and_nothing_is_lost(disks, tmp_path):
    (sample,) = samples_of(RAID5, disks[:4], tmp_path).values()
    assert whats(sample) == ["failed", "rebuild_started", "rebuild_ended"]
    # A second after the load was told to start, which begins a little later on a busy machine.
    assert 0.3 < at_s(sample, "failed") < 2
    assert at_s(sample, "failed") <= at_s(sample, "rebuild_started")
    assert sample.layout.events[0].member == disks[1]
    assert sample.outcome.failed == 0
    assert sample.layout.unreadable_bytes == 0
    assert sample.verification.corrupt_blocks == 0
    # What was read under load, and all of the file once more in the end.
    read = sample.operations["read"].completed
    assert sample.verification.checked_blocks == read + (48 << 20) // 4096
    missing = sample.series.columns["missing_members"]
    assert (missing[0], missing[-1]) == (0.0, 1.0)
    # 64 MiB of the spare at 16 MiB/s: it goes on when the load has ended.
    took_s = at_s(sample, "rebuild_ended") - at_s(sample, "rebuild_started")
    assert sample.layout.rebuild_limit_kib_per_s == 16384
    assert took_s > 64 / 16 * 0.7
    (note,) = sample.layout.notes
    assert "had background activity when the load ended" in note


def test_what_goes_bad_and_what_rots_is_found_to_the_block(disks, tmp_path):
    samples = samples_of(WORN, disks[:4], tmp_path)
    bad = next(each for key, each in samples.items() if "bad" in key)
    assert whats(bad)[:2] == ["bad_sectors", "failed"]
    assert "array_failed" not in whats(bad)
    # A bad block of a survivor is lost, and so is what only it could have rebuilt; but those that
    # the load read before the other drive failed, which md mended then.
    assert bad.layout.unreadable_bytes in (4096 * count for count in range(1, 25))
    assert bad.verification.corrupt_blocks == 0
    rotten = next(each for key, each in samples.items() if "rot" in key)
    assert whats(rotten) == ["rotten", "scrub_started", "scrub_ended"]
    assert rotten.layout.mismatch_blocks == 3 * 8
    # md does not know which of data and parity is right, and returns what is there.
    assert rotten.layout.wrong_bytes == 3 * 4096
    assert rotten.layout.unreadable_bytes == 0


def test_a_drive_that_falters_is_left_out_and_one_that_drops_writes_is_found_out(disks, tmp_path):
    samples = samples_of(FLAKY, disks[:4], tmp_path)
    faltering = next(each for key, each in samples.items() if "faltering" in key)
    happened = whats(faltering)
    assert happened == ["faltering", "failed", "rebuild_started", "rebuild_ended"]
    fault, left = faltering.layout.events[:2]
    assert (left.member, left.detail) == (fault.member, "excluded by the array itself")
    # The others and the spare serve: nobody but the array has seen an error.
    assert faltering.outcome.failed == 0
    assert faltering.layout.unreadable_bytes == 0
    assert faltering.verification.corrupt_blocks == 0
    dropping = next(each for key, each in samples.items() if "dropping" in key)
    assert whats(dropping)[:2] == ["dropping_writes", "scrub_started"]
    # md trusts what it was told; only who reads everything finds what is missing.
    assert dropping.outcome.failed == 0
    assert dropping.layout.mismatch_blocks > 0
    assert dropping.verification.corrupt_blocks > 0
    assert dropping.layout.unreadable_bytes == 0


def test_an_array_that_is_lost_is_reported_and_taken_apart(disks, tmp_path):
    (sample,) = samples_of(LOST, disks[:3], tmp_path).values()
    assert whats(sample) == ["failed", "failed", "array_failed"]
    assert sample.outcome.failed > 0
    assert sample.layout.unreadable_bytes > 16 * MIB
    # A write that the second failure cut short may leave its stripe as nobody wrote it (md(4), "the
    # write hole"), and one that was told to have failed may have reached the drives: all told.
    undefined = sample.cell.threads + sample.outcome.failed
    assert sample.verification.corrupt_blocks <= undefined
    assert sample.series.columns["missing_members"][-1] == 2.0


def test_a_database_lives_through_a_failure_and_a_rebuild(disks, tmp_path):
    (sample,) = samples_of(DATABASE, disks[:3], tmp_path).values()
    assert whats(sample) == ["failed", "replaced", "rebuild_started", "rebuild_ended"]
    assert sample.layout.events[1].detail == "wiped, as a new one"
    assert sample.outcome.failed == 0
    assert sample.outcome.completed > 10
    assert sample.database.reported["invariant_holds"] == 1.0
    columns = sample.series.columns
    assert len(columns["missing_members"]) == len(columns["rebuild_share"]) > 4
    assert 1.0 in columns["missing_members"]
    assert sum(own["write_bytes"] for own in sample.layout.members.values()) > MIB
