"""Gaps: cells far below what the rest of the table says, their class and how often they were seen.

A cell is odd when the logarithm of observed over predicted is below ``-max(4 * scale, ln 1.5)``.
It is called a gap when every one of its rounds is that odd, or its interval ends below; a cell
whose rounds straddle the limit is called only where some round is twice as far below it: that is
no scatter. Cells without a figure are gaps whatever the model says.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from seatrial.analysis.audit.model import CellTable, Gap, GapKind, GapStatus, TablePoint
from seatrial.analysis.wording import (
    format_iops,
    format_plural,
    format_rate_bytes,
    format_share,
    format_size,
)

GAP_SCALES: Final = 4.0
GAP_LOG_MIN: Final = math.log(1.5)
CLEARLY_FACTOR: Final = 2.0
START_PLACES_MAX: Final = 6
COLLAPSE_SIZES_MIN: Final = 2
POINTS_NAMED_MAX: Final = 4
BOUND_SHARE_MAX: Final = 1.02
PASSED: Final = (
    "Other rounds of the same cells are sound: a hiccup, a neighbour, or a background task of the "
    "device."
)
ORDER: Final[tuple[GapKind, ...]] = (
    "collapse",
    "absent",
    "bound_broken",
    "start_transient",
    "noise",
)


def gap_limit_log(scale_log: float) -> float:
    """Return how far below its prediction a cell's logarithm may be and still be no gap."""
    return max(GAP_SCALES * scale_log, GAP_LOG_MIN)


def find_gaps(
    table: CellTable,
    predicted_per_s: Mapping[str, float],
    scale_log: float,
    *,
    bound_bytes_per_s: float | None = None,
) -> list[Gap]:
    """Return the gaps of a table, the gravest first.

    Args:
        table: The table.
        predicted_per_s: What each cell should do, by key; cells without one are not judged.
        scale_log: Scatter of the logarithms of observed over predicted.
        bound_bytes_per_s: What the path can carry at most; None where that is not known.
    """
    limit_log = gap_limit_log(scale_log)
    odd = [
        point
        for point in table.points
        if point.key in predicted_per_s and _is_gap(point, predicted_per_s[point.key], limit_log)
    ]
    started = _at_start(table, odd)
    rest = [point for point in odd if point not in started]
    gaps = [_start_transient(table, started, predicted_per_s)] if started else []
    for group in _contiguous(table, rest):
        is_collapse = len({point.block_size_bytes for point in group}) >= COLLAPSE_SIZES_MIN
        told = _collapse if is_collapse else _noise
        gaps.append(told(table, group, predicted_per_s, limit_log))
    absent = [point for point in table.points if point.measured and point.iops is None]
    gaps += [_absent(table, absent)] if absent else []
    gaps += _bound_broken(table, bound_bytes_per_s)
    return sorted(gaps, key=lambda gap: ORDER.index(gap.kind))


def ratio_to(point: TablePoint, predicted_per_s: float) -> float:
    """Return observed over predicted; 0 for a cell without a figure."""
    return point.iops.value / predicted_per_s if point.iops else 0.0


def name_points(points: Sequence[TablePoint]) -> str:
    """Return cells as a reader names them: ``512 B at 1 and 10 threads``."""
    by_size: dict[int, list[TablePoint]] = {}
    for point in points:
        by_size.setdefault(point.block_size_bytes, []).append(point)
    parts = []
    for size_bytes, same_size in by_size.items():
        counts = [str(point.concurrency) for point in same_size]
        told = " and ".join(filter(None, [", ".join(counts[:-1]), counts[-1]]))
        unit = "thread" if all(point.depth == 1 for point in same_size) else "request"
        ending = unit if counts == ["1"] else f"{unit}s"
        in_flight = "" if unit == "thread" else " in flight"
        parts.append(f"{format_size(size_bytes)} at {told} {ending}{in_flight}")
    return "; ".join(parts)


