"""Constraints between the keys of a replay, and between a replay and an existing server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from seatrial.study.problems import ConstraintError, no_effect
from seatrial.study.values import many
from seatrial.trials.database.study.workloads import MAX, REPLAY_S_MAX, RESTORE_S_MAX, Replay

_PERMANENT: Final = "Only the trace may change anything there: load a copy with 'prepare'"
STARTS_ON_SERVER: Final = (None, "as_is", "prewarmed")
CLONES_ON_SERVER: Final = ("auto", "reuse", "template")


def replays(workload: Replay) -> Iterator[ConstraintError]:
    """Yield the violated constraints of a replay."""
    yield from _without_effect(workload)
    if workload.prepare and workload.scale is not None:
        yield no_effect("With 'prepare' there are no pgbench tables", "scale")
    if workload.pace != "arrivals" and set(many(workload.speed)) == {MAX}:
        yield no_effect("At speed 'max' statements have no scheduled time", "pace")
    if workload.allow_writes and workload.read_only:
        yield no_effect("With 'read_only' no writes are sent", "allow_writes")
    for nth, name in enumerate(workload.databases):
        if not name:
            yield ConstraintError("is empty", "Expected the name of a database", "databases", nth)
    if workload.compare_rows and workload.read_only:
        yield no_effect("With 'read_only' no row changes", "compare_rows")
    yield from _ids(workload)
    yield from _restore(workload)
    yield from _schema(workload)


def _ids(workload: Replay) -> Iterator[ConstraintError]:
    if workload.read_only and workload.ids is not None and "infer" in many(workload.ids):
        yield ConstraintError(
            "is 'infer', but 'read_only' is given",
            "Reads generate no IDs: expected off",
            "ids",
        )


def _restore(workload: Replay) -> Iterator[ConstraintError]:
    """Yield the violated constraints of a restore command."""
    if workload.restore and workload.loads:
        yield no_effect(
            "The data of 'prepare' or 'scale' are copied for each sample; a command restores an "
            "existing database",
            "restore",
        )
    if workload.restore and workload.clone == "template":
        yield ConstraintError(
            "is given, but clone is 'template'",
            "A sample starts with a copy or with a restored database: expected one of them",
            "restore",
        )
    if not workload.restore and workload.restore_s_max != RESTORE_S_MAX:
        yield no_effect("There is no 'restore'", "restore_seconds")


def _schema(workload: Replay) -> Iterator[ConstraintError]:
    seen: set[str] = set()
    for nth, schema in enumerate(workload.schema):
        if schema.name in seen:
            yield ConstraintError(
                f"is {schema.name!r}, the name of a previous one",
                "Tests are named after it: expected another name",
                *("schema", nth, "name"),
            )
        seen.add(schema.name)
        if schema.migrate and not schema.migrate.lower().endswith(".sql"):
            yield ConstraintError(
                f"is {schema.migrate!r}", "Expected a file .sql", *("schema", nth, "migrate")
            )


def _without_effect(workload: Replay) -> Iterator[ConstraintError]:
    """Yield keys that have no effect on a replay."""
    if many(workload.clients) != [1]:
        expected = "Each session of the trace has a connection; 'connections' limits them"
        yield no_effect(expected, "clients")
    if many(workload.processes) != [1]:
        yield no_effect("A replay is driven by one process", "processes")
    if workload.duration_s != REPLAY_S_MAX:
        expected = "A replay runs until its trace ends, or for 'until' seconds of it"
        yield no_effect(expected, "seconds")


def on_server(workload: Replay, target: str) -> Iterator[ConstraintError]:
    """Yield the violated constraints of a replay on an existing database.

    Args:
        workload: A replay that loads nothing.
        target: Description of the target.
    """
    starts = [start for start in many(workload.start) if start not in STARTS_ON_SERVER]
    if starts:
        yield ConstraintError(f"is {starts[0]!r}, but {target}", _PERMANENT, "start")
    if workload.memory_limit_bytes is not None:
        yield ConstraintError(f"is given, but {target}", _PERMANENT, "memory_limit")
    if workload.clone not in CLONES_ON_SERVER:
        yield ConstraintError(f"is {workload.clone!r}, but {target}", _PERMANENT, "clone")
    if workload.settings:
        yield ConstraintError(f"are given, but {target}", _PERMANENT, "settings")
    is_restored = bool(workload.restore) or workload.clone == "template"
    if "prewarmed" in many(workload.start) and not is_restored and not workload.read_only:
        yield ConstraintError(
            f"is 'prewarmed', but {target}",
            "Only restored, copied (clone = 'template') or read-only databases start unchanged",
            "start",
        )
    for nth, schema in enumerate(workload.schema):
        if schema.migrate and not is_restored:
            yield ConstraintError(
                f"is given, but {target}",
                "A migration is permanent: expected 'restore', clone = 'template' or 'prepare'",
                *("schema", nth, "migrate"),
            )
