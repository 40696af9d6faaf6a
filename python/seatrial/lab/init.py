"""The scripts by which a lab's kernel comes up: its root, its modules, one command, its end.

The guest's root is an overlay: the cache's packages, below them the host's root, read-only, and
above both memory. So every path of the host is there under its own name, everything may be
written, and nothing of it outlives the lab; only the shared folders are the host's own.

Source: the kernel's Documentation/filesystems/overlayfs.rst; busybox(1).
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

READY: Final = "seatrial-lab-ready"
ENDED: Final = "seatrial-lab-ended"
STOP: Final = "stop"
"""What the guest's console is told to end the command in order."""
KERNEL_LOG: Final = "kernel.log"

STAGE: Final = "/sys"
"""Where the new root is put together: it exists everywhere, and nothing of ours lies there."""

MODULES: Final = (
    "loop",
    "md-mod",
    "raid0",
    "raid1",
    "raid10",
    "raid456",
    "dm-mod",
    "dm-delay",
    "dm-dust",
    "dm-flakey",
    "dm-mirror",
    "dm-raid",
)
"""Loaded at the start; others are, by modprobe(8), when the kernel asks for them."""

# Without udev nobody would answer LVM, and devices appear in /dev by devtmpfs alone.
_LVM: Final = """\
devices { obtain_device_list_from_udev=0 use_devicesfile=0 multipath_component_detection=0 }
activation { udev_sync=0 udev_rules=0 monitoring=0 }
global { event_activation=0 use_lvmpolld=0 }
"""


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """What the guest does.

    Attributes:
        argv: The command, run as the guest's root.
        working_folder: Where it runs.
        environment: Variables that it gets.
        nonce: A word that its output cannot hold by chance; marks the line of its exit status.
        shares: Shared folders; the first takes the kernel's log.
        stop_grace_s: Seconds that the command has to end in order.
    """

    argv: Sequence[str]
    working_folder: Path
    environment: Mapping[str, str]
    nonce: str
    shares: Sequence[Path]
    stop_grace_s: float


def first_stage(
    *,
    busybox: str,
    mount_layers: Sequence[str],
    share_mounts: Sequence[str],
    second_stage: Path,
    overlay_module: str,
) -> str:
    """Return the script that puts the root together and goes over to the second.

    Args:
        busybox: Where it is before that.
        mount_layers: Commands that mount the host's root, read-only, on ``/sys/host`` and the
            cache's root on ``/sys/packages``: as two file systems, for layers may not overlap.
        share_mounts: Commands that mount each shared folder below ``/sys/new``.
        second_stage: The second script, on the host; a busybox lies beside it.
        overlay_module: The kernel's overlay module, as it is seen before; empty if built in.
    """
    layers = f"lowerdir={STAGE}/packages:{STAGE}/host"
    above = f"upperdir={STAGE}/own/above,workdir={STAGE}/own/work"
    lines = [
        f"#!{busybox} sh",
        "set -e",
        f"b={busybox}",
        f"$b mount -t tmpfs lab {STAGE}",
        f"$b mkdir {STAGE}/host {STAGE}/packages {STAGE}/own {STAGE}/new",
        *mount_layers,
        *([f"$b insmod {shlex.quote(overlay_module)}"] if overlay_module else []),
        f"$b mount -t tmpfs -o mode=755 lab {STAGE}/own",
        f"$b mkdir {STAGE}/own/above {STAGE}/own/work",
        f"$b mount -t overlay -o {layers},{above} lab {STAGE}/new",
        *share_mounts,
        f"cd {STAGE}/new",
        "$b mount --move . /",
        f"exec $b chroot . {second_stage.parent}/busybox sh {second_stage}",
    ]
    return "\n".join(lines) + "\n"


def second_stage(
    script: Script, *, busybox: Path, modules: str, own_settings: Sequence[str] = ()
) -> str:
    """Return the script that readies the guest, runs the command and ends the guest.

    Args:
        script: What to run.
        busybox: Where it is.
        modules: Folder of the kernel's modules; empty where the kernel looks for them itself.
        own_settings: Commands that only this machine's kernel needs; ``$b`` is busybox.
    """
    exports = [f"export {name}={shlex.quote(value)}" for name, value in script.environment.items()]
    log = shlex.quote(f"{script.shares[0]}/{KERNEL_LOG}")
    return (
        "\n".join(
            [
                f"b={busybox}",
                *_mounts(),
                *_modules(modules),
                *_settings(),
                *own_settings,
                *exports,
                "run() {",
                f"  cd {shlex.quote(str(script.working_folder))}",
                # By the host's own shell: this one takes its own programs for the host's.
                f"  /bin/sh -c 'exec \"$@\"' sh {shlex.join(script.argv)} </dev/null &",
                "  command=$!",
                "  echo $command >/run/lab/command",
                "  wait $command",
                "  echo $? >/run/lab/status",
                "}",
                "stop() {",
                "  read -r command </run/lab/command",
                "  kill -TERM $command",
                f"  $b sleep {script.stop_grace_s:g}",
                "  kill -KILL $command",
                "}",
                "$b stty -echo -opost </dev/console",
                "listen() {",
                f'  while read -r word; do [ "$word" = {STOP} ] && stop; done',
                "}",
                "listen </dev/console >/dev/null 2>&1 &",
                f"echo {READY} {script.nonce} $($b uname -r)",
                "run 2>&1 | $b cat",
                "read -r status </run/lab/status",
                f"$b dmesg >{log}",
                "$b sync",
                "echo",
                f"echo {ENDED} {script.nonce} $status",
                "$b poweroff -f",
            ]
        )
        + "\n"
    )


def _mounts() -> list[str]:
    return [
        "$b mount -t proc proc /proc",
        "$b mount -t sysfs sys /sys",
        "$b mount -t devtmpfs dev /dev",
        "$b mkdir -p /dev/pts /dev/shm",
        "$b mount -t devpts devpts /dev/pts",
        "$b mount -t tmpfs shm /dev/shm",
        "$b mount -t tmpfs -o mode=755 run /run",
        "$b mkdir -p /run/lab/home /run/lock",
    ]


def _modules(folder: str) -> list[str]:
    """Return the commands that load modules, and let the kernel load more of them itself."""
    place = "/usr/lib/modules/$($b uname -r)"
    linked = [f"$b mkdir -p /usr/lib/modules; $b ln -s {shlex.quote(folder)} {place}"]
    return [
        *(linked if folder else []),
        "[ -e /sbin/modprobe ] || $b ln -s $b /sbin/modprobe",
        f"$b modprobe -a {' '.join(MODULES)} || echo 'some modules were not loaded'",
        # What the kernel has to tell from now on is in its log, not between the command's lines.
        "$b dmesg -n 1",
    ]


def _settings() -> list[str]:
    return [
        "$b hostname seatrial-lab",
        "$b ifconfig lo 127.0.0.1 up",
        "$b mkdir -p /etc/lvm",
        f"printf %s {shlex.quote(_LVM)} >/etc/lvm/lvmlocal.conf",
    ]
