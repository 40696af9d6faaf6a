"""Many questions at once: who asks a hundred is lied to five times, unless he asks for more.

All that one comparison says is said together: over every cell, figure and side that is compared
at once, at most one comparison in twenty of equal things calls anything different. Half of the
5 % is for the overall ratios, half for the cells, each half by Holm's method (1979, A simple
sequentially rejective multiple test procedure); a half that has done all of its work passes to
the other (Bretz, Maurer, Brannath and Posch 2009, A graphical approach to sequentially rejective
multiple test procedures).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

ALPHA = 0.05


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p values after Holm's adjustment, in the given order."""
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for step, place in enumerate(order):
        largest = max(largest, (len(p_values) - step) * p_values[place])
        adjusted[place] = min(1.0, largest)
    return adjusted


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """The adjusted p values of one half, and the level of its intervals.

    Attributes:
        p_adjusted: In the given order; at most 0.05 is a difference.
        alpha: The level 1 - alpha at which an interval leaves out a ratio of 1 exactly where
            Holm finds a difference: the half's share of 5 % over the questions still open.
    """

    p_adjusted: list[float]
    alpha: float


def judge(overall: Sequence[float], cells: Sequence[float]) -> tuple[Judged, Judged]:
    """Return what Holm's method makes of the overall ratios and of the cells.

    Args:
        overall: p values of the overall ratios; none where each is the ratio of its only cell.
        cells: p values of the cells.
    """
    holm_overall, holm_cells = holm(overall), holm(cells)
    return (
        _half(holm_overall, share=0.5 if cells else 1.0, other=holm_cells),
        _half(holm_cells, share=0.5 if overall else 1.0, other=holm_overall),
    )


def _half(own: Sequence[float], *, share: float, other: Sequence[float]) -> Judged:
    """Return a half judged at its share of the 5 %, or at all of it once the other is done."""
    if share == 1:
        adjusted = list(own)
        alpha = ALPHA
    else:
        other_done = max((p / (1 - share) for p in other), default=0.0)
        adjusted = [min(1.0, p / share, max(other_done, p)) for p in own]
        alpha = ALPHA if other_done <= ALPHA else share * ALPHA
    still_open = sum(p > ALPHA for p in adjusted)
    return Judged(p_adjusted=adjusted, alpha=alpha / max(1, still_open))
