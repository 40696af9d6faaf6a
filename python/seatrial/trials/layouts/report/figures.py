"""The figures of the article "One DVD per second" with the data of this run, in one chart.

Figures 1 to 5 are against the number of drives, 6 to 31 against block size. For layouts that are
not in the article, "Charts" has the same figures in the random matrix.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from seatrial.grouping import grouped
from seatrial.report.figures.axes import block_size_axis, extent, log_axis, rounds_note, value_axis
from seatrial.report.figures.model import Axis, Figure, Line, Panel, Point, Ring, Tick, View
from seatrial.report.figures.naming import line_style_of, requests_word
from seatrial.stats.model import Estimate
from seatrial.stats.wording import capitalized, format_estimate, format_plural, format_size
from seatrial.trials.layouts.analysis.figures import FIGURES
from seatrial.trials.layouts.analysis.model import (
    FigureLine,
    LayoutAnalysis,
    MeasuredFigure,
)

FIGURE_ID: Final = "layout-figures"
NUMBERS_ID: Final = "layout-numbers"
_GROUPS: Final = {
    "drives": "Against the number of drives",
    "block_size_bytes": "Against the block size",
}
_AXIS_NAMES: Final = {
    "B/s": "Bandwidth (MB/s)",
    "IOPS": "Requests per second (IOPS)",
    "ns": "Time (lower is better)",
}
_NO_MORE: Final = "saturation"
_NOTES_MAX: Final = 3
_LOG_FROM_RATIO: Final = 10.0
"""Against block size, figures over a wider range than this get a logarithmic axis."""
_FIRST_SHOWN: Final = (4, 5, 3, 1)
"""The most informative figures of the article; the first one available is shown first."""


def layout_figures(found: LayoutAnalysis) -> list[Figure]:
    """Return the article's figures as one chart with a selector; empty if the run has none.

    Args:
        found: The analysis of a run's layouts.
    """
    shown = shown_figures(found.figures)
    if not shown:
        return []
    numbers = [each.number for each in shown]
    first = next((number for number in _FIRST_SHOWN if number in numbers), numbers[0])
    return [
        Figure(
            id=FIGURE_ID,
            kind="lines",
            topic="The figures of the article “One DVD per second”",
            notes=[rounds_note("bands and strokes", _estimates(shown))],
            views=[_view(each) for each in shown],
            chosen=numbers.index(first),
            table=NUMBERS_ID,
        )
    ]


def _estimates(figures: Sequence[MeasuredFigure]) -> list[Estimate]:
    return [point.y for each in figures for line in each.lines for point in line.points]


def shown_figures(figures: Sequence[MeasuredFigure]) -> list[MeasuredFigure]:
    """Return the figures to draw here: those of the article, and others against drives."""
    return [each for each in figures if each.number or each.against == "drives"]


def figure_name(figure: MeasuredFigure) -> str:
    """Return the name of a figure: ``Fig 3: random 8 KiB, 1 thread, against ...``."""
    if not figure.number:
        return figure.title
    begins_with_name = figure.title[:2].isupper()
    title = figure.title if begins_with_name else figure.title[:1].lower() + figure.title[1:]
    return f"Fig {figure.number}: {title}"


def numbers_sentence(figures: Sequence[MeasuredFigure]) -> str:
    """Return which of the article's figures a run has, and which are missing, in one line."""
    known = sorted({each.number for each in figures} - {0})
    absent = sorted({each.number for each in FIGURES} - set(known))
    if not absent:
        return f"This run has all {len(FIGURES)} figures of the article."
    noun = format_plural(len(FIGURES), "figure")
    text = f"Of the article's {noun}, this run has {in_runs(known) or 'none'}"
    return f"{text}; missing: {in_runs(absent)}."


