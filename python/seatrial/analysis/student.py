"""Student's t: how far a mean of few values may lie from the truth."""

from __future__ import annotations

import functools

CONFIDENCE = 0.95


@functools.cache
def t_of(degrees: float) -> float:
    """Return Student's t that 95 % of means stay within; ``degrees`` of freedom are above 0."""
    from scipy.special import stdtrit  # noqa: PLC0415  (0.3 s to import; only an analysis pays)

    return float(stdtrit(degrees, (1 + CONFIDENCE) / 2))
