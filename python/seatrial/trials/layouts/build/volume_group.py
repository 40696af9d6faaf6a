"""LVM: one volume group with one logical volume, on our devices alone.

Each command gets its complete configuration: it sees only our devices, reads no lvm.conf, writes no
backup, and creates its nodes itself, as a lab has no udev.

Sources: lvm.conf(5), lvcreate(8), lvmraid(7); the kernel's Documentation/admin-guide/device-mapper,
dm-raid.rst and striped.rst for the output of ``dmsetup status``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from seatrial.errors import TargetError
from seatrial.machine.fingerprint.tree import LIVE, SystemTree
from seatrial.machine.undo_result import Result, Undoer, failed, foreign, wait_until
from seatrial.study.layouts.layout import LEVELS
from seatrial.trials.layouts.build.backend import (
    FASTEST_KIB_PER_S,
    OPERATIONS,
    ArrayState,
    Program,
    Step,
)
from seatrial.trials.layouts.build.failing import is_readable
from seatrial.trials.layouts.build.names import identity
from seatrial.trials.layouts.build.running import attempt, removed_or_renumbered, run_checked
from seatrial.trials.layouts.build.tuning import setting_step

PROGRAMS: Final = (
    Program(name="lvm", package="lvm2"),
    Program(name="dmsetup", package="dmsetup"),
)
LEVELS_OF_LVM: Final = ("raid0", "raid1", "raid10", "raid5", "raid6")
VOLUME: Final = "data"
ENVIRONMENT: Final[Mapping[str, str]] = {"LVM_SYSTEM_DIR": ""}
"""An empty directory: no lvm.conf is read, so that a trial is the same on every machine."""
_NOTICE_PATIENCE_S: Final = 10.0
_PROBE_STEP_BYTES: Final = 64 << 10
_PROBES: Final = 256
_RAID6_DRIVES_MIN: Final = 5
_SPEED_LIMITS: Final = ("speed_limit_max", "speed_limit_min")


@dataclass(frozen=True, kw_only=True)
class Member:
    """A device of a group.

    Attributes:
        path: The device.
        serves: Whether the volume uses it from the start; otherwise it is a spare.
    """

    path: str
    serves: bool = True


def lvm_obstacle(tree: SystemTree = LIVE) -> str:
    """Return why this kernel lacks LVM, as a sentence; empty if it has it."""
    if "device-mapper" in (tree.text("/proc/devices") or ""):
        return ""
    return "This kernel has no device-mapper (module dm-mod), which LVM needs"


def unfit(level: str, drives: int, stripe_kib: int, *, is_clean: bool) -> str:
    """Return what LVM does not support in an array, as a sentence; empty if nothing.

    Source: lvmraid(7): raid6 has at least 3 stripes, and is always synchronised.
    """
    if stripe_kib & (stripe_kib - 1):
        return f"LVM's stripe size must be a power of two, but it is {stripe_kib} KiB"
    if level != "raid6":
        return ""
    if drives < _RAID6_DRIVES_MIN:
        return f"LVM's raid6 needs at least {_RAID6_DRIVES_MIN} drives, and it has {drives}"
    return "LVM synchronises every raid6, so initial_sync cannot be left out" if is_clean else ""


def lvm_command(program: str, devices: Sequence[str], *arguments: str) -> tuple[str, ...]:
    """Return an LVM command that sees only some devices."""
    return (program, "--config", _config(devices), *arguments)


def create_steps(
    group: str,
    members: Sequence[Member],
    *,
    later: Sequence[str] = (),
    level: str,
    stripe_kib: int,
    alignment_kib: int = 0,
    member_bytes: int | None = None,
    is_clean: bool = False,
) -> list[Step]:
    """Return the steps that create a group and its volume.

    Args:
        group: Its name.
        members: Its devices.
        later: Devices that may join it, which undoing checks as well.
        level: One of ``LEVELS_OF_LVM``.
        stripe_kib: Stripe unit on one device.
        alignment_kib: Alignment of the data; LVM's default of 1 MiB unless given.
        member_bytes: The part of each device that is used; all of it unless given.
        is_clean: Whether the volume is declared in sync.
    """
    paths = [member.path for member in members]
    seen = [*paths, *later]
    undo: dict[str, str | float] = {"group": group, "devices": ",".join(seen)}
    steps = [
        step(
            "pvcreate",
            seen,
            *("-ff", "-y", "--uuid", volume_uuid(group, path), "--norestorefile"),
            *(("--dataalignment", f"{alignment_kib}k") if alignment_kib else ()),
            *(("--setphysicalvolumesize", f"{member_bytes}b") if member_bytes else ()),
            path,
            undo=undo,
        )
        for path in paths
    ]
    serving = [member.path for member in members if member.serves]
    return [
        *steps,
        step("vgcreate", seen, "-y", group, *paths),
        step(
            "lvcreate",
            seen,
            *("-y", "-W", "n", "-l", "100%PVS", "-n", VOLUME),
            *_shape(level, len(serving), stripe_kib),
            *(("--nosync",) if is_clean and level != "raid0" else ()),
            *(group, *serving),
        ),
    ]


def node(group: str) -> str:
    """Return the path of a group's volume."""
    return f"/dev/{group}/{VOLUME}"


