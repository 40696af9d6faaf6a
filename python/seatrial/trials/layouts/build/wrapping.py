"""Fault injection and delays: dm-dust and dm-delay over each drive of a variant.

A flaky drive is a dm-dust device that temporarily uses a dm-flakey table.

Sources: the kernel's Documentation/admin-guide/device-mapper, dm-dust.rst, dm-flakey.rst and
delay.rst.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from seatrial.errors import TargetError
from seatrial.machine.commands import run_command
from seatrial.machine.fingerprint.medium import number_text
from seatrial.machine.fingerprint.tree import LIVE
from seatrial.machine.sysblock import node_by_name, node_by_number
from seatrial.machine.undo_journal import UndoJournal
from seatrial.study.layouts.layout import DriveRoles, LayoutSpec
from seatrial.trials.layouts.build.mapper import (
    NAME_PREFIX,
    make,
    mapped_name,
    mapper_obstacle,
    message,
    reload,
    reload_over_below,
)
from seatrial.units import SECTOR_BYTES

BLOCK_BYTES: Final = 4096
"""A failing sector: the physical block size of current drives."""
DELAY_EXACT_FROM_MS: Final = 40.0
"""dm-delay rounds up to the kernel's tick, 10 ms in a user-mode Linux: short delays are inaccurate
(measured: 49.5 ms instead of 40 ms)."""
_STACK_DEPTH_MAX: Final = 4
_HEAD_BYTES: Final = 1 << 20

FlakyMode = Literal["falter", "drop_writes"]
_FLAKEY_PARAMETERS: Final[Mapping[FlakyMode, str]] = {
    "falter": "1 1",
    "drop_writes": "0 1 1 drop_writes",
}
"""Parameters of dm-flakey: seconds up, seconds down, and the feature; without one, every request
fails."""


def wrapping_obstacle(spec: LayoutSpec) -> str:
    """Return why this kernel cannot wrap the drives of a variant, as a sentence."""
    wanted = {"dust", "flakey"} if spec.flaky else set()
    return mapper_obstacle(frozenset(wanted | ({"delay"} if any(spec.delay_ms) else set())))


def wrapping_notes(spec: LayoutSpec) -> list[str]:
    """Return notes on the wrapping for readers of the results, as sentences."""
    short = [delay for delay in spec.delay_ms if 0 < delay < DELAY_EXACT_FROM_MS]
    if not short:
        return []
    return [
        f"A delay of {min(short):g} ms is rounded up to kernel ticks plus one (10 ms each in a"
        f" lab): below {DELAY_EXACT_FROM_MS:g} ms compare only ratios."
    ]


def wrap(drives: Sequence[str], spec: LayoutSpec, journal: UndoJournal) -> dict[str, str]:
    """Wrap the drives of a variant; each change is recorded in the journal first.

    Args:
        drives: Its drives, in the order of ``Assigned.used``.
        spec: The variant: ``flaky`` puts dm-dust over each, ``delay_ms`` dm-delay over that.
        journal: Records the changes, as ``dm``.

    Returns:
        The device to use instead of each drive; empty if none is wrapped.

    Raises:
        TargetError: when the kernel refuses.
    """
    return {
        drive: _wrap_drive(drive, name, spec, delay_ms, journal)
        for drive, name, delay_ms in _planned_wrappers(drives, spec, journal.run_id)
    }


def wrapping_commands(
    drives: Sequence[str], spec: LayoutSpec, run_id: str
) -> tuple[list[str], dict[str, str]]:
    """Return the commands of ``wrap``, and the device to use instead of each drive.

    Args:
        drives: As for ``wrap``; they need not exist, so their length is unknown.
        spec: The variant.
        run_id: The run.
    """
    commands, over = [], {}
    for drive, name, delay_ms in _planned_wrappers(drives, spec, run_id):
        device = drive
        for layer, table in _layers(spec, delay_ms, "SECTORS"):
            mapped = f"{name}-{layer}"
            words = ("dmsetup", "create", mapped, "--table", table.format(below=device))
            commands.append(shlex.join(words))
            device = f"/dev/mapper/{mapped}"
        over[drive] = device
    return commands, over


def _planned_wrappers(
    drives: Sequence[str], spec: LayoutSpec, run_id: str
) -> Iterator[tuple[str, str, float]]:
    """Yield each drive to wrap, the name of its layers, and its delay (ms)."""
    if not spec.flaky and not any(spec.delay_ms):
        return
    delays_ms = spec.delay_ms or [0.0] * len(drives)
    for number, (drive, delay_ms) in enumerate(zip(drives, delays_ms, strict=True), start=1):
        yield drive, f"{NAME_PREFIX}{run_id}-{number}", delay_ms


def _layers(spec: LayoutSpec, delay_ms: float, sectors: int | str) -> Iterator[tuple[str, str]]:
    """Yield the layers over a drive, the lowest first: a name, and a table over ``{below}``."""
    if spec.flaky:
        yield "dust", f"0 {sectors} dust {{below}} 0 {BLOCK_BYTES}"
    if spec.delay_ms:
        yield "delay", _delay_table("{below}", sectors, delay_ms)


def with_wrappers(assigned: DriveRoles, wrapping: Mapping[str, str]) -> DriveRoles:
    """Return the roles with the wrapped drives instead of the bare ones."""
    if not wrapping:
        return assigned

    def over(drives: list[str]) -> list[str]:
        return [wrapping.get(drive, drive) for drive in drives]

    return msgspec.structs.replace(
        assigned,
        legs=[over(leg) for leg in assigned.legs],
        spares=[over(leg) for leg in assigned.spares],
        logs=over(assigned.logs),
        caches=over(assigned.caches),
    )


def mark_bad(device: str, offsets_bytes: Sequence[int]) -> None:
    """Choose blocks of 4 KiB that fail from ``make_bad`` on: one command each, which takes time.

    Raises:
        TargetError: when the drive is not flaky.
    """
    name = _wrapper(device, "dust")
    for offset_bytes in offsets_bytes:
        message(name, "addbadblock", str(offset_bytes // BLOCK_BYTES))


def make_bad(device: str) -> None:
    """Make reads of the chosen blocks of a drive fail, until they are rewritten.

    Raises:
        TargetError: when the drive is not flaky.
    """
    message(_wrapper(device, "dust"), "enable")


def make_fail(device: str) -> None:
    """Make every request of a wrapped drive fail permanently, as if it were removed.

    Raises:
        TargetError: when it is not wrapped.
    """
    name = mapped_name(device)
    if not name:
        raise _not_wrapped(device, "no device-mapper layer on it can be made to fail")
    below = LIVE.names(f"/sys/dev/block/{_number(device)}/slaves")
    reload(name, f"0 {_sectors(device)} error")
    # Undoing the array cannot reach its signature any more.
    for kernel_name in below:
        _wipe(Path(f"/dev/{kernel_name}"))


def _wipe(drive: Path) -> None:
    """Remove all signatures from a drive; wipefs leaves the label of an LVM physical volume."""
    run_command("wipefs", "--all", str(drive))
    with drive.open("r+b", buffering=0) as device:
        device.write(bytes(_HEAD_BYTES))
        os.fsync(device.fileno())


def make_flaky(device: str, mode: FlakyMode, journal: UndoJournal) -> int:
    """Make a drive fail every other second, or drop writes, until that is undone.

    Args:
        device: A wrapped drive.
        mode: The kind of fault.
        journal: Records the change, as ``flaky``.

    Returns:
        The entry that ends it; the drive must be accessible when the array is removed.

    Raises:
        TargetError: when it is not flaky, or the kernel refuses.
    """
    name = _wrapper(device, "dust")
    entry = journal.record("flaky", name=name)
    try:
        reload_over_below(name, f"flakey {{below}} 0 {_FLAKEY_PARAMETERS[mode]}")
    except BaseException:
        journal.undo(entry)
        raise
    return entry


def _wrap_drive(
    drive: str, name: str, spec: LayoutSpec, delay_ms: float, journal: UndoJournal
) -> str:
    device = drive
    for layer, table in _layers(spec, delay_ms, _sectors(drive)):
        device = _create(f"{name}-{layer}", table.format(below=device), journal)
    return device


def _create(name: str, table: str, journal: UndoJournal) -> str:
    entry = journal.record("dm", name=name)
    try:
        return make(name, table)
    except BaseException:
        journal.undo(entry)
        raise


def _delay_table(device: str, sectors: int | str, delay_ms: float) -> str:
    return f"0 {sectors} delay {device} 0 {round(delay_ms)}"


def _wrapper(device: str, target: str) -> str:
    """Return the mapper name of a drive's layer (``dust``, ``delay``)."""
    path = device
    for _layer in range(_STACK_DEPTH_MAX):
        name = mapped_name(path)
        if name.endswith(f"-{target}"):
            return name
        below = LIVE.names(f"/sys/dev/block/{_number(path)}/slaves") if name else []
        node = node_by_name(below[0]) if below else None
        if node is None:
            break
        path = f"/dev/{node.name}"
    raise _not_wrapped(device, f"the layout does not use dm-{target} on its drives")


def _number(device: str) -> str:
    return number_text(Path(device).stat().st_rdev)


def _sectors(device: str) -> int:
    return node_by_number(_number(device)).size_bytes() // SECTOR_BYTES


def _not_wrapped(device: str, why: str) -> TargetError:
    return TargetError(
        seen=f"{device} does not support this fault injection",
        cause=why,
        next_step="Set `flaky = true` (bad sectors, failing drives) or `delay_ms` in the layout,"
        " or run the study on loop devices",
    )
