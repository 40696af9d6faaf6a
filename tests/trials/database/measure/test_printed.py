"""What pgbench prints, of every version, and what it complains of."""

from __future__ import annotations

import os
import sys

import pytest

from seatrial.trials.database.measure.client_processes import LINES_MAX, Process, ProcessGroup
from seatrial.trials.database.measure.pgbench import error_text, progress, totals

OF_18 = """\
pgbench (18.6, server 15.18 (Debian 15.18-0+deb12u1))
transaction type: multiple scripts
maximum number of tries: 1
duration: 2 s
number of transactions actually processed: 1629
number of failed transactions: 3 (0.184%)
number of transactions skipped: 14 (0.852%)
number of transactions above the 5.0 ms latency limit: 9/1629 (0.552%)
latency average = 1.277 ms
latency stddev = 0.696 ms
rate limit schedule lag: avg 0.163 (max 4.610) ms
initial connection time = 7.371 ms
tps = 817.037719 (without initial connection time)
SQL script 1: /x/ingest.sql
 - weight: 900 (targets 90.0% of total)
 - 1500 transactions (92.1% of total, tps = 752.3)
 - latency average = 9.999 ms
"""
OF_13 = """\
transaction type: <builtin: TPC-B (sort of)>
number of transactions actually processed: 2481
latency average = 1.014 ms
latency stddev = 0.364 ms
tps = 827.100000 (including connections establishing)
tps = 827.422261 (excluding connections establishing)
"""
CLOSED = "progress: 1.0 s, 2597.8 tps, lat 1.521 ms stddev 0.531, 0 failed"
RATED = "progress: 2.0 s, 799.9 tps, lat 1.093 ms stddev 0.387, 0 failed, lag 0.131 ms, 0 skipped"
STUCK = "progress: 3.0 s, 0.0 tps, lat NaN ms stddev NaN, 0 failed"


def test_totals_of_the_whole_and_not_of_a_script():
    assert totals(OF_18) == {
        "transactions": 1629.0,
        "failed": 3.0,
        "skipped": 14.0,
        "late": 9.0,
        "latency_ms_mean": 1.277,
        "latency_ms_stddev": 0.696,
        "lag_ms_mean": 0.163,
        "lag_ms_max": 4.61,
        "connect_ms": 7.371,
        "tps": 817.037719,
    }


def test_totals_of_an_old_version_leave_the_connecting_out():
    assert totals(OF_13)["tps"] == 827.422261
    assert "failed" not in totals(OF_13)


@pytest.mark.parametrize(
    ("line", "reported"), [(CLOSED, (2597.8, 1.521)), (RATED, (799.9, 1.093)), (STUCK, (0.0, 0.0))]
)
def test_progress(line, reported):
    heard = progress(line)
    assert (heard.per_s, heard.latency_ms) == reported


def test_a_complaint_holds_what_happened_once_and_no_chatter():
    lines = [
        "pgbench: setting random seed to 5",
        CLOSED,
        "pgbench: error: client 1 aborted in command 4: ERROR:  deadlock",
        "LINE 1: SELECT",
        "               ^",
        "pgbench: error: client 2 aborted in command 4: ERROR:  deadlock",
        "pgbench: error: Run was aborted; the above results are incomplete.",
    ]
    assert error_text(lines) == "client 1 aborted in command 4: ERROR:  deadlock"
    assert error_text([CLOSED]) == "no reason given"


def test_an_error_is_reported_before_the_notices_that_went_before_it():
    lines = [
        "dropping old tables...",
        'NOTICE:  table "pgbench_accounts" does not exist, skipping',
        *(f"{count} of 400000 tuples done" for count in range(20)),
        "pgbench: error: could not finish: ERROR:  could not extend file: No space left on device",
    ]
    assert error_text(lines) == (
        "could not finish: ERROR:  could not extend file: No space left on device"
    )
    assert error_text(
        ["psql:night.sql:3: ERROR:  no such table", "psql:night.sql:2: NOTICE:  ok"]
    ) == ("psql:night.sql:3: ERROR:  no such table")


def test_what_a_process_says_at_its_end_is_kept_after_hours_of_progress():
    lines = LINES_MAX * 3
    script = f"import sys\nfor n in range({lines}): print('progress', n, file=sys.stderr)\n"
    with ProcessGroup() as processes:
        words = [sys.executable, "-c", script + "sys.exit('ERROR: the end')"]
        processes.start(lambda: Process(words, os.environ, lambda _line: None))
        (ended,) = processes.wait(lambda: None)
    assert ended.lines[0] == "progress 0"
    assert len(ended.lines) == LINES_MAX * 2
    assert error_text(ended.lines) == "ERROR: the end"
