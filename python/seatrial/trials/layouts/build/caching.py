"""The interface of cache devices in front of an array: plan, add, remove, count.

As a backend does, a kind lists commands and how each is undone; build.py runs them. A cache device
is one more layer over the array's block device, below its file system.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import ClassVar

from seatrial.errors import TargetError
from seatrial.machine.fingerprint.tree import LIVE
from seatrial.machine.undo_result import Undoer
from seatrial.study.layouts.layout import DriveRoles, LayoutSpec
from seatrial.trials.layouts.build import caches as _folder
from seatrial.trials.layouts.build.backend import Built, Construction, Program, Step
from seatrial.units import SECTOR_BYTES

CacheCounts = dict[str, float]
"""Counters and gauges of a cache device, by their names in ``COUNTERS`` and ``GAUGES``."""

HITS = "device_hits_per_s"
MISSES = "memory_misses_per_s"
FILL = "device_fill_bytes"
COUNTERS: Mapping[str, str] = MappingProxyType(
    {
        "reads": MISSES,
        "read_hits": HITS,
        "writes": "writes_per_s",
        "write_hits": "device_write_hits_per_s",
        "promotions": "promotions_per_s",
        "demotions": "demotions_per_s",
        "device_reads": "device_reads_per_s",
        "device_written_bytes": "device_write_bytes_per_s",
        "array_reads": "array_reads_per_s",
        "array_writes": "array_writes_per_s",
    }
)
"""Counters, and the column with their rate per second; no kind has all."""
GAUGES: Mapping[str, str] = MappingProxyType(
    {"fill_bytes": FILL, "dirty_bytes": "device_dirty_bytes"}
)
"""Gauges, and their columns."""

INSERTED = "inserted_bytes"
"""Data written to the cache so far, for a kind that reports its fill only in whole buckets."""


@dataclass(frozen=True, kw_only=True)
class CacheSetup:
    """A cache device of an array.

    Attributes:
        name: Name of the array.
        below: The array's block device.
        fast: The drive of the cache.
        mode: ``writethrough`` or ``writeback``.
        device: The cached device, which is used instead of the array.
    """

    name: str
    below: str
    fast: str
    mode: str
    device: str = ""


class CacheDevice(ABC):
    """One kind of cache device.

    Attributes:
        name: Its name in a study.
        programs: Required programs.
        undoers: How each kind of change of its steps is undone.
    """

    name: ClassVar[str]
    programs: ClassVar[tuple[Program, ...]]
    undoers: ClassVar[Mapping[str, Undoer]]

    @abstractmethod
    def obstacle(self) -> str:
        """Return why this kernel lacks it, as a sentence; empty if it has it."""

    @abstractmethod
    def device(self, name: str) -> str:
        """Return the path of the cached device of the next array."""

    @abstractmethod
    def build_steps(self, setup: CacheSetup) -> list[Step]:
        """Return the steps that build it, with its cache."""

    @abstractmethod
    def add_steps(self, setup: CacheSetup) -> list[Step]:
        """Return the steps that add the cache to an array that lost it; the cache is empty."""

    @abstractmethod
    def remove_steps(self, setup: CacheSetup) -> list[Step]:
        """Return the steps that remove the cache; dirty data is written to the array first.

        The array stays in use under the same path.
        """

    @abstractmethod
    def has_cache(self, setup: CacheSetup) -> bool:
        """Return whether the cache is attached."""

    @abstractmethod
    def read(self, setup: CacheSetup) -> CacheCounts:
        """Return the current counters.

        Raises:
            OSError: when they cannot be read.
            TargetError: when the kernel does not report them.
        """

    @abstractmethod
    def facts(self, setup: CacheSetup) -> dict[str, str]:
        """Return its settings: policy, sequential cut-off, promotion and sizes, as reported."""

    @abstractmethod
    def capacity_bytes(self, setup: CacheSetup) -> int:
        """Return the capacity of the cache."""

    @abstractmethod
    def granule_bytes(self, setup: CacheSetup) -> int:
        """Return the size of a cached block; 1 if requests are cached with their own size."""


@functools.cache
def cache_devices() -> Mapping[str, CacheDevice]:
    """Return every kind of cache device by its name."""
    found: dict[str, CacheDevice] = {}
    for module in pkgutil.iter_modules(_folder.__path__, f"{_folder.__name__}."):
        for each in vars(importlib.import_module(module.name)).get("CACHE_DEVICES", ()):
            found[each.name] = each
    return MappingProxyType(found)


def cache_of(spec: LayoutSpec) -> CacheDevice | None:
    """Return the kind of a variant's cache device; None without one."""
    return cache_devices()[spec.cache] if spec.has_cache_device else None


def with_cache(
    spec: LayoutSpec, assigned: DriveRoles, name: str, construction: Construction
) -> Construction:
    """Return how a variant is built with its cache device, if it has one."""
    kind = cache_of(spec)
    if kind is None:
        return construction
    device = kind.device(name)
    setup = CacheSetup(
        name=name,
        below=construction.devices[0],
        fast=assigned.caches[0],
        mode=spec.cache_mode,
        device=device,
    )
    return replace(
        construction,
        steps=(*construction.steps, *kind.build_steps(setup)),
        devices=(device,),
        backing=construction.devices[0],
    )


def cache_setup_of(built: Built) -> CacheSetup:
    """Return the cache device of an array.

    Raises:
        ValueError: when it has none.
    """
    if not built.spec.has_cache_device:
        raise ValueError(f"{built.name} has no cache device")
    return CacheSetup(
        name=built.name,
        below=built.construction.backing,
        fast=built.assigned.caches[0],
        mode=built.spec.cache_mode,
        device=built.construction.devices[0],
    )


def obstacle_of(spec: LayoutSpec) -> str:
    """Return why a variant's cache device cannot be built on this machine; empty if it can."""
    kind = cache_of(spec)
    return kind.obstacle() if kind else ""


def drive_counts(device: str) -> dict[str, float]:
    """Return reads, writes and bytes written of a block device, as counted by the kernel.

    Source: the kernel's Documentation/block/stat.rst.

    Raises:
        TargetError: when it is gone.
    """
    number = LIVE.block_number(device)
    words = (LIVE.text(f"/sys/dev/block/{number}/stat") or "").split() if number else []
    if len(words) < 7:
        raise TargetError(
            seen=f"{device} has no statistics",
            cause="It was removed",
            next_step="Check the end of `dmesg`",
        )
    return {
        "reads": float(words[0]),
        "writes": float(words[4]),
        "written_bytes": float(words[6]) * SECTOR_BYTES,
    }
