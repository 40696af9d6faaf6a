"""A sweep of shared buffers on the terminal: the answer first, then tables."""

from __future__ import annotations

from typing import Final

from seatrial.report.table import NO_FIGURE, Table
from seatrial.report.terminal import analysis_text
from seatrial.stats.wording import format_count, format_share
from seatrial.study.units import format_size
from seatrial.trials.cache.analysis.sweep import CacheSweepResult, SweepCheck, SweepPoint
from seatrial.trials.cache.analysis.sweep_bound import CacheBound
from seatrial.trials.cache.report import sweep_phrases

_COLUMNS: Final = 4
_LITTLE_SHARE: Final = 0.01


def sweep_text(found: CacheSweepResult, next_step: str) -> str:
    """Return a sweep as lines: the answer, what stands out, what limits it, what next."""
    return analysis_text(
        sweep_phrases.verdict_line(found), sweep_phrases.notable(found),
        " ".join(sweep_phrases.doubts(found)), next_step, sweep_tables(found),
    )  # fmt: skip


def bound_text(found: CacheBound, next_step: str) -> str:
    """Return a bound as lines."""
    return analysis_text(
        sweep_phrases.bound_verdict(found), sweep_phrases.bound_notable(found),
        " ".join(sweep_phrases.bound_doubts(found)), next_step, bound_tables(found),
    )  # fmt: skip


def sweep_tables(found: CacheSweepResult) -> list[Table]:
    """Return the tables of a sweep; none is empty."""
    made = [
        _checks_table(found), _curve_table(found), _behind_table(found), _relations_table(found),
    ]  # fmt: skip
    return [each for each in made if each.rows]


def _curve_table(found: CacheSweepResult) -> Table:
    return Table(
        id="sweep-curve",
        title=f"Shared buffers of every size, from one replay ({found.method})",
        labels=1,
        headers=["Shared buffers", "Hit ratio", "Reads each", f"{found.unit.capitalize()}/s",
                 "95 %"],
        rows=[
            [
                _size(each, found),
                _share(each),
                f"{each.reads_per_operation:.3g}",
                format_count(round(each.per_s)),
                f"{format_count(round(each.per_s_low))} to {format_count(round(each.per_s_high))}",
            ]
            for each in found.curve
        ],
    )  # fmt: skip


def _behind_table(found: CacheSweepResult) -> Table:
    # A page cache behind buffers that hold what is read again serves nothing.
    serves = max((each.served_share for each in found.behind), default=0.0) >= _LITTLE_SHARE
    present = format_size(found.present_bytes)
    return Table(
        id="sweep-behind",
        title=f"The page cache behind {present} of shared buffers: what it serves of their reads",
        labels=1,
        headers=["Page cache", "Serves"],
        rows=[
            [format_size(each.memory_bytes), format_share(each.served_share)]
            for each in found.behind
            if serves
        ],
    )


def _size(point: SweepPoint, found: CacheSweepResult) -> str:
    size = format_size(point.buffers_bytes)
    if point.buffers_bytes == found.present_bytes:
        return f"{size} (present)"
    return f"{size} (recorded)" if point.buffers_bytes == found.smallest_bytes else size


def _share(point: SweepPoint) -> str:
    share = f"{100 * point.hit_share:.1f} %"
    if point.hit_low == point.hit_high:
        return share
    return f"{share} ({100 * point.hit_low:.1f} to {100 * point.hit_high:.1f})"


def _checks_table(found: CacheSweepResult) -> Table:
    return Table(
        id="sweep-checks",
        title="Predicted and measured",
        labels=2,
        headers=["Shared buffers", "", "Predicted", "Measured", "Error"],
        rows=[row for each in found.checks for row in _checks_rows(each, found.unit)],
    )


def _checks_rows(each: SweepCheck, unit: str) -> list[list[str]]:
    size = format_size(each.buffers_bytes)
    reads = each.predicted_reads_per_operation, each.measured_reads_per_operation
    return [
        [
            size,
            "hit ratio",
            f"{100 * each.predicted_hit_share:.1f} %",
            f"{100 * each.measured_hit_share:.1f} %",
            f"{round(each.hit_error_points, 2) + 0.0:+.2f} points",
        ],
        [
            size,
            "reads each",
            f"{reads[0]:.3g}",
            f"{reads[1]:.3g}",
            f"{100 * (reads[0] / reads[1] - 1):+.1f} %" if reads[1] else NO_FIGURE,
        ],
        [
            size,
            f"{unit}/s",
            _interval(each.predicted_per_s, each.predicted_low, each.predicted_high),
            _interval(each.measured_per_s, each.measured_low, each.measured_high),
            f"{100 * each.rate_error_share:+.1f} %",
        ],
    ]


def _interval(per_s: float, low: float | None, high: float | None) -> str:
    value = format_count(round(per_s))
    if low is None or high is None:
        return value
    return f"{value} ({format_count(round(low))} to {format_count(round(high))})"


def _relations_table(found: CacheSweepResult) -> Table:
    step = max(1, (len(found.curve) - 1) // (_COLUMNS - 1))
    indexes = sorted({*range(0, len(found.curve), step), len(found.curve) - 1})
    return Table(
        id="sweep-relations",
        title="Share of the accesses of each table and index that is served, by shared buffers",
        labels=1,
        headers=["Table or index", "Size", "Fits at",
                 *(format_size(found.curve[index].buffers_bytes) for index in indexes)],
        rows=[
            [
                each.name,
                format_size(each.size_bytes),
                format_size(each.fits_bytes) if each.fits_bytes is not None else NO_FIGURE,
                *(format_share(each.hit_shares[index]) for index in indexes),
            ]
            for each in found.relations
        ],
    )  # fmt: skip


def bound_tables(found: CacheBound) -> list[Table]:
    """Return the tables of a bound; none is empty."""
    sizes = Table(
        id="bound-sizes",
        title="Bound on the hit ratio of shared buffers",
        labels=1,
        headers=["Shared buffers", "At least", "At most"],
        rows=[
            [
                format_size(each.buffers_bytes)
                + (" (present)" if each.buffers_bytes == found.present_bytes else ""),
                format_share(each.hit_low),
                format_share(each.hit_high),
            ]
            for each in found.points
        ],
    )
    relations = Table(
        id="bound-relations",
        title="Tables and indexes with the most reads",
        labels=1,
        headers=["Table or index", "Size", "In shared buffers", "Accesses", "Hit ratio"],
        rows=[
            [
                each.name,
                format_size(each.size_bytes),
                NO_FIGURE if each.buffered_bytes is None else format_size(each.buffered_bytes),
                format_count(each.accesses),
                format_share(each.hit_share),
            ]
            for each in found.relations
        ],
    )
    return [each for each in (sizes, relations) if each.rows]
