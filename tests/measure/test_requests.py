"""Samples of requests that Python makes itself."""

from __future__ import annotations

from seatrial.measure.engine import SampleContext
from seatrial.measure.progress import SilentWatcher
from seatrial.measure.requests import STALLS_KEPT_MAX, Request, sample_of_requests
from seatrial.topic import Topic
from stats.builders import MS_NS, cell_of


def test_only_the_longest_stalls_are_kept_in_order_of_time():
    lengths_ms = [60 + number % 7 for number in range(STALLS_KEPT_MAX + 5)]
    ends_ns, now_ns = [], 0
    for length_ms in lengths_ms:
        now_ns += length_ms * MS_NS
        ends_ns.append(now_ns)
    sample = sample_of_requests(
        cell_of(),
        SampleContext(round_number=0, position=0, watcher=SilentWatcher()),
        [Request("get", began_ns=0, ended_ns=each) for each in ends_ns],
        started_at=1000.0,
        duration_s=now_ns / 1e9,
        in_flight_at_end=0,
        engine="python",
    )
    assert len(sample.stalls) == STALLS_KEPT_MAX
    assert sample.stalls_dropped == 5
    starts_s = [each.start_s for each in sample.stalls]
    assert starts_s == sorted(starts_s)
    shortest_ms = sorted(lengths_ms)[5]
    assert min(each.length_s for each in sample.stalls) > (shortest_ms - 0.5) / 1000


class OwnFiles(Topic):
    loads_storage = True


def test_files_that_a_topic_makes_itself_count_as_written(tmp_path):
    target = {"kind": "directory", "path": str(tmp_path), "direct": False}
    cell = cell_of(kind="own", operation="write", spec={"target": target})
    sample = sample_of_requests(
        cell,
        SampleContext(round_number=0, position=0, watcher=SilentWatcher()),
        [Request("write", began_ns=0, ended_ns=MS_NS, transferred_bytes=4096)],
        started_at=1000.0,
        duration_s=1.0,
        in_flight_at_end=0,
        engine="python",
    )
    assert OwnFiles().written_bytes(sample) == 4096
