"""An emulated machine: QEMU without hardware acceleration, for hosts without user-mode Linux.

Source: QEMU's documentation, "Invocation" (``-fsdev local``, ``-device virtio-9p-pci``); the
kernel's Documentation/filesystems/9p.rst, and its
Documentation/driver-api/early-userspace/buffer-format.rst, format "newc".
"""

from __future__ import annotations

import re
import shlex
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Final

from seatrial.lab import init
from seatrial.lab.machine import Boot, Machine, disk_serial
from seatrial.lab.packages import SetName
from seatrial.machine.fingerprint.tree import (
    CommandMissingError,
    CommandTimeoutError,
    program_path,
    run_command,
)

_MAGIC: Final = b"070701"
_LAST: Final = "TRAILER!!!"
_ALIGNED_BYTES: Final = 4


def archive(folders: Sequence[str], programs: Mapping[str, bytes]) -> bytes:
    """Return a cpio archive.

    Args:
        folders: Empty folders, each after its parent; no name begins with a slash.
        programs: Content of executable files by name.
    """
    entries = [(name, stat.S_IFDIR | 0o755, b"") for name in folders]
    entries += [(name, stat.S_IFREG | 0o755, content) for name, content in programs.items()]
    entries.append((_LAST, 0, b""))
    return b"".join(
        part
        for inode, (name, mode, content) in enumerate(entries, start=1)
        for part in _entry(inode, name, mode, content)
    )


def _entry(inode: int, name: str, mode: int, content: bytes) -> Iterator[bytes]:
    raw_name = name.encode() + b"\0"
    # inode, mode, uid, gid, links, time, size, device (2), special device (2), length, checksum
    fields = (inode, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(raw_name), 0)
    yield from _padded(_MAGIC + b"".join(b"%08X" % field for field in fields) + raw_name)
    yield from _padded(content)


def _padded(data: bytes) -> Iterator[bytes]:
    yield data
    yield bytes(-len(data) % _ALIGNED_BYTES)


_PROGRAM: Final = "qemu-system-x86_64"
_EARLY_MODULES: Final = ("virtio_pci", "virtio_blk", "9pnet_virtio", "9p", "overlay")
_QUERY_S: Final = 10.0
_NINE_P: Final = "trans=virtio,version=9p2000.L,msize=262144"


class Qemu(Machine):
    """QEMU with Debian's kernel, and the host's root over 9p."""

    name: ClassVar[str] = "qemu"
    package_set: ClassVar[SetName] = "qemu"
    boot_patience_s: ClassVar[float] = 60.0
    limits: ClassVar[str] = "all instructions are emulated, about ten times slower"

    @classmethod
    def obstacle(cls) -> str:
        """Return why it cannot run here, as a sentence; empty if it can."""
        if program_path(_PROGRAM):
            return ""
        return f"{_PROGRAM} is not installed (`apt-get install qemu-system-x86`)"

    @property
    def label(self) -> str:
        """Name and version of the machine."""
        return f"{self._version} with Linux {self._modules.name}"

    @property
    def program(self) -> Path:
        """The emulator."""
        return Path(program_path(_PROGRAM) or _PROGRAM)

    @cached_property
    def _version(self) -> str:
        try:
            output = run_command([_PROGRAM, "--version"], _QUERY_S).output
        except (CommandMissingError, CommandTimeoutError):
            output = ""
        match = re.search(r"version (\S+)", output)
        return f"QEMU {match[1]}" if match else "QEMU"

    @cached_property
    def _modules(self) -> Path:
        return next(iter(sorted((self.packages.root / "lib/modules").iterdir())))

    def disk_names(self, count: int) -> list[str]:
        """Return the device of each disk in the guest."""
        return [f"/dev/vd{chr(ord('a') + number)}" for number in range(count)]

    def prepare(self, boot: Boot) -> None:
        """Write the initramfs and the second script."""
        busybox = boot.folder / "busybox"
        shutil.copy2(self.packages.root / "usr/bin/busybox", busybox)
        second = boot.folder / "second-stage"
        second.write_text(init.second_stage(boot.script, busybox=busybox, modules=""))
        modules = list(_with_dependencies(self._modules, _EARLY_MODULES))
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


def _with_dependencies(folder: Path, names: tuple[str, ...]) -> Iterator[Path]:
    """Yield modules after their dependencies, each once; built-in modules have no file.

    Source: modules.dep(5).
    """
    needed: dict[str, list[str]] = {}
    for line in (folder / "modules.dep").read_text().splitlines():
        file, _, others = line.partition(":")
        needed[file] = others.split()
    by_name = {Path(file).stem: file for file in needed}
    visited: set[str] = set()

    def walk(file: str) -> Iterator[Path]:
        if file in visited:
            return
        visited.add(file)
        for other in needed[file]:
            yield from walk(other)
        yield folder / file

    for name in names:
        if name in by_name:
            yield from walk(by_name[name])


def _mount(tag: str, point: str, options: str) -> str:
    return f"$b mount -t 9p -o {_NINE_P},{options} {tag} {shlex.quote(point)}"


def _folder(tag: str, folder: Path, is_read_only: bool) -> tuple[str, ...]:
    """Return the options that export a folder to the guest; a comma in a path is doubled."""
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
