"""What about the file system could distort a measurement; known before anything is measured."""

from __future__ import annotations

from typing import Any

from seatrial.findings.context import lookup, number
from seatrial.findings.rule import from_fingerprint
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_share, format_size

FREE_SHARE_MIN = 0.10
MEMORY_KINDS = ("tmpfs", "ramfs", "devtmpfs", "hugetlbfs")
NETWORK_KINDS = (
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "ceph",
    "9p",
    "virtiofs",
    "lustre",
    "glusterfs",
    "beegfs",
    "gfs2",
    "ocfs2",
    "afs",
)
BARRIERS_OFF_OPTIONS = ("nobarrier", "barrier=0", "barrier=none")


@from_fingerprint(rank=850, section="The file system, before anything is measured")
def filesystem_nearly_full(fingerprint: dict[str, Any]) -> list[Finding]:
    """Find a file system with less than a tenth of its space free.

    Means:
        Full file systems scatter files, and full flash has no room to collect garbage.

    Decided:
        Less than 10 % free. Warning.

    Do:
        Free space; or measure so, if it will be as full in use.
    """
    size_bytes = number(fingerprint, "target", "filesystem", "size_bytes")
    free_bytes = number(fingerprint, "target", "filesystem", "free_bytes")
    if not size_bytes or free_bytes is None or free_bytes >= FREE_SHARE_MIN * size_bytes:
        return []
    return [
        Finding(
            kind="filesystem_nearly_full",
            severity="warning",
            cells=[],
            sentence=(
                f"Only {format_size(int(free_bytes))} of {format_size(int(size_bytes))} "
                f"({format_share(free_bytes / size_bytes)}) is free on the file system."
            ),
            cause=(
                "A full file system scatters new files, and a full flash drive has little room to "
                "collect garbage: both write slower than with space to spare."
            ),
            evidence={"free_bytes": free_bytes, "size_bytes": size_bytes},
            next=(
                "Free space or use another file system; if it will be as full in use, measure it "
                "so."
            ),
        )
    ]


@from_fingerprint(rank=810, section="The file system, before anything is measured")
def memory_file_system(fingerprint: dict[str, Any]) -> list[Finding]:
    """Find a target that lies in memory.

    Means:
        The target lies in memory (tmpfs and its kin): there is no drive.

    Decided:
        The type of the file system. Critical.

    Do:
        Give a directory on the drive; `findmnt --target DIR` shows where one lies.
    """
    kind = _kind(fingerprint)
    if kind not in MEMORY_KINDS:
        return []
    return [
        Finding(
            kind="memory_file_system",
            severity="critical",
            cells=[],
            sentence=f"The target lies on {kind}: this measures memory, not a drive.",
            cause="The directory is a file system in memory, as /tmp and /dev/shm often are.",
            evidence={"filesystem_type": kind, "mount_point": _mount_point(fingerprint)},
            next=(
                "Give a directory on the drive itself; 'findmnt --target DIR' shows where it lies."
            ),
        )
    ]


@from_fingerprint(rank=840, section="The file system, before anything is measured")
def overlay_file_system(fingerprint: dict[str, Any]) -> list[Finding]:
    """Find a target on an overlay, as the root of a container is.

    Means:
        The target lies on the layered root of a container.

    Decided:
        The type of the file system. Warning.

    Do:
        Use a volume, where a database in a container keeps its data too.
    """
    if _kind(fingerprint) != "overlay":
        return []
    return [
        Finding(
            kind="overlay_file_system",
            severity="warning",
            cells=[],
            sentence="The target lies on an overlay file system, as the root of a container does.",
            cause=(
                "Every request passes two file systems, and the first write to a file of the image "
                "copies all of it; the device below may not be visible."
            ),
            evidence={"mount_point": _mount_point(fingerprint)},
            next=(
                "Use a volume or a mount of the host, where a database in a container keeps its "
                "data too."
            ),
        )
    ]


@from_fingerprint(rank=830, section="The file system, before anything is measured")
def network_file_system(fingerprint: dict[str, Any]) -> list[Finding]:
    """Find a target whose file system is another machine's or a user-space server's.

    Means:
        A server answers, not a drive of this machine.

    Decided:
        NFS, SMB, Ceph, 9p, virtiofs, Lustre, GlusterFS and other such types, and FUSE but for those
        on a block device. Warning.

    Do:
        Measure on the server too and compare.
    """
    kind = _kind(fingerprint)
    if kind not in NETWORK_KINDS and not kind.startswith("fuse."):
        return []
    return [
        Finding(
            kind="network_file_system",
            severity="warning",
            cells=[],
            sentence=(
                f"The target lies on {kind}, which a server answers, not a drive of this machine."
            ),
            cause=(
                "The network, the server's caches and its other clients are part of every number; "
                "O_DIRECT goes around this machine's cache only."
            ),
            evidence={"filesystem_type": kind, "mount_point": _mount_point(fingerprint)},
            next=(
                "Measure on the server too, and compare: the difference is the network and the "
                "protocol."
            ),
        )
    ]


@from_fingerprint(rank=820, section="The file system, before anything is measured")
def barriers_off(fingerprint: dict[str, Any]) -> list[Finding]:
    """Find a mount that never tells the drive to empty its write cache.

    Means:
        The mount never tells the drive to empty its cache: commits are not safe, and too fast.

    Decided:
        Mount options `nobarrier` or `barrier=0`. Critical.

    Do:
        Remount without it before measuring commits.
    """
    options = lookup(fingerprint, "target", "filesystem", "mount_options")
    words = options if isinstance(options, list) else []
    off = [word for word in words if word in BARRIERS_OFF_OPTIONS]
    if not off:
        return []
    return [
        Finding(
            kind="barriers_off",
            severity="critical",
            cells=[],
            sentence=(
                f"The file system is mounted with {', '.join(off)}: a commit does not reach the "
                "medium."
            ),
            cause=(
                "fsync returns without flushing the drive's write cache. After a loss of power, "
                "commits that were acknowledged are gone, and so may be the file system, unless "
                "the cache has a battery or capacitors."
            ),
            evidence={"mount_options": off, "mount_point": _mount_point(fingerprint)},
            next=(
                "Remount without the option before measuring commits: 'mount -o remount,barrier "
                "MOUNT'."
            ),
        )
    ]


def _kind(fingerprint: dict[str, Any]) -> str:
    return str(lookup(fingerprint, "target", "filesystem", "type") or "")


def _mount_point(fingerprint: dict[str, Any]) -> object:
    return lookup(fingerprint, "target", "filesystem", "mount_point")
