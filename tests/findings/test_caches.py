"""Page cache and device cache: numbers that are memory's, not the medium's."""

import pytest

from seatrial.findings.context import Context
from seatrial.trials.io.findings.device_cache_served import device_cache_served
from seatrial.trials.io.findings.page_cache_served import page_cache_served
from seatrial.units import GIB, MIB
from stats.builders import cell_of, rounds_of, run_of, sample_of, summary_of


def context_of(*summaries, before=None):
    return Context(run_of(before=before), summaries)


def buffered(operation="read", *, size_bytes=GIB, counters=None, moved_bytes=64 * MIB, **spec):
    cell = cell_of(operation=operation, direct=False, size_bytes=size_bytes, **spec)
    return summary_of(
        sample_of(cell, transferred_bytes=moved_bytes, counters=counters or {}, completed=100)
    )


@pytest.mark.parametrize(
    ("size_gib", "memory_gib", "limit_gib", "counters", "is_cached"),
    [
        (1, 8, None, {}, True),
        (8, 8, None, {}, False),
        (16, 8, None, {}, False),
        (4, 8, 2, {}, False),  # the group may use less than the file
        (1, None, None, {}, False),
        (1, 8, None, {"device_read_bytes": 64.0 * MIB}, False),  # it did read the device
        (16, 8, None, {"device_read_bytes": 31.0 * MIB}, True),
        (16, 8, None, {"device_read_bytes": 33.0 * MIB}, False),
    ],
)
def test_buffered_reads(size_gib, memory_gib, limit_gib, counters, is_cached):
    machine = {
        "memory_bytes": memory_gib and memory_gib * GIB,
        "cgroup": {"memory_limit_bytes": limit_gib and limit_gib * GIB},
    }
    cell = buffered(size_bytes=size_gib * GIB, counters=counters)
    found = page_cache_served(context_of(cell, before={"machine": machine}))
    assert bool(found) is is_cached
    if found:
        assert found[0].severity == "warning"
        assert "The page cache served the reads" in found[0].sentence


def test_direct_reads_are_not_the_page_caches():
    cell = summary_of(sample_of(counters={"device_read_bytes": 0.0}, transferred_bytes=GIB))
    before = {"machine": {"memory_bytes": 64 * GIB}}
    assert page_cache_served(context_of(cell, before=before)) == []


def test_few_bytes_prove_nothing_about_the_device():
    cell = buffered(size_bytes=99 * GIB, moved_bytes=15 * MIB, counters={"device_read_bytes": 0.0})
    assert page_cache_served(context_of(cell, before={"machine": {"memory_bytes": GIB}})) == []


@pytest.mark.parametrize(
    ("operation", "spec", "written_mib", "is_cached"),
    [
        ("write", {}, 10, True),
        ("write", {}, 60, False),
        ("write", {"sync_every": 1}, 10, False),
        ("write", {"dsync": True}, 10, False),
        ("commit", {}, 10, False),
    ],
)
def test_buffered_writes(operation, spec, written_mib, is_cached):
    cell = buffered(operation, counters={"device_write_bytes": written_mib * float(MIB)}, **spec)
    found = page_cache_served(context_of(cell))
    assert bool(found) is is_cached
    if found:
        assert "The page cache absorbed the writes" in found[0].sentence
        assert "16 %" in found[0].sentence


def links(*devices):
    return {"target": {"stack": [{"name": f"d{i}", **d} for i, d in enumerate(devices)]}}


def nvme(gigabytes_per_s, address="0000:01:00.0"):
    narrowest = {"address": address, "bandwidth_now_bytes_per_s": gigabytes_per_s * 1e9}
    return {"pcie": {"narrowest": narrowest}}


