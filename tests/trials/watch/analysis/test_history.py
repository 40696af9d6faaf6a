"""The history of a watch: in order, bounded, and readable from any number on."""

from __future__ import annotations

from seatrial.trials.watch.analysis.history import History


def test_it_goes_on_after_any_event():
    history = History()
    for text in (b"a", b"b", b"c"):
        history.add("mark", text)
    assert [each.data for each in history.after(0)] == [b"a", b"b", b"c"]
    assert [(each.number, each.data) for each in history.after(2)] == [(3, b"c")]
    assert history.after(3) == history.after(99) == []


def test_the_oldest_are_dropped_by_bytes():
    history = History(bytes_max=10)
    for number in range(20):
        history.add("interval", b"%04d" % number)
    assert history.kept_bytes <= 10
    assert [each.data for each in history.after(0)] == [b"0018", b"0019"]
    assert [each.number for each in history.after(19)] == [20]
    assert [each.number for each in history.after(5)] == [19, 20]  # what is gone is skipped


def test_the_oldest_are_dropped_by_time():
    now_s = [0.0]
    history = History(seconds_max=60, clock=lambda: now_s[0])
    for second in range(100):
        now_s[0] = float(second)
        history.add("interval", b"x")
    kept = history.after(0)
    assert (kept[0].at_s, kept[-1].at_s) == (39.0, 99.0)


def test_one_that_is_larger_than_all_room_is_not_kept():
    history = History(bytes_max=3)
    history.add("interval", b"1234")
    assert (history.after(0), history.kept_bytes, history.last) == ([], 0, 1)
