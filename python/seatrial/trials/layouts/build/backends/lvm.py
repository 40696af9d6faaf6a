"""lvm: striped volumes, and LVM's raid types (dm-raid)."""

from __future__ import annotations

from typing import ClassVar, Final

from seatrial.machine.undo_result import Undoer
from seatrial.study.layouts.layout import DriveRoles, LayoutSpec
from seatrial.trials.layouts.build import volume_group
from seatrial.trials.layouts.build.backend import (
    ArrayState,
    Backend,
    Built,
    Construction,
    Program,
    Step,
)
from seatrial.trials.layouts.build.failing import fail_drive
from seatrial.trials.layouts.build.md_legs import leg_name
from seatrial.trials.layouts.build.volume_group import Member


class Lvm(Backend):
    """LVM volumes, each in its own group: one, or several exposed legs."""

    name: ClassVar[str] = "lvm"
    levels: ClassVar[tuple[str, ...]] = volume_group.LEVELS_OF_LVM
    programs: ClassVar[tuple[Program, ...]] = volume_group.PROGRAMS
    undoers: ClassVar[dict[str, Undoer]] = volume_group.LVM_UNDOERS

    def obstacle(self) -> str:
        """Return why this kernel has no LVM."""
        return volume_group.lvm_obstacle()

    def check(self, spec: LayoutSpec) -> str:
        """Return what LVM's raid types do not support."""
        return volume_group.unfit(
            spec.level, spec.drives, spec.chunk_kib, is_clean=not spec.initial_sync
        )

    def plan(self, spec: LayoutSpec, assigned: DriveRoles, name: str) -> Construction:
        """Return the creation of a group and a volume for each leg."""
        steps = []
        for leg, (active, spares) in enumerate(zip(assigned.legs, assigned.spares, strict=True), 1):
            members = [
                *(Member(path=path) for path in active),
                *(Member(path=path, serves=False) for path in spares),
            ]
            steps += volume_group.create_steps(
                leg_name(name, leg),
                members,
                later=assigned.unused,
                level=spec.level,
                stripe_kib=spec.chunk_kib,
                member_bytes=spec.member_bytes,
                is_clean=not spec.initial_sync,
            )
        nodes = tuple(volume_group.node(leg_name(name, leg + 1)) for leg in range(spec.legs))
        return Construction(steps=tuple(steps), devices=nodes, leg_devices=nodes)

    def describe(self, built: Built) -> dict[str, str]:
        """Return LVM's report of the first leg."""
        facts = volume_group.facts(leg_name(built.name, 1), _devices(built))
        facts["initial_sync"] = "done" if built.spec.initial_sync else "left out: assumed clean"
        return facts

    def state(self, built: Built, leg: int) -> ArrayState:
        """Return the current state of a leg."""
        return volume_group.state(leg_name(built.name, leg), built.spec.level)

    def fail(self, built: Built, leg: int, member: int) -> str:
        """Make the drive itself fail, as LVM has no such command; a spare replaces it.

        Raises:
            TargetError: when the drive cannot be made to fail.
        """
        group = leg_name(built.name, leg)
        active, spares = built.assigned.legs[leg - 1], built.assigned.spares[leg - 1]
        drive = active[member - 1]
        failed_before = volume_group.failed_count(group)
        fail_drive(drive)
        if not built.spec.facts.losses_survived(built.spec.drives):
            return drive
        volume_group.detect_failure(group, failed_before)
        if spares:
            volume_group.repair(group, _devices(built))
            active[member - 1] = spares.pop(0)
        return drive

    def replace(self, built: Built, leg: int, member: int, new_device: str) -> None:
        """Replace a failed drive.

        Raises:
            TargetError: when there is nothing to rebuild from, or LVM refuses.
        """
        built.require_redundancy(leg, member)
        group = leg_name(built.name, leg)
        volume_group.extend(group, _devices(built), new_device)
        volume_group.repair(group, _devices(built))
        built.assign(leg, member, new_device)

    def start_scrub(self, built: Built, leg: int) -> None:
        """Start a check of a leg."""
        volume_group.scrub(leg_name(built.name, leg), _devices(built))

    def mismatch_blocks(self, built: Built, leg: int) -> int | None:
        """Return the mismatches found by the last check of a leg (blocks of 512 bytes)."""
        return volume_group.mismatch_blocks(leg_name(built.name, leg))

    def remove_sync_limits(self, built: Built) -> list[Step]:
        """Return the steps that remove the kernel's speed limits."""
        redundant = built.spec.facts.losses_survived(built.spec.drives)
        return volume_group.sync_limit_steps() if redundant else []

    def limit_rebuild(self, built: Built, kib_per_s: int) -> list[Step]:
        """Return the steps that limit the rebuild of every leg."""
        if not built.spec.facts.losses_survived(built.spec.drives):
            return []
        groups = [leg_name(built.name, leg) for leg in range(1, built.spec.legs + 1)]
        devices = _devices(built)
        return [
            step for group in groups for step in volume_group.limit_steps(group, devices, kib_per_s)
        ]


def _devices(built: Built) -> list[str]:
    return [*built.assigned.used, *built.assigned.unused]


BACKEND: Final = Lvm()
