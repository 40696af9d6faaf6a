"""Legs that are md arrays, for md alone and for stripes over md."""

from __future__ import annotations

from typing import Final

from seatrial.errors import TargetError
from seatrial.machine.undo_result import wait_until
from seatrial.study.layouts.layout import DriveRoles, LayoutSpec
from seatrial.trials.layouts.build import md_array
from seatrial.trials.layouts.build.backend import ArrayState, Built, Step
from seatrial.trials.layouts.build.failing import fail_drive, responds

_SPARE_PATIENCE_S: Final = 10.0


def leg_name(name: str, leg: int) -> str:
    """Return the name of a leg (from 1) of an array."""
    return f"{name}-leg{leg}"


def create_steps(
    spec: LayoutSpec, assigned: DriveRoles, name: str, devices: list[str]
) -> list[Step]:
    """Return the steps that create the legs of a variant, one a node of ``devices``."""
    steps = []
    for leg, device in enumerate(devices, start=1):
        members = assigned.legs[leg - 1]
        steps.append(
            md_array.create_step(
                device,
                name=leg_name(name, leg),
                level=spec.level,
                members=members,
                spares=assigned.spares[leg - 1],
                later=assigned.unused,
                chunk_kib=spec.chunk_kib,
                member_bytes=spec.member_bytes,
                is_clean=not spec.initial_sync,
            )
        )
        if spec.level == "raid0" and spec.member_bytes:
            steps.append(md_array.shrink_step(device, spec.member_bytes * len(members)))
    return steps


def state(built: Built, leg: int) -> ArrayState:
    """Return the current state of a leg (from 1); a bare drive is in service or has failed."""
    members = built.assigned.legs[leg - 1]
    if built.spec.level == "single":
        missing = sum(not responds(member) for member in members)
        return ArrayState(missing=missing, has_failed=missing > 0)
    return md_array.state(built.construction.leg_devices[leg - 1], built.spec.level, members)


def fail(built: Built, leg: int, member: int) -> str:
    """Make an active drive (from 1) of a leg fail; return it.

    md is instructed to. Without redundancy it refuses: there the drive itself is made to fail.

    Raises:
        TargetError: when md refuses, or the drive cannot be made to fail.
    """
    if not built.spec.facts.losses_survived(built.spec.drives):
        drive = built.assigned.legs[leg - 1][member - 1]
        fail_drive(drive)
        return drive
    device = built.construction.leg_devices[leg - 1]
    drive = md_array.member_at(device, member - 1, _known(built))
    if not drive:
        raise TargetError(
            seen=f"Drive {member} of leg {leg} cannot fail: there is no active drive in its slot",
            cause="It has already failed, and no spare has replaced it",
            next_step="Fail another drive, or add a spare to the layout",
        )
    md_array.fail(device, drive)
    if built.assigned.spares[leg - 1]:
        # A spare replaces it as soon as the array's thread has released the failed drive.
        wait_until(lambda: _serves(built, leg, member, drive), _SPARE_PATIENCE_S)
    _update_roles(built, leg)
    return drive


def replace(built: Built, leg: int, member: int, new_device: str) -> None:
    """Replace a failed drive (from 1).

    Raises:
        TargetError: when the leg has no redundancy, or md refuses.
    """
    built.require_redundancy(leg, member)
    md_array.replace(built.construction.leg_devices[leg - 1], new_device)
    wait_until(lambda: _serves(built, leg, member, ""), _SPARE_PATIENCE_S)
    _update_roles(built, leg)


def facts(built: Built) -> dict[str, str]:
    """Return facts of the first leg, and how the legs were created."""
    facts = md_array.facts(built.construction.leg_devices[0])
    facts["initial_sync"] = "done" if built.spec.initial_sync else "left out: assumed clean"
    return facts


def redundant_devices(built: Built) -> tuple[str, ...]:
    """Return the nodes of legs that md can rebuild and check."""
    survives = built.spec.facts.losses_survived(built.spec.drives)
    return built.construction.leg_devices if survives else ()


def _known(built: Built) -> list[str]:
    return [*built.assigned.used, *built.assigned.unused]


def _serves(built: Built, leg: int, member: int, failed_drive: str) -> bool:
    """Return whether a drive other than the failed one is in its slot."""
    device = built.construction.leg_devices[leg - 1]
    return md_array.member_at(device, member - 1, _known(built)) not in {"", failed_drive}


def _update_roles(built: Built, leg: int) -> None:
    """Update the roles of the drives from the array's slots."""
    device, known = built.construction.leg_devices[leg - 1], _known(built)
    active = built.assigned.legs[leg - 1]
    for slot in range(len(active)):
        active[slot] = md_array.member_at(device, slot, known) or active[slot]
    for idle in (built.assigned.spares[leg - 1], built.assigned.unused):
        idle[:] = [drive for drive in idle if drive not in active]
