"""Constraints between the keys of a load line, beyond the type of each."""

from __future__ import annotations

from collections.abc import Iterator

from seatrial.study.check import keys_of
from seatrial.study.problems import ConstraintError
from seatrial.study.schema import Study
from seatrial.trials.loadline.study import (
    LATENCY_EXPECTED,
    SAMPLES_MIN,
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
                yield ConstraintError(
                    "has no effect here", "A load line searches for its rates itself", *path, key
                )
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
            parse_latency_ns(workload.limit)
        except ValueError as error:
            expected = f"Expected {LATENCY_EXPECTED}"
            yield ConstraintError(f"is invalid: {error}", expected, *path, "limit")
        if workload.budget_s < workload.duration_s * SAMPLES_MIN:
            yield ConstraintError(
                f"is {workload.budget_s:g}, less than {SAMPLES_MIN} samples of "
                f"{workload.duration_s:g} s",
                "Rates around the limit are measured repeatedly",
                *path,
                "budget_seconds",
            )
