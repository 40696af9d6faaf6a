"""The line that a watcher reads while a cell runs."""

from __future__ import annotations

import pytest

from seatrial.cli.terminal import live_text
from seatrial.measure.progress import LiveReading


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
