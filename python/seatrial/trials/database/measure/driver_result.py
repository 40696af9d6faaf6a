"""What every driver of a database is given, and what it returns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from seatrial.postgres.binaries import Binaries
from seatrial.postgres.connection import Address, Secret


class Endpoints(msgspec.Struct, frozen=True, kw_only=True):
    """The databases of a sample, one for each client process.

    Attributes:
        addresses: Of the databases.
        secret: The password, where there is one.
        binaries: Whose client programs are used.
    """

    addresses: list[Address]
    secret: Secret | None
    binaries: Binaries

    def environments(self) -> list[dict[str, str]]:
        """Return the environment of each client process."""
        return [address.environment(self.secret) for address in self.addresses]


class DriverResult(msgspec.Struct, frozen=True, kw_only=True):
    """What the client processes of a sample did.

    Attributes:
        parts: What a sample has of completions: ``started_at`` (Unix time, s), ``duration_s``,
            ``outcome``, ``operations``, ``timeline``, ``stalls``, ``stalls_dropped``,
            ``errors_count``, ``errors``.
        interrupted: Whether the user asked for the end.
        reported: The driver's own totals, as in ``DatabaseRecord.reported``.
        cpu_user_s: Of the client processes together.
        cpu_system_s: Of the client processes together.
        client_cpu_share: Of one core, by the busiest thread.
        batch_s: ``real``, ``user`` and ``sys`` of a batch.
        counters: What else was counted, by name with unit last.
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
    """What a driver needs to know in addition to the cell's specification.

    Attributes:
        duration_s: How long it is to last.
        seed: The same for all targets, so that they get the same transactions.
        slice_ms: Length of the timeline's slices.
        stall_threshold_ms: Shortest time without a completion that is a stall.
        folder: For its logs; empty, and ours.
    """

    duration_s: float
    seed: int
    slice_ms: int
    stall_threshold_ms: int
    folder: Path
