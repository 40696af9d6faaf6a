"""Describes layouts as text: variants and their drives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from seatrial.study.cell import Cell
from seatrial.study.layouts.cost import ASSUMED_BUILDS, groups, member_bytes, sync_members
from seatrial.study.layouts.layout import (
    FILESYSTEMS,
    DriveInfo,
    Drives,
    Failure,
    LayoutSpec,
    parse_drives,
)
from seatrial.study.model import Plan, PlanEstimate, PlannedTarget
from seatrial.study.schema import Study
from seatrial.study.units import format_seconds, format_size
from seatrial.study.wrapping import wrap


def layout_text(spec: LayoutSpec) -> str:
    """Return a description of a variant: ``md raid5 of 4 drives + 1 spare, chunk 128 KiB, xfs``."""
    return ", ".join(layout_parts(spec))


def layout_parts(spec: LayoutSpec) -> list[str]:
    """Return the parts of the description: the array first, then each property."""
    return [_array(spec), *_properties(spec)]


def drives_text(drives: Drives, infos: Sequence[DriveInfo]) -> str:
    """Return the drives of layouts, as a phrase.

    Args:
        drives: From the study or the command line.
        infos: The drives of the plan; if none are named, as many as are needed.
    """
    if drives.loop:
        count, size_bytes = parse_drives(drives.loop)
        folder = drives.folder or "the current folder"
        return f"{count} loop devices of {format_size(size_bytes)}, backed by files in {folder}"
    if drives.lab:
        count, size_bytes = parse_drives(drives.lab)
        return f"{count} disks of {format_size(size_bytes)} in the lab (`seatrial lab`)"
    if drives.devices:
        return ", ".join(_drive(info) for info in infos)
    return (
        f"{len(infos)} needed; given with --devices A,B,... or --loop {len(infos)}x2G, or created "
        "by `seatrial lab`"
    )


def _drive(info: DriveInfo) -> str:
    size = f" ({format_size(info.size_bytes)})" if info.size_bytes else ""
    return f"{info.name}{size}"


def _array(spec: LayoutSpec) -> str:
    leg = f"{spec.level} of {_counted(spec.drives, 'drive')}"
    if spec.spares:
        leg += f" + {_counted(spec.spares, 'spare')}"
    if spec.is_striped:
        return f"{spec.backend} stripe over {spec.legs} legs, each {leg}"
    if spec.expose == "legs":
        return f"{spec.legs} separate legs, each {spec.backend} {leg}"
    return f"{spec.backend} {leg}" if spec.backend != "single" else "a single drive"


def _properties(spec: LayoutSpec) -> Iterator[str]:
    if spec.drives > 1 and spec.backend not in FILESYSTEMS:
        yield f"chunk {spec.chunk_kib} KiB"
    if spec.is_striped and spec.stripe_kib != spec.chunk_kib:
        yield f"stripe {spec.stripe_kib} KiB"
    yield from _other_drives(spec)
    if spec.filesystem == "none":
        yield "no file system"
    elif spec.filesystem != spec.backend:
        yield spec.filesystem
    if spec.nfs:
        yield "mounted over NFS"
    if spec.read_ahead_kib is not None:
        yield f"read-ahead {spec.read_ahead_kib} KiB"
    if spec.scheduler:
        yield f"scheduler {spec.scheduler}"
    if spec.member_bytes is not None:
        yield f"{format_size(spec.member_bytes)} of each drive"
    if not spec.initial_sync:
        yield "without initial synchronisation"
    if spec.flaky:
        yield "with fault injection"
    delays = [f"{delay_ms:g}" for delay_ms in spec.delay_ms]
    if len(set(delays)) == 1:
        yield f"each request delayed by {delays[0]} ms"
    elif delays:
        yield f"requests of its drives delayed by {', '.join(delays)} ms"


def _other_drives(spec: LayoutSpec) -> Iterator[str]:
    plain_caches = 0 if spec.has_cache_device else spec.caches
    for count, what in ((spec.logs, "log drive"), (plain_caches, "cache drive")):
        if count:
            yield _counted(count, what)
    if spec.has_cache_device:
        mode = "" if spec.cache == "dm-writecache" else f" ({spec.cache_mode})"
        cold = ", empty when a sample begins" if spec.cold_cache else ""
        yield f"{spec.cache}{mode} on 1 drive{cold}"


def _counted(count: int, what: str) -> str:
    return f"1 {what}" if count == 1 else f"{count} {what}s"


COLUMNS = 100


def layout_lines(plan: Plan) -> Iterator[str]:
    """Yield the layouts of a plan, one per line, after their drives; nothing without layouts."""
    built = groups(plan)
    if not built:
        return
    yield from hanging_lines("Drives  ", drives_text(plan.study.drives, plan.drives))
    parts = {group: _parts(plan, group) for group in built}
    first, *others = parts.values()
    # Common properties are printed once.
    common = [part for part in first[1:] if all(part in each for each in others)]
    shared = common if others else []
    turns = (
        "Layouts, built one after another in each round"
        if others
        else "Layout, built in each round"
    )
    yield from hanging_lines("", f"{turns}{', all with ' if shared else ''}{', '.join(shared)}:")
    width = max(len(group) for group in built)
    for group, own in parts.items():
        text = ", ".join(part for part in own if part not in shared)
        yield from hanging_lines(f"  {group.ljust(width)}  ", text)


def command_lines(commands: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield the commands that build each layout, one layout after another.

    Args:
        commands: Shell commands by label of the variant.
    """
    yield "Commands to build each layout, undone in reverse order:"
    for label, own in commands.items():
        yield f"  {label}"
        yield from (f"    {command}" for command in own)


