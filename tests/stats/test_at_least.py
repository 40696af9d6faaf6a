"""Percentiles that unanswered requests leave unknown: what they are at least."""

from __future__ import annotations

import csv
import io
import json
import random

import pytest

from seatrial.findings.summary import summarise, summarise_cell
from seatrial.report.exports import export
from seatrial.report.page import render
from seatrial.report.table import as_text
from seatrial.report.tables import tables
from seatrial.stats.cell_estimates import latency_estimates
from seatrial.stats.estimate import Estimate
from seatrial.stats.wording import format_at_least, format_value
from seatrial.study.hosts import FACTOR
from seatrial.trials.loadline.analysis.measured_steps import measured_steps
from seatrial.trials.loadline.analysis.model import LatencyTarget

from .builders import MS_NS, cell_of, run_of, sample_of

S_NS = 1_000_000_000
RATE_PER_S = 1_000.0


def frozen(due_s, *, end_s=5.0, freeze_s=3.5, kind="fixed", burst=None, **rest):
    """A round in which nothing ends from ``freeze_s`` on, and the times that it would have had.

    Requests take 1 ms before. What is due later is skipped, and would take as long as to the end.
    """
    arrival = {"kind": kind, "rate_per_s": RATE_PER_S} | ({"burst": burst} if burst else {})
    cell = cell_of(workload="io", arrival=arrival, limit={"duration_s": end_s})
    answered = [due for due in due_s if due < freeze_s]
    waits_ns = [int((end_s - due) * S_NS) for due in due_s if freeze_s <= due < end_s]
    sample = sample_of(
        cell, completed=len(answered), late_skipped=len(waits_ns), duration_s=end_s, **rest
    )
    return sample, sorted([MS_NS] * len(answered) + waits_ns)


def fixed_due_s(end_s=5.0):
    return [number / RATE_PER_S for number in range(int(end_s * RATE_PER_S))]


def bound_of(*samples, kind="read", name="p99"):
    return summarise_cell(samples).latency_at_least.get(kind, {}).get(name)


def test_a_frozen_fixed_rate_has_the_percentile_of_the_waits_as_its_bound():
    sample, times_ns = frozen(fixed_due_s())
    bound = bound_of(sample)
    exact_ns = times_ns[int(0.99 * len(times_ns)) - 1]
    assert exact_ns * 0.995 <= bound.value <= exact_ns
    assert format_at_least(bound) == "at least 1.4 s"
    assert (bound.rounds, bound.unit) == (1, "ns")


@pytest.mark.parametrize(
    ("per_s", "text"), [(198.7, "198 IOPS"), (17.9, "17.9 IOPS"), (19_850, "19.8k IOPS")]
)
def test_a_proven_rate_is_never_shown_above_itself_nor_far_below(per_s, text):
    proven = Estimate(value=per_s, low=per_s, high=None, rounds=3, unit="IOPS")
    assert format_value(proven) == f"at least {text}"


def poisson_due_s(rng):
    due, found = 0.0, []
    while (due := due + rng.expovariate(RATE_PER_S)) < 5.0:
        found.append(due)
    return found


def batches_due_s(rng, burst):
    """Times of batches of geometric sizes."""
    due, found = 0.0, []
    while (due := due + rng.expovariate(RATE_PER_S / burst)) < 5.0:
        found.append(due)
        while rng.random() > 1 / burst:
            found.append(due)
    return found


