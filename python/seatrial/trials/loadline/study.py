"""What a load line asks for: the percentile and its limit, and the cells at each offered rate."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any, ClassVar, Final

import msgspec
from msgspec import field

from seatrial.study.cell import Cell
from seatrial.study.units import format_factor
from seatrial.study.values import Depths, ManyThreads, Operations, Percentile, Schedule, Seconds
from seatrial.trials.io.study.workloads import Patterned

LOADLINE: Final = "loadline"
"""The kind of workload whose cells are measured at rates that are found on the way."""
SAMPLES_MAX: Final = 80
"""Most samples of one load line, the closed loop among them."""
SAMPLES_MIN: Final = 10
"""A budget with room for fewer would end in the search."""
LATENCY_EXPECTED: Final = "a time with its unit: ns, us, ms or s, such as 5ms or 250us"

_NS: Final = {"ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_LATENCY: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) *(ns|us|µs|ms|s)")
_BARE: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?")


class Loadline(Patterned, frozen=True, kw_only=True, tag="loadline"):
    """The highest rate at which a percentile of the response times keeps within a limit.

    Its rates are sought while it runs, so neither ``rate`` nor ``burst`` can be given; its cells
    in the plan are the closed loop that it begins with. Each combination of factors is a load
    line of its own.

    Attributes:
        duration_s: How long one sample lasts at least (``seconds``); longer at rates at which the
            percentile needs more time to have enough requests.
        arrival: ``poisson`` or ``fixed``: when requests are due.
        percentile: ``p50``, ``p90``, ``p99`` or ``p99.9``; what must keep within the limit.
        limit: The limit, a time with its unit, such as ``5ms``.
        budget_s: Seconds that each load line may take (``budget_seconds``).
        threads: Concurrent workers; with ``depths``, how many requests can be in flight.
        depths: Requests that each worker has in flight at most.
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
    def can_break_meanwhile(self) -> bool:
        """Never: it takes as many samples as its search needs."""
        return False


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """The next step of a load line: measure this rate once, for the first time or again.

    Attributes:
        rate_per_s: Requests per second over all threads.
        sample_s: Length of the sample; always the same for one rate.
        rest_s: How long the target is left alone before, so that the backlog of an overload does
            not distort what follows.
    """

    rate_per_s: float
    sample_s: float
    rest_s: float


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a load line.

    Attributes:
        reason: Why it ended, as a sentence.
    """

    reason: str


NextStep = Offer | Done
"""What is measured next, or that it is enough."""


def parse_latency_ns(written: str) -> int:
    """Return a latency in ns.

    Args:
        written: A number and its unit, such as ``5ms``; milli- and microseconds are a thousand
            apart, so a number alone is refused.

    Raises:
        ValueError: with a sentence, when it is no latency, has no unit, or is not above 0.
    """
    text = written.strip()
    parts = _LATENCY.fullmatch(text)
    if parts is None:
        if _BARE.fullmatch(text):
            raise ValueError(f"{text!r} has no unit; write {text}ms or {text}us")
        raise ValueError(f"{text!r} is no time")
    latency_ns = int(Fraction(parts[1]) * _NS[parts[2]])
    if latency_ns < 1:
        raise ValueError(f"{text!r} is not above 0")
    return latency_ns


def at_rate(template: Cell, arrival: str, rate_per_s: float, sample_s: float) -> Cell:
    """Return the cell of a load line at a rate: the template under a schedule.

    Args:
        template: The closed loop, as the plan has it.
        arrival: ``poisson`` or ``fixed``.
        rate_per_s: Requests per second over all threads.
        sample_s: Length of a sample.
    """
    limit = {**template.spec["limit"], "duration_s": sample_s}
    schedule: dict[str, Any] = {"kind": arrival, "rate_per_s": rate_per_s}
    return msgspec.structs.replace(
        template,
        key=f"{template.key}/arrival={arrival}/rate={format_factor(rate_per_s)}",
        factors=template.factors | {"arrival": arrival, "rate": rate_per_s},
        spec={**template.spec, "arrival": schedule, "limit": limit},
    )


def template_key(cell: Cell) -> str:
    """Return the key of the template that a cell of a load line was made of."""
    return cell.key.partition("/arrival=")[0]
