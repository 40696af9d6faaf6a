"""Arrays of the kernel's md driver: creation, state by sysfs, faults, repair, undoing.

Sources: mdadm(8); the kernel's Documentation/admin-guide/md.rst for the files under ``md/``.

Undoing an array reads the superblock of every drive, twice; running mdadm for each would take most
of that time.

Source: the kernel's include/uapi/linux/raid/md_p.h, ``struct mdp_superblock_1``; md(4): version 1.2
is at 4 KiB from the beginning of the drive.
"""

from __future__ import annotations

import posixpath
import re
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from seatrial.errors import TargetError
from seatrial.machine.direct import read_direct
from seatrial.machine.fingerprint.layers import sectors_bytes
from seatrial.machine.fingerprint.tree import LIVE, SystemTree
from seatrial.machine.undo_result import Result, Undoer, failed, wait_until
from seatrial.study.layouts.layout import LEVELS
from seatrial.trials.layouts.build.backend import (
    FASTEST_KIB_PER_S,
    OPERATIONS,
    ArrayState,
    Program,
    Step,
)
from seatrial.trials.layouts.build.failing import responds
from seatrial.trials.layouts.build.names import MD_NAME_MAX, identity, shortened
from seatrial.trials.layouts.build.running import attempt, removed_or_renumbered, run_checked
from seatrial.trials.layouts.build.tuning import setting_step
from seatrial.units import SECTOR_BYTES

_OFFSET_BYTES: Final = 4096
_LENGTH_BYTES: Final = 4096
_MAGIC: Final = 0xA92B4EFC
_HEAD: Final = struct.Struct("<4I16s")
"""Magic number, major version, features, padding, the array's UUID."""
_OWN_SECTOR: Final = struct.Struct("<Q")
_OWN_SECTOR_AT: Final = 144
"""A superblock contains its own sector number: a copy elsewhere is invalid."""


def array_uuid(device: str) -> str:
    """Return the UUID of a drive's array (32 hexadecimal digits).

    Empty without a readable superblock of version 1.2.
    """
    try:
        # md bypasses the page cache, which may be outdated.
        block = read_direct(device, _OFFSET_BYTES, _LENGTH_BYTES)
    except OSError:
        return ""
    if len(block) < _LENGTH_BYTES:
        return ""
    magic, major, _features, _padding, uuid = _HEAD.unpack_from(block)
    (own_sector,) = _OWN_SECTOR.unpack_from(block, _OWN_SECTOR_AT)
    is_valid = magic == _MAGIC and major == 1 and own_sector * SECTOR_BYTES == _OFFSET_BYTES
    return uuid.hex() if is_valid else ""


PROGRAM: Final = Program(name="mdadm", package="mdadm")
LEVELS_OF_MD: Final = ("raid0", "raid1", "raid10", "raid5", "raid6")
FIRST_NUMBER: Final = 200
"""mdadm and udev count down from 127; the kernel supports nodes for numbers below 512."""
_NUMBERS_END: Final = 512
_LOWEST_KIB_PER_S: Final = 1000
"""md's own lower limit (Documentation/admin-guide/md.rst, ``speed_limit_min``)."""
_SLOT_PATIENCE_S: Final = 5.0
_ATTEMPTS_MAX: Final = 5
_UNSTARTED: Final = frozenset({"clear", "inactive"})


def md_obstacle(tree: SystemTree = LIVE) -> str:
    """Return why this kernel lacks md, as a sentence; empty if it has it."""
    if tree.exists("/proc/mdstat") or _has_module(tree):
        return ""
    return "This kernel has no driver for md arrays (module md-mod)"


def free_devices(count: int, tree: SystemTree = LIVE) -> list[str]:
    """Return currently free device nodes for arrays.

    Raises:
        TargetError: when there are fewer.
    """
    numbers = (
        number
        for number in range(FIRST_NUMBER, _NUMBERS_END)
        if not tree.exists(f"/sys/block/md{number}")
    )
    found = [f"/dev/md{number}" for number, _ in zip(numbers, range(count), strict=False)]
    if len(found) == count:
        return found
    raise TargetError(
        seen=f"Only {len(found)} md device numbers are free, but {count} are needed",
        cause="Other arrays use them",
        next_step="Check /proc/mdstat, and run `seatrial clean` to remove arrays of dead runs",
    )


