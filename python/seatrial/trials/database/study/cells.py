"""The cells of a database workload: one for every combination of its factors' values."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Final

import msgspec

from seatrial.study.cell import Cell, FactorValue, SpecDocument
from seatrial.study.model import PlannedTarget, TargetInfo
from seatrial.study.sampled import REBUILD_LIMIT, breaking
from seatrial.study.schema import Study
from seatrial.study.units import format_factor, format_size
from seatrial.study.values import many
from seatrial.trials.database.study import cost
from seatrial.trials.database.study.workloads import (
    BUILTIN_SCRIPTS,
    MAX,
    Batch,
    Crash,
    DatabaseSpec,
    LoadSpec,
    OnDatabase,
    Pgbench,
    Replay,
    ReplaySpec,
    SettingValue,
    Telemetry,
    spec_of,
)
from seatrial.trials.replay.study.cells import played

Factors = dict[str, FactorValue]
_Combination = tuple[int, int, str, int | None, int, dict[str, SettingValue]]
"""Clients, processes, start state, memory limit (bytes), rebuild limit (KiB/s), settings."""

STATEMENT: Final = "statement"
_OPERATIONS: Final = {"batch": "batch", "replay": STATEMENT}
"""The operation of each kind of cell; transactions for all others."""

_DEFAULTS: Final[Mapping[str, FactorValue]] = {
    "processes": 1,
    "script": "tpcb-like",
    "protocol": "simple",
    "power_cut": "none",
    "speed": MAX,
    "pace": "arrivals",
    "order": "session",
    "read_only": False,
    REBUILD_LIMIT: 0,
}
"""Default values of factors, which are omitted from a cell and its key."""

OWN_FACTORS: Final = frozenset(
    {
        *("batch_rows", "clients", "clone", "depth", "devices", "file", "history_hours", "jobs"),
        *("latency_limit_ms", "memory_limit", "memory_limit_bytes", "operation", "power_cut"),
        *("fail", "prepare", REBUILD_LIMIT),
        *("trace", "speed", "pace", "order", "read_only", "until", "connections", "databases"),
        *("allow", "allow_writes", "ids", "restore", "restore_seconds", "schema", "compare_rows"),
        *("processes", "protocol", "protocols", "query_share", "rate", "scale", "script"),
        *("scripts", "seconds", "start", "target", "threads", "workload"),
    }
)
"""Names of factors and workload keys; settings cannot have these names."""


class _Variant(msgspec.Struct, frozen=True, kw_only=True):
    """The properties that differ between kinds of workload."""

    load: LoadSpec
    factors: Factors
    script: str
    protocol: str = "simple"
    rate_per_s: float | None = None
    batch_rows: int = 0
    query_share: float = 0.0
    power_cut: str = "none"
    replay: ReplaySpec | None = None
    duration_s: float | None = None
    clients: int | None = None


def database_cells_of(
    workload: OnDatabase, target: PlannedTarget, *, prefix: str
) -> Iterator[Cell]:
    """Yield the cells of a workload on a target.

    Args:
        workload: The workload.
        target: A directory, or an existing server.
        prefix: Prefix of every key; the target's label if there are several.
    """
    defaults = usual_database_factors(server_is_ours=target.holds_files)
    # A setting with one value is not a factor: a run with another value has the same cells, and the
    # two can be compared.
    several = {name for name, value in workload.settings.items() if len(_as_list(value)) > 1}
    for variant in _variants(workload, on_server=not target.holds_files):
        combinations: Iterator[_Combination] = itertools.product(
            many(variant.clients or workload.clients),
            many(workload.processes),
            many(workload.start or str(defaults["start"])),
            _limits_bytes(workload),
            many(workload.rebuild_limit_kib_per_s),
            _setting_combinations(workload),
        )
        for clients, processes, start, limit_bytes, rebuild_limit, settings in combinations:
            server_factors: Factors = {"processes": processes, "start": start}
            if limit_bytes is not None:
                server_factors["memory_limit_bytes"] = limit_bytes
            if workload.failures:
                server_factors[REBUILD_LIMIT] = rebuild_limit
            varied = {name: settings[name] for name in settings if name in several}
            factors = _without_defaults(
                variant.factors | server_factors | _as_factors(varied), defaults
            )
            spec = DatabaseSpec(
                load=variant.load,
                clients=clients,
                processes=processes,
                script=variant.script,
                protocol=variant.protocol,
                rate_per_s=variant.rate_per_s,
                latency_limit_ms=getattr(workload, "latency_limit_ms", None),
                jobs=getattr(workload, "jobs", None),
                batch_rows=variant.batch_rows,
                query_share=variant.query_share,
                settings={name: setting_text(value) for name, value in settings.items()},
                start=start,
                memory_limit_bytes=limit_bytes,
                clone=workload.clone,
                power_cut=variant.power_cut,
                replay=variant.replay,
            )
            operation = _OPERATIONS.get(workload.kind, "transaction")
            yield Cell(
                key=prefix + _key(workload.label, operation, clients, factors),
                target=target.label,
                workload=workload.label,
                kind=workload.kind,
                operation=operation,
                block_size_bytes=0,
                threads=clients,
                factors=factors,
                spec=_cell_spec(workload, spec, variant.duration_s)
                | breaking(workload, rebuild_limit),
            )


def _variants(workload: OnDatabase, *, on_server: bool) -> Iterator[_Variant]:
    if isinstance(workload, Replay):
        yield from _replays(workload, on_server=on_server)
        return
    if isinstance(workload, Pgbench):
        yield from _pgbench(workload)
    elif isinstance(workload, Telemetry):
        yield from _telemetry(workload)
    elif isinstance(workload, Batch):
        yield from _batch(workload)
    elif isinstance(workload, Crash):
        scales = (0,) if workload.scale is None else many(workload.scale)
        for scale, power_cut in itertools.product(scales, many(workload.power_cut)):
            yield _Variant(
                load=LoadSpec(kind="ledger", scale=scale),
                factors={**({"scale": scale} if scale else {}), "power_cut": power_cut},
                script="ledger",
                power_cut=power_cut,
            )
    else:
        raise TypeError(f"no cells for {type(workload).__name__}")


def _pgbench(workload: Pgbench) -> Iterator[_Variant]:
    combinations: Iterator[tuple[int, str, str, float | None]] = itertools.product(
        many(workload.scale),
        many(workload.scripts),
        many(workload.protocols),
        _rates_per_s(workload),
    )
    for scale, script, protocol, rate_per_s in combinations:
        factors: Factors = {
            "scale": scale,
            "script": script if script in BUILTIN_SCRIPTS else PurePath(script).name,
            "protocol": protocol,
        }
        yield _Variant(
            load=LoadSpec(kind="pgbench", scale=scale),
            factors=factors | ({} if rate_per_s is None else {"rate": rate_per_s}),
            script=script,
            protocol=protocol,
            rate_per_s=rate_per_s,
        )


def _telemetry(workload: Telemetry) -> Iterator[_Variant]:
    combinations: Iterator[tuple[int, int, int, float | None]] = itertools.product(
        many(workload.devices),
        many(workload.history_hours),
        many(workload.batch_rows),
        _rates_per_s(workload),
    )
    for devices, hours, rows, rate_per_s in combinations:
        factors: Factors = {"devices": devices, "history_hours": hours, "batch_rows": rows}
        yield _Variant(
            load=LoadSpec(kind="telemetry", devices=devices, history_hours=hours),
            factors=factors | ({} if rate_per_s is None else {"rate": rate_per_s}),
            script="telemetry",
            protocol="prepared",
            rate_per_s=rate_per_s,
            batch_rows=rows,
            query_share=workload.query_share,
        )


def _rates_per_s(workload: Pgbench | Telemetry) -> list[float | None]:
    """Return the rates per second of the workload; None stands for a closed loop."""
    return [None] if workload.rate_per_s is None else [*many(workload.rate_per_s)]


def _batch(workload: Batch) -> Iterator[_Variant]:
    factors: Factors = {"file": PurePath(workload.file).name}
    if workload.prepare:
        load = LoadSpec(kind="sql", file=workload.prepare)
        yield _Variant(load=load, factors=factors, script=workload.file)
        return
    for scale in many(workload.scale):
        yield _Variant(
            load=LoadSpec(kind="pgbench", scale=scale),
            factors=factors | {"scale": scale},
            script=workload.file,
        )


def _replays(workload: Replay, *, on_server: bool) -> Iterator[_Variant]:
    for variant in played(workload, on_server=on_server):
        yield _Variant(
            load=variant.load,
            factors=variant.factors,
            script=workload.trace,
            replay=variant.spec,
            duration_s=variant.duration_s,
            clients=variant.connections,
        )


def _limits_bytes(workload: OnDatabase) -> list[int | None]:
    """Return the memory limits of the workload; None stands for no limit."""
    return [int(limit) for limit in workload.memory_limit_bytes or ()] or [None]


def _setting_combinations(workload: OnDatabase) -> Iterator[dict[str, SettingValue]]:
    """Yield every combination of the settings' values; an empty one if there are none."""
    values = [_as_list(value) for value in workload.settings.values()]
    for chosen in itertools.product(*values):
        yield dict(zip(workload.settings, chosen, strict=True))


