"""Gaps: cells that deviate strongly from the rest of the table, with class and status.

A cell is an outlier if the logarithm of observed over predicted is below ``-max(4 * scale, ln
1.5)``, or above ``max(6 * scale, ln 1.75)``. It is a gap if all of its rounds or its interval are
beyond this limit; a cell with rounds on both sides is a gap only if some round is twice as far off,
which is more than noise. Cells without a figure are always gaps.

Larger blocks never have more requests per second, nor fewer bytes per second; more threads, or more
requests in flight per thread, never have fewer requests per second. Threads and depth are not
interchangeable: one thread may be unable to submit as many requests as four. Below a page, larger
blocks may be twice as fast, since a drive reads and writes whole pages.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from seatrial.grouping import grouped
from seatrial.lazy import np
from seatrial.stats.wording import (
    format_iops,
    format_list,
    format_plural,
    format_rate_bytes,
    format_share,
    format_size,
)
from seatrial.trials.audit.analysis.model import CellTable, Gap, GapKind, GapStatus, TablePoint
from seatrial.trials.audit.queueing.forms import PAGE_BYTES

if TYPE_CHECKING:
    from numpy import bool_, float64
    from numpy.typing import NDArray


SUB_PAGE_FACTOR: Final = 2.0
"""Requests of less than a page may be slower than larger ones by this: the page is read first."""


def contradictions_log(points: Sequence[TablePoint]) -> NDArray[float64]:
    """Return by how much each cell (row) falls short of the minimum set by each other (column).

    As logarithms; minus infinity if the other sets no minimum. With several rounds, the best round
    is compared with the worst of the other cell, so that noise is not a contradiction.

    Args:
        points: Cells that have a figure.
    """
    best = np.log([max(_rates_per_s(point)) for point in points])
    worst = np.log([min(_rates_per_s(point)) for point in points])
    size, threads, depth = (
        np.array([getattr(point, name) for point in points])
        for name in ("block_size_bytes", "threads", "depth")
    )
    smaller_log = np.minimum(0.0, np.log(size) - np.log(size)[:, np.newaxis])
    short = worst + smaller_log - best[:, np.newaxis]
    demands = (threads <= threads[:, np.newaxis]) & (depth <= depth[:, np.newaxis])
    below_page = (size > size[:, np.newaxis]) & (size[:, np.newaxis] < PAGE_BYTES)
    short = np.where(below_page, short - math.log(SUB_PAGE_FACTOR), short)
    np.fill_diagonal(demands, val=False)
    minimums_log: NDArray[float64] = np.where(demands, short, -np.inf)
    return minimums_log


def fewest_contradicting(short_log: NDArray[float64], limit_log: float) -> NDArray[bool_]:
    """Return the cells that remain after removing those with most contradictions, one by one."""
    contradicts = (short_log > limit_log) | (short_log > limit_log).T
    kept = np.ones(len(contradicts), dtype=bool)
    while (counts := (contradicts & np.outer(kept, kept)).sum(axis=1)).any():
        kept[int(counts.argmax())] = False
    return kept


def grid_positions(points: Sequence[TablePoint]) -> dict[str, tuple[int, int, int]]:
    """Return each cell's indices among block sizes, threads and depths, by its key."""
    sizes, threads, depths = (
        sorted({getattr(point, name) for point in points})
        for name in ("block_size_bytes", "threads", "depth")
    )
    return {
        point.key: (
            sizes.index(point.block_size_bytes),
            threads.index(point.threads),
            depths.index(point.depth),
        )
        for point in points
    }


def are_neighbours(one: Sequence[int], other: Sequence[int]) -> bool:
    """Return whether two positions of a table are at most one step apart in each dimension."""
    return all(abs(a - b) <= 1 for a, b in zip(one, other, strict=True))


def _rates_per_s(point: TablePoint) -> Sequence[float]:
    rates = [rate for rate in point.rounds_per_s if rate > 0]
    return rates or [point.iops.value if point.iops else 0.0]


