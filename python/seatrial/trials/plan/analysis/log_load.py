"""The load in a log of SQL: commits, active sessions, and the rate of statements over time.

A log holds no block I/O. If its means are known otherwise, they become a load over time that
follows the statements. Otherwise only the log writes of commits are known to reach storage.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from seatrial.errors import UsageError
from seatrial.lazy import np
from seatrial.trials.plan.analysis.demand import SLOT_S, Demand, means_in_slots, slot_length_s
from seatrial.trials.plan.analysis.figure import Figure

if TYPE_CHECKING:
    from numpy.typing import NDArray

LOG_PAGE_BYTES: Final = 8192
"""A log write is one page at least (XLOG_BLCKSZ of PostgreSQL)."""
FOLLOWS: Final = Figure(
    low=0.8, mid=1.0, high=1.25, origin="assumed: block I/O follows the statements of the log"
)
UNTIMED_SHARE_MAX: Final = 0.05
SHARE_MIN: Final = 0.01
"""Fewest log writes of a commit that may write, in any scenario."""
LACKS: Final = (
    "IOPS and throughput are not judged, as a log holds no block I/O. One measurement gives them: "
    "record the server's disk, `seatrial watch /dev/DISK --record FILE`, while it works or while "
    "`seatrial sql replay` replays the log, and plan with that file. Or give means over the log: "
    "--io reads=900,writes=100,size=8KiB."
)


@dataclass(frozen=True, kw_only=True)
class LoggedLoad:
    """A log of SQL over time, in slots of one length.

    Attributes:
        name: Name of the log.
        slot_s: Length of a slot (s).
        statements_per_s: Statements that began; shape (slots,), as all.
        commits_per_s_min: Commits of transactions that certainly wrote.
        commits_per_s_max: Commits of those that may have written.
        at_work: Sessions at work at once, on the average of a slot; 0 without durations.
        sessions_max: Sessions that were open at once, at most.
        timed_share: Share of statements with a known duration.
        commit_ms: Median and 99th percentile of COMMIT after writes; None of too few.
    """

    name: str
    slot_s: float
    statements_per_s: NDArray[np.float64]
    commits_per_s_min: NDArray[np.float64]
    commits_per_s_max: NDArray[np.float64]
    at_work: NDArray[np.float64]
    sessions_max: int
    timed_share: float
    commit_ms: tuple[float, float] | None

    @property
    def busiest_commits_per_s(self) -> Figure:
        """Commits in the busiest slot: from those that certainly write to those that may."""
        low, high = float(self.commits_per_s_min.max()), float(self.commits_per_s_max.max())
        origin = f"log {self.name}"
        return Figure(low=low, mid=math.sqrt(low * high) or high / 2, high=high, origin=origin)

    def words(self) -> list[str]:
        """Sentences about the log, each with its source."""
        commits = self.busiest_commits_per_s
        is_minute = math.isclose(self.slot_s, SLOT_S, rel_tol=0.05)
        slot = "minute" if is_minute else f"{self.slot_s:.3g} s"
        found = [
            f"Commits that write in the busiest {slot}: {_rate(commits.low)} to "
            f"{_rate(commits.high)} per second (log; that many if procedures, prepared statements "
            "and row locks write)"
            if commits.low < commits.high
            else f"Commits that write in the busiest {slot}: {_rate(commits.low)} per second (log)"
        ]
        if self.timed_share:
            found.append(
                f"Sessions active at once: {float(self.at_work.mean()):,.2g} on average, "
                f"{float(self.at_work.max()):,.2g} in the busiest {slot} (durations of the log)"
            )
        if self.timed_share < 1 - UNTIMED_SHARE_MAX:
            found.append(
                f"Statements without a duration: {1 - self.timed_share:.0%} (log), so more "
                "sessions may have been active"
            )
        if self.commit_ms is not None:
            found.append(
                f"COMMIT after writes took {self.commit_ms[0]:.3g} ms (median), p99 "
                f"{self.commit_ms[1]:.3g} ms, on the logged server (durations of the log)"
            )
        return found


def _rate(per_s: float) -> str:
    return f"{per_s:,.0f}" if per_s >= 100 else f"{per_s:.3g}"


def logged_load(
    name: str,
    slice_s: float,
    columns: NDArray[np.float64],
    *,
    sessions_max: int,
    timed_share: float,
    commit_ms: tuple[float, float] | None,
) -> LoggedLoad:
    """Return the load in a log, in slots like those of a recording.

    Args:
        name: Name of the log.
        slice_s: Length of the slices that it was counted in (s).
        columns: Statements, commits that certainly and that may write, active seconds, by slice;
            shape (4, slices).
        sessions_max: Sessions that were open at once, at most.
        timed_share: Share of statements with a known duration.
        commit_ms: Median and 99th percentile of COMMIT after writes; None of too few.

    Raises:
        UsageError: when it has no statements.
    """
    slices = columns.shape[1] if columns.size else 0
    if not slices or not columns[0].sum():
        raise UsageError(
            seen=f"{name} has no statements",
            cause="A load over time is needed, as credits are spent and earned over time",
            next_step="Log all statements: log_min_duration_statement = 0, see docs/sql.md",
        )
    seconds = slices * slice_s
    slots = min(slices, math.ceil(seconds / slot_length_s(seconds) - 1e-9))
    statements, commits_min, commits_max, active_s = (
        means_in_slots(column, slots) / slice_s for column in columns
    )
    return LoggedLoad(
        name=name,
        slot_s=seconds / slots,
        statements_per_s=statements,
        commits_per_s_min=commits_min,
        commits_per_s_max=commits_max,
        at_work=active_s,
        sessions_max=max(1, sessions_max),
        timed_share=timed_share,
        commit_ms=commit_ms,
    )


def demand_following(means: Demand, load: LoggedLoad) -> Demand:
    """Return a constant load spread over the time of a log, by its statements.

    The mean over the log stays what it was.
    """
    shape = load.statements_per_s / load.statements_per_s.mean()
    return Demand(
        origin=f"{means.origin}, as means over the log {load.name}, whose statements it follows",
        slot_s=load.slot_s,
        reads_per_s=means.reads_per_s.mean() * shape,
        writes_per_s=means.writes_per_s.mean() * shape,
        read_bytes_per_s=means.read_bytes_per_s.mean() * shape,
        write_bytes_per_s=means.write_bytes_per_s.mean() * shape,
    )


def commit_demand(load: LoggedLoad) -> tuple[Demand, Figure]:
    """Return the log writes of the commits, and how many a commit that may write has.

    Sessions that commit at once may share one write: on slow storage all that were open. A commit
    that may not have written has no write at least.

    Raises:
        UsageError: when nothing in the log writes.
    """
    if not load.commits_per_s_max.any():
        raise UsageError(
            seen=f"No committed transaction of {load.name} writes, and a log holds no block I/O",
            cause="Only commits that write are known to reach storage",
            next_step="Give the means of its block I/O: --io reads=900,writes=100,size=8KiB; or "
            "record them: `seatrial watch --record FILE`",
        )
    writes = load.commits_per_s_max
    certain_share = float(load.commits_per_s_min.sum() / writes.sum())
    low = max(certain_share / load.sessions_max, SHARE_MIN)
    nothing = np.zeros_like(writes)
    demand = Demand(
        origin=f"commits of the log {load.name}, a log write each at most",
        slot_s=load.slot_s,
        reads_per_s=nothing,
        writes_per_s=writes,
        read_bytes_per_s=nothing,
        write_bytes_per_s=writes * LOG_PAGE_BYTES,
        writes_random_share=0.0,  # a log is appended to
    )
    shared = Figure(
        low=low,
        mid=max(low, math.sqrt(low)),
        high=1.0,
        origin=f"commits that certainly write, and up to {load.sessions_max} sessions that share a "
        "log write, in the log",
    )
    return demand, shared
