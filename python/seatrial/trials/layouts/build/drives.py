"""The drives of a study, opened for a run: devices that pass the guard, or loop devices.

They are the same for the whole run, and are checked again before every build.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from seatrial.errors import DirectError, RefusedError, StudyError, TargetError
from seatrial.machine.direct import direct_alignment
from seatrial.machine.file import TrialFolder
from seatrial.machine.fingerprint.medium import Extent, extent_of_device, number_text
from seatrial.machine.fingerprint.tree import LIVE
from seatrial.machine.guard import DeviceState, contents_phrase, inspect, require_permitted
from seatrial.machine.loop import LoopDevice, attach, detach, truncate_backing
from seatrial.machine.undo_journal import UndoJournal, Undone
from seatrial.machine.undoers import loop_file
from seatrial.machine.uses import Survey, exclusive_use, uses_of_device
from seatrial.study.layouts.layout import Drives, parse_drives
from seatrial.trials.layouts.build.running import run_checked

_USES_SHOWN_MAX: Final = 2


@dataclass(frozen=True, kw_only=True)
class _RefusedDrive:
    """A device refused by the guard: ``why`` is a phrase, ``release`` how to end its use."""

    state: DeviceState
    why: str
    release: str = ""


class OpenDrives:
    """The drives of a run, in the study's order; a context that releases them at the end.

    Args:
        drives: Drives of the study or the command line.
        run_id: The run, whose marker is in the folder of the loop devices' files.
        journal: Records every change.
        destroy: Words of ``--destroy``, separated by commas: the serial number of each device, or
            its path where it has none. The run's own loop devices need none.
        needed: Number of drives of the largest variant.

    Attributes:
        paths: The devices, once they are open.
    """

    def __init__(
        self,
        drives: Drives,
        run_id: str,
        journal: UndoJournal,
        destroy: str | None,
        needed: int,
    ) -> None:
        self.paths: list[str] = []
        self._drives = drives
        self._run_id = run_id
        self._journal = journal
        self._words = frozenset(word.strip() for word in (destroy or "").split(",") if word.strip())
        self._needed = needed
        self._folder: TrialFolder | None = None
        self._loops: list[LoopDevice] = []
        self._loop_bytes = 0

    def open(self) -> Self:
        """Check the devices, or create the loop devices.

        Raises:
            StudyError: when too few or no drives are named, or the lab's outside of it.
            RefusedError: when the guard refuses any; the message names each.
            TargetError: when one cannot be used, or loop devices are not available.
            SpaceError: when their files would not fit into the folder.
            UsageError: when the journal cannot be written.
        """
        devices = self._drives.devices
        if self._drives.loop:
            self._make_loops()
        elif devices:
            _require_enough(len(devices), self._needed)
            self.paths = [str(state.path) for state in _judge(devices, self._words)]
        else:
            raise _none_named(self._needed, of_lab=bool(self._drives.lab))
        return self

    def recheck(self) -> None:
        """Check the drives again before a build; loop devices are recreated empty.

        Raises:
            RefusedError: when a device is in use by others, or was replaced by another.
            TargetError: when one cannot be used any more.
        """
        for loop in self._loops:
            _renew(loop, self._loop_bytes)
        if self._drives.devices:
            # A link of udev leads elsewhere once the kernel has renumbered the disks.
            found = [str(state.path) for state in _judge(self._drives.devices, self._words)]
            if found != self.paths:
                raise _renumbered(self.paths, found)

    def close(self) -> list[Undone]:
        """Release the drives: detach loop devices and remove their files.

        What fails stays in the journal for ``clean``.
        """
        results = [detach(loop, self._journal) for loop in reversed(self._loops)]
        if self._folder is not None:
            results.append(self._folder.remove())
        self._loops, self._folder, self.paths = [], None, []
        return results

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def _make_loops(self) -> None:
        count, self._loop_bytes = parse_drives(self._drives.loop)
        _require_enough(count, self._needed)
        # Its own folder: the one with the mount points is removed with each layout.
        name = f"{self._run_id}-drives"
        folder = TrialFolder(self._drives.folder or Path.cwd(), name, self._journal)
        self._folder = folder
        try:
            folder.open(count * self._loop_bytes, direct=False, shrink_option="--loop")
            direct = _supports_direct(folder.path)
            for number in range(1, count + 1):
                backing = folder.file(f"drive{number}.img")
                with backing.open("ab") as file:
                    file.truncate(self._loop_bytes)
                self._loops.append(attach(backing, self._journal, direct=direct))
        except BaseException:
            self.close()
            raise
        self.paths = [str(loop.path) for loop in self._loops]


def _judge(devices: Sequence[str], words: frozenset[str]) -> list[DeviceState]:
    """Let the guard check every device, without claiming them: the tools must claim them.

    Raises:
        RefusedError: when it refuses any; the message names each.
        TargetError: when one is not a block device or not writable.
    """
    survey = Survey()
    states = [inspect(path, survey=survey) for path in devices]
    for state in states:
        if state.kind != "block" or state.size_bytes == 0:
            raise _no_drive(state)
    _require_distinct(devices, states)
    refused = [each for state in states if (each := _refusal(state, words))]
    if refused:
        raise _refused(states, refused)
    for state in states:
        require_permitted(state, destroy=state.destroy_word)
    return states


def _refusal(state: DeviceState, words: frozenset[str]) -> _RefusedDrive | None:
    if state.uses:
        shown = ", ".join(use.phrase for use in state.uses[:_USES_SHOWN_MAX])
        return _RefusedDrive(state=state, why=shown, release=state.uses[0].release)
    if state.destroy_word not in words:
        return _RefusedDrive(state=state, why=f"{contents_phrase(state)} and is not named")
    return None


def _require_distinct(given: Sequence[str], states: Sequence[DeviceState]) -> None:
    """Check that no two names refer to the same bytes, by links, partitions or multipath."""
    taken: list[tuple[str, Extent]] = []
    for name, state in zip(given, states, strict=True):
        extent = extent_of_device(LIVE, number_text(state.identity.st_rdev))
        shared = next((other for other, theirs in taken if extent.overlaps(theirs)), None)
        if shared:
            raise RefusedError(
                seen=f"{shared} and {name} are both given as drives, but are on the same disk",
                cause="One is a link to the other, a partition of it, or another path to its disk",
                next_step="Give each drive once; `lsblk` shows the relations",
            )
        taken.append((name, extent))


def _refused(states: Sequence[DeviceState], refused: Sequence[_RefusedDrive]) -> RefusedError:
    each = "; ".join(f"{one.state} {one.why}" for one in refused)
    in_use = [one for one in refused if one.release]
    words = ",".join(dict.fromkeys(state.destroy_word for state in states))
    free = f"First {in_use[0].release}, or name another drive. " if in_use else ""
    return RefusedError(
        seen=f"{len(refused)} of {len(states)} drives were refused, nothing was written: {each}",
        cause="Layouts use whole drives and destroy all data on them: each drive must be unused"
        " and confirmed by its serial number, or by its path if it has none",
        next_step=f"{free}To destroy their data, repeat the command with `--destroy {words}`",
    )


def _renew(loop: LoopDevice, size_bytes: int) -> None:
    """Make a loop device's file sparse and empty again, even after a simulated failure."""
    if loop_file(loop.path.name) != str(loop.backing):
        raise TargetError(
            seen=f"{loop.path} is no longer attached to {loop.backing}",
            cause="Another program detached it, and may use it for a file of its own",
            next_step="Check `losetup --list`, then start the run again",
        )
    claimed = exclusive_use(loop.path)
    if claimed:
        uses = uses_of_device(number_text(loop.path.stat().st_rdev)) or [claimed]
        raise TargetError(
            seen=f"{loop.path} {uses[0].phrase}",
            cause="A previous array on it was not removed",
            next_step=f"Run `seatrial clean`, or {uses[0].release}",
        )
    truncate_backing(str(loop.path), 0)
    truncate_backing(str(loop.path), size_bytes)
    run_checked(["losetup", "--set-capacity", str(loop.path)])
    run_checked(["blockdev", "--flushbufs", str(loop.path)])


