"""The bench of the lab: what its page says of made-up figures; labs that run are in tests/lab."""

from __future__ import annotations

import itertools

import lab_speed

DRIFT = [1.0, 2.0, 1.5, 0.7, 1.1, 0.9, 1.3, 0.8, 1.0, 1.2]


def page(free_s: float) -> str:
    took_s = {lab_speed.SHIPPED: 1.0, lab_speed.AGAIN: 1.0, lab_speed.FREE: free_s}
    own = itertools.product(lab_speed.CONDITIONS, took_s.items(), lab_speed.LOADS)
    seconds = {
        (place, name, load): [each_s * drift for drift in DRIFT]
        for place, (name, each_s), load in own
    }
    return lab_speed.section(
        lab_speed.BenchResult(seconds=seconds, seed=1, loads=[0.5] * len(DRIFT))
    )


def test_ratios_are_taken_inside_each_round_whatever_the_machine_does_meanwhile():
    rows = [line for line in page(2.5).splitlines() if "2.50 (2.50 to 2.50)" in line]
    assert len(rows) == len(lab_speed.CONDITIONS) * len(lab_speed.LOADS)
    assert all(row.endswith("| 1.00 (1.00 to 1.00) |") for row in rows)


def test_the_lab_without_a_processor_of_its_own_is_the_lab_in_all_else():
    assert lab_speed.UserModeLinux.one_processor
    assert not lab_speed.AnyProcessor.one_processor
    assert vars(lab_speed.AnyProcessor).keys() - {"one_processor"} <= {
        *("__module__", "__doc__", "__annotations__", "__abstractmethods__", "_abc_impl")
    }
