"""dm-cache and dm-writecache: LVM's cache volumes over an array and a fast drive.

Sources: lvmcache(7); the kernel's Documentation/admin-guide/device-mapper: cache.rst,
cache-policies.rst and writecache.rst for the output of ``dmsetup status``; dm-cache-policy-smq.c of
Linux 6.1 for what is promoted.
"""

from __future__ import annotations

from typing import ClassVar, Final

from seatrial.machine.undo_result import Undoer
from seatrial.trials.layouts.build import volume_group
from seatrial.trials.layouts.build.backend import Step
from seatrial.trials.layouts.build.caching import CacheCounts, CacheDevice, CacheSetup, drive_counts
from seatrial.trials.layouts.build.mapper import mapper_obstacle
from seatrial.trials.layouts.build.running import run_checked
from seatrial.trials.layouts.build.volume_group import Member
from seatrial.units import SECTOR_BYTES

_FAST: Final = "fast"
CHUNK_BYTES: Final = 64 << 10
"""LVM's smallest usual chunk of dm-cache, the unit of promotion."""


def group_of(name: str) -> str:
    """Return the volume group of an array's cache."""
    return f"{name}-cache"


def parse_cache(text: str) -> dict[str, float]:
    """Return the counters in ``dmsetup status`` of a dm-cache device.

    Raises:
        ValueError: when it is invalid.
    """
    words = text.split()
    if len(words) < 15 or words[2] != "cache":
        raise ValueError("this is not the status of a dm-cache device")
    chunk_bytes = int(words[5]) * SECTOR_BYTES
    used, _, total = words[6].partition("/")
    names = ("read_hits", "read_misses", "write_hits", "write_misses", "demotions", "promotions")
    found = {name: float(word) for name, word in zip(names, words[7:13], strict=True)}
    return found | {
        "fill_bytes": float(int(used) * chunk_bytes),
        "capacity_bytes": float(int(total) * chunk_bytes),
        "chunk_bytes": float(chunk_bytes),
        "dirty_bytes": float(int(words[13]) * chunk_bytes),
    }


def parse_writecache(text: str) -> dict[str, float]:
    """Return the counters in ``dmsetup status`` of a dm-writecache device, in its blocks.

    Raises:
        ValueError: when it is invalid, or the kernel is older than 5.15 and does not count.
    """
    words = text.split()
    if len(words) < 14 or words[2] != "writecache":
        raise ValueError("this is not the status of a dm-writecache device that counts")
    names = (
        *("errors", "blocks", "free_blocks", "writeback_blocks", "reads", "read_hits", "writes"),
        *("write_hits_uncommitted", "write_hits_committed", "writes_around", "writes_allocated"),
    )
    return {name: float(word) for name, word in zip(names, words[3:14], strict=True)}


class _LvmCache(CacheDevice):
    """Both kinds of LVM cache: a volume group of the array and the fast drive."""

    programs: ClassVar = volume_group.PROGRAMS
    undoers: ClassVar[dict[str, Undoer]] = volume_group.LVM_UNDOERS
    target: ClassVar[str]

    def obstacle(self) -> str:
        """Return why this kernel lacks the target."""
        return volume_group.lvm_obstacle() or mapper_obstacle(frozenset({self.target}))

    def device(self, name: str) -> str:
        """Return the volume."""
        return volume_group.node(group_of(name))

    def build_steps(self, setup: CacheSetup) -> list[Step]:
        """Return a group with a volume on the array, one on the fast drive, and their union."""
        group = group_of(setup.name)
        seen = [setup.below, setup.fast]
        members = [Member(path=setup.below), Member(path=setup.fast, serves=False)]
        # A volume that becomes a write cache must not be active.
        fast = ("-y", "-an", "-Zn", "-Wn", "-l", "100%PVS", "-n", _FAST, group, setup.fast)
        return [
            *volume_group.create_steps(group, members, level="raid0", stripe_kib=CHUNK_BYTES >> 10),
            volume_group.step("lvcreate", seen, *fast),
            *self.add_steps(setup),
        ]

    def remove_steps(self, setup: CacheSetup) -> list[Step]:
        """Return the split, which writes dirty data to the array first."""
        return self._convert(setup, "--splitcache")

    def has_cache(self, setup: CacheSetup) -> bool:
        """Return whether the volume has the target."""
        return self._status(setup).split()[2:3] == [self.target]

    def _status(self, setup: CacheSetup) -> str:
        """Return the volume's status.

        Raises:
            TargetError: when it is gone.
        """
        name = volume_group.mapped(group_of(setup.name))
        return run_checked(["dmsetup", "status", "--noflush", name])

    def _counts(self, setup: CacheSetup) -> CacheCounts:
        fast, below = drive_counts(setup.fast), drive_counts(setup.below)
        return {
            "device_reads": fast["reads"],
            "device_written_bytes": fast["written_bytes"],
            "array_reads": below["reads"],
            "array_writes": below["writes"],
        }

    def _convert(self, setup: CacheSetup, *options: str) -> list[Step]:
        words = ("-y", *options, f"{group_of(setup.name)}/{volume_group.VOLUME}")
        return [volume_group.step("lvconvert", [setup.below, setup.fast], *words)]


