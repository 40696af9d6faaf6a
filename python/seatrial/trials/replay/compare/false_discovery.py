"""Adjustment of the p values of many queries.

Benjamini and Hochberg 1995, "Controlling the false discovery rate". If nothing differs, this is as
strict as possible: at most one comparison in twenty reports any query as different. The intervals
are those of Benjamini and Yekutieli 2005, "False discovery rate-adjusted multiple confidence
intervals for selected parameters", at the level at which an interval excludes a ratio of 1 exactly
if the query is reported as different.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

LEVEL = 0.05


class AdjustedPValues(msgspec.Struct, frozen=True, kw_only=True):
    """The adjustment of many p values.

    Attributes:
        p_adjusted: In the given order; at most 0.05 is a discovery.
        alpha: The intervals have level 1 - alpha.
    """

    p_adjusted: list[float]
    alpha: float


def adjust_p_values(p_values: Sequence[float]) -> AdjustedPValues:
    """Return p values after adjustment, and the level of the intervals."""
    if not p_values:
        return AdjustedPValues(p_adjusted=[], alpha=LEVEL)
    from scipy.stats import false_discovery_control  # noqa: PLC0415  (1 s; only analyses pay)

    adjusted = [float(each) for each in false_discovery_control(p_values, method="bh")]
    found = sum(each <= LEVEL for each in adjusted)
    return AdjustedPValues(p_adjusted=adjusted, alpha=LEVEL * max(1, found) / len(p_values))