def building_lines(plan: Plan, took: PlanEstimate) -> Iterator[str]:
    """Yield the cost of building in each round; nothing without layouts."""
    if not took.builds:
        return
    layouts = [target for target in plan.targets if target.layout]
    sync = ""
    if any(sync_members(target) and member_bytes(target) is None for target in layouts):
        sync = "; without initial synchronisation, as the drive sizes are not yet known"
    elif any(map(sync_members, layouts)):
        sync = f"; {ASSUMED_BUILDS}"
    yield from hanging_lines(
        "Builds  ",
        f"{took.builds} per round, which take {format_seconds(round(took.building_s, 1))} and "
        f"write {format_size(took.building_write_bytes)}{sync}",
    )


def hanging_lines(label: str, text: str) -> list[str]:
    """Return a text after a label, with indented further lines."""
    return wrap(text, COLUMNS, initial=label)


def _parts(plan: Plan, group: str) -> list[str]:
    """Return the description of a variant and of the part that is used, the array first."""
    part = plan.of_group(group, {})
    first = part.targets[0]
    names = list(dict.fromkeys(file.name for file in part.files if file.prefill))
    parts = layout_parts(first.layout) if first.layout else []
    if part.files or not first.holds_files:
        used = "trial file" if first.holds_files else "uses"
        parts.append(f"{used} {format_size(first.size_bytes)}")
    if names and first.holds_files:
        parts.append(f"{' and '.join(names)} filled after each build")
    elif names:
        parts.append("filled after each build")
    return parts


def notes_on_failures(
    study: Study, targets: Sequence[PlannedTarget], cells: Sequence[Cell]
) -> Iterator[str]:
    """Yield a note for each workload with more failures than the level of a layout survives."""
    for workload in study.workloads:
        run_on = {cell.target for cell in cells if cell.workload == workload.label}
        for target in targets:
            if not (workload.failures and target.layout and target.label in run_on):
                continue
            layout = target.layout
            survived = layout.facts.losses_survived(layout.drives)
            failing = _most_failures(workload.failures)
            if failing <= survived:
                continue
            bound = f"{layout.level} on {layout.drives} drives survives {survived}"
            hope = " unless a rebuild has finished before" if survived else ""
            yield (
                f"{workload.label} on {target.label}: {_counted(failing, 'drive')} of one leg "
                f"{'fails' if failing == 1 else 'fail'}, but {bound}; all its data is lost{hope}"
            )


def _most_failures(faults: Sequence[Failure]) -> int:
    """Return the number of failing drives in the leg with the most failures."""
    failing = [fault.leg for fault in faults if fault.fault == "fail"]
    return max(map(failing.count, failing), default=0)
