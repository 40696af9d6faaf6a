"""The load of a disk on its load line: a share only where both are of the same requests."""

from __future__ import annotations

import time

import pytest

from seatrial.stats.estimate import Estimate
from seatrial.trials.watch.analysis.activity import Interval, Losses, RequestGroup
from seatrial.trials.watch.analysis.headroom import (
    DiskLoadLine,
    headroom_of,
    share_phrase,
    without_line,
)
from seatrial.units import KIB

DAY = time.mktime((2026, 11, 21, 12, 0, 0, 0, 0, -1))


def sustained(value: float, low: float | None, high: float | None) -> Estimate:
    return Estimate(value=value, low=low, high=high, rounds=3, unit="IOPS")


def line(**changed) -> DiskLoadLine:
    facts = {
        "disk": "sda",
        "run": "r1",
        "measured_at": DAY,
        "percentile": "p99",
        "limit_ns": 3_000_000,
        "sustained": sustained(48_000.0, 46_000.0, 50_000.0),
        "read_share": 1.0,
        "block_bytes": 8 * KIB,
        "pattern": "random",
    }
    return DiskLoadLine(**(facts | changed))


def group(operation: str, requests: int, kib: int = 8, disk: str = "sda", **named) -> RequestGroup:
    return RequestGroup(
        disk=disk,
        operation=operation,
        length_bytes_min=named.pop("length_bytes_min", kib * KIB),
        requests=requests,
        transferred_bytes=requests * kib * KIB,
        device_ns_sum=requests * 1000,
    )


def interval(*groups: RequestGroup) -> Interval:
    return Interval(seconds=2.0, groups=list(groups), lost=Losses())


def test_the_share_has_the_interval_of_the_limit():
    (found,) = headroom_of([line()], interval(group("read", 12_400), group("flush", 9, 0)))
    assert (found.per_s, found.limit_per_s) == (6200.0, 48_000.0)
    assert found.share == pytest.approx(6200 / 48_000)
    assert (found.share_low, found.share_high) == (6200 / 50_000, 6200 / 46_000)
    assert found.text == (
        "sda: 6,200 IOPS of about 48k (46k to 50k) that kept p99 below 3 ms: 13 % (12 to 13 %) "
        "(load line of 2026-11-21: random reads of 8 KiB)."
    )
    assert share_phrase([found]) == "sda at 13 % of its load line"


def test_where_no_rate_exceeded_the_limit_the_share_is_a_bound():
    open_line = line(sustained=sustained(40_000.0, 40_000.0, None))
    (found,) = headroom_of([open_line], interval(group("read", 12_400)))
    assert "6,200 IOPS of at least 40.0k that kept p99 below 3 ms: at most 16 %" in found.text
    assert share_phrase([found]) == "sda at at most 16 % of its load line"


@pytest.mark.parametrize(
    ("groups", "why"),
    [
        ([group("read", 500), group("write", 500)], "50 % of the requests are reads"),
        ([group("read", 700), group("read", 300, 64)], "70 % are of 8 KiB to 16 KiB"),
        ([group("read", 500, 16, length_bytes_min=None)], "their mean size is 16 KiB"),
    ],
)
def test_another_mix_or_size_has_no_share_and_says_what_would_be_comparable(groups, why):
    (found,) = headroom_of([line()], interval(*groups))
    assert found.share is found.share_low is found.share_high is None
    assert found.limit_per_s == 48_000.0
    assert "not comparable with about 48k (46k to 50k) that kept p99 below 3 ms" in found.text
    assert f"because {why}; `seatrial loadline TARGET --percentile p99 --limit 3ms" in found.text
    assert share_phrase([found]) == ""
    if "reads" in why:
        assert "--read-share 0.5 --block-size 8K` measures a line of such requests." in found.text


@pytest.mark.parametrize(
    "groups",
    [
        [group("read", 920), group("write", 80)],
        [group("read", 850), group("read", 150, 64)],
        [group("read", 500, 9, length_bytes_min=None)],
        [],
    ],
)
def test_what_is_nearly_alike_has_a_share(groups):
    (found,) = headroom_of([line()], interval(*groups))
    assert found.share is not None, found.text


def test_counters_that_count_flushes_as_writes_are_not_compared_with_a_line_of_writes():
    counted = [group("read", 500), group("write", 500, length_bytes_min=None)]
    flushed = [*counted, group("flush", 100, 0, length_bytes_min=None)]
    mixed = line(read_share=0.5)
    assert headroom_of([mixed], interval(*counted))[0].share is not None
    (found,) = headroom_of([mixed], interval(*flushed))
    assert found.share is None
    assert "count flushes as writes" in found.text
    reads = [group("read", 920), group("write", 80, length_bytes_min=None)]
    assert headroom_of([line()], interval(*reads, flushed[-1]))[0].share is not None


def test_of_several_lines_the_one_that_is_alike_counts():
    lines = [
        line(run="new", read_share=0.0),
        line(run="alike", read_share=0.5),
        line(run="old", read_share=0.5),
        line(run="other", disk="sdb", limit_ns=1_500_000, percentile="p50"),
    ]
    of_a, of_b = headroom_of(
        lines,
        interval(group("read", 50), group("write", 50), group("read", 5, disk="sdb")),
    )
    assert (of_a.run, of_a.disk) == ("alike", "sda")
    assert "random requests, 50 % of them reads, of 8 KiB" in of_a.text
    assert (of_b.run, of_b.per_s) == ("other", 2.5)
    assert "p50 below 1,500 µs" in of_b.text


def test_a_line_without_a_rate_and_a_sequential_one_have_no_share():
    (none,) = headroom_of([line(sustained=None)], interval(group("read", 10)))
    assert none.share is None
    assert "no measured rate kept p99 below 3 ms" in none.text
    (undecided,) = headroom_of(
        [line(sustained=None, is_undecided=True)], interval(group("read", 10))
    )
    assert (undecided.share, undecided.limit_per_s) == (None, None)
    assert "undecided" in undecided.text
    assert "--budget" in undecided.text
    assert "no measured rate" not in undecided.text
    (sequential,) = headroom_of([line(pattern="sequential")], interval(group("read", 10)))
    assert sequential.share is None
    assert "does not know which requests are sequential" in sequential.text


def test_disks_without_a_line_are_named_with_the_command():
    assert without_line(["sda"], [line()], "r.seatrial") == ""
    assert without_line(["sda", "sdb"], [line()], "r.seatrial") == (
        "r.seatrial has no load line for sdb, so no headroom is shown: "
        "`seatrial loadline TARGET --p99 5ms` measures one."
    )
    many = without_line([f"sd{letter}" for letter in "bcdef"], [], "r.seatrial")
    assert "has no load line for sdb, sdc, sdd and 2 more, so" in many
