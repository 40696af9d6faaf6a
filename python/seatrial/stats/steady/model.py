"""What the search for steady state gives. Pure data."""

from __future__ import annotations

from typing import Literal

import msgspec

from seatrial.stats.estimate import Estimate

State = Literal["fresh", "transition", "steady", "left"]
"""``fresh``: faster than it will be, before the first change; ``transition``: on its way;
``steady``: at its lasting level; ``left``: away from a level that had been steady."""


class RuleResult(msgspec.Struct, frozen=True, kw_only=True):
    """What one rule of steady state says.

    Attributes:
        rule: ``snia``, ``fio_deviation`` or ``fio_slope``.
        met: Whether the last window keeps it.
        met_at_s: When a window first kept it, from the start, even where a later one does not;
            None where none did, or where no times are known.
        met_after: How many values had been seen by then; None where no window kept it.
        window: How many values the last window has; 0 where there were too few for one.
        range_share: Largest less smallest value of the last window over their mean.
        line_share: By how much the fitted line moves over the last window, over the mean.
        sentence: The rule and what became of it, with figures.
    """

    rule: str
    met: bool
    met_at_s: float | None
    met_after: int | None = None
    window: int
    range_share: float | None
    line_share: float | None
    sentence: str


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of time at one level.

    Attributes:
        state: What it is.
        start_s: From the start of the series.
        end_s: From the start of the series.
        rate: Requests per second, with an interval that pays for autocorrelation.
    """

    state: State
    start_s: float
    end_s: float
    rate: Estimate


class SteadyState(msgspec.Struct, frozen=True, kw_only=True):
    """One operation kind of one cell over time, or of one cell over many rounds.

    Attributes:
        cell: Key of the cell.
        operation: ``read``, ``write`` ...: reads and writes are judged apart.
        over: Whether time runs within one sample (``timeline``) or over rounds (``rounds``).
        round: The round whose timeline it is; None over rounds.
        rules: What each rule says.
        phases: In order of time, at least one.
        sentence: The phases in words, with times and rates.
    """

    cell: str
    operation: str
    over: Literal["timeline", "rounds"]
    round: int | None
    rules: list[RuleResult]
    phases: list[Phase]
    sentence: str
