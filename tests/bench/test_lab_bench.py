"""The bench of the lab: what its page says of made-up figures; labs that run are in tests/lab."""

from __future__ import annotations

import itertools

import lab

DRIFT = [1.0, 2.0, 1.5, 0.7, 1.1, 0.9, 1.3, 0.8, 1.0, 1.2]


def page(free_s: float) -> str:
    took_s = {lab.SHIPPED: 1.0, lab.AGAIN: 1.0, lab.FREE: free_s}
    own = itertools.product(lab.PLACES, took_s.items(), lab.LOADS)
    seconds = {
        (place, name, load): [each_s * drift for drift in DRIFT]
        for place, (name, each_s), load in own
    }
    return lab.section(lab.Measured(seconds=seconds, seed=1, loads=[0.5] * len(DRIFT)))


def test_ratios_are_taken_inside_each_round_whatever_the_machine_does_meanwhile():
    rows = [line for line in page(2.5).splitlines() if "2.50 (2.50 to 2.50)" in line]
    assert len(rows) == len(lab.PLACES) * len(lab.LOADS)
    assert all(row.endswith("| 1.00 (1.00 to 1.00) |") for row in rows)


def test_the_lab_without_a_processor_of_its_own_is_the_lab_in_all_else():
    assert lab.UserModeLinux.one_processor
    assert not lab.AnyProcessor.one_processor
    assert vars(lab.AnyProcessor).keys() - {"one_processor"} <= {
        *("__module__", "__doc__", "__annotations__", "__abstractmethods__", "_abc_impl")
    }
