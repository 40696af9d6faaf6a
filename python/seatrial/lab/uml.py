"""User-mode Linux: a kernel that runs as an ordinary unprivileged process.

Source: the kernel's Documentation/virt/uml/user_mode_linux_howto_v2.rst; ``linux.uml --help``.
"""

from __future__ import annotations

import os
import shlex
import shutil
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Final

from seatrial.lab import init
from seatrial.lab.machine import Boot, Machine, disk_serial
from seatrial.lab.packages import SetName
from seatrial.machine.fingerprint.tree import LIVE, SystemTree

_SHM: Final = Path("/dev/shm")  # noqa: S108 - memory that is kept in no file
_MODULES: Final = "usr/lib/uml/modules"
_SOCKET_BYTES: Final = 212_992
"""Size of a socket buffer if the host does not report it: the kernel's default."""
_MESSAGE_BYTES: Final = 1024
"""Memory of an 8-byte message in the buffer, rounded up: 768 in Linux 6."""
_DEPTH_MIN: Final = 4
"""Minimum queue depth. Source: the kernel's include/linux/blkdev.h, ``BLKDEV_MIN_RQ``."""


class UserModeLinux(Machine):
    """Debian's user-mode-linux, with the host's root over hostfs."""

    name: ClassVar[str] = "uml"
    package_set: ClassVar[SetName] = "uml"
    limits: ClassVar[str] = "it has one CPU and a 100 Hz timer tick"
    one_processor: ClassVar[bool] = True

    @property
    def label(self) -> str:
        """Name and version of the machine."""
        return f"user-mode Linux {self._modules.name}"

    @property
    def program(self) -> Path:
        """The kernel's program."""
        return self.packages.root / "usr/bin/linux.uml"

    @cached_property
    def _modules(self) -> Path:
        return next(iter(sorted((self.packages.root / _MODULES).iterdir())))

    def disk_names(self, count: int) -> list[str]:
        """Return the device of each disk in the guest; there are names for 16."""
        return [f"/dev/ubd{chr(ord('a') + number)}" for number in range(count)]

    def prepare(self, boot: Boot) -> None:
        """Write the two scripts and a busybox into the lab's folder."""
        busybox = boot.folder / "busybox"
        shutil.copy2(self.packages.root / "usr/bin/busybox", busybox)
        second = boot.folder / "second-stage"
        modules = f"/{_MODULES}/{self._modules.name}"
        settings = short_queues(len(boot.disks))
        second.write_text(
            init.second_stage(boot.script, busybox=busybox, modules=modules, own_settings=settings)
        )
        first = boot.folder / "first-stage"
        first.write_text(
            init.first_stage(
                busybox=str(busybox),
                mount_layers=[
                    f"$b mount --bind / {init.STAGE}/host",
                    _mount(self.packages.root, f"{init.STAGE}/packages"),
                ],
                share_mounts=[
                    _mount(share, f"{init.STAGE}/new{share}") for share in boot.script.shares
                ],
                second_stage=second,
                overlay_module=str(self._modules / "kernel/fs/overlayfs/overlay.ko"),
            )
        )
        first.chmod(0o700)

    def command(self, boot: Boot) -> list[str]:
        """Return the command that starts the kernel."""
        return [
            str(self.program),
            f"mem={boot.memory_bytes >> 20}M",
            "rootfstype=hostfs",
            "rootflags=/",
            "ro",
            "quiet",
            f"init={boot.folder}/first-stage",
            f"uml_dir={boot.folder}/",
            "umid=uml",
            "con=null",
            "con0=fd:0,fd:1",
            *(
                f"ubd{number}={disk},,{disk_serial(number)}"
                for number, disk in enumerate(boot.disks)
            ),
        ]

    def environment(self, boot: Boot) -> dict[str, str]:
        """Return the folder for the kernel's memory, which is an unlinked file."""
        return {"TMPDIR": str(_SHM if _takes(_SHM, boot.memory_bytes) else boot.folder)}


def short_queues(disks: int, tree: SystemTree = LIVE) -> list[str]:
    """Return the commands that limit the requests in flight of all disks together.

    The kernel passes requests to its own thread through a socket of the host. If the socket is
    full, the queue is restarted when a request of *that* disk completes. If the socket was filled
    by other disks, there is no such request and the queue hangs forever, for example when an array
    of ten drives is trimmed.

    Source: the kernel's arch/um/drivers/ubd_kern.c, ``ubd_queue_rq``: BLK_STS_DEV_RESOURCE, and
    include/linux/blk_types.h of what that must not be used for.
    """
    if not disks:
        return []
    socket_bytes = tree.integer("/proc/sys/net/core/wmem_default") or _SOCKET_BYTES
    depth = max(socket_bytes // _MESSAGE_BYTES // disks, _DEPTH_MIN)
    return [
        "for q in /sys/block/ubd*/queue; do",
        r"  scheduler=$($b sed 's/.*\[\(.*\)\].*/\1/' $q/scheduler)",
        # Without a scheduler the limit applies to the disk itself and survives a later scheduler.
        "  echo none >$q/scheduler",
        f"  [ $($b cat $q/nr_requests) -le {depth} ] || echo {depth} >$q/nr_requests",
        "  echo $scheduler >$q/scheduler",
        "done",
    ]


def _mount(folder: Path, point: str) -> str:
    return f"$b mount -t hostfs -o {shlex.quote(str(folder))} lab {shlex.quote(point)}"


def _takes(folder: Path, needed_bytes: int) -> bool:
    """Return whether the kernel's memory can be in a folder: it is also mapped as executable."""
    try:
        status = os.statvfs(folder)
    except OSError:
        return False
    executable = not status.f_flag & os.ST_NOEXEC
    return (
        executable
        and os.access(folder, os.W_OK)
        and (status.f_bavail * status.f_frsize >= needed_bytes)
    )
