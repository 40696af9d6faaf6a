"""Names of cells in charts, made of the factors that differ among them."""

from __future__ import annotations

from collections.abc import (
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)

from seatrial.stats.model import CellSummary
from seatrial.stats.wording import (
    STATEMENT,
    USUAL_OF_REPLAY,
    format_plural,
    format_share,
    format_size,
    is_on_database,
    operation_phrase,
)
from seatrial.study.cell import FactorValue

Identity = Mapping[str, FactorValue]
"""A cell's factors by name, as ``Cell.identity`` gives them."""

_PLAIN_FACTORS = ("batch_rows", "history_hours")
"""Factors of a database's cell that are not settings of the server; they are shown in words."""


def of_kind(cells: Iterable[CellSummary], *kinds: str) -> list[CellSummary]:
    """Return the cells of these kinds that have a figure."""
    return [summary for summary in cells if summary.cell.kind in kinds and not summary.blank]


def varying(cells: Sequence[CellSummary], leave_out: Collection[str] = ()) -> list[str]:
    """Return the names of the factors that differ among the cells, in the cells' order."""
    return varying_among([summary.cell.identity() for summary in cells], leave_out)


def varying_among(identities: Sequence[Identity], leave_out: Collection[str] = ()) -> list[str]:
    """Return the names of the factors that differ among cells, given by their identities."""
    values: dict[str, set[FactorValue | None]] = {}
    names = dict.fromkeys(name for identity in identities for name in identity)
    for name in names:
        values[name] = {identity.get(name) for identity in identities}
    return [name for name in names if len(values[name]) > 1 and name not in leave_out]


def name_by(summary: CellSummary, factors: Iterable[str]) -> str:
    """Return the cell's values of these factors, such as ``random read, 10 threads``."""
    return identity_by(summary.cell.identity(), factors, summary.cell.kind)


def identity_by(identity: Identity, factors: Iterable[str], kind: str = "") -> str:
    """Return the values of these factors of a cell, given by its identity."""
    if is_on_database(identity):
        return ", ".join(_database_phrase(identity, factors))
    words = {
        name: format_factor(name, identity[name], kind)
        for name in factors
        if identity.get(name) is not None
    }
    if "pattern" in words and "operation" in words:
        words["operation"] = f"{words.pop('pattern')} {words['operation']}"
    return ", ".join(word for word in words.values() if word)


def format_factor(name: str, value: FactorValue, kind: str = "") -> str:
    """Return one factor's value in words."""
    if name == "threads":
        noun = "committer" if kind == "commit" else "thread"
        return format_plural(int(value), noun) if int(value) else ""  # 0 of what others did
    if name == "depth":
        return f"depth {value}"
    if name == "block_size_bytes":
        return format_size(int(value)) if value else ""
    if name == "file":
        return f"{value} file"
    if isinstance(value, str):
        return value
    return _named_factor(name, value)


def _database_phrase(identity: Identity, factors: Iterable[str]) -> Iterator[str]:
    """Yield a database's factors in words; for a replay only the unusual ones."""
    is_replay = identity.get("operation") == STATEMENT
    for name in factors:
        if name not in identity:
            continue
        value = identity[name]
        if not is_replay:
            yield database_factor(name, value)
        elif name == "threads":
            yield format_plural(int(value), "connection")
        elif name == "read_only" and value is True:
            yield "read only"
        elif USUAL_OF_REPLAY.get(name) != value:
            yield database_factor(name, value)


def database_factor(name: str, value: FactorValue) -> str:
    """Return one factor of a database's cell: ``10 clients``, ``scale 100``, ``start warm``.

    A setting of the server keeps its own name: ``shared_buffers 128MB``.
    """
    if name == "threads":
        return format_plural(int(value), "client")
    if name == "processes":
        return format_plural(int(value), "process", "processes")
    if name in ("target", "workload", "operation", "script"):
        return str(value)
    if name.endswith("_bytes") and not isinstance(value, str):
        return f"{name.removesuffix('_bytes').replace('_', ' ')} {format_size(round(value))}"
    plain = name.replace("_", " ") if name in _PLAIN_FACTORS else name
    return f"{plain} {value:g}" if isinstance(value, float) else f"{plain} {value}"


def _named_factor(name: str, value: float | bool) -> str:
    """Return a number or truth value with the factor's name, such as ``read share 70 %``."""
    words = name.replace("_", " ")
    if isinstance(value, bool):
        return words if value else f"no {words}"
    if name.endswith("_bytes"):
        return f"{words.removesuffix(' bytes')} {format_size(round(value))}"
    if name.endswith("_share"):
        return f"{words} {format_share(value)}"
    return f"{words} {value:g}"


def cell_name(identity: Identity) -> str:
    """Return a cell's factors in words: ``ssd matrix: random read, 4 KiB``."""
    heading = " ".join(str(identity[name]) for name in ("target", "workload") if name in identity)
    if is_on_database(identity):
        known = ("target", "workload", "operation", "block_size_bytes", "depth")
        differing = identity_by(identity, [name for name in identity if name not in known])
        return ": ".join(filter(None, [heading, differing]))
    size_bytes = int(identity.get("block_size_bytes", 0))
    words = [" ".join(str(identity[name]) for name in ("pattern", "operation") if name in identity)]
    if size_bytes:
        words.append(format_size(size_bytes))
    already_named = ("target", "workload", "pattern", "operation", "block_size_bytes", "zones")
    words += [
        format_factor(name, value)
        for name, value in identity.items()
        if name not in already_named and not (name == "depth" and value == 1)
    ]
    return ": ".join(filter(None, [heading, ", ".join(filter(None, words))]))


def requests_word(operation: str) -> str:
    """Return the name of an operation's requests, such as ``reads``."""
    return operation_phrase(operation)


def line_style_of(names: Iterable[str]) -> dict[str, int]:
    """Return a style for each name, equal names alike, in order of first appearance."""
    return {name: index for index, name in enumerate(dict.fromkeys(names))}
