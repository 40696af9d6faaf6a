"""Preflight findings on the file system: type, mount options and free space."""

from __future__ import annotations

from seatrial.findings.rule import from_fingerprint
from seatrial.fingerprint import Fingerprint
from seatrial.stats.model import Figures, Finding, FindingText
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


class FilesystemNearlyFullFigures(Figures, frozen=True, kw_only=True, tag="filesystem_nearly_full"):
    free_bytes: float
    size_bytes: float

    def text(self) -> FindingText:
        return FindingText(
            sentence=(
                f"Only {format_size(int(self.free_bytes))} of {format_size(int(self.size_bytes))} "
                f"({format_share(self.free_bytes / self.size_bytes)}) is free on the file system."
            ),
            cause=(
                "A full file system fragments new files, and a full flash drive has little spare "
                "space for garbage collection; both slow down writes."
            ),
            next=(
                "Free space or use another file system, unless it will be equally full in "
                "production."
            ),
        )


@from_fingerprint(rank=850, section="Preflight: file system")
def filesystem_nearly_full(fingerprint: Fingerprint) -> list[Finding]:
    """Find a file system with less than 10 % free space.

    Means:
        A full file system fragments new files, and full flash has no spare space for garbage
        collection.

    Decided:
        Less than 10 % free. Warning.

    Do:
        Free space, unless the file system will be equally full in production.
    """
    system = fingerprint.filesystem
    if system is None or not system.size_bytes or system.free_bytes is None:
        return []
    size_bytes, free_bytes = system.size_bytes, system.free_bytes
    if free_bytes >= FREE_SHARE_MIN * size_bytes:
        return []
    figures = FilesystemNearlyFullFigures(free_bytes=free_bytes, size_bytes=size_bytes)
    return [Finding(severity="warning", cells=[], figures=figures)]


class MemoryFileSystemFigures(Figures, frozen=True, kw_only=True, tag="memory_file_system"):
    filesystem_type: str
    mount_point: str | None

    def text(self) -> FindingText:
        return FindingText(
            sentence=(
                f"The target is on {self.filesystem_type}: this measures memory, not a drive."
            ),
            cause=("The directory is on an in-memory file system, as /tmp and /dev/shm often are."),
            next=(
                "Use a directory on the drive itself; 'findmnt --target DIR' shows its file system."
            ),
        )


@from_fingerprint(rank=810, section="Preflight: file system")
def memory_file_system(fingerprint: Fingerprint) -> list[Finding]:
    """Find a target on an in-memory file system.

    Means:
        The target is on an in-memory file system (tmpfs or similar): there is no drive.

    Decided:
        By the type of the file system. Critical.

    Do:
        Use a directory on the drive; `findmnt --target DIR` shows its file system.
    """
    kind = _kind(fingerprint)
    if kind not in MEMORY_KINDS:
        return []
    figures = MemoryFileSystemFigures(filesystem_type=kind, mount_point=_mount_point(fingerprint))
    return [Finding(severity="critical", cells=[], figures=figures)]


class OverlayFileSystemFigures(Figures, frozen=True, kw_only=True, tag="overlay_file_system"):
    mount_point: str | None

    def text(self) -> FindingText:
        return FindingText(
            sentence=("The target is on an overlay file system, like the root of a container."),
            cause=(
                "Every request passes through two file systems, and the first write to a file of "
                "the image copies the whole file; the underlying device may not be visible."
            ),
            next=(
                "Use a volume or a bind mount, where a database in a container keeps its data, too."
            ),
        )


@from_fingerprint(rank=840, section="Preflight: file system")
def overlay_file_system(fingerprint: Fingerprint) -> list[Finding]:
    """Find a target on an overlay file system, like the root of a container.

    Means:
        The target is on an overlay file system, like the root of a container.

    Decided:
        By the type of the file system. Warning.

    Do:
        Use a volume, where a database in a container keeps its data, too.
    """
    if _kind(fingerprint) != "overlay":
        return []
    figures = OverlayFileSystemFigures(mount_point=_mount_point(fingerprint))
    return [Finding(severity="warning", cells=[], figures=figures)]


class NetworkFileSystemFigures(Figures, frozen=True, kw_only=True, tag="network_file_system"):
    filesystem_type: str
    mount_point: str | None

    def text(self) -> FindingText:
        return FindingText(
            sentence=(
                f"The target is on {self.filesystem_type}, a remote file system, not on a local "
                "drive."
            ),
            cause=(
                "The network, the server's caches and its other clients affect every figure; "
                "O_DIRECT bypasses only the local page cache."
            ),
            next=(
                "Measure on the server, too, and compare: the difference is the cost of network "
                "and protocol."
            ),
        )


@from_fingerprint(rank=830, section="Preflight: file system")
def network_file_system(fingerprint: Fingerprint) -> list[Finding]:
    """Find a target on a remote or user-space file system.

    Means:
        The target is on a remote file system, not on a local drive.

    Decided:
        NFS, SMB, Ceph, 9p, virtiofs, Lustre, GlusterFS and similar types, and FUSE except on a
        block device. Warning.

    Do:
        Measure on the server, too, and compare.
    """
    kind = _kind(fingerprint)
    if kind not in NETWORK_KINDS and not kind.startswith("fuse."):
        return []
    figures = NetworkFileSystemFigures(filesystem_type=kind, mount_point=_mount_point(fingerprint))
    return [Finding(severity="warning", cells=[], figures=figures)]


class BarriersOffFigures(Figures, frozen=True, kw_only=True, tag="barriers_off"):
    mount_options: list[str]
    mount_point: str | None

    def text(self) -> FindingText:
        return FindingText(
            sentence=(
                f"The file system is mounted with {', '.join(self.mount_options)}: commits are not "
                "durable."
            ),
            cause=(
                "fsync returns without flushing the drive's write cache. After a power failure, "
                "acknowledged commits are lost and the file system may be corrupted, unless the "
                "cache has power-loss protection."
            ),
            next=(
                "Remount without the option before measuring commits: 'mount -o remount,barrier "
                "MOUNT'."
            ),
        )


@from_fingerprint(rank=820, section="Preflight: file system")
def barriers_off(fingerprint: Fingerprint) -> list[Finding]:
    """Find a mount that never flushes the drive's write cache.

    Means:
        The file system never flushes the drive's write cache: commits are not durable, and too
        fast.

    Decided:
        Mount options `nobarrier` or `barrier=0`. Critical.

    Do:
        Remount without the option before measuring commits.
    """
    options = fingerprint.filesystem.mount_options if fingerprint.filesystem else []
    off = [word for word in options if word in BARRIERS_OFF_OPTIONS]
    if not off:
        return []
    figures = BarriersOffFigures(mount_options=off, mount_point=_mount_point(fingerprint))
    return [Finding(severity="critical", cells=[], figures=figures)]


def _kind(fingerprint: Fingerprint) -> str:
    return (fingerprint.filesystem.type if fingerprint.filesystem else None) or ""


def _mount_point(fingerprint: Fingerprint) -> str | None:
    return fingerprint.filesystem.mount_point if fingerprint.filesystem else None
