"""The HTML page of a comparison: which differs, why probably, by how much, cell by cell.

Like the report of a run it is one file that asks no network for anything and says all it knows
with scripts off. Several things are each compared with the first.
"""

from __future__ import annotations

from collections.abc import Sequence

from seatrial.report.document import BYTES_MAX, chapters, page_document, page_head
from seatrial.report.figures.comparison import comparison_figures
from seatrial.report.figures.model import Figure
from seatrial.report.markup import Markup, element
from seatrial.report.sections.charts import charts_section
from seatrial.report.sections.comparison import (
    comparison_findings,
    comparison_numbers,
    differences_section,
    shortened,
    warnings_section,
)
from seatrial.report.sections.machine import fingerprints
from seatrial.report.sections.study import study_parts
from seatrial.report.sections.tables import tables_section
from seatrial.results.model import Run
from seatrial.stats.compare.model import Comparison, Side
from seatrial.stats.wording import format_plural, format_share, moment

_ROWS_MAX = (5_000, 1_000, 200)
"""How many figures of cells a page shows; the first that keeps it within its bound is taken."""


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
    name = " and ".join([", ".join(side.name for side in sides[:-1]), sides[-1].name])
    named = {f"pair-{number}": each for number, each in enumerate(comparisons, start=1)}
    figures = [
        figure
        for identifier, each in named.items()
        for figure in comparison_figures(shortened(each, rows_max), identifier)
    ]
    body = [
        element("a", "Skip to what differs", href="#pair-1-differences", class_="skip"),
        page_head(name, " ".join(each.verdict for each in comparisons), _particulars(comparisons)),
        chapters(_chapters(figures)),
        element(
            "main",
            *(part for identifier, each in named.items() for part in _answers(each, identifier)),
            charts_section(figures),
            tables_section(
                [
                    comparison_numbers(each, identifier, rows_max)
                    for identifier, each in named.items()
                ]
            ),
            _machines(sides),
            _studies(sides),
        ),
    ]
    title = f"{name}: Seatrial comparison"
    return page_document(title, body, figures, f"Seatrial, {name}")


def _answers(comparison: Comparison, identifier: str) -> list[Markup]:
    """Return reasons, doubts and findings of one comparison."""
    return [
        differences_section(comparison, identifier),
        warnings_section(comparison, identifier),
        comparison_findings(comparison, identifier),
    ]


def _chapters(figures: Sequence[Figure]) -> dict[str, str]:
    charts = {"charts": "Charts"} if figures else {}
    names = {"pair-1-differences": "What differs"} | charts
    return names | {"tables": "Tables", "machine": "Machines", "study": "Studies"}


def _particulars(comparisons: Sequence[Comparison]) -> dict[str, str]:
    """Return what the sides are, how many cells they share, and how sure a ratio can be."""
    sides = [comparisons[0].a, *(each.b for each in comparisons)]
    reported = {
        f"{letter}: {side.name}": _side_text(side)
        for letter, side in zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", sides, strict=False)
    }
    reported["Compared"] = "; ".join(_manner(each) for each in comparisons)
    if noise := comparisons[0].noise_share:
        reported["Noise floor"] = f"an A/A pair differed by up to {format_share(noise)}"
    return reported


def _manner(comparison: Comparison) -> str:
    cells = len({part.key for part in comparison.comparands})
    manner = "round by round" if comparison.paired else "not paired by round"
    return f"{format_plural(cells, 'common cell')}, {manner}"


def _side_text(side: Side) -> str:
    target = f"target {side.target}, " if side.target else ""
    return f"{target}run {side.run.id}, {moment(side.run.started_at)}"


def _machines(sides: Sequence[Side]) -> Markup:
    """Return the fingerprints of every run that takes part, folded."""
    parts = (
        element("details", element("summary", names), *fingerprints(run), class_="machine")
        for names, run in _by_run(sides)
    )
    return element(
        "section", element("h2", "Machines"), *parts, id="machine", aria_label="Machines"
    )


def _studies(sides: Sequence[Side]) -> Markup:
    """Return the study of every run that takes part, folded."""
    parts = (
        element("details", element("summary", names), *study_parts(run))
        for names, run in _by_run(sides)
    )
    return element("section", element("h2", "Studies"), *parts, id="study", aria_label="Studies")


def _by_run(sides: Sequence[Side]) -> list[tuple[str, Run]]:
    """Return each run once, with the names of the sides that come from it."""
    runs = {side.run.id: side.run for side in sides}
    return [
        (", ".join(side.name for side in sides if side.run.id == identifier), run)
        for identifier, run in runs.items()
    ]
