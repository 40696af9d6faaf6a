"""Replays on the page: verdict, account of statements, timelines, latencies, errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from seatrial.findings.model import Summary
from seatrial.report.exports.csv_table import Field, interval_columns
from seatrial.report.figures.model import Figure
from seatrial.report.markup import fill
from seatrial.report.part import Detail, PagePart
from seatrial.report.published import LINES_SOURCE, published_lines
from seatrial.report.table import NO_FIGURE, Table
from seatrial.results.replay import ReplayRecord
from seatrial.stats.model import CellSummary
from seatrial.stats.wording import (
    capitalized,
    format_duration_ns,
    format_estimate,
    format_iops,
    format_plural,
)
from seatrial.trials.replay.analysis.judgement import judge
from seatrial.trials.replay.analysis.model import Lateness, ReplayCell
from seatrial.trials.replay.report.caches import (
    cache_figures,
    cache_sizes,
    cache_tables,
    published_table,
    sweep_sentences,
)
from seatrial.trials.replay.report.evidence_tables import evidence_part
from seatrial.trials.replay.report.figures import (
    Step,
    captured_steps,
    replay_figures,
    replayed_steps,
)
from seatrial.trials.replay.report.tables import (
    account_table,
    classes_table,
    facts_table,
    lateness_table,
    problem_tables,
    queries_table,
    rates_table,
    trace_table,
)
from seatrial.trials.replay.report.words import name_of, replayed, reported_of

HEADING: Final = "Replay"
QUERIES_MAX: Final = 100
"""Of a page; the results file has more."""
_EXACT: Final = 0.0
_QUERY_TABLES: Final = ("replay-error-examples", "replay-row-examples")


def replay_part(summary: Summary, detail: Detail) -> PagePart:
    """Return a page's part on a run's replays, in as much detail as there is room for."""
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
        figures += drawn
        heading = _heading(reported, part, cells)
        parts.append({"heading": heading} | _content(reported, part, drawn, number))
    undrawn = len(replays) - detail.timelines_max
    section = fill(
        "trials/replay/report/section.html",
        heading=HEADING,
        line=str(parts[0]["heading"]).lstrip(": ")
        if len(parts) == 1
        else format_plural(len(parts), "replay"),
        rates=rates_table(replays),
        caches=_caches(summary, caches),
        published=published_table(published_lines()) if caches else None,
        source=LINES_SOURCE,
        parts=parts,
        undrawn=format_plural(undrawn, "more replay") if undrawn > 0 else "",
    )
    return PagePart("replay", HEADING, section, figures)


def _caches(summary: Summary, figures: Sequence[Figure]) -> list[dict[str, object]]:
    """Return chart, table and sentences of each cache whose size was varied."""
    if not figures:
        return []
    every = zip(figures, cache_tables(summary), cache_sizes(summary), strict=True)
    return [
        {"figure": figure, "table": table, "sentences": sweep_sentences(sizes)}
        for figure, table, sizes in every
    ]


def _heading(reported: ReplayCell, part: CellSummary, cells: Sequence[CellSummary]) -> str:
    name = name_of(part, cells)
    # A target's name keeps the user's spelling.
    name = name if len({each.cell.target for each in cells}) > 1 else capitalized(name)
    rate = part.blank or format_estimate(part.iops)
    return f"{name}: {rate}, bottleneck: {reported.bottleneck.who}"


def _content(
    reported: ReplayCell, part: CellSummary, figures: Sequence[Figure], number: int
) -> dict[str, object]:
    _, record = reported_of(reported, part)
    queries = queries_table(reported, part, number, queries_max=QUERIES_MAX)
    facts = [facts_table(reported, part, number)]
    if reported.lateness is not None:
        facts.append(lateness_table(reported, number))
    return {
        "bottleneck": reported.bottleneck.sentence,
        "judged": f"{judge(record).sentence}.",
        "account": account_table(reported, part, number),
        "figures": {figure.id.rpartition("-")[0]: figure for figure in figures},
        "timeline": _timeline(reported, part, number),
        "is_paced": reported.speed is not None,
        "problems": [
            (table, "queries" if table.id.rpartition("-")[0] in _QUERY_TABLES else "")
            for table in problem_tables(reported, part, number)
        ],
        "evidence": evidence_part(reported, part, number),
        "classes": classes_table(part, number),
        "queries": queries,
        "queries_label": f"Table of {format_plural(len(queries.rows), 'query', 'queries')}",
        "facts": facts,
        "trace": trace_table(reported, part, number),
    }


def _timeline(reported: ReplayCell, part: CellSummary, number: int) -> Table | None:
    """Return the timeline as a table; None if it has only one step."""
    sample, record = reported_of(reported, part)
    steps = replayed_steps(record, sample.duration_s)
    captured = captured_steps(record, reported.speed)
    count = max(len(steps), len(captured))
    if count <= 1:
        return None
    is_paced = reported.speed is not None
    heads = ["Replayed/s", "Failed/s", "Requested/s" if is_paced else "Captured/s, own time",
             "Lag, mean", "Lag, max", "Response, mean", "Sessions"]  # fmt: skip
    rows = [
        [_start(steps, captured, place), *_step_texts(steps, captured, place)]
        for place in range(count)
    ]
    return Table(
        id=f"replay-time-{number}",
        title="Over time",
        labels=1,
        headers=["From (s)", *heads],
        rows=rows,
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


def replay_columns(summary: Summary) -> dict[str, dict[str, Field]]:
    """Return the export columns of each replay cell, by its key.

    Counts are those of one round, the worst, so they add up.
    """
    return {
        reported.cell.key: {
            "replay_bottleneck": reported.bottleneck.who,
            "replay_reported_round": reported.reported_round,
            **interval_columns("replay_answered_per_s", reported.answered_per_s),
            "replay_captured_per_s": reported.captured_per_s,
            **(interval_columns("replay_ratio", reported.ratio) if reported.ratio else {}),
            **(
                interval_columns("replay_delivered", reported.delivered)
                if reported.delivered
                else {}
            ),
            "replay_client_core_share": reported.client_core_share,
            "replay_ceiling_share": reported.ceiling_share,
            **_account(reported_of(reported, part)[1]),
            **(_lag(reported.lateness) if reported.lateness else {}),
        }
        for reported, part in replayed(summary)
    }


def _account(record: ReplayRecord) -> dict[str, Field]:
    total, errors, rows = record.total, record.errors, record.rows
    return {
        "replay_captured": total.captured,
        "replay_ok": total.ok,
        "replay_failed": total.failed,
        "replay_skipped": total.skipped_count,
        "replay_not_reached": total.not_reached,
        "replay_errors_same": errors.same,
        "replay_errors_other": errors.other,
        "replay_errors_new": errors.new,
        "replay_errors_gone": errors.gone,
        "replay_rows_compared": rows.compared,
        "replay_rows_equal": rows.equal,
        "replay_commits_captured": record.commits.captured,
        "replay_committed": record.commits.committed,
        "replay_rolled_back": record.commits.rolled_back,
        "replay_released": record.order.released_by_lock + record.order.released_by_patience,
        "replay_end": record.end,
    }


def _lag(late: Lateness) -> dict[str, Field]:
    return {
        "replay_within_1ms_share": late.within_1ms_share,
        "replay_lag_p50_ns": late.p50_ns,
        "replay_lag_p99_ns": late.p99_ns,
        "replay_lag_max_ns": late.max_ns,
        "replay_driver_lag_p99_ns": late.driver_p99_ns,
    }
