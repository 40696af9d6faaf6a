"""Layouts: arrays with file systems that a study builds, measures and removes again.

A table ``[[layout]]`` is one layout or several: every key with a list is a factor, and each
combination of values is a variant, built of the study's ``[drives]`` one after another.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal, get_args

import msgspec
from msgspec import Meta, field

from seatrial import _core
from seatrial.errors import StudyError
from seatrial.published import Count, Positive
from seatrial.study.cell import FactorValue
from seatrial.study.units import parse_size_bytes
from seatrial.study.values import ONE, Size, many
from seatrial.study.values import Count as CountFromOne

AfterSeconds = Annotated[float, Meta(ge=0, le=_core.DURATION_S_MAX)]
MemberIndex = Annotated[int, Meta(ge=1, le=4096)]

Fault = Literal["fail", "replace", "bad_sectors", "rot", "falter", "drop_writes", "scrub"]


class Failure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One fault injected into an array during a sample (``fail``, a table or a list of tables).

    Attributes:
        after_s: Seconds from the sample's start.
        fault: ``fail`` (the drive fails; a spare replaces it if there is one), ``replace`` (an
            unused drive replaces the failed one), ``bad_sectors`` (reads of some sectors fail;
            needs ``flaky`` members), ``rot`` (silent corruption of some blocks), ``falter`` (all
            requests of the drive fail every other second), ``drop_writes`` (the drive acknowledges
            writes without writing them; both need ``flaky`` members) or ``scrub`` (the array
            verifies all its data).
        member: Number of the active drive in the leg, from 1; ignored for ``scrub``.
        leg: Number of the leg, from 1.
        sectors: For ``bad_sectors`` and ``rot``: the number of 4 KiB blocks.
    """

    after_s: AfterSeconds
    fault: Fault = "fail"
    member: MemberIndex = 1
    leg: MemberIndex = 1
    sectors: CountFromOne = 3


Failures = Failure | list[Failure]

STORED_FAULT: Final = "deed"
"""Names of ``fault`` in studies before 2026-11-23. Stored cells keep them: a resume finds its run
by a hash of its cells."""


def as_stored(failure: Failure) -> dict[str, FactorValue]:
    """Return a failure as plain values, as the specification of a cell has it."""
    plain: dict[str, FactorValue] = msgspec.to_builtins(failure)
    plain[STORED_FAULT] = plain.pop("fault")
    return plain


def failures_of(stored: Sequence[Mapping[str, object]]) -> list[Failure]:
    """Return the faults of a cell's specification."""
    return msgspec.convert(with_fault(stored), list[Failure])


def with_fault(failing: object) -> object:
    """Return ``fail`` of a study or a stored cell, with the current names of faults."""
    if isinstance(failing, list):
        return [with_fault(each) for each in failing]
    if isinstance(failing, dict) and STORED_FAULT in failing and "fault" not in failing:
        return {"fault" if key == STORED_FAULT else key: each for key, each in failing.items()}
    return failing


@dataclass(frozen=True, kw_only=True)
class Level:
    """One level of redundancy over ``n`` drives.

    Attributes:
        members_min: Fewest drives.
        even: Whether their number must be even.
        data_members: Drives' worth of data that ``n`` drives hold.
        losses_survived: How many of ``n`` drives may fail, in any combination.
        parity_members: Drives' worth of parity in each stripe; 0 for copies and plain stripes.
    """

    members_min: int
    even: bool = False
    data_members: Callable[[int], float]
    losses_survived: Callable[[int], int]
    parity_members: int = 0


def _parity(count: int, members_min: int) -> Level:
    return Level(
        members_min=members_min,
        data_members=lambda members: members - count,
        losses_survived=lambda _members: count,
        parity_members=count,
    )


_PLAIN: Final = Level(
    members_min=1,
    data_members=lambda members: members,
    losses_survived=lambda _members: 0,
)
_COPIES: Final = Level(
    members_min=2,
    data_members=lambda _members: 1,
    losses_survived=lambda members: members - 1,
)
_TWO_COPIES: Final = Level(
    members_min=2,
    data_members=lambda members: members / 2,
    losses_survived=lambda _members: 1,
)
_STRIPED_COPIES: Final = Level(
    members_min=4,
    even=True,
    data_members=lambda members: members / 2,
    losses_survived=lambda _members: 1,
)