@pytest.mark.parametrize(
    ("stack", "read_mb_per_s", "is_above"),
    [
        (links({"sata_link_gb_s": 6.0}), 560, False),
        (links({"sata_link_gb_s": 6.0}), 700, True),
        (links({"sata_link_gb_s": 3.0}), 310, True),
        (links({"sata_link_gb_s": 6.0}, {"sata_link_gb_s": 6.0}), 1100, False),
        (links({"sata_link_gb_s": 6.0}, {"sata_link_gb_s": 6.0}), 1300, True),
        (links(nvme(3.9)), 3500, False),
        (links(nvme(3.9)), 4100, True),
        (links(nvme(3.9), nvme(3.9)), 4100, True),  # two disks behind one link
        (links(nvme(3.9), nvme(3.9, "0000:02:00.0")), 4100, False),
        (links({}), 99_000, False),
        (links({"sata_link_gb_s": 6.0}, {}), 99_000, False),  # one link is not known
    ],
)
def test_faster_than_the_link(stack, read_mb_per_s, is_above):
    cell = rounds_of(cell_of(), [1000], transferred_bytes=read_mb_per_s * 10**6)
    found = device_cache_served(context_of(cell, before=stack))
    assert bool(found) is is_above
    if found:
        assert found[0].severity == "critical"
        assert "but the drive" in found[0].sentence


def test_doubt_speaks_for_the_link():
    cell = summary_of(
        *(
            sample_of(transferred_bytes=mb_per_s * 10**6, round=number)
            for number, mb_per_s in enumerate((500, 620, 740))
        )
    )
    assert device_cache_served(context_of(cell, before=links({"sata_link_gb_s": 6.0}))) == []


def test_each_target_has_its_own_link():
    before = links({"sata_link_gb_s": 6.0}) | {
        "other_targets": {"nvme": links(nvme(7.8))["target"]}
    }
    fast = rounds_of(cell_of(target="nvme"), [1000], transferred_bytes=5 * 10**9)
    assert device_cache_served(context_of(fast, before=before)) == []
    slow = rounds_of(cell_of(target="sata"), [1000], transferred_bytes=5 * 10**9)
    assert device_cache_served(context_of(fast, slow, before=before))[0].cells == [
        slow.cell.identity()
    ]


def test_a_link_carries_both_ways_at_once():
    sample = sample_of(cell_of(operation="copy"), transferred_bytes=500 * 10**6)
    before = links({"sata_link_gb_s": 6.0})
    assert device_cache_served(context_of(summary_of(sample), before=before)) == []


@pytest.mark.parametrize(
    ("delivered_share", "is_cached"), [(0.0, True), (0.49, True), (0.51, False), (1.2, False)]
)
def test_direct_reads_that_the_device_never_saw(delivered_share, is_cached):
    counters = {"device_read_bytes": delivered_share * GIB}
    cell = summary_of(sample_of(transferred_bytes=GIB, counters=counters))
    found = device_cache_served(context_of(cell))
    assert bool(found) is is_cached
    if found:
        assert found[0].severity == "critical"


def pair(small_rates, big_rates):
    cells = []
    for name, size_bytes, rates in (("small", GIB, small_rates), ("big", 16 * GIB, big_rates)):
        cell = cell_of(
            workload="sequential", factors={"file": name}, size_bytes=size_bytes, threads=1
        )
        cells.append(rounds_of(cell, rates))
    return cells


@pytest.mark.parametrize(
    ("small", "big", "is_cached"),
    [
        ([2000], [1000], True),
        ([1490], [1000], False),
        ([2000, 2020, 1990], [1000, 1000, 1000], True),
        ([2000, 1000, 3000], [1000, 1000, 1000], False),  # twice, but not significant
        ([1000], [2000], False),
    ],
)
def test_a_small_file_faster_than_a_big_one(small, big, is_cached):
    found = device_cache_served(context_of(*pair(small, big)))
    assert bool(found) is is_cached
    if found:
        assert found[0].severity == "warning"
        assert "The small file (1 GiB)" in found[0].sentence
        assert "1 pair of tests" in found[0].sentence


def test_files_are_compared_with_all_else_equal():
    small, big = pair([2000], [1000])
    other = rounds_of(
        cell_of(workload="sequential", threads=8, factors={"file": "big"}, size_bytes=16 * GIB),
        [1000],
    )
    assert device_cache_served(context_of(small, other)) == []
    assert device_cache_served(context_of(small, big, other))


@pytest.mark.parametrize(("delivered_mib", "is_cached"), [(9.0, False), (1.0, True)])
def test_few_bytes_that_the_device_delivered_were_not_the_page_caches(delivered_mib, is_cached):
    counters = {"device_read_bytes": delivered_mib * MIB}
    cell = buffered(size_bytes=4 * GIB, moved_bytes=8 * MIB, counters=counters)
    before = {"machine": {"memory_bytes": 16 * GIB}}
    assert bool(page_cache_served(context_of(cell, before=before))) is is_cached
