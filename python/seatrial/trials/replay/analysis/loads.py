"""Whether two cells of a replay are the same load: what is sent, when, and to what data."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any, Final

from seatrial.study.cell import Cell
from seatrial.trials.replay.analysis.samples import played
from seatrial.trials.replay.study.cells import OF_TARGETS

KEYS: Final = {
    "speed": "the speed",
    "pace": "the pace",
    "order": "the order",
    "ids": "what becomes of ids",
    "read_only": "read-only",
    "until_s": "the end (until)",
    "connections_max": "the limit of connections",
    "databases": "the choice of databases",
    "allow": "what is allowed",
}
"""Of what is played, what makes another load, and how it is called."""
UNSET: Final = {"speed": "max", "databases": "all", "allow": "nothing"}


def load_differences(a: Cell, b: Cell) -> list[str]:
    """Return in what two replays of one trace are different loads, as phrases; without targets.

    The schema is none: that two are compared is what they are for.
    """
    first, second = played(a), played(b)
    reported = [
        f"{words} is {_said(name, one)} on one side and {_said(name, other)} on the other"
        for name, words in KEYS.items()
        if name in first and name in second
        if (one := _sent(name, first[name])) != (other := _sent(name, second[name]))
    ]
    held = [each.spec.get("database", {}).get("load") or {} for each in (a, b)]
    loaded = [_loaded(each) for each in held]
    if all(loaded) and loaded[0] != loaded[1]:
        reported.append(f"what was loaded is {loaded[0]} on one side and {loaded[1]} on the other")
    return reported


def _sent(name: str, value: Any) -> Any:  # noqa: ANN401 - whatever the file holds
    if isinstance(value, list):
        return sorted(set(value) - OF_TARGETS) if name == "allow" else sorted(value)
    return value


def _said(name: str, value: Any) -> str:  # noqa: ANN401
    if value is None or value == []:
        return UNSET.get(name, "none")
    if isinstance(value, bool):
        return "on" if value else "off"
    return ", ".join(map(str, value)) if isinstance(value, list) else f"{value}"


def _loaded(load: dict[str, Any]) -> str:
    """Return what was loaded, without its folder; empty where nothing was, or it is not told."""
    if load.get("scale"):
        return f"pgbench's tables at scale {load['scale']}"
    return PurePath(load.get("file") or "").name