LEVELS: Final[dict[str, Level]] = {
    "single": _PLAIN,
    "raid0": _PLAIN,
    "raid1": _COPIES,
    "raid10": _STRIPED_COPIES,
    "raid5": _parity(1, members_min=3),
    "raid6": _parity(2, members_min=4),
    "stripe": _PLAIN,
    "mirror": _COPIES,
    "raidz1": _parity(1, members_min=2),
    "raidz2": _parity(2, members_min=3),
    "raidz3": _parity(3, members_min=4),
}
"""By name. ``stripe``, ``mirror`` and ``raidz1`` to ``raidz3`` are ZFS's."""

_OF_BACKEND: Final = {("btrfs", "raid1"): _TWO_COPIES}
"""Levels with another meaning in one backend. Source: mkfs.btrfs(8), PROFILES: ``raid1`` has two
copies, whatever the number of drives."""


def level_facts(backend: str, level: str) -> Level:
    """Return the meaning of a level in a backend.

    Raises:
        KeyError: when there is no such level.
    """
    return _OF_BACKEND.get((backend, level)) or LEVELS[level]


OfRaid = Literal["single", "raid0", "raid1", "raid10", "raid5", "raid6"]
OfZfs = Literal["stripe", "mirror", "raidz1", "raidz2", "raidz3"]
LevelName = OfRaid | OfZfs
Filesystem = Literal["none", "ext4", "xfs", "btrfs", "zfs", "jfs"]
CacheKind = Literal["none", "bcache", "dm-cache", "dm-writecache"]
CacheMode = Literal["writethrough", "writeback"]
NO_CACHE: Final = "none"
FILESYSTEMS: Final[tuple[str, ...]] = get_args(Filesystem)
"""Backends with these names are file systems themselves."""
DriveCount = Annotated[int, Meta(ge=1, le=256)]
SpareCount = Annotated[int, Meta(ge=0, le=64)]
LegCount = Annotated[int, Meta(ge=1, le=16)]
ChunkKib = Annotated[int, Meta(ge=4, le=65_536)]
ReadAheadKib = Annotated[int, Meta(ge=0, le=1_048_576)]
DelayMs = Annotated[float, Meta(ge=0, le=10_000)]


