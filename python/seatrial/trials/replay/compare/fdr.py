"""Many queries at once: of those called different, at most one in twenty is not, on the average.

Benjamini and Hochberg 1995, "Controlling the false discovery rate". Where nothing differs at all
that is as strict as can be: at most one comparison in twenty calls any query different. The
intervals are those of Benjamini and Yekutieli 2005, "False discovery rate-adjusted multiple
confidence intervals for selected parameters": of the level at which an interval leaves out a
ratio of 1 exactly where the query is called different.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

LEVEL = 0.05


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of many p values.

    Attributes:
        p_adjusted: In the given order; at most 0.05 is a discovery.
        alpha: The intervals have level 1 - alpha.
    """

    p_adjusted: list[float]
    alpha: float


def judge(p_values: Sequence[float]) -> Judged:
    """Return p values after adjustment, and the level of the intervals."""
    if not p_values:
        return Judged(p_adjusted=[], alpha=LEVEL)
    from scipy.stats import false_discovery_control  # noqa: PLC0415  (1 s; only analyses pay)

    adjusted = [float(each) for each in false_discovery_control(p_values, method="bh")]
    found = sum(each <= LEVEL for each in adjusted)
    return Judged(p_adjusted=adjusted, alpha=LEVEL * max(1, found) / len(p_values))
