"""The HTML page of a comparison: differences of set-up and figures, cell by cell.

Like the report of a run it is one file that makes no network requests and is complete with scripts
off. Several sides are each compared with the first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal

import msgspec
from markupsafe import Markup

from seatrial.findings.comparison_answer import comparison_answer
from seatrial.grouping import grouped
from seatrial.report.document import BYTES_MAX, chapters, page_document
from seatrial.report.exports.json_document import Document
from seatrial.report.figures.axes import (
    block_size_axis,
    extent,
    log_axis,
    ratio_axis,
    scatter_notes,
)
from seatrial.report.figures.model import Axis, Figure, Guide, Line, Panel, Point, Row, View
from seatrial.report.figures.naming import cell_name, identity_by, varying_among
from seatrial.report.first_screen import first_screen
from seatrial.report.markup import fill
from seatrial.report.part import KEY_FIGURES_MAX, charts_section, key_section, tables_section
from seatrial.report.sections import finding_list, machines_section, studies_section
from seatrial.report.table import NO_FIGURE, Group, Table, doubt_text
from seatrial.results.model import Run
from seatrial.stats.compare.fingerprints import value_phrase
from seatrial.stats.compare.model import Comparison, FigureComparison, Overall, Side
from seatrial.stats.compare.verdict import figure_phrase, noise_phrase
from seatrial.stats.model import Estimate, Finding
from seatrial.stats.wording import (
    capitalized,
    format_count,
    format_interval,
    format_list,
    format_plural,
    format_share,
    format_value,
    moment,
)


class ComparisonDocument(Document, frozen=True, kw_only=True):
    """A comparison.

    ``seatrial compare``: one or more results, each against A.

    Attributes:
        a: The side that all others are compared with.
        comparisons: Each of the others against A, in the order in which they were named; all
            of them count in the adjustment for multiple comparisons.
    """

    kind: Literal["comparison"] = "comparison"
    a: Side
    comparisons: list[Comparison]


def comparison_table(comparison: Comparison) -> Table:
    """Return a row for each figure of each common cell: both sides, ratio, answer."""
    a, b = comparison.a.name, comparison.b.name
    return Table(
        id="comparison",
        title=f"{b} against {a}, test by test",
        labels=2,
        headers=["Test", "Figure", "Value", "±", "Value", "±", "Ratio", "95 %", "Answer"],
        groups=[Group("", 2), Group(a, 2), Group(b, 2), Group("B over A", 3)],
        rows=[_comparand_row(each) for each in comparison.comparands],
    )


def overall_table(comparison: Comparison) -> Table:
    """Return the geometric mean ratio of each figure over all common cells."""
    return Table(
        id="overall",
        title=f"{comparison.b.name} against {comparison.a.name}, all common tests together",
        labels=1,
        headers=["Figure", "Ratio", "95 %", "Answer"],
        rows=[
            [
                figure_phrase(figure),
                ratio_text(ratio),
                doubt_text(ratio),
                overall_answer(comparison, figure),
            ]
            for figure, ratio in comparison.overall.items()
        ],
    )


def differences_table(comparison: Comparison) -> Table:
    """Return the differences of the two fingerprints, the likeliest reasons first."""
    return Table(
        id="differences",
        title="What differs in machine and target",
        labels=4,
        headers=["What", comparison.a.name, comparison.b.name, "Weight"],
        rows=[
            [
                each.words,
                value_phrase(each.path, each.a),
                value_phrase(each.path, each.b),
                {"likely": "likely reason", "minor": "minor"}[each.weight],
            ]
            for each in comparison.differences
        ],
    )


def ratio_text(ratio: Estimate) -> str:
    """Return a ratio such as ``1.8x``; two digits if it was measured once."""
    return format_value(ratio)


def decision_text(answered: FigureComparison | Overall) -> str:
    """Return what is certain of one figure, such as ``same within 3 %``."""
    if answered.answer == "same" and answered.within_share is not None:
        whole_percents = math.ceil(answered.within_share * 100 - 1e-9)  # never stated narrower
        return f"same within {format_share(whole_percents / 100)}"
    if answered.below_noise:
        return "undecided, below the noise"
    if answered.answer == "undecided" and answered.rounds_more is not None:
        return f"undecided, needs {format_plural(answered.rounds_more, 'more round')}"
    return answered.answer


def overall_answer(comparison: Comparison, figure: str) -> str:
    """Return what is certain of a figure over all cells; a dash where none is computed."""
    known = comparison.overall_answers.get(figure)
    return NO_FIGURE if known is None else decision_text(known)


def _comparand_row(comparand: FigureComparison) -> list[str]:
    return [
        cell_name(comparand.identity),
        figure_phrase(comparand.figure),
        format_value(comparand.a),
        doubt_text(comparand.a),
        format_value(comparand.b),
        doubt_text(comparand.b),
        ratio_text(comparand.ratio),
        doubt_text(comparand.ratio),
        decision_text(comparand),
    ]


def differences_section(comparison: Comparison, identifier: str) -> Markup:
    """Return the differences of machines and targets, the likeliest reasons first."""
    a, b = comparison.a, comparison.b
    unknown = [side.name for side in (a, b) if not side.run.fingerprint_before.is_taken]
    return fill(
        "report/templates/differences.html",
        id=f"{identifier}-differences",
        heading=f"What differs between {a.name} and {b.name}",
        unknown=unknown,
        table=differences_table(comparison) if comparison.differences else None,
    )


def warnings_section(comparison: Comparison, identifier: str) -> Markup:
    """Return what weakens the comparison; empty without warnings."""
    return warnings_part(comparison.warnings, f"{identifier}-warnings")


def warnings_part(sentences: Sequence[str], identifier: str) -> Markup:
    """Return what weakens a comparison; empty without warnings."""
    return fill("report/templates/warnings.html", sentences=sentences, id=identifier)


def comparison_findings(comparison: Comparison, identifier: str) -> Markup:
    """Return the findings of the comparison; empty without any."""
    heading = f"Findings: {comparison.b.name} against {comparison.a.name}"
    return findings_part(
        comparison.findings, f"{identifier}-findings", heading, prefix=f"{identifier}-finding"
    )


def findings_part(
    findings: Sequence[Finding], identifier: str, heading: str, prefix: str = "finding"
) -> Markup:
    """Return findings under a heading; empty without any.

    Args:
        findings: The findings.
        identifier: Identifier of the part of the page.
        heading: Their heading.
        prefix: Prefix of the identifiers of the findings.
    """
    listed = finding_list(findings, prefix) if findings else ""
    return fill(
        "report/templates/findings_part.html",
        listed=listed,
        id=identifier,
        heading=heading,
    )


def comparison_numbers(comparison: Comparison, identifier: str, rows_max: int) -> Markup:
    """Return the tables of a comparison with limited rows of cells, and what is left out."""
    a, b = comparison.a.name, comparison.b.name
    tables = [overall_table(comparison), comparison_table(shortened(comparison, rows_max))]
    rest = len(comparison.comparands) - rows_max
    lacking = [
        (f"{format_plural(len(keys), 'test')} that {name} lacks", keys)
        for name, keys in ((b, comparison.only_a), (a, comparison.only_b))
        if keys
    ]
    return fill(
        "report/templates/comparison.html",
        id=f"table-{identifier}",
        heading=f"{b} against {a}",
        tables=[table for table in tables if table.rows],
        left_out=format_plural(rest, "figure") if rest > 0 else "",
        lacking=lacking,
    )


def shortened(comparison: Comparison, rows_max: int) -> Comparison:
    """Return the comparison with its first rows of cells only."""
    kept = comparison.comparands[:rows_max]
    return msgspec.structs.replace(comparison, comparands=kept)


ANSWERS: Final = ("higher", "lower", "undecided", "same")
_RANKS: Final = {"higher": 0, "lower": 0, "undecided": 1, "same": 2}
_CHART_ROWS_MAX: Final = 40
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
    """Return the charts of one comparison; none if the sides have nothing in common.

    Args:
        comparison: The comparison.
        identifier: Prefix of the names of its charts and its table in the page.
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