class DmCache(_LvmCache):
    """dm-cache with the policy smq."""

    name: ClassVar = "dm-cache"
    target: ClassVar = "cache"

    def add_steps(self, setup: CacheSetup) -> list[Step]:
        """Return the conversion, with an empty cache."""
        options = ("--type", "cache", "--cachemode", setup.mode, "--cachepolicy", "smq")
        chunk = ("--chunksize", f"{CHUNK_BYTES >> 10}k")
        return self._convert(setup, *options, *chunk, "--cachevol", _FAST)

    def read(self, setup: CacheSetup) -> CacheCounts:
        """Return the counters of the target and of the drives."""
        try:
            own = parse_cache(self._status(setup))
        except ValueError:
            return self._counts(setup)
        return self._counts(setup) | {
            "reads": own["read_hits"] + own["read_misses"],
            "read_hits": own["read_hits"],
            "writes": own["write_hits"] + own["write_misses"],
            "write_hits": own["write_hits"],
            "promotions": own["promotions"],
            "demotions": own["demotions"],
            "fill_bytes": own["fill_bytes"],
            "dirty_bytes": own["dirty_bytes"],
        }

    def facts(self, setup: CacheSetup) -> dict[str, str]:
        """Return mode, policy, chunk and migration threshold, as the target reports them."""
        words = self._status(setup).split()
        policy = words[words.index("migration_threshold") + 2]
        return {
            "cache_mode": "writeback" if "writeback" in words else "writethrough",
            "policy": "smq (as its alias mq)" if policy == "mq" else policy,
            "chunk": f"{CHUNK_BYTES >> 10} KiB",
            "migration_threshold_sectors": words[words.index("migration_threshold") + 1],
            "sequential_cutoff": "none: smq has no bypass of sequential reads",
            "promotion": "chunks that are missed while high in its hotspot queue",
        }

    def capacity_bytes(self, setup: CacheSetup) -> int:
        """Return the size of its chunks."""
        return int(parse_cache(self._status(setup))["capacity_bytes"])

    def granule_bytes(self, setup: CacheSetup) -> int:
        """Return the chunk."""
        return int(parse_cache(self._status(setup))["chunk_bytes"])


class DmWritecache(_LvmCache):
    """dm-writecache, which holds writes only."""

    name: ClassVar = "dm-writecache"
    target: ClassVar = "writecache"
    block_bytes: Final = 4096

    def add_steps(self, setup: CacheSetup) -> list[Step]:
        """Return the conversion, with an empty cache."""
        options = ("--type", "writecache", "--cachesettings", f"block_size={self.block_bytes}")
        return self._convert(setup, *options, "--cachevol", _FAST)

    def read(self, setup: CacheSetup) -> CacheCounts:
        """Return the counters of the target and of the drives, its blocks as requests."""
        try:
            own = parse_writecache(self._status(setup))
        except ValueError:
            return self._counts(setup)
        held = own["blocks"] - own["free_blocks"]
        return self._counts(setup) | {
            "reads": own["reads"],
            "read_hits": own["read_hits"],
            "writes": own["writes"],
            "write_hits": own["writes"] - own["writes_around"],
            "fill_bytes": held * self.block_bytes,
            "dirty_bytes": held * self.block_bytes,
        }

    def facts(self, setup: CacheSetup) -> dict[str, str]:
        """Return its block and what it admits."""
        del setup
        return {
            "cache_mode": "writeback",
            "block_size": f"{self.block_bytes} B",
            "sequential_cutoff": "none",
            "promotion": "writes only; a read that it does not hold goes to the array",
        }

    def capacity_bytes(self, setup: CacheSetup) -> int:
        """Return the size of its blocks."""
        return int(parse_writecache(self._status(setup))["blocks"]) * self.block_bytes

    def granule_bytes(self, setup: CacheSetup) -> int:
        """Return its block."""
        del setup
        return self.block_bytes


CACHE_DEVICES: Final = (DmCache(), DmWritecache())