def create_step(
    device: str,
    *,
    name: str,
    level: str,
    members: Sequence[str],
    spares: Sequence[str] = (),
    later: Sequence[str] = (),
    chunk_kib: int,
    member_bytes: int | None = None,
    is_clean: bool = False,
) -> Step:
    """Return the step that creates an array.

    It has no write-intent bitmap, whatever its size: mdadm creates one from 100 GB on, and the same
    layout would then write more on large drives than on small ones.

    Args:
        device: Its node.
        name: Name of the array or leg; truncated to md's limit.
        level: One of ``LEVELS_OF_MD``.
        members: Active drives.
        spares: Hot spares.
        later: Possible replacement drives, which undoing checks as well.
        chunk_kib: Chunk; ignored for copies.
        member_bytes: The part of each drive that is used; all of it unless given.
        is_clean: Whether the array is declared in sync.
    """
    uuid = str(identity(name, "md"))
    options = [
        "--run",
        "--metadata=1.2",
        "--homehost=<none>",
        f"--name={shortened(name, MD_NAME_MAX)}",
        f"--uuid={_mdadm_uuid(uuid)}",
        f"--level={level}",
        f"--raid-devices={len(members)}",
    ]
    options += [] if level == "raid1" else [f"--chunk={chunk_kib}"]
    options += ["--force"] if len(members) == 1 else []
    options += [f"--spare-devices={len(spares)}"] if spares else []
    if level != "raid0":
        options += ["--bitmap=none"]
        options += [f"--size={member_bytes // 1024}"] if member_bytes else []
        options += ["--assume-clean"] if is_clean else []
    return Step(
        command=("mdadm", "--create", device, *options, *members, *spares),
        undo="md",
        details={
            "device": device,
            "uuid": uuid,
            "members": ",".join([*members, *spares, *later]),
        },
    )


def shrink_step(device: str, size_bytes: int) -> Step:
    """Return the step that limits a RAID 0's size, which cannot be set by its drives."""
    return Step(command=("mdadm", "--grow", device, f"--array-size={size_bytes // 1024}"))


