"""Requirements of storage: load over time, capacity, growth, objective; each with its origin."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from seatrial.errors import UsageError
from seatrial.lazy import np
from seatrial.published import Amount
from seatrial.trials.plan.analysis.figure import Figure

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from seatrial.trials.plan.analysis.commits import CommitPath
    from seatrial.trials.plan.analysis.demand import Demand

PERCENTILES: Final = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "p99.9": 99.9}
_OBJECTIVE: Final = re.compile(r"(?:(read|write|commit)\.)?(p[0-9.]+)_ms=([0-9]*\.?[0-9]+)")
OTHER_DAY: Final = Figure(low=0.8, mid=1.0, high=1.6, origin="assumed: what another day asks for")
"""Load of another day over that of the known one."""


class Objective(msgspec.Struct, frozen=True, kw_only=True):
    """A limit on a percentile of response times.

    Attributes:
        operation: ``read``, ``write`` or ``commit``; a commit waits for a write.
        percentile: Such as ``p99``.
        limit_ms: The limit (ms).
    """

    operation: str
    percentile: str
    limit_ms: Amount

    @property
    def words(self) -> str:
        """In words, such as ``commit p99 below 5 ms``."""
        return f"{self.operation} {self.percentile} below {self.limit_ms:g} ms"

    @property
    def is_of_writes(self) -> bool:
        """Whether it is about writes."""
        return self.operation != "read"


def parse_objective(text: str) -> Objective:
    """Return an objective as it is typed, such as ``commit.p99_ms=5``.

    Raises:
        UsageError: when it is invalid.
    """
    found = _OBJECTIVE.fullmatch(text.strip())
    if not found or found[2] not in PERCENTILES or float(found[3]) <= 0:
        raise UsageError(
            seen=f"{text!r} is not an objective",
            cause=f"An objective is a percentile ({', '.join(PERCENTILES)}) and its limit",
            next_step="For example: commit.p99_ms=5 or read.p99_ms=2",
        )
    return Objective(operation=found[1] or "read", percentile=found[2], limit_ms=float(found[3]))


@dataclass(frozen=True, kw_only=True)
class StorageNeed:
    """Requirements of storage.

    Attributes:
        demand: The load over time.
        other_day: The load of another day over that one.
        capacity: Bytes that are to be stored now.
        growth: Growth of load and capacity in a year, as a share.
        years: Age at which the need applies.
        objective: None where only rates count.
        gaps: Recorded gaps between arrivals; None where they are not known.
        commits: Commits of the server; None if unknown.
        unjudged: A test of the run with more requests, in a sentence; empty if there is none.
        follows: Load at the storage over ``demand``; None if ``demand`` was observed there.
        logged: What a log of SQL shows, a sentence each.
        lacks: The unknown part of the load, which was not evaluated; empty if none.
    """

    demand: Demand
    other_day: Figure
    capacity: Figure
    growth: Figure
    years: float
    objective: Objective | None
    gaps: NDArray[np.float64] | None = None
    commits: CommitPath | None = None
    unjudged: str = ""
    follows: Figure | None = None
    logged: tuple[str, ...] = ()
    lacks: str = ""

    @property
    def forecasts_objective(self) -> bool:
        """Whether commits are known, and the objective is one of them."""
        return (
            self.commits is not None
            and self.objective is not None
            and self.objective.operation == "commit"
        )


def busiest_gaps(
    arrived_ns: NDArray[np.int64], slot_s: float, gaps_max: int = 50_000
) -> NDArray[np.float64] | None:
    """Return the gaps between arrivals in the busiest slot, with a mean of 1; None of too few."""
    if len(arrived_ns) < 1000:
        return None
    slots = (arrived_ns / 1e9 / slot_s).astype(np.int64)
    busiest = np.bincount(slots).argmax()
    gaps = np.diff(np.sort(arrived_ns[slots == busiest])).astype(np.float64)[:gaps_max]
    return gaps / gaps.mean() if len(gaps) >= 500 and gaps.mean() > 0 else None
