"""What the page gets of an interval adds up to the interval."""

from __future__ import annotations

import msgspec
import pytest

from seatrial import _core
from seatrial.trials.watch.analysis.activity import Interval, Losses, RequestGroup
from seatrial.trials.watch.analysis.compact import (
    GROUPS_MAX,
    OTHERS,
    ROWS_PER_DOUBLING,
    compact,
)

TIMES_NS = [800, 12_000, 12_100, 5_000_000, 2_000_000_000]


def group(process: str, times_ns: list[int], **fields: object) -> RequestGroup:
    made = RequestGroup(
        disk="sda",
        operation="read",
        is_sync=True,
        length_bytes_min=4096,
        process=process,
        requests=len(times_ns),
        transferred_bytes=4096 * len(times_ns),
        device_ns_sum=sum(times_ns),
        device=_core.Histogram.of(times_ns),
    )
    return msgspec.structs.replace(made, **fields)


def test_each_request_is_in_the_row_of_its_latency():
    interval = Interval(seconds=1.0, groups=[group("a", TIMES_NS)], lost=Losses(missed=3))
    made = compact(interval, {"sda": 1.5}, 0.02)
    (only,) = made.groups
    rows = dict(zip(only.rows[::2], only.rows[1::2], strict=True))
    assert sum(rows.values()) == len(TIMES_NS)
    for time_ns in TIMES_NS:
        bounds = [(2 ** (row / ROWS_PER_DOUBLING), 2 ** ((row + 1) / ROWS_PER_DOUBLING))
                  for row in rows]  # fmt: skip
        assert any(low * 0.99 <= time_ns <= high * 1.01 for low, high in bounds), time_ns
    assert (only.requests, only.max_ns, made.lost.missed) == (5, max(TIMES_NS), 3)
    assert [made.names[place] for place in (only.disk, only.operation, only.process)] == [
        "sda", "read", "a",
    ]  # fmt: skip


def test_processes_of_one_name_are_one_and_the_unknown_stays_unknown():
    groups = [group("a", [1000], pid=1), group("a", [2000], pid=2)]
    groups.append(RequestGroup(disk="sdb", operation="write", requests=7, transferred_bytes=9,
                        device_ns_sum=70))  # fmt: skip
    made = compact(Interval(seconds=1.0, groups=groups, lost=Losses()), {}, 0.0)
    by_name = {made.names[each.process]: each for each in made.groups}
    assert by_name["a"].requests == 2
    unknown = by_name[""]
    assert (unknown.sync, unknown.length_bytes_min, unknown.rows, unknown.max_ns) == (-1, -1, [], 0)


def test_more_groups_than_a_page_can_hold_are_summed_up_and_none_is_lost():
    groups = [group(f"p{number}", [1000] * (number + 1)) for number in range(GROUPS_MAX + 50)]
    made = compact(Interval(seconds=1.0, groups=groups, lost=Losses()), {}, 0.0)
    assert len(made.groups) == GROUPS_MAX + 1
    assert sum(each.requests for each in made.groups) == sum(each.requests for each in groups)
    assert made.names[made.groups[-1].process] == OTHERS
    assert made.groups[-1].requests == sum(range(1, 51))


@pytest.mark.parametrize("seconds", [0.1, 1.0])
def test_it_is_json(seconds):
    interval = Interval(seconds=seconds, groups=[group("ü\n", TIMES_NS)], lost=Losses())
    data = msgspec.json.encode(compact(interval, {}, 0.0))
    assert b"\n" not in data  # else it would end a server-sent event
    assert msgspec.json.decode(data)["names"] == ["sda", "read", "ü\n", ""]
