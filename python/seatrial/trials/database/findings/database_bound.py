"""Finding ``database_bound``: what the time of a database's clients went into."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Final

from seatrial.findings.context import Context
from seatrial.findings.rule import from_samples
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_cell, format_plural
from seatrial.trials.database.analysis.crashes import is_crash_trial
from seatrial.trials.database.analysis.model import DatabaseCell, database_of


@dataclass(frozen=True)
class Explained:
    """What being bound so means, and what to try."""

    cause: str
    next: str


EXPLAINED: Final = {
    "commit": Explained(
        "Each commit waits until the WAL is on the medium; its rate is that of the device's "
        "flushes, times the commits that share one.",
        "A device with a write cache that is safe from loss of power makes flushes cheap; more "
        "clients share a flush (commit_delay makes them wait for each other); fewer, larger "
        "transactions need fewer.",
    ),
    "read": Explained(
        "The data do not fit into the caches, so that transactions wait for blocks from below.",
        "Compare more memory by a sweep ('seatrial db DIR --memory-limit' or shared_buffers as a "
        "list), or a device with more reads per second at this many clients.",
    ),
    "checkpoint": Explained(
        "A checkpoint writes and syncs all changed pages, and after it each page that changes goes "
        "whole into the WAL once more.",
        "Raise max_wal_size and checkpoint_timeout, so that there are fewer, and keep "
        "checkpoint_completion_target at 0.9, which spreads them.",
    ),
    "lock": Explained(
        "Clients queue for the same rows, or for the server's own inner locks.",
        "Give the workload more to choose from (pgbench: a scale above the clients) or fewer "
        "clients; where the holders wait to commit, a faster commit shortens the queue.",
    ),
    "cpu": Explained(
        "The server's own work fills the processors that it can use.",
        "Read the rate as what this machine does; compare storage with more clients, a larger "
        "scale or less memory, until storage bounds it again.",
    ),
    "client": Explained(
        "The server had time to spare: the driver, its machine or the way to it set the pace.",
        "Use more threads or processes of the driver ('jobs', 'processes'), prepared statements, "
        "or a client machine of its own; read the rate as 'at least'.",
    ),
    "pace": Explained(
        "The replay asked for no more than this: its speed, and what was captured, set the rate.",
        "Compare latencies, not rates; a higher '--speed', or '--speed max', tells what bounds it.",
    ),
    "order": Explained(
        "Statements waited for those of other sessions, as the log's order has it.",
        "Compare with '--order session', which holds nothing back between sessions.",
    ),
    "inconclusive": Explained(
        "What was measured leaves more than one reason: several share the time, other work used "
        "the machine meanwhile, or too little was seen.",
        "Measure for longer, or vary clients and memory: what the rate follows is what bounds it.",
    ),
}


@from_samples(rank=550, section="Of a database", sees_replays=True)
def database_bound(context: Context) -> list[Finding]:
    """Find what bounds the databases' cells; one finding for those of a target that agree.

    Means:
        What the clients' time went into, and so what would have to be faster: `cpu`, `read`,
        `commit`, `checkpoint`, `lock`, `client`, or `inconclusive`; of a replay also `pace` (the
        capture's own) and `order`. One finding for the cells of a target that agree, with the
        clearest as example.

    Decided:
        By the rules of method.md ("What bounds a database"). A bound is said only where measured
        figures exclude other work on the machine, the hypervisor, the client, checkpoints, others'
        I/O and other waits. `inconclusive` where one of them is not excluded, where nothing takes
        40 % of the time and half as much again as the next, where it was looked at fewer than 20
        times, and where a schedule that is kept sets the rate. Note.

    Do:
        As the finding says for each bound: it is of no use to buy flushes for a database that waits
        for reads. Of an inconclusive one it says what settles it, such as to stop other work on the
        machine and repeat.
    """
    groups: dict[tuple[str, str], list[DatabaseCell]] = defaultdict(list)
    for part in analysis.cells if (analysis := database_of(context)) else []:
        if is_crash_trial(part.cell):
            continue  # Its clients are slow on purpose: each notes what it sends and gets.
        groups[part.cell.target, part.verdict.bound].append(part)
    return [_finding(context, parts) for parts in groups.values()]


def _finding(context: Context, parts: list[DatabaseCell]) -> Finding:
    """Return the finding with the cell as its example whose bound is the clearest."""
    bound = parts[0].verdict.bound
    typical = max(parts, key=_clearness)
    explained = EXPLAINED[bound]
    others = len(parts) - 1
    also = f" So {_are(others)}." if others and bound != "inconclusive" else ""
    if others and bound == "inconclusive":
        also = f" Inconclusive, too, {_are(others)}."
    return Finding(
        kind="database_bound",
        severity="note",
        cells=[part.cell.identity() for part in parts],
        sentence=f"{format_cell(typical.cell)}: {typical.verdict.sentence}{also}",
        cause=explained.cause,
        evidence={"bound": bound, "cells_count": len(parts), **typical.verdict.evidence},
        next=f"{typical.verdict.next}." if typical.verdict.next else explained.next,
    )


def _clearness(part: DatabaseCell) -> tuple[bool, float]:
    """Return how clearly a cell shows its bound: that something leads at all, then its share."""
    verdict = part.verdict
    leads = verdict.likely or verdict.bound
    return leads != "inconclusive", verdict.evidence.get(f"wait_{leads}_share", 0.0)


def _are(others: int) -> str:
    return f"{'is' if others == 1 else 'are'} {format_plural(others, 'other cell')} there"