def _list_view(comparison: Comparison, figure: str, group: Sequence[FigureComparison]) -> View:
    """Return the cells of one figure from the highest ratio to the lowest, as many as fit."""
    ordered = sorted(group, key=_by_weight)
    shown = sorted(ordered[:_CHART_ROWS_MAX], key=lambda each: -each.ratio.value)
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
            f"{len(shown)} of {format_count(len(ordered))} tests are drawn, those that differ most."
        )
    return View(
        label=capitalized(figure_phrase(figure)),
        title=capitalized(_counts_text(comparison, figure, group)),
        rows=rows,
        names=[name for name in ANSWERS if name in found],
        axis=ratio_axis(f"{comparison.b.name} over {comparison.a.name}", ratios),
        guides=_guides(comparison, "x"),
        notes=notes,
    )


def _by_weight(comparand: FigureComparison) -> tuple[int, float]:
    """Return a sort key: significant differences first, then by distance from 1."""
    ratio = max(comparand.ratio.value, 1e-12)
    return (_RANKS[comparand.answer], -max(ratio, 1 / ratio))


def _cell_row(comparand: FigureComparison, factors: Sequence[str]) -> Row:
    name = identity_by(comparand.identity, factors) or str(comparand.identity.get("workload", ""))
    doubt = format_interval(comparand.ratio)
    text = f"{ratio_text(comparand.ratio)} ({doubt})"
    return Row(
        label=name,
        points={comparand.answer: _ratio_point(comparand.ratio, text)},
        remark=f"{text}: {decision_text(comparand)}",
    )


