"""md: arrays of the kernel's own driver, one, or several side by side."""

from __future__ import annotations

from typing import ClassVar, Final

from seatrial.machine.undoer import Undoer
from seatrial.study.layouts.layout import Assigned, LayoutSpec
from seatrial.trials.layouts.build import md_array, md_legs
from seatrial.trials.layouts.build.backend import Construction, Program
from seatrial.trials.layouts.build.over_md import OverMd


class Md(OverMd):
    """Arrays of md."""

    name: ClassVar[str] = "md"
    levels: ClassVar[tuple[str, ...]] = md_array.LEVELS_OF_MD
    programs: ClassVar[tuple[Program, ...]] = (md_array.PROGRAM,)
    undoers: ClassVar[dict[str, Undoer]] = md_array.MD_UNDOERS

    def plan(self, spec: LayoutSpec, assigned: Assigned, name: str) -> Construction:
        """Return the creation of each leg."""
        devices = md_array.free_devices(spec.legs)
        return Construction(
            steps=tuple(md_legs.create_steps(spec, assigned, name, devices)),
            devices=tuple(devices),
            leg_devices=tuple(devices),
        )


BACKEND: Final = Md()
