"""An emulated machine: QEMU without the processor's help, where user-mode Linux does not boot.

Source: QEMU's documentation, "Invocation" (``-fsdev local``, ``-device virtio-9p-pci``); the
kernel's Documentation/filesystems/9p.rst.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Final

from seatrial.lab import init
from seatrial.lab.cpio import archive
from seatrial.lab.machine import Boot, Machine, disk_serial
from seatrial.lab.packages import SetName
from seatrial.machine.fingerprint.tree import (
    CommandMissingError,
    CommandTimeoutError,
    program_path,
    run_command,
)

_PROGRAM: Final = "qemu-system-x86_64"
_EARLY_MODULES: Final = ("virtio_pci", "virtio_blk", "9pnet_virtio", "9p", "overlay")
_ASK_S: Final = 10.0
_NINE_P: Final = "trans=virtio,version=9p2000.L,msize=262144"


class Qemu(Machine):
    """QEMU with Debian's kernel, the host's root by 9p."""

    name: ClassVar[str] = "qemu"
    package_set: ClassVar[SetName] = "qemu"
    boot_patience_s: ClassVar[float] = 60.0
    limits: ClassVar[str] = "each of its instructions is emulated, some ten times slower"

    @classmethod
    def obstacle(cls) -> str:
        """Return why it cannot run here, as a sentence; empty where it can."""
        if program_path(_PROGRAM):
            return ""
        return f"{_PROGRAM} is not installed (`apt-get install qemu-system-x86`)"

    @property
    def label(self) -> str:
        """What runs, with its version."""
        return f"{self._version} with Linux {self._modules.name}"

    @property
    def program(self) -> Path:
        """The emulator."""
        return Path(program_path(_PROGRAM) or _PROGRAM)

    @cached_property
    def _version(self) -> str:
        try:
            reported = run_command([_PROGRAM, "--version"], _ASK_S).output
        except (CommandMissingError, CommandTimeoutError):
            reported = ""
        match = re.search(r"version (\S+)", reported)
        return f"QEMU {match[1]}" if match else "QEMU"

    @cached_property
    def _modules(self) -> Path:
        return next(iter(sorted((self.packages.root / "lib/modules").iterdir())))

    def disk_names(self, count: int) -> list[str]:
        """Return the device of each disk, as the guest names it."""
        return [f"/dev/vd{chr(ord('a') + number)}" for number in range(count)]

    def prepare(self, boot: Boot) -> None:
        """Write the archive that the kernel starts from, and what it goes over to."""
        busybox = boot.folder / "busybox"
        shutil.copy2(self.packages.root / "usr/bin/busybox", busybox)
        second = boot.folder / "second-stage"
        second.write_text(init.second_stage(boot.script, busybox=busybox, modules=""))
        modules = list(_with_needed(self._modules, _EARLY_MODULES))
        first = init.first_stage(
            busybox="/busybox",
            mount_layers=[
                *(f"$b insmod /{path.name}" for path in modules),
                _mount("host", f"{init.STAGE}/host", "ro,cache=loose"),
                _mount("packages", f"{init.STAGE}/packages", "ro,cache=loose"),
            ],
            share_mounts=[
                _mount(f"share{number}", f"{init.STAGE}/new{share}", "cache=mmap")
                for number, share in enumerate(boot.script.shares)
            ],
            second_stage=second,
            overlay_module="",
        )
        programs = {"init": first.encode(), "busybox": busybox.read_bytes()}
        programs |= {path.name: path.read_bytes() for path in modules}
        folders = ("dev", "proc", init.STAGE.removeprefix("/"))
        (boot.folder / "initramfs").write_bytes(archive(folders, programs))

    def command(self, boot: Boot) -> list[str]:
        """Return the command that starts the emulator."""
        kernel = self.packages.root / f"boot/vmlinuz-{self._modules.name}"
        folders = [("host", Path("/"), True), ("packages", self.packages.root, True)]
        folders += [
            (f"share{number}", share, False) for number, share in enumerate(boot.script.shares)
        ]
        return [
            str(self.program),
            *("-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2"),
            *("-m", str(boot.memory_bytes >> 20)),
            *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
            *("-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"),
            *("-kernel", str(kernel), "-initrd", f"{boot.folder}/initramfs"),
            *("-append", "console=ttyS0 quiet panic=-1 rdinit=/init"),
            *(word for each in folders for word in _folder(*each)),
            *(word for each in enumerate(boot.disks) for word in _disk(*each)),
        ]


def _with_needed(folder: Path, names: tuple[str, ...]) -> Iterator[Path]:
    """Yield modules after those that they need, each once; builtin ones have no file.

    Source: modules.dep(5).
    """
    needed: dict[str, list[str]] = {}
    for line in (folder / "modules.dep").read_text().splitlines():
        place, _, others = line.partition(":")
        needed[place] = others.split()
    by_name = {Path(place).stem: place for place in needed}
    given: set[str] = set()

    def walk(place: str) -> Iterator[Path]:
        if place in given:
            return
        given.add(place)
        for other in needed[place]:
            yield from walk(other)
        yield folder / place

    for name in names:
        if name in by_name:
            yield from walk(by_name[name])


def _mount(tag: str, point: str, options: str) -> str:
    return f"$b mount -t 9p -o {_NINE_P},{options} {tag} {shlex.quote(point)}"


def _folder(tag: str, folder: Path, is_read_only: bool) -> tuple[str, ...]:
    """Return the options that show the guest a folder; a comma in a path is written twice."""
    path = str(folder).replace(",", ",,")
    access = ",readonly=on" if is_read_only else ""
    return (
        "-fsdev",
        f"local,id={tag},path={path},security_model=none,multidevs=remap{access}",
        "-device",
        f"virtio-9p-pci,fsdev={tag},mount_tag={tag}",
    )


def _disk(number: int, path: Path) -> tuple[str, ...]:
    return (
        "-drive",
        f"file={path},if=none,id=disk{number},format=raw,discard=unmap",
        "-device",
        f"virtio-blk-pci,drive=disk{number},serial={disk_serial(number)}",
    )
