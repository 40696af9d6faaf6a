"""NFS in the lab: the guest's own server exports a layout's file system, and mounts it again.

This is possible only in a lab, because a server's export table and threads belong to the whole
machine. It serves version 4 only, on the loopback interface.

Sources: exports(5), rpc.nfsd(8), rpc.mountd(8), nfs(5); the kernel's
Documentation/admin-guide/nfs/nfs-client.rst.
"""

from __future__ import annotations

import os
from typing import Final

from seatrial.machine.fingerprint.tree import LIVE, program_path
from seatrial.machine.undo_result import Result, Undoer, gone, undone
from seatrial.trials.layouts.build.backend import Program, Step
from seatrial.trials.layouts.build.running import attempt

PROGRAMS: Final = (
    Program(name="exportfs", package="nfs-kernel-server"),
    Program(name="rpc.nfsd", package="nfs-kernel-server"),
    Program(name="rpc.mountd", package="nfs-kernel-server"),
    Program(name="mount.nfs4", package="nfs-common"),
)
IN_LAB: Final = "SEATRIAL_LAB"
"""Environment variable of commands in the lab."""
CLIENT: Final = "127.0.0.1"
SOURCE: Final = f"{CLIENT}:/"
THREADS: Final = 16
_EXPORT: Final = "rw,sync,no_root_squash,insecure,fsid=0,no_subtree_check"
_MOUNT: Final = f"vers=4.2,addr={CLIENT},clientaddr={CLIENT}"
_SUFFIX: Final = "-nfs"
_FILES: Final = "/proc/fs/nfsd"
_SERVE: Final = f"""\
set -e
mkdir -p /var/lib/nfs/v4recovery
touch /etc/exports /var/lib/nfs/etab /var/lib/nfs/rmtab
[ -e {_FILES}/threads ] || {{ mkdir -p {_FILES}; mount -t nfsd nfsd {_FILES}; }}
exportfs -o {_EXPORT} "{CLIENT}:$0"
rpc.mountd -N 3 --no-udp
rpc.nfsd -N 3 -V 4 --no-udp {THREADS}
"""


def nfs_folder(folder: str) -> str:
    """Return where a file system is mounted again over NFS."""
    return f"{folder}{_SUFFIX}"


def exported_folder(point: str) -> str:
    """Return the exported folder of a mount over NFS."""
    return point.removesuffix(_SUFFIX)


def nfs_obstacle() -> str:
    """Return why nothing can be exported here, as a sentence; empty if it can."""
    if not os.environ.get(IN_LAB):
        return (
            "A layout can be exported over NFS only in the lab, because the NFS server belongs to "
            "the whole machine"
        )
    if program_path("modprobe") and "\tnfsd" not in (LIVE.text("/proc/filesystems") or ""):
        attempt(["modprobe", "-a", "nfsd", "nfsv4"])
    has_server = "\tnfsd" in (LIVE.text("/proc/filesystems") or "")
    return "" if has_server else "This kernel has no NFS server (module nfsd)"


def nfs_steps(folder: str, point: str) -> list[Step]:
    """Return the steps that export a mounted folder and mount it again over NFS.

    Args:
        folder: Mount point of the file system.
        point: Where the client mounts it.
    """
    return [
        Step(
            command=("sh", "-c", _SERVE, folder),
            undo="nfs_export",
            details={"folder": folder},
        ),
        Step(
            command=("mount", "-i", "-t", "nfs4", "-o", _MOUNT, SOURCE, point),
            undo="mount",
            details={"point": point, "source": SOURCE},
        ),
    ]


def undo_nfs_export(*, folder: str) -> Result:
    """Withdraw our export and end the lab's server, which holds its files open."""
    if not os.environ.get(IN_LAB):
        return gone("the lab has ended, and its server with it")
    attempt(["rpc.nfsd", "0"])
    attempt(["exportfs", "-u", f"{CLIENT}:{folder}"])
    attempt(["exportfs", "-f"])
    for pid in _mountd_processes():
        os.kill(pid, 15)
    return undone("withdrawn, server ended")


NFS_UNDOERS: Final = {"nfs_export": Undoer(undo=undo_nfs_export, subject="folder")}


def _mountd_processes() -> list[int]:
    names = [name for name in LIVE.names("/proc") if name.isdigit()]
    return [int(pid) for pid in names if LIVE.word(f"/proc/{pid}/comm") == "rpc.mountd"]
