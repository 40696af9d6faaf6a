"""Finding ``durability_off``: a server with settings that give up durability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from seatrial.findings.context import AffectedCells, Context, identities
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.stats.model import CellSummary, Figures, Finding, FindingText
from seatrial.trials.database.analysis.model import records_of


@dataclass(frozen=True)
class Loosened:
    """A setting that gives up durability: its values, severity and consequence.

    ``needs_standby``: whether it does so only where there are synchronous standbys.
    """

    setting: str
    values: tuple[str, ...]
    severity: str
    cause: str
    needs_standby: bool = False


LOOSENED: Final = (
    Loosened(
        "fsync",
        ("off",),
        "critical",
        "Nothing is flushed: a power failure or operating system crash may corrupt the whole "
        "database. The rate is that of memory, not of this storage.",
    ),
    Loosened(
        "full_page_writes",
        ("off",),
        "warning",
        "A page that is partially written when power fails (a torn page) cannot be recovered, "
        "unless the storage writes 8 KiB pages atomically (copy-on-write file systems do). Less "
        "WAL is written than with the default.",
    ),
    Loosened(
        "synchronous_commit",
        ("off",),
        "warning",
        "Commits are acknowledged before the WAL is flushed: a crash loses the most recent ones "
        "(up to three times wal_writer_delay), and no client waits for the storage.",
    ),
    Loosened(
        "synchronous_commit",
        ("local", "remote_write"),
        "warning",
        "With a synchronous standby, commits do not wait until the standby has flushed them, as "
        "they do by default.",
        needs_standby=True,
    ),
)


@from_samples(rank=130, section="Databases", sees_faults=True, sees_replays=True)
def durability_off(context: Context) -> list[Finding]:
    """Find settings that make results incomparable with those of a durable server.

    Means:
        A setting gives up durability, so acknowledged transactions may be lost: `fsync = off`,
        `full_page_writes = off`, `synchronous_commit = off`, and with synchronous standbys
        `synchronous_commit` of `local` or `remote_write`.

    Decided:
        By the settings that the server reported. Critical for `fsync = off`, whose rate is that of
        memory; otherwise warning. All values of `wal_sync_method` that PostgreSQL has on Linux
        sync; `flushes_not_durable` checks whether the device honours it.

    Do:
        Measure with the default. Keep this test only to show the cost of durability.
    """
    found = []
    for loosened in LOOSENED:
        for value in loosened.values:
            concerned = [c for c in context.cells if _has(c, loosened, value)]
            if concerned:
                found.append(_finding(context, loosened, value, concerned))
    return found


def _has(summary: CellSummary, loosened: Loosened, value: str) -> bool:
    return any(
        record.settings.get(loosened.setting) == value
        and (not loosened.needs_standby or record.settings.get("synchronous_standby_names"))
        for record in records_of(summary.samples)
    )


class DurabilityOffFigures(Figures, frozen=True, kw_only=True, tag="durability_off"):
    setting: str
    value: str
    cells_count: int
    concerned: Annotated[AffectedCells, HIDDEN]
    loosened: Annotated[Loosened, HIDDEN]

    def text(self) -> FindingText:
        return FindingText(
            sentence=(
                f"{self.concerned}: {self.setting} is {self.value}. These figures cannot be "
                "compared with those of a durable server."
            ),
            cause=self.loosened.cause,
            next=(
                f"Measure with {self.setting} = on (the default). Keep this test only to show the "
                "cost of durability."
            ),
        )


def _finding(
    context: Context, loosened: Loosened, value: str, concerned: Sequence[CellSummary]
) -> Finding:
    return Finding(
        severity=loosened.severity,
        cells=identities(concerned),
        figures=DurabilityOffFigures(
            setting=loosened.setting,
            value=value,
            cells_count=len(concerned),
            concerned=context.affected_cells(concerned),
            loosened=loosened,
        ),
    )
