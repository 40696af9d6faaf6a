"""What cache devices of Linux report of themselves, as it was read in the lab (Linux 6.1)."""

from __future__ import annotations

import subprocess

import pytest

from seatrial.trials.layouts.build.caches import bcache
from seatrial.trials.layouts.build.caches.bcache import (
    parse_priority,
    parse_size_bytes,
    read_set_id,
)
from seatrial.trials.layouts.build.caches.lvm_cache import parse_cache, parse_writecache
from seatrial.trials.layouts.build.caching import CacheSetup

CACHE = (
    "0 516096 cache 8 12/2048 128 125/1856 320 1680 7 9 1 125 3 3 metadata2 writethrough "
    "no_discard_passdown 2 migration_threshold 2048 mq 10 random_threshold 0 "
    "sequential_threshold 0 discard_promote_adjustment 0 read_promote_adjustment 0 "
    "write_promote_adjustment 0 rw - \n"
)
WRITECACHE = "0 516096 writecache 0 31620 27620 12 40 8 4010 3 5 2 4000 6 1 0\n"
LINEAR = "0 516096 linear \n"
PRIORITY = (
    "Unused:\t\t61%\nClean:\t\t30%\nDirty:\t\t8%\nMetadata:\t1%\nAverage:\t5\n"
    "Sectors per Q:\t80\nQuantiles:\t[0 0 0 1]\n"
)
MAGIC = bytes.fromhex("c68573f64e1a45ca8265f57f48ba6d81")
NAME = "seatrial-20261121-074500-3fa2-1"


def test_dm_caches_status_is_read():
    assert parse_cache(CACHE) == {
        "read_hits": 320,
        "read_misses": 1680,
        "write_hits": 7,
        "write_misses": 9,
        "demotions": 1,
        "promotions": 125,
        "fill_bytes": 125 * 65536,
        "capacity_bytes": 1856 * 65536,
        "chunk_bytes": 65536,
        "dirty_bytes": 3 * 65536,
    }


def test_dm_writecaches_status_is_read():
    found = parse_writecache(WRITECACHE)
    assert (found["blocks"], found["free_blocks"], found["writeback_blocks"]) == (31620, 27620, 12)
    assert (found["reads"], found["read_hits"], found["writes"]) == (40, 8, 4010)
    assert (found["writes_around"], found["writes_allocated"]) == (2, 4000)


@pytest.mark.parametrize("parse", [parse_cache, parse_writecache])
@pytest.mark.parametrize("text", ["", LINEAR, "0 8 writecache 0 1 1 0\n"])
def test_the_status_of_something_else_is_refused(parse, text):
    with pytest.raises(ValueError, match="not the status"):
        parse(text)


def test_bcaches_buckets_are_read():
    assert parse_priority(PRIORITY) == {
        "Unused": 0.61,
        "Clean": 0.30,
        "Dirty": 0.08,
        "Metadata": 0.01,
    }


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("0.0k\n", 0), ("64.0k", 65536), ("4.0M", 4 << 20), ("1.5G", 3 << 29), ("-12", -12)],
)
def test_bcaches_sizes_are_read(text, size_bytes):
    assert parse_size_bytes(text) == size_bytes


def test_what_is_no_size_of_bcache_is_refused():
    with pytest.raises(ValueError, match="no cache"):
        parse_size_bytes("no cache")


def test_a_cached_device_that_another_array_took_ends_the_build(tmp_path, monkeypatch):
    (tmp_path / "dev/block/1:3/bcache").mkdir(parents=True)
    for name in ("bcache0", "bcache1"):
        (tmp_path / "block" / name).mkdir(parents=True)
    (tmp_path / "block/bcache1/bcache").symlink_to(tmp_path / "dev/block/1:3/bcache")
    monkeypatch.setattr(bcache, "device_size_bytes", lambda _device: 1 << 30)
    ended = []
    for name in ("bcache0", "bcache1"):
        setup = CacheSetup(
            name="a", below="/dev/null", fast="/dev/sdb", mode="", device=f"/dev/{name}"
        )
        steps = bcache.Bcache().build_steps(setup)
        (command,) = [list(step.command) for step in steps if step.command[0] == "sh"]
        command[2] = command[2].replace("/sys", str(tmp_path))
        ended.append(subprocess.run(command, check=False, capture_output=True).returncode)
    assert ended == [1, 0]


def test_a_superblock_says_to_which_set_it_belongs(tmp_path):
    drive = tmp_path / "drive"
    block = bytes(24) + MAGIC + bytes(16) + bytes(range(16))
    drive.write_bytes(bytes(4096) + block)
    assert read_set_id(str(drive)) == "00010203-0405-0607-0809-0a0b0c0d0e0f"
    drive.write_bytes(bytes(8192))
    assert read_set_id(str(drive)) == ""
    assert read_set_id(str(tmp_path / "absent")) == ""


def test_only_our_own_cached_device_is_undone_after_it_was_detached(tmp_path, monkeypatch):
    """The kernel clears the set in its superblock, and keeps the label."""
    below, fast, users = (tmp_path / name for name in ("below", "fast", "users"))
    ours = bcache.set_id(NAME)
    mine = bytes.fromhex(ours.replace("-", ""))
    marks = {below: (bytes(16), NAME), fast: (mine, ""), users: (bytes(16), "users-home")}
    for path, (set_uuid, label) in marks.items():
        text = label.encode().ljust(32, b"\0")
        path.write_bytes(bytes(4096 + 24) + MAGIC + bytes(16) + set_uuid + text + bytes(3992))
    monkeypatch.setattr(type(bcache.LIVE), "block_number", lambda _tree, path: path)
    wiped = []
    monkeypatch.setattr(bcache, "_stopped", lambda _device: True)
    monkeypatch.setattr(bcache, "_wipe", wiped.append)

    def outcome(below, fast, **label):
        wiped.clear()
        undone = bcache.undo_bcache(below=str(below), fast=str(fast), uuid=ours, **label)
        return undone.outcome, wiped

    assert outcome(below, fast, label=NAME) == ("undone", [str(below), str(fast)])
    assert outcome(users, fast, label=NAME) == ("undone", [str(fast)])
    assert outcome(users, below, label=NAME) == ("foreign", [])
    assert outcome(below, fast) == ("undone", [str(fast)]), "as an earlier version recorded it"
