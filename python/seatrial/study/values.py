"""The value types of a study file, with their bounds.

A key that is a factor takes one value or a list of values; each value of a list creates separate
cells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal, TypeVar, overload

from msgspec import Meta

from seatrial import _core
from seatrial.study.problems import ConstraintError, suggestion
from seatrial.study.thresholds import Thresholds, flatten, parse_threshold
from seatrial.study.units import SIZE_EXPECTED, format_size, parse_size_bytes

T = TypeVar("T")

ONE = Meta(min_length=1)

Share = Annotated[float, Meta(ge=0, le=1)]
PositiveShare = Annotated[float, Meta(gt=0, le=1)]
OverProvisioning = Annotated[float, Meta(gt=0, le=_core.ONE_PASS_OVER_PROVISIONING_SHARE_MAX)]
Seconds = Annotated[float, Meta(gt=0, le=_core.DURATION_S_MAX)]
SecondsOrNone = Annotated[float, Meta(ge=0, le=_core.DURATION_S_MAX)]
Threads = Annotated[int, Meta(ge=1, le=_core.THREADS_MAX)]
Depth = Annotated[int, Meta(ge=1, le=_core.DEPTH_MAX)]
PerSecond = Annotated[float, Meta(ge=_core.RATE_PER_S_MIN, le=_core.RATE_PER_S_MAX)]
Count = Annotated[int, Meta(ge=1, le=1_000_000)]
ProcessCount = Annotated[int, Meta(ge=1, le=64)]
CountOrNone = Annotated[int, Meta(ge=0, le=1_000_000)]
Theta = Annotated[float, Meta(ge=0, le=_core.THETA_MAX)]
SliceMs = Annotated[int, Meta(ge=1, le=_core.SLICE_MS_MAX)]
StallThresholdMs = Annotated[int, Meta(ge=1, le=_core.STALL_THRESHOLD_MS_MAX)]

Operation = Literal["read", "write", "mixed"]
ReadOrWrite = Literal["read", "write"]
Pattern = Literal["random", "sequential", "strided", "zipf", "hot_cold"]
Arrival = Literal["closed", "fixed", "poisson", "bursts", "batches"]
StreamArrival = Literal["closed", "fixed", "poisson", "batches", "poisson_bursts", "think"]
Schedule = Literal["poisson", "fixed"]
Percentile = Literal["p50", "p90", "p99", "p99.9"]
Engine = Literal["auto", "io_uring", "psync"]
Data = Literal["random", "compressible", "verifiable"]
Method = Literal["fdatasync", "o_dsync"]
Probe = Literal["rate", "access"]

Shares = Share | Annotated[list[Share], ONE]
ManyThreads = Threads | Annotated[list[Threads], ONE]
Depths = Depth | Annotated[list[Depth], ONE]
Rates = PerSecond | Annotated[list[PerSecond], ONE]
Counts = Count | Annotated[list[Count], ONE]
Processes = ProcessCount | Annotated[list[ProcessCount], ONE]
CountsOrNone = CountOrNone | Annotated[list[CountOrNone], ONE]
Thetas = Theta | Annotated[list[Theta], ONE]
Flags = bool | Annotated[list[bool], ONE]
Operations = Operation | Annotated[list[Operation], ONE]
ReadsOrWrites = ReadOrWrite | Annotated[list[ReadOrWrite], ONE]
Patterns = Pattern | Annotated[list[Pattern], ONE]
Arrivals = Arrival | Annotated[list[Arrival], ONE]
Engines = Engine | Annotated[list[Engine], ONE]
DataKinds = Data | Annotated[list[Data], ONE]
Methods = Method | Annotated[list[Method], ONE]
Probes = Probe | Annotated[list[Probe], ONE]

BLOCK_SIZES_EXPECTED: Final = (
    'Expected a size such as "8KiB", a list of sizes, or a doubling range such as {from = '
    '"512", to = "4MiB"}'
)
BLOCK_EXPECTED: Final = f"Expected a block of at most {format_size(_core.BLOCK_BYTES_MAX)}"


class Size(int):
    """Bytes, written as an integer or as text with a unit."""

    @classmethod
    def read(cls, value: object) -> Size:
        """Return the size that a study writes; raises ConstraintError when invalid."""
        try:
            return cls(parse_size_bytes(value))
        except ValueError as error:
            raise ConstraintError(f"is invalid: {error}", f"Expected {SIZE_EXPECTED}") from error


class BlockSizes(tuple[int, ...]):
    """Block sizes in bytes, in the order in which they are written."""

    __slots__ = ()

    @classmethod
    def read(cls, value: object) -> BlockSizes:
        """Return the sizes of one size, a list, or a range; raises ConstraintError when invalid."""
        if isinstance(value, Mapping):
            return cls(_doubling(value))
        if not isinstance(value, list):
            return cls(_sizes_bytes([value], listed=False))
        if not value:
            raise ConstraintError("is an empty list", BLOCK_SIZES_EXPECTED)
        return cls(_sizes_bytes(value, listed=True))


class Sizes(tuple[int, ...]):
    """Sizes of any length in bytes, written as one or as a list."""

    __slots__ = ()

    @classmethod
    def read(cls, value: object) -> Sizes:
        """Return the sizes of one size or a list; raises ConstraintError when there is none."""
        if not isinstance(value, list):
            return cls((Size.read(value),))
        if not value:
            raise ConstraintError(
                "is an empty list", f"Expected {SIZE_EXPECTED}, or a list of sizes"
            )
        return cls(Size.read(item) for item in value)


def decode(wanted: type, value: object) -> object:
    """Return a value of one of our types, for ``msgspec.convert``.

    Raises:
        ConstraintError: when the value does not fit the type.
        TypeError: for any other type.
    """
    if wanted is Size:
        return Size.read(value)
    if wanted is BlockSizes:
        return BlockSizes.read(value)
    if wanted is Sizes:
        return Sizes.read(value)
    if wanted is Thresholds:
        return _thresholds(value)
    raise TypeError(f"the study schema has no values of type {wanted}")


@overload
def many(value: str | Sequence[str]) -> list[str]: ...
@overload
def many(value: T | list[T]) -> list[T]: ...
def many(value: object) -> object:
    """Return the values of a factor, given as one value or a list."""
    return value if isinstance(value, list) else [value]


def only(value: object, word: str) -> bool:
    """Return whether a factor has exactly this value, alone or as a list."""
    return value in (word, [word])


def _sizes_bytes(written: list[object], *, listed: bool) -> list[int]:
    """Return the sizes of a list; an error names the item."""
    sizes = []
    for index, item in enumerate(written):
        path = (index,) if listed else ()
        try:
            sizes.append(parse_size_bytes(item))
        except ValueError as error:
            raise ConstraintError(f"is invalid: {error}", BLOCK_SIZES_EXPECTED, *path) from error
        if sizes[-1] > _core.BLOCK_BYTES_MAX:
            raise ConstraintError(f"is {item!r}", BLOCK_EXPECTED, *path)
    return sizes


def _doubling(written: Mapping[str, object]) -> list[int]:
    """Return the sizes of a range, each twice the previous one."""
    for key in written:
        if key not in ("from", "to"):
            raise ConstraintError("is not a key of a range", suggestion(key, ("from", "to")), key)
    for key in ("from", "to"):
        if key not in written:
            raise ConstraintError(f"has no {key!r}", BLOCK_SIZES_EXPECTED)
    ends = {key: _end_of_range(key, written[key]) for key in ("from", "to")}
    sizes = [ends["from"]]
    while sizes[-1] < ends["to"]:
        sizes.append(sizes[-1] * 2)
    if sizes[-1] > _core.BLOCK_BYTES_MAX:
        raise ConstraintError(f"is {written['to']!r}", BLOCK_EXPECTED, "to")
    if sizes[-1] != ends["to"]:
        raise ConstraintError(
            f"is {written['to']!r}, which is not reached by doubling {written['from']!r}",
            "Expected the first size times a power of two",
            "to",
        )
    return sizes


def _end_of_range(key: str, value: object) -> int:
    """Return one end of a range in bytes; an error names the end."""
    try:
        return parse_size_bytes(value)
    except ValueError as error:
        raise ConstraintError(f"is invalid: {error}", f"Expected {SIZE_EXPECTED}", key) from error


def _thresholds(table: object) -> Thresholds:
    """Return the thresholds of the study's table; raises ConstraintError at the wrong line."""
    if not isinstance(table, Mapping):
        raise ConstraintError("is not a table", 'Expected entries such as "commit.p99_ms" = "< 5"')
    thresholds = []
    for name, condition in flatten(table).items():
        if not isinstance(condition, str):
            raise ConstraintError(
                "is not a string", 'Expected a comparison in quotes, such as "< 5"', name
            )
        try:
            thresholds.append(parse_threshold(name, condition))
        except ValueError as error:
            raise ConstraintError(
                f"is invalid: {error}", 'An example: "commit.p99_ms" = "< 5"', name
            ) from error
    return Thresholds(thresholds)
