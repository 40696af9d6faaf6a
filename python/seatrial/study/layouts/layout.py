"""Layouts: arrays with their file systems that a study builds, measures and takes apart again.

A table ``[[layout]]`` is one layout, or many: every key that holds a list is a factor, and each
combination of values is a variant, built of the study's ``[drives]`` in its turn.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Annotated, Final, Literal, get_args

import msgspec
from msgspec import Meta, field

from seatrial.published import Count, Positive
from seatrial.study.cell import FactorValue
from seatrial.study.layouts.levels import Level, level_facts
from seatrial.study.values import ONE, Size, many

OfRaid = Literal["single", "raid0", "raid1", "raid10", "raid5", "raid6"]
OfZfs = Literal["stripe", "mirror", "raidz1", "raidz2", "raidz3"]
LevelName = OfRaid | OfZfs
Filesystem = Literal["none", "ext4", "xfs", "btrfs", "zfs", "jfs"]
FILESYSTEMS: Final[tuple[str, ...]] = get_args(Filesystem)
"""A backend that bears one of these names is a file system itself."""
DriveCount = Annotated[int, Meta(ge=1, le=256)]
SpareCount = Annotated[int, Meta(ge=0, le=64)]
LegCount = Annotated[int, Meta(ge=1, le=16)]
ChunkKib = Annotated[int, Meta(ge=4, le=65_536)]
ReadAheadKib = Annotated[int, Meta(ge=0, le=1_048_576)]
DelayMs = Annotated[float, Meta(ge=0, le=10_000)]


class Drives(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What layouts are built of (``[drives]``): one of the three.

    Attributes:
        devices: Block devices, of one controller after those of the other where there are two:
            every leg takes its drives from its own part of the list.
        loop: Number and size of loop devices, such as ``6x2G``; their files lie in ``folder``.
        lab: The same of virtual disks inside the lab.
        folder: Where the files of loop devices lie; the current one unless given.
    """

    devices: list[str] = []
    loop: str = ""
    lab: str = ""
    folder: str = ""


