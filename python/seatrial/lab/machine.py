"""What a lab runs on: a kernel beside the host's own, with virtual disks and shared folders."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from seatrial.lab.init import Script
from seatrial.lab.packages import Installed, SetName

BOOT_PATIENCE_S: Final = 20.0
"""Until the guest is ready; user-mode Linux takes 3 s, an emulated machine 6 to 15 s."""


def disk_serial(number: int) -> str:
    """Return the serial number of a disk, from 0: what the guard wants to hear of it."""
    return f"lab-disk-{number + 1}"


@dataclass(frozen=True, kw_only=True)
class Boot:
    """What a machine is started with.

    Attributes:
        folder: The lab's own folder, in which all its processes work.
        disks: Files that are its disks.
        memory_bytes: Its memory.
        script: What it does.
    """

    folder: Path
    disks: tuple[Path, ...]
    memory_bytes: int
    script: Script


class Machine(ABC):
    """One way to run another kernel without root.

    Attributes:
        name: As ``--machine`` takes it.
        package_set: What it needs of the cache.
        boot_patience_s: Seconds until it must be ready.
        limits: What of its measurements does not hold, as a sentence.
        one_processor: Whether its processes hand over to each other all the time, so that they do
            best on one processor.
    """

    name: ClassVar[str]
    package_set: ClassVar[SetName]
    boot_patience_s: ClassVar[float] = BOOT_PATIENCE_S
    limits: ClassVar[str]
    one_processor: ClassVar[bool] = False

    def __init__(self, packages: Installed) -> None:
        self.packages = packages

    @classmethod
    def obstacle(cls) -> str:
        """Return why it cannot run here, as a sentence; empty where it can.

        Whether its packages are in the cache is no matter.
        """
        return ""

    @property
    @abstractmethod
    def label(self) -> str:
        """What runs, with its version, such as ``user-mode Linux 6.1.176``."""

    @property
    @abstractmethod
    def program(self) -> Path:
        """The program whose processes are the machine."""

    @abstractmethod
    def disk_names(self, count: int) -> list[str]:
        """Return the device of each disk, as the guest names it."""

    @abstractmethod
    def prepare(self, boot: Boot) -> None:
        """Write what the machine starts from into the lab's folder."""

    @abstractmethod
    def command(self, boot: Boot) -> list[str]:
        """Return the command that starts the machine; its console is on stdin and stdout."""

    def environment(self, boot: Boot) -> dict[str, str]:
        """Return the variables that the machine's own process gets beside those of ours."""
        return {}
