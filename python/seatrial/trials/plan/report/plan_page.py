"""The HTML page of a plan: price against response time, with risk as a third mark."""

from __future__ import annotations

from typing import Final

from seatrial.report.figures.axes import linear_axis, log_axis
from seatrial.report.figures.model import Figure, Line, Panel, Point, Ring, View
from seatrial.report.table import Table
from seatrial.stats.wording import format_count
from seatrial.study.units import format_size
from seatrial.trials.plan.analysis.answer import Choice, StoragePlan
from seatrial.trials.plan.report.plan_text import (
    choices_table,
    explained,
    notes,
    separating_sentences,
    times_phrase,
    verdict_line,
)
from seatrial.trials.plan.report.proof import proof_sentence
from seatrial.trials.plan.report.risk_text import chance_phrase, years_phrase
from seatrial.trials.watch.report.load_page import PageWords, page_of
from seatrial.units import NS_PER_MS

_RISKS: Final = (
    (1e-3, "loss below 1 in 1,000 per year"),
    (1e-2, "below 1 %"),
    (1.1, "1 % and more"),
)


def render(plan: StoragePlan, name: str, study_path: str = "") -> str:
    """Return the page as a self-contained HTML document.

    Args:
        plan: The answer.
        name: Name of the need, as the user named it.
        study_path: The study file of the proof; empty where none was written.

    Raises:
        AssetError: when the installation's ECharts is not the one that was pinned.
    """
    words = PageWords(
        verdict=verdict_line(plan),
        notable=notes(plan),
        doubts=[
            "Limits and prices are facts of the catalogue with their dates; only a measurement of "
            "the rented storage proves them.",
        ],
        confidence=f"{format_count(plan.candidates)} candidates judged in "
        f"{format_count(plan.worlds)} scenarios with the same draws.",
        next_step=next(
            iter(separating_sentences(plan)),
            proof_sentence(plan, study_path)
            if plan.choices
            else "Raise the budget, or lower the requirements",
        ),
    )
    tables = [choices_table(plan), _steps_table(plan)] if plan.choices else [_steps_table(plan)]
    return page_of(f"plan for {name}", words, _particulars(plan), plan_figures(plan), tables)


def _particulars(plan: StoragePlan) -> dict[str, str]:
    return {
        "Need": plan.load,
        "Stored": format_size(int(plan.capacity.mid)),
        "Objective": plan.objective.words if plan.objective else "none but the rates",
        "Candidates": format_count(plan.candidates),
        "Evaluated after": years_phrase(plan.years),
    }


def _steps_table(plan: StoragePlan) -> Table:
    rows = [[name, text] for name, _, text in (each.partition(": ") for each in explained(plan))]
    return Table(
        id="table-steps",
        title="How the first one was found",
        labels=1,
        headers=["Step", "Figure and origin"],
        rows=[[name, text or "see above"] for name, text in rows],
    )


def plan_figures(plan: StoragePlan) -> list[Figure]:
    """Return price against response time of all that fit; none where no time is known."""
    shown = [each for each in plan.choices if each.response_ms_mid is not None]
    if not shown:
        return []
    lines = []
    low = 0.0
    for style, (high, name) in enumerate(_RISKS):
        points = [
            _point(each)
            for each in sorted(shown, key=lambda each: each.month.mid)
            if low <= each.lost_per_year.mid < high
        ]
        if points:
            lines.append(Line(name=name, style=style, points=points, look="dots"))
        low = high
    first = shown[0]
    text = _point(first).text
    of_first = next(line.name for line in lines if any(point.text == text for point in line.points))
    percentile = plan.objective.percentile if plan.objective else "p99"
    ends = [
        (value or 0.0) * NS_PER_MS
        for each in shown
        for value in (each.response_ms_low, each.response_ms_mid, each.response_ms_high)
        if value
    ]
    is_open = any(each.response_ms_high is None for each in shown)
    panel = Panel(
        title="",
        x=linear_axis(
            f"Per month ({first.month.currency})", "money", [each.month.mid for each in shown]
        ),
        y=log_axis(f"{percentile} response time", "ns", ends),
        lines=lines,
        ring_name="least regret",
        rings=[
            Ring(
                first.month.mid,
                (first.response_ms_mid or 0.0) * NS_PER_MS,
                "1",
                f"{first.name}: least regret",
                of_first,
            )
        ],
    )
    return [
        Figure(
            id="plan",
            kind="lines",
            topic="Price and response time",
            notes=[
                "Bars hold 90 % of the scenarios; the ring is the candidate of least regret. "
                "Candidates that another one beats in every respect are left out."
            ],
            views=[
                View(
                    label="choices",
                    title="What a shorter response time costs per month",
                    panels=[panel],
                    notes=["No bar: overloaded in over 5 % of the scenarios."] * is_open,
                )
            ],
            table="table-choices",
        )
    ]


def _point(choice: Choice) -> Point:
    middle = (choice.response_ms_mid or 0.0) * NS_PER_MS
    has_ends = choice.response_ms_low is not None and choice.response_ms_high is not None
    return Point(
        choice.month.mid,
        middle,
        (choice.response_ms_low or 0.0) * NS_PER_MS if has_ends else None,
        (choice.response_ms_high or 0.0) * NS_PER_MS if has_ends else None,
        f"{choice.name}: {choice.month.mid:,.2f} {choice.month.currency}, {times_phrase(choice)}, "
        f"loss {chance_phrase(choice.lost_per_year.mid)} per year",
    )
