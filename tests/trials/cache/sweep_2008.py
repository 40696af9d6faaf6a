"""The sweep of a database's cache that was published in 2008, each size predicted from the others.

Source: P. Wetter, "Your next XRaid may be an SSD", webobjects-dev, 2008-12-15; figures in
reference/sql-replay-2008.csv. The law is that of ``trials.database.analysis.cache_sweep``; its
processor time is that of the run on SSDs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from seatrial.units import MIB
from trials.database.analysis.published import law_of_rates

_SCHEMA: Final = "new"
_DISK: Final = "single-hdd"


class Error2008(NamedTuple):
    """A size of the sweep, predicted from the other three.

    Attributes:
        cache_mb: Size of the cache, as published.
        published_per_s: Lines of SQL a second.
        predicted_per_s: As predicted.
        error_share: Predicted over published, less 1.
    """

    cache_mb: int
    published_per_s: float
    predicted_per_s: float
    error_share: float


def errors_of_2008(rows: Sequence[Mapping[str, str]]) -> list[Error2008]:
    """Return each size of the sweep on one disk, the smallest first.

    Args:
        rows: Rows of reference/sql-replay-2008.csv.

    Raises:
        ValueError: if there are fewer than four sizes.
    """
    own = [each for each in rows if each["schema"] == _SCHEMA]
    rates = {
        int(each["cache_rdd_mb"]): float(each["lines_per_second"])
        for each in own
        if each["storage"] == _DISK
    }
    cpu_s = 1 / max(float(each["lines_per_second"]) for each in own)
    found = []
    for size, published in sorted(rates.items()):
        others = {other: rate for other, rate in rates.items() if other != size}
        model = law_of_rates([other * MIB for other in others], list(others.values()), cpu_s=cpu_s)
        predicted = model.rate_per_s(size * MIB).value
        found.append(Error2008(size, published, predicted, predicted / published - 1))
    return found
