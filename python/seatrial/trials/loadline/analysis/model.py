"""What a load line is: latency against offered load, and the highest load within a limit."""

from __future__ import annotations

from typing import Literal

import msgspec

from seatrial.stats.estimate import AtLeast, Estimate
from seatrial.stats.model import Analysed

Break = Literal["none", "knee", "cliff", "stalls", "service", "undecided"]
"""How it breaks: not at all within what was tried, by latency that grows, at once, by freezes,
because one request alone takes longer than the limit, whatever the rate, or nobody knows: no rate
surely breaks, or none surely holds."""


class LoadStep(msgspec.Struct, frozen=True, kw_only=True):
    """One offered rate.

    Attributes:
        cell: Key of the cell.
        offered_per_s: Requests per second that the schedule offered.
        completed_per_s: What came out of it.
        response: By percentile name, response time from the intended start, in ns; a percentile
            is absent where it is not known (too few requests, or too many never ended).
        response_at_least: By percentile name, the lower bound (ns) of a response time that is
            absent because requests were skipped or never ended.
        service: The same as ``response`` from the actual start.
        above: Share of the offered requests that took longer than the limit, failed, were skipped
            as too late or never ended (unit ``ratio``), without the start of each sample; as all
            rates together tell it, since it does not fall as the rate rises.
        late_share: Share of the offered requests that were skipped as too late or never ended.
        stalls: Stalls over all rounds.
        holds: Whether the percentile is within the limit with confidence: True, False, or None
            while its interval reaches across the limit.
    """

    cell: str
    offered_per_s: float
    completed_per_s: Estimate
    response: dict[str, Estimate]
    service: dict[str, Estimate]
    above: Estimate
    late_share: float
    stalls: int
    holds: bool | None
    response_at_least: dict[str, AtLeast] = {}


class LoadLine(msgspec.Struct, frozen=True, kw_only=True):
    """Latency against load.

    Attributes:
        target: Label of the target.
        workload: Name of the workload.
        percentile: Name of the percentile that is limited, such as ``p99``.
        limit_ns: Its limit.
        cell: Key of the closed loop that it began with; every step's key begins with it.
        steps: By offered rate, rising.
        sustained: The most it sustains (``IOPS``): where the percentile crosses the limit, between
            the highest rate that surely holds and the lowest that surely breaks, which are the ends
            of the interval. Value and lower end are at most what gets done while requests queue.
            ``high`` is None where no rate broke; None where none surely holds.
        broken_per_s: The lowest rate that surely breaks, so that less is sustained, though perhaps
            nothing is known to be; None where none surely breaks.
        closed_loop: What a closed loop reached first, for scale; None where it was not measured.
        breaks: How it breaks beyond.
        knee_per_s: Where the percentile leaves its floor; None where it does not, or where
            nothing is decided.
        generator: Why the load generator, not the target, was the limit; empty where it was not.
        sentence: The answer in one sentence.
        cause: How it breaks, in words, with figures.
    """

    target: str
    workload: str
    percentile: str
    limit_ns: int
    cell: str
    steps: list[LoadStep]
    sustained: Estimate | None
    closed_loop: Estimate | None
    breaks: Break
    broken_per_s: float | None = None
    knee_per_s: float | None = None
    generator: str = ""
    sentence: str
    cause: str


def load_lines_of(analysed: Analysed) -> list[LoadLine]:
    """Return the load lines of a run."""
    found: list[LoadLine] = analysed.analyses.get("loadline", [])
    return found
