"""What must hold between the keys of a load line, beyond the type of each."""

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
    """Yield what a load line cannot have, and limits that are none."""
    for index, workload in enumerate(study.workloads):
        if not isinstance(workload, Loadline):
            continue
        place = ("workload", index)
        for attribute, key in (("rate_per_s", "rate"), ("burst", "burst")):
            if getattr(workload, attribute) is not None:
                yield ConstraintError(
                    "has no effect here", "A load line seeks its rates itself", *place, key
                )
        for attribute, key in keys_of(workload):
            values = getattr(workload, attribute)
            if attribute != "targets" and isinstance(values, list | tuple) and len(values) > 1:
                yield ConstraintError(
                    f"holds {len(values)} values",
                    "A load line has one value of each; give each a [[workload]] of its own",
                    *place,
                    key,
                )
        try:
            parse_latency_ns(workload.limit)
        except ValueError as error:
            expected = f"Expected {LATENCY_EXPECTED}"
            yield ConstraintError(f"is wrong: {error}", expected, *place, "limit")
        if workload.budget_s < workload.duration_s * SAMPLES_MIN:
            yield ConstraintError(
                f"is {workload.budget_s:g}, less than {SAMPLES_MIN} samples of "
                f"{workload.duration_s:g} s",
                "The rates around the boundary are measured again and again",
                *place,
                "budget_seconds",
            )