def _as_list(value: SettingValue | list[SettingValue]) -> list[SettingValue]:
    return value if isinstance(value, list) else [value]


def _as_factors(settings: Mapping[str, SettingValue]) -> Factors:
    return {name: setting_text(value) for name, value in settings.items()}


def setting_text(value: SettingValue) -> str:
    """Return a setting's value as in postgresql.conf, without quotes."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def usual_database_factors(*, server_is_ours: bool) -> Factors:
    """Return the default values of factors, which a cell omits."""
    return {**_DEFAULTS, "start": "cold" if server_is_ours else "as_is"}


def _without_defaults(factors: Factors, usual: Factors) -> Factors:
    return {name: value for name, value in factors.items() if usual.get(name) != value}


def _key(label: str, operation: str, clients: int, factors: Factors) -> str:
    # The connections of a replay are its trace's.
    parts = [label, operation, *([] if operation == STATEMENT else [f"{clients}c"])]
    return "/".join(
        [*parts, *(f"{name}={format_factor(value)}" for name, value in factors.items())]
    )


def _cell_spec(
    workload: OnDatabase, database: DatabaseSpec, duration_s: float | None
) -> SpecDocument:
    """Return the specification of a cell: the common keys, and those of databases."""
    encoded = msgspec.to_builtins(database)
    if database.replay is None:
        del encoded["replay"]
    arrival: dict[str, str | float] = {"kind": "closed"}
    if database.rate_per_s is not None:
        arrival = {"kind": "poisson", "rate_per_s": database.rate_per_s * database.processes}
    return {
        "target": {"kind": "database", "file": "", "direct": False, "copy_to": None},
        "accesses": [],
        "arrival": arrival,
        "verify": False,
        "limit": {
            "duration_s": duration_s or workload.duration_s,
            "bytes": None,
            "operations": None,
        },
        "slice_ms": workload.slice_ms,
        "stall_threshold_ms": workload.stall_threshold_ms,
        "database": encoded,
    }


def usual_factors_of(cell: Cell) -> Factors:
    """Return the default factors that a cell omits."""
    is_measured = cell.parsed.database is not None  # unknown for an imported cell
    server_is_ours = not is_measured or spec_of(cell.spec).start != "as_is"
    return usual_database_factors(server_is_ours=server_is_ours)


def fixed_settings(cell: Cell) -> list[str]:
    """Return the server's settings that the cells of a workload have in common."""
    settings = spec_of(cell.spec).settings
    return [f"{name} {value}" for name, value in settings.items() if name not in cell.factors]


