"""What is worth knowing of the databases of a plan before they are measured, as sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from seatrial.study.cell import Cell
from seatrial.study.schema import Study
from seatrial.study.units import format_seconds
from seatrial.study.values import many
from seatrial.trials.database.study.workloads import MAX, Batch, Replay, is_of_database, spec_of
from seatrial.trials.replay.study.cells import ASSUMED_STATEMENTS_PER_S
from seatrial.trials.replay.study.trace_facts import trace_facts

OFF: Final = frozenset({"off", "false", "no", "0", "of", "f", "fa", "fal", "fals", "n"})
"""How PostgreSQL lets ``off`` be written, but for case."""

_COSTS: Final = {
    "fsync": "a power cut destroys the database, and the figures compare with no server that "
    "keeps what it acknowledged",
    "full_page_writes": "safe only where the file system never tears a page of 8 KiB",
    "synchronous_commit": "a commit is acknowledged before it is durable, and a crash loses the "
    "last of them",
}
"""What is given up where a setting is off."""


def notes_on_databases(study: Study, cells: Sequence[Cell]) -> Iterator[str]:
    """Yield what is worth knowing of the databases of a plan."""
    yield from _on_durability(study, cells)
    yield from _on_batches(study, cells)
    yield from _on_replays(study, cells)


def _on_durability(study: Study, cells: Sequence[Cell]) -> Iterator[str]:
    """Yield a note on each setting that lets a server acknowledge what it may lose."""
    for workload in study.workloads:
        own = [cell for cell in cells if cell.workload == workload.label]
        specs = [spec_of(cell.spec) for cell in own if is_of_database(cell)]
        for name, cost in _COSTS.items():
            off = [spec for spec in specs if _value(spec.settings, name) in OFF]
            if off:
                some = "" if len(off) == len(specs) else f"{len(off)} of {len(specs)} cells of "
                yield f"{name} is off in {some}{workload.label}: {cost}"


def _value(settings: dict[str, str], name: str) -> str:
    """Return the value of a setting in lower case; names and words have no case."""
    return next((value.lower() for key, value in settings.items() if key.lower() == name), "")


def _on_batches(study: Study, cells: Sequence[Cell]) -> Iterator[str]:
    """Yield a note on each batch, whose time nobody knows beforehand."""
    for workload in study.workloads:
        if isinstance(workload, Batch) and any(c.workload == workload.label for c in cells):
            yield (
                f"{workload.label} takes as long as it takes; the plan counts the "
                f"{format_seconds(workload.duration_s)} after which it is ended"
            )


def _on_replays(study: Study, cells: Sequence[Cell]) -> Iterator[str]:
    """Yield notes on replays: how long nobody knows, and what their traces are not."""
    for workload in study.workloads:
        if not isinstance(workload, Replay) or not any(c.workload == workload.label for c in cells):
            continue
        facts = trace_facts(workload.trace)
        if facts is None:
            yield f"{workload.label}: the trace {workload.trace} is not there yet"
            continue
        if MAX in many(workload.speed):
            yield (
                f"{workload.label} lasts until the trace ends, however fast the server is; the "
                f"plan counts {ASSUMED_STATEMENTS_PER_S:,} statements a second"
            )
        if not facts.has_clock and set(many(workload.speed)) != {MAX}:
            yield (
                f"{workload.label}: the trace is of SQL without times, so that its statements are "
                "due at times that it was given"
            )
        if _is_played_again(study, workload, cells):
            yield (
                f"{workload.label} is played more than once to a database that stays as it "
                "becomes: each begins with what those before it wrote"
            )
        if _is_empty(workload, cells):
            yield (
                f"{workload.label} begins with an empty database, for nothing is loaded before: "
                "'prepare' names a dump of the captured one"
            )
        if facts.is_masked:
            yield (
                f"{workload.label}: the values in the trace are stand-ins, so that its statements "
                "find other rows than those in the capture, or none"
            )


def _is_empty(workload: Replay, cells: Sequence[Cell]) -> bool:
    """Tell whether a replay finds nothing where it is played: a database of ours, and no load."""
    own = (spec_of(cell.spec) for cell in cells if cell.workload == workload.label)
    return not workload.loads and any(not spec.is_standing for spec in own)


def _is_played_again(study: Study, workload: Replay, cells: Sequence[Cell]) -> bool:
    """Tell whether a replay that writes goes more than once to a database of somebody's."""
    own = [cell for cell in cells if cell.workload == workload.label]
    standing = [cell for cell in own if spec_of(cell.spec).is_standing]
    begins_anew = bool(workload.restore) or workload.clone == "template"
    is_again = len(standing) * study.rounds.max > 1
    return bool(standing) and is_again and not workload.read_only and not begins_anew