def facts(device: str, tree: SystemTree = LIVE) -> dict[str, str]:
    """Return facts of an array from sysfs, by name; unknown ones are omitted."""
    folder = f"{_folder(device)}/md"
    chunk = tree.integer(f"{folder}/chunk_size")
    facts = {
        "level": tree.word(f"{folder}/level"),
        "metadata": tree.word(f"{folder}/metadata_version"),
        "chunk_kib": str(chunk // 1024) if chunk else None,
        "layout": tree.word(f"{folder}/layout"),
        "raid_disks": tree.word(f"{folder}/raid_disks"),
        "bitmap": tree.word(f"{folder}/bitmap/location"),
        "consistency_policy": tree.word(f"{folder}/consistency_policy"),
        "stripe_cache_pages": tree.word(f"{folder}/stripe_cache_size"),
        "data_offset_kib": _data_offset_text(device, tree),
        "uuid": tree.word(f"{folder}/uuid"),
    }
    return {name: value for name, value in facts.items() if value is not None}


def data_offsets_bytes(device: str, tree: SystemTree = LIVE) -> dict[str, int]:
    """Return where the data begins on each member (bytes), by its kernel name."""
    folder = f"{_folder(device)}/md"
    members = [name for name in tree.names(folder) if name.startswith("dev-")]
    offsets_bytes = {name: sectors_bytes(tree, f"{folder}/{name}/offset") for name in members}
    return {
        name.removeprefix("dev-"): offset
        for name, offset in offsets_bytes.items()
        if offset is not None
    }


def state(
    device: str, level: str, members: Sequence[str] = (), tree: SystemTree = LIVE
) -> ArrayState:
    """Return the current state of an array.

    Args:
        device: Its node.
        level: Its level.
        members: Its active drives: md does not detect failed drives of a RAID 0.
        tree: The machine.
    """
    folder = f"{_folder(device)}/md"
    disks = tree.integer(f"{folder}/raid_disks") or 0
    is_broken = (tree.text(f"{folder}/array_state") or "clear") in {"clear", "broken"}
    if level == "raid0":
        silent = sum(not responds(member) for member in members)
        return ArrayState(missing=silent, has_failed=is_broken or silent > 0)
    missing = tree.integer(f"{folder}/degraded") or 0
    parity = LEVELS[level].parity_members
    action = tree.text(f"{folder}/sync_action") or ""
    operation = OPERATIONS.get(action, "")
    share = progress(device, tree) if operation else None
    if operation == "rebuild" and (not missing or share is None):
        # The new drive is in service, or md is only looking for a spare.
        operation, share = "", None
    if not operation and _still_to_sync(folder, tree):
        operation, share = "resync", None
    return ArrayState(
        missing=missing,
        operation=operation,
        share=share,
        has_failed=is_broken or missing > (parity or disks - 1),
    )


def progress(device: str, tree: SystemTree = LIVE) -> float | None:
    """Return the progress of an array's rebuild, resync or check, 0 to 1.

    ``md/sync_completed`` has a resolution of a sixteenth (drivers/md/md.c, ``md_do_sync``), so the
    finer count of /proc/mdstat is preferred.
    """
    name = posixpath.basename(device)
    text = tree.text("/proc/mdstat") or ""
    paragraph = re.search(rf"^{re.escape(name)} :.*?(?=^\S|\Z)", text, re.DOTALL | re.MULTILINE)
    counts = re.search(r"\((\d+)/(\d+)\)", paragraph[0]) if paragraph else None
    if counts is None:
        done = tree.text(f"{_folder(device)}/md/sync_completed") or ""
        counts = re.fullmatch(r"(\d+) / (\d+)", done)
    if counts is None or int(counts[2]) == 0:
        return None
    return int(counts[1]) / int(counts[2])


def member_at(device: str, slot: int, known: Sequence[str], tree: SystemTree = LIVE) -> str:
    """Return the drive in a slot (from 0) of an array; empty if it is not in service.

    Args:
        device: The array's node.
        slot: Its slot.
        known: Paths of drives; the matching one is returned as given.
        tree: The machine.
    """
    number = tree.word(f"{_folder(device)}/md/rd{slot}/block/dev")
    if number is None:
        return ""
    found = next((path for path in known if tree.block_number(path) == number), None)
    block = tree.resolve(f"{_folder(device)}/md/rd{slot}/block") or ""
    return found or f"/dev/{posixpath.basename(block)}"


def fail(device: str, drive: str) -> None:
    """Mark a drive as failed in an array.

    Raises:
        TargetError: when it refuses: it would lose data, or does not contain the drive.
    """
    try:
        run_checked(["mdadm", device, "--fail", drive])
    except TargetError:
        # md also reports it as busy where the drive, and with it the whole array, has failed.
        if "faulty" not in _member_state(device, drive):
            raise


def replace(device: str, new_drive: str) -> None:
    """Add a drive in place of the failed ones, which are removed.

    Raises:
        TargetError: when md does not release a failed drive, or refuses the new one.
    """
    # A failed drive stays busy until the array's thread has released it.
    remove = ["mdadm", device, "--remove", "failed"]
    wait_until(lambda: attempt(remove).status == 0, _SLOT_PATIENCE_S)
    run_checked(["mdadm", device, "--add", new_drive])


def start_scrub(device: str) -> None:
    """Start to read all data of an array and to compare copies or parity.

    Raises:
        TargetError: when the level has no redundancy, or another operation is running.
    """
    try:
        Path(f"{_folder(device)}/md/sync_action").write_text("check")
    except OSError as error:
        raise TargetError(
            seen=f"{device} cannot be checked: {error.strerror}",
            cause="Its level has no copies or parity, or a rebuild is running",
            next_step="Check /proc/mdstat",
        ) from None


def mismatch_blocks(device: str, tree: SystemTree = LIVE) -> int | None:
    """Return the last check's mismatches (512 bytes each); None without redundancy."""
    return tree.integer(f"{_folder(device)}/md/mismatch_cnt")


def limit_steps(device: str, kib_per_s: int) -> list[Step]:
    """Return the steps that limit an array's rebuild; 0 is the system's own limit."""
    folder = f"{_folder(device)}/md"
    if not kib_per_s:
        return [setting_step(f"{folder}/sync_speed_max", "system", old="system")]
    # md runs at least at its lower limit, whatever the other load.
    lowest = str(min(kib_per_s, _LOWEST_KIB_PER_S))
    return [
        setting_step(f"{folder}/sync_speed_min", lowest, old="system"),
        setting_step(f"{folder}/sync_speed_max", str(kib_per_s), old="system"),
    ]


def sync_limit_steps(device: str, tree: SystemTree = LIVE) -> list[Step]:
    """Return the steps that remove the limits of an array's synchronisation."""
    folder = f"{_folder(device)}/md"
    if not tree.exists(f"{folder}/sync_speed_max"):
        return []
    fastest = str(FASTEST_KIB_PER_S)
    names = ("sync_speed_max", "sync_speed_min")
    return [setting_step(f"{folder}/{name}", fastest, old="system") for name in names]


def undo_md(*, device: str, uuid: str, members: str) -> Result:
    """Stop an array and clear its drives, if they have the UUID that the run gave it."""
    removed = []
    cleared: set[str] = set()
    drives = members.split(",")
    for _attempt in range(_ATTEMPTS_MAX):
        # udev may have assembled it under another number.
        arrays = _arrays_of(uuid, device, drives)
        for array in arrays:
            # A reboot may have renumbered its drives.
            known = {LIVE.block_number(drive) for drive in drives}
            slaves = [f"/dev/{name}" for name in LIVE.names(f"{_folder(array)}/slaves")]
            drives += [slave for slave in slaves if LIVE.block_number(slave) not in known]
            problem = _stopped(array)
            if problem:
                return failed(problem)
            removed.append(f"{array} stopped")
        marked = [drive for drive in drives if _is_member(drive, uuid)]
        if marked:
            run_checked(["mdadm", "--zero-superblock", *marked])
            removed.append("its drives cleared")
            cleared.update(marked)
        if not arrays and not marked:
            break
    what, is_all = ", ".join(dict.fromkeys(removed)), cleared == set(members.split(","))
    return removed_or_renumbered(what, {f"UUID={uuid}"}, "nothing has its UUID", is_all=is_all)


MD_UNDOERS: Final = {"md": Undoer(undo=undo_md, subject="device", survives_reboot=True)}


def _has_module(tree: SystemTree) -> bool:
    release = tree.text("/proc/sys/kernel/osrelease") or ""
    listed = tree.text(f"/lib/modules/{release}/modules.dep") or ""
    return "/md-mod.ko" in listed


def _folder(device: str) -> str:
    return f"/sys/block/{posixpath.basename(device)}"


def _mdadm_uuid(uuid: str) -> str:
    plain = uuid.replace("-", "")
    return ":".join(plain[at : at + 8] for at in range(0, 32, 8))


def _plain(uuid: str) -> str:
    return re.sub(r"[^0-9a-f]", "", uuid.lower())


def _still_to_sync(folder: str, tree: SystemTree) -> bool:
    """Return whether a synchronisation is pending."""
    return (tree.text(f"{folder}/resync_start") or "none").isdigit()


def _data_offset_text(device: str, tree: SystemTree) -> str | None:
    offsets = sorted({offset // 1024 for offset in data_offsets_bytes(device, tree).values()})
    return ", ".join(map(str, offsets)) or None


def _member_state(device: str, drive: str) -> str:
    number = LIVE.block_number(drive)
    folder = f"{_folder(device)}/md"
    for name in LIVE.names(folder):
        if name.startswith("dev-") and LIVE.word(f"{folder}/{name}/block/dev") == number:
            return LIVE.text(f"{folder}/{name}/state") or ""
    return ""


def _arrays_of(uuid: str, device: str, members: Sequence[str]) -> list[str]:
    """Return the nodes of our arrays: by UUID, or incomplete ones of ours."""
    names = [name for name in LIVE.names("/sys/block") if re.fullmatch(r"md\d+", name)]
    found = [f"/dev/{name}" for name in names if _uuid_of(name) == _plain(uuid)]
    name = posixpath.basename(device)
    if name in names and f"/dev/{name}" not in found and _is_incomplete(name, members):
        found.append(f"/dev/{name}")
    return found


def _uuid_of(name: str) -> str:
    uuid = LIVE.word(f"/sys/block/{name}/md/uuid")
    if uuid is None:
        # Kernels before 6.2 do not report it in sysfs.
        exported = attempt(["mdadm", "--detail", "--export", f"/dev/{name}"]).output
        uuid = _exported(exported).get("MD_UUID", "")
    return _plain(uuid)


def _is_incomplete(name: str, members: Sequence[str]) -> bool:
    """Return whether an array is not started yet and contains only our drives."""
    array_state = LIVE.text(f"/sys/block/{name}/md/array_state") or "clear"
    ours = {LIVE.block_number(member) for member in members}
    slaves = LIVE.names(f"/sys/block/{name}/slaves")
    held = {LIVE.word(f"/sys/class/block/{slave}/dev") for slave in slaves}
    return array_state in _UNSTARTED and held <= ours


def _stopped(array: str) -> str:
    """Stop an array; return what prevents it, as a phrase, or nothing."""
    messages: list[str] = []

    def stops() -> bool:
        ended = attempt(["mdadm", "--stop", array])
        messages.append(ended.error_output.strip())
        return ended.status == 0 or not LIVE.exists(_folder(array))

    if wait_until(stops):
        return ""
    reason = messages[-1] or "something uses it"
    return f"{array} cannot be stopped: {reason}; see /proc/mdstat"


def _is_member(member: str, uuid: str) -> bool:
    return LIVE.block_number(member) is not None and array_uuid(member) == _plain(uuid)


def _exported(text: str) -> dict[str, str]:
    return dict(line.partition("=")[::2] for line in text.splitlines() if "=" in line)
