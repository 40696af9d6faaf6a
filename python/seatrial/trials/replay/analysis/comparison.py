"""What weakens or forbids a comparison of replays: different traces, and incomplete replays."""

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
from seatrial.trials.replay.analysis.judgement import judge
from seatrial.trials.replay.analysis.model import is_of_replay, played, replays
from seatrial.trials.replay.analysis.starts import sides_differ, start_words
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
    reported = [
        f"{words} is {_said(name, one)} on one side and {_said(name, other)} on the other"
        for name, words in KEYS.items()
        if name in first and name in second
        if (one := _sent(name, first[name])) != (other := _sent(name, second[name]))
    ]
    held = [each.spec.get("database", {}).get("load") or {} for each in (a, b)]
    loaded = [_loaded(each) for each in held]
    if all(loaded) and loaded[0] != loaded[1]:
        reported.append(f"the data are {loaded[0]} on one side and {loaded[1]} on the other")
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


def _loaded(load: Mapping[str, Any]) -> str:
    """Return what was loaded, without its folder; empty if nothing was, or if it is unknown."""
    if load.get("scale"):
        return f"pgbench's tables at scale {load['scale']}"
    return PurePath(load.get("file") or "").name


def unlike_replays(a: SideSamples, b: SideSamples, matched: MatchedCells) -> Iterator[UsageError]:
    """Yield why the replays of two sides are different loads: trace, options, data."""
    for cell in matched.cells:
        if not is_of_replay(cell.a[0].cell):
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
        if reported := load_differences(first, second):
            yield UsageError(
                seen=f"{names} are different loads ({cell.key}): {'; '.join(reported)}",
                cause="Times depend on what is sent and when, on any storage",
                next_step=f"Replay the trace with the same options on both, {ANYWAY}",
            )
        if begun := _begun_otherwise(cell.a, cell.b):
            yield UsageError(
                seen=f"{names} did not start with the same data ({cell.key}): {begun}",
                cause="Replays with different data are different loads",
                next_step="Restore the same snapshot on both and replay again, or compare "
                "nevertheless with --anyway",
            )


def _begun_otherwise(a: Sequence[Sample], b: Sequence[Sample]) -> str:
    """Return how the starts of two sides differ, in words; empty if that is an estimate."""
    found = [each for each in sides_differ(a, b) if each.what != "rows_estimated"]
    if not found:
        return ""
    more = f" ({format_plural(len(found) - 1, 'more difference')})" if len(found) > 1 else ""
    return f"{start_words(found[0])}{more}"


def unwell_replays(a: SideSamples, b: SideSamples, matched: MatchedCells) -> Iterator[str]:
    """Yield a sentence for each side whose replays had faults."""
    for entrant, sides in ((a, [c.a for c in matched.cells]), (b, [c.b for c in matched.cells])):
        wrong = [reasons for samples in sides if (reasons := _reasons(samples))]
        if wrong:
            yield (
                f"{format_plural(len(wrong), 'replay')} on {entrant.side.name} had faults "
                f"({wrong[0][0]}): the compared loads are not the same."
            )


def _reasons(samples: Sequence[Sample]) -> list[str]:
    """Return the faults of a cell's replays, the most severe of each round."""
    judged = [judge(record) for _, record in replays(samples)]
    return [each.reasons[0] for each in judged if not each.ok]