def volume_uuid(group: str, path: str) -> str:
    """Return the UUID for a device as a physical volume, in LVM's format."""
    plain = identity(group, path).hex
    ends = (6, 10, 14, 18, 22, 26, 32)
    return "-".join(plain[start:end] for start, end in zip((0, *ends), ends, strict=False))


def facts(group: str, devices: Sequence[str]) -> dict[str, str]:
    """Return LVM's report on a group's volume, by name.

    Raises:
        TargetError: when LVM fails.
    """
    fields = "segtype,stripes,stripe_size,region_size,raid_sync_action"
    sizes = ("--units", "k", "--nosuffix")
    rows = _report("lvs", devices, "lv", *sizes, "-o", fields, f"{group}/{VOLUME}")
    facts = {name: str(value) for name, value in rows[0].items() if value} if rows else {}
    starts = sorted({str(start // 1024) for start in pe_starts_bytes(group, devices).values()})
    return facts | ({"pe_start_kib": ", ".join(starts)} if starts else {})


def pe_starts_bytes(group: str, devices: Sequence[str]) -> dict[str, int]:
    """Return where the extents of each device of a group begin (bytes), by its path.

    Raises:
        TargetError: when LVM fails.
    """
    sizes = ("--units", "b", "--nosuffix")
    rows = _report("pvs", devices, "pv", *sizes, "-o", "pv_name,pe_start,vg_name")
    return {str(row["pv_name"]): int(row["pe_start"]) for row in rows if row["vg_name"] == group}


def state(group: str, level: str) -> ArrayState:
    """Return the current state of a group's volume, from the device-mapper."""
    ended = attempt(["dmsetup", "status", "--noflush", mapped(group)])
    return parse_status(ended.output if ended.status == 0 else "", level)


def parse_status(text: str, level: str) -> ArrayState:
    """Parse a line of ``dmsetup status``.

    Source: dm-raid.rst, "Status line"; dm-stripe.c ``stripe_status``: the last word has a letter a
    device, ``D`` for one that failed.
    """
    words = text.split()
    if len(words) < 4:
        return ArrayState(has_failed=True)
    if words[2] != "raid":
        dead = words[-1].count("D") if words[2] == "striped" else 0
        return ArrayState(missing=dead, has_failed=dead > 0)
    health, action = words[5], words[7]
    done, _, whole = words[6].partition("/")
    operation = OPERATIONS.get(action, "")
    # In a first synchronisation all are out of sync, but in service.
    missing = health.count("D") + (health.count("a") if operation == "rebuild" else 0)
    parity = LEVELS[level].parity_members
    return ArrayState(
        missing=missing,
        operation=operation or ("resync" if "a" in health else ""),
        share=int(done) / int(whole) if operation and int(whole) else None,
        has_failed=health.count("D") > (parity or len(health) - 1),
    )


def mismatch_blocks(group: str) -> int | None:
    """Return the last check's mismatches (512 bytes each); None without redundancy."""
    words = attempt(["dmsetup", "status", "--noflush", mapped(group)]).output.split()
    is_raid = len(words) > 8 and words[2] == "raid"
    return int(words[8]) if is_raid else None


def scrub(group: str, devices: Sequence[str]) -> None:
    """Start to read all data of a volume and to compare copies or parity.

    Raises:
        TargetError: when it has no redundancy, or LVM refuses.
    """
    _run("lvchange", devices, "-y", "--syncaction", "check", f"{group}/{VOLUME}")


def failed_count(group: str) -> int:
    """Return how many devices of a group's volume the kernel reports as failed."""
    words = attempt(["dmsetup", "status", "--noflush", mapped(group)]).output.split()
    return words[5].count("D") if len(words) > 5 and words[2] == "raid" else 0


def detect_failure(group: str, failed_before: int) -> None:
    """Make the kernel detect a failed device, which takes a request to it.

    Args:
        group: Group of the device.
        failed_before: ``failed_count`` before the device was made to fail: a write of the file
            system, or of the volume's metadata, may reach it before our read.

    Raises:
        TargetError: when it does not.
    """

    def is_detected() -> bool:
        for offset_bytes in range(0, _PROBES * _PROBE_STEP_BYTES, _PROBE_STEP_BYTES):
            answered = is_readable(node(group), offset_bytes)
            # A mirror never marks its last drive as failed: it returns the errors.
            if not answered or failed_count(group) > failed_before:
                return True
        return False

    if not wait_until(is_detected, _NOTICE_PATIENCE_S):
        raise TargetError(
            seen=f"{node(group)} did not detect the drive failure",
            cause="None of its reads reached the failed drive",
            next_step="Fail another drive",
        )


def repair(group: str, devices: Sequence[str]) -> None:
    """Replace a failed device by a free one of its group.

    Raises:
        TargetError: when there is none, or LVM refuses.
    """
    _run("lvconvert", devices, "-y", "--repair", f"{group}/{VOLUME}")


def extend(group: str, devices: Sequence[str], new_device: str) -> None:
    """Add a device to a group that lacks one.

    Raises:
        TargetError: when LVM refuses.
    """
    uuid_text = volume_uuid(group, new_device)
    _run("pvcreate", devices, "-ff", "-y", "--uuid", uuid_text, "--norestorefile", new_device)
    _run("vgextend", devices, "-y", group, new_device)


def limit_steps(group: str, devices: Sequence[str], kib_per_s: int) -> list[Step]:
    """Return the step that limits a volume's rebuild; 0 is the system's own limit."""
    target = f"{group}/{VOLUME}"
    return [step("lvchange", devices, "-y", "--maxrecoveryrate", f"{kib_per_s}k", target)]


def sync_limit_steps(tree: SystemTree = LIVE) -> list[Step]:
    """Return the steps that remove the limits of volumes' synchronisation.

    They apply to all arrays of the machine: another run may remove or restore them meanwhile.
    """
    paths = [f"/proc/sys/dev/raid/{name}" for name in _SPEED_LIMITS]
    return [
        setting_step(path, str(FASTEST_KIB_PER_S), old=old, is_shared=True)
        for path in paths
        if (old := tree.text(path))
    ]


def undo_lvm(*, group: str, devices: str) -> Result:
    """Remove our volume group, and its signatures on the devices."""
    paths = [path for path in devices.split(",") if LIVE.block_number(path) is not None]
    tags = {f"UUID={volume_uuid(group, path)}" for path in devices.split(",")}
    if not paths:
        return removed_or_renumbered("", tags, "its devices are gone")
    removed = []
    if any(row["vg_name"] == group for row in _report("vgs", paths, "vg", "-o", "vg_name")):
        ended = attempt(lvm_command("vgremove", paths, "-ff", "-y", group), environment=ENVIRONMENT)
        if ended.status != 0:
            return failed(f"{_last_line(ended.error_output)}; see `lsblk`")
        removed.append("removed")
    for name in _left_behind(group):
        run_checked(["dmsetup", "remove", "--noudevsync", "--noudevrules", "--retry", name])
        removed.append(f"{name} removed")
    ours = {volume_uuid(group, path) for path in paths}
    rows = _report("pvs", paths, "pv", "-o", "pv_name,pv_uuid,vg_name")
    marked = [row for row in rows if row["pv_uuid"] in ours]
    if any(row["vg_name"] not in {"", group} for row in marked):
        return foreign("its devices belong to another group now")
    if marked:
        _run("pvremove", paths, "-ff", "-y", *(str(row["pv_name"]) for row in marked))
        removed.append("its devices cleared")
    what, is_all = ", ".join(removed), len(marked) == len(tags)
    return removed_or_renumbered(what, tags, "nothing is left of it", is_all=is_all)


LVM_UNDOERS: Final = {"lvm": Undoer(undo=undo_lvm, subject="group", survives_reboot=True)}


def mapped(group: str) -> str:
    """Return the device-mapper name of a group's volume. Source: lvm(8), ``dm-hyphens``."""
    return f"{group.replace('-', '--')}-{VOLUME}"


def _config(devices: Sequence[str]) -> str:
    ours = "|".join(re.escape(device) for device in devices)
    return (
        f'devices{{filter=["a#^({ours})$#","r#.*#"] use_devicesfile=0 hints=none '
        "obtain_device_list_from_udev=0 scan_lvs=1} "
        "activation{udev_sync=0 udev_rules=0 monitoring=0} "
        'global{event_activation=0 use_lvmpolld=0 cache_check_executable=""} '
        "backup{backup=0 archive=0}"
    )


def step(
    program: str,
    devices: Sequence[str],
    *arguments: str,
    undo: Mapping[str, str | float] | None = None,
) -> Step:
    """Return a step with an LVM command that sees only some devices.

    Args:
        program: Such as ``lvcreate``.
        devices: What it sees.
        arguments: Its arguments.
        undo: Details of the entry ``lvm`` that undoes it; none where an earlier step's covers it.
    """
    return Step(
        command=lvm_command(program, devices, *arguments),
        undo="lvm" if undo else "",
        details=undo or {},
        environment=ENVIRONMENT,
    )


def _run(program: str, devices: Sequence[str], *arguments: str) -> str:
    return run_checked(
        lvm_command(program, devices, *arguments),
        environment=ENVIRONMENT,
        line=f"{program} {' '.join(arguments)}",
    )


def _report(
    program: str, devices: Sequence[str], kind: str, *arguments: str
) -> list[dict[str, str]]:
    """Return the rows of an LVM report."""
    text = _run(program, devices, "--reportformat", "json", *arguments)
    report = msgspec.json.decode(text, type=dict[str, list[dict[str, list[dict[str, str]]]]])
    return [row for part in report["report"] for row in part.get(kind, [])]


def _shape(level: str, drives: int, stripe_kib: int) -> list[str]:
    """Return lvcreate's options for a level over some drives."""
    stripes = int(LEVELS[level].data_members(drives))
    size = [] if level == "raid1" or stripes == 1 else ["-I", f"{stripe_kib}k"]
    if level == "raid0":
        return ["--type", "striped", "-i", str(stripes), *size]
    if level == "raid1":
        return ["--type", "raid1", "-m", str(drives - 1)]
    copies = ["-m", "1"] if level == "raid10" else []
    return ["--type", level, "-i", str(stripes), *copies, *size]


def _left_behind(group: str) -> list[str]:
    """Return mapped devices of a removed group, the uppermost first."""
    prefix = f"{group.replace('-', '--')}-"
    names = LIVE.names("/sys/block")
    names_by_device = {name: LIVE.word(f"/sys/block/{name}/dm/name") or "" for name in names}
    # A hyphen of a name is doubled: after a single one, the name of a volume follows.
    ours = [
        name
        for name in names
        if names_by_device[name].startswith(prefix)
        and names_by_device[name][len(prefix) :][:1] != "-"
    ]
    ours.sort(key=lambda name: len(LIVE.names(f"/sys/block/{name}/holders")))
    return [names_by_device[name] for name in ours]


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it cannot be removed"])[-1].strip()
