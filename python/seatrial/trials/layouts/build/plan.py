"""Checks and commands for a plan's layouts before they are built."""

from __future__ import annotations

from seatrial.errors import UsageError
from seatrial.study.layouts.layout import LayoutSpec, assigned
from seatrial.study.model import Plan
from seatrial.trials.layouts.build.build import PLANNED_RUN, commands_of
from seatrial.trials.layouts.build.names import array_name
from seatrial.trials.layouts.build.registry import check


def variants_of(plan: Plan) -> list[LayoutSpec]:
    """Return every variant that a plan builds, without duplicates, in study order."""
    built = {target.group: target.layout for target in plan.targets if target.layout}
    return list(built.values())


def check_layouts(plan: Plan) -> None:
    """Check that every layout of a plan can be built in principle.

    Raises:
        StudyError: when its backend is unknown, or does not support it.
    """
    for spec in variants_of(plan):
        check(spec)


def building_commands(plan: Plan) -> dict[str, list[str]]:
    """Return the commands that build each layout of a plan, by label; nothing is changed.

    Raises:
        StudyError: when a layout is not supported by its backend.
        TargetError: when an existing drive does not support the requested scheduler.
    """
    names = [drive.name for drive in plan.drives]
    name = array_name(PLANNED_RUN, 1)
    return {
        spec.label: commands_of(spec, assigned(spec, names), name) for spec in variants_of(plan)
    }


def require_drives(plan: Plan) -> None:
    """Check that a plan specifies drives for its layouts.

    Raises:
        UsageError: when it does not; the message gives the number needed.
    """
    drives = plan.study.drives
    if drives.devices or drives.loop:
        return
    needed = max(spec.members for spec in variants_of(plan))
    study = plan.study.name
    raise UsageError(
        seen=f"The layouts of study {study!r} need {needed} drives, but none were given",
        cause="The study uses virtual disks of the lab, but does not run in the lab"
        if drives.lab
        else "The study does not specify the drives of its layouts",
        next_step=f"Give them with --devices A,B,... and --destroy, create loop devices with "
        f"--loop {needed}x2G, or run it with `seatrial lab`, which needs neither root nor drives",
    )
