"""Gaps: cells far from what the rest of the table says, their class and how often they were seen.

A cell is odd when the logarithm of observed over predicted is below ``-max(4 * scale, ln 1.5)``,
or above ``max(6 * scale, ln 1.75)``. It is called a gap when every one of its rounds is that odd,
or its interval ends there; a cell whose rounds straddle the limit is called only where some round
is twice as far off: that is no scatter. Cells without a figure are gaps whatever the model says.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from seatrial.stats.wording import (
    format_iops,
    format_plural,
    format_rate_bytes,
    format_share,
    format_size,
)
from seatrial.trials.audit.analysis.model import CellTable, Gap, GapKind, GapStatus, TablePoint
from seatrial.trials.audit.analysis.order import are_neighbours, places_of

GAP_SCALES: Final = 4.0
GAP_LOG_MIN: Final = math.log(1.5)
FAST_SCALES: Final = 6.0
FAST_LOG_MIN: Final = math.log(1.75)
"""Far above is rarer than far below: chance takes more to be ruled out."""
CLEARLY_FACTOR: Final = 2.0
START_PLACES_MAX: Final = 6
COLLAPSE_SIZES_MIN: Final = 2
COLLAPSE_CELLS_MIN: Final = 3
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
    "too_fast",
    "start_transient",
    "noise",
)


def gap_limit_log(scale_log: float) -> float:
    """Return how far from its prediction a cell's logarithm may be and still be no gap."""
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
    judged = [point for point in table.points if point.key in predicted_per_s]
    odd = [p for p in judged if _is_gap(p, predicted_per_s[p.key], limit_log)]
    fast_log = max(FAST_SCALES * scale_log, FAST_LOG_MIN)
    fast = [p for p in judged if _is_too_fast(p, predicted_per_s[p.key], fast_log)]
    started = _at_start(table, odd)
    rest = [point for point in odd if point not in started]
    gaps = [_start_transient(table, started, predicted_per_s)] if started else []
    for group in _contiguous(table, rest):
        reported = _collapse if _is_collapse(table, group) else _noise
        gaps.append(reported(table, group, predicted_per_s, limit_log))
    first = _at_start(table, fast)
    groups = [first] if first else []
    groups += _contiguous(table, [point for point in fast if point not in first])
    gaps += [_too_fast(table, group, predicted_per_s, fast_log) for group in groups]
    absent = [point for point in table.points if point.measured and point.iops is None]
    gaps += [_absent(table, absent)] if absent else []
    gaps += _bound_broken(table, bound_bytes_per_s)
    return sorted(gaps, key=lambda gap: ORDER.index(gap.kind))


def ratio_to(point: TablePoint, predicted_per_s: float) -> float:
    """Return observed over predicted; 0 for a cell without a figure."""
    return point.iops.value / predicted_per_s if point.iops else 0.0


def name_points(points: Sequence[TablePoint]) -> str:
    """Return cells as a reader names them: ``512 B at 1 and 10 threads``.

    Of several depths threads and depth are told apart: ``4 KiB at 1 x 16 (threads x depth)``.
    """
    by_size: dict[int, list[TablePoint]] = {}
    for point in points:
        by_size.setdefault(point.block_size_bytes, []).append(point)
    is_flat = all(point.depth == 1 for point in points)
    parts = []
    for size_bytes, same_size in by_size.items():
        counts = [str(p.threads) if is_flat else f"{p.threads} x {p.depth}" for p in same_size]
        reported = " and ".join(filter(None, [", ".join(counts[:-1]), counts[-1]]))
        unit = " thread" if counts == ["1"] else " threads"
        parts.append(f"{format_size(size_bytes)} at {reported}{unit if is_flat else ''}")
    return "; ".join(parts) + ("" if is_flat else " (threads x depth)")


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


def _is_too_fast(point: TablePoint, predicted_per_s: float, limit_log: float) -> bool:
    """Tell whether a cell is as far above as another is below that is a gap."""
    if point.iops is None:
        return False
    limit_per_s = predicted_per_s * math.exp(limit_log)
    rounds = point.rounds_per_s
    if len(rounds) <= 1:
        return (point.iops.low or point.iops.value) > limit_per_s
    begins_above = point.iops.low is not None and point.iops.low > limit_per_s
    some_far_above = max(rounds) > predicted_per_s * math.exp(CLEARLY_FACTOR * limit_log)
    return min(rounds) > limit_per_s or begins_above or some_far_above


