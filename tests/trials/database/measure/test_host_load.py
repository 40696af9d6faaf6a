"""One host's part: pgbench is started when the host knows the start, and counts from there on."""

from __future__ import annotations

import time

import msgspec
import pytest

from postgres.programs import installed_programs
from seatrial.fleet.group import START_DELAY_S
from seatrial.postgres.connection import Address
from seatrial.results.model import Outcome, Timeline
from seatrial.trials.database.measure import host_load
from seatrial.trials.database.measure.driver_result import (
    Completions,
    DriverOptions,
    DriverResult,
)
from seatrial.trials.database.study.workloads import DatabaseSpec, LoadSpec

DURATION_S = 4.0
SPEC = DatabaseSpec(
    script="tpcb-like", clients=4, start="warm", load=LoadSpec(kind="pgbench", scale=1)
)


@pytest.fixture
def begun(monkeypatch, tmp_path):
    """Do one host's part with a driver of our own; return what that was given, and the part."""

    def begin(spec: DatabaseSpec, ahead_s: float, first_s: float | None, connect_ms: float):
        given = []

        def driven(_kind, _spec, _endpoints, options: DriverOptions, _watcher) -> DriverResult:
            given.append(options)
            first_us = None
            if first_s is not None:
                first_us = options.start_unix_ns // 1000 + round(first_s * 1e6)
            return result_of(first_us, connect_ms)

        monkeypatch.setattr(host_load, "drive", driven)
        load = host_load.HostLoad(
            kind="pgbench",
            spec=spec,
            addresses=[Address(host="/nowhere", port=5432, dbname="postgres", user="nobody")],
            secret=None,
            pg_bin=str(installed_programs().program("pgbench").parent),
            options=DriverOptions(
                duration_s=DURATION_S,
                seed=1,
                slice_ms=100,
                stall_threshold_ms=50,
                folder=tmp_path,
            ),
            run_id="run1",
            script=None,
        )
        part = load.run(time.monotonic_ns() + round(ahead_s * 1e9))
        return given[0], part

    return begin


def result_of(first_us: int | None, connect_ms: float) -> DriverResult:
    outcome = Outcome(offered=0, completed=0, failed=0, late_skipped=0, in_flight_at_end=0)
    return DriverResult(
        completions=Completions(
            started_at=0.0,
            duration_s=DURATION_S,
            outcome=outcome,
            operations={},
            timeline=Timeline(slice_ns=100_000_000, slices=[]),
        ),
        interrupted=False,
        reported={"connect_ms_1": connect_ms, "connect_ms_2": connect_ms / 2},
        cpu_user_s=0.0,
        cpu_system_s=0.0,
        client_cpu_share=None,
        first_start_unix_us=first_us,
    )


def test_it_loads_from_when_it_knows_the_start_to_the_planned_end(begun):
    before_s = time.monotonic()
    options, part = begun(SPEC, START_DELAY_S, -0.7, 20.0)
    used_s = time.monotonic() - before_s
    assert DURATION_S + START_DELAY_S - used_s <= options.duration_s <= DURATION_S + START_DELAY_S
    assert part.first_ns == pytest.approx(-0.7e9, abs=2000)


def test_one_that_learns_of_the_start_too_late_loads_as_long_as_planned(begun):
    options, part = begun(SPEC, -0.5, 0.6, 20.0)
    assert options.duration_s == DURATION_S
    assert part.first_ns == pytest.approx(0.6e9, abs=2000)


def test_with_a_limited_rate_a_host_is_ready_when_its_clients_are_connected(begun):
    """The first transaction is due whenever chance has it."""
    slow = msgspec.structs.replace(SPEC, rate_per_s=0.5)
    assert begun(slow, START_DELAY_S, 1.5, 20.0)[1].first_ns < 0
    assert 0 < begun(slow, START_DELAY_S, 2.5, 1_700.0)[1].first_ns <= 1.5e9
    assert begun(SPEC, START_DELAY_S, 1.5, 20.0)[1].first_ns == pytest.approx(1.5e9, abs=2000)


def test_without_a_transaction_the_connected_clients_count(begun):
    assert -1e9 < begun(SPEC, START_DELAY_S, None, 20.0)[1].first_ns < 0
