"""Replays: verdict, the account that adds up, timelines of both sides, latencies, errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from seatrial.findings.model import Summary
from seatrial.report.figures.model import Figure
from seatrial.report.figures.naming import capitalized
from seatrial.report.markup import Markup, element, join, unbroken
from seatrial.report.part import Detail, PagePart
from seatrial.report.published import LINES_SOURCE, published_lines
from seatrial.report.sections.charts import frame, unscripted
from seatrial.report.sections.tables import plain_table
from seatrial.report.table import NO_FIGURE, Table
from seatrial.stats.model import CellSummary
from seatrial.stats.wording import format_duration_ns, format_estimate, format_iops, format_plural
from seatrial.trials.replay.analysis.judgement import judge
from seatrial.trials.replay.analysis.model import ReplayCell
from seatrial.trials.replay.report.cache_figures import cache_figures
from seatrial.trials.replay.report.caches import (
    cache_sizes,
    cache_tables,
    published_table,
    sweep_sentences,
)
from seatrial.trials.replay.report.evidence_section import evidence_part
from seatrial.trials.replay.report.fact_tables import facts_table, lateness_table, trace_table
from seatrial.trials.replay.report.figures import replay_figures
from seatrial.trials.replay.report.steps import Step, captured_steps, replayed_steps
from seatrial.trials.replay.report.tables import (
    account_table,
    classes_table,
    problem_tables,
    queries_table,
    rates_table,
)
from seatrial.trials.replay.report.words import name_of, replayed, reported_of

HEADING: Final = "Replay"
QUERIES_MAX: Final = 100
"""Of a page; the results file has more."""
_OPEN: Final = 1
_EXACT: Final = 0.0
_QUERY_TABLES: Final = ("replay-error-examples", "replay-row-examples")


def replay_part(summary: Summary, detail: Detail) -> PagePart:
    """Return the part of a page on a run's replays, with as much of it as there is room for."""
    replays = replayed(summary)
    if not replays:
        return PagePart("replay", HEADING, Markup(""), [])
    cells = [part for _, part in replays]
    caches = cache_figures(summary, with_published=detail.with_published)
    parts, figures = [], [*caches]
    for number, (reported, part) in enumerate(replays, start=1):
        drawn = (
            replay_figures(reported, part, cells, number) if number <= detail.timelines_max else []
        )
        content = _content(reported, part, drawn, number)
        figures += drawn
        if len(replays) == 1:
            parts.append(content)
            continue
        heading = element("summary", unbroken(_heading(reported, part, cells)))
        parts.append(element("details", heading, content, class_="cell", open=number <= _OPEN))
    body = [
        unscripted("beside them"),
        plain_table(rates_table(replays)),
        *_caches(summary, caches),
        *parts,
        *_undrawn(len(replays) - detail.timelines_max),
    ]
    section = element("section", element("h2", HEADING), *body, id="replay", aria_label=HEADING)
    return PagePart("replay", HEADING, section, figures)


def _caches(summary: Summary, figures: Sequence[Figure]) -> list[Markup]:
    """Return chart and table of each cache that had several sizes, then what was published."""
    if not figures:
        return []
    found = []
    every = zip(figures, cache_tables(summary), cache_sizes(summary), strict=True)
    for figure, table, sizes in every:
        sentences = (element("li", unbroken(reported)) for reported in sweep_sentences(sizes))
        found += [
            frame(figure),
            element("div", plain_table(table), id=f"table-{table.id}"),
            element("ul", *sentences, class_="notes"),
        ]
    published = published_table(published_lines())
    if published.rows:
        body = plain_table(published, captioned=False)
        source = element("p", LINES_SOURCE, class_="lead")
        found.append(element("details", element("summary", published.title), source, body))
    return found


def _undrawn(count: int) -> list[Markup]:
    if count <= 0:
        return []
    reported = f"Charts of {format_plural(count, 'more replay')} would make this page too large."
    return [element("p", reported, class_="lead")]


def _heading(reported: ReplayCell, part: CellSummary, cells: Sequence[CellSummary]) -> str:
    name = name_of(part, cells)
    # The name of a target is spelt as the user spells it.
    name = name if len({each.cell.target for each in cells}) > 1 else capitalized(name)
    rate = part.blank or format_estimate(part.iops)
    return f"{name}: {rate}, bottleneck: {reported.bottleneck.who}"


