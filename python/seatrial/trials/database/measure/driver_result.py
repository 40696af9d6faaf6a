"""Input and result of every database driver."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from seatrial.measure.progress import Watcher
from seatrial.postgres.binaries import Binaries
from seatrial.postgres.connection import Address, Secret
from seatrial.results.fleet import FleetRecord
from seatrial.results.model import ErrorSample, OperationResult, Outcome, Stall, Timeline
from seatrial.results.replay import ReplayRecord
from seatrial.study.cell import SpecDocument
from seatrial.trials.database.measure.client_processes import ProcessGroup

ReplayFunction = Callable[[SpecDocument, Watcher], Any]
"""Runs a replay by the engine's specification; returns a ``PlaybackOutcome``."""
LoadFunction = Callable[[str, Any, "Endpoints", "DriverOptions", Watcher], "DriverResult"]
"""Loads databases from several hosts, like ``drive`` from this machine."""


class Endpoints(msgspec.Struct, frozen=True, kw_only=True):
    """The databases of a sample, one for each client process.

    Attributes:
        addresses: Addresses of the databases.
        secret: The password, if any.
        binaries: The client programs.
    """

    addresses: list[Address]
    secret: Secret | None
    binaries: Binaries

    def environments(self) -> list[dict[str, str]]:
        """Return the environment of each client process."""
        return [address.environment(self.secret) for address in self.addresses]


class Completions(msgspec.Struct, frozen=True, kw_only=True):
    """How the requests of a sample ended, as in ``Sample``.

    Attributes:
        started_at: Unix time in seconds.
        duration_s: Measured wall time of the sample.
        outcome: The accounting equation's terms.
        operations: Results by operation kind.
        timeline: Completions by time.
        stalls: In order of time.
        stalls_dropped: Stalls beyond the limit of a sample.
        errors_count: Number of failed requests.
        errors: Examples of them.
    """

    started_at: float
    duration_s: float
    outcome: Outcome
    operations: dict[str, OperationResult]
    timeline: Timeline
    stalls: list[Stall] = []
    stalls_dropped: int = 0
    errors_count: int = 0
    errors: list[ErrorSample] = []

    @classmethod
    def of(cls, parts: Mapping[str, object]) -> Completions:
        """Return those of a mapping of ``_core`` (docs/engine.md)."""
        return msgspec.convert({**parts, "started_at": parts["started_unix_s"]}, cls)


class DriverResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a sample's client processes.

    Attributes:
        completions: How the requests ended.
        replay: The record of a replay.
        interrupted: Whether the user ended it.
        reported: The driver's own totals, as in ``DatabaseRecord.reported``.
        cpu_user_s: Total of the client processes.
        cpu_system_s: Total of the client processes.
        client_cpu_share: Share of one core used by the busiest thread.
        batch_s: ``real``, ``user`` and ``sys`` of a batch.
        counters: Other counters; names end in the unit.
        notes: What could not be read or done, as sentences.
        fleet: The record of several hosts that replayed or loaded together.
        first_start_unix_us: Intended start of the first transaction of the process that began
            last, if pgbench ran.
    """

    completions: Completions
    replay: ReplayRecord | None = None
    interrupted: bool
    reported: dict[str, float] = {}
    cpu_user_s: float
    cpu_system_s: float
    client_cpu_share: float | None
    batch_s: dict[str, float] = {}
    counters: dict[str, float] = {}
    notes: list[str] = []
    fleet: FleetRecord | None = None
    first_start_unix_us: int | None = None


class DriverOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a driver in addition to the cell's specification.

    Attributes:
        duration_s: Duration.
        seed: The same for all targets, so that they get the same transactions.
        slice_ms: Length of the timeline's slices.
        stall_threshold_ms: Shortest time without a completion that is a stall.
        folder: An empty folder for its logs.
        play: Replays a trace on several hosts; None for this machine alone.
        load: Runs pgbench on several hosts; None for this machine alone.
        start_unix_ns: From when slices count; from the first transaction on by default.
        processes: The client processes, so that they can be ended early.
    """

    duration_s: float
    seed: int
    slice_ms: int
    stall_threshold_ms: int
    folder: Path
    play: ReplayFunction | None = None
    load: LoadFunction | None = None
    start_unix_ns: int | None = None
    processes: ProcessGroup | None = None
