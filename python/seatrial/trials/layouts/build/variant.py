"""What there is to say of a variant of a layout before it is built."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from seatrial.errors import SeatrialError
from seatrial.published import Count
from seatrial.study.layouts.drives import DriveInfo
from seatrial.study.layouts.layout import Assigned, LayoutSpec, assigned
from seatrial.study.layouts.targets import usable_bytes
from seatrial.trials.layouts.build import registry
from seatrial.trials.layouts.build.build import commands_of
from seatrial.trials.layouts.build.names import array_name

PLANNED_RUN: Final = "RUN"
"""Stands in shown commands for the run, which has no name before it begins."""


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """One variant of a study's layouts.

    Attributes:
        label: Its own in the study.
        spec: The variant.
        assigned: Which drive does what; None where there are too few.
        holds_bytes: What it holds at most; None where its drives' sizes are not known.
        survives: How many of its drives may fail, whichever they are, as a phrase.
        commands: What builds it, as a shell would take it; empty where it cannot be built.
        obstacle: Why it cannot be built on this machine, as sentences; empty where it can.
    """

    label: str
    spec: LayoutSpec
    assigned: Assigned | None
    holds_bytes: Count | None
    survives: str
    commands: list[str]
    obstacle: str


def describe(spec: LayoutSpec, drives: Sequence[DriveInfo]) -> Variant:
    """Return what there is to say of a variant before it is built; nothing is touched.

    Args:
        spec: The variant.
        drives: What it would be built of.
    """
    by_name = {drive.name: drive for drive in drives}
    try:
        places = assigned(spec, list(by_name))
    except ValueError as error:
        places = None
        obstacle = f"{error}."
    else:
        obstacle = _obstacle(spec)
    return Variant(
        label=spec.label,
        spec=spec,
        assigned=places,
        holds_bytes=usable_bytes(spec, [by_name[each] for each in places.used]) if places else None,
        survives=survives(spec),
        commands=_commands(spec, places) if places else [],
        obstacle=obstacle,
    )


def survives(spec: LayoutSpec) -> str:
    """Return how many drives may fail, as a phrase: ``any 1 of each leg``, ``none``."""
    count = spec.facts.losses_survived(spec.drives)
    if not count:
        return "none"
    return f"any {count} of each leg" if spec.legs > 1 else f"any {count}"


def _obstacle(spec: LayoutSpec) -> str:
    try:
        registry.require(spec)
    except SeatrialError as error:
        return f"{error.cause} {error.next_step}"
    return ""


def _commands(spec: LayoutSpec, places: Assigned) -> list[str]:
    try:
        registry.check(spec)
        return commands_of(spec, places, array_name(PLANNED_RUN, 1))
    except SeatrialError:
        return []
