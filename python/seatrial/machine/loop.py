"""Loop devices: a file as a block device, for layouts and for tests. Root only."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from seatrial.descriptor import closing
from seatrial.errors import RefusedError, TargetError
from seatrial.machine.commands import run_command
from seatrial.machine.fingerprint.medium import file_text, loop_backing
from seatrial.machine.fingerprint.tree import LIVE
from seatrial.machine.resolve import open_without_links
from seatrial.machine.undo_journal import UndoJournal, Undone
from seatrial.program import with_root

_ATTEMPTS_MAX: Final = 16

# The kernel's VM_READAHEAD_PAGES (include/linux/mm.h).
_READ_AHEAD_KIB_DEFAULT: Final = 128


@dataclass(frozen=True, kw_only=True)
class LoopDevice:
    """A loop device of a run.

    Attributes:
        path: The device, such as ``/dev/loop3``.
        backing: The file behind it.
        entry: Its number in the undo journal.
    """

    path: Path
    backing: Path
    entry: int


def attach(
    backing: Path | str,
    journal: UndoJournal,
    *,
    logical_block_bytes: int = 512,
    direct: bool = False,
) -> LoopDevice:
    """Attach a file to a free loop device; recorded in the journal first.

    Args:
        backing: A regular file.
        journal: Where the change is recorded.
        logical_block_bytes: Logical block size of the device; 512 to the page size.
        direct: Whether the loop device reads and writes its file with O_DIRECT.

    Raises:
        TargetError: when not root, when the file does not exist, or when no loop device is free.
    """
    file = Path(backing).resolve()
    _require_root(file)
    if not file.is_file():
        raise TargetError(
            seen=f"{file} is not a regular file",
            cause="A loop device needs a backing file",
            next_step=f"Create one with `truncate -s 1G {file}`",
        )
    options = [f"--sector-size={logical_block_bytes}", f"--direct-io={'on' if direct else 'off'}"]
    # Another process may take the free device before it is attached: then try the next one.
    for _attempt in range(_ATTEMPTS_MAX):
        device = run_command("losetup", "--find").strip()
        entry = journal.record("loop", device=device, backing=str(file))
        try:
            run_command("losetup", *options, device, str(file))
        except TargetError:
            journal.done(entry)
            if loop_backing(LIVE, f"/sys/block/{Path(device).name}") is None:
                raise
        else:
            _forget_read_ahead(device)
            return LoopDevice(path=Path(device), backing=file, entry=entry)
    raise TargetError(
        seen=f"No free loop device was found in {_ATTEMPTS_MAX} attempts",
        cause="Other processes allocate loop devices at the same time",
        next_step="Check `losetup --list`, then retry",
    )


def detach(loop: LoopDevice, journal: UndoJournal) -> Undone:
    """Detach a loop device of the run; what fails stays in the journal for ``clean``."""
    return journal.undo(loop.entry)


def truncate_backing(device: str, size_bytes: int) -> None:
    """Resize the file behind a loop device, if its name still leads to that very file.

    Raises:
        RefusedError: when another file has its name now, or the device covers only a part of it.
        TargetError: when it cannot be opened.
    """
    name = Path(device).resolve().name
    backing = loop_backing(LIVE, f"/sys/block/{name}")
    if backing is None or not backing.file:
        raise _not_behind(device, backing.name if backing else "nothing")
    try:
        descriptor = open_without_links(Path(backing.name).resolve(), os.O_RDWR)
    except OSError as error:
        raise TargetError(
            seen=f"{backing.name}, the backing file of {device}, cannot be opened: "
            f"{error.strerror}",
            cause="It was renamed or removed while the loop device was in use",
            next_step=f"Check `losetup --list {device}`, then run `seatrial clean`",
        ) from None
    with closing(descriptor):
        if file_text(os.fstat(descriptor)) != backing.file or backing.offset_bytes:
            raise _not_behind(device, backing.name)
        os.ftruncate(descriptor, size_bytes)


def _not_behind(device: str, name: str) -> RefusedError:
    return RefusedError(
        seen=f"{name} is not the backing file of {device}, or is larger than the device",
        cause="The file was replaced, or another program created the loop device",
        next_step=f"Check `losetup --list {device}`, then run `seatrial clean`",
    )


def _forget_read_ahead(device: str) -> None:
    """Reset the read-ahead that an earlier backing file on a rotating disk left behind.

    The kernel raises the read-ahead for such a file and never lowers it (``blk_apply_bdi_limits``
    in block/blk-settings.c), so two loop devices over equal files would differ.
    """
    setting = Path(f"/sys/block/{Path(device).name}/queue/read_ahead_kb")
    with suppress(OSError):
        setting.write_text(str(_READ_AHEAD_KIB_DEFAULT))


def _require_root(file: Path) -> None:
    if os.geteuid() == 0 and Path("/dev/loop-control").exists():
        return
    raise TargetError(
        seen=f"A loop device for {file} cannot be created",
        cause="Loop devices require root and the kernel module loop",
        next_step=f"Run it {with_root()}; load the module with `modprobe loop` if necessary",
    )
