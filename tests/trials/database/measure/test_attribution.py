"""A stall gets a cause only where the readings leave no room for another."""

from __future__ import annotations

import pytest

from seatrial.results.model import Outcome, Series, Stall, Timeline
from seatrial.trials.database.measure.driver_result import Completions
from seatrial.trials.database.measure.observe import Observations
from seatrial.trials.database.measure.sample import attributed, series_from_start


def stall(start_s: float, length_s: float) -> Stall:
    return Stall(start_s=start_s, length_s=length_s, cause="unknown", operations={}, depth=0)


def cause(found: Stall, **columns: list[float | None]) -> str:
    return attributed(found, Series(period_s=1.0, columns=columns)).cause


@pytest.mark.parametrize(
    ("column", "values", "length_s", "expected"),
    [
        ("device_flush_latency_ms", [1.0, 80.0, 1.0], 0.1, "device"),
        ("device_flush_latency_ms", [1.0, 20.0, 90.0], 0.1, "unknown"),
        ("device_flush_latency_ms", [None, None, None], 0.1, "unknown"),
        ("device_write_latency_ms", [1.0, 70.0, 1.0], 0.1, "device"),
        ("cpu_steal_share", [0.0, 0.09, 0.0], 0.1, "generator"),
        ("cpu_steal_share", [0.0, 0.03, 0.0], 0.1, "unknown"),
        ("device_busy_share", [0.0, 1.0, 0.0], 0.1, "unknown"),
        ("waits_lock_share", [0.0, 1.0, 0.0], 0.1, "unknown"),
    ],
)
def test_a_stall_within_a_second(column, values, length_s, expected):
    assert cause(stall(1.4, length_s), **{column: values}) == expected


def test_a_device_that_is_busy_in_every_whole_second_of_a_long_stall():
    assert cause(stall(0.5, 3.0), device_busy_share=[0.1, 1.0, 0.95, 0.2]) == "device"
    assert cause(stall(0.5, 3.0), device_busy_share=[0.1, 1.0, 0.5, 0.2]) == "unknown"
    assert cause(stall(0.5, 3.0), device_busy_share=[0.1, 1.0, None, 0.2]) == "unknown"


@pytest.mark.parametrize(
    ("start_s", "length_s", "busy", "active", "expected"),
    [
        (0.5, 3.0, [0.1, 0.0, 0.0, 0.2], [3, 0, 0, 2], "generator"),
        (0.5, 3.0, [0.1, 0.0, 0.0, 0.2], [3, 0, 1, 2], "unknown"),
        (0.5, 0.9, [0.1, 0.0, 0.0, 0.2], [0, 0, 0, 0], "unknown"),
        # Nothing was read: we did not run either.
        (0.5, 3.0, [0.1, None, None, 0.1], [3, None, None, 2], "generator"),
        (0.5, 3.0, [0.1, 0.0, 0.0, 0.1], [3, None, None, 2], "unknown"),
    ],
)
def test_clients_that_send_nothing_are_the_cause(start_s, length_s, busy, active, expected):
    found = stall(start_s, length_s)
    assert cause(found, device_busy_share=busy, backends_active=active) == expected
    # A server elsewhere may be out of reach.
    assert cause(found, backends_active=active) == "unknown"


def test_what_was_seen_is_evidence_whatever_the_cause():
    columns = {"checkpoint_running_share": [0.0, 1.0, 0.4], "waits_lock_share": [None, None, None]}
    found = attributed(stall(1.9, 0.3), Series(period_s=1.0, columns=columns))
    assert found.evidence == {"checkpoint_running_share_max": 1.0}


def test_a_device_is_as_busy_as_in_the_whole_seconds_of_a_stall():
    def evidence(start_s, length_s):
        columns = {
            "device_busy_share": [0.6, 0.0, 0.01, 0.8],
            "device_read_latency_ms": [1, 1, 1, 9],
        }
        return attributed(stall(start_s, length_s), Series(period_s=1.0, columns=columns)).evidence

    shares = {"device_busy_share_max": 0.01, "device_read_latency_ms_max": 9}
    assert evidence(0.5, 3.0) == shares
    assert evidence(0.5, 0.9)["device_busy_share_max"] == 0.6


def test_a_stall_beyond_the_readings_stays_unknown():
    found = attributed(stall(7.0, 0.3), Series(period_s=1.0, columns={"device_busy_share": [1.0]}))
    assert (found.cause, found.evidence) == ("unknown", {})


@pytest.mark.parametrize(
    ("started_at", "expected"),
    [(100.0, 0), (100.4, 0), (101.1, 1), (102.0, 2), (130.0, 3), (70.0, 0)],
)
def test_readings_begin_with_the_load(started_at, expected):
    """A host's clock may be wrong: as many entries remain as the load took."""
    share = [float(number) for number in range(13)]
    observed = Observations(
        series=Series(period_s=1.0, columns={"a": share, "b": [1.0] + [None] * 12}),
        counters={},
        waits={},
        notes=[],
        began_unix_s=100.0,
    )
    completions = Completions(
        started_at=started_at,
        duration_s=10.02,
        outcome=Outcome(offered=0, completed=0, failed=0, late_skipped=0, in_flight_at_end=0),
        operations={},
        timeline=Timeline(slice_ns=10**9, slices=[]),
    )
    columns = series_from_start(observed, completions).columns
    assert columns["a"] == share[expected:]
    assert ("b" in columns) == (expected == 0)
