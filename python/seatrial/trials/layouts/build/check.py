"""Which layouts could be built on this machine, what the others lack, and whether the lab can."""

from __future__ import annotations

import os

import msgspec

from seatrial.lab.packages import installed
from seatrial.machine.fingerprint.tree import program_path
from seatrial.trials.layouts.build.backend import Backend
from seatrial.trials.layouts.build.registry import backends


class BackendCheck(msgspec.Struct, frozen=True, kw_only=True):
    """Whether one backend can work here.

    Attributes:
        name: As a study writes it.
        levels: Levels that it has.
        missing: Programs that are not installed.
        packages: Debian packages that hold them.
        obstacle: What of the kernel is missing, as a sentence; empty where nothing is.
    """

    name: str
    levels: list[str]
    missing: list[str]
    packages: list[str]
    obstacle: str

    @property
    def lacks(self) -> str:
        """What it lacks, as a phrase, with what brings it; empty where it can work."""
        if self.obstacle:
            return self.obstacle.rstrip(".")
        if not self.missing:
            return ""
        verb = "is" if len(self.missing) == 1 else "are"
        named = " and ".join(self.missing)
        return f"{named} {verb} not installed, `apt-get install {' '.join(self.packages)}`"


class LayoutCheck(msgspec.Struct, frozen=True, kw_only=True):
    """What a study of layouts would find here.

    Attributes:
        backends: Every backend.
        is_root: Whether this process has the rights to build any here.
        lab_is_set_up: Whether the lab's kernel and programs are in the cache.
    """

    backends: list[BackendCheck]
    is_root: bool
    lab_is_set_up: bool


def check_layouts() -> LayoutCheck:
    """Return what a study of layouts would find here; nothing is built or started."""
    return LayoutCheck(
        backends=[_check(each) for each in backends().values()],
        is_root=os.geteuid() == 0,
        lab_is_set_up=installed("uml") is not None or installed("qemu") is not None,
    )


def _check(backend: Backend) -> BackendCheck:
    missing = [each for each in backend.programs if program_path(each.name) is None]
    return BackendCheck(
        name=backend.name,
        levels=list(backend.levels),
        missing=[each.name for each in missing],
        packages=sorted({each.package for each in missing}),
        obstacle=backend.obstacle(),
    )
