"""A figure with an interval and an origin, and draws from it."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

import msgspec

from seatrial.errors import UsageError
from seatrial.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

TAIL_Z: Final = 1.6448536269514722
"""Standard normal quantile of 95 %: intervals here have their ends at 5 and 95 %."""
FORECAST_Z: Final = 1.959963984540054
"""Likewise of 97.5 %: the ends of a forecast of commits hold 95 % of its scenarios."""
_SEPARATOR: Final = ".."
_NUMBER: Final = re.compile(r"([0-9.eE+-]+)\s*(%?)")


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A figure above 0 with the quantiles of 5, 50 and 95 %.

    Attributes:
        low: The lower end.
        mid: Its median.
        high: The upper end.
        origin: ``measured``, ``recorded``, ``catalogue``, ``typed`` or ``assumed``, and of what.
    """

    low: float
    mid: float
    high: float
    origin: str

    def __post_init__(self) -> None:
        """Refuse ends in the wrong order; raises ValueError."""
        if not 0 <= self.low <= self.mid <= self.high < math.inf:
            raise ValueError(f"{self.low}..{self.mid}..{self.high} is not an interval above 0")

    def at(self, normal: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the figure at standard normal deviates, log-normal on either side of its median.

        Below the median of an interval from 0 it falls linearly, to 0 at 5 %; above a median of 0
        it rises so.

        The same deviates give the same scenarios to whatever depends on the figure.
        """
        if self.low == self.high:
            return np.full_like(normal, self.mid)
        if self.mid == 0:
            return np.maximum(0.0, self.high * normal / TAIL_Z)
        up = math.log(self.high / self.mid) / TAIL_Z
        above = self.mid * np.exp(up * np.maximum(normal, 0.0))
        if self.low == 0:
            below = np.maximum(0.0, self.mid * (1 + normal / TAIL_Z))
        else:
            down = math.log(self.mid / self.low) / TAIL_Z
            below = self.mid * np.exp(down * np.minimum(normal, 0.0))
        return np.asarray(np.where(normal > 0, above, below))

    def times(self, factor: float, origin: str = "") -> Figure:
        """Return the figure multiplied by a factor."""
        return Figure(
            low=self.low * factor,
            mid=self.mid * factor,
            high=self.high * factor,
            origin=origin or self.origin,
        )


def exact(value: float, origin: str) -> Figure:
    """Return a figure without an interval."""
    return Figure(low=value, mid=value, high=value, origin=origin)


def parse_figure(text: str, what: str, origin: str = "typed") -> Figure:
    """Return a figure as it is typed: ``5``, ``3..8`` or ``3..5..8``; ``%`` is a hundredth.

    Args:
        text: The typed text.
        what: Its name in messages.
        origin: Its source.

    Raises:
        UsageError: when it is invalid.
    """
    try:
        values = [_number(each) for each in text.split(_SEPARATOR)]
        if len(values) == 1:
            return exact(values[0], origin)
        if len(values) == 2:
            # The geometric mean of an interval from 0 would be 0.
            values.insert(1, math.sqrt(values[0] * values[1]) or values[1] / 2)
        low, mid, high = values
        return Figure(low=low, mid=mid, high=high, origin=origin)
    except ValueError:
        raise UsageError(
            seen=f"{text!r} is not a valid {what}",
            cause="A figure is a number, or an interval such as 3..8 or 3..5..8, from low to high",
            next_step=f"Give {what} as one number, or as its two ends, separated by two dots",
        ) from None


def parse_share(text: str, what: str, origin: str = "typed", below: float = 1.0) -> Figure:
    """Return a share as it is typed, such as ``1%`` or ``0.002..0.05``.

    Args:
        text: The typed text.
        what: Its name in messages.
        origin: Its source.
        below: What it has to be below.

    Raises:
        UsageError: when it is invalid.
    """
    found = parse_figure(text, what, origin)
    if found.high >= below:
        raise UsageError(
            seen=f"{what} {text} is {found.high * 100:g} %",
            cause=f"It has to be below {below * 100:,.0f} %; without a percent sign, 1 is 100 %",
            next_step=f"For example: {what} 1%",
        )
    return found


def _number(text: str) -> float:
    found = _NUMBER.fullmatch(text.strip())
    if not found:
        raise ValueError(text)
    return float(found[1]) * (0.01 if found[2] else 1.0)
