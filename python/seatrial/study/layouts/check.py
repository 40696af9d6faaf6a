"""Consistency checks between the keys of layouts, drives and faults.

The checks of a single backend are in ``Backend.check``; this module has those that apply to all
backends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from seatrial.errors import StudyError
from seatrial.study.cell import NAME, NAME_RULE
from seatrial.study.layouts.layout import (
    FILESYSTEMS,
    Drives,
    Failure,
    Layout,
    LayoutSpec,
    parse_drives,
    variants,
)
from seatrial.study.problems import ConstraintError, no_effect
from seatrial.study.sampled import SampledWorkload
from seatrial.study.schema import Study
from seatrial.study.selection import labels_of, variants_of
from seatrial.study.values import many

NO_FILESYSTEM: Final = "none"


def layouts(study: Study) -> Iterator[ConstraintError]:
    """Yield violations within a layout, or between it and the other targets."""
    taken = {target.label for target in study.targets}
    for index, layout in enumerate(study.layouts):
        path = ("layout", index)
        if not NAME.fullmatch(layout.name):
            yield ConstraintError(f"is {layout.name!r}", NAME_RULE, *path, "name")
        for found in (*_of_layout(layout), *_labels(layout, taken)):
            yield ConstraintError(found.seen, found.expected, *path, *found.path)


def drives(study: Study) -> Iterator[ConstraintError]:
    """Yield violations in the drives of layouts."""
    if study.drives == Drives():
        return
    given = {name: getattr(study.drives, name) for name in ("devices", "loop", "lab")}
    named = [name for name, value in given.items() if value]
    if not study.layouts:
        expected = "Only a [[layout]] uses drives, and the study has no layout"
        yield no_effect(expected, *_at((named or ["folder"])[0]))
    if len(named) > 1:
        yield ConstraintError(
            f"is set together with {named[0]}",
            "Set only one of devices, loop and lab",
            *_at(named[1]),
        )
    if study.drives.folder and not study.drives.loop:
        yield no_effect("It applies only with loop", *_at("folder"))
    seen: set[str] = set()
    for nth, device in enumerate(study.drives.devices):
        if not device or device in seen:
            text = f"holds {device!r} twice" if device else "is empty"
            yield ConstraintError(
                text, "Expected the paths of different devices", *_at("devices"), nth
            )
        seen.add(device)
    for name in ("loop", "lab"):
        try:
            parse_drives(given[name] or "1x1G")
        except StudyError:
            expected = "Expected a count and a size, such as 6x2G for six drives of 2 GiB"
            yield ConstraintError(f"is {given[name]!r}", expected, *_at(name))


def _at(key: str) -> tuple[str, str]:
    return "drives", key


def _labels(layout: Layout, taken: set[str]) -> Iterator[ConstraintError]:
    """Yield duplicate target names; ``taken`` is extended by those of the layout."""
    # The layout's own name stands in ``targets`` for all its variants.
    labels = [label for spec in variants(layout) for label in spec.target_labels]
    names = [layout.name, *(label for label in labels if label != layout.name)]
    for name in names:
        if name in taken:
            yield ConstraintError(
                f"creates a second target named {name!r}",
                "Rename the layout, and list each value of a factor once",
                "name",
            )
            return
        if not NAME.fullmatch(name):
            yield ConstraintError(f"creates a target named {name!r}", NAME_RULE, "name")
        taken.add(name)


def _of_layout(layout: Layout) -> Iterator[ConstraintError]:
    for chunk in [*many(layout.chunk_kib), layout.stripe_kib or 4]:
        if chunk & (chunk - 1):
            key = "stripe_kib" if chunk == layout.stripe_kib else "chunk_kib"
            yield ConstraintError(f"is {chunk}", "Expected a power of two, such as 64 or 128", key)
    specs = list(variants(layout))
    for spec in specs:
        yield from _of_variant(spec)
        yield from _of_nfs(spec)
    if layout.stripe_kib is not None and not any(spec.is_striped for spec in specs):
        yield no_effect("It applies only to md+lvm and md+md, which stripe over legs", "stripe_kib")
    if all(spec.filesystem == NO_FILESYSTEM for spec in specs):
        for key in ("mkfs_options", "mount_options"):
            if getattr(layout, key):
                yield no_effect("The layout has no file system", key)
    if all(spec.backend in FILESYSTEMS for spec in specs):
        others = [each for each in many(layout.filesystem) if each != specs[0].backend]
        if others and layout.filesystem != _DEFAULT.filesystem:
            yield ConstraintError(
                f"is {others[0]!r}, but the backend is itself a file system",
                f"Omit it, or set it to {specs[0].backend!r}",
                "filesystem",
            )
    yield from _of_cache(layout, specs)
    delays = many(layout.delay_ms)
    members = max(spec.members for spec in specs)
    if len(delays) > members:
        yield ConstraintError(
            f"has {len(delays)} values for {members} drives",
            "Expected one value for all drives, or one per drive",
            "delay_ms",
        )


_DEFAULT: Final = Layout(name="default")


def _of_cache(layout: Layout, specs: Sequence[LayoutSpec]) -> Iterator[ConstraintError]:
    """Yield violations in the keys of a cache device."""
    cached = [spec for spec in specs if spec.has_cache_device]
    if not cached:
        for key in ("cache_mode", "cold_cache"):
            if getattr(layout, key) != getattr(_DEFAULT, key):
                yield no_effect("It applies only with cache", key)
    elif layout.caches:
        expected = "A cache device has a drive of its own; caches is for the backend zfs"
        yield ConstraintError("is set together with cache", expected, "caches")
    for spec in cached:
        if spec.expose == "legs":
            expected = "A cache device is in front of one array, but every leg is a separate target"
            yield ConstraintError(f"is {spec.cache!r} with expose = 'legs'", expected, "cache")
        elif spec.backend in FILESYSTEMS:
            expected = (
                f"{spec.backend} is a file system itself; a cache device needs a block device"
            )
            yield ConstraintError(f"is {spec.cache!r}", expected, "cache")


def _of_nfs(spec: LayoutSpec) -> Iterator[ConstraintError]:
    """Yield what cannot be exported."""
    if spec.nfs and (spec.filesystem == NO_FILESYSTEM or spec.backend in FILESYSTEMS):
        expected = "Expected a file system such as ext4 on a block device"
        yield ConstraintError("is true without a file system to export", expected, "nfs")
    elif spec.nfs and spec.expose == "legs":
        yield ConstraintError("is true with expose = 'legs'", "One array is exported", "nfs")


def _of_variant(spec: LayoutSpec) -> Iterator[ConstraintError]:
    """Yield what no backend can build of a variant."""
    facts = spec.facts
    if spec.drives < facts.members_min or (facts.even and spec.drives % 2):
        even = "an even number, " if facts.even else ""
        yield ConstraintError(
            f"is {spec.drives} with level {spec.level}",
            f"{spec.level} requires {even}at least {facts.members_min}; use a separate "
            "[[layout]] for levels with a different number of drives",
            "drives",
        )
    if spec.spares and not facts.losses_survived(max(spec.drives, facts.members_min)):
        yield ConstraintError(
            f"is {spec.spares} with level {spec.level}",
            "A spare replaces a failed drive, but this level survives no drive failure",
            "spares",
        )
    if spec.is_striped and spec.legs < 2:
        yield ConstraintError(
            f"is {spec.legs} with backend {spec.backend}", "A stripe needs at least 2 legs", "legs"
        )
    if spec.expose == "legs":
        if spec.is_striped or spec.legs < 2:
            yield ConstraintError(
                f"is 'legs' with backend {spec.backend} and {spec.legs} legs",
                "Expected at least two legs and a backend that does not stripe over them",
                "expose",
            )
    elif spec.legs > 1 and not spec.is_striped:
        yield ConstraintError(
            f"is {spec.legs} with backend {spec.backend}",
            "md+lvm and md+md stripe over legs; with expose = 'legs' each leg is a separate target",
            "legs",
        )


AFTERMATH_S: Final = 1.0
"""Shortest time for which a sample continues after the last fault."""
ON_SECTORS: Final = ("bad_sectors", "rot")
ON_FLAKY: Final = ("bad_sectors", "falter", "drop_writes")
_FAILURE_DEFAULT: Final = Failure(after_s=0)


def failures(study: Study) -> Iterator[ConstraintError]:
    """Yield violations in ``fail`` and ``rebuild_limit_kib_per_s`` of each workload."""
    for index, workload in enumerate(study.workloads):
        if not workload.failures:
            if workload.rebuild_limit_kib_per_s != SampledWorkload().rebuild_limit_kib_per_s:
                yield no_effect(
                    "It applies only with fail, which triggers a rebuild",
                    *("workload", index, "rebuild_limit_kib_per_s"),
                )
            continue
        specs = list(variants_of(workload, study))
        own = (*_of_workload(workload), *_of_targets(workload, specs, study))
        for found in (*own, *_of_faults(workload, specs)):
            yield ConstraintError(found.seen, found.expected, "workload", index, *found.path)


def _of_workload(workload: SampledWorkload) -> Iterator[ConstraintError]:
    if not workload.allows_faults:
        adaptive = "n adaptive" if getattr(workload, "adaptive", False) else ""
        yield ConstraintError(
            f"is set for a{adaptive} {workload.kind}",
            "Expected a workload whose duration can be set, such as io or pgbench",
            "fail",
        )
    last_s = workload.failures[-1].after_s
    if workload.duration_s < last_s + AFTERMATH_S:
        yield ConstraintError(
            f"is {workload.duration_s:g}, but the last fault occurs after {last_s:g} s",
            f"Expected at least {last_s + AFTERMATH_S:g}, so that the effect of the fault is "
            "measured",
            "seconds",
        )


def _of_targets(
    workload: SampledWorkload, specs: Sequence[LayoutSpec], study: Study
) -> Iterator[ConstraintError]:
    if not specs:
        there = f"targets includes no layout: {', '.join(workload.targets)}"
        seen = there if study.layouts else "the study has no [[layout]]"
        yield ConstraintError(
            f"is set, but {seen}", "Faults can only be injected into layouts", "fail"
        )
    exposed = next((spec for spec in specs if spec.expose == "legs"), None)
    if exposed:
        yield ConstraintError(
            f"is set, but layout {exposed.name!r} exposes its legs as separate targets",
            "Use a layout that is one array, or exclude this layout with targets",
            "fail",
        )
    plain = set(workload.targets) & {target.label for target in study.targets}
    if plain & labels_of(workload, study):
        yield ConstraintError(
            f"is set, but target {min(plain)!r} is not a layout",
            "Faults can only be injected into layouts",
            "fail",
        )


def _of_faults(workload: SampledWorkload, specs: Sequence[LayoutSpec]) -> Iterator[ConstraintError]:
    given = workload.fail if isinstance(workload.fail, list) else [workload.fail]
    for nth, failure in enumerate(given):
        path = ("fail", nth) if isinstance(workload.fail, list) else ("fail",)
        for found in _of_fault(failure, specs):
            yield ConstraintError(found.seen, found.expected, *path, *found.path)
        if failure.fault == "replace" and not _failed_before(failure, workload.failures):
            yield ConstraintError(
                f"replaces drive {failure.member} of leg {failure.leg}, which has not failed",
                "Expected an earlier fault = 'fail' for the same drive",
                *path,
            )


def _failed_before(replacing: Failure, faults: Sequence[Failure]) -> bool:
    return any(
        fault.fault == "fail"
        and (fault.leg, fault.member) == (replacing.leg, replacing.member)
        and fault.after_s < replacing.after_s
        for fault in faults
    )


def _of_fault(failure: Failure, specs: Sequence[LayoutSpec]) -> Iterator[ConstraintError]:
    if failure.sectors != _FAILURE_DEFAULT.sectors and failure.fault not in ON_SECTORS:
        yield no_effect(f"It applies only to {' and '.join(ON_SECTORS)}", "sectors")
    if failure.member != _FAILURE_DEFAULT.member and failure.fault == "scrub":
        yield no_effect("A scrub reads all drives of a leg", "member")
    for spec in specs:
        if failure.leg > spec.legs:
            yield ConstraintError(
                f"is {failure.leg}, but {spec.label} has {_counted(spec.legs, 'leg')}",
                "Legs are numbered from 1",
                "leg",
            )
        if failure.member > spec.drives:
            yield ConstraintError(
                f"is {failure.member}, but a leg of {spec.label} has "
                f"{_counted(spec.drives, 'active drive')}",
                "Drives are numbered from 1, without spares",
                "member",
            )
        if failure.fault in ON_FLAKY and not spec.flaky:
            yield ConstraintError(
                f"is {failure.fault!r}, but the drives of {spec.label} do not support this fault",
                "Set flaky = true in the layout",
                "fault",
            )


def _counted(count: int, what: str) -> str:
    return f"1 {what}" if count == 1 else f"{count} {what}s"
