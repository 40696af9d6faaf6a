"""Figures of repeated runs over time, as small static charts with intervals and change points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from statistics import median
from typing import TYPE_CHECKING, Final

import msgspec
from markupsafe import Markup

from seatrial.findings.tile import Tile
from seatrial.lazy import np
from seatrial.results.model import Run
from seatrial.stats.model import Estimate
from seatrial.stats.steady.change_points import CHANCE_MAX, change_points, likeliest_change
from seatrial.stats.wording import format_interval, format_value, moment

if TYPE_CHECKING:
    from seatrial.stats.steady.change_points import Array

POINTS_MIN: Final = 2
POINTS_MAX: Final = 60
_WIDTH: Final = 280
_HEIGHT: Final = 84
_MARGIN: Final = 7
_RANGE_SHARE_MIN: Final = 0.2
"""The vertical axis spans at least this share of the median, so that noise is not magnified."""
_RANGE_FACTOR_MAX: Final = 3.0
"""An interval is drawn up to this factor beyond the largest and below the smallest value."""


class TrendPoint(msgspec.Struct, frozen=True, kw_only=True):
    """A figure of one run.

    Attributes:
        run: The run.
        estimate: Its figure.
    """

    run: Run
    estimate: Estimate


class Trend(msgspec.Struct, frozen=True, kw_only=True):
    """One figure over repeated runs.

    Attributes:
        label: What it is, such as ``8 KiB random read``.
        test: The test it comes from, in words.
        better: Whether a higher or a lower figure is better.
        points: The oldest run first; at most the newest :data:`POINTS_MAX`.
        changes: Indices of the points at which the level changed significantly (at 1 %).
    """

    label: str
    test: str
    better: str
    points: list[TrendPoint]
    changes: list[int]

    @property
    def latest(self) -> str:
        """The newest value with its unit."""
        return format_value(self.points[-1].estimate)

    @property
    def interval(self) -> str:
        """The confidence interval of the newest value."""
        return format_interval(self.points[-1].estimate)

    @property
    def change_phrase(self) -> str:
        """The newest change of level as a sentence; empty if there was none."""
        if not self.changes:
            return ""
        bounds = [0, *self.changes, len(self.points)]
        before, after = (
            self._level(bounds[-3], bounds[-2]),
            self._level(bounds[-2], bounds[-1]),
        )
        run = self.points[self.changes[-1]].run
        return f"Changed from {before} to {after} since {run.label or moment(run.started_at)}."

    @property
    def range_phrase(self) -> str:
        """The smallest and the largest value."""
        ordered = sorted((point.estimate for point in self.points), key=lambda each: each.value)
        low, high = (format_value(each) for each in (ordered[0], ordered[-1]))
        return low if low == high else f"{low} to {high}"

    def _level(self, first: int, end: int) -> str:
        values = [point.estimate.value for point in self.points[first:end]]
        last = self.points[first].estimate
        return format_value(
            msgspec.structs.replace(last, value=median(values), low=None, high=None)
        )

    @property
    def picture(self) -> Markup:
        """The chart as an SVG element; every text in it is escaped."""
        return _picture(self)


def trends(runs: Sequence[tuple[Run, Sequence[Tile]]]) -> list[Trend]:
    """Return the figures that at least two runs have, in the order of the newest run.

    Args:
        runs: Runs of one study on one target and machine with their tiles, the oldest first.
    """
    series: dict[tuple[str, str], list[TrendPoint]] = {}
    tiles: dict[tuple[str, str], Tile] = {}
    for run, own in runs:
        for tile in own:
            key = (tile.label, tile.cell)
            tiles[key] = tile
            series.setdefault(key, []).append(TrendPoint(run=run, estimate=tile.estimate))
    newest = [(tile.label, tile.cell) for tile in runs[-1][1]] if runs else []
    ordered = dict.fromkeys([*(key for key in newest if key in series), *series])
    found = []
    for key in ordered:
        unit = series[key][-1].estimate.unit
        points = [each for each in series[key] if each.estimate.unit == unit][-POINTS_MAX:]
        positive = all(each.estimate.value > 0 for each in points)
        if len(points) < POINTS_MIN or not positive:
            continue
        tile = tiles[key]
        found.append(
            Trend(
                label=tile.label,
                test=tile.test,
                better=tile.better,
                points=points,
                changes=level_changes([each.estimate.value for each in points]),
            )
        )
    return found


def level_changes(values: Sequence[float]) -> list[int]:
    """Return the indices at which the level of a figure changes significantly, in order.

    PELT proposes changes. If it proposes none, as in a series of fewer than about twenty runs, the
    series is divided at its most likely change while noise makes such a change in 1 % of the cases
    at most (binary segmentation).

    Args:
        values: Values of runs in order, all above 0; fewer than six have no changes.
    """
    logarithms = np.log(np.asarray(values, dtype=float))
    return change_points(logarithms) or _divided(logarithms, 0)


def _divided(values: Array, first: int) -> list[int]:
    change = likeliest_change(values)
    if change is None or change.chance > CHANCE_MAX:
        return []
    index = change.index
    return [
        *_divided(values[:index], first),
        first + index,
        *_divided(values[index:], first + index),
    ]


def _picture(trend: Trend) -> Markup:
    values = [point.estimate.value for point in trend.points]
    low, high = _range(trend.points)
    step = (_WIDTH - 2 * _MARGIN) / max(len(values) - 1, 1)

    def x(index: float) -> str:
        return f"{_MARGIN + index * step:.1f}"

    def y(value: float) -> str:
        share = (min(max(value, low), high) - low) / (high - low)
        return f"{_HEIGHT - _MARGIN - share * (_HEIGHT - 2 * _MARGIN):.1f}"

    parts = [f'<path class="change" d="M{x(index - 0.5)} 0V{_HEIGHT}"/>' for index in trend.changes]
    for index, point in enumerate(trend.points):
        shown = point.estimate.shown
        if shown.low is not None and shown.high is not None:
            parts.append(f'<path class="ends" d="M{x(index)} {y(shown.low)}V{y(shown.high)}"/>')
    line = "L".join(f"{x(index)} {y(value)}" for index, value in enumerate(values))
    parts.append(f'<path class="line" d="M{line}"/>')
    for index, point in enumerate(trend.points):
        words = (
            f"{point.run.label or point.run.id}, {moment(point.run.started_at)}: "
            f"{format_value(point.estimate)} {format_interval(point.estimate)}"
        )
        parts.append(
            f'<circle cx="{x(index)}" cy="{y(values[index])}" r="2.6">'
            f"<title>{escape(words)}</title></circle>"
        )
    name = escape(f"{trend.label} over {len(values)} runs, {trend.latest} in the newest")
    return Markup(  # noqa: S704 - numbers, and texts that were escaped
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{name}">'
        f"{''.join(parts)}</svg>"
    )


def _range(points: Sequence[TrendPoint]) -> tuple[float, float]:
    """Return the ends of the vertical axis, linear."""
    values = [point.estimate.value for point in points]
    shown = [point.estimate.shown for point in points]
    lows = [each.low for each in shown if each.low is not None and math.isfinite(each.low)]
    highs = [each.high for each in shown if each.high is not None and math.isfinite(each.high)]
    low = max(min([*lows, *values]), min(values) / _RANGE_FACTOR_MAX)
    high = min(max([*highs, *values]), max(values) * _RANGE_FACTOR_MAX)
    missing = median(values) * _RANGE_SHARE_MIN - (high - low)
    if missing > 0:
        low, high = low - missing / 2, high + missing / 2
    return low, high
