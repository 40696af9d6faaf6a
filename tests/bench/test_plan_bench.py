"""The bench of plans: it counts what the command judged, and says what was missed."""

from __future__ import annotations

import plan
import pytest


def page(*real_s: float) -> str:
    return plan.section(
        plan.BenchResult(
            conditions=["- a machine"],
            counts={"with growth": (1935, 10_000)},
            real_s={"with growth": list(real_s)},
            cpu_s={"with growth": [3.0] * len(real_s)},
            seed=1,
            loads=[0.5] * len(real_s),
        )
    )


def test_a_round_above_the_limit_is_a_miss():
    rounds = [4.0, 5.0, 6.0, 5.0, 4.0, 5.0, 6.0, 5.0, 4.0, 5.0]
    assert "| with growth | 1,935 | 10,000 | 5.0 (4.0 to 6.0) | 6.0 |" in page(*rounds)
    assert page(*rounds).endswith("| met |")
    assert page(*rounds[1:], 11.0).endswith("| missed |")


@pytest.mark.slow
def test_the_command_judges_a_thousand_candidates_in_ten_thousand_worlds():
    _, cpu_s, (candidates, worlds) = plan.plan(plan.NEEDS["reads and writes"])
    assert candidates >= 1000
    assert worlds == 10_000
    assert cpu_s > 0
