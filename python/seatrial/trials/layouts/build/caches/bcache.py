"""bcache: the kernel's block cache, set up by make-bcache and sysfs.

Sources: the kernel's Documentation/admin-guide/bcache.rst; drivers/md/bcache of Linux 6.1:
``bcache_ondisk.h`` (superblock), ``super.c`` (attach, stop), ``sysfs.c``, ``request.c``
(``check_should_bypass``) and ``stats.c``, whose totals are updated every 22 s only. What is served
each second is therefore counted by the two drives.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Final

from seatrial.machine.fingerprint.layers import selected
from seatrial.machine.fingerprint.tree import LIVE, SystemTree
from seatrial.machine.sysblock import device_size_bytes
from seatrial.machine.undo_result import Result, Undoer, failed, foreign, gone, undone, wait_until
from seatrial.trials.layouts.build.backend import Program, Step
from seatrial.trials.layouts.build.caching import (
    INSERTED,
    CacheCounts,
    CacheDevice,
    CacheSetup,
    drive_counts,
)
from seatrial.trials.layouts.build.names import identity, shortened

_REGISTER: Final = "/sys/fs/bcache/register"
_SUPER_BYTES: Final = 4096
"""Where the superblock is, and its size."""
_MAGIC: Final = bytes.fromhex("c68573f64e1a45ca8265f57f48ba6d81")
_MAGIC_AT, _SET_AT, _ID_BYTES = 24, 56, 16
_LABEL_AT, _LABEL_BYTES = 72, 32
_NO_SET: Final = "00000000-0000-0000-0000-000000000000"
"""The set of a cached device that was detached; its label stays. Source: writeback.c,
``bch_writeback_thread``."""
_BUCKET_SMALL_BYTES: Final = 64 << 10
_BUCKET_BYTES: Final = 512 << 10
_SMALL_BYTES: Final = 4 << 30
"""A smaller cache has smaller buckets: bcache keeps dozens of them free."""
_STOP_PATIENCE_S: Final = 30.0
_NUMBERS_END: Final = 128
_TOTALS: Final = (
    *("cache_hits", "cache_misses", "cache_bypass_hits", "cache_bypass_misses"),
    *("cache_miss_collisions",),
)
_SHARES: Final = re.compile(r"(Unused|Clean|Dirty|Metadata):\s*(\d+)%")
_NO_CONGESTION: Final = "0"
_IS_OURS: Final = (
    'number=$(printf "%d:%d" $(stat -Lc "0x%t 0x%T" "$0")); '
    '[ "/sys/dev/block/$number/bcache" -ef "/sys/block/${1##*/}/bcache" ] || '
    '{ echo "$1 is not the cached device of $0" >&2; exit 1; }'
)
"""Whether the cached device that was foreseen is that of our array. Source: super.c,
``bch_cached_dev_run``, which links the two."""


def set_id(name: str) -> str:
    """Return the UUID of an array's cache set."""
    return str(identity(name, "bcache"))


def read_set_id(device: str) -> str:
    """Return the UUID of the cache set that a drive's superblock names; empty without one."""
    raw = _superblock(device)[_SET_AT : _SET_AT + _ID_BYTES].hex()
    return "-".join((raw[:8], raw[8:12], raw[12:16], raw[16:20], raw[20:])) if raw else ""


def _superblock(device: str) -> bytes:
    """Return a drive's superblock; empty without one."""
    try:
        with Path(device).open("rb", buffering=0) as file:
            file.seek(_SUPER_BYTES)
            block = file.read(_SUPER_BYTES)
    except OSError:
        return b""
    return block if block[_MAGIC_AT : _MAGIC_AT + _ID_BYTES] == _MAGIC else b""


def _label(device: str) -> str:
    """Return the label that a drive's superblock bears."""
    raw = _superblock(device)[_LABEL_AT : _LABEL_AT + _LABEL_BYTES]
    return raw.partition(b"\0")[0].decode(errors="replace")


def parse_priority(text: str) -> dict[str, float]:
    """Return the shares of a cache's buckets, by ``Unused``, ``Clean``, ``Dirty``, ``Metadata``."""
    return {name: int(share) / 100 for name, share in _SHARES.findall(text)}


