"""md: arrays of the kernel's md driver, one, or several exposed legs."""

from __future__ import annotations

from typing import ClassVar, Final

from seatrial.machine.undo_result import Undoer
from seatrial.study.layouts.layout import DriveRoles, LayoutSpec
from seatrial.trials.layouts.build import md_array, md_legs
from seatrial.trials.layouts.build.backend import (
    Backend,
    Built,
    Construction,
    Program,
    Step,
)


class OverMd(Backend):
    """A backend with one or several md arrays, possibly below another layer."""

    describe = staticmethod(md_legs.facts)
    state = staticmethod(md_legs.state)
    fail = staticmethod(md_legs.fail)
    replace = staticmethod(md_legs.replace)

    def obstacle(self) -> str:
        """Return why this kernel has no md."""
        return md_array.md_obstacle()

    def start_scrub(self, built: Built, leg: int) -> None:
        """Start a check of a leg."""
        md_array.start_scrub(built.construction.leg_devices[leg - 1])

    def mismatch_blocks(self, built: Built, leg: int) -> int | None:
        """Return the mismatches found by the last check of a leg (blocks of 512 bytes)."""
        return md_array.mismatch_blocks(built.construction.leg_devices[leg - 1])

    def remove_sync_limits(self, built: Built) -> list[Step]:
        """Return the steps that remove md's speed limits."""
        devices = md_legs.redundant_devices(built)
        return [step for device in devices for step in md_array.sync_limit_steps(device)]

    def limit_rebuild(self, built: Built, kib_per_s: int) -> list[Step]:
        """Return the steps that limit the rebuild of every leg."""
        devices = md_legs.redundant_devices(built)
        return [step for device in devices for step in md_array.limit_steps(device, kib_per_s)]


class Md(OverMd):
    """md arrays."""

    name: ClassVar[str] = "md"
    levels: ClassVar[tuple[str, ...]] = md_array.LEVELS_OF_MD
    programs: ClassVar[tuple[Program, ...]] = (md_array.PROGRAM,)
    undoers: ClassVar[dict[str, Undoer]] = md_array.MD_UNDOERS

    def plan(self, spec: LayoutSpec, assigned: DriveRoles, name: str) -> Construction:
        """Return the creation of each leg."""
        devices = md_array.free_devices(spec.legs)
        return Construction(
            steps=tuple(md_legs.create_steps(spec, assigned, name, devices)),
            devices=tuple(devices),
            leg_devices=tuple(devices),
        )


BACKEND: Final = Md()