GAP_SCALES: Final = 4.0
GAP_LOG_MIN: Final = math.log(1.5)
FAST_SCALES: Final = 6.0
FAST_LOG_MIN: Final = math.log(1.75)
"""Rates far above the prediction are rarer than far below, so the limit is stricter."""
CLEARLY_FACTOR: Final = 2.0
START_CELLS_MAX: Final = 6
COLLAPSE_SIZES_MIN: Final = 2
COLLAPSE_CELLS_MIN: Final = 3
POINTS_NAMED_MAX: Final = 4
BOUND_SHARE_MAX: Final = 1.02
PASSED: Final = (
    "Other rounds of the same tests are not slow: a transient disturbance, another tenant, or a "
    "background task of the device."
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
    """Return the largest deviation in logarithms from the prediction that is not a gap."""
    return max(GAP_SCALES * scale_log, GAP_LOG_MIN)


def find_gaps(
    table: CellTable,
    predicted_per_s: Mapping[str, float],
    scale_log: float,
    *,
    bound_bytes_per_s: float | None = None,
) -> list[Gap]:
    """Return the gaps of a table, worst first.

    Args:
        table: The table.
        predicted_per_s: Expected rate of each cell, by key; cells without one are not judged.
        scale_log: Scatter of the logarithms of observed over predicted.
        bound_bytes_per_s: Maximum bandwidth of the path; None if unknown.
    """
    limit_log = gap_limit_log(scale_log)
    predicted_points = [point for point in table.points if point.key in predicted_per_s]
    outlier = [p for p in predicted_points if _is_gap(p, predicted_per_s[p.key], limit_log)]
    fast_log = max(FAST_SCALES * scale_log, FAST_LOG_MIN)
    fast = [p for p in predicted_points if _is_too_fast(p, predicted_per_s[p.key], fast_log)]
    started = _at_start(table, outlier)
    if started and _status(started, predicted_per_s, GAP_LOG_MIN) == "persistent":
        started = []  # Further rounds have another order: what is slow in each has another cause.
    rest = [point for point in outlier if point not in started]
    gaps = [_start_transient(table, started, predicted_per_s)] if started else []
    for group in _contiguous(table, rest):
        gap_of = _collapse if _is_collapse(table, group) else _noise
        gaps.append(gap_of(table, group, predicted_per_s, limit_log))
    first = _at_start(table, fast)
    groups = [first] if first else []
    groups += _contiguous(table, [point for point in fast if point not in first])
    gaps += [_too_fast(table, group, predicted_per_s, fast_log) for group in groups]
    absent = [point for point in table.points if point.measured and point.iops is None]
    gaps += [_absent(table, absent)] if absent else []
    gaps += _bound_broken(table, bound_bytes_per_s)
    return sorted(gaps, key=lambda gap: ORDER.index(gap.kind))


def _farthest_per_s(point: TablePoint, *, is_fast: bool) -> float:
    """Return the rate of the slowest, or the fastest, round, which may alone have made a gap."""
    if not point.iops:
        return 0.0
    return (max if is_fast else min)(point.rounds_per_s or [point.iops.value])


def _ratio_to(
    point: TablePoint, predicted_per_s: Mapping[str, float], *, is_fast: bool = False
) -> float:
    """Return observed over predicted in the round farthest off; 0 for a cell without a figure."""
    return _farthest_per_s(point, is_fast=is_fast) / predicted_per_s[point.key]


def name_points(points: Sequence[TablePoint]) -> str:
    """Return the names of cells: ``512 B at 1 and 10 threads``.

    With several depths, threads and depth are given: ``4 KiB at 1 x 16 (threads x depth)``.
    """
    by_size = grouped(points, lambda point: point.block_size_bytes)
    is_flat = all(point.depth == 1 for point in points)
    parts = []
    for size_bytes, same_size in by_size.items():
        counts = [str(p.threads) if is_flat else f"{p.threads} x {p.depth}" for p in same_size]
        unit = " thread" if counts == ["1"] else " threads"
        parts.append(f"{format_size(size_bytes)} at {format_list(counts)}{unit if is_flat else ''}")
    return ", ".join(parts) + ("" if is_flat else " (threads x depth)")


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
    """Return whether a cell is far enough above its prediction to be a gap."""
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
    points: Sequence[TablePoint],
    predicted_per_s: Mapping[str, float],
    limit_log: float,
    *,
    is_fast: bool = False,
) -> GapStatus:
    """Return the status of a gap, that of the point with the most rounds."""
    most = max(points, key=lambda point: len(point.rounds_per_s))
    if len(most.rounds_per_s) <= 1:
        return "seen_once"
    limit = math.exp(limit_log if is_fast else -limit_log)
    ratios = [rate / predicted_per_s[p.key] for p in points for rate in p.rounds_per_s]
    everywhere = min(ratios) > limit if is_fast else max(ratios) < limit
    return "persistent" if everywhere else "transient"


