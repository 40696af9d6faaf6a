"""The replays of a workload: one for every combination of its factors' values."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath
from typing import Final

import msgspec

from seatrial.errors import StudyError
from seatrial.study.cell import Cell, FactorValue
from seatrial.study.units import format_seconds
from seatrial.study.values import many
from seatrial.trials.database.study.workloads import (
    MAX,
    LoadSpec,
    Replay,
    ReplaySpec,
    SchemaVariant,
    is_of_database,
    spec_of,
)
from seatrial.trials.replay.study.trace_facts import TraceFacts, trace_facts

ASSUMED_STATEMENTS_PER_S: Final = 2_000
"""Assumed rate of a server at maximum speed, only for the plan."""
UNKNOWN_S: Final = 60.0
"""Assumed duration if the trace does not exist yet, only for the plan."""
OF_TARGETS: Final = frozenset({"recovery", "same_system", "sequence_mismatch"})
"""Values of ``allow`` that concern the target; the engine has only those of statements."""
_SHORTEST_S: Final = 0.1
SQL_SUFFIX: Final = ".sql"


class ReplayVariant(msgspec.Struct, frozen=True, kw_only=True):
    """The replay of one combination of factors.

    Attributes:
        load: The data loaded before.
        spec: The specification of the replay.
        factors: The factors' values.
        connections: Maximum number of connections.
        duration_s: Estimated duration.
    """

    load: LoadSpec
    spec: ReplaySpec
    factors: dict[str, FactorValue]
    connections: int
    duration_s: float


def played(workload: Replay, *, on_server: bool) -> Iterator[ReplayVariant]:
    """Yield the replays of a workload's cells.

    Args:
        workload: The replay.
        on_server: Whether its target is an existing server.

    Raises:
        StudyError: when the trace's sessions are of several databases, or of others than those
            that are requested; or when no statement can be replayed.
        UsageError: when the trace is invalid, is damaged, or cannot be read.
    """
    facts = trace_facts(workload.trace)
    if facts is not None:
        _require_statements(workload, facts)
        _require_databases(workload, facts)
    for scale, speed, order, ids, schema in _combinations(workload):
        spec = ReplaySpec(
            trace=workload.trace,
            identity=facts.identity if facts else "",
            statements=facts.statements if facts else 0,
            captured_s=facts.captured_s if facts else 0.0,
            speed=None if isinstance(speed, str) else speed,
            pace=workload.pace,
            order=order,
            ids=ids,
            read_only=workload.read_only,
            until_s=workload.until_s,
            connections_max=workload.connections,
            databases=list(workload.databases),
            allow=list(workload.allow),
            allow_writes=workload.allow_writes,
            is_standing=on_server and not workload.loads,
            restore=workload.restore,
            restore_s_max=workload.restore_s_max,
            schema=schema.name if schema else "",
            compare_rows=workload.compare_rows,
        )
        yield ReplayVariant(
            load=_load(workload, scale, schema),
            spec=spec,
            factors=_factors(workload, spec, scale),
            connections=workload.connections or (facts.open_max if facts else 0) or 1,
            duration_s=_estimated_s(spec, facts),
        )


_Combination = tuple[int | None, float | str, str, str, SchemaVariant | None]
"""Scale, speed, order, mapping of ids, schema."""


def _combinations(workload: Replay) -> Iterator[_Combination]:
    scales: list[int | None] = [None] if workload.scale is None else [*many(workload.scale)]
    speeds: list[float | str] = (
        [*workload.speed] if isinstance(workload.speed, list) else [workload.speed]
    )
    schemas: list[SchemaVariant | None] = [*workload.schema] or [None]
    ids = many(workload.ids or workload.usual_ids)
    yield from itertools.product(scales, speeds, many(workload.order), ids, schemas)


def is_sql(name: str) -> bool:
    """Return whether a file to load is SQL, not an archive of pg_dump."""
    return name.lower().endswith(SQL_SUFFIX)


def _load(workload: Replay, scale: int | None, schema: SchemaVariant | None) -> LoadSpec:
    migrate = schema.migrate if schema else ""
    if scale is not None:
        return LoadSpec(kind="pgbench", scale=scale, migrate=migrate)
    if not workload.prepare:
        return LoadSpec(kind="nothing", migrate=migrate)
    kind = "sql" if is_sql(workload.prepare) else "archive"
    return LoadSpec(kind=kind, file=workload.prepare, migrate=migrate)


def _factors(workload: Replay, spec: ReplaySpec, scale: int | None) -> dict[str, FactorValue]:
    factors: dict[str, FactorValue] = {
        "trace": PurePath(spec.trace).name,
        "speed": MAX if spec.speed is None else spec.speed,
        "pace": spec.pace,
        "order": spec.order,
        "read_only": spec.read_only,
    }
    if spec.ids != workload.usual_ids:
        factors["ids"] = spec.ids
    factors |= {
        name: value
        for name, value in (
            ("until", "" if spec.until_s is None else f"{spec.until_s:g}s"),
            ("databases", "+".join(spec.databases)),
            ("allow", "+".join(sorted(set(spec.allow) - OF_TARGETS))),
        )
        if value
    }
    if spec.schema:
        factors["schema"] = spec.schema
    return factors | ({} if scale is None else {"scale": scale})


def _estimated_s(spec: ReplaySpec, facts: TraceFacts | None) -> float:
    """Return the estimated duration for the plan."""
    if facts is None:
        return UNKNOWN_S
    captured_s = min(facts.captured_s, spec.until_s or facts.captured_s)
    if spec.speed is not None:
        return max(_SHORTEST_S, captured_s / spec.speed)
    at_most_s = captured_s if facts.has_clock and captured_s > 0 else float("inf")
    return max(_SHORTEST_S, min(at_most_s, facts.statements / ASSUMED_STATEMENTS_PER_S))


def _require_statements(workload: Replay, facts: TraceFacts) -> None:
    if facts.executable == 0:
        raise StudyError(
            seen=f"None of the {facts.statements} statements of the trace {workload.trace} can be "
            "replayed",
            cause="Its log has no statements (logging was off), or only COPY data",
            next_step=f"See its contents with `seatrial sql show {workload.trace}`",
        )


def _require_databases(workload: Replay, facts: TraceFacts) -> None:
    named = ", ".join(facts.databases)
    if len(facts.databases) > 1 and not workload.databases:
        raise StudyError(
            seen=f"The sessions of {Path(workload.trace).name} used {len(facts.databases)} "
            f"databases: {named}",
            cause="All of them would be replayed on one database, which is wrong for most of them",
            next_step=f"Select one with `databases` or --database, such as {facts.databases[0]}",
        )
    if workload.databases and not facts.databases:
        raise StudyError(
            seen=f"{Path(workload.trace).name} does not have the databases of its sessions",
            cause="The log's prefix has no %d, or the trace comes from a SQL file",
            next_step="Leave out `databases` or --database: all sessions are replayed",
        )
    unknown = [name for name in workload.databases if name not in facts.databases]
    if unknown:
        raise StudyError(
            seen=f"No session of {Path(workload.trace).name} used database {unknown[0]}",
            cause=f"Its sessions used {named}",
            next_step=f"See them with `seatrial sql show {workload.trace}`",
        )


def replay_sample(cells: Sequence[Cell]) -> str:
    """Return the duration of a sample of a replay; known only at a fixed speed."""
    speeds = {replay.speed for cell in cells if (replay := spec_of(cell.spec).replay)}
    lasts_s = sorted({cell.parsed.duration_s for cell in cells})
    if None in speeds or len(lasts_s) > 1:
        return "until the trace ends"
    return format_seconds(lasts_s[0])


def trace_text(cell: Cell) -> list[str]:
    """Return the size and options of a cell's replay; empty for any other cell, or if unknown."""
    replay = spec_of(cell.spec).replay if is_of_database(cell) else None
    if replay is None or not replay.identity:
        return []
    captured = format_seconds(replay.captured_s)
    parts = [f"{replay.statements:,} statements of {captured}"]
    if replay.until_s is not None:
        parts.append(f"until {format_seconds(replay.until_s)} of it")
    if replay.databases:
        parts.append(f"of database {', '.join(replay.databases)}")
    if replay.ids == "infer":
        parts.append("IDs mapped to those of the target")
    if replay.restore:
        parts.append(f"restored before each sample with: {replay.restore}")
    if replay.allow:
        parts.append(f"allowed: {', '.join(replay.allow)}")
    return parts
