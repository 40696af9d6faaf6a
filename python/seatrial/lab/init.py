"""The init scripts of a lab's kernel: root file system, modules, one command, shutdown.

The guest's root is an overlay: the host's root (read-only), above it the cached packages, and on
top a tmpfs. All paths of the host are available under the same names, everything is writable, and
all writes are discarded with the lab; only the shared folders are on the host.

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
"""Sent to the guest's console to stop the command in order."""
KERNEL_LOG: Final = "kernel.log"

STAGE: Final = "/sys"
"""Where the new root is assembled: it exists everywhere and is not otherwise used."""

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
    "bcache",
    "dm-cache",
    "dm-cache-smq",
    "dm-writecache",
)
"""Loaded at boot; the kernel loads others on demand with modprobe(8)."""

# There is no udev to answer LVM; only devtmpfs creates devices in /dev.
_LVM: Final = """\
devices { obtain_device_list_from_udev=0 use_devicesfile=0 multipath_component_detection=0 }
activation { udev_sync=0 udev_rules=0 monitoring=0 }
global { event_activation=0 use_lvmpolld=0 }
"""


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """What the guest runs.

    Attributes:
        argv: The command, run as root of the guest.
        working_folder: Its working folder.
        environment: Its environment variables.
        nonce: A random word that marks the line of the exit status in the output.
        shares: Shared folders; the kernel's log is written to the first one.
        stop_grace_s: Seconds for the command to end after it was stopped.
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
    """Return the script that assembles the root and executes the second script.

    Args:
        busybox: Path of busybox at this stage.
        mount_layers: Commands that mount the host's root, read-only, on ``/sys/host`` and the
            cache's root on ``/sys/packages``, as two file systems, since layers may not overlap.
        share_mounts: Commands that mount each shared folder below ``/sys/new``.
        second_stage: The second script, on the host, in the same folder as a busybox.
        overlay_module: Path of the kernel's overlay module at this stage; empty if built in.
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
    """Return the script that sets up the guest, runs the command and shuts the guest down.

    Args:
        script: What to run.
        busybox: Path of busybox.
        modules: Folder of the kernel's modules; empty if they are in the default folder.
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
                # By the host's shell: busybox would prefer its own applets to the host's programs.
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
    """Return the commands that load modules, and enable the kernel to load others."""
    release_folder = "/usr/lib/modules/$($b uname -r)"
    linked = [f"$b mkdir -p /usr/lib/modules; $b ln -s {shlex.quote(folder)} {release_folder}"]
    return [
        *(linked if folder else []),
        "[ -e /sbin/modprobe ] || $b ln -s $b /sbin/modprobe",
        f"$b modprobe -a {' '.join(MODULES)} || echo 'some modules were not loaded'",
        # From now on kernel messages go to the log only, not into the command's output.
        "$b dmesg -n 1",
    ]


def _settings() -> list[str]:
    return [
        "$b hostname seatrial-lab",
        "$b ifconfig lo 127.0.0.1 up",
        "$b mkdir -p /etc/lvm",
        f"printf %s {shlex.quote(_LVM)} >/etc/lvm/lvmlocal.conf",
    ]
