"""Thresholds: every selected cell must keep them, and what is not shown is not kept."""

import msgspec
import pytest

from seatrial.findings.context import Context
from seatrial.findings.model import Summary
from seatrial.findings.rules.stall import stall
from seatrial.findings.thresholds import evaluate
from seatrial.results.model import DatabaseRecord
from seatrial.stats.estimate import Estimate
from seatrial.study.thresholds import parse_threshold
from stats.builders import MS_NS, cell_of, rounds_of, run_of, sample_of, stall_of, summary_of
from stats.compare.sides import driver_sample


def evaluated(name, condition, *cells):
    summary = Summary(run=run_of(), cells=list(cells), findings=[], verdict="")
    (result,) = evaluate([parse_threshold(name, condition)], summary)
    return result


def commits(latency_ms=2.0, rates=(1000, 1000, 1000), **rest):
    cell = cell_of(workload="commit", operation="commit")
    return rounds_of(cell, rates, latency_ns=int(latency_ms * MS_NS), **rest)


@pytest.mark.parametrize(
    ("name", "condition", "met"),
    [
        ("commit.p99_ms", "< 5", True),
        ("commit.p99_ms", "< 2", False),
        ("commit.p99_us", "< 2010", True),
        ("commit.p50_ms", "<= 2.01", True),
        ("commit.max_ms", "< 2.1", True),
        ("commit.mean_ms", "> 1.9", True),
        ("commit.iops", "> 999", True),
        ("commit.commits_per_s", "> 1001", False),
        ("commit.mb_per_s", ">= 8", True),
        ("commit.mb_per_s", ">= 9", False),
        ("commit.stalls", "< 1", True),
        ("commit.errors", "<= 0", True),
        ("commit.stall_max_ms", "< 50", True),
    ],
)
def test_quantities(name, condition, met):
    result = evaluated(name, condition, commits())
    assert result.met is met
    assert f"{name} {condition}: {'met' if met else 'not met'}, " in result.sentence
    assert result.cell == commits().cell.key


def test_the_worst_cell_counts():
    cells = [rounds_of(cell_of(threads=n), [rate]) for n, rate in ((1, 900), (4, 500), (9, 700))]
    floor = evaluated("matrix.iops", "> 600", *cells)
    assert (floor.met, floor.worst.value) == (False, 500)
    assert "4 threads" in floor.sentence
    assert evaluated("matrix.iops", "< 800", *cells).worst.value == 900


def test_a_test_that_certainly_misses_counts_before_a_lower_bound():
    sides = {1: (300, 250, 310), 4: (198, 198, None), 9: (400, 390, 410)}
    cells = {
        threads: msgspec.structs.replace(
            rounds_of(cell_of(threads=threads), [value]),
            iops=Estimate(value=value, low=low, high=high, rounds=3, unit="IOPS"),
        )
        for threads, (value, low, high) in sides.items()
    }
    missed = evaluated("matrix.iops", ">= 320", *cells.values())
    assert (missed.worst.value, missed.doubtful, missed.mark) == (300, False, "breached")
    unknown = evaluated("matrix.iops", ">= 320", cells[4], cells[9])
    assert (unknown.worst.value, unknown.met, unknown.mark) == (198, False, "not shown")
    assert evaluated("matrix.iops", ">= 320", cells[9]).mark == "kept"


def test_brackets_narrow_the_cells():
    cells = [rounds_of(cell_of(threads=n), [rate]) for n, rate in ((1, 100), (10, 900))]
    assert evaluated("matrix[threads=10, block_size=8KiB].iops", "> 800", *cells).met


def test_an_interval_across_the_limit_is_doubtful():
    confident = evaluated("commit.iops", "> 500", commits(rates=(990, 1000, 1010)))
    assert (confident.met, confident.doubtful) == (True, False)
    unsure = evaluated("commit.iops", "> 995", commits(rates=(990, 1000, 1010)))
    assert (unsure.met, unsure.doubtful) == (True, True)
    assert "interval includes the limit" in unsure.sentence
    breached = evaluated("commit.iops", "> 1005", commits(rates=(990, 1000, 1010)))
    assert (breached.met, breached.doubtful) == (False, True)


