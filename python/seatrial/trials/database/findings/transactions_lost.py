"""Finding ``transactions_lost``: a database lost or damaged acknowledged transactions."""

from __future__ import annotations

from typing import Annotated

from seatrial.findings.context import Context, identities
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.stats.model import CellSummary, Figures, Finding, FindingText
from seatrial.stats.wording import format_cell, format_count, format_plural
from seatrial.study.cell import Cell
from seatrial.trials.database.analysis.crashes import (
    CrashOutcome,
    crash_outcome,
    is_crash_trial,
    violations_text,
)
from seatrial.trials.database.analysis.model import records_of
from seatrial.trials.database.study.cost import OFF


@from_samples(rank=40, section="Data and errors", sees_faults=True)
def transactions_lost(context: Context) -> list[Finding]:
    """Find crash trials after which durability or atomicity was violated.

    Durability: an acknowledged commit survives any crash. Atomicity: a transaction is applied
    completely or not at all (T. Haerder, A. Reuter, "Principles of Transaction-Oriented Database
    Recovery", ACM Computing Surveys 15, 1983).

    Means:
        In a crash trial (`seatrial db --crash`) the database violated durability or atomicity:
        after a crash an acknowledged transaction was missing, a transaction was partially applied,
        an uncommitted transaction was visible, a transaction had different content, or the
        database did not recover.

    Decided:
        By counting: each client logs what was acknowledged to it and looks for it in the database
        after each crash ([database.md](database.md#crash-trial)). A transaction whose commit was
        sent but not answered may be present or not. Corruption that pg_amcheck finds in tables or
        indexes counts, too. Critical, and the command exits with code 12.

    Do:
        With `fsync` or `synchronous_commit` off, or with a drive that drops flushes
        (`--power-cut=lying`), this is the expected result. Otherwise keep no data there, and find
        the faulty component.
    """
    trials = [(c, crash_outcome(c.samples)) for c in context.cells if is_crash_trial(c.cell)]
    return [_finding(cell, outcome) for cell, outcome in trials if not outcome.is_ok]


class TransactionsLostFigures(Figures, frozen=True, kw_only=True, tag="transactions_lost"):
    wrong: str
    crashes_count: int
    acknowledged_count: int
    lost_count: int
    half_count: int
    unsent_count: int
    altered_count: int
    gone_count: int
    index_faults_count: int
    power_cut: str
    cell: Annotated[Cell, HIDDEN]
    off: Annotated[list[str], HIDDEN]

    def text(self) -> FindingText:
        crashes = format_plural(self.crashes_count, "crash", "crashes")
        return FindingText(
            sentence=(
                f"{format_cell(self.cell)}: {self.wrong}, of "
                f"{format_count(self.acknowledged_count)} acknowledged transactions in {crashes}."
            ),
            cause=_cause(self.power_cut, self.off),
            next=_next(self.power_cut, self.off),
        )

    def in_short(self, cells_count: int) -> str:
        del cells_count
        return f"{self.wrong}, of {format_count(self.acknowledged_count)} acknowledged commits"


def _finding(cell: CellSummary, outcome: CrashOutcome) -> Finding:
    power_cut = str(cell.cell.factors.get("power_cut", "none"))
    off = [name for name in ("fsync", "synchronous_commit") if _is_off(cell, name)]
    return Finding(
        severity="critical",
        cells=identities([cell]),
        figures=TransactionsLostFigures(
            wrong=violations_text(outcome),
            crashes_count=outcome.crashes,
            acknowledged_count=outcome.acknowledged,
            lost_count=outcome.lost,
            half_count=outcome.half,
            unsent_count=outcome.unsent,
            altered_count=outcome.altered,
            gone_count=outcome.gone,
            index_faults_count=outcome.index_faults,
            power_cut=power_cut,
            cell=cell.cell,
            off=off,
        ),
    )


def _cause(power_cut: str, off: list[str]) -> str:
    """Return the cause, as far as settings and kind of crash show it."""
    if power_cut == "lying":
        return (
            "The simulated drive lost the writes of its last second although it had acknowledged "
            "their flushes. Real drives with a volatile write cache that ignore flushes do the "
            "same, and no database can prevent it."
        )
    if "fsync" in off:
        return "fsync is off: nothing is flushed, so a power failure loses what was in memory."
    if "synchronous_commit" in off:
        return (
            "synchronous_commit is off: a commit is acknowledged before its WAL is flushed, and a "
            "crash loses the most recent commits. This is documented PostgreSQL behaviour."
        )
    if power_cut == "honest":
        return (
            "Flushed data did not survive the power failure: a layer below the database (file "
            "system, mount option, virtual disk) does not pass flushes on."
        )
    return (
        "Only the server process was killed, so the page cache survived. The fault is in the "
        "server, in a library that it loads, or in the memory of this machine."
    )


def _next(power_cut: str, off: list[str]) -> str:
    if power_cut == "lying":
        return "Compare with --power-cut alone, where the drive honours flushes."
    if off:
        return "If transactions must not be lost, turn the setting on and repeat the trial."
    return (
        "Keep no data here. Repeat with --crash=50, check the server log and 'dmesg -T', and try "
        "another PostgreSQL version, another kernel and other memory to find the faulty component."
    )


def _is_off(cell: CellSummary, setting: str) -> bool:
    settings = [record.settings for record in records_of(cell.samples)]
    return any(own.get(setting, "on").lower() in OFF for own in settings)
