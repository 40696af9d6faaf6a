"""Our own file system with simulated power cuts, which lose everything that was not written out.

A file in the run's folder becomes a loop device with xfs or ext4. A cut shuts that file system down
at once, without flushing its log, like fstests' ``godown`` for testing crash recovery: what was
passed to the loop device remains, as on a drive that lost its power but keeps what it acknowledged;
what was only in the page cache, data and metadata alike, is lost. A drive that lies about flushes
is simulated as well: its content is then reset to an earlier moment.

Sources: the kernel's fs/xfs/libxfs/xfs_fs.h (``XFS_IOC_GOINGDOWN``,
``XFS_FSOP_GOING_FLAGS_NOLOGFLUSH``) and fs/ext4/ext4.h (``EXT4_IOC_SHUTDOWN``, the same number);
fstests' src/godown.c; ioctl_fs(2) and fs/ioctl.c (``FIFREEZE``, ``FITHAW``).
"""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
from pathlib import Path
from typing import Final, Self

from seatrial.descriptor import closing
from seatrial.errors import TargetError
from seatrial.machine import loop
from seatrial.machine.commands import run_command
from seatrial.machine.loop import LoopDevice
from seatrial.machine.undo_journal import UndoJournal
from seatrial.machine.undo_result import Outcome
from seatrial.machine.undoers import freeze
from seatrial.postgres.clone import copy_file
from seatrial.program import with_root

SIZE_BYTES: Final = 512 << 20
"""Minimum size of mkfs.xfs. The file is sparse: only written data takes space."""

_SHUTDOWN: Final = 0x8004587D  # _IOR('X', 125, __u32)
_WITHOUT_LOG: Final = struct.pack("I", 2)
_MAKERS: Final = {
    "xfs": ("mkfs.xfs", "-q", "-f"),
    "ext4": ("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"),
}


class CuttableFilesystem:
    """A mounted file system in a run's trial folder; a context that removes it.

    Every change is recorded in the undo journal before it is made.

    Args:
        folder: The open trial folder.
        name: Name of the mount point in it, and of the files next to it.
        journal: The run's journal.
        kind: ``xfs`` or ``ext4``; by default the first of the two that is available.
        size_bytes: Size of the file.

    Raises:
        TargetError: when not root, or no such file system can be created.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        journal: UndoJournal,
        *,
        kind: str = "",
        size_bytes: int = SIZE_BYTES,
    ) -> None:
        self.kind = kind or usual_kind()
        self.point = folder / name
        self._image = folder / f"{name}.img"
        self._saved_image = folder / f"{name}.earlier.img"
        self._journal = journal
        self._device: LoopDevice | None = None
        self._mount_entry = 0
        require_cuttable(self.kind)
        with self._image.open("wb") as file:
            file.truncate(size_bytes)
        # On the file, not the device: it is the run's own, and needs no permit of the guard.
        run_command(*_MAKERS[self.kind], str(self._image))
        self.point.mkdir(mode=0o711)
        self._attach()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def sync(self) -> None:
        """Write everything out, so that a later cut does not lose it.

        Raises:
            TargetError: when that fails.
        """
        run_command("sync", "--file-system", str(self.point))

    def save_content(self) -> None:
        """Save the drive's current content, for a later ``remount`` that resets to it.

        The file system is frozen meanwhile, so that the copy is consistent.

        Raises:
            TargetError: when it cannot be frozen.
        """
        entry = self._journal.record("frozen", point=str(self.point))
        try:
            freeze(self.point)
            copy_file(self._image, self._saved_image)
        except OSError as error:
            raise _not_saved(self._saved_image, error) from None
        finally:
            self._journal.undo(entry)

    def cut(self) -> None:
        """Cut the power: the file system is shut down at once, without flushing its log.

        Its users must be killed before.

        Raises:
            TargetError: when the kernel refuses.
        """
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        with closing(os.open(self.point, flags)) as descriptor:
            try:
                fcntl.ioctl(descriptor, _SHUTDOWN, _WITHOUT_LOG)
            except OSError as error:
                raise _no_cut(self.kind, error) from None

    def remount(self, *, with_saved: bool = False) -> None:
        """Mount the file system again after a cut, which replays its journal.

        Args:
            with_saved: Whether the drive has the content of the last ``save_content``: it lied
                    about every flush since.

        Raises:
            TargetError: when it cannot be unmounted or mounted again.
        """
        self._release()
        if with_saved:
            self._saved_image.replace(self._image)
        self._attach()

    def close(self) -> None:
        """Unmount it and remove its files; what fails stays in the journal for ``clean``.

        Raises:
            TargetError: when it cannot be unmounted.
        """
        self._release()
        for path in (self._image, self._saved_image):
            path.unlink(missing_ok=True)
        if self.point.is_dir():
            self.point.rmdir()

    def _attach(self) -> None:
        self._device = loop.attach(self._image, self._journal)
        device, point = str(self._device.path), str(self.point)
        self._mount_entry = self._journal.record("mount", point=point, source=device)
        try:
            run_command("mount", "-t", self.kind, device, point)
        except TargetError:
            self._journal.undo(self._mount_entry)
            loop.detach(self._device, self._journal)
            raise

    def _release(self) -> None:
        if self._device is None:
            return
        for entry in (self._mount_entry, self._device.entry):
            undone = self._journal.undo(entry)
            if undone.outcome == Outcome.FAILED:
                raise TargetError(
                    seen=f"{undone.subject} could not be removed: {undone.detail}",
                    cause="A process still uses it",
                    next_step="End that process, then run `seatrial clean`",
                )
        self._device = None


def usual_kind() -> str:
    """Return the kind of file system that is used here: xfs, else ext4."""
    return "xfs" if shutil.which(_MAKERS["xfs"][0]) else "ext4"


def require_cuttable(kind: str = "") -> None:
    """Check that a file system with power cuts can be created here.

    Args:
        kind: ``xfs`` or ``ext4``; the usual one unless given.

    Raises:
        TargetError: when not, with what is missing.
    """
    wanted = kind or usual_kind()
    if os.geteuid() != 0 or not Path("/dev/loop-control").exists():
        raise TargetError(
            seen="A power failure cannot be simulated here",
            cause="It needs a loop device with a separate file system, which requires root and the "
            "kernel's loop module",
            next_step=f"Run it {with_root()}, or leave out --power-cut: then only the server is "
            "killed, and the page cache survives",
        )
    maker = _MAKERS[wanted][0]
    if shutil.which(maker) is None:
        package = "xfsprogs" if wanted == "xfs" else "e2fsprogs"
        raise TargetError(
            seen=f"The command {maker} was not found",
            cause="It creates the file system for the simulated power failure",
            next_step=f"Install it with `apt-get install {package}` and try again",
        )


def _not_saved(earlier: Path, error: OSError) -> TargetError:
    return TargetError(
        seen=f"The contents of the drive could not be saved as {earlier}: {error.strerror}",
        cause="The file system above is full, or this container may not freeze one (CAP_SYS_ADMIN)",
        next_step=f"Check the space with `df {earlier.parent}`, then try again",
    )


def _no_cut(kind: str, error: OSError) -> TargetError:
    return TargetError(
        seen=f"The {kind} file system could not be shut down: {error.strerror}",
        cause="The kernel is too old, or this container lacks CAP_SYS_ADMIN",
        next_step="Run it on the host, or leave out --power-cut",
    )