def parse_size_bytes(text: str) -> float:
    """Return a size as bcache writes it (``64.0k``, ``0``), in bytes.

    Raises:
        ValueError: when it is invalid.
    """
    found = re.fullmatch(r"(-?[0-9.]+)([kMGTPEZY]?)", text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a size of bcache")
    return float(found[1]) * 1024.0 ** " kMGTPEZY".index(found[2] or " ")


def undo_bcache(*, below: str, fast: str, uuid: str, label: str = "") -> Result:
    """Stop our cached device and its cache set, and wipe their superblocks.

    An entry without ``label`` leaves a detached device alone: it may be a stranger's.
    """
    found = {
        device: read_set_id(device)
        for device in (below, fast)
        if LIVE.block_number(device) is not None
    }
    if not found:
        return gone("its devices are gone")
    ours = [device for device, set_uuid in found.items() if set_uuid == uuid]
    if found.get(below) == _NO_SET and label and _label(below) == label:
        # A detached one names no set, as after an interruption while its cache was emptied.
        ours.insert(0, below)
    if not ours:
        is_other = any(found.values())
        return foreign("its drives belong to another cache") if is_other else gone("it is wiped")
    for device in ours:
        if not _stopped(device):
            return failed(f"{device} is still used by bcache; something uses the cached device")
    for device in ours:
        _wipe(device)
    return undone("stopped, superblocks wiped")


def _folder(device: str, tree: SystemTree = LIVE) -> str:
    number = tree.block_number(device)
    return f"/sys/dev/block/{number}/bcache"


def _stopped(device: str) -> bool:
    """Stop the bcache on a drive; return whether it has ended."""
    folder = Path(_folder(device))
    for file in (folder / "stop", folder / "set/stop"):
        with suppress(OSError):
            if file.exists():
                file.write_text("1")
    return wait_until(lambda: not folder.exists(), _STOP_PATIENCE_S)


def _wipe(device: str) -> None:
    descriptor = os.open(device, os.O_RDWR | os.O_EXCL | os.O_CLOEXEC)
    try:
        os.pwrite(descriptor, bytes(_SUPER_BYTES), _SUPER_BYTES)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Bcache(CacheDevice):
    """bcache in front of an array."""

    name: ClassVar = "bcache"
    programs: ClassVar = (Program(name="make-bcache", package="bcache-tools"),)
    undoers: ClassVar = {"bcache": Undoer(undo=undo_bcache, subject="below", survives_reboot=True)}

    def obstacle(self) -> str:
        """Return why this kernel has no bcache."""
        return "" if LIVE.exists(_REGISTER) else "This kernel has no bcache (module bcache)"

    def device(self, name: str) -> str:
        """Return the first free device: the kernel takes that one."""
        del name
        free = (n for n in range(_NUMBERS_END) if not LIVE.exists(f"/sys/block/bcache{n}"))
        return f"/dev/bcache{next(free)}"

    def build_steps(self, setup: CacheSetup) -> list[Step]:
        """Return the superblocks and the registration."""
        size_bytes = device_size_bytes(setup.fast)
        bucket = _BUCKET_SMALL_BYTES if size_bytes < _SMALL_BYTES else _BUCKET_BYTES
        uuid = set_id(setup.name)
        make = ("make-bcache", "--wipe-bcache", "--cset-uuid", uuid)
        label = shortened(setup.name, _LABEL_BYTES)
        undo = {"below": setup.below, "fast": setup.fast, "uuid": uuid, "label": label}
        mode = ["--writeback"] if setup.mode == "writeback" else []
        return [
            # An earlier array on these drives may have left the signature of its file system.
            *(Step(command=("wipefs", "--all", each)) for each in (setup.below, setup.fast)),
            Step(command=(*make, *mode, "-B", setup.below), undo="bcache", details=undo),
            Step(command=(*make, "-b", f"{bucket >> 10}k", "-C", setup.fast)),
            Step(command=("tee", _REGISTER), stdin=setup.below),
            Step(command=("tee", _REGISTER), stdin=setup.fast),
            # Another array may have taken the number meanwhile: its data must not be overwritten.
            Step(command=("sh", "-c", _IS_OURS, setup.below, setup.device)),
            Step(command=("tee", f"{self._settings(setup)}/label"), stdin=label),
            # Both name the same set, so that the kernel attaches one to the other.
            *self._without_congestion_bypass(setup),
        ]

    def _without_congestion_bypass(self, setup: CacheSetup) -> list[Step]:
        """Return the steps that turn off the bypass of a busy cache.

        It depends on the current latency, so that rounds would not be comparable.
        """
        folder = f"/sys/fs/bcache/{set_id(setup.name)}"
        return [
            Step(command=("tee", f"{folder}/congested_{name}_threshold_us"), stdin=_NO_CONGESTION)
            for name in ("read", "write")
        ]

    def add_steps(self, setup: CacheSetup) -> list[Step]:
        """Return the attachment: the cache is new to the array, and knows nothing of it."""
        attach = f"{self._settings(setup)}/attach"
        return [Step(command=("tee", attach), stdin=set_id(setup.name))]

    def remove_steps(self, setup: CacheSetup) -> list[Step]:
        """Return the detachment, which the kernel finishes when nothing is dirty."""
        folder = self._settings(setup)
        waits = 'until [ "$(cat "$0/state")" = "no cache" ]; do sleep 0.05; done'
        return [
            Step(command=("tee", f"{folder}/detach"), stdin="1"),
            Step(command=("sh", "-c", waits, folder)),
        ]

    def has_cache(self, setup: CacheSetup) -> bool:
        """Return whether the cache is attached."""
        return (LIVE.text(f"{self._settings(setup)}/state") or "").strip() not in {"", "no cache"}

    def read(self, setup: CacheSetup) -> CacheCounts:
        """Return the drives' own counts, and the fill by the cache's buckets."""
        fast, below = drive_counts(setup.fast), drive_counts(setup.below)
        found = {
            "reads": fast["reads"] + below["reads"],
            "read_hits": fast["reads"],
            "device_reads": fast["reads"],
            "device_written_bytes": fast["written_bytes"],
            "array_reads": below["reads"],
            "array_writes": below["writes"],
        }
        shares = parse_priority(LIVE.text(f"{_folder(setup.fast)}/priority_stats") or "")
        if inserted := LIVE.text(f"{_folder(setup.fast)}/written"):
            found[INSERTED] = parse_size_bytes(inserted)
        dirty = LIVE.text(f"{self._settings(setup)}/dirty_data")
        if shares and self.has_cache(setup):
            held = shares.get("Clean", 0.0) + shares.get("Dirty", 0.0)
            found["fill_bytes"] = held * device_size_bytes(setup.fast)
        if dirty:
            found["dirty_bytes"] = parse_size_bytes(dirty)
        return found

    def totals(self, setup: CacheSetup) -> dict[str, float]:
        """Return bcache's own counters, which are up to 22 s old."""
        folder = f"{self._settings(setup)}/stats_total"
        found = {name: LIVE.integer(f"{folder}/{name}") for name in _TOTALS}
        return {name: float(value) for name, value in found.items() if value is not None}

    def facts(self, setup: CacheSetup) -> dict[str, str]:
        """Return the settings in sysfs."""
        own, cache = self._settings(setup), _folder(setup.fast)
        files = {
            "cache_mode": f"{own}/cache_mode",
            "sequential_cutoff": f"{own}/sequential_cutoff",
            "writeback_percent": f"{own}/writeback_percent",
            "congested_read_threshold_us": f"{cache}/set/congested_read_threshold_us",
            "bucket_size": f"{cache}/bucket_size",
            "block_size": f"{cache}/block_size",
            "replacement": f"{cache}/cache_replacement_policy",
        }
        settings = {name: selected(LIVE.text(path)) for name, path in files.items()}
        found = {name: value for name, value in settings.items() if value}
        return found | {"promotion": "every block that is read and not bypassed"}

    def capacity_bytes(self, setup: CacheSetup) -> int:
        """Return the size of its buckets."""
        buckets = LIVE.integer(f"{_folder(setup.fast)}/nbuckets")
        bucket_text = (LIVE.text(f"{_folder(setup.fast)}/bucket_size") or "").strip()
        if not buckets or not bucket_text:
            return device_size_bytes(setup.fast)
        return int(buckets * parse_size_bytes(bucket_text))

    def granule_bytes(self, setup: CacheSetup) -> int:
        """Return that the request itself is cached."""
        del setup
        return 1

    def _settings(self, setup: CacheSetup) -> str:
        return f"/sys/block/{Path(setup.device).name}/bcache"


CACHE_DEVICES: Final = (Bcache(),)
