"""Tables of what was watched."""

from __future__ import annotations

import json

import msgspec
import pytest

from report.json_schema import assert_published
from seatrial import _core
from seatrial.trials.watch.analysis.activity import Interval, Losses, RequestGroup, broken_down
from seatrial.trials.watch.analysis.events import Frame
from seatrial.trials.watch.documents import watch_document
from seatrial.trials.watch.report import terminal

US = 1000


def group(requests: int = 10, *, us: int = 100, operation: str = "read", **named) -> RequestGroup:
    times = _core.Histogram.from_counts([us * US], [requests])
    return RequestGroup(
        disk=named.pop("disk", "sda"),
        operation=operation,
        requests=requests,
        transferred_bytes=0 if operation == "flush" else requests * 8192,
        device_ns_sum=requests * us * US,
        queued=requests,
        queue_ns_sum=requests * US,
        device=times,
        queue=_core.Histogram.from_counts([US], [requests]),
        **named,
    )


def interval(*groups: RequestGroup, **lost: int) -> Interval:
    return Interval(seconds=2.0, groups=list(groups), lost=Losses(**lost))


def test_sums_are_by_what_is_requested_and_the_rest_is_unnamed():
    groups = [group(10, process="a", pid=1), group(30, us=900, process="b", pid=2)]
    (whole,) = broken_down(groups, ["operation"])
    assert (whole.requests, whole.process, whole.pid, whole.disk) == (40, "", 0, "")
    assert whole.device_ns_sum == (10 * 100 + 30 * 900) * US
    assert whole.device.percentile_ns(25) == pytest.approx(100 * US, rel=0.01)
    assert whole.device.percentile_ns(99) == pytest.approx(900 * US, rel=0.01)
    assert [each.process for each in broken_down(groups, ["process"])] == ["b", "a"]


def test_intervals_add_up():
    one, two = interval(group(10, process="a")), interval(group(5, process="a"), missed=3)
    whole = one.merged(two)
    assert (whole.seconds, whole.lost.missed) == (4.0, 3)
    (only,) = whole.groups
    assert (only.requests, only.process) == (15, "a")


def test_the_headline_names_the_largest_reader_and_writer():
    found = interval(
        group(60, relation="orders_pkey (index of orders)", us=4200),
        group(40, relation="orders"),
        group(80, relation="WAL", operation="write"),
        group(20, relation="not mapped", operation="write"),
    )
    assert terminal.headline(found) == (
        "read 50/s, 60 % of orders_pkey (index of orders) (p99 4.2 ms); "
        "write 50/s, 80 % of WAL (p99 100 µs)."
    )
    assert terminal.headline(interval()) == "No block requests in 2 s."


def test_the_headline_says_first_what_is_of_no_relation_where_that_is_more():
    found = interval(
        group(1, relation="orders", us=70),
        group(99, relation="other programs", us=900),
        group(10, relation="not mapped", operation="write"),
    )
    assert terminal.headline(found) == (
        "read 50/s, 99 % other programs (p99 900 µs), 1 % of orders (p99 70 µs); "
        "write 5.0/s, 100 % not mapped (p99 100 µs)."
    )


def test_relations_are_in_a_row_each_and_what_is_not_mapped_is_the_last(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    found = interval(
        group(10, relation="not mapped", operation="write"),
        group(900, relation="not mapped"),
        group(10, relation="orders"),
        group(20, relation="orders", operation="write", us=300),
        group(90, relation="WAL", operation="write"),
    )
    text = terminal.summary_text(found)
    rows = [line.split()[0] for line in text.splitlines() if line.split()[:1] != []]
    assert rows.index("WAL") < rows.index("orders") < rows.index("not")
    orders = next(line for line in text.splitlines() if line.startswith("orders"))
    assert orders.split() == [
        "orders",
        "5.0",
        "1",
        "%",
        "100",
        "µs",
        "100",
        "µs",
        "10",
        "17",
        "%",
        "300",
        "µs",
        "300",
        "µs",
    ]


def test_a_line_says_what_sessions_and_tasks_wait_for_where_they_do():
    def waiting(pressure: float, **waits: float) -> str:
        readings = {"pressure": {"some tasks": pressure, "all tasks": 0.0}, "server_waits": waits}
        return terminal.waiting_line(msgspec.structs.replace(interval(), readings=readings))

    assert waiting(0.09, CPU=3.0) == ""
    assert waiting(0.98) == "tasks waited for I/O 98 % of the time"
    locked = waiting(
        0.0, **{"Lock: relation": 4.0, "CPU": 9.0, "IO: WALSync": 1.0, "LWLock: x": 2.0}
    )
    assert locked == "sessions waiting: 4 Lock: relation, 2 LWLock: x"
    assert len(locked) <= 60


def test_counters_have_means_alone():
    counted = RequestGroup(
        disk="sda", operation="write", requests=4, transferred_bytes=4096, device_ns_sum=8000 * US
    )
    text = terminal.summary_text(interval(counted))
    assert "2.00 ms" in text or "2.0 ms" in text or "2 ms" in text
    assert "p99" not in text
    assert terminal.interval_line(interval(counted)) == "write 2.0/s, mean 2.0 ms"


def test_what_was_lost_is_said():
    text = terminal.summary_text(
        interval(group(), missed=2, unmatched=1, uncounted=3, unrecorded=4)
    )
    # The share is that of all processes, of which these groups may be one.
    unseen = terminal.summary_text(interval(group(), unseen_bytes=819200, counted_bytes=819200))
    assert "800 KiB (50 %) of the transfers in the disks' own counters was not seen" in unseen
    little = interval(group(), unseen_bytes=819200, counted_bytes=10**9)
    assert "not seen" not in terminal.summary_text(little)
    for words in ("2 events not handed", "1 request not counted", "3 requests not", "4 requests"):
        assert words in text


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_no_line_is_wider_than_the_terminal(monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    named = {"process": "postgres", "pid": 7, "length_bytes_min": 8192}
    found = interval(
        *(
            group(10 + n, relation=f"a_long_name_of_table_{n}_pkey (index)", **named)
            for n in range(30)
        ),
        group(10, operation="flush", relation=""),
        missed=12,
    )
    lines = terminal.summary_text(found).splitlines()
    assert max(map(len, lines)) <= width


def test_the_document_has_percentiles_in_nanoseconds():
    document = json.loads(watch_document(Frame(interval(group(10, process="a")))))
    assert_published(document)
    (only,) = document["requests"]
    assert (only["requests"], only["process"], only["transferred_bytes"]) == (10, "a", 81920)
    assert only["device_ns"]["p99"] == pytest.approx(100 * US, rel=0.01)
    assert {*document["lost"].values()} == {0}
