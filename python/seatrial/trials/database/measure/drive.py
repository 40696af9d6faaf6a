"""One cell's load put on its databases, by the driver of its kind."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from seatrial.errors import TargetError
from seatrial.measure.progress import Watcher
from seatrial.trials.database.measure import pgbench, telemetry
from seatrial.trials.database.measure.batch import run_batch
from seatrial.trials.database.measure.driver_result import DriverOptions, DriverResult, Endpoints
from seatrial.trials.database.measure.pgbench import PgbenchRun, Scripts, run_pgbench
from seatrial.trials.database.measure.pgbench_log import read_logs
from seatrial.trials.database.study.workloads import DatabaseSpec
from seatrial.trials.replay.measure.replay import run_replay

SPREAD_S_MAX: Final = 0.1
"""Processes whose first transactions lie further apart did not start together."""
_KEPT: Final = (
    *("outcome", "operations", "timeline", "stalls", "stalls_dropped"),
    *("errors_count", "errors"),
)


def drive(
    kind: str, spec: DatabaseSpec, endpoints: Endpoints, options: DriverOptions, watcher: Watcher
) -> DriverResult:
    """Put a cell's load on its databases and return what was done.

    Args:
        kind: Of the cell: ``pgbench``, ``telemetry``, ``batch`` or ``replay``.
        spec: Of the cell.
        endpoints: To the databases.
        options: What else the driver needs to know.
        watcher: Told of the progress.

    Raises:
        KeyboardInterrupt: when the user ended it before there was anything to keep.
        TargetError: when the driver gives up, with its own words.
    """
    if kind == "batch":
        return run_batch(spec, endpoints, options)
    if kind == "replay":
        return run_replay(spec, endpoints, options, watcher)
    scripts = scripts_of(kind, spec)
    result = _read(run_pgbench(spec, scripts, endpoints, options, watcher), spec, scripts, options)
    if kind != "telemetry":
        return result
    ingested = _completed(result, telemetry.INGEST) * spec.batch_rows
    return msgspec.structs.replace(result, counters={"ingested_rows": float(ingested)})


def scripts_of(kind: str, spec: DatabaseSpec) -> Scripts:
    """Return what pgbench's clients run in a cell of a kind."""
    return telemetry.scripts_of(spec) if kind == "telemetry" else pgbench.scripts_of(spec)


def _completed(result: DriverResult, operation: str) -> int:
    found = result.parts["operations"].get(operation)
    return int(found["completed"]) if found else 0


def _read(
    run: PgbenchRun, spec: DatabaseSpec, scripts: Scripts, options: DriverOptions
) -> DriverResult:
    """Put together what pgbench printed and what its logs say.

    Raises:
        TargetError: when the two do not agree, or the logs cannot be read.
    """
    operations = [script.operation for script in scripts.scripts]
    parts = read_logs(run.logs, operations, options, has_lag=spec.rate_per_s is not None)
    for printed, logged in zip(run.totals, parts["processes"], strict=True):
        _require_agreement(printed, logged, options)
    transactions = sum(printed["transactions"] for printed in run.totals)
    per_s = sum(printed["tps"] for printed in run.totals)
    shares = [each.thread_cpu_share for each in run.ended if each.thread_cpu_share is not None]
    return DriverResult(
        parts={
            **{name: parts[name] for name in _KEPT},
            "started_at": parts["started_unix_s"],
            # So that our rate is pgbench's own to the digit.
            "duration_s": transactions / per_s if per_s > 0 else parts["duration_s"],
        },
        interrupted=run.interrupted,
        reported=run.told,
        cpu_user_s=sum(each.user_s for each in run.ended),
        cpu_system_s=sum(each.system_s for each in run.ended),
        client_cpu_share=max(shares, default=None),
        notes=_notes(parts),
    )


def _require_agreement(
    printed: dict[str, float], logged: dict[str, Any], options: DriverOptions
) -> None:
    """Check that a log holds every transaction that pgbench counted.

    Raises:
        TargetError: when it does not.
    """
    for name in ("transactions", "failed", "skipped"):
        if name in printed and printed[name] != logged[name]:
            raise TargetError(
                seen=f"pgbench counted {printed[name]:.0f} {name}, its log has {logged[name]}",
                cause=f"The log in {options.folder} was cut short, as when its file system is full",
                next_step=f"Check the space with `df {options.folder}`, then try again",
            )


def _notes(parts: dict[str, Any]) -> list[str]:
    """Return what is odd in the logs, as sentences."""
    notes = []
    starts_us = [
        each["first_start_unix_us"]
        for each in parts["processes"]
        if each["first_start_unix_us"] is not None
    ]
    spread_s = (max(starts_us) - min(starts_us)) / 1e6 if starts_us else 0.0
    if spread_s > SPREAD_S_MAX:
        notes.append(f"The client processes began within {spread_s:.2f} s of each other.")
    if parts["disordered_lines"]:
        notes.append(
            f"{parts['disordered_lines']} lines of pgbench's log are earlier than the one before, "
            "as when the wall clock is set."
        )
    return notes
