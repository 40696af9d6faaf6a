"""The charts of a comparison: ratios as a list, and both sides on one axis with ratio below."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from seatrial.report.comparison_tables import answer_text, overall_answer, ratio_text
from seatrial.report.figures.axes import block_size_axis, extent, log_axis, ratio_axis
from seatrial.report.figures.model import Axis, Figure, Guide, Line, Panel, Point, Row, View
from seatrial.report.figures.naming import capitalized, grouped, identity_by, varying_among
from seatrial.report.figures.notes import scatter_notes
from seatrial.stats.compare.model import Comparand, Comparison
from seatrial.stats.compare.words import figure_words
from seatrial.stats.model import Estimate
from seatrial.stats.wording import format_count, format_interval, format_plural, format_share

ANSWERS: Final = ("higher", "lower", "undecided", "same")
_RANKS: Final = {"higher": 0, "lower": 0, "undecided": 1, "same": 2}
_ROWS_MAX: Final = 40
_SIZES_MIN: Final = 2
_A_STYLE, _B_STYLE = 0, 1
_ANSWER_STYLES: Final = {
    "higher": (2, "triangle"),
    "lower": (3, "triangleDown"),
    "undecided": (4, "emptyDiamond"),
    "same": (6, "emptyCircle"),
}
_AXIS_NAMES: Final = {"iops": "Requests per second (IOPS)", "bandwidth": "Bandwidth (MB/s)"}


def comparison_figures(comparison: Comparison, identifier: str) -> list[Figure]:
    """Return the charts of one comparison; none where the sides have nothing in common.

    Args:
        comparison: The comparison.
        identifier: Begins the names of its charts and of its table in the page.
    """
    return [*_ratio_list(comparison, identifier), *_pairs(comparison, identifier)]


def _ratio_list(comparison: Comparison, identifier: str) -> list[Figure]:
    by_figure = grouped(comparison.comparands, lambda each: each.figure)
    if not by_figure:
        return []
    views = [_list_view(comparison, figure, group) for figure, group in by_figure.items()]
    return [
        Figure(
            id=f"{identifier}-ratios",
            kind="ladder",
            topic=f"{comparison.b.name} over {comparison.a.name}",
            notes=[_margin_note(comparison)],
            views=views,
            table=f"table-{identifier}",
        )
    ]


def _margin_note(comparison: Comparison) -> str:
    margin = format_share(comparison.margin_share)
    return (
        f"Thin lines are 95 % intervals, adjusted for how many figures are compared; the grey "
        f"band is ± {margin}, within which a difference counts as none."
    )


def _list_view(comparison: Comparison, figure: str, group: Sequence[Comparand]) -> View:
    """Return the cells of one figure from the highest ratio to the lowest, as many as fit."""
    ordered = sorted(group, key=_by_weight)
    shown = sorted(ordered[:_ROWS_MAX], key=lambda each: -each.ratio.value)
    factors = varying_among([each.identity for each in group])
    rows = [_cell_row(each, factors) for each in shown]
    ratios = [each.ratio for each in shown]
    overall = comparison.overall.get(figure)
    if overall is not None and len(group) > 1:
        rows.insert(0, _overall_row(comparison, figure, overall, len(group)))
        ratios.append(overall)
    found = {name for row in rows for name in row.points}
    notes = []
    if len(ordered) > len(shown):
        notes.append(
            f"{len(shown)} of {format_count(len(ordered))} cells are drawn, those that differ most."
        )
    return View(
        label=capitalized(figure_words(figure)),
        title=capitalized(_counts_text(comparison, figure, group)),
        rows=rows,
        names=[name for name in ANSWERS if name in found],
        axis=ratio_axis(f"{comparison.b.name} over {comparison.a.name}", ratios),
        guides=_guides(comparison, "x"),
        notes=notes,
    )


def _by_weight(comparand: Comparand) -> tuple[int, float]:
    """Return a key that sorts what surely differs first, then by how far from 1."""
    ratio = max(comparand.ratio.value, 1e-12)
    return (_RANKS[comparand.answer], -max(ratio, 1 / ratio))


def _cell_row(comparand: Comparand, factors: Sequence[str]) -> Row:
    name = identity_by(comparand.identity, factors) or str(comparand.identity.get("workload", ""))
    doubt = format_interval(comparand.ratio)
    reported = f"{ratio_text(comparand.ratio)} ({doubt})"
    return Row(
        label=name,
        points={comparand.answer: _ratio_point(comparand.ratio, reported)},
        remark=f"{reported}: {answer_text(comparand)}",
    )


def _overall_row(comparison: Comparison, figure: str, ratio: Estimate, cells: int) -> Row:
    reported = f"{ratio_text(ratio)} ({format_interval(ratio)})"
    known = comparison.overall_answers.get(figure)
    answer = known.answer if known else "undecided"
    words = overall_answer(comparison, figure)
    return Row(
        label=f"all {format_plural(cells, 'cell')} together",
        points={answer: _ratio_point(ratio, reported)},
        remark=f"{reported}: {words}" if known else reported,
    )


def _ratio_point(ratio: Estimate, text: str) -> Point:
    return Point(0, ratio.value, ratio.low, ratio.high, text)


def _counts_text(comparison: Comparison, figure: str, group: Sequence[Comparand]) -> str:
    """Return how many cells are higher, lower, the same or undecided."""
    counts = {answer: sum(each.answer == answer for each in group) for answer in ANSWERS}
    reported = ", ".join(f"{count} {answer}" for answer, count in counts.items() if count)
    return f"{figure_words(figure)} of {comparison.b.name}: {reported}"


def _guides(comparison: Comparison, axis: str) -> list[Guide]:
    """Return the line of no difference, and the band of what counts as none."""
    margin = comparison.margin_share
    upright = axis == "x"
    return [
        Guide(axis="x" if upright else "y", low=1 / (1 + margin), high=1 + margin),
        Guide(axis="x" if upright else "y", low=1.0),
    ]


def _pairs(comparison: Comparison, identifier: str) -> list[Figure]:
    """Return both sides against block size, the ratio below, where block sizes were varied."""
    views = [
        view
        for (figure, workload, operation), group in grouped(
            comparison.comparands,
            lambda each: (
                each.figure,
                str(each.identity.get("workload", "")),
                str(each.identity.get("operation", "")),
            ),
        ).items()
        if (view := _pair_view(comparison, figure, f"{workload}, {operation}", group)) is not None
    ]
    if not views:
        return []
    return [
        Figure(
            id=f"{identifier}-curves",
            kind="lines",
            topic=f"{comparison.a.name} and {comparison.b.name}",
            notes=[
                "Bands are 95 % intervals of each side.",
                *scatter_notes(
                    "bands", (side for each in comparison.comparands for side in (each.a, each.b))
                ),
                _margin_note(comparison),
            ],
            views=views,
            table=f"table-{identifier}",
        )
    ]


def _pair_view(
    comparison: Comparison, figure: str, where: str, group: Sequence[Comparand]
) -> View | None:
    """Return a curve for each side, the ratio below; None where block sizes were not varied."""
    sized = [each for each in group if each.identity.get("block_size_bytes")]
    factors = varying_among(
        [each.identity for each in sized], leave_out=("block_size_bytes", "operation", "workload")
    )
    timelines = {
        name: members
        for name, members in grouped(
            sized, lambda each: identity_by(each.identity, factors)
        ).items()
        if len(members) >= _SIZES_MIN
    }
    if not timelines:
        return None
    drawn = [each for members in timelines.values() for each in members]
    x_axis = block_size_axis(_size_bytes(each) for each in drawn)
    unit = drawn[0].a.unit
    y_axis = log_axis(
        _AXIS_NAMES.get(figure, "Response time"),
        unit,
        [end for each in drawn for end in (*extent([each.a]), *extent([each.b]))],
    )
    ratios = ratio_axis("ratio", [each.ratio for each in drawn])
    panels = []
    for name, members in timelines.items():
        ordered = sorted(members, key=_size_bytes)
        title = capitalized(name) or capitalized(where)
        panels.append(_curves(comparison, ordered, title, (x_axis, y_axis)))
        panels.append(_ratios(comparison, ordered, (x_axis, ratios)))
    label = f"{where}: {figure_words(figure)}"
    return View(
        label=label,
        title=f"{capitalized(where)}, {_counts_text(comparison, figure, drawn)}",
        group=capitalized(figure_words(figure)),
        panels=panels,
    )


def _size_bytes(comparand: Comparand) -> int:
    return int(comparand.identity["block_size_bytes"])


def _curves(
    comparison: Comparison, ordered: Sequence[Comparand], title: str, axes: tuple[Axis, Axis]
) -> Panel:
    sides = (
        (comparison.a.name, _A_STYLE, [each.a for each in ordered]),
        (comparison.b.name, _B_STYLE, [each.b for each in ordered]),
    )
    lines = [
        Line(
            name=name,
            style=style,
            points=[
                Point.of(_size_bytes(each), estimate)
                for each, estimate in zip(ordered, estimates, strict=True)
                if estimate.value > 0
            ],
        )
        for name, style, estimates in sides
    ]
    return Panel(title=title, x=axes[0], y=axes[1], lines=lines)


def _ratios(comparison: Comparison, ordered: Sequence[Comparand], axes: tuple[Axis, Axis]) -> Panel:
    lines = []
    for answer, (style, marker) in _ANSWER_STYLES.items():
        points = [
            Point(
                _size_bytes(each),
                each.ratio.value,
                each.ratio.low,
                each.ratio.high,
                f"{ratio_text(each.ratio)} ({format_interval(each.ratio)})",
            )
            for each in ordered
            if each.answer == answer and each.ratio.value > 0
        ]
        if points:
            lines.append(Line(name=answer, style=style, marker=marker, look="dots", points=points))
    return Panel(
        title="",
        x=axes[0],
        y=axes[1],
        lines=lines,
        guides=_guides(comparison, "y"),
        below=True,
    )
