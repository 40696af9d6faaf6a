"""A tile: one of the few figures that are shown first."""

from __future__ import annotations

from typing import Literal

import msgspec

from seatrial.stats.model import Estimate


class Tile(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of the first screen.

    Attributes:
        label: What it is, such as ``8 KiB random read``.
        estimate: The figure with its interval.
        detail: A second figure of the same test in words, such as ``p99 280 µs``; may be empty.
        test: The test it comes from, in words.
        cell: The test's key.
        better: Whether a higher or a lower figure is better.
        grade: By the chosen profile or a threshold; empty where neither judges it.
        limit: What it was graded by, in words.
        rank: Its rank among the user's earlier runs, in words; empty without any.
    """

    label: str
    estimate: Estimate
    detail: str = ""
    test: str
    cell: str
    better: Literal["higher", "lower"] = "higher"
    grade: Literal["", "good", "marginal", "poor", "unknown"] = ""
    limit: str = ""
    rank: str = ""
