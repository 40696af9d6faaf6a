"""Constraints between the keys of a load line, beyond the type of each."""

from __future__ import annotations

from collections.abc import Iterator

from seatrial.study.check import keys_of
from seatrial.study.problems import ConstraintError, no_effect
from seatrial.study.schema import Study
from seatrial.trials.loadline.study import (
    LATENCY_EXPECTED,
    LIMITS_TO_FILL,
    SAMPLES_MIN,
    SHARE_OF_BUDGET_MAX,
    Loadline,
    parse_latency_ns,
)


def check_load_lines(study: Study) -> Iterator[ConstraintError]:
    """Yield keys that a load line does not support, and invalid limits."""
    for index, workload in enumerate(study.workloads):
        if not isinstance(workload, Loadline):
            continue
        path = ("workload", index)
        for attribute, key in (("rate_per_s", "rate"), ("burst", "burst")):
            if getattr(workload, attribute) is not None:
                yield no_effect("A load line searches for its rates itself", *path, key)
        for attribute, key in keys_of(workload):
            values = getattr(workload, attribute)
            if attribute != "targets" and isinstance(values, list | tuple) and len(values) > 1:
                yield ConstraintError(
                    f"has {len(values)} values",
                    "A load line takes one value per key; use a separate [[workload]] for each",
                    *path,
                    key,
                )
        try:
            limit_s = parse_latency_ns(workload.limit) / 1e9
        except ValueError as error:
            expected = f"Expected {LATENCY_EXPECTED}"
            yield ConstraintError(f"is invalid: {error}", expected, *path, "limit")
        else:
            longest_s = max(workload.duration_s, workload.budget_s * SHARE_OF_BUDGET_MAX)
            if longest_s <= LIMITS_TO_FILL * limit_s:
                yield ConstraintError(
                    f"is {workload.budget_s:g}, too short for a limit of {workload.limit}",
                    f"A sample must be longer than {LIMITS_TO_FILL:g} limits, and is at most a "
                    "sixth of the budget",
                    *path,
                    "budget_seconds",
                )
        if workload.budget_s < workload.duration_s * SAMPLES_MIN:
            yield ConstraintError(
                f"is {workload.budget_s:g}, less than {SAMPLES_MIN} samples of "
                f"{workload.duration_s:g} s",
                "Rates around the limit are measured repeatedly",
                *path,
                "budget_seconds",
            )