def _renumbered(opened: Sequence[str], found: Sequence[str]) -> RefusedError:
    return RefusedError(
        seen=f"The drives were {', '.join(opened)} when the run began; the same names now lead to "
        f"{', '.join(found)}; nothing was written",
        cause="Disks were reset or plugged in again, so that the kernel renumbered them",
        next_step="Check `lsblk`, then start the run again",
    )


def _supports_direct(folder: Path) -> bool:
    """Return whether files there support O_DIRECT, so that drives are not memory."""
    try:
        direct_alignment(folder)
    except DirectError:
        return False
    return True


def _require_enough(count: int, needed: int) -> None:
    if count >= needed:
        return
    raise StudyError(
        seen=f"The largest layout needs {needed} drives, but {count} were given",
        cause="Every active drive, spare, log and cache needs a separate drive",
        next_step=f"Give {needed} with --devices, or create them with --loop {needed}x2G",
    )


def _none_named(needed: int, *, of_lab: bool) -> StudyError:
    count = max(needed, 1)
    if of_lab:
        return StudyError(
            seen="The study uses virtual disks of the lab, but does not run in the lab",
            cause="`lab` in [drives] applies only inside the lab",
            next_step="Run the study with `seatrial lab`, or use --devices or --loop",
        )
    return StudyError(
        seen="The study has layouts, but no drives to build them on",
        cause="Neither [drives] nor an option specifies them",
        next_step=f"Use --loop {count}x2G, or give {count} drives with --devices",
    )


def _no_drive(state: DeviceState) -> TargetError:
    what = "is a regular file" if state.kind != "block" else "has a size of 0 bytes"
    return TargetError(
        seen=f"{state.path} {what}, but arrays need block devices",
        cause="It is a file, or a device without a medium",
        next_step="`lsblk` lists the devices; --loop creates loop devices",
    )