def databases_left_out(
    study: Study, target: PlannedTarget, info: TargetInfo, cells: Sequence[Cell], used_bytes: int
) -> Iterator[tuple[OnDatabase, str]]:
    """Yield optional workloads without a PostgreSQL or enough space, with the reason.

    Args:
        study: The study.
        target: The target.
        info: Known facts of it; unknown ones are not an obstacle.
        cells: Cells of the target.
        used_bytes: Space used by trial files there.
    """
    for workload in study.workloads:
        if not isinstance(workload, OnDatabase) or not workload.optional:
            continue
        cells_of_workload = [cell for cell in cells if cell.workload == workload.label]
        if (
            reason := _reason(target, info, used_bytes, cells_of_workload)
            if cells_of_workload
            else ""
        ):
            yield workload, reason


def _reason(target: PlannedTarget, info: TargetInfo, used_bytes: int, cells: Sequence[Cell]) -> str:
    """Return why the cells of a workload cannot be measured; empty if they can."""
    if not target.holds_files:
        return ""
    if info.database_obstacle:
        return info.database_obstacle
    needed_bytes = used_bytes + cost.space_bytes(spec_of(cell.spec) for cell in cells)
    if info.usable_bytes is None or needed_bytes <= info.usable_bytes:
        return ""
    return (
        f"with the trial files it needs about {format_size(needed_bytes)}, and "
        f"{format_size(info.usable_bytes)} may be used there"
    )
