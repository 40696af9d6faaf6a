"""Which machines a lab can run on here, the best first."""

from __future__ import annotations

from typing import Final, Literal

from seatrial.errors import TargetError
from seatrial.lab.machine import Machine
from seatrial.lab.packages import Tell, cache_folder, installed, set_up
from seatrial.lab.qemu import Qemu
from seatrial.lab.uml import UserModeLinux

Choice = Literal["auto", "uml", "qemu"]
KINDS: Final[tuple[type[Machine], ...]] = (UserModeLinux, Qemu)


def machines(choice: Choice) -> list[Machine]:
    """Return the machines that are set up and can run here, the best first.

    Args:
        choice: Only this one; ``auto`` for all.

    Raises:
        TargetError: when there is none; it says what to install.
    """
    kinds = [kind for kind in KINDS if choice in ("auto", kind.name)]
    found: list[Machine] = []
    obstacles: list[str] = []
    for kind in kinds:
        packages = installed(kind.package_set)
        if packages is not None and not kind.obstacle():
            found.append(kind(packages))
        elif packages is not None:
            obstacles.append(kind.obstacle())
    if found:
        return found
    option = "" if choice == "auto" else f" --machine {choice}"
    if obstacles:
        raise TargetError(
            seen=f"No machine of the lab can run here: {'; '.join(obstacles)}",
            cause="A program that it needs is missing",
            next_step=f"Install it as root, or run `seatrial lab --setup{option}`",
        )
    raise TargetError(
        seen=f"{cache_folder()} holds no packages of the lab",
        cause="They are fetched once, about 40 MB, as no study does without being asked",
        next_step=f"Run it with --setup{option} as well, which needs no root: "
        f"`seatrial lab --setup{option} STUDY` fetches them, and goes on",
    )


def is_fetched(choice: Choice) -> bool:
    """Tell whether the packages of a machine that may be taken are there.

    Args:
        choice: Only this one; ``auto`` for any.
    """
    kinds = (kind for kind in KINDS if choice in ("auto", kind.name))
    return any(installed(kind.package_set) is not None for kind in kinds)


def set_up_for(choice: Choice, report: Tell) -> Machine:
    """Fetch what a machine is made of, unless it is there; return the machine.

    Args:
        choice: Which; with ``auto`` the best.
        report: Told each step as a sentence.

    Raises:
        TargetError: when it cannot be fetched.
    """
    kind = next(kind for kind in KINDS if choice in ("auto", kind.name))
    return kind(set_up(kind.package_set, report))
