"""Finding ``transactions_lost``: a database did not keep what it had acknowledged."""

from __future__ import annotations

from typing import Final

from seatrial.findings.context import Context, identities
from seatrial.findings.rule import from_samples
from seatrial.stats.model import CellSummary, Finding
from seatrial.stats.wording import format_cell, format_count, format_plural
from seatrial.trials.database.analysis.crashes import (
    CrashOutcome,
    crash_outcome,
    is_crash_trial,
    wrong_words,
)
from seatrial.trials.database.analysis.samples import records_of

_OFF: Final = ("off", "false", "no", "0")


@from_samples(rank=40, section="Data and errors", sees_faults=True)
def transactions_lost(context: Context) -> list[Finding]:
    """Find crash trials after which not everything was there, or more than should be.

    Durability: what a client was told is committed survives any crash. Atomicity: of a transaction
    all is there or nothing (T. Haerder, A. Reuter, "Principles of Transaction-Oriented Database
    Recovery", ACM Computing Surveys 15, 1983).

    Means:
        In a crash trial (`seatrial db --crash`) a database did not keep its word: a transaction
        that it had acknowledged was gone after a crash, or only a part of one was there, or one
        that was never to be committed, or one with another content; or it did not come back at all.

    Decided:
        By counting: each client knows what was acknowledged to it, and finds it in the database
        after each crash ([database.md](database.md#crash-trial)). Transactions whose commit was
        sent and not answered may be there or not. A fault that pg_amcheck finds in tables or
        indexes counts as well. Critical, and the command ends with exit code 12.

    Do:
        With `fsync` or `synchronous_commit` off, or a drive that was made to lie, it is what the
        trial asked for. Otherwise keep no data there, and find the part that is at fault.
    """
    trials = [(c, crash_outcome(c.samples)) for c in context.cells if is_crash_trial(c.cell)]
    return [_finding(cell, outcome) for cell, outcome in trials if not outcome.is_well]


def _finding(cell: CellSummary, outcome: CrashOutcome) -> Finding:
    power_cut = str(cell.cell.factors.get("power_cut", "none"))
    crashes = format_plural(outcome.crashes, "crash", "crashes")
    return Finding(
        kind="transactions_lost",
        severity="critical",
        cells=identities([cell]),
        sentence=(
            f"{format_cell(cell.cell)}: after {crashes} not all was as it had been acknowledged: "
            f"{wrong_words(outcome)}, of {format_count(outcome.acknowledged)} transactions that "
            "were acknowledged."
        ),
        cause=_cause(cell, power_cut),
        evidence={
            "wrong": wrong_words(outcome),
            "crashes_count": outcome.crashes,
            "acknowledged_count": outcome.acknowledged,
            "lost_count": outcome.lost,
            "half_count": outcome.half,
            "unsent_count": outcome.unsent,
            "altered_count": outcome.altered,
            "gone_count": outcome.gone,
            "index_faults_count": outcome.index_faults,
            "power_cut": power_cut,
        },
        next=_next(cell, power_cut),
    )


def _cause(cell: CellSummary, power_cut: str) -> str:
    """Return why, as far as settings and kind of crash tell."""
    if power_cut == "lying":
        return (
            "The trial had the drive lie: it lost what was written in its last second, though it "
            "had acknowledged the flushes. So it is with drives whose volatile write cache does "
            "that, and no database can help it."
        )
    if _is_off(cell, "fsync"):
        return "fsync is off: nothing is flushed, so a cut of the power takes what memory held."
    if _is_off(cell, "synchronous_commit"):
        return (
            "synchronous_commit is off: a commit is acknowledged before its WAL is flushed, and a "
            "crash loses those of the last moments. PostgreSQL documents it so."
        )
    if power_cut == "honest":
        return (
            "What was flushed did not survive the cut: a layer below the database (file system, "
            "mount option, virtual disk) does not hand flushes on."
        )
    return (
        "The server was killed, and nothing else: the page cache survived. So the server itself, "
        "a library that it loads, or the memory of this machine is at fault."
    )


def _next(cell: CellSummary, power_cut: str) -> str:
    if power_cut == "lying":
        return "Compare with --power-cut alone, where the drive keeps its word."
    if _is_off(cell, "fsync") or _is_off(cell, "synchronous_commit"):
        return "Turn the setting on where transactions must not be lost, and repeat the trial."
    return (
        "Keep no data here. Repeat it with --crash=50, look at the server's log and 'dmesg -T', "
        "and try another version of PostgreSQL, another kernel and other memory to find the part."
    )


def _is_off(cell: CellSummary, setting: str) -> bool:
    settings = [record.settings for record in records_of(cell.samples)]
    return any(own.get(setting, "on").lower() in _OFF for own in settings)
