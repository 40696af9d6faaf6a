"""pgbench's per-transaction log: the sums are pgbench's own, the percentiles those of its lines."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from seatrial._core import Histogram, NativeDefectError, NativeUsageError
from seatrial.errors import TargetError
from seatrial.results.model import ErrorSample, OperationResult, Outcome, Stall, Timeline
from seatrial.trials.database.measure.driver_result import DriverOptions
from seatrial.trials.database.measure.pgbench import read_logs
from trials.database.measure.null_runs import (
    PROGRAMS,
    columns,
    logged,
    needs_pgbench,
    null_server,
    read,
)

EVERY_PROGRAM = pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.parts[-3])
PERCENTS = (1, 10, 50, 90, 99, 99.9, 100)
AT = 1_795_219_200
"""2026-11-21, as Unix time in seconds."""


def percentiles_agree(histogram: Histogram, values_us: list[int]) -> None:
    """Check percentiles to within a bucket, which is at most 1/128 wide."""
    for percent in PERCENTS:
        exact_ns = 1000 * np.percentile(values_us, percent, method="inverted_cdf")
        assert histogram.percentile_ns(percent) == pytest.approx(exact_ns, rel=1 / 128), percent
    assert histogram.count == len(values_us)
    assert (histogram.min_ns, histogram.max_ns) == (1000 * min(values_us), 1000 * max(values_us))


def printed_as(value_us: float) -> float:
    """Return a time in ms with the digits that pgbench prints."""
    return float(f"{value_us / 1000:.3f}")


@needs_pgbench
@EVERY_PROGRAM
def test_totals_are_pgbench_s_own_and_percentiles_those_of_its_log(program, tmp_path):
    with null_server(tmp_path) as server:
        printed, paths = logged(
            program, server, tmp_path / "log", *("-c4", "-j2", "-T1", "-P1", "-b", "select-only")
        )
    assert len(paths) == 2
    parts = read([paths])
    exact = parts["exact"]
    assert parts["processes"] == [exact]
    assert exact["transactions"] == printed["transactions"] == len(columns(paths)) > 1000
    mean_us = exact["latency_us_sum"] / exact["transactions"]
    assert printed_as(mean_us) == printed["latency_ms_mean"]
    assert exact["clients"] == 4
    assert (exact["failed"], exact["skipped"], exact["retries"]) == (0, 0, 0)

    values_us = [int(words[2]) for words in columns(paths)]
    operation = parts["operations"]["transaction"]
    percentiles_agree(Histogram.decode(operation["response"]), values_us)
    assert operation["service"] is None
    assert exact["latency_us_sum"] == sum(values_us)
    assert exact["latency_us_max"] == max(values_us)
    ends_us = [1_000_000 * int(words[4]) + int(words[5]) for words in columns(paths)]
    assert exact["last_end_unix_us"] == max(ends_us)
    assert exact["first_start_unix_us"] == min(np.subtract(ends_us, values_us))
    assert parts["duration_s"] == pytest.approx(1.0, abs=0.2)
    assert parts["outcome"]["offered"] == parts["outcome"]["completed"] == len(values_us)


@needs_pgbench
@EVERY_PROGRAM
def test_parts_are_those_of_a_sample(program, tmp_path):
    with null_server(tmp_path) as server:
        _, paths = logged(program, server, tmp_path / "log", "-c2", "-T1")
    parts = read([paths])
    outcome = msgspec.convert(parts["outcome"], Outcome)
    operations = msgspec.convert(parts["operations"], dict[str, OperationResult])
    timeline = msgspec.convert(parts["timeline"], Timeline)
    msgspec.convert(parts["stalls"], list[Stall])
    msgspec.convert(parts["errors"], list[ErrorSample])
    assert timeline.slice_ns == 100_000_000
    assert [row.operation for row in timeline.slices] == ["transaction"] * len(timeline.slices)
    assert 9 <= len(timeline.slices) <= 12
    merged = Histogram.of([])
    for row in timeline.slices:
        merged = merged.merged(Histogram.decode(row.response))
    assert merged == operations["transaction"].response_histogram()
    assert sum(row.completed for row in timeline.slices) == outcome.completed


@needs_pgbench
@EVERY_PROGRAM
def test_under_a_rate_the_response_holds_the_lag_and_the_service_does_not(program, tmp_path):
    # 10 connections' transactions are due at once on one thread that sleeps now and then.
    (tmp_path / "sleepy.sql").write_text("\\sleep 3 ms\nSELECT 1;\n")
    with null_server(tmp_path) as server:
        printed, paths = logged(
            program,
            server,
            tmp_path / "log",
            *("-c2", "-T1", "-R", "800", "-L", "40", "-f", str(tmp_path / "sleepy.sql")),
        )
    parts = read([paths], has_lag=True)
    exact, outcome = parts["exact"], parts["outcome"]
    assert exact["transactions"] == printed["transactions"] == outcome["completed"]
    assert outcome["late_skipped"] == exact["skipped"] == printed["skipped"] > 0
    assert outcome["offered"] == len(columns(paths))
    assert printed_as(exact["lag_us_sum"] / exact["transactions"]) == printed["lag_ms_mean"]
    assert printed_as(exact["lag_us_max"]) == printed["lag_ms_max"]
    assert printed_as(exact["latency_us_sum"] / exact["transactions"]) == printed["latency_ms_mean"]
    done = [words for words in columns(paths) if words[2] != "skipped"]
    operation = parts["operations"]["transaction"]
    percentiles_agree(Histogram.decode(operation["response"]), [int(words[2]) for words in done])
    service_us = [int(words[2]) - int(words[6]) for words in done]
    percentiles_agree(Histogram.decode(operation["service"]), service_us)
    assert min(service_us) >= 3000


@needs_pgbench
@EVERY_PROGRAM
def test_processes_are_summed_apart_and_together(program, tmp_path):
    with null_server(tmp_path) as server:
        runs = [
            logged(program, server, tmp_path / f"log-{number}", "-c2", "-j2", f"-t{number}")
            for number in (50, 70)
        ]
    parts = read([paths for _, paths in runs])
    assert [part["transactions"] for part in parts["processes"]] == [100, 140]
    assert parts["exact"]["transactions"] == 240
    assert parts["exact"]["clients"] == 4
    sums_us = [part["latency_us_sum"] for part in parts["processes"]]
    assert parts["exact"]["latency_us_sum"] == sum(sums_us)


def test_what_failed_is_counted_and_reported(tmp_path):
    lines = [
        f"0 1 900 0 {AT} 1000 2",
        f"1 1 serialization 0 {AT} 2000 3",
        f"0 2 deadlock 0 {AT} 3000 1",
        f"0 3 failed 1 {AT} 4000 0",
    ]
    path = tmp_path / "log.1"
    path.write_text("\n".join(lines) + "\n0 4 7")
    parts = read([[path]], has_retries=True, scripts=["ingest", "query"])
    assert parts["outcome"] == {
        **{"offered": 4, "completed": 1, "failed": 3, "late_skipped": 0, "in_flight_at_end": 0}
    }
    assert (parts["errors_count"], parts["exact"]["retries"], parts["truncated_lines"]) == (3, 6, 1)
    reported = [(error["operation"], error["name"], error["at_s"]) for error in parts["errors"]]
    assert reported == [
        ("ingest", "serialization", pytest.approx(0.0019)),
        ("ingest", "deadlock", pytest.approx(0.0029)),
        ("query", "failed", pytest.approx(0.0039)),
    ]
    assert parts["operations"]["query"]["completed"] == 0


def test_a_stall_is_reported_as_the_engine_does(tmp_path):
    paths = [tmp_path / "log.1", tmp_path / "log.1.1"]
    paths[0].write_text(f"0 1 10000 0 {AT} 10000\n0 2 490000 1 {AT} 500000\n")
    paths[1].write_text(f"1 1 12000 1 {AT} 12000\n1 2 489000 0 {AT} 501000\n")
    (stall,) = read([paths], scripts=["ingest", "query"])["stalls"]
    assert stall == {
        "start_s": 0.012,
        "length_s": 0.488,
        "cause": "unknown",
        "operations": {"ingest": 1, "query": 1},
        "depth": 2,
        "evidence": {},
    }


def test_a_line_that_makes_no_sense_is_reported_with_file_line_and_text(tmp_path):
    path = tmp_path / "log.1"
    path.write_text(f"0 1 900 0 {AT} 1000\n0 2 9x0 0 {AT} 2000\n")
    with pytest.raises(NativeUsageError, match=r'log\.1, line 2: "0 2 9x0 0 \d+ 2000": "9x0" in'):
        read([[path]])
    with pytest.raises(NativeDefectError, match="0 scripts"):
        read([[path]], scripts=[])
    with pytest.raises(NativeUsageError, match="cannot be read"):
        read([[tmp_path / "missing"]])
    options = DriverOptions(
        duration_s=1, seed=1, slice_ms=100, stall_threshold_ms=50, folder=tmp_path
    )
    for damaged in (path, tmp_path / "missing"):
        with pytest.raises(TargetError, match=rf"{damaged}.*is full or failing"):
            read_logs([[damaged]], ["transaction"], options, has_lag=False)
