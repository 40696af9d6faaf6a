"""What is read besides requests: rates of a server's counters, waits, pressure."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from seatrial.trials.watch.measure.readings import Pressure, server_readings, waiting

OLD = {"shared_reads": 100.0, "shared_read_ns": 1e6, "wal_writes": 10.0, "wal_write_ns": 0.0,
       "wal_bytes": 5000.0}  # fmt: skip


def test_counters_are_rates_by_panel():
    now = {"shared_reads": 300.0, "shared_read_ns": 5e6, "wal_writes": 20.0, "wal_write_ns": 0.0,
           "wal_bytes": 9000.0}  # fmt: skip
    assert server_readings(OLD, now, 2.0) == {
        "server_requests": {"read": 100.0, "WAL write": 5.0},
        "server_ns": {"read": 2e6, "WAL write": 0.0},
        "server_wal": {"WAL": 2000.0},
    }


def test_with_pg_stat_io_its_reads_are_taken():
    before, now = ({**OLD, "reads": 1.0 * k, "read_ns": 10.0 * k, "writes": 2.0 * k}
                   for k in (1, 3))  # fmt: skip
    found = server_readings(before, now, 1.0)
    assert found["server_requests"] == {"read": 2.0, "write": 4.0, "WAL write": 0.0}
    assert found["server_ns"] == {"read": 20.0, "WAL write": 0.0}


def test_counters_that_were_reset_say_nothing():
    assert server_readings(OLD, dict.fromkeys(OLD, 0.0) | {"wal_write_ns": 0.0}, 1.0) == {
        "server_ns": {"WAL write": 0.0}
    }


def test_only_active_sessions_wait():
    rows = [("active", "IO", "WALSync", 3), ("active", None, None, 2), ("idle", "Client", "R", 9),
            ("checkpointer", "Timeout", "CheckpointWriteDelay", 1)]  # fmt: skip
    assert waiting(rows) == {"IO: WALSync": 3.0, "CPU": 2.0}


@pytest.mark.skipif(
    not Path("/proc/pressure/io").exists(), reason="needs a kernel with pressure stall information"
)
def test_pressure_is_a_share_of_the_time():
    pressure = Pressure()
    time.sleep(0.1)
    shares = pressure.take()["pressure"]
    assert set(shares) == {"some tasks", "all tasks"}
    assert 0 <= shares["all tasks"] <= shares["some tasks"] <= 1.1