def _status(
    points: Sequence[TablePoint], predicted_per_s: Mapping[str, float], limit_log: float
) -> GapStatus:
    """Return how often the gap was seen: that of the point which was measured the most."""
    most = max(points, key=lambda point: len(point.rounds_per_s))
    if len(most.rounds_per_s) <= 1:
        return "seen_once"
    everywhere = all(
        rate > 0 and abs(math.log(rate / predicted_per_s[point.key])) > limit_log
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
    """Return the points in groups whose block sizes follow each other in the table.

    In a table of one block size they are groups of neighbours in threads and depth.
    """
    if _is_of_one_size(table):
        return _neighbours(table, points)
    sizes = sorted({point.block_size_bytes for point in table.points})
    groups: list[list[TablePoint]] = []
    for point in sorted(points, key=lambda p: (p.block_size_bytes, p.concurrency)):
        rank = sizes.index(point.block_size_bytes)
        if groups and rank - sizes.index(groups[-1][-1].block_size_bytes) <= 1:
            groups[-1].append(point)
        else:
            groups.append([point])
    return groups


def _neighbours(table: CellTable, points: Sequence[TablePoint]) -> list[list[TablePoint]]:
    """Return the points in groups that hang together in the table."""
    places, left = places_of(table.points), list(points)
    groups: list[list[TablePoint]] = []
    while left:
        group = [left.pop(0)]
        for member in group:
            near = [p for p in left if are_neighbours(places[p.key], places[member.key])]
            left = [point for point in left if point not in near]
            group += near
        groups.append(sorted(group, key=lambda p: (p.concurrency, p.threads)))
    return groups


def _is_of_one_size(table: CellTable) -> bool:
    return len({point.block_size_bytes for point in table.points}) == 1


def _is_collapse(table: CellTable, group: Sequence[TablePoint]) -> bool:
    """Tell whether cells are more than one accident: of several sizes, or of several levels."""
    if not _is_of_one_size(table):
        return len({point.block_size_bytes for point in group}) >= COLLAPSE_SIZES_MIN
    levels = {point.concurrency for point in group}
    return len(group) >= COLLAPSE_CELLS_MIN and len(levels) >= COLLAPSE_SIZES_MIN


def _worst(points: Sequence[TablePoint], predicted_per_s: Mapping[str, float]) -> TablePoint:
    return max(points, key=lambda p: abs(math.log(max(1e-9, ratio_to(p, predicted_per_s[p.key])))))


def _seen_and_expected(point: TablePoint, predicted_per_s: Mapping[str, float]) -> str:
    seen = format_iops(point.iops.value) if point.iops else "no"
    return f"{seen} IOPS where {format_iops(predicted_per_s[point.key])} are expected"


def named_points(points: Sequence[TablePoint]) -> str:
    """Return a few cells by name, more of them by their number."""
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
            f"{first} measured ({named_points(points)}, {table.operation}s): {did} "
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
    ratios = sorted(ratio_to(point, predicted_per_s[point.key]) for point in points)
    status = _status(points, predicted_per_s, limit_log)
    return Gap(
        kind="collapse",
        keys=[point.key for point in points],
        status=status,
        ratio=ratios[0],
        sentence=(
            f"{table.operation.capitalize()}s {_range(table, points)} collapse: "
            f"{format_plural(len(points), 'cell')} reach {_shares(ratios)} of "
            f"what the rest of the table says; the worst "
            f"({name_points([worst])}) did {_seen_and_expected(worst, predicted_per_s)}."
        ),
        cause=PASSED
        if status == "transient"
        else (
            f"{_THESE[_is_of_one_size(table)]} meet something that others do not: "
            f"{_LIKELY[table.operation]}"
        ),
    )


_THESE: Final = {False: "Requests of these sizes", True: "So many requests in flight"}


def _range(table: CellTable, points: Sequence[TablePoint]) -> str:
    """Return ``from 64 KiB to 1 MiB``, or of one block size how many were in flight."""
    if not _is_of_one_size(table):
        low, high = (format_size(points[end].block_size_bytes) for end in (0, -1))
        return f"from {low} to {high}"
    flying = [point.concurrency for point in points]
    return (
        f"of {format_size(points[0].block_size_bytes)}, {min(flying)} to {max(flying)} in flight,"
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
            f"{named_points(points)} ({table.operation}s): "
            f"{_seen_and_expected(worst, predicted_per_s)}."
        ),
        cause=f"{cause}{_one_thread(table, points)}",
    )


def _one_thread(table: CellTable, points: Sequence[TablePoint]) -> str:
    """Return that few threads may be the limit, where slow cells have the fewest and are deep."""
    counts = {point.threads for point in table.points}
    if len(counts) == 1 or any(p.depth == 1 or p.threads > min(counts) for p in points):
        return ""
    few = format_plural(min(counts), "thread")
    return (
        f" Or {few} cannot submit more: as many in flight over more threads, or the processor "
        "time of that thread, would show it."
    )


def _too_fast(
    table: CellTable,
    points: Sequence[TablePoint],
    predicted_per_s: Mapping[str, float],
    limit_log: float,
) -> Gap:
    worst = _worst(points, predicted_per_s)
    status = _status(points, predicted_per_s, limit_log)
    ratio = ratio_to(worst, predicted_per_s[worst.key])
    is_first = min(point.place for point in table.points) in {point.place for point in points}
    least = "" if len(points) == 1 else "up to "
    return Gap(
        kind="too_fast",
        keys=[point.key for point in points],
        status=status,
        ratio=ratio,
        sentence=(
            f"{named_points(points)} ({table.operation}s): {least}{ratio:.1f} times what the rest "
            f"of the table allows; {_seen_and_expected(worst, predicted_per_s)}."
        ),
        cause=f"{_FIRST if is_first else ''}{_FASTER[table.operation]}",
    )


_FIRST: Final = "It was measured first, when burst credit and caches were still unspent. "
_FASTER = defaultdict(
    lambda: "Likely a cache served it, or burst credit.",
    write="Likely a cache took the writes and had not yet to write them back, or burst credit paid "
    "for them: what it does for longer is less.",
    read="Likely a cache held what was read, the blocks had never been written (a device answers "
    "without reading), or burst credit paid for it: what it does for longer is less.",
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