def _overall_row(comparison: Comparison, figure: str, ratio: Estimate, cells: int) -> Row:
    text = f"{ratio_text(ratio)} ({format_interval(ratio)})"
    known = comparison.overall_answers.get(figure)
    answer = known.answer if known else "undecided"
    words = overall_answer(comparison, figure)
    return Row(
        label=f"all {format_plural(cells, 'test')} together",
        points={answer: _ratio_point(ratio, text)},
        remark=f"{text}: {words}" if known else text,
    )


def _ratio_point(ratio: Estimate, text: str) -> Point:
    return Point(0, ratio.value, ratio.low, ratio.high, text)


def _counts_text(comparison: Comparison, figure: str, group: Sequence[FigureComparison]) -> str:
    """Return how many cells are higher, lower, the same or undecided."""
    counts = {answer: sum(each.answer == answer for each in group) for answer in ANSWERS}
    text = ", ".join(f"{count} {answer}" for answer, count in counts.items() if count)
    return f"{figure_phrase(figure)} of {comparison.b.name}: {text}"


def _guides(comparison: Comparison, axis: str) -> list[Guide]:
    """Return the line of no difference, and the band of the margin."""
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
    comparison: Comparison, figure: str, where: str, group: Sequence[FigureComparison]
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
    label = f"{where}: {figure_phrase(figure)}"
    return View(
        label=label,
        title=f"{capitalized(where)}, {_counts_text(comparison, figure, drawn)}",
        group=capitalized(figure_phrase(figure)),
        panels=panels,
    )


def _size_bytes(comparand: FigureComparison) -> int:
    return int(comparand.identity["block_size_bytes"])


