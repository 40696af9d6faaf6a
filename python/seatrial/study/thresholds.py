"""Thresholds: requirements of a study for its results, parsed and checked; evaluated later.

A threshold is one line of the study's ``[thresholds]`` table::

    "commit.p99_ms" = "< 5"
    "matrix[operation=read, block_size=8KiB, threads=10].iops" = "> 20000"

The left side is the name of a workload, optionally a selection of its cells in brackets, and a
quantity with its unit last. The right side is a comparison and a number. A threshold is met if all
selected cells meet it.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from seatrial.study.cell import Cell
from seatrial.study.units import format_factor, parse_size_bytes

COMPARISONS: Final[dict[str, Callable[[float, float], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
LATENCIES: Final = ("mean", "p50", "p90", "p99", "p99.9", "max")
"""Latency quantities; the names are those of ``analysis.model.CellSummary.latency``."""

_TIMES: Final = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
_RATES: Final = {"MB": 1e6, "GB": 1e9, "MiB": 2.0**20, "GiB": 2.0**30}
_UNITS: Final[dict[str, tuple[str, str, str, float]]] = (
    {
        f"{name}_{unit}": (name, unit, "ns", scale)
        for name in (*LATENCIES, "stall_max", "real")
        for unit, scale in _TIMES.items()
    }
    | {
        f"{unit.lower()}_per_s": ("bandwidth", f"{unit}/s", "B/s", scale)
        for unit, scale in _RATES.items()
    }
    | {
        "iops": ("iops", "IOPS", "IOPS", 1.0),
        "commits_per_s": ("iops", "commits/s", "IOPS", 1.0),
        "tps": ("tps", "tps", "tps", 1.0),
        "sustained_per_s": ("sustained", "IOPS", "IOPS", 1.0),
        "stalls": ("stalls", "count", "count", 1.0),
        "errors": ("errors", "count", "count", 1.0),
    }
)
QUANTITIES: Final = tuple(_UNITS)
"""All valid spellings of a quantity with its unit, such as ``p99_ms`` or ``mb_per_s``."""

_SIZES: Final = ("block_size", "memory_limit")
"""Factors compared in bytes, regardless of spelling."""
_NAME: Final = re.compile(r"([A-Za-z0-9_-]+)(?:\[([^\]]*)\])?\.(.+)")
_CONDITION: Final = re.compile(r"(<=|>=|<|>) *([0-9]{1,15}(?:\.[0-9]{1,9})?)")


class Threshold(msgspec.Struct, frozen=True, kw_only=True):
    """One requirement for a quantity of a workload's cells.

    Attributes:
        workload: Name of the workload.
        where: Factors of the selected cells, as text; empty selects every cell.
        quantity: ``mean``, ``p50``, ``p90``, ``p99``, ``p99.9``, ``max`` (response time),
            ``iops``, ``tps`` (of a database), ``bandwidth``, ``sustained`` (of a load line),
            ``real`` (of a batch), ``stalls``, ``stall_max`` or ``errors``.
        comparison: ``<``, ``<=``, ``>`` or ``>=``.
        value: The limit, in ``unit``.
        unit: ``ns``, ``us``, ``ms``, ``s``, ``IOPS``, ``commits/s``, ``MB/s`` ... or ``count``.
        base_value: The limit in ``base_unit``.
        base_unit: ``ns``, ``IOPS``, ``B/s`` or ``count``.
        name: The left side as written.
        condition: The right side as written.
    """

    workload: str
    where: dict[str, str] = {}
    quantity: str
    comparison: str
    value: float
    unit: str
    base_value: float
    base_unit: str
    name: str
    condition: str

    def selects(self, cell: Cell) -> bool:
        """Return whether the threshold applies to this cell."""
        if cell.workload != self.workload:
            return False
        known = selectable(cell)
        return all(known.get(name) == value for name, value in self.where.items())

    def holds(self, measured: float) -> bool:
        """Return whether a figure in ``base_unit`` meets the threshold."""
        return COMPARISONS[self.comparison](measured, self.base_value)


def selectable(cell: Cell) -> dict[str, str]:
    """Return the factors of a cell that a threshold can select: names and values as text.

    Names are the keys of a study: a block size is in bytes under ``block_size``, and the workers of
    a database are its clients.
    """
    known = {name: format_factor(value) for name, value in cell.identity().items()}
    for size in _SIZES:
        if f"{size}_bytes" in known:
            known[size] = known.pop(f"{size}_bytes")
    if cell.parsed.database is not None:
        known["clients"] = known.pop("threads")
        del known["block_size"], known["depth"]
    return known


def parse_threshold(name: str, condition: str) -> Threshold:
    """Return the threshold of one line of a study's ``[thresholds]`` table.

    Args:
        name: Left side, such as ``commit.p99_ms``.
        condition: Right side, such as ``< 5``.

    Raises:
        ValueError: with a sentence, when either side does not match the grammar.
    """
    parts = _NAME.fullmatch(name)
    if parts is None:
        raise ValueError(
            f"{name!r} does not have the form workload.quantity, such as commit.p99_ms"
        )
    if parts[3] not in _UNITS:
        raise ValueError(
            f"{parts[3]!r} is not a quantity; valid are p50, p90, p99, p99.9, mean, max, "
            "stall_max and real with _ns, _us, _ms or _s, and "
            f"{', '.join(_other_quantities())}"
        )
    demand = _CONDITION.fullmatch(condition.strip())
    if demand is None:
        raise ValueError(f"{condition!r} is not a comparison with a number, such as '< 5'")
    quantity, unit, base_unit, scale = _UNITS[parts[3]]
    return Threshold(
        workload=parts[1],
        where=_selection(parts[2] or ""),
        quantity=quantity,
        comparison=demand[1],
        value=float(demand[2]),
        unit=unit,
        base_value=float(demand[2]) * scale,
        base_unit=base_unit,
        name=name,
        condition=condition.strip(),
    )


class Thresholds(tuple[Threshold, ...]):
    """The thresholds of a study, in the order in which they are written."""

    __slots__ = ()

    def as_table(self) -> dict[str, str]:
        """Return them as the study's ``[thresholds]`` table."""
        return {each.name: each.condition for each in self}


def flatten(table: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Return a ``[thresholds]`` table with one level.

    TOML reads the unquoted key ``commit.p99_ms`` as nested tables; both spellings are equivalent
    here.
    """
    flat: dict[str, object] = {}
    for key, value in table.items():
        name = f"{prefix}{key}"
        flat |= flatten(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return flat


def _other_quantities() -> list[str]:
    """Return the quantities that are not durations."""
    return [name for name, (_, _, base_unit, _) in _UNITS.items() if base_unit != "ns"]


def _selection(written: str) -> dict[str, str]:
    """Return the factors in brackets."""
    where: dict[str, str] = {}
    for term in filter(None, (part.strip() for part in written.split(","))):
        name, equals, value = (part.strip() for part in term.partition("="))
        if not (name and equals and value):
            raise ValueError(f"{term!r} does not have the form factor=value, such as threads=10")
        if name in where:
            raise ValueError(f"{name!r} occurs twice in the brackets")
        where[name] = str(parse_size_bytes(value)) if name in _SIZES else value
    return where
