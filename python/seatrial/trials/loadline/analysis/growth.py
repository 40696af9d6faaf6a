"""Whether a backlog grows: within the limit still, but not for long."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from seatrial.trials.loadline.analysis.limit_counts import LimitCounts

SUSTAINED_S = 60.0
"""What is sustained holds for a minute, though a sample is shorter."""
CLUSTERS_MIN = 8
RANK_CORRELATION_MIN = 0.7
CHANCE_MAX = 0.001
"""Of few clusters more must follow time: ten reach 0.7 by chance in 1 % of the samples."""


def grows(limit_counts: Sequence[LimitCounts], limit_ns: int) -> bool:
    """Tell whether the mean response time rises in most rounds so as to break the limit.

    A queue near its capacity wavers; a backlog rises throughout. So the ranks of the means must
    follow time (Spearman at least 0.7, and by chance in at most 0.1 % of cases), and the line
    fitted through them must reach the limit within a minute.
    """
    return sum(_grows(part, limit_ns) for part in limit_counts) * 2 > len(limit_counts)


@lru_cache(maxsize=512)  # a search looks at each sample after each
def _grows(part: LimitCounts, limit_ns: int) -> bool:
    import numpy as np  # noqa: PLC0415 - only an analysis pays for numpy and scipy
    from scipy.stats import spearmanr  # noqa: PLC0415

    # What ends after the schedule did is the backlog's end, not its growth.
    clusters = min(math.floor(part.schedule_s / part.cluster_s + 1e-9), len(part.mean_ns))
    means_ns = np.array(part.mean_ns[:clusters])
    times_s = (np.arange(clusters) + 0.5) * part.cluster_s
    known = np.isfinite(means_ns)
    means_ns, times_s = means_ns[known], times_s[known]
    if len(means_ns) < CLUSTERS_MIN or np.ptp(means_ns) == 0:
        return False
    followed = spearmanr(times_s, means_ns, alternative="greater")
    if followed.statistic < RANK_CORRELATION_MIN or followed.pvalue > CHANCE_MAX:
        return False
    slope, start_ns = np.polyfit(times_s, means_ns, 1)
    return bool(start_ns + slope * SUSTAINED_S > limit_ns)