def _content(
    reported: ReplayCell, part: CellSummary, figures: Sequence[Figure], number: int
) -> Markup:
    _, record = reported_of(reported, part)
    frames = {figure.id.rpartition("-")[0]: frame(figure) for figure in figures}
    judged = judge(record)
    return element(
        "div",
        element("p", unbroken(reported.bottleneck.sentence), class_="verdict"),
        element("p", unbroken(f"{judged.sentence}."), class_="lead verdict"),
        plain_table(account_table(reported, part, number)),
        frames.get("replay-time", ""),
        _timeline(reported, part, number),
        *(_problem(table) for table in problem_tables(reported, part, number)),
        evidence_part(reported, part, number),
        frames.get("replay-classes", ""),
        _identified(classes_table(part, number)),
        frames.get("replay-queries", ""),
        _queries(reported, part, number),
        _facts(reported, part, number),
        class_="time",
    )


def _problem(table: Table) -> Markup:
    """Return a table of what was skipped or differed; texts of queries break their lines."""
    has_queries = table.id.rpartition("-")[0] in _QUERY_TABLES
    return element("div", plain_table(table), class_="queries" if has_queries else None)


def _identified(table: Table) -> Markup:
    return element("div", plain_table(table), id=f"table-{table.id}") if table.rows else Markup("")


def _queries(reported: ReplayCell, part: CellSummary, number: int) -> Markup:
    table = queries_table(reported, part, number, queries_max=QUERIES_MAX)
    if not table.rows:
        return Markup("")
    shown = element("div", plain_table(table), class_="queries")
    label = f"{format_plural(len(table.rows), 'query', 'queries')} in numbers"
    return element("details", element("summary", label), shown, id=f"table-{table.id}", open=True)


def _facts(reported: ReplayCell, part: CellSummary, number: int) -> Markup:
    tables = [facts_table(reported, part, number)]
    if reported.lateness is not None:
        tables.append(lateness_table(reported, number))
    beside = element("div", *(plain_table(table) for table in tables), class_="beside")
    trace = trace_table(reported, part, number)
    if not trace.rows:
        return beside
    folded = element(
        "details", element("summary", trace.title), plain_table(trace, captioned=False)
    )
    return join([beside, folded])


def _timeline(reported: ReplayCell, part: CellSummary, number: int) -> Markup:
    """Return the numbers of the timeline, folded."""
    sample, record = reported_of(reported, part)
    steps = replayed_steps(record, sample.duration_s)
    captured = captured_steps(record, reported.speed)
    count = max(len(steps), len(captured))
    if count <= 1:
        return Markup("")
    is_paced = reported.speed is not None
    heads = ["Replayed/s", "Failed/s", "Asked for/s" if is_paced else "Captured/s, own time",
             "Lag, mean", "Lag, longest", "Response, mean", "Sessions"]  # fmt: skip
    rows = [
        [_start(steps, captured, place), *_step_texts(steps, captured, place)]
        for place in range(count)
    ]
    table = Table(
        id=f"replay-time-{number}",
        title="Over time",
        labels=1,
        headers=["From (s)", *heads],
        rows=rows,
    )
    note = "" if is_paced else element(
        "p", "Replay and capture each count from their own beginning.", class_="lead"
    )  # fmt: skip
    return element(
        "details",
        element("summary", "The timeline in numbers"),
        join([note, plain_table(table, captioned=False)]),
        id=f"table-{table.id}",
    )


def _start(steps: Sequence[Step], captured: Sequence[Step], place: int) -> str:
    step = steps[place] if place < len(steps) else captured[place]
    return f"{step.start_s:g}"


def _step_texts(steps: Sequence[Step], captured: Sequence[Step], place: int) -> list[str]:
    step = steps[place] if place < len(steps) else None
    own = captured[place] if place < len(captured) else None
    if step is None:
        done = [NO_FIGURE] * 2
        rest = [NO_FIGURE] * 4
    else:
        done = [_rate(step.answered_per_s), _rate(step.failed_per_s)]
        rest = [
            *(_time(v) for v in (step.lag_ns_mean, step.lag_ns_max, step.response_ns_mean)),
            str(step.sessions),
        ]
    return [*done, NO_FIGURE if own is None else _rate(own.captured_per_s), *rest]


def _rate(per_s: float) -> str:
    return format_iops(per_s, _EXACT)


def _time(value_ns: float | None) -> str:
    return NO_FIGURE if value_ns is None else format_duration_ns(value_ns, _EXACT)
