"""A pool of ZFS for one sample: disks, daemon, file system, file; and all of it removed again.

The daemon is zfs-fuse, in a root folder and mount namespace of its own: its settings, socket,
lock, statistics and mounts are invisible to others, and end with it. Pools of the machine are not
used.

Sources: zfs-fuse(8) and zpool(8) of zfs-fuse 0.7.0; unshare(1), nsenter(1); the kernel's
Documentation/admin-guide/cgroup-v1/blkio-controller.rst and cgroup-v2.rst (``io.max``).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Final, Self

from seatrial.errors import TargetError
from seatrial.machine import loop
from seatrial.machine.commands import run_command
from seatrial.machine.fingerprint.machine import own_groups
from seatrial.machine.fingerprint.tree import LIVE
from seatrial.machine.undo_journal import UndoJournal
from seatrial.machine.undo_result import Outcome, wait_until
from seatrial.program import with_root
from seatrial.trials.cache.measure.arcstats import Counters
from seatrial.trials.cache.measure.undoing import new_token
from seatrial.trials.cache.study.workload import PoolSpec
from seatrial.units import MIB

PROGRAMS: Final = (
    "zfs-fuse",
    "zpool",
    "unshare",
    "nsenter",
    "setpriv",
    "chroot",
    "losetup",
    "mount",
)
POOL: Final = "seatrial"
DATA: Final = "data"
START_TIMEOUT_S: Final = 15.0
_WRITE_BYTES: Final = 1 << 20
_START_SCRIPT: Final = """
set -e
root=$1 settings=$2 token=$3
mount -t tmpfs -o mode=755 seatrial "$root"
mkdir "$root/zfs-kstat" "$root/pool" "$root/run" "$root/tmp" "$root/disks"
for each in bin sbin lib lib32 lib64 usr dev proc sys; do
    if [ -L "/$each" ]; then cp -P "/$each" "$root/$each"
    elif [ -d "/$each" ]; then mkdir "$root/$each"; mount --rbind "/$each" "$root/$each"; fi
done
mkdir -p "$root/var/lib/zfs" "$root/var/run/zfs" "$root/var/lock/zfs" "$root/etc/zfs"
cp "$settings" "$root/etc/zfs/zfsrc"
touch "$root/etc/mtab" "$root/etc/fstab"
exec chroot "$root" zfs-fuse --no-daemon --pidfile "/run/$token"
"""
"""Makes the root folder of the daemon in its mount namespace, and becomes the daemon."""
_GROUP_SCRIPT: Final = """
echo 0 > "$4"
exec unshare --mount --propagation private /bin/sh -c "$0" sh "$1" "$2" "$3"
"""
"""Enters a control group and a mount namespace first."""


def obstacle() -> str:
    """Return why no pool can be built on this machine, as a sentence; empty if one can."""
    if os.geteuid() != 0:
        return f"A pool needs root for loop devices and mounts; run it {with_root()}"
    missing = [each for each in PROGRAMS if shutil.which(each, path=_search_path()) is None]
    if missing:
        return (
            f"{', '.join(missing)} is not installed; on Debian: `apt-get install zfs-fuse "
            "util-linux`"
        )
    if not Path("/dev/fuse").exists():
        return "The kernel has no FUSE, which zfs-fuse needs (`modprobe fuse`)"
    if not Path("/dev/loop-control").exists():
        return "The kernel has no loop devices (`modprobe loop`)"
    return ""


def limit_obstacle() -> str:
    """Return why disks cannot be limited here, as a sentence; empty if they can."""
    if _limit_group() is None:
        return (
            "Disks cannot be limited (disk_iops) here: no control group with the controller blkio "
            "or io may be made"
        )
    return ""


def _search_path() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def _limit_group() -> tuple[str, int] | None:
    """Return a group in which a group with limits of devices can be made, and its version."""
    first = [each for each in own_groups(LIVE, "blkio") if os.access(each, os.W_OK)]
    if first:
        return first[0], 1
    for folder in own_groups(LIVE):
        controllers = (LIVE.text(f"{folder}/cgroup.subtree_control") or "").split()
        if "io" in controllers and os.access(folder, os.W_OK):
            return folder, 2
    return None


def settings_of(spec: PoolSpec) -> str:
    """Return the daemon's settings (``zfsrc``): no prefetch, no cache but the ARC."""
    lines = [
        f"max-arc-size = {max(16, spec.arc_bytes // MIB)}",
        "vdev-cache-size = 0",
        "zfs-prefetch-disable",
        "disable-block-cache",
        "disable-page-cache",
        "fuse-attr-timeout = 3600",
        "fuse-entry-timeout = 3600",
        "fuse-mount-options = default_permissions",
    ]
    return "".join(f"{line}\n" for line in lines)