def _is_gap(point: TablePoint, predicted_per_s: float, limit_log: float) -> bool:
    if point.iops is None:
        return False
    limit_per_s = predicted_per_s * math.exp(-limit_log)
    rounds = point.rounds_per_s
    if len(rounds) <= 1:
        return (point.iops.high or point.iops.value) < limit_per_s
    ends_below = point.iops.high is not None and point.iops.high < limit_per_s
    some_far_below = min(rounds) < predicted_per_s * math.exp(-CLEARLY_FACTOR * limit_log)
    return max(rounds) < limit_per_s or ends_below or some_far_below


def _status(
    points: Sequence[TablePoint], predicted_per_s: Mapping[str, float], limit_log: float
) -> GapStatus:
    """Return how often the gap was seen: that of the point which was measured the most."""
    most = max(points, key=lambda point: len(point.rounds_per_s))
    if len(most.rounds_per_s) <= 1:
        return "seen_once"
    limit_share = math.exp(-limit_log)
    everywhere = all(
        rate < predicted_per_s[point.key] * limit_share
        for point in points
        for rate in point.rounds_per_s
    )
    return "persistent" if everywhere else "transient"


def _at_start(table: CellTable, odd: Sequence[TablePoint]) -> list[TablePoint]:
    """Return the odd cells that were measured first of all, without a sound one between."""
    by_place = {point.place: point for point in table.points}
    odd_keys = {point.key for point in odd}
    started: list[TablePoint] = []
    for place in range(min(START_PLACES_MAX, len(table.points) // 2)):
        point = by_place.get(place)
        if point is None or point.key not in odd_keys:
            break
        started.append(point)
    return started


def _contiguous(table: CellTable, points: Sequence[TablePoint]) -> list[list[TablePoint]]:
    """Return the points in groups whose block sizes follow each other in the table."""
    sizes = sorted({point.block_size_bytes for point in table.points})
    groups: list[list[TablePoint]] = []
    for point in sorted(points, key=lambda p: (p.block_size_bytes, p.concurrency)):
        rank = sizes.index(point.block_size_bytes)
        if groups and rank - sizes.index(groups[-1][-1].block_size_bytes) <= 1:
            groups[-1].append(point)
        else:
            groups.append([point])
    return groups


def _worst(points: Sequence[TablePoint], predicted_per_s: Mapping[str, float]) -> TablePoint:
    return min(points, key=lambda point: ratio_to(point, predicted_per_s[point.key]))


def _seen_and_expected(point: TablePoint, predicted_per_s: Mapping[str, float]) -> str:
    seen = format_iops(point.iops.value) if point.iops else "no"
    return f"{seen} IOPS where {format_iops(predicted_per_s[point.key])} are expected"


def _named(points: Sequence[TablePoint]) -> str:
    if len(points) <= POINTS_NAMED_MAX:
        return name_points(points)
    return format_plural(len(points), "cell")


def _start_transient(
    table: CellTable, points: Sequence[TablePoint], predicted_per_s: Mapping[str, float]
) -> Gap:
    worst = _worst(points, predicted_per_s)
    first, did = "The first cell", "it did"
    if len(points) > 1:
        first, did = f"The first {len(points)} cells", "the worst did"
    return Gap(
        kind="start_transient",
        keys=[point.key for point in points],
        status=_status(points, predicted_per_s, GAP_LOG_MIN),
        ratio=ratio_to(worst, predicted_per_s[worst.key]),
        sentence=(
            f"{first} measured ({_named(points)}, {table.operation}s): {did} "
            f"{_seen_and_expected(worst, predicted_per_s)}."
        ),
        cause=(
            "Likely what came before still went on: a write cache that drains what filled the "
            "file, while requests wait."
        ),
    )


def _collapse(
    table: CellTable,
    points: Sequence[TablePoint],
    predicted_per_s: Mapping[str, float],
    limit_log: float,
) -> Gap:
    worst = _worst(points, predicted_per_s)
    low, high = (format_size(points[end].block_size_bytes) for end in (0, -1))
    ratios = sorted(ratio_to(point, predicted_per_s[point.key]) for point in points)
    status = _status(points, predicted_per_s, limit_log)
    return Gap(
        kind="collapse",
        keys=[point.key for point in points],
        status=status,
        ratio=ratios[0],
        sentence=(
            f"{table.operation.capitalize()}s from {low} to {high} collapse: "
            f"{format_plural(len(points), 'cell')} reach {_shares(ratios)} of "
            f"what the rest of the table says; the worst "
            f"({name_points([worst])}) did {_seen_and_expected(worst, predicted_per_s)}."
        ),
        cause=PASSED
        if status == "transient"
        else (
            f"Requests of these sizes meet something that others do not: {_LIKELY[table.operation]}"
        ),
    )


def _shares(ratios: Sequence[float]) -> str:
    """Return the least and the largest ratio, such as ``3 % to 31 %``; one where they are alike."""
    least, most = format_share(ratios[0]), format_share(ratios[-1])
    return least if least == most else f"{least} to {most}"


_LIKELY = defaultdict(
    lambda: "something at work in the target, or a limit that bites at these sizes only.",
    write="likely a cache that takes no more until it has written back, at the pace of partial "
    "stripes or of garbage collection, or a file system that freezes meanwhile.",
    read="likely read-ahead or a cache that works against them, a limit of requests that are "
    "split, or other work of the target meanwhile.",
)


def _noise(
    table: CellTable,
    points: Sequence[TablePoint],
    predicted_per_s: Mapping[str, float],
    limit_log: float,
) -> Gap:
    worst = _worst(points, predicted_per_s)
    status = _status(points, predicted_per_s, limit_log)
    cause = {
        "seen_once": "Seen once and alone: it may be a hiccup of a shared or busy device.",
        "persistent": "It is there in every round, so it is no accident: this size and "
        "concurrency meet a limit of their own.",
        "transient": PASSED,
    }[status]
    return Gap(
        kind="noise",
        keys=[point.key for point in points],
        status=status,
        ratio=ratio_to(worst, predicted_per_s[worst.key]),
        sentence=(
            f"{_named(points)} ({table.operation}s): {_seen_and_expected(worst, predicted_per_s)}."
        ),
        cause=cause,
    )


def _absent(table: CellTable, points: Sequence[TablePoint]) -> Gap:
    have = "has" if len(points) == 1 else "have"
    return Gap(
        kind="absent",
        keys=[point.key for point in points],
        status="seen_once",
        ratio=0.0,
        sentence=(
            f"{format_plural(len(points), 'cell')} of the {table.operation}s {have} no figure: "
            f"{name_points(points)}."
        ),
        cause=(
            "The table that was imported leaves them blank: likely nothing completed in the time "
            "of the cell."
            if table.imported
            else "Nothing completed: the target hung for the whole of the cell."
        ),
    )


def _bound_broken(table: CellTable, bound_bytes_per_s: float | None) -> list[Gap]:
    """Return the cells above what their path can carry, if any, as one gap."""
    if bound_bytes_per_s is None:
        return []
    carried = {
        point.key: point.iops.value * point.block_size_bytes
        for point in table.points
        if point.iops is not None
    }
    above = [
        point
        for point in table.points
        if carried.get(point.key, 0.0) > BOUND_SHARE_MAX * bound_bytes_per_s
    ]
    if not above:
        return []
    most_bytes_per_s = max(carried[point.key] for point in above)
    return [
        Gap(
            kind="bound_broken",
            keys=[point.key for point in above],
            status="seen_once" if len(above[0].rounds_per_s) <= 1 else "persistent",
            ratio=most_bytes_per_s / bound_bytes_per_s,
            sentence=(
                f"{format_plural(len(above), 'cell')} of the {table.operation}s are above what "
                f"the path can carry: up to {format_rate_bytes(most_bytes_per_s)} where it ends "
                f"at {format_rate_bytes(bound_bytes_per_s)}."
            ),
            cause="Not all of it came from the drives: a cache in between served it.",
        )
    ]