def _curves(
    comparison: Comparison, ordered: Sequence[FigureComparison], title: str, axes: tuple[Axis, Axis]
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


def _ratios(
    comparison: Comparison, ordered: Sequence[FigureComparison], axes: tuple[Axis, Axis]
) -> Panel:
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


_ROWS_MAX = (5_000, 1_000, 200)
"""Rows of cells that a page may show; the first number that keeps it within its bound is used."""


def render(comparisons: Sequence[Comparison]) -> str:
    """Return the page of one or more comparisons, all with the same side A.

    Raises:
        AssetError: When the installation's ECharts is not the one that was pinned.
        ValueError: When there is no comparison.
    """
    if not comparisons:
        raise ValueError("a page of comparisons needs at least one")
    page = ""
    for rows_max in _ROWS_MAX:
        page = _rendered(comparisons, rows_max)
        if len(page.encode()) <= BYTES_MAX:
            break
    return page


def _rendered(comparisons: Sequence[Comparison], rows_max: int) -> str:
    sides = [comparisons[0].a, *(each.b for each in comparisons)]
    name = format_list([side.name for side in sides])
    named = {f"pair-{number}": each for number, each in enumerate(comparisons, start=1)}
    figures = [
        figure
        for identifier, each in named.items()
        for figure in comparison_figures(shortened(each, rows_max), identifier)
    ]
    keys = figures[:KEY_FIGURES_MAX]
    body = fill(
        "report/templates/body.html",
        head=_head(name, comparisons),
        chapters=chapters(_chapters(comparisons, figures)),
        parts=[
            key_section(keys),
            *(part for identifier, each in named.items() for part in _answers(each, identifier)),
            charts_section(figures[KEY_FIGURES_MAX:], heading="More charts"),
            tables_section(
                [
                    comparison_numbers(each, identifier, rows_max)
                    for identifier, each in named.items()
                ]
            ),
            machines_section(_by_run(sides)),
            studies_section(_by_run(sides)),
        ],
        skip=("pair-1-differences", "what differs"),
    )
    title = f"{name}: Seatrial comparison"
    return page_document(title, body, figures, f"Seatrial, {name}")


def _head(name: str, comparisons: Sequence[Comparison]) -> Markup:
    """Return the first screen, whose worst findings link to their full text."""
    first = comparison_answer(comparisons)
    positions = [
        (finding, f"pair-{pair}", f"finding-{position}")
        for pair, each in enumerate(comparisons, start=1)
        for position, finding in enumerate(each.findings, start=1)
    ]
    return first_screen(
        name,
        first,
        _particulars(comparisons),
        anchors=[
            next(f"{pair}-{position}" for each, pair, position in positions if each is finding)
            for finding in first.worst
        ],
        all_findings=next((f"{pair}-findings" for _, pair, _ in positions), ""),
        warnings=_weakened(comparisons),
        words=" ".join(each.verdict for each in comparisons),
    )


def _weakened(comparisons: Sequence[Comparison]) -> tuple[str, str] | None:
    """Return how many warnings there are, and where the first of them are listed."""
    weak = [pair for pair, each in enumerate(comparisons, start=1) if each.warnings]
    if not weak:
        return None
    count = sum(len(each.warnings) for each in comparisons)
    verb = "weakens" if count == 1 else "weaken"
    return f"{format_plural(count, 'limitation')} {verb} the comparison", f"pair-{weak[0]}-warnings"


def _answers(comparison: Comparison, identifier: str) -> list[Markup]:
    """Return reasons, doubts and findings of one comparison."""
    return [
        differences_section(comparison, identifier),
        warnings_section(comparison, identifier),
        comparison_findings(comparison, identifier),
    ]


def _chapters(comparisons: Sequence[Comparison], figures: Sequence[Figure]) -> dict[str, str]:
    several = len(comparisons) > 1
    names = {"key": "Key charts"} if figures else {}
    for pair, each in enumerate(comparisons, start=1):
        ending = f": {each.b.name}" if several else ""
        names[f"pair-{pair}-differences"] = f"What differs{ending}"
        if each.warnings:
            names[f"pair-{pair}-warnings"] = f"Warnings{ending}"
        if each.findings:
            names[f"pair-{pair}-findings"] = f"Findings{ending}"
    if len(figures) > KEY_FIGURES_MAX:
        names["charts"] = "More charts"
    return names | {"tables": "Tables", "machine": "Machines", "study": "Studies"}


def _particulars(comparisons: Sequence[Comparison]) -> dict[str, str]:
    """Return the sides, how many cells they share, and how certain a ratio can be."""
    sides = [comparisons[0].a, *(each.b for each in comparisons)]
    rows = {
        f"{letter}: {side.name}": _side_text(side)
        for letter, side in zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", sides, strict=False)
    }
    rows["Compared"] = "; ".join(_method_phrase(each) for each in comparisons)
    if noise := noise_phrase(comparisons[0]):
        rows["Noise floor"] = noise
    return rows


def _method_phrase(comparison: Comparison) -> str:
    cells = len({part.key for part in comparison.comparands})
    method = "round by round" if comparison.paired else "not paired by round"
    return f"{format_plural(cells, 'common test')}, {method}"


def _side_text(side: Side) -> str:
    target = f"target {side.target}, " if side.target else ""
    return f"{target}run {side.run.id}, {moment(side.run.started_at)}"


def _by_run(sides: Sequence[Side]) -> list[tuple[str, Run]]:
    """Return each run once, with the names of the sides that come from it."""
    runs = {side.run.id: side.run for side in sides}
    return [
        (", ".join(side.name for side in sides if side.run.id == identifier), run)
        for identifier, run in runs.items()
    ]
