"""The machine of a lab: a kernel of its own, with virtual disks and shared folders."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from seatrial.lab.init import Script
from seatrial.lab.packages import PackageSet, SetName

BOOT_PATIENCE_S: Final = 20.0
"""Until the guest is ready; user-mode Linux takes 3 s, an emulated machine 6 to 15 s."""


def disk_serial(number: int) -> str:
    """Return the serial number of a disk, counted from 0; the guard checks it."""
    return f"lab-disk-{number + 1}"


@dataclass(frozen=True, kw_only=True)
class Boot:
    """The boot configuration of a machine.

    Attributes:
        folder: The lab's own folder, the working folder of all its processes.
        disks: The files of its disks.
        memory_bytes: Its memory.
        script: What it runs.
    """

    folder: Path
    disks: tuple[Path, ...]
    memory_bytes: int
    script: Script


class Machine(ABC):
    """One way to run another kernel without root.

    Attributes:
        name: Value of ``--machine``.
        package_set: The set of packages that it needs.
        boot_patience_s: Seconds until it must be ready.
        limits: Limits of its measurements, as a sentence.
        one_processor: Whether it runs faster on one CPU, since its processes continually switch to
            each other.
    """

    name: ClassVar[str]
    package_set: ClassVar[SetName]
    boot_patience_s: ClassVar[float] = BOOT_PATIENCE_S
    limits: ClassVar[str]
    one_processor: ClassVar[bool] = False

    def __init__(self, packages: PackageSet) -> None:
        self.packages = packages

    @classmethod
    def obstacle(cls) -> str:
        """Return why it cannot run here, as a sentence; empty if it can.

        This does not depend on whether its packages are in the cache.
        """
        return ""

    @property
    @abstractmethod
    def label(self) -> str:
        """Name and version, such as ``user-mode Linux 6.1.176``."""

    @property
    @abstractmethod
    def program(self) -> Path:
        """The program of the machine's processes."""

    @abstractmethod
    def disk_names(self, count: int) -> list[str]:
        """Return the device of each disk in the guest."""

    @abstractmethod
    def prepare(self, boot: Boot) -> None:
        """Write the machine's boot files into the lab's folder."""

    @abstractmethod
    def command(self, boot: Boot) -> list[str]:
        """Return the command that starts the machine; its console is on stdin and stdout."""

    def environment(self, boot: Boot) -> dict[str, str]:
        """Return additional environment variables of the machine's process."""
        return {}
