"""Finding ``database_bound``: where the time of a database's clients was spent."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Annotated, Final

from seatrial.findings.context import Context
from seatrial.findings.rule import from_samples
from seatrial.published import FLATTENED, HIDDEN
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_cell, format_plural
from seatrial.trials.database.analysis.crashes import is_crash_trial
from seatrial.trials.database.analysis.model import DatabaseCell, database_of
from seatrial.trials.database.analysis.verdict import ON_STANDBY


@dataclass(frozen=True)
class Explained:
    """What a bound means, and what to try."""

    cause: str
    next: str


EXPLAINED: Final = {
    "commit": Explained(
        "Each commit waits until its WAL is on stable storage. The commit rate is the device's "
        "flush rate times the number of commits per flush (group commit).",
        "Use a device with a power-loss protected write cache, which makes flushes fast. More "
        "clients share a flush (commit_delay increases this). Fewer, larger transactions need "
        "fewer flushes.",
    ),
    "read": Explained(
        "The working set does not fit into the caches, so transactions wait for block reads.",
        "Compare memory sizes ('seatrial db DIR --memory-limit', or shared_buffers as a list), or "
        "use a device with more read IOPS at this number of clients.",
    ),
    "checkpoint": Explained(
        "A checkpoint writes and syncs all dirty pages. After it starts, the first change to each "
        "page writes a full-page image to the WAL.",
        "Raise max_wal_size and checkpoint_timeout to make checkpoints rarer, and keep "
        "checkpoint_completion_target at 0.9 to spread their writes.",
    ),
    "lock": Explained(
        "Clients wait for the same rows, or for the server's internal locks (LWLocks).",
        "Reduce contention: more rows to choose from (pgbench: a scale above the number of "
        "clients) or fewer clients. If lock holders wait to commit, faster commits shorten the "
        "queue.",
    ),
    "standby": Explained(
        "Each commit waits until a synchronous standby confirms that it has received, flushed or "
        "(with remote_apply) replayed the WAL.",
        f"{ON_STANDBY}.",
    ),
    "cpu": Explained(
        "The server uses all of the CPU that it can get.",
        "The rate is a limit of this machine's CPU. To compare storage, use more clients, a larger "
        "scale or less memory until storage is the bottleneck.",
    ),
    "client": Explained(
        "The server was partly idle: the driver, its machine or the network limited the rate.",
        "Use more driver threads or processes ('jobs', 'processes'), prepared statements, or a "
        "separate client machine. Read the rate as 'at least'.",
    ),
    "pace": Explained(
        "The replay requested no more than this: its speed and the captured load set the rate.",
        "Compare latencies, not rates. A higher '--speed', or '--speed max', shows the bottleneck.",
    ),
    "order": Explained(
        "Statements waited for statements of other sessions, to preserve the order of the log.",
        "Compare with '--order session', which keeps the order only within each session.",
    ),
    "inconclusive": Explained(
        "The measurements allow more than one explanation: several waits share the time, other "
        "work used the machine, or there were too few wait-event samples.",
        "Measure for longer, or vary clients and memory: the factor that changes the rate is the "
        "bottleneck.",
    ),
}


@from_samples(rank=550, section="Databases", sees_replays=True)
def database_bound(context: Context) -> list[Finding]:
    """Find what bounds the databases' cells; one finding for those of a target that agree.

    Means:
        Where the clients spent their time, and so what has to become faster: `cpu`, `read`,
        `commit`, `checkpoint`, `lock`, `standby` (a synchronous one), `client`, or
        `inconclusive`; for a replay also `pace` (the captured rate) and `order`. There is one
        finding for all tests of a target with the same bottleneck; the clearest one is the
        example.

    Decided:
        By the rules of method.md ("What bounds a database"). A bottleneck is reported only if
        measured figures exclude other work on the machine, the hypervisor, the client,
        checkpoints, I/O of other processes and other waits. `inconclusive` if one of them is not
        excluded, if no wait takes 40 % of the time and 1.5 times as much as the next, if there are
        fewer than 20 wait-event samples, and if a schedule sets the rate. Note.

    Do:
        As the finding says for each bottleneck: faster flushes do not help a database that waits
        for reads. For an inconclusive result, it names the next experiment, such as stopping other
        work on the machine and repeating the run.
    """
    groups: dict[tuple[str, str], list[DatabaseCell]] = defaultdict(list)
    for part in analysis.cells if (analysis := database_of(context)) else []:
        if is_crash_trial(part.cell):
            continue  # Its clients are slow on purpose: each logs what it sends and receives.
        groups[part.cell.target, part.verdict.bound].append(part)
    return [_finding(context, parts) for parts in groups.values()]


class DatabaseBoundFigures(Figures, frozen=True, kw_only=True, tag="database_bound"):
    bound: str
    cells_count: int
    others: Annotated[dict[str, float], FLATTENED]
    typical: Annotated[DatabaseCell, HIDDEN]

    def text(self) -> FindingText:
        verdict, count = self.typical.verdict, self.cells_count - 1
        others = f"{format_plural(count, 'other test')} on this target"
        also = f" The same holds for {others}." if count else ""
        if count and self.bound == "inconclusive":
            also = f" {others} {'is' if count == 1 else 'are'} also inconclusive."
        return FindingText(
            sentence=f"{format_cell(self.typical.cell)}: {verdict.sentence}{also}",
            cause=EXPLAINED[self.bound].cause,
            next=f"{verdict.next}." if verdict.next else EXPLAINED[self.bound].next,
        )


def _finding(context: Context, parts: list[DatabaseCell]) -> Finding:
    """Return the finding, with the cell of the clearest bound as its example."""
    bound = parts[0].verdict.bound
    typical = max(parts, key=_clearness)
    return Finding(
        severity="note",
        cells=[part.cell.identity() for part in parts],
        figures=DatabaseBoundFigures(
            bound=bound,
            cells_count=len(parts),
            others=typical.verdict.evidence,
            typical=typical,
        ),
    )


def _clearness(part: DatabaseCell) -> tuple[bool, float]:
    """Return how clearly a cell shows its bound: whether a wait leads, then its share."""
    verdict = part.verdict
    leads = verdict.likely or verdict.bound
    return leads != "inconclusive", verdict.evidence.get(f"wait_{leads}_share", 0.0)
