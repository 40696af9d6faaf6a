"""md+lvm and md+md: a stripe by LVM or md over legs that are md arrays or bare drives.

RAID 00, 05, 06, 10 and 50 over two controllers are built so: one leg on each.
"""

from __future__ import annotations

from typing import ClassVar, Final

from seatrial.machine.undo_result import Undoer
from seatrial.study.layouts.layout import DriveRoles, LayoutSpec
from seatrial.trials.layouts.build import md_array, md_legs, volume_group
from seatrial.trials.layouts.build.backend import Built, Construction, Program, Step
from seatrial.trials.layouts.build.backends.md import OverMd
from seatrial.trials.layouts.build.filesystems import FILESYSTEM_UNDOERS
from seatrial.trials.layouts.build.volume_group import Member


class Striped(OverMd):
    """The legs, common to both kinds of stripe."""

    levels: ClassVar[tuple[str, ...]] = ("single", *md_array.LEVELS_OF_MD)

    def check(self, spec: LayoutSpec) -> str:
        """Return an error if a leg of a bare drive has several drives."""
        if spec.level == "single" and (spec.drives != 1 or spec.spares):
            return "A leg of level single is one drive without a spare"
        return ""

    def describe(self, built: Built) -> dict[str, str]:
        """Return facts of the first leg from sysfs, if it is an array."""
        return {} if built.spec.level == "single" else super().describe(built)


class MdLvm(Striped):
    """A stripe by LVM over md legs."""

    name: ClassVar[str] = "md+lvm"
    programs: ClassVar[tuple[Program, ...]] = (md_array.PROGRAM, *volume_group.PROGRAMS)
    undoers: ClassVar[dict[str, Undoer]] = (
        md_array.MD_UNDOERS | volume_group.LVM_UNDOERS | FILESYSTEM_UNDOERS
    )

    def obstacle(self) -> str:
        """Return why this kernel has no md, or no LVM."""
        return super().obstacle() or volume_group.lvm_obstacle()

    def check(self, spec: LayoutSpec) -> str:
        """Return what is unsupported in the legs or the stripe."""
        stripe = volume_group.unfit("raid0", spec.legs, spec.stripe_kib, is_clean=False)
        return super().check(spec) or stripe

    def plan(self, spec: LayoutSpec, assigned: DriveRoles, name: str) -> Construction:
        """Return the creation of the legs, and of the striped volume over them."""
        steps, legs = _legs(spec, assigned, name)
        if spec.expose == "legs":
            return Construction(steps=tuple(steps), devices=legs, leg_devices=legs)
        data = int(spec.facts.data_members(spec.drives))
        over = volume_group.create_steps(
            name,
            [Member(path=leg) for leg in legs],
            level="raid0",
            stripe_kib=spec.stripe_kib,
            alignment_kib=data * spec.chunk_kib if data > 1 else 0,
            member_bytes=spec.member_bytes if spec.level == "single" else None,
        )
        return Construction(
            steps=(*steps, *over), devices=(volume_group.node(name),), leg_devices=legs
        )

    def describe(self, built: Built) -> dict[str, str]:
        """Return facts of the first leg and of the stripe."""
        facts = super().describe(built)
        if built.spec.expose == "legs":
            return facts
        legs = built.construction.leg_devices
        over = volume_group.facts(built.name, legs)
        return facts | {f"over_{name}": value for name, value in over.items()}


class MdMd(Striped):
    """A stripe by md over md legs."""

    name: ClassVar[str] = "md+md"
    programs: ClassVar[tuple[Program, ...]] = (md_array.PROGRAM,)
    undoers: ClassVar[dict[str, Undoer]] = md_array.MD_UNDOERS | FILESYSTEM_UNDOERS

    def plan(self, spec: LayoutSpec, assigned: DriveRoles, name: str) -> Construction:
        """Return the creation of the legs, and of the md array over them."""
        steps, legs = _legs(spec, assigned, name)
        if spec.expose == "legs":
            return Construction(steps=tuple(steps), devices=legs, leg_devices=legs)
        top = md_array.free_devices(len(legs) + 1)[-1]
        over = [
            md_array.create_step(
                top, name=name, level="raid0", members=legs, chunk_kib=spec.stripe_kib
            )
        ]
        if spec.level == "single" and spec.member_bytes:
            over.append(md_array.shrink_step(top, spec.member_bytes * len(legs)))
        return Construction(steps=(*steps, *over), devices=(top,), leg_devices=legs)

    def describe(self, built: Built) -> dict[str, str]:
        """Return facts of the first leg and of the stripe."""
        facts = super().describe(built)
        if built.spec.expose == "legs":
            return facts
        over = md_array.facts(built.construction.devices[0])
        return facts | {f"over_{name}": value for name, value in over.items()}


def _legs(spec: LayoutSpec, assigned: DriveRoles, name: str) -> tuple[list[Step], tuple[str, ...]]:
    """Return the steps that create the legs, and their devices; bare drives are used as is."""
    if spec.level == "single":
        return [], tuple(leg[0] for leg in assigned.legs)
    devices = md_array.free_devices(spec.legs)
    return md_legs.create_steps(spec, assigned, name, devices), tuple(devices)


BACKENDS: Final = (MdLvm(), MdMd())
