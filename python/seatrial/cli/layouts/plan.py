"""What a plan says of its layouts beside the study: their commands, and that drives are missing."""

from __future__ import annotations

from seatrial.errors import UsageError
from seatrial.study.layouts.layout import LayoutSpec, assigned
from seatrial.study.model import Plan
from seatrial.trials.layouts.build.build import commands_of
from seatrial.trials.layouts.build.names import array_name
from seatrial.trials.layouts.build.registry import check
from seatrial.trials.layouts.build.variant import PLANNED_RUN


def variants_of(plan: Plan) -> list[LayoutSpec]:
    """Return every variant that a plan builds, once, in the order of the study."""
    built = {target.group: target.layout for target in plan.targets if target.layout}
    return list(built.values())


def check_layouts(plan: Plan) -> None:
    """Check that every layout of a plan can be built on some machine at least.

    Raises:
        StudyError: when its backend is unknown, or cannot build it anywhere.
    """
    for spec in variants_of(plan):
        check(spec)


def building_commands(plan: Plan) -> dict[str, list[str]]:
    """Return what builds each layout of a plan, by label; nothing is touched, and no root needed.

    Raises:
        StudyError: when a layout cannot be built on any machine.
        TargetError: when a drive that is there has not the scheduler that is asked for.
    """
    names = [drive.name for drive in plan.drives]
    name = array_name(PLANNED_RUN, 1)
    return {
        spec.label: commands_of(spec, assigned(spec, names), name) for spec in variants_of(plan)
    }


def require_drives(plan: Plan) -> None:
    """Check that a plan says what its layouts are built of.

    Raises:
        UsageError: when it does not; the sentence says how many drives are needed.
    """
    drives = plan.study.drives
    if drives.devices or drives.loop:
        return
    needed = max(spec.members for spec in variants_of(plan))
    study = plan.study.name
    raise UsageError(
        seen=f"The layouts of study {study!r} need {needed} drives, and none are named",
        cause="Its drives are disks of the lab, which is not here"
        if drives.lab
        else "The study leaves open what its layouts are built of",
        next_step=f"Name them with --devices A,B,... and --destroy, have loop devices made with "
        f"--loop {needed}x2G, or run it with `seatrial lab`, which needs neither root nor drives",
    )
