"""The workload ``loadline``: percentile and limit, and its cells at each offered rate."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec
from msgspec import field

from seatrial.study.cell import Cell
from seatrial.study.units import format_factor
from seatrial.study.values import Depths, ManyThreads, Operations, Percentile, Schedule, Seconds
from seatrial.trials.io.study.workloads import Patterned

if TYPE_CHECKING:
    from seatrial.results.model import Sample

LOADLINE: Final = "loadline"
"""The kind of workload whose rates are found during the measurement."""
SAMPLES_MAX: Final = 80
"""Maximum samples of one load line, including the closed loop."""
SAMPLES_MIN: Final = 10
"""A budget for fewer samples would end during the search."""
SHARE_OF_BUDGET_MAX: Final = 1 / 6
"""The longest sample of a load line, since its limit takes many."""
LIMITS_TO_FILL: Final = 4.0
"""Samples must be longer than this many latency limits for a queue to show in them."""
LATENCY_EXPECTED: Final = "a time with its unit: ns, us, ms or s, such as 5ms or 250us"

_NS: Final = {"ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_LATENCY: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) *(ns|us|µs|ms|s)")
_BARE: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?")


class Loadline(Patterned, frozen=True, kw_only=True, tag="loadline"):
    """The highest rate at which a percentile of the response times meets a limit.

    It searches for its rates while it runs, so neither ``rate`` nor ``burst`` can be given; its
    cell in the plan is the initial closed loop. Each combination of factors is a separate load
    line.

    Attributes:
        duration_s: Minimum duration of a sample (``seconds``); longer at rates at which the
            percentile needs more time to have enough requests.
        arrival: ``poisson`` or ``fixed``: when requests are due.
        percentile: ``p50``, ``p90``, ``p99`` or ``p99.9``; the limited percentile.
        limit: The limit, a time with its unit, such as ``5ms``.
        budget_s: Maximum duration of each load line in seconds (``budget_seconds``).
        threads: Concurrent workers; with ``depths``, the number of requests in flight.
        depths: Maximum requests in flight per worker.
    """

    ENDS_BY_ITSELF: ClassVar[bool] = False
    SEEKS_RATE: ClassVar[bool] = True

    operations: Operations = "read"
    duration_s: Seconds = field(default=2.0, name="seconds")
    arrival: Schedule = "poisson"
    percentile: Percentile = "p99"
    limit: str
    budget_s: Seconds = field(default=90.0, name="budget_seconds")
    threads: ManyThreads = 4
    depths: Depths = 32

    @property
    def allows_faults(self) -> bool:
        """Always False: the number of samples depends on the search."""
        return False


class RateStep(msgspec.Struct, frozen=True, kw_only=True):
    """The next step of a load line: measure this rate once more.

    Attributes:
        rate_per_s: Requests per second over all threads.
        sample_s: Duration of the sample; always the same for one rate.
        rest_s: Idle time before the sample, so that the backlog of an overload does not distort
            it.
    """

    rate_per_s: float
    sample_s: float
    rest_s: float


class SearchEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a load line.

    Attributes:
        reason: Why it ended, as a sentence.
    """

    reason: str


NextStep = RateStep | SearchEnd
"""The next measurement, or the end."""
Decide = Callable[[Sequence["Sample"]], NextStep]
"""Returns the next step from the samples of one load line, in the order of measurement."""


def parse_latency_ns(written: str) -> int:
    """Return a latency in ns.

    Args:
        written: A number and its unit, such as ``5ms``; a number without a unit is rejected.

    Raises:
        ValueError: with a sentence, if it is not a time, has no unit, or is not above 0.
    """
    text = written.strip()
    parts = _LATENCY.fullmatch(text)
    if parts is None:
        if _BARE.fullmatch(text):
            raise ValueError(f"{text!r} has no unit; write {text}ms or {text}us")
        raise ValueError(f"{text!r} is not a time")
    latency_ns = int(Fraction(parts[1]) * _NS[parts[2]])
    if latency_ns < 1:
        raise ValueError(f"{text!r} is not above 0")
    return latency_ns


def at_rate(template: Cell, arrival: str, rate_per_s: float, sample_s: float) -> Cell:
    """Return the cell of a load line at a rate: the template under a schedule.

    Args:
        template: The closed loop, as in the plan.
        arrival: ``poisson`` or ``fixed``.
        rate_per_s: Requests per second over all threads.
        sample_s: Duration of a sample.
    """
    limit = {**template.spec["limit"], "duration_s": sample_s}
    schedule = {"kind": arrival, "rate_per_s": rate_per_s}
    return msgspec.structs.replace(
        template,
        key=f"{template.key}/arrival={arrival}/rate={format_factor(rate_per_s)}",
        factors=template.factors | {"arrival": arrival, "rate": rate_per_s},
        spec={**template.spec, "arrival": schedule, "limit": limit},
    )


def template_key(cell: Cell) -> str:
    """Return the key of the template of a load line's cell."""
    return cell.key.partition("/arrival=")[0]
