"""What a load line asks for: the percentile and its limit, and the cells at each offered rate."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any, Final

import msgspec

from seatrial.study.cell import Cell
from seatrial.study.units import format_factor

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


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """The next step of a load line: measure this rate once, for the first time or again.

    Attributes:
        rate_per_s: Requests per second over all threads.
        sample_s: Length of the sample; always the same for one rate.
        rest_s: How long the target is left alone before, so that the backlog of an overload does
            not spoil what follows.
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
