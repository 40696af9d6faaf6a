"""Which layouts can be built on this machine, what is missing, and whether the lab is set up."""

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
        name: Its name in a study.
        levels: Its levels.
        missing: Programs that are not installed.
        packages: Debian packages of these programs.
        obstacle: What the kernel lacks, as a sentence; empty if nothing.
    """

    name: str
    levels: list[str]
    missing: list[str]
    packages: list[str]
    obstacle: str

    @property
    def lacks(self) -> str:
        """What it lacks, with the command to install it; empty if it works."""
        if self.obstacle:
            return self.obstacle.rstrip(".")
        if not self.missing:
            return ""
        verb = "is" if len(self.missing) == 1 else "are"
        named = " and ".join(self.missing)
        return f"{named} {verb} not installed, `apt-get install {' '.join(self.packages)}`"


class LayoutCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The support for layouts on this machine.

    Attributes:
        backends: All backends.
        is_root: Whether this process is root, which building a layout here requires.
        lab_is_set_up: Whether the lab's packages are in the cache.
    """

    backends: list[BackendCheck]
    is_root: bool
    lab_is_set_up: bool


def check_layouts() -> LayoutCheck:
    """Return the support for layouts on this machine; nothing is built or started."""
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