def in_runs(numbers: Sequence[int]) -> str:
    """Return ascending numbers with ranges, such as ``1, 3 to 5, 12``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    texts = (f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)
    return ", ".join(texts)


def _view(figure: MeasuredFigure) -> View:
    estimates = _estimates([figure])
    x_axis = _x_axis(figure)
    y_axis = _y_axis(figure, estimates)
    names = line_names(figure)
    styles = line_style_of(names.values())
    panels = [
        Panel(
            title=capitalized(requests_word(operation)),
            x=x_axis,
            y=y_axis,
            lines=[_line(line, names[id(line)], styles) for line in lines],
            rings=_saturations(lines, names),
            ring_name=_NO_MORE,
        )
        for operation, lines in grouped(figure.lines, lambda line: line.operation).items()
    ]
    text = _saturation_notes(figure)
    return View(
        label=figure_name(figure),
        title=figure_name(figure),
        group=_GROUPS[figure.against] if figure.number else "Other sizes and threads",
        panels=panels,
        notes=text or [f"{_best(figure)}."],
    )


def line_names(figure: MeasuredFigure) -> dict[int, str]:
    """Return the distinguishing names of lines, by identity, without operation and common parts.

    Lines of reads and of writes have the same name if they differ in nothing else.
    """
    parts = [
        [part for part in line.name.split(", ") if part != line.operation] or [line.name]
        for line in figure.lines
    ]
    common = set.intersection(*map(set, parts))
    names = (", ".join(part for part in each if part not in common) or ", ".join(each)
             for each in parts)  # fmt: skip
    return {id(line): name for line, name in zip(figure.lines, names, strict=True)}


def _saturation_notes(figure: MeasuredFigure) -> list[str]:
    """Return the saturation of the first lines that have one."""
    names = line_names(figure)
    several = len(set(names.values())) > 1
    texts = [
        f"{names[id(line)]}: {line.saturation.sentence}" if several else line.saturation.sentence
        for line in figure.lines
        if line.saturation
    ]
    more = len(texts) - _NOTES_MAX
    if more <= 0:
        return texts
    others = format_plural(more, "more line")
    return [*texts[:_NOTES_MAX], f"Saturation of {others} is circled."]


def _saturations(lines: Sequence[FigureLine], names: Mapping[int, str]) -> list[Ring]:
    """Return a circle around each point of saturation."""
    found = []
    for line in lines:
        end = line.saturation
        point = next((each for each in line.points if end and each.x == end.drives), None)
        if end and point and point.y.value > 0:
            found.append(Ring(point.x, point.y.value, "", end.sentence, names[id(line)]))
    return found


def _line(line: FigureLine, name: str, styles: Mapping[str, int]) -> Line:
    points = [Point.of(point.x, point.y) for point in line.points if point.y.value > 0]
    return Line(name=name, style=styles[name], points=points)


def _x_axis(figure: MeasuredFigure) -> Axis:
    values = sorted({point.x for line in figure.lines for point in line.points})
    if figure.against == "block_size_bytes":
        return block_size_axis(values)
    return Axis(
        name="Number of drives",
        unit="drives",
        scale="linear",
        low=values[0] - 0.5,
        high=values[-1] + 0.5,
        ticks=[Tick(value, str(value)) for value in values],
    )


def _y_axis(figure: MeasuredFigure, estimates: Sequence[Estimate]) -> Axis:
    """Return an axis from 0; a logarithmic one against block size over a wide range."""
    name = _AXIS_NAMES[figure.unit]
    values = [estimate.value for estimate in estimates if estimate.value > 0]
    is_wide = bool(values) and max(values) > _LOG_FROM_RATIO * min(values)
    if figure.against == "block_size_bytes" and is_wide:
        return log_axis(name, figure.unit, extent(estimates))
    return value_axis(name, figure.unit, estimates)


def _best(figure: MeasuredFigure) -> str:
    """Return the best point of each operation, as one sentence."""
    parts, names = [], line_names(figure)
    sign = 1 if figure.unit == "ns" else -1
    for operation, lines in grouped(figure.lines, lambda line: line.operation).items():
        line, point = min(
            ((line, point) for line in lines for point in line.points),
            key=lambda each: sign * each[1].y.value,
        )
        is_drives = figure.against == "drives"
        x = format_plural(point.x, "drive") if is_drives else format_size(point.x)
        where = f"{x}, {names[id(line)]}"
        parts.append(f"{requests_word(operation)}: {format_estimate(point.y)} with {where}")
    return capitalized("; ".join(parts))