class Drives(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The drives that layouts are built of (``[drives]``): one of the three kinds.

    Attributes:
        devices: Block devices; with two controllers, those of the first, then those of the second:
            each leg takes its drives from its own part of the list.
        loop: Count and size of loop devices, such as ``6x2G``, with their files in ``folder``.
        lab: Count and size of virtual disks in the lab.
        folder: Directory for the files of loop devices; by default the current one.
    """

    devices: list[str] = []
    loop: str = ""
    lab: str = ""
    folder: str = ""


class Layout(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An array with its file system (``[[layout]]``); keys with a list are factors.

    Attributes:
        name: Prefix of the labels of its variants.
        backend: What builds it: ``single`` (a plain drive), ``md``, ``lvm``, ``md+lvm`` and
            ``md+md`` (a stripe by LVM or md over legs that are md arrays), ``btrfs``, ``zfs``. The
            topic layouts defines them, so that a new backend is one file.
        level: Level of each leg.
        drives: Active drives of each leg.
        legs: Number of legs, striped, or separate with ``expose``.
        spares: Hot spares of each leg.
        chunk_kib: Chunk of a leg.
        stripe_kib: Chunk of the stripe over legs; by default the chunk of a leg.
        logs: Number of drives for a separate intent log (zfs).
        caches: Number of drives for a read cache (zfs).
        cache: A cache device in front of the array, on a drive of its own: ``bcache``, ``dm-cache``
            or ``dm-writecache`` (the last two by LVM); ``none`` for no such device. The topic
            layouts builds them.
        cache_mode: ``writethrough``, or ``writeback``: the array gets writes later. Ignored by
            dm-writecache, which is always a write-back cache.
        nfs: Whether the file system is exported by the lab's own NFS server and measured through
            a mount of it (in the lab only).
        cold_cache: Whether the cache is empty when a sample begins; then the load is measured
            without it for a few seconds before, and its warm-up is predicted.
        filesystem: The file system on the array; ``none`` to measure the array itself. Ignored by
            backends that are file systems.
        mkfs_options: Additional options of mkfs.
        mount_options: Options of the mount.
        read_ahead_kib: Read-ahead of the array; by default unchanged.
        scheduler: Scheduler of the drives; by default unchanged.
        size_bytes: Size of the trial file, or the part of the array that is used (``size``); unless
            given 1 GiB, or what fits half of the study's smallest array if that is less.
        member_bytes: The part of each drive that is used (``member_size``); by default all of it.
        initial_sync: Wait for the initial synchronisation; otherwise the array is assumed clean.
        expose: ``array``, or ``legs``: each leg is a separate target, and all exist at the same
            time, for a comparison.
        flaky: Whether the drives support fault injection (dm-dust, dm-flakey).
        delay_ms: Delay of each request to a drive (dm-delay): one value for all drives, or one for
            each.
        skip_too_large: Skip variants that need more drives than are available, with a note, instead
            of refusing the study.
    """

    name: str
    backend: str | Annotated[list[str], ONE] = "md"
    level: LevelName | Annotated[list[LevelName], ONE] = "raid0"
    drives: DriveCount | Annotated[list[DriveCount], ONE] = 1
    legs: LegCount | Annotated[list[LegCount], ONE] = 1
    spares: SpareCount | Annotated[list[SpareCount], ONE] = 0
    chunk_kib: ChunkKib | Annotated[list[ChunkKib], ONE] = 128
    stripe_kib: ChunkKib | None = None
    logs: SpareCount = 0
    caches: SpareCount = 0
    cache: CacheKind | Annotated[list[CacheKind], ONE] = NO_CACHE
    cache_mode: CacheMode = "writethrough"
    cold_cache: bool = False
    nfs: bool | Annotated[list[bool], ONE] = False
    filesystem: Filesystem | Annotated[list[Filesystem], ONE] = "xfs"
    mkfs_options: list[str] = []
    mount_options: list[str] = []
    read_ahead_kib: ReadAheadKib | Annotated[list[ReadAheadKib], ONE] | None = None
    scheduler: str | Annotated[list[str], ONE] = ""
    size_bytes: Size | None = field(default=None, name="size")
    member_bytes: Size | None = field(default=None, name="member_size")
    initial_sync: bool = True
    expose: Literal["array", "legs"] = "array"
    flaky: bool = False
    delay_ms: DelayMs | Annotated[list[DelayMs], ONE] = 0.0
    skip_too_large: bool = False


class LayoutSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One variant of a layout: one value for every key of ``[[layout]]`` (docs/study-file.md).

    Attributes:
        label: Label of the variant, unique in its study, such as ``raid5-4``.
        name: Name of its layout.
        backend: What builds it, such as md or btrfs.
        level: Level of each leg, such as raid5.
        drives: Active drives of each leg.
        legs: Number of legs, striped or separate.
        spares: Hot spares of each leg.
        chunk_kib: Chunk of a leg.
        stripe_kib: Chunk of the stripe over legs.
        logs: Drives as a separate intent log.
        caches: Drives as a read cache, or the one of a cache device.
        cache: The cache device in front of the array; none without one.
        cache_mode: writethrough or writeback.
        cold_cache: Whether the cache is empty when a sample begins.
        nfs: Whether it is measured through a mount by NFS.
        filesystem: What is made on it; none for the array itself.
        mkfs_options: Further options of its mkfs.
        mount_options: Options of the mount.
        read_ahead_kib: Read-ahead of the array; None for the kernel's own.
        scheduler: Scheduler of the drives; empty for the one that they have.
        size_bytes: Size of the trial file; None for the usual one.
        member_bytes: The part of each drive that is used; None for all of it.
        initial_sync: Whether to wait for the initial synchronisation.
        expose: array, or legs: each leg is a separate target.
        flaky: Whether the drives support fault injection.
        delay_ms: One for each drive in the order of ``assigned``; empty without delays.
    """

    label: str
    name: str
    backend: str
    level: str
    drives: Positive
    legs: Positive = 1
    spares: Count = 0
    chunk_kib: Count = 128
    stripe_kib: Count = 128
    logs: Count = 0
    caches: Count = 0
    cache: str = NO_CACHE
    cache_mode: str = "writethrough"
    cold_cache: bool = False
    nfs: bool = False
    filesystem: str = "xfs"
    mkfs_options: list[str] = []
    mount_options: list[str] = []
    read_ahead_kib: Count | None = None
    scheduler: str = ""
    size_bytes: Count | None = None
    member_bytes: Count | None = None
    initial_sync: bool = True
    expose: str = "array"
    flaky: bool = False
    delay_ms: list[float] = []

    @property
    def facts(self) -> Level:
        """What its level means to its backend."""
        return level_facts(self.backend, self.level)

    @property
    def leg_members(self) -> int:
        """Drives of one leg, spares included."""
        return self.drives + self.spares

    @property
    def members(self) -> int:
        """Drives of all legs, with spares, logs and caches."""
        return self.legs * self.leg_members + self.logs + self.caches

    @property
    def data_members(self) -> float:
        """Number of drives whose capacity holds data in the whole layout."""
        return self.legs * self.facts.data_members(self.drives)

    @property
    def target_labels(self) -> list[str]:
        """Labels of its targets: its own, or one for each leg."""
        if self.expose != "legs":
            return [self.label]
        return [f"{self.label}-leg{leg}" for leg in range(1, self.legs + 1)]

    @property
    def has_cache_device(self) -> bool:
        """Whether a cache device is in front of its array."""
        return self.cache != NO_CACHE

    @property
    def is_striped(self) -> bool:
        """Whether it stripes over its legs."""
        return "+" in self.backend

    def factors(self) -> dict[str, FactorValue]:
        """Return the factors that a comparison of layouts may vary, by name with units last."""
        cache: dict[str, FactorValue] = {"cache": self.cache} if self.has_cache_device else {}
        nfs: dict[str, FactorValue] = {"nfs": self.nfs} if self.nfs else {}
        return (
            cache
            | nfs
            | {
                "layout": self.name,
                "backend": self.backend,
                "level": self.level,
                "drives": self.legs * self.drives,
                "legs": self.legs,
                "spares": self.spares,
                "chunk_kib": self.chunk_kib,
                "filesystem": self.filesystem,
                "read_ahead_kib": -1 if self.read_ahead_kib is None else self.read_ahead_kib,
                "scheduler": self.scheduler,
            }
        )


class DriveRoles(msgspec.Struct, frozen=True, kw_only=True):
    """The role of each drive in a variant.

    Attributes:
        legs: Active drives of each leg.
        spares: Spares of each leg.
        logs: Drives of the intent log.
        caches: Drives of the read cache.
        unused: Drives that the variant does not use: they can replace failed ones.
    """

    legs: list[list[str]]
    spares: list[list[str]]
    logs: list[str] = []
    caches: list[str] = []
    unused: list[str] = []

    @property
    def used(self) -> list[str]:
        """Every drive of the variant: legs, each with its spares, then logs, then caches."""
        of_legs = itertools.chain.from_iterable(
            [*active, *spare] for active, spare in zip(self.legs, self.spares, strict=True)
        )
        return [*of_legs, *self.logs, *self.caches]


def variants(layout: Layout) -> Iterator[LayoutSpec]:
    """Yield every combination of a layout's factors, each with a different label.

    The label is the layout's name and the values of those factors that vary, such as
    ``raid5-4-64k``; drives and legs together are written ``2x4``.
    """
    factors = {name: many(getattr(layout, name)) for name in _FACTORS}
    varying = [name for name, values in factors.items() if len(values) > 1]
    for values in itertools.product(*factors.values()):
        chosen = dict(zip(factors, values, strict=True))
        label = _label(layout.name, chosen, varying)
        if chosen["backend"] in FILESYSTEMS:
            chosen["filesystem"] = chosen["backend"]
        yield LayoutSpec(
            label=label,
            name=layout.name,
            **chosen,
            stripe_kib=layout.stripe_kib or chosen["chunk_kib"],
            logs=layout.logs,
            caches=_caches(layout, chosen),
            cache_mode=layout.cache_mode,
            cold_cache=layout.cold_cache,
            mkfs_options=layout.mkfs_options,
            mount_options=layout.mount_options,
            size_bytes=_plain(layout.size_bytes),
            member_bytes=_plain(layout.member_bytes),
            initial_sync=layout.initial_sync,
            expose=layout.expose,
            flaky=layout.flaky,
            delay_ms=_delays_ms(layout, chosen),
        )


def _caches(layout: Layout, chosen: Mapping[str, FactorValue]) -> int:
    """Return the number of cache drives: a cache device has one."""
    return 1 if chosen["cache"] != NO_CACHE else layout.caches


def _plain(size_bytes: int | None) -> int | None:
    """Return a size as a plain integer, which every encoder supports."""
    return None if size_bytes is None else int(size_bytes)


def assigned(spec: LayoutSpec, devices: Sequence[str]) -> DriveRoles:
    """Return the role of each drive: each leg uses its own part of the list.

    Raises:
        ValueError: when there are fewer devices than the variant needs; the text says how many.
    """
    kept = spec.logs + spec.caches
    share = (len(devices) - kept) // spec.legs
    if share < spec.leg_members:
        raise ValueError(
            f"{spec.label} needs {spec.members} drives, but only {len(devices)} are available"
        )
    starts = [leg * share for leg in range(spec.legs)]
    legs = [list(devices[at : at + spec.drives]) for at in starts]
    spares = [list(devices[at + spec.drives : at + spec.leg_members]) for at in starts]
    logs = list(devices[len(devices) - kept : len(devices) - spec.caches])
    caches = list(devices[len(devices) - spec.caches :]) if spec.caches else []
    taken = {*itertools.chain(*legs, *spares), *logs, *caches}
    return DriveRoles(
        legs=legs,
        spares=spares,
        logs=logs,
        caches=caches,
        unused=[device for device in devices if device not in taken],
    )


_FACTORS: Final = (
    *("backend", "level", "legs", "drives", "spares", "chunk_kib"),
    *("cache", "nfs", "filesystem", "read_ahead_kib", "scheduler"),
)


def _label(name: str, chosen: dict[str, FactorValue], varying: list[str]) -> str:
    """Return the label: the name, and one word for each value that varies."""
    words = {
        "backend": str(chosen["backend"]).replace("+", "-"),
        "level": str(chosen["level"]),
        "legs": f"{chosen['legs']}x{chosen['drives']}",
        "drives": "" if "legs" in varying else _drives_word(chosen),
        "spares": f"{chosen['spares']}s",
        "chunk_kib": f"{chosen['chunk_kib']}k",
        "cache": "uncached" if chosen["cache"] == NO_CACHE else str(chosen["cache"]),
        "nfs": "nfs" if chosen["nfs"] else "local",
        "filesystem": str(chosen["filesystem"]),
        "read_ahead_kib": f"ra{chosen['read_ahead_kib']}",
        "scheduler": str(chosen["scheduler"]),
    }
    return "-".join(word for word in [name, *(words[each] for each in varying)] if word)


def _drives_word(chosen: dict[str, FactorValue]) -> str:
    many_legs = chosen["legs"] != 1
    return f"{chosen['legs']}x{chosen['drives']}" if many_legs else str(chosen["drives"])


def _delays_ms(layout: Layout, chosen: dict[str, FactorValue]) -> list[float]:
    """Return the delay of each drive (ms); the last value applies to all further drives."""
    given = many(layout.delay_ms)
    if not any(given):
        return []
    per_leg = int(chosen["drives"]) + int(chosen["spares"])
    count = int(chosen["legs"]) * per_leg + layout.logs + _caches(layout, chosen)
    return [*given, *itertools.repeat(given[-1], max(0, count - len(given)))][:count]


COUNT_MAX: Final = 64
_WRITTEN: Final = re.compile(r"(?P<count>[0-9]{1,3})x(?P<size>.+)")


class DriveInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The facts known about a drive before a plan is made.

    Attributes:
        name: Its path; ``loop1`` or ``disk1`` for one to be created, ``DRIVE1`` for an unspecified
            one.
        size_bytes: None if it is not known.
        logical_block_bytes: O_DIRECT requests must be multiples of this size.
    """

    name: str
    size_bytes: Count | None = None
    logical_block_bytes: Positive = 512


def planned_drives(drives: Drives, known: Mapping[str, DriveInfo] | None = None) -> list[DriveInfo]:
    """Return the drives of a study, in its order; an empty list if it names none.

    Args:
        drives: From the study or the command line.
        known: Known facts of the devices, by path.

    Raises:
        StudyError: when a count and size such as ``6x2G`` is malformed.
    """
    if drives.loop:
        return _to_be_made("loop", drives.loop)
    if drives.lab:
        return _to_be_made("disk", drives.lab)
    return [(known or {}).get(path, DriveInfo(name=path)) for path in drives.devices]


def parse_drives(written: str) -> tuple[int, int]:
    """Parse a count and size (bytes) such as ``6x2G``.

    Raises:
        StudyError: when it is malformed.
    """
    match = _WRITTEN.fullmatch(written.strip())
    if match is None:
        raise _not_understood(written, "expected a count and a size")
    count = int(match["count"])
    if not 1 <= count <= COUNT_MAX:
        raise _not_understood(written, f"the count must be 1 to {COUNT_MAX}")
    try:
        return count, parse_size_bytes(match["size"])
    except ValueError as error:
        raise _not_understood(written, str(error)) from None


def _not_understood(written: str, why: str) -> StudyError:
    return StudyError(
        seen=f"{written!r} does not describe drives: {why}",
        cause="Drives created for the trial are given as a count and a size",
        next_step="Example: 6x2G for six drives of 2 GiB",
    )


def _to_be_made(name: str, written: str) -> list[DriveInfo]:
    count, size_bytes = parse_drives(written)
    return [
        DriveInfo(name=f"{name}{number}", size_bytes=size_bytes) for number in range(1, count + 1)
    ]
