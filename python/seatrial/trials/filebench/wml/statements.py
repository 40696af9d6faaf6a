"""The syntax tree of a workload file, before evaluation.

Source of the grammar: Filebench's own (github.com/filebench/filebench, version 1.5), and the forms
of version 1.4 that its shipped files still use (``define randvar``, ``cached``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True)
class Number:
    """A number as written."""

    value: float


@dataclass(frozen=True)
class Text:
    """A name or a text."""

    value: str


@dataclass(frozen=True)
class Flag:
    """``true``, ``false``, or an attribute without a value."""

    value: bool


@dataclass(frozen=True)
class Variable:
    """A variable, whose value is looked up when the workload is made."""

    name: str


@dataclass(frozen=True)
class Sum:
    """Two values with ``+``, ``-``, ``*`` or ``/`` between."""

    sign: str
    left: Value
    right: Value


@dataclass(frozen=True)
class Distribution:
    """A random number: ``cvar(...)`` or ``randvar(...)``.

    Attributes:
        form: ``cvar`` or ``randvar``.
        attributes: As written, by name.
        table: Rows of ``randtable``: percent, lower and upper end.
    """

    form: str
    attributes: Attributes
    table: tuple[tuple[Value, Value, Value], ...] = ()


Value = Number | Text | Flag | Variable | Sum | Distribution


@dataclass(frozen=True)
class Attribute:
    """A value with its line."""

    value: Value
    line: int


Attributes = Mapping[str, Attribute]


@dataclass(frozen=True)
class FlowopLine:
    """``flowop TYPE name=..., ...``.

    Attributes:
        verb: Its type, or the name of a composite.
        attributes: By name.
        arguments: Variables that it sets for a composite.
        line: From 1.
    """

    verb: str
    attributes: Attributes
    arguments: Attributes
    line: int


@dataclass(frozen=True)
class ThreadBlock:
    """``thread name=..., ... { flowops }``."""

    attributes: Attributes
    flowops: tuple[FlowopLine, ...]
    line: int


@dataclass(frozen=True)
class ProcessBlock:
    """``define process name=..., ... { threads }``."""

    attributes: Attributes
    threads: tuple[ThreadBlock, ...]
    line: int


@dataclass(frozen=True)
class Composite:
    """``define flowop name=..., $parameters { flowops }``."""

    attributes: Attributes
    parameters: Attributes
    flowops: tuple[FlowopLine, ...]
    line: int


@dataclass(frozen=True)
class SetBlock:
    """``define file`` or ``define fileset``."""

    single: bool
    attributes: Attributes
    line: int


@dataclass
class Program:
    """A whole workload file.

    Attributes:
        file_name: The file, or the name of a personality.
        variables: Assigned values by name; the last assignment counts.
        sets: In the file's order.
        processes: In the file's order.
        composites: By name.
        event_rate: Of ``eventgen``.
        run_s: Duration of the first ``run`` or ``psrun``.
        mode: Of ``set mode quit``.
    """

    file_name: str
    variables: dict[str, Attribute] = field(default_factory=dict)
    sets: list[SetBlock] = field(default_factory=list)
    processes: list[ProcessBlock] = field(default_factory=list)
    composites: dict[str, Composite] = field(default_factory=dict)
    event_rate: Attribute | None = None
    run_s: Attribute | None = None
    mode: str = "timeout"


SET_ATTRIBUTES: Final = frozenset(
    {
        *("name", "path", "entries", "size", "filesize", "prealloc", "paralloc", "reuse"),
        *("trusttree", "readonly", "writeonly", "dirwidth", "dirdepthrv", "dirgamma", "leafdirs"),
        "cached",
    }
)
PROCESS_ATTRIBUTES: Final = frozenset({"name", "instances", "nice"})
THREAD_ATTRIBUTES: Final = frozenset({"name", "instances", "memsize", "useism", "ioprio"})
FLOWOP_ATTRIBUTES: Final = frozenset(
    {
        *("name", "filename", "filesetname", "workingset", "random", "fd", "srcfd", "opennext"),
        *("dsync", "directio", "indexed", "target", "iters", "value", "blocking", "highwater"),
        *("iosize", "noreadahead"),
    }
)
COMPOSITE_ATTRIBUTES: Final = frozenset({"name", "iters"})
CVAR_ATTRIBUTES: Final = frozenset({"type", "parameters", "min", "max", "round"})
RANDVAR_ATTRIBUTES: Final = frozenset(
    {"name", "type", "randsrc", "seed", "gamma", "mean", "min", "round"}
)