@pytest.mark.parametrize("kind", ["fixed", "poisson", "bursts", "batches"])
@pytest.mark.parametrize("name", ["p90", "p99"])
def test_the_bound_never_exceeds_the_shortest_times_that_the_requests_can_have(kind, name):
    rng = random.Random(f"{kind} {name}")
    for _ in range(30):
        burst = rng.choice((10, 200)) if kind == "bursts" else None
        due_s = poisson_due_s(rng) if kind == "poisson" else fixed_due_s()
        if kind == "batches":
            burst = rng.choice((3, 30))
            due_s = batches_due_s(rng, burst)
        elif burst:
            due_s = [(number // burst) * burst / RATE_PER_S for number in range(5_000)]
        sample, times_ns = frozen(due_s, freeze_s=5 - rng.uniform(0.6, 4), kind=kind, burst=burst)
        bound = bound_of(sample, name=name)
        exact_ns = times_ns[int(float(name[1:]) / 100 * len(times_ns)) - 1]
        # A bucket of the histogram is 0.78 % wide at most.
        assert bound.value <= exact_ns
        # What batches leave open is larger: 14 of them, and four of their standard deviations.
        open_s = 0.8 if kind == "batches" else 0.25
        assert bound.value > exact_ns * 0.5 - open_s * S_NS


def test_a_bound_is_no_value():
    sample, _ = frozen(fixed_due_s())
    summary = summarise_cell([sample])
    assert "p99" not in summary.latency["read"]
    assert "p99" not in latency_estimates([sample])["read"]
    assert "p50" in summary.latency["read"]
    assert "p50" not in summary.latency_at_least["read"]


def test_each_host_skips_a_burst_of_its_own():
    cell = cell_of(
        workload="io",
        arrival={"kind": "bursts", "rate_per_s": 1000, "burst": 1000},
        factors={FACTOR: 2},
    )
    # The last burst of each host came just before the end.
    sample = sample_of(cell, completed=20_000, late_skipped=2000, duration_s=10.0)
    assert bound_of(sample).value == pytest.approx(MS_NS, rel=0.01)


def test_rounds_that_know_the_percentile_and_rounds_that_do_not_give_one_bound():
    sample, _ = frozen(fixed_due_s())
    known = sample_of(sample.cell, completed=5000, duration_s=5.0, round=1)
    low_ns = (bound_of(sample).value * MS_NS) ** 0.5
    assert bound_of(sample, known).value == pytest.approx(low_ns, rel=0.005)
    assert bound_of(sample, known).rounds == 2
    # Too few requests to know anything: of such a round there is no bound either.
    few = sample_of(sample.cell, completed=500, duration_s=5.0, round=1)
    assert bound_of(sample, few) is None


def test_few_that_completed_and_many_that_were_skipped_have_a_bound():
    sample, _ = frozen(fixed_due_s(), freeze_s=0.5)
    bounds = summarise_cell([sample]).latency_at_least["read"]
    assert bounds["p50"].value == pytest.approx(2.0 * S_NS, rel=0.01)
    assert "p99.9" not in bounds  # 5,000 requests are too few to know it, whatever their times


def test_requests_in_flight_have_waited_for_what_the_oldest_waited_beyond_the_limit():
    cell = cell_of(threads=64, limit={"duration_s": 2.0})
    hung = {"completed": 1_500, "in_flight": 64, "duration_s": 1.2}
    sample = sample_of(cell, **hung, oldest_in_flight_ns=11 * S_NS)
    assert bound_of(sample).value == pytest.approx(9 * S_NS, rel=1e-6)
    # What is known of them is only that they were slower than the others.
    unknown = sample_of(cell, **hung)
    assert bound_of(unknown).value <= MS_NS


def test_where_nothing_is_missing_or_another_tool_measured_there_is_no_bound():
    sample, _ = frozen(fixed_due_s(), engine="pgbench")
    assert summarise_cell([sample]).latency_at_least == {}
    whole = sample_of(completed=500)
    assert summarise_cell([whole]).latency_at_least == {}


def test_terminal_page_and_exports_show_the_bound_in_place_of_nothing():
    sample, _ = frozen(fixed_due_s())
    summary = summarise(run_of(), [sample])
    assert any("at least 1.4 s" in as_text(table) for table in tables(summary))
    assert "at least 1.4 s" in export(summary, "markdown")
    assert ">at least 1.4 s</td>" in render(summary)
    [cell] = json.loads(export(summary, "json"))["cells"]
    assert cell["latency_at_least"]["read"]["p99"]["value"] == bound_of(sample).value
    assert "p99" not in cell["latency"]["read"]
    [row] = csv.DictReader(io.StringIO(export(summary, "csv")))
    assert (row["p99_ns"], float(row["p99_ns_at_least"])) == ("", bound_of(sample).value)


def test_a_step_of_a_load_line_has_the_bound_of_its_response_time_alone():
    sample, _ = frozen(fixed_due_s())
    latency_target = LatencyTarget(
        percentile="p99", limit_ns=5 * MS_NS, sample_s=5.0, budget_s=60.0, seed=1
    )
    [measured] = measured_steps([sample], latency_target)
    assert measured.percentile("p99") is None
    assert format_at_least(measured.step.response_at_least["p99"]) == "at least 1.4 s"
