"""Before and after: each query or page as a bubble, and the change of total time as a waterfall."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from seatrial.report.figures.axes import linear_axis, log_axis
from seatrial.report.figures.model import Axis, Bubble, Figure, Point, Row, Scatter, Slope, View
from seatrial.stats.wording import format_count, format_plural, format_share
from seatrial.trials.replay.compare.model import Change, Overall, Table
from seatrial.trials.replay.compare.report.words import (
    NOUNS,
    Subject,
    calls_text,
    interval_words,
    saved_words,
    seconds,
)
from seatrial.trials.replay.compare.verdict import change_words, factor_words, once_of, speed_words
from seatrial.trials.replay.report.words import shortened

BUBBLES_MAX: Final = 400
"""Those with the most time, and all regressions; the table has more."""
PARTS_MAX: Final = 12
PART_SHARE_MIN: Final = 0.002
"""Share of the time before. Smaller parts of a waterfall are combined."""
ANSWERS: Final = ("slower", "faster", "undecided", "same")
_LABEL_MAX: Final = 72
_TITLE_MAX: Final = 60
_NS_A_S: Final = 1e9
_FACTORS: Final = (100.0, 10.0, 2.0, 1.0, 0.5, 0.1, 0.01)


def before_after_figures(table: Table, subject: Subject) -> list[Figure]:
    """Return the charts of queries or pages; none if the sides have nothing in common."""
    if table.overall is None or not table.changes:
        return []
    figures = [_scatter(table, table.overall, subject), _waterfall(table, table.overall, subject)]
    return [figure for figure in figures if figure is not None]


def _scatter(table: Table, overall: Overall, subject: Subject) -> Figure | None:
    timed = [each for each in table.changes if each.before.mean_s > 0 and each.after.mean_s > 0]
    if not timed:
        return None
    numbers = {each.key: str(place) for place, each in enumerate(table.regressions, start=1)}
    shown = timed[:BUBBLES_MAX]
    shown += [each for each in timed[BUBBLES_MAX:] if each.key in numbers]
    ordered = sorted(shown, key=lambda each: -each.before.total_s)
    largest_s = max(each.before.total_s for each in ordered) or 1.0
    once = once_of(table)
    bubbles = [_bubble(each, largest_s, numbers.get(each.key, ""), once=once) for each in ordered]
    before, after = table.before.name, table.after.name
    x, y = _axes([end for each in ordered for end in _times_ns(each)], (before, after))
    singular, plural = NOUNS[subject]
    found = {bubble.name for bubble in bubbles}
    view = View(
        label=plural,
        title=_scatter_title(table, overall, plural),
        names=[name for name in ANSWERS if name in found],
        scatter=Scatter(
            x=x,
            y=y,
            bubbles=bubbles,
            slopes=[_slope(factor) for factor in _FACTORS],
            margin_share=table.margin_share,
        ),
    )
    return Figure(
        id=f"{subject}-scatter",
        kind="scatter",
        topic=f"Each {singular}, before and after",
        notes=[
            f"Each circle is a {singular}; its area is the total time of all calls before. Below "
            "the dashed line it became faster, above it slower. Significant differences are "
            f"filled; within the grey band (± {format_share(table.margin_share)}) a difference "
            "counts as none. Vertical bars are intervals of the change "
            f"({interval_words(table.level)}). Numbers refer to the table of regressions.",
            *_left_out(len(timed) - len(shown), plural),
        ],
        views=[view],
        table=f"table-{subject}-changes",
    )


def _scatter_title(table: Table, overall: Overall, plural: str) -> str:
    """Return how many became slower and the slowest one, or how many became faster."""
    of = f"{format_count(len(table.changes))} {plural}"
    slower = table.regressions
    if not slower and not overall.faster:
        return f"None of {of} became significantly faster or slower"
    if not slower:
        return f"{format_count(overall.faster)} of {of} became significantly faster, none slower"
    worst = speed_words(slower[0].speed_up, once=once_of(table))
    text = shortened(slower[0].text, _TITLE_MAX)
    return (
        f"{format_count(len(slower))} of {of} became significantly slower, the most {worst}: {text}"
    )


def _left_out(count: int, plural: str) -> list[str]:
    if count <= 0:
        return []
    return [f"{format_count(count)} {plural} with little time are only in the table."]


def _bubble(change: Change, largest_s: float, label: str, *, once: str) -> Bubble:
    """Return one circle; its interval is that of the speed-up, at the mean time before."""
    before_ns = change.before.mean_s * _NS_A_S
    low, high = change.speed_up.low, change.speed_up.high
    has_interval = bool(low and high)
    times = f"{seconds(change.before.mean_s)} before, {seconds(change.after.mean_s)} after"
    return Bubble(
        x=before_ns,
        y=change.after.mean_s * _NS_A_S,
        low=before_ns / high if has_interval and high else None,
        high=before_ns / low if has_interval and low else None,
        area_share=change.before.total_s / largest_s,
        name=change.answer,
        label=label,
        heading=shortened(change.text, _LABEL_MAX),
        text=f"{change_words(change, once=once)}; {times}; "
        f"{calls_text(change.before.calls)} calls took {seconds(change.before.total_s)}",
    )


def _times_ns(change: Change) -> tuple[float, float]:
    return change.before.mean_s * _NS_A_S, change.after.mean_s * _NS_A_S


def _axes(values_ns: Sequence[float], names: tuple[str, str]) -> tuple[Axis, Axis]:
    """Return two axes with the same range, so that the diagonal is no change."""
    low, high = min(values_ns), max(values_ns)
    reach = (low / 1.6, high * 1.6)  # room for the largest circles
    across, up = (log_axis(f"Mean time, {name} (logarithmic)", "ns", reach) for name in names)
    return across, up


def _slope(factor: float) -> Slope:
    if factor == 1.0:
        return Slope(factor, "")
    if factor > 1:
        return Slope(factor, f"{factor:g}x slower")
    return Slope(factor, f"{1 / factor:g}x faster")


def _waterfall(table: Table, overall: Overall, subject: Subject) -> Figure | None:
    if overall.before_s <= 0:
        return None
    averaged = [each for each in table.changes if each.in_average]
    ranked = sorted(averaged, key=lambda each: -abs(each.saved_s))
    least_s = PART_SHARE_MIN * overall.before_s
    reported = [each for each in ranked[:PARTS_MAX] if abs(each.saved_s) >= least_s]
    rest = ranked[len(reported) :]
    reported.sort(key=lambda each: -each.saved_s)
    _, plural = NOUNS[subject]
    once = once_of(table)
    at_s = overall.before_s
    rows = [_whole(f"{table.before.name}, all {plural}", overall.before_s)]

    for each in reported:
        label = shortened(each.text, _LABEL_MAX)
        rows.append(_part(label, at_s, -each.saved_s, saved_words(each, once=once)))
        at_s -= each.saved_s
    if rest:
        left_s = sum(each.saved_s for each in rest)
        verb = "save" if left_s >= 0 else "cost"
        label = f"{format_plural(len(rest), 'other')}, total"
        rows.append(_part(label, at_s, -left_s, f"{verb} {seconds(abs(left_s))}"))
    remark = f"{seconds(overall.after_s)}: {factor_words(overall.speed_up, once=once)}"
    rows.append(_whole(f"{table.after.name}, same calls", overall.after_s, remark))
    view = View(
        label=plural,
        title=_waterfall_title(overall, reported),
        rows=rows,
        axis=linear_axis("Time of all calls of one unit (s)", "s", [_highest(rows)]),
    )
    return Figure(
        id=f"{subject}-waterfall",
        kind="bars",
        topic="Change of total time",
        notes=[
            f"From the total time of all {plural} before to the total time after, with the number "
            "of calls before: each bar is the time that one saves or costs."
        ],
        views=[view],
        table=f"table-{subject}-changes",
    )


def _waterfall_title(overall: Overall, reported: Sequence[Change]) -> str:
    words = f"{seconds(overall.before_s)} before, {seconds(overall.after_s)} after"
    if not reported:
        return words
    most = max(reported, key=lambda each: abs(each.saved_s))
    less = "less" if most.saved_s >= 0 else "more"
    text = shortened(most.text, _TITLE_MAX)
    return f"{words}; the largest change: {seconds(abs(most.saved_s))} {less} for {text}"


def _whole(label: str, value_s: float, remark: str = "") -> Row:
    text = remark or seconds(value_s)
    return Row(label=label, points={"time": Point(0, value_s, None, None, text)}, remark=text)


def _part(label: str, start_s: float, value_s: float, remark: str) -> Row:
    return Row(
        label=label,
        points={"change": Point(0, value_s, None, None, remark)},
        remark=remark,
        start=start_s,
        tone="better" if value_s < 0 else "worse",
    )


def _highest(rows: Sequence[Row]) -> float:
    """Return the rightmost end of any bar."""
    return max(
        max(row.start or 0.0, (row.start or 0.0) + point.y)
        for row in rows
        for point in row.points.values()
    )
