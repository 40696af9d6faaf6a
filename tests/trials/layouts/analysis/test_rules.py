"""The rule of each level against what was counted on md of Linux 6.1, and against brute force."""

import itertools

import pytest

from seatrial.trials.layouts.analysis.accounting import full_stripe_bytes, read_rule, write_rule
from seatrial.units import KIB

from .hand import spec_of

PAGE = 4096

# Research, section 4.2: reads and writes of the drives for each write of 4 KiB at random.
COUNTED = [
    ("raid0", 4, 0.01, 1.00),
    ("raid1", 2, 0.01, 2.01),
    ("raid10", 4, 0.01, 2.03),
    ("raid5", 3, 1.00, 2.02),
    ("raid5", 4, 2.00, 2.02),
    ("raid5", 5, 2.00, 2.03),
    ("raid5", 6, 2.01, 2.04),
    ("raid6", 4, 1.00, 3.03),
    ("raid6", 5, 2.00, 3.03),
    ("raid6", 6, 2.98, 3.04),
    ("raid6", 8, 3.00, 3.05),
]
FULL = [
    *(("raid0", 4, 1.0), ("raid1", 2, 2.0), ("raid10", 4, 2.0)),
    *(("raid5", 3, 1.5), ("raid5", 4, 1.33), ("raid5", 5, 1.25), ("raid5", 6, 1.2)),
    *(("raid6", 4, 2.0), ("raid6", 5, 1.67), ("raid6", 6, 1.5), ("raid6", 8, 1.33)),
]
DEGRADED = [("raid5", 3, 1.33), ("raid5", 4, 1.50), ("raid5", 5, 1.60), ("raid6", 8, 1.75)]


@pytest.mark.parametrize(("level", "drives", "reads", "writes"), COUNTED)
def test_small_writes_cost_what_was_counted(level, drives, reads, writes):
    rule = write_rule(spec_of(level, drives), PAGE, PAGE)
    assert rule.reads == pytest.approx(reads, abs=0.03)
    assert rule.writes == pytest.approx(writes, abs=0.06)


@pytest.mark.parametrize(("level", "drives", "ratio"), FULL)
def test_whole_stripes_need_no_reads(level, drives, ratio):
    spec = spec_of(level, drives, filesystem="none")
    size = full_stripe_bytes(spec)
    rule = write_rule(spec, size, size)
    assert rule.read_bytes == rule.read_bytes_max == 0
    assert rule.write_bytes == pytest.approx(ratio, abs=0.01)


@pytest.mark.parametrize(("level", "drives", "reads"), DEGRADED)
def test_reads_without_a_drive(level, drives, reads):
    assert read_rule(spec_of(level, drives), PAGE, PAGE, 1.0).reads == pytest.approx(
        reads, abs=0.01
    )
    half = read_rule(spec_of(level, drives), PAGE, PAGE, 0.5).reads
    assert half == pytest.approx((1 + reads) / 2, abs=0.01)


def brute_force(drives, parity, chunk, size, align):
    """Bytes read and written for each byte, page by page, over every offset in a stripe."""
    data = drives - parity
    width = chunk * data
    offsets = range(0, width, align)
    read = written = 0
    for offset in offsets:
        touched = {}
        for at in range(offset, offset + size, PAGE):
            stripe, inside = divmod(at, width)
            touched.setdefault((stripe, inside % chunk), set()).add(inside // chunk)
        for members in touched.values():
            read += min(len(members) + parity, data - len(members)) * PAGE
            written += (len(members) + parity) * PAGE
    return read / len(offsets) / size, written / len(offsets) / size


@pytest.mark.parametrize(
    ("level", "drives", "size_kib", "align_kib"),
    [
        (level, drives, size, align)
        for (level, drives), size, align in itertools.product(
            [("raid5", 4), ("raid5", 7), ("raid6", 6)], [4, 12, 16, 32, 40, 128, 200], [4, 8, 16]
        )
        if size % align == 0
    ],
)
def test_any_size_and_place_is_the_sum_of_its_rows(level, drives, size_kib, align_kib):
    spec = spec_of(level, drives, chunk_kib=16, filesystem="none")
    rule = write_rule(spec, size_kib * KIB, align_kib * KIB)
    parity = spec.facts.parity_members
    read, written = brute_force(drives, parity, 16 * KIB, size_kib * KIB, align_kib * KIB)
    assert rule.read_bytes == pytest.approx(read)
    assert rule.write_bytes == pytest.approx(written)


def test_a_file_may_begin_anywhere_in_a_stripe():
    bare, on_xfs = spec_of(filesystem="none"), spec_of(filesystem="xfs")
    size = full_stripe_bytes(bare)
    assert write_rule(bare, size, size).read_bytes_max == 0
    rule = write_rule(on_xfs, size, size)
    assert rule.read_bytes == 0 < rule.read_bytes_max
    assert rule.write_bytes < rule.write_bytes_max


def test_legs_have_the_rule_of_a_leg_within_a_chunk_and_none_beyond():
    legs = spec_of("raid5", 4, legs=2, backend="md+lvm")
    assert write_rule(legs, PAGE, PAGE).reads == 2
    assert write_rule(legs, 256 * KIB, 256 * KIB) is None


def test_parts_of_a_page_read_the_page_too():
    assert write_rule(spec_of("raid5", 3), 512, 512).reads == 2  # a whole page needs but 1
    assert write_rule(spec_of("raid5", 5), 512, 512).read_bytes == 2 * 8


def test_there_is_no_rule_for_what_places_writes_anew():
    assert write_rule(spec_of("raid5", 4, backend="btrfs"), PAGE, PAGE) is None
    assert read_rule(spec_of("raidz1", 4, backend="zfs"), PAGE, PAGE) is None


def test_what_lies_in_one_chunk_is_merged_and_what_is_larger_is_not_counted():
    """Counted in the lab: 8 KiB on RAID5 of 3 drives 2.01 writes, 256 KiB in requests of 64."""
    rule = write_rule(spec_of("raid5", 4), 8192, 8192)
    assert (rule.reads, rule.writes) == (2, 2)
    rule = write_rule(spec_of("raid5", 4), 128 * KIB, 128 * KIB)
    assert rule.writes is None
    assert rule.read_bytes == rule.write_bytes == 2


def test_a_write_that_may_cross_a_chunk_is_counted_in_bytes():
    assert write_rule(spec_of("raid5", 4, chunk_kib=16), 8192, 4096).reads is None


def test_a_request_that_crosses_chunks_is_several():
    spec = spec_of("raid0", 4, chunk_kib=64, filesystem="none")
    assert read_rule(spec, 64 * KIB, 64 * KIB).reads == 1
    assert read_rule(spec, 64 * KIB, 4 * KIB).reads == pytest.approx(1 + 15 / 16)
    assert read_rule(spec_of("raid0", 4, chunk_kib=64), 64 * KIB, 64 * KIB).reads is None
