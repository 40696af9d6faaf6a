"""single: a plain drive, or several exposed ones: the baseline of comparisons."""

from __future__ import annotations

from typing import ClassVar, Final

from seatrial.machine.undo_result import Undoer
from seatrial.study.layouts.layout import DriveRoles, LayoutSpec
from seatrial.trials.layouts.build import md_legs
from seatrial.trials.layouts.build.backend import Backend, Built, Construction, Program
from seatrial.trials.layouts.build.filesystems import FILESYSTEM_UNDOERS


class Single(Backend):
    """Bare drives."""

    name: ClassVar[str] = "single"
    levels: ClassVar[tuple[str, ...]] = ("single",)
    programs: ClassVar[tuple[Program, ...]] = ()
    undoers: ClassVar[dict[str, Undoer]] = FILESYSTEM_UNDOERS
    parts: ClassVar[frozenset[str]] = frozenset()
    state = staticmethod(md_legs.state)
    fail = staticmethod(md_legs.fail)

    def check(self, spec: LayoutSpec) -> str:
        """Return that it takes one drive a leg."""
        if spec.drives != 1:
            return f"single has one drive, but {spec.drives} were given; raid0 stripes over several"
        return ""

    def plan(self, spec: LayoutSpec, assigned: DriveRoles, name: str) -> Construction:
        """Return the drives themselves; there is nothing to build."""
        drives = tuple(leg[0] for leg in assigned.legs)
        return Construction(steps=(), devices=drives, leg_devices=drives)

    def describe(self, built: Built) -> dict[str, str]:
        """Return nothing: the fingerprint describes the drive."""
        return {}

    def replace(self, built: Built, leg: int, member: int, new_device: str) -> None:
        """Refuse: there is nothing to rebuild its data from.

        Raises:
            TargetError: always.
        """
        built.require_redundancy(leg, member)


BACKEND: Final = Single()