def test_a_limit_that_all_meet_is_doubtful_if_any_may_not():
    sure = rounds_of(cell_of(threads=1), [105, 105, 105])
    unsure = rounds_of(cell_of(threads=4), [60, 160, 110])
    found = evaluated("matrix.iops", "> 100", sure, unsure)
    assert (found.met, found.doubtful, found.cell) == (True, True, sure.cell.key)
    assert "but the interval in" in found.sentence
    assert "4 threads" in found.sentence
    found = evaluated("matrix.iops", "> 107", sure, unsure)
    assert (found.met, found.doubtful) == (False, False)


def test_stalls_and_errors_are_counted_over_all_rounds():
    cell = cell_of(workload="commit", operation="commit")
    summary = summary_of(
        sample_of(cell, stalls=[stall_of(0.1), stall_of(0.4)], failed=2, stalls_dropped=1),
        sample_of(cell, stalls=[stall_of(0.2)], failed=1, round=1),
    )
    stalls = evaluated("commit.stalls", "< 4", summary)
    assert (stalls.met, stalls.worst.value) == (False, 4)
    assert evaluated("commit.errors", "<= 3", summary).met
    longest = evaluated("commit.stall_max_ms", "< 400", summary)
    assert not longest.met
    assert "longest stall 400 ms" in longest.sentence


def test_a_figure_that_misses_a_limit_is_not_rounded_to_it():
    slow = commits(latency_ms=10.04, rates=(1000,), stalls=[stall_of(10.087)])
    assert "not met, 10.04 ms (" in evaluated("commit.p99_ms", "<= 10", slow).sentence
    longest = evaluated("commit.stall_max_ms", "<= 10000", slow)
    assert "not met, longest stall 10,100 ms" in longest.sentence
    assert "longest stall 10 s" in evaluated("commit.stall_max_ms", "<= 5000", slow).sentence


@pytest.mark.parametrize(
    ("condition", "answer"),
    [
        (">= 8", "not met, 7.81 MiB/s ("),  # 8.19 MB/s
        ("> 7.81", "met, 7.812 MiB/s ("),
        (">= 0", "met, 8.19 MB/s ("),
    ],
)
def test_a_limit_in_binary_units_is_answered_in_them(condition, answer):
    assert f": {answer}" in evaluated("commit.mib_per_s", condition, commits()).sentence


@pytest.mark.parametrize(
    ("name", "cells", "reason"),
    [
        ("nothing.iops", [commits()], "it selects no test; workloads measured: commit"),
        ("commit[threads=99].iops", [commits()], "it selects no test"),
        ("commit.p99.9_ms", [commits()], "takes 10,000 of each kind in every round"),
        ("commit.iops", [commits(rates=(0, 0))], "0 completed"),
        ("commit.p50_ms", [commits(rates=(0,))], "0 completed"),
        ("commit.mean_ms", [commits(rates=(1000, 0))], "no mean response time available"),
        ("commit.iops", [], "workloads measured: none"),
    ],
)
def test_what_was_not_shown_was_not_kept(name, cells, reason):
    result = evaluated(name, "< 1000000000", *cells)
    assert not result.met
    assert result.worst is None
    assert result.mark == "not shown"
    assert reason in result.sentence


def batches(*outcomes):
    """A batch's rounds: how long each took (s), None where it failed."""
    cell = cell_of(workload="nightly", operation="batch", kind="batch")
    reported = [{} if real_s is None else {"real": real_s, "user": 1.0} for real_s in outcomes]
    records = [DatabaseRecord(server="x", binaries="given", start_state="cold", batch_s=each)
               for each in reported]  # fmt: skip
    return summary_of(
        *(
            sample_of(
                cell,
                completed=int(real_s is not None),
                failed=int(real_s is None),
                latency_ns=round((real_s or 0) * 1e9),
                round=number,
                database=record,
            )
            for number, (real_s, record) in enumerate(zip(outcomes, records, strict=True))
        )
    )


def test_a_batch_keeps_to_its_real_time():
    kept = evaluated("nightly.real_s", "< 1800", batches(1700.0, 1710.0, 1720.0))
    assert kept.met
    assert kept.worst.value == pytest.approx(1710e9, rel=1e-3)
    assert not evaluated("nightly.real_s", "< 1700", batches(1700.0, 1710.0, 1720.0)).met


