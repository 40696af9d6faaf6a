"""The line that a watcher reads while a cell runs."""

from __future__ import annotations

import msgspec
import pytest

from report.exports_hand import make_cell, make_sample, make_stall
from seatrial.cli.terminal import PLAIN_EVERY_S, BarWatcher, Countdown, PlainWatcher, live_text
from seatrial.measure.progress import LiveReading, TimeLeft
from trials.database.report.database_hand import pgbench_cell

MINUTE = TimeLeft(most_s=60.0, cell_s=10.0, may_end_sooner=True)


def reading(**changes) -> LiveReading:
    usual = {
        "elapsed_s": 5.0,
        "iops": 12_340.0,
        "bytes_per_s": 101_000_000.0,
        "p99_ns": 210_000,
        "stalls": 1,
        "oldest_in_flight_ns": 90_000,
    }
    return LiveReading(**usual | changes)


NOTHING = {"iops": 0.0, "bytes_per_s": 0.0, "p99_ns": 0, "stalls": 0}


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "12k IOPS, 100 MB/s, p99 210 µs, 3 stalls"),
        (NOTHING | {"elapsed_s": 0.2}, "just begun, 2 stalls"),
        (NOTHING, "0 IOPS, 0 MB/s, p99 0 ns, 2 stalls"),
        (
            NOTHING | {"oldest_in_flight_ns": 4_200_000_000},
            "0 completed, oldest in flight 4.2 s",
        ),
        (
            NOTHING | {"elapsed_s": 0.8, "oldest_in_flight_ns": 700_000_000},
            "0 completed, oldest in flight 700 ms",
        ),
    ],
)
def test_the_line_says_rates_stalls_or_how_long_nothing_came(changes, line):
    assert live_text(reading(**changes), 2) == line


def test_of_a_replay_the_line_says_how_far_and_how_late_it_is():
    replay = {"bytes_per_s": 0.0, "p99_ns": 0, "done": 1_400, "planned": 5_600}
    line = live_text(reading(**replay), 0, on_database=True)
    assert line == "25 % of 5,600 statements, 12k statements/s"
    late = live_text(reading(**replay, lag_ns=3_100_000), 0, on_database=True)
    assert late == "25 % of 5,600 statements, 12k statements/s, 3.1 ms late"


def test_on_a_database_the_line_says_tps_and_no_bandwidth():
    line = live_text(reading(bytes_per_s=0.0), 0, on_database=True)
    assert line == "12k tps, p99 210 µs, 1 stall"
    of_pgbench = reading(iops=35.4, bytes_per_s=0.0, p99_ns=0, mean_ns=281_000_000)
    assert live_text(of_pgbench, 0, on_database=True) == "35 tps, mean 280 ms, 1 stall"
    assert live_text(reading(**NOTHING, elapsed_s=0.2), 0, on_database=True) == (
        "just begun, 0 stalls"
    )
    unheard = reading(**NOTHING | {"elapsed_s": 1.4, "oldest_in_flight_ns": 0})
    assert live_text(unheard, 0, on_database=True) == "just begun, 0 stalls"


def test_the_watcher_takes_the_words_from_the_cell(capsys: pytest.CaptureFixture[str]):
    watcher = PlainWatcher()
    hangs = reading(**NOTHING | {"oldest_in_flight_ns": 700_000_000})
    for cell, reported in (
        (pgbench_cell("hdd", 100, 10), "12k tps, p99"),
        (make_cell(), "12k IOPS"),
    ):
        watcher.cell_started(cell, 0, MINUTE)
        watcher.live(hangs)  # said at once, and the clock starts again
        watcher._printed_s -= PLAIN_EVERY_S
        watcher.live(reading())
        assert reported in capsys.readouterr().err


def test_the_three_longest_stalls_of_a_sample_are_reported_and_how_many_more_there_were(
    capsys: pytest.CaptureFixture[str],
):
    watcher = PlainWatcher()
    watcher.cell_started(make_cell(), 0, MINUTE)
    stalls = [
        msgspec.structs.replace(make_stall(), length_s=length_s) for length_s in (1, 4, 2, 3, 1)
    ]
    sample = make_sample(make_cell(), {"read": 10})
    capsys.readouterr()
    watcher.cell_ended(msgspec.structs.replace(sample, stalls=stalls, stalls_dropped=7))
    reported = [line.rpartition(": ")[2] for line in capsys.readouterr().err.splitlines()]
    assert reported == [
        *("stall of 4.0 s (device)", "stall of 3.0 s (device)", "stall of 2.0 s (device)"),
        "and 9 more",
    ]


def test_of_rounds_that_may_be_left_out_it_says_at_most(capsys: pytest.CaptureFixture[str]):
    PlainWatcher().cell_started(make_cell(), 0, MINUTE)
    assert capsys.readouterr().err == "Round 1; at most 1 min left\n"
    exact = msgspec.structs.replace(MINUTE, may_end_sooner=False)
    PlainWatcher().cell_started(make_cell(), 2, exact)
    assert capsys.readouterr().err == "Round 3; about 1 min left\n"


def test_a_spark_line_shows_the_rates_of_the_running_test(monkeypatch):
    described = []

    class Bar:
        def add_task(self, *_arguments, **_named):
            return 0

        def update(self, _task, *, description="", **_named):
            described.append(description)

    now_s = iter([0.0, 1.0, *(2.0 + 0.3 * n for n in range(9))])
    monkeypatch.setattr("seatrial.cli.terminal.time.monotonic", lambda: next(now_s))
    watcher = BarWatcher(Bar(), Countdown())
    watcher.cell_started(make_cell(), 0, MINUTE)
    for iops in (0.0, 50.0, 100.0):
        watcher.live(reading(iops=iops))
    assert described[-1].splitlines()[1].startswith("▅█ 100 IOPS, ")
