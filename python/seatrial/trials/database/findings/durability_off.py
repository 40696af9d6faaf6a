"""Finding ``durability_off``: a server that does not keep what it acknowledged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from seatrial.findings.context import Context, identities
from seatrial.findings.rule import from_samples
from seatrial.stats.model import CellSummary, Finding
from seatrial.trials.database.analysis.samples import records_of


@dataclass(frozen=True)
class Loosened:
    """A setting that gives up durability: its values, how grave it is, and what it costs."""

    setting: str
    values: tuple[str, ...]
    severity: str
    cause: str


LOOSENED: Final = (
    Loosened(
        "fsync",
        ("off",),
        "critical",
        "Nothing is ever flushed: a loss of power or a crash of the system may leave the whole "
        "database unreadable. The rate is that of memory, not of this storage.",
    ),
    Loosened(
        "full_page_writes",
        ("off",),
        "warning",
        "A page that is half written when power fails cannot be repaired, unless the storage "
        "writes pages of 8 KiB as one (copy-on-write file systems do). Less WAL is written than "
        "usual.",
    ),
    Loosened(
        "synchronous_commit",
        ("off",),
        "warning",
        "Commits are acknowledged before the WAL is flushed: a crash loses those of the last "
        "moments (up to three times wal_writer_delay), and no client waits for the storage.",
    ),
    Loosened(
        "synchronous_commit",
        ("local", "remote_write"),
        "warning",
        "Where there is a synchronous standby, commits do not wait until it has them on its own "
        "storage, as they do by default.",
    ),
)


@from_samples(rank=130, section="Of a database", sees_faults=True, sees_replays=True)
def durability_off(context: Context) -> list[Finding]:
    """Find settings with which a result cannot be compared with that of a durable server.

    Means:
        The server does not keep what it acknowledged, because a setting says so: `fsync = off`,
        `full_page_writes = off`, `synchronous_commit` other than `on` and `remote_apply`.

    Decided:
        By the settings that the server itself showed. Critical for `fsync = off`, whose rate is
        that of memory; else warning. All values of `wal_sync_method` that PostgreSQL has on Linux
        do sync; whether the device then keeps it is `flushes_not_durable`.

    Do:
        Measure with the default; keep the cell only to see what durability costs there.
    """
    found = []
    for loosened in LOOSENED:
        for value in loosened.values:
            concerned = [c for c in context.cells if _has(c, loosened.setting, value)]
            if concerned:
                found.append(_finding(context, loosened, value, concerned))
    return found


def _has(summary: CellSummary, setting: str, value: str) -> bool:
    return any(record.settings.get(setting) == value for record in records_of(summary.samples))


def _finding(
    context: Context, loosened: Loosened, value: str, concerned: Sequence[CellSummary]
) -> Finding:
    return Finding(
        kind="durability_off",
        severity=loosened.severity,
        cells=identities(concerned),
        sentence=(
            f"{context.of_cells(concerned)}: {loosened.setting} is {value}, so these figures "
            "cannot be compared with those of a server that keeps what it acknowledged."
        ),
        cause=loosened.cause,
        evidence={
            "setting": loosened.setting,
            "value": value,
            "cells_count": len(concerned),
        },
        next=(
            f"Measure with {loosened.setting} = on (the default); keep the cell only to see what "
            "durability costs here."
        ),
    )
