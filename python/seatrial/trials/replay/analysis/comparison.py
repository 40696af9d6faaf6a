"""Obstacles to a comparison of replays: different loads, and replays with faults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final

from seatrial.errors import UsageError
from seatrial.results.model import Sample
from seatrial.stats.compare.model import SideSamples
from seatrial.stats.compare.pairing import ANYWAY, MatchedCells
from seatrial.stats.wording import format_plural
from seatrial.study.cell import Cell
from seatrial.trials.replay.analysis.model import is_replay, played, replays
from seatrial.trials.replay.analysis.starts import sides_differ, start_difference_text
from seatrial.trials.replay.analysis.verdict import judge
from seatrial.trials.replay.study.cells import OF_TARGETS

KEYS: Final = {
    "speed": "the speed",
    "pace": "the pace",
    "order": "the order",
    "ids": "the mapping of IDs",
    "read_only": "read-only",
    "until_s": "the end (until)",
    "connections_max": "the connection limit",
    "databases": "the selection of databases",
    "allow": "the --allow option",
}
"""Options that change the load, and their names."""
UNSET: Final = {"speed": "max", "databases": "all", "allow": "nothing"}


def load_differences(a: Cell, b: Cell) -> list[str]:
    """Return the differences in load of two replays of one trace, as phrases; without targets.

    The schema is not a difference: comparing two schemas is the purpose.
    """
    first, second = played(a), played(b)
    differences = [
        f"{option} is {_option_text(name, one)} on one side and "
        f"{_option_text(name, other)} on the other"
        for name, option in KEYS.items()
        if name in first and name in second
        if (one := _option_value(name, first[name])) != (other := _option_value(name, second[name]))
    ]
    loads = [cell.spec.get("database", {}).get("load") or {} for cell in (a, b)]
    texts = [_load_text(load) for load in loads]
    if all(texts) and texts[0] != texts[1]:
        differences.append(f"the data are {texts[0]} on one side and {texts[1]} on the other")
    return differences


def _option_value(name: str, value: Any) -> Any:  # noqa: ANN401 - whatever the file holds
    if isinstance(value, list):
        return sorted(set(value) - OF_TARGETS) if name == "allow" else sorted(value)
    return value


def _option_text(name: str, value: Any) -> str:  # noqa: ANN401
    if value is None or value == []:
        return UNSET.get(name, "none")
    if isinstance(value, bool):
        return "on" if value else "off"
    return ", ".join(map(str, value)) if isinstance(value, list) else f"{value}"


def _load_text(load: Mapping[str, Any]) -> str:
    """Return what was loaded, without its folder; empty if nothing was, or if it is unknown."""
    if load.get("scale"):
        return f"pgbench's tables at scale {load['scale']}"
    return PurePath(load.get("file") or "").name


def load_mismatches(a: SideSamples, b: SideSamples, matched: MatchedCells) -> Iterator[UsageError]:
    """Yield why the replays of two sides are different loads: trace, options, data."""
    for cell in matched.cells:
        if not is_replay(cell.a[0].cell):
            continue
        first, second = cell.a[0].cell, cell.b[0].cell
        names = f"{a.side.name} and {b.side.name}"
        identities = {played(each).get("identity") for each in (first, second)} - {None, ""}
        if len(identities) > 1:
            yield UsageError(
                seen=f"{names} played different traces ({cell.key})",
                cause="Different statements take different times on any storage; the trace may "
                "have been read again under the same name",
                next_step=f"Replay the same file on both, {ANYWAY}",
            )
        if differences := load_differences(first, second):
            yield UsageError(
                seen=f"{names} are different loads ({cell.key}): {'; '.join(differences)}",
                cause="Times depend on what is sent and when, on any storage",
                next_step=f"Replay the trace with the same options on both, {ANYWAY}",
            )
        if difference := _start_difference(cell.a, cell.b):
            yield UsageError(
                seen=f"{names} did not start with the same data ({cell.key}): {difference}",
                cause="Replays with different data are different loads",
                next_step="Restore the same snapshot on both and replay again, or compare "
                "nevertheless with --anyway",
            )


def _start_difference(a: Sequence[Sample], b: Sequence[Sample]) -> str:
    """Return how the starts of two sides differ, in words; empty if that is an estimate."""
    differences = [
        difference for difference in sides_differ(a, b) if difference.what != "rows_estimated"
    ]
    if not differences:
        return ""
    more = (
        f" ({format_plural(len(differences) - 1, 'more difference')})"
        if len(differences) > 1
        else ""
    )
    return f"{start_difference_text(differences[0])}{more}"


def faulty_replays(a: SideSamples, b: SideSamples, matched: MatchedCells) -> Iterator[str]:
    """Yield a sentence for each side whose replays had faults."""
    for entrant, sides in ((a, [c.a for c in matched.cells]), (b, [c.b for c in matched.cells])):
        faults = [found for samples in sides if (found := _first_faults(samples))]
        if faults:
            yield (
                f"{format_plural(len(faults), 'replay')} on {entrant.side.name} had faults "
                f"({faults[0][0]}): the compared loads are not the same."
            )


def _first_faults(samples: Sequence[Sample]) -> list[str]:
    """Return the faults of a cell's replays, the most severe of each round."""
    verdicts = [judge(record) for _, record in replays(samples)]
    return [verdict.reasons[0] for verdict in verdicts if not verdict.ok]