class Pool:
    """A pool for one sample; leaving it as a context removes everything.

    Args:
        spec: The pool to build.
        folder: An existing folder of the run, for the images.
        journal: Records every change before it is made.
    """

    def __init__(self, spec: PoolSpec, folder: Path, journal: UndoJournal) -> None:
        self.spec = spec
        self.token = new_token(journal.run_id)
        self.commands: list[str] = []
        self._folder = folder
        self._journal = journal
        self._entries: list[int] = []
        self._disks: list[Path] = []
        self._cache: Path | None = None
        self._group: Path | None = None
        self._version = 0
        self._daemon: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self._build()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    @property
    def root(self) -> Path:
        """The daemon's root folder, as seen from here; raises RuntimeError without a daemon."""
        if self._daemon is None:
            raise RuntimeError("the daemon does not run")
        return Path(f"/proc/{self._daemon.pid}/root")

    @property
    def file(self) -> Path:
        """The file that is read."""
        return self.root / "pool" / DATA

    @property
    def counters(self) -> Counters:
        """The daemon's statistics."""
        return Counters(self.root / "zfs-kstat/zfs/arcstats")

    def close(self) -> None:
        """Remove everything; what fails stays in the journal.

        Raises:
            TargetError: when something cannot be removed, so that no other pool can be built.
        """
        results = [self._journal.undo(entry) for entry in reversed(self._entries)]
        self._entries = []
        if self._daemon is not None:
            self._daemon.kill()
            self._daemon.wait()
            self._daemon = None
        for image in self._folder.glob("*.img"):
            image.unlink()
        not_undone = [each for each in results if each.outcome == Outcome.FAILED]
        if not_undone:
            raise TargetError(
                seen="The pool of a sample could not be removed: "
                + "; ".join(f"{each.kind} {each.subject}: {each.detail}" for each in not_undone),
                cause="Another program uses its devices or files",
                next_step="End that use, then run `seatrial clean`",
            )

    def _build(self) -> None:
        self._disks = [
            self._attach(f"disk-{number}", self.spec.disk_bytes)
            for number in range(self.spec.disks)
        ]
        if self.spec.has_cache:
            self._cache = self._attach("cache", self.spec.cache_bytes)
        self._make_group()
        self._start()
        self._link_disks()
        level = ["raidz"] if self.spec.pool == "raid-z" else []
        options = [f"recordsize={self.spec.record_bytes}", "atime=off", "compression=off"]
        set_options = [word for option in options for word in ("-O", option)]
        # Sectors of 512 bytes, as in 2008: a record is on all data disks of a raid-z.
        self.zpool(
            *("create", "-f", "-o", "ashift=9", *set_options, "-m", "/pool", POOL),
            *(*level, *map(str, self._disks)),
        )
        # The daemon mounts its statistics with the first pool.
        wait_until(self.counters.exist)
        self._write_data()

    def _attach(self, name: str, size_bytes: int) -> Path:
        image = self._folder / f"{name}.img"
        with image.open("wb") as file:
            file.truncate(size_bytes)
        device = loop.attach(image, self._journal, direct=True)
        self._entries.append(device.entry)
        return device.path

    def _make_group(self) -> None:
        """Make the control group of the daemon, in which disks can be limited later."""
        group = _limit_group()
        if group is None:
            return
        parent, self._version = group
        self._group = Path(parent, self.token)
        entry = self._journal.record("cgroup", path=str(self._group), return_to=parent)
        self._entries.append(entry)
        self._group.mkdir()

    def _start(self) -> None:
        """Start the daemon and wait until it answers.

        Raises:
            TargetError: when it does not.
        """
        root, settings = self._folder / "root", self._folder / "zfsrc"
        root.mkdir(exist_ok=True)
        settings.write_text(settings_of(self.spec))
        self._entries.append(self._journal.record("zfs_daemon", token=self.token))
        group = f"{self._group}/cgroup.procs" if self._group else "/dev/null"
        log = self._folder / "daemon.log"
        with log.open("wb") as output:
            self._daemon = subprocess.Popen(
                [
                    *(
                        "setpriv",
                        "--pdeathsig",
                        "KILL",
                        "/bin/sh",
                        "-c",
                        _GROUP_SCRIPT,
                        _START_SCRIPT,
                    ),
                    *(str(root), str(settings), self.token, group),
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, "PATH": _search_path()},
            )
        daemon = self._daemon
        if not wait_until(
            lambda: self._responds() or daemon.poll() is not None, START_TIMEOUT_S
        ) or (daemon.poll() is not None):
            words = log.read_text(errors="replace").strip()[-400:] or "nothing"
            raise TargetError(
                seen="The ZFS daemon (zfs-fuse) did not start",
                cause=f"Its output: {words}",
                next_step="Try it by hand: `zfs-fuse --no-daemon`",
            )

    def _responds(self) -> bool:
        """Return whether the daemon answers."""
        try:
            run_command(*self._enter_command(), "zpool", "list")
        except TargetError:
            return False
        return True

    def _enter_command(self) -> tuple[str, ...]:
        """Return the beginning of a command that runs where the daemon does."""
        if self._daemon is None:
            raise RuntimeError("the daemon does not run")
        return ("nsenter", "--target", str(self._daemon.pid), "--mount", "--root", "--wd=/")

    def _link_disks(self) -> None:
        """Make the folder in which an import looks for disks: these, and no others."""
        for disk in self._disks:
            (self.root / "disks" / disk.name).symlink_to(disk)

    def zpool(self, *arguments: str) -> str:
        """Run a command of ``zpool`` with the daemon and return its output.

        Raises:
            TargetError: when it fails.
        """
        self.commands.append(" ".join(("zpool", *arguments)))
        return run_command(*self._enter_command(), "zpool", *arguments)

    def _write_data(self) -> None:
        """Write the file that is read; its content cannot be compressed."""
        left_bytes = self.spec.records * self.spec.record_bytes
        with self.file.open("wb") as file:
            while left_bytes > 0:
                file.write(os.urandom(min(_WRITE_BYTES, left_bytes)))
                left_bytes -= _WRITE_BYTES
            file.flush()
            os.fsync(file.fileno())

    def make_cold(self) -> None:
        """Empty the ARC and the page cache: an exported pool has nothing in them."""
        self.zpool("export", POOL)
        self.zpool("import", "-d", "/disks", POOL)

    def client_path(self) -> Path:
        """Return the path that clients read: the file, or a loop device over it.

        A cached client has a page cache of its own above ZFS, like an NFS client; the page cache
        of zfs-fuse itself cannot be used without that of its disks.

        Raises:
            TargetError: when no loop device can be made.
        """
        if self.spec.clients == "direct":
            return self.file
        backing = self._folder / "root/pool" / DATA
        device = run_command("losetup", "--find").strip()
        # The name by which the kernel knows the file, in the daemon's namespace.
        entry = self._journal.record("loop", device=device, backing=str(backing))
        self._entries.append(entry)
        inside = ("nsenter", "--target", str(self.root.parent.name), "--mount")
        run_command(*inside, "losetup", "--read-only", device, str(backing))
        Path(f"/sys/block/{Path(device).name}/queue/read_ahead_kb").write_text("0")
        return Path(device)

    def limit_disks(self) -> None:
        """Limit the reads of each disk.

        Raises:
            TargetError: when the kernel refuses.
        """
        limit = self.spec.disk_reads_per_s
        if not limit:
            return
        if self._group is None:
            raise TargetError(
                seen="The disks of the pool cannot be limited",
                cause=limit_obstacle(),
                next_step="Set disk_iops to 0 in the study",
            )
        for disk in self._disks:
            number = disk.stat().st_rdev
            name = f"{os.major(number)}:{os.minor(number)}"
            if self._version == 1:
                file, text = "blkio.throttle.read_iops_device", f"{name} {limit}"
            else:
                file, text = "io.max", f"{name} riops={limit}"
            (self._group / file).write_text(text)

    def add_cache(self) -> float:
        """Add the cache device; return the Unix time at which the command ended (s).

        Raises:
            RuntimeError: when the pool was built without one.
            TargetError: when ZFS refuses.
        """
        if self._cache is None:
            raise RuntimeError("the pool has no cache device")
        self.zpool("add", "-f", POOL, "cache", str(self._cache))
        return time.time()

    def version(self) -> str:
        """Return the implementation of ZFS, such as ``zfs-fuse, pool version 23``."""
        text = self.zpool("upgrade")
        found = next((word for word in text.split() if word.rstrip(".").isdigit()), "")
        return f"zfs-fuse, pool version {found.rstrip('.')}" if found else "zfs-fuse"
