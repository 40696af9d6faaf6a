"""A table of one block size: a cell is odd where its neighbours say so, too.

With one block size a model has one curve: the rate over the requests in flight. What it misses is
as often its own error as that of a cell: a hard disk that sorts its queue grows otherwise than any
closed network. So a cell counts as odd only as far as it is off from the cells with as many in
flight, or, where there are none, from the line between those with fewer and with more.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from seatrial.trials.audit.analysis import monotone
from seatrial.trials.audit.analysis.model import CellTable, TablePoint
from seatrial.trials.audit.analysis.tables import known_points


def confirmed_by_neighbours(
    table: CellTable, predicted_per_s: Mapping[str, float]
) -> dict[str, float]:
    """Return what each cell should do: between the model and its neighbours, the nearer to it.

    Args:
        table: The table; one of several block sizes is left to its model.
        predicted_per_s: What the model says, by key.
    """
    if len({point.block_size_bytes for point in table.points}) > 1:
        return dict(predicted_per_s)
    points, at_least = known_points(table), monotone.expected_at_least(table)
    expected = dict(predicted_per_s)
    for point in points:
        predicted = predicted_per_s.get(point.key)
        if predicted is None or point.iops is None:
            continue
        seen, is_slow = point.iops.value, point.iops.value < predicted
        said = _said_by_neighbours(point, points, is_slow=is_slow)
        if is_slow:
            said = max(said, at_least.get(point.key, 0.0))
            expected[point.key] = max(seen, min(predicted, said))
        else:
            expected[point.key] = min(seen, max(predicted, said))
    return expected


def _said_by_neighbours(point: TablePoint, points: Sequence[TablePoint], *, is_slow: bool) -> float:
    """Return what others say of a cell; at the ends of a table what would surely be odd.

    A rate grows with what is in flight, and no faster than in proportion.
    """
    levels: dict[int, list[float]] = {}
    for other in points:
        if other.key != point.key and other.iops:
            levels.setdefault(other.concurrency, []).append(other.iops.value)
    rates = {level: statistics.median(values) for level, values in levels.items()}
    own = point.concurrency
    if own in rates:
        return rates[own]
    below = max((level for level in rates if level < own), default=None)
    above = min((level for level in rates if level > own), default=None)
    if below is not None and above is not None:
        share = math.log(own / below) / math.log(above / below)
        return math.exp((1 - share) * math.log(rates[below]) + share * math.log(rates[above]))
    other_end = below or above or own
    in_proportion = is_slow == (below is None)
    return rates.get(other_end, 0.0) * (own / other_end if in_proportion else 1.0)
