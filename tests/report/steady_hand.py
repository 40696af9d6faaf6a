"""Steady states made by hand: fresh, in transition, steady, and away from it again."""

from __future__ import annotations

from report.exports_hand import estimate, make_cell
from seatrial.stats.steady.phases import Phase, RuleResult, State, SteadyState


def make_phase(state: State, start_s: float, end_s: float, rate_per_s: float) -> Phase:
    return Phase(
        state=state,
        start_s=start_s,
        end_s=end_s,
        rate=estimate((rate_per_s, rate_per_s * 0.97, rate_per_s * 1.03), "IOPS", 1),
    )


def make_rule(rule: str = "snia", **changes) -> RuleResult:
    values = {
        "rule": rule,
        "met": True,
        "met_at_s": 5.0,
        "met_after": 5,
        "window": 5,
        "range_share": 0.11,
        "line_share": 0.04,
        "sentence": f"The rule {rule} is met from 5 s on: range 11 %, line 4 %.",
    }
    return RuleResult(**values | changes)


def make_steady(**changes) -> SteadyState:
    values = {
        "cell": make_cell("write").key,
        "operation": "write",
        "over": "timeline",
        "round": 0,
        "rules": [make_rule(), make_rule("fio_slope", met=False, met_at_s=None, met_after=None)],
        "phases": [
            make_phase("fresh", 0.0, 2.0, 9_000),
            make_phase("transition", 2.0, 3.0, 5_000),
            make_phase("steady", 3.0, 8.0, 2_000),
            make_phase("left", 8.0, 10.0, 900),
        ],
        "sentence": "Writes do 9,000 IOPS for 2 s, fall, are steady at 2,000 IOPS from 3 s on, "
        "and leave it after 8 s.",
    }
    return SteadyState(**values | changes)
