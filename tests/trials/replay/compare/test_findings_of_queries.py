"""What is found in queries before and after, and what is not."""

from __future__ import annotations

import math

from seatrial.findings.registry import (
    find_in_before_after,
)
from seatrial.stats.estimate import Estimate
from seatrial.trials.replay.compare.model import (
    BeforeAfter,
    CallFigures,
    Change,
    Overall,
    ServerWork,
    Side,
    Table,
)


def ratio(value: float) -> Estimate:
    return Estimate(value=value, low=value * 0.9, high=value * 1.1, rounds=10, unit="ratio")


def change(text: str, factor: float, answer: str, total_s: float = 10.0, **more) -> Change:
    return Change(
        key=text,
        text=text,
        kind="select",
        before=CallFigures(calls=100, total_s=total_s),
        after=CallFigures(calls=100, total_s=total_s / factor),
        speed_up=ratio(factor),
        saved_s=total_s - total_s / factor,
        answer=answer,
        **more,
    )


def found_in(*changes: Change, kind: str = "replay"):
    side = Side(
        name="a", kind=kind, clock="client", units=10, covered_s=9.0, calls=1e3, total_s=9.0
    )
    overall = Overall(
        speed_up=ratio(2.0), geometric=ratio(2.0), answer="faster", p_value=0.01,
        below_floor=False, within_share=None, rounds_more=None,
        before_s=math.fsum(each.before.total_s for each in changes), after_s=1.0,
        faster=1, slower=1, same=0, undecided=0,
    )  # fmt: skip
    table = Table(
        before=side, after=side, basis="interleaved", overall=overall, changes=list(changes)
    )
    reported = BeforeAfter(pages=table) if kind == "web" else BeforeAfter(queries=table)
    return find_in_before_after(reported)


FASTER = change("SELECT 1", 3.0, "faster", total_s=900.0)


def test_nothing_is_found_where_nothing_significantly_became_slower():
    assert found_in(FASTER, change("SELECT 2", 0.5, "undecided")) == []
    assert find_in_before_after(BeforeAfter()) == []


def test_what_became_slower_is_reported_by_the_slowest_and_by_what_it_costs():
    slow = change("SELECT slow\n  FROM t", 0.25, "slower", total_s=10.0)
    (found,) = found_in(FASTER, change("SELECT 2", 0.8, "slower"), slow)
    assert (found.kind, found.severity) == ("query_regressed", "warning")
    assert found.sentence.startswith(
        "2 of 3 queries became significantly slower, the slowest 4.0x slower (3.6 to 4.4): SELECT "
        "slow FROM t. Together they take 32 s more per unit of load (4 % of the time before)."
    )
    assert found.evidence["slower_factor_max"] == 4.0
    assert "do not explain it, or are not known" in found.cause


def test_what_costs_next_to_nothing_is_a_note():
    (found,) = found_in(FASTER, change("SELECT 2", 0.5, "slower", total_s=0.5))
    assert found.severity == "note"


def test_reads_and_plans_are_named_as_causes():
    work = {
        "server_before": ServerWork(calls=9, blocks_read=3),
        "server_after": ServerWork(calls=9, blocks_read=90),
    }
    (reading,) = found_in(change("SELECT 2", 0.5, "slower", **work))
    assert "fewer hits in shared buffers" in reading.cause
    plan = {"plan_before": "Index Scan(i)", "plan_after": "Seq Scan(t)", "plan_changed": True}
    regressed, planned = found_in(change("SELECT 2", 0.5, "slower", **plan))
    assert "The plan of 1 of them changed" in regressed.cause
    assert (planned.kind, planned.severity) == ("plan_changed", "warning")
    assert "Index Scan(i) before, Seq Scan(t) after, 2.0x slower (1.8 to 2.2)" in planned.sentence


def test_a_plan_that_changed_for_the_better_is_a_note():
    plan = {"plan_before": "Seq Scan(t)", "plan_after": "Index Scan(i)", "plan_changed": True}
    (found,) = found_in(change("SELECT 2", 4.0, "faster", **plan))
    assert (found.kind, found.severity) == ("plan_changed", "note")
    assert found.sentence.startswith("The plans of 1 of 1 queries changed; 0 of them")


def test_pages_are_called_pages_and_sent_to_their_queries():
    (found,) = found_in(change("GET /slow", 0.5, "slower"), kind="web")
    assert "1 of 1 pages" in found.sentence
    assert "sql compare" in found.next