def _at_start(table: CellTable, outlier: Sequence[TablePoint]) -> list[TablePoint]:
    """Return the outliers measured first of all, up to the first normal cell."""
    by_position = {point.position: point for point in table.points}
    outlier_keys = {point.key for point in outlier}
    started: list[TablePoint] = []
    for position in range(min(START_CELLS_MAX, len(table.points) // 2)):
        point = by_position.get(position)
        if point is None or point.key not in outlier_keys:
            break
        started.append(point)
    return started


def _contiguous(table: CellTable, points: Sequence[TablePoint]) -> list[list[TablePoint]]:
    """Return the points in groups of adjacent block sizes.

    In a table of one block size they are groups of neighbours in threads and depth.
    """
    if _is_of_one_size(table):
        groups = connected_groups(table.points, points)
        return [sorted(group, key=lambda p: (p.concurrency, p.threads)) for group in groups]
    sizes = sorted({point.block_size_bytes for point in table.points})
    groups = []
    for point in sorted(points, key=lambda p: (p.block_size_bytes, p.concurrency)):
        rank = sizes.index(point.block_size_bytes)
        if groups and rank - sizes.index(groups[-1][-1].block_size_bytes) <= 1:
            groups[-1].append(point)
        else:
            groups.append([point])
    return groups


def connected_groups(
    table_points: Sequence[TablePoint], points: Sequence[TablePoint]
) -> list[list[TablePoint]]:
    """Return points in groups that are connected in the grid of all points of a table."""
    positions, left = grid_positions(table_points), list(points)
    groups: list[list[TablePoint]] = []
    while left:
        group = [left.pop(0)]
        for member in group:
            near = [p for p in left if are_neighbours(positions[p.key], positions[member.key])]
            left = [point for point in left if point not in near]
            group += near
        groups.append(group)
    return groups


def _is_of_one_size(table: CellTable) -> bool:
    return len({point.block_size_bytes for point in table.points}) == 1


def _is_collapse(table: CellTable, group: Sequence[TablePoint]) -> bool:
    """Return whether the cells cover several block sizes, or several levels of concurrency."""
    if not _is_of_one_size(table):
        return len({point.block_size_bytes for point in group}) >= COLLAPSE_SIZES_MIN
    levels = {point.concurrency for point in group}
    return len(group) >= COLLAPSE_CELLS_MIN and len(levels) >= COLLAPSE_SIZES_MIN


def _worst(points: Sequence[TablePoint], predicted_per_s: Mapping[str, float]) -> TablePoint:
    return min(points, key=lambda point: _ratio_to(point, predicted_per_s))


def _observed_and_expected(
    point: TablePoint, predicted_per_s: Mapping[str, float], *, is_fast: bool = False
) -> str:
    seen = format_iops(_farthest_per_s(point, is_fast=is_fast)) if point.iops else "no"
    which = f" in its {'fastest' if is_fast else 'slowest'} round"
    return (
        f"{seen} IOPS{which if len(point.rounds_per_s) > 1 else ''} "
        f"(expected {format_iops(predicted_per_s[point.key])})"
    )


def named_points(points: Sequence[TablePoint]) -> str:
    """Return the names of a few cells, or the number of many."""
    if len(points) <= POINTS_NAMED_MAX:
        return name_points(points)
    return format_plural(len(points), "test")


def _start_transient(
    table: CellTable, points: Sequence[TablePoint], predicted_per_s: Mapping[str, float]
) -> Gap:
    worst = _worst(points, predicted_per_s)
    first, reached = "The first test was slow", "it reached"
    if len(points) > 1:
        first, reached = f"The first {len(points)} tests were slow", "the worst reached"
    return Gap(
        kind="start_transient",
        keys=[point.key for point in points],
        status=_status(points, predicted_per_s, GAP_LOG_MIN),
        ratio=_ratio_to(worst, predicted_per_s),
        sentence=(
            f"{first} ({named_points(points)}, {table.operation}s): {reached} "
            f"{_observed_and_expected(worst, predicted_per_s)}."
        ),
        cause=(
            "Likely a write cache was still draining the fill of the file, while requests waited."
        ),
    )


def _collapse(
    table: CellTable,
    points: Sequence[TablePoint],
    predicted_per_s: Mapping[str, float],
    limit_log: float,
) -> Gap:
    worst = _worst(points, predicted_per_s)
    ratios = sorted(_ratio_to(point, predicted_per_s) for point in points)
    status = _status(points, predicted_per_s, limit_log)
    return Gap(
        kind="collapse",
        keys=[point.key for point in points],
        status=status,
        ratio=ratios[0],
        sentence=(
            f"{table.operation.capitalize()}s {_range(table, points)} collapse: "
            f"{format_plural(len(points), 'test')} reached {_shares(ratios)} of the rate expected "
            f"from the rest of the table; the worst ({name_points([worst])}) reached "
            f"{_observed_and_expected(worst, predicted_per_s)}."
        ),
        cause=PASSED
        if status == "transient"
        else (f"Specific to {_THESE[_is_of_one_size(table)]}: {_LIKELY[table.operation]}"),
    )


_THESE: Final = {False: "these block sizes", True: "this number of requests in flight"}


def _range(table: CellTable, points: Sequence[TablePoint]) -> str:
    """Return ``from 64 KiB to 1 MiB``, or for one block size the requests in flight."""
    if not _is_of_one_size(table):
        low, high = (format_size(points[end].block_size_bytes) for end in (0, -1))
        return f"from {low} to {high}"
    flying = [point.concurrency for point in points]
    return (
        f"of {format_size(points[0].block_size_bytes)}, {min(flying)} to {max(flying)} in flight,"
    )


def _shares(ratios: Sequence[float]) -> str:
    """Return the smallest and the largest ratio, such as ``3 % to 31 %``; one if they are equal."""
    least, most = format_share(ratios[0]), format_share(ratios[-1])
    return least if least == most else f"{least} to {most}"


_LIKELY = defaultdict(
    lambda: "background activity of the target, or a limit that applies only here.",
    write="likely a full cache that is written back at the rate of partial stripes or of garbage "
    "collection, or a file system that freezes meanwhile.",
    read="likely adverse read-ahead or caching, a limit on split requests, or background activity "
    "of the target.",
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
        "seen_once": (
            "A single test, seen once"
            if len(points) == 1
            else f"{len(points)} tests of one or of adjacent block sizes, each seen once"
        )
        + ": possibly a transient disturbance of a shared or busy device.",
        "persistent": "It occurs in every round: a limit specific to this block size and "
        "concurrency.",
        "transient": PASSED,
    }[status]
    return Gap(
        kind="noise",
        keys=[point.key for point in points],
        status=status,
        ratio=_ratio_to(worst, predicted_per_s),
        sentence=(
            f"{named_points(points)} ({table.operation}s): "
            f"{_observed_and_expected(worst, predicted_per_s)}."
        ),
        cause=f"{cause}{_one_thread(table, points)}",
    )


def _one_thread(table: CellTable, points: Sequence[TablePoint]) -> str:
    """Return that threads may be the limit, if all slow cells have the fewest and are deep."""
    counts = {point.threads for point in table.points}
    if len(counts) == 1 or any(p.depth == 1 or p.threads > min(counts) for p in points):
        return ""
    few = format_plural(min(counts), "thread")
    return (
        f" Or {few} cannot submit more requests: check with the same number in flight over more "
        "threads, or by the CPU time of that thread."
    )


def _too_fast(
    table: CellTable,
    points: Sequence[TablePoint],
    predicted_per_s: Mapping[str, float],
    limit_log: float,
) -> Gap:
    worst = max(points, key=lambda point: _ratio_to(point, predicted_per_s, is_fast=True))
    status = _status(points, predicted_per_s, limit_log, is_fast=True)
    ratio = _ratio_to(worst, predicted_per_s, is_fast=True)
    is_first = min(point.position for point in table.points) in {point.position for point in points}
    least = "" if len(points) == 1 else "up to "
    return Gap(
        kind="too_fast",
        keys=[point.key for point in points],
        status=status,
        ratio=ratio,
        sentence=(
            f"{named_points(points)} ({table.operation}s): {least}{ratio:.1f} times the rate "
            "expected from the rest of the table; "
            f"{_observed_and_expected(worst, predicted_per_s, is_fast=True)}."
        ),
        cause=f"{_FIRST if is_first and status != 'persistent' else ''}{_FASTER[table.operation]}",
    )


_FIRST: Final = "It was measured first, with unused burst credit and empty caches. "
_FASTER = defaultdict(
    lambda: "Likely served by a cache or on burst credit.",
    write="Likely a cache absorbed the writes, or burst credit applied: the sustained rate is "
    "lower.",
    read="Likely served by a cache, from blocks that had never been written (a device does not "
    "read them), or on burst credit: the sustained rate is lower.",
)


def _absent(table: CellTable, points: Sequence[TablePoint]) -> Gap:
    have = "has" if len(points) == 1 else "have"
    return Gap(
        kind="absent",
        keys=[point.key for point in points],
        status="seen_once",
        ratio=0.0,
        sentence=(
            f"{format_plural(len(points), 'test')} of the {table.operation}s {have} no figure: "
            f"{name_points(points)}."
        ),
        cause=(
            "They are blank in the imported table: likely no request completed in their time."
            if table.imported
            else "No request completed: the target hung throughout."
        ),
    )


def _bound_broken(table: CellTable, bound_bytes_per_s: float | None) -> list[Gap]:
    """Return the cells above the bandwidth of their path, if any, as one gap."""
    if bound_bytes_per_s is None:
        return []
    bytes_per_s = {
        point.key: point.iops.value * point.block_size_bytes
        for point in table.points
        if point.iops is not None
    }
    above = [
        point
        for point in table.points
        if bytes_per_s.get(point.key, 0.0) > BOUND_SHARE_MAX * bound_bytes_per_s
    ]
    if not above:
        return []
    most_bytes_per_s = max(bytes_per_s[point.key] for point in above)
    return [
        Gap(
            kind="bound_broken",
            keys=[point.key for point in above],
            status="seen_once" if len(above[0].rounds_per_s) <= 1 else "persistent",
            ratio=most_bytes_per_s / bound_bytes_per_s,
            sentence=(
                f"{format_plural(len(above), 'test')} of the {table.operation}s exceed the "
                f"bandwidth of the path: up to {format_rate_bytes(most_bytes_per_s)}, but its "
                f"limit is {format_rate_bytes(bound_bytes_per_s)}."
            ),
            cause="A cache on the path served part of the requests.",
        )
    ]
