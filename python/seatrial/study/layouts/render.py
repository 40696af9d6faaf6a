"""The layouts of a plan as text: what is built, of which drives, by which commands, its cost."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from seatrial.study.layouts.cost import ASSUMED_BUILDS, groups, member_bytes, sync_members
from seatrial.study.layouts.text import drives_text, layout_parts
from seatrial.study.model import Plan, PlanEstimate
from seatrial.study.units import format_seconds, format_size

COLUMNS = 100


def layout_lines(plan: Plan) -> Iterator[str]:
    """Yield the layouts of a plan, one a line, with the drives before; nothing without layouts."""
    built = groups(plan)
    if not built:
        return
    yield from hanging_lines("Drives  ", drives_text(plan.study.drives, plan.drives))
    parts = {group: _parts(plan, group) for group in built}
    first, *others = parts.values()
    # What all have in common is told once.
    common = [part for part in first[1:] if all(part in each for each in others)]
    shared = common if others else []
    turns = "Layouts, one after another in each round" if others else "Layout, built in each round"
    yield from hanging_lines("", f"{turns}{', all with ' if shared else ''}{', '.join(shared)}:")
    width = max(len(group) for group in built)
    for group, own in parts.items():
        reported = ", ".join(part for part in own if part not in shared)
        yield from hanging_lines(f"  {group.ljust(width)}  ", reported)


def command_lines(commands: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield the commands that build each layout, one layout after another.

    Args:
        commands: By label of the variant, each as a shell would take it.
    """
    yield "Commands, undone in reverse order when it is taken apart:"
    for label, own in commands.items():
        yield f"  {label}"
        yield from (f"    {command}" for command in own)


def building_lines(plan: Plan, took: PlanEstimate) -> Iterator[str]:
    """Yield what building takes of each round; nothing without layouts."""
    if not took.builds:
        return
    layouts = [target for target in plan.targets if target.layout]
    sync = ""
    if any(sync_members(target) and member_bytes(target) is None for target in layouts):
        sync = "; without the first synchronisation, for the drives' sizes are not known yet"
    elif any(map(sync_members, layouts)):
        sync = f"; {ASSUMED_BUILDS}"
    yield from hanging_lines(
        "Builds  ",
        f"{took.builds} in each round, which take {format_seconds(round(took.building_s, 1))} and "
        f"write {format_size(took.building_write_bytes)} of it{sync}",
    )


def hanging_lines(label: str, text: str) -> list[str]:
    """Return a text behind a label, its further lines indented as far."""
    indent = " " * len(label)
    return textwrap.wrap(text, COLUMNS, initial_indent=label, subsequent_indent=indent)


def _parts(plan: Plan, group: str) -> list[str]:
    """Return what a variant is and what of it is used, the array first."""
    part = plan.of_group(group, {})
    first = part.targets[0]
    names = list(dict.fromkeys(file.name for file in part.files if file.prefill))
    parts = layout_parts(first.layout) if first.layout else []
    if part.files or not first.holds_files:
        used = "trial file" if first.holds_files else "uses"
        parts.append(f"{used} {format_size(first.size_bytes)}")
    if names and first.holds_files:
        parts.append(f"{' and '.join(names)} filled whenever it is built")
    elif names:
        parts.append("filled whenever it is built")
    return parts
