"""What must hold of what a study breaks: it can be broken, and something is seen of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from seatrial.study.layouts.failure import Failure
from seatrial.study.layouts.layout import LayoutSpec
from seatrial.study.problems import ConstraintError
from seatrial.study.sampled import Sampled
from seatrial.study.schema import Study
from seatrial.study.selection import labels_of, variants_of

AFTERMATH_S: Final = 1.0
"""Shortest time for which a sample goes on after the last fault."""
ON_SECTORS: Final = ("bad_sectors", "rot")
ON_FLAKY: Final = ("bad_sectors", "falter", "drop_writes")
_DEFAULT: Final = Failure(after_s=0)


def failures(study: Study) -> Iterator[ConstraintError]:
    """Yield what does not hold of ``fail`` and ``rebuild_limit_kib_per_s`` of each workload."""
    for index, workload in enumerate(study.workloads):
        if not workload.failures:
            if workload.rebuild_limit_kib_per_s != Sampled().rebuild_limit_kib_per_s:
                yield ConstraintError(
                    "has no effect here",
                    "It belongs to fail: without it nothing is rebuilt",
                    *("workload", index, "rebuild_limit_kib_per_s"),
                )
            continue
        specs = list(variants_of(workload, study))
        own = (*_of_workload(workload), *_of_targets(workload, specs, study))
        for found in (*own, *_of_faults(workload, specs)):
            yield ConstraintError(found.seen, found.expected, "workload", index, *found.path)


def _of_workload(workload: Sampled) -> Iterator[ConstraintError]:
    if not workload.can_break_meanwhile:
        adaptive = "n adaptive" if getattr(workload, "adaptive", False) else ""
        yield ConstraintError(
            f"is given for a{adaptive} {workload.kind}",
            "Expected a workload whose duration can be set, such as io or pgbench",
            "fail",
        )
    last_s = workload.failures[-1].after_s
    if workload.duration_s < last_s + AFTERMATH_S:
        yield ConstraintError(
            f"is {workload.duration_s:g}, and the last thing is broken after {last_s:g} s",
            f"Expected at least {last_s + AFTERMATH_S:g}, so that something is seen of it",
            "seconds",
        )


def _of_targets(
    workload: Sampled, specs: Sequence[LayoutSpec], study: Study
) -> Iterator[ConstraintError]:
    if not specs:
        there = f"targets names no layout: {', '.join(workload.targets)}"
        seen = there if study.layouts else "the study has no [[layout]]"
        yield ConstraintError(f"is given, but {seen}", "Only layouts can be broken", "fail")
    exposed = next((spec for spec in specs if spec.expose == "legs"), None)
    if exposed:
        yield ConstraintError(
            f"is given, but layout {exposed.name!r} exposes its legs to be compared",
            "Break a layout that is one array, or keep to others with targets",
            "fail",
        )
    plain = set(workload.targets) & {target.label for target in study.targets}
    if plain & labels_of(workload, study):
        yield ConstraintError(
            f"is given, but target {min(plain)!r} is no layout",
            "Only layouts can be broken",
            "fail",
        )


def _of_faults(workload: Sampled, specs: Sequence[LayoutSpec]) -> Iterator[ConstraintError]:
    given = workload.fail if isinstance(workload.fail, list) else [workload.fail]
    for nth, failure in enumerate(given):
        place = ("fail", nth) if isinstance(workload.fail, list) else ("fail",)
        for found in _of_fault(failure, specs):
            yield ConstraintError(found.seen, found.expected, *place, *found.path)
        if failure.fault == "replace" and not _failed_before(failure, workload.failures):
            yield ConstraintError(
                f"replaces drive {failure.member} of leg {failure.leg}, which has not failed",
                "Expected fault = 'fail' of the same drive before it",
                *place,
            )


def _failed_before(replacing: Failure, faults: Sequence[Failure]) -> bool:
    return any(
        fault.fault == "fail"
        and (fault.leg, fault.member) == (replacing.leg, replacing.member)
        and fault.after_s < replacing.after_s
        for fault in faults
    )


def _of_fault(failure: Failure, specs: Sequence[LayoutSpec]) -> Iterator[ConstraintError]:
    if failure.sectors != _DEFAULT.sectors and failure.fault not in ON_SECTORS:
        yield ConstraintError(
            "has no effect here", f"It belongs to {' and '.join(ON_SECTORS)}", "sectors"
        )
    if failure.member != _DEFAULT.member and failure.fault == "scrub":
        yield ConstraintError("has no effect here", "A scrub reads all drives of a leg", "member")
    for spec in specs:
        if failure.leg > spec.legs:
            yield ConstraintError(
                f"is {failure.leg}, but {spec.label} has {_counted(spec.legs, 'leg')}",
                "Legs are counted from 1",
                "leg",
            )
        if failure.member > spec.drives:
            yield ConstraintError(
                f"is {failure.member}, but a leg of {spec.label} has "
                f"{_counted(spec.drives, 'active drive')}",
                "Drives are counted from 1, spares not among them",
                "member",
            )
        if failure.fault in ON_FLAKY and not spec.flaky:
            yield ConstraintError(
                f"is {failure.fault!r}, but the drives of {spec.label} cannot be made to do so",
                "Say flaky = true in the layout",
                "fault",
            )


def _counted(count: int, what: str) -> str:
    return f"1 {what}" if count == 1 else f"{count} {what}s"