class Layout(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An array with what lies on it (``[[layout]]``); keys that hold a list are factors.

    Attributes:
        name: What the labels of its variants begin with.
        backend: What builds it: ``single`` (a drive as it is), ``md``, ``lvm``, ``md+lvm`` and
            ``md+md`` (a stripe by LVM or md over legs that are md arrays), ``btrfs``, ``zfs``.
            Which there are is known to the targets room alone, so that a new one is one file.
        level: Of each leg.
        drives: Active drives of each leg.
        legs: Legs that are striped over, or that stand side by side with ``expose``.
        spares: Hot spares of each leg.
        chunk_kib: Chunk of a leg.
        stripe_kib: Chunk of the stripe over legs; that of a leg unless given.
        logs: Drives as a separate intent log (zfs).
        caches: Drives as a read cache (zfs).
        filesystem: What is made on it; ``none`` to measure the array itself. A backend that is a
            file system itself has its own, whatever is written here.
        mkfs_options: Further options of its mkfs.
        mount_options: Options of the mount.
        read_ahead_kib: Of the array; the kernel's own unless given.
        scheduler: Of the drives; the one that they have unless given.
        size_bytes: Of the trial file, or the part of the array that is used (``size``); unless
            given 1 GiB, or what fits half of the study's smallest array if that is less.
        member_bytes: The most that is used of each drive (``member_size``); all of it unless
            given.
        initial_sync: Wait for the array's first synchronisation; else it is told to be clean.
        expose: ``array``, or ``legs``: every leg is a target of its own, all of them there at
            once, to be compared.
        flaky: Drives whose sectors can be made to fail (dm-dust).
        delay_ms: By which every request of a drive is delayed (dm-delay): one for all, or one
            for each.
        skip_too_large: Leave out, and name, the variants that need more drives than there are,
            rather than refuse the study.
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
        label: Of the variant, unique in its study, such as ``raid5-4``.
        name: Of the layout that it is a variant of.
        backend: What builds it, such as md or btrfs.
        level: Of each leg, such as raid5.
        drives: Active drives of each leg.
        legs: Legs that are striped over, or that stand side by side.
        spares: Hot spares of each leg.
        chunk_kib: Chunk of a leg.
        stripe_kib: Chunk of the stripe over legs.
        logs: Drives as a separate intent log.
        caches: Drives as a read cache.
        filesystem: What is made on it; none for the array itself.
        mkfs_options: Further options of its mkfs.
        mount_options: Options of the mount.
        read_ahead_kib: Of the array; None for the kernel's own.
        scheduler: Of the drives; empty for the one that they have.
        size_bytes: Of the trial file; None for the usual one.
        member_bytes: The part of each drive that is used; None for all of it.
        initial_sync: Whether the first synchronisation is waited for.
        expose: array, or legs: each leg is a target.
        flaky: Whether sectors can be made to fail.
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
        """Drives' worth of data that the whole layout holds."""
        return self.legs * self.facts.data_members(self.drives)

    @property
    def target_labels(self) -> list[str]:
        """Labels of the targets that it is: its own, or one for each leg."""
        if self.expose != "legs":
            return [self.label]
        return [f"{self.label}-leg{leg}" for leg in range(1, self.legs + 1)]

    @property
    def is_striped(self) -> bool:
        """Whether its legs are striped over."""
        return "+" in self.backend

    def factors(self) -> dict[str, FactorValue]:
        """Return what a comparison of layouts may vary, by name with units last."""
        return {
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


class Assigned(msgspec.Struct, frozen=True, kw_only=True):
    """Which drive does what in a variant.

    Attributes:
        legs: Active drives of each leg.
        spares: Spares of each leg.
        logs: Drives of the intent log.
        caches: Drives of the read cache.
        unused: Drives that the variant leaves alone: they replace failed ones.
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
    """Yield every combination of a layout's factors, each with a label of its own.

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
            caches=layout.caches,
            mkfs_options=layout.mkfs_options,
            mount_options=layout.mount_options,
            size_bytes=_plain(layout.size_bytes),
            member_bytes=_plain(layout.member_bytes),
            initial_sync=layout.initial_sync,
            expose=layout.expose,
            flaky=layout.flaky,
            delay_ms=_delays_ms(layout, chosen),
        )


def _plain(size_bytes: int | None) -> int | None:
    """Return a size as a plain number, which every encoder knows."""
    return None if size_bytes is None else int(size_bytes)


def assigned(spec: LayoutSpec, devices: Sequence[str]) -> Assigned:
    """Return which drive does what: each leg takes its own from its own part of the list.

    Raises:
        ValueError: when there are fewer devices than the variant needs; the text says how many.
    """
    kept = spec.logs + spec.caches
    share = (len(devices) - kept) // spec.legs
    if share < spec.leg_members:
        raise ValueError(f"{spec.label} needs {spec.members} drives, and there are {len(devices)}")
    starts = [leg * share for leg in range(spec.legs)]
    legs = [list(devices[at : at + spec.drives]) for at in starts]
    spares = [list(devices[at + spec.drives : at + spec.leg_members]) for at in starts]
    logs = list(devices[len(devices) - kept : len(devices) - spec.caches])
    caches = list(devices[len(devices) - spec.caches :]) if spec.caches else []
    taken = {*itertools.chain(*legs, *spares), *logs, *caches}
    return Assigned(
        legs=legs,
        spares=spares,
        logs=logs,
        caches=caches,
        unused=[device for device in devices if device not in taken],
    )


_FACTORS: Final = (
    *("backend", "level", "legs", "drives", "spares", "chunk_kib"),
    *("filesystem", "read_ahead_kib", "scheduler"),
)


def _label(name: str, chosen: dict[str, FactorValue], varying: list[str]) -> str:
    """Return the label: the name, and each value that varies in a word of its own."""
    words = {
        "backend": str(chosen["backend"]).replace("+", "-"),
        "level": str(chosen["level"]),
        "legs": f"{chosen['legs']}x{chosen['drives']}",
        "drives": "" if "legs" in varying else _drives_word(chosen),
        "spares": f"{chosen['spares']}s",
        "chunk_kib": f"{chosen['chunk_kib']}k",
        "filesystem": str(chosen["filesystem"]),
        "read_ahead_kib": f"ra{chosen['read_ahead_kib']}",
        "scheduler": str(chosen["scheduler"]),
    }
    return "-".join(word for word in [name, *(words[each] for each in varying)] if word)


def _drives_word(chosen: dict[str, FactorValue]) -> str:
    many_legs = chosen["legs"] != 1
    return f"{chosen['legs']}x{chosen['drives']}" if many_legs else str(chosen["drives"])


def _delays_ms(layout: Layout, chosen: dict[str, FactorValue]) -> list[float]:
    """Return the delay of each drive (ms), the last one given for all that follow."""
    given = many(layout.delay_ms)
    if not any(given):
        return []
    per_leg = int(chosen["drives"]) + int(chosen["spares"])
    count = int(chosen["legs"]) * per_leg + layout.logs + layout.caches
    return [*given, *itertools.repeat(given[-1], max(0, count - len(given)))][:count]
