"""Input and result of every database driver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from seatrial.postgres.binaries import Binaries
from seatrial.postgres.connection import Address, Secret


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


class DriverResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a sample's client processes.

    Attributes:
        parts: The sample's completions: ``started_at`` (Unix time, s), ``duration_s``, ``outcome``,
            ``operations``, ``timeline``, ``stalls``, ``stalls_dropped``, ``errors_count``,
            ``errors``.
        interrupted: Whether the user ended it.
        reported: The driver's own totals, as in ``DatabaseRecord.reported``.
        cpu_user_s: Total of the client processes.
        cpu_system_s: Total of the client processes.
        client_cpu_share: Share of one core used by the busiest thread.
        batch_s: ``real``, ``user`` and ``sys`` of a batch.
        counters: Other counters; names end in the unit.
        notes: What could not be read or done, as sentences.
    """

    parts: dict[str, Any]
    interrupted: bool
    reported: dict[str, float] = {}
    cpu_user_s: float
    cpu_system_s: float
    client_cpu_share: float | None
    batch_s: dict[str, float] = {}
    counters: dict[str, float] = {}
    notes: list[str] = []


class DriverOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a driver in addition to the cell's specification.

    Attributes:
        duration_s: Duration.
        seed: The same for all targets, so that they get the same transactions.
        slice_ms: Length of the timeline's slices.
        stall_threshold_ms: Shortest time without a completion that is a stall.
        folder: An empty folder for its logs.
    """

    duration_s: float
    seed: int
    slice_ms: int
    stall_threshold_ms: int
    folder: Path