def test_a_batch_that_failed_in_one_round_kept_nothing():
    result = evaluated("nightly.real_s", "< 1800", batches(1700.0, None, 1720.0))
    assert not result.met
    assert "it failed in 1 of 3 rounds" in result.sentence


def test_a_database_keeps_to_its_transactions_per_second():
    cell = cell_of(workload="pgbench", operation="transaction", threads=10, factors={"scale": 100},
                   database={})  # fmt: skip
    summary = rounds_of(cell, [1900, 2000, 2100])
    assert evaluated("pgbench.tps", "> 500", summary).met
    assert evaluated("pgbench[scale=100, clients=10].p99_ms", "< 5", summary).met
    assert "tps" in evaluated("pgbench.tps", "> 5000", summary).sentence
    assert "selects no test" in evaluated("pgbench[threads=10].tps", "> 5", summary).sentence


def test_results_are_in_the_order_of_the_thresholds():
    summary = Summary(run=run_of(), cells=[commits()], findings=[], verdict="")
    names = ["commit.p50_ms", "commit.iops", "commit.stalls"]
    results = evaluate([parse_threshold(name, "> 0") for name in names], summary)
    assert [result.threshold.name for result in results] == names


def test_gaps_that_are_normal_for_a_device_are_not_stalls():
    cell = cell_of(block_size_bytes=4 << 20, threads=40)
    disk = rounds_of(cell, (30, 31, 29), latency_ns=1300 * MS_NS, stalls=[stall_of(1.2)])
    assert evaluated("matrix.stalls", "< 1", disk).met
    assert evaluated("matrix.stall_max_ms", "< 1000", disk).met
    hung = summary_of(sample_of(cell, completed=0, in_flight=40, stalls=[stall_of(1.2)]))
    assert evaluated("matrix.stalls", "< 1", hung).worst.value == 1


@pytest.mark.parametrize(
    ("lengths_s", "stalls_count"), [((1.2, 1.3), 0), ((1.2, 9.0), 1), ((8.0, 9.0), 702)]
)
def test_stalls_that_were_not_stored_are_shorter_than_those_that_were(lengths_s, stalls_count):
    cell = cell_of(block_size_bytes=4 << 20, threads=40)
    stalls = [stall_of(each) for each in lengths_s]
    disk = rounds_of(cell, (30,), latency_ns=1300 * MS_NS, stalls=stalls, stalls_dropped=700)
    assert evaluated("matrix.stalls", "< 1", disk).worst.value == stalls_count
    found = stall(Context(run_of(), [disk]))
    assert [each.evidence["stalls_count"] for each in found] == [min(stalls_count, 2)] * bool(
        stalls_count
    )
    assert sum(each.evidence["stalls_dropped_count"] for each in found) == max(0, stalls_count - 2)


def test_a_kind_of_request_that_never_completed_keeps_no_percentile():
    cell = cell_of(workload="mix", operation="mixed")
    sample = sample_of(cell, completed=7000, failed=3000)
    read = msgspec.structs.replace(sample.operations["mixed"], failed=0)
    write = sample_of(cell, completed=0, failed=3000).operations["mixed"]
    mixed = msgspec.structs.replace(sample, operations={"read": read, "write": write})
    result = evaluated("mix.p99_ms", "< 5", summary_of(mixed))
    assert (result.met, result.worst) == (False, None)
    assert "no write completed" in result.sentence
    outcome = msgspec.structs.replace(sample.outcome, in_flight_at_end=1)
    both = cell_of(
        workload="mix", operation="mixed", accesses=[{"operation": "read"}, {"operation": "write"}]
    )
    hung = msgspec.structs.replace(mixed, cell=both, outcome=outcome, operations={"read": read})
    assert "no write completed" in evaluated("mix.p99_ms", "< 5", summary_of(hung)).sentence
    foreign = driver_sample(cell_of(), 0, 1000.0)
    assert "too few" in evaluated("matrix.p99_ms", "< 5", summary_of(foreign)).sentence
