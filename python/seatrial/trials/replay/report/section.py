"""Replays on the page: verdict, account of statements, timelines, latencies, errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from seatrial.findings.model import Summary
from seatrial.report.articles import LINES_SOURCE, published_lines
from seatrial.report.exports.csv_table import Field, interval_columns
from seatrial.report.figures.model import Figure
from seatrial.report.markup import fill
from seatrial.report.part import Detail, PagePart
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
from seatrial.trials.replay.analysis.model import Lateness, ReplayCell
from seatrial.trials.replay.analysis.verdict import judge
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
from seatrial.trials.replay.report.wording import name_of, replayed, reported_round_of

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
    for number, (replay, part) in enumerate(replays, start=1):
        charts = (
            replay_figures(replay, part, cells, number) if number <= detail.timelines_max else []
        )
        figures += charts
        heading = _heading(replay, part, cells)
        parts.append({"heading": heading} | _content(replay, part, charts, number))
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
    caches = zip(figures, cache_tables(summary), cache_sizes(summary), strict=True)
    return [
        {"figure": figure, "table": table, "sentences": sweep_sentences(sizes)}
        for figure, table, sizes in caches
    ]


def _heading(replay: ReplayCell, part: CellSummary, cells: Sequence[CellSummary]) -> str:
    name = name_of(part, cells)
    # A target's name keeps the user's spelling.
    name = name if len({cell.cell.target for cell in cells}) > 1 else capitalized(name)
    rate = part.blank or format_estimate(part.iops)
    return f"{name}: {rate}, bottleneck: {replay.bottleneck.who}"


def _content(
    replay: ReplayCell, part: CellSummary, figures: Sequence[Figure], number: int
) -> dict[str, object]:
    _, record = reported_round_of(replay, part)
    queries = queries_table(replay, part, number, queries_max=QUERIES_MAX)
    facts = [facts_table(replay, part, number)]
    if replay.lateness is not None:
        facts.append(lateness_table(replay, number))
    return {
        "bottleneck": replay.bottleneck.sentence,
        "judged": f"{judge(record).sentence}.",
        "account": account_table(replay, part, number),
        "figures": {figure.id.rpartition("-")[0]: figure for figure in figures},
        "timeline": _timeline(replay, part, number),
        "is_paced": replay.speed is not None,
        "problems": [
            (table, "queries" if table.id.rpartition("-")[0] in _QUERY_TABLES else "")
            for table in problem_tables(replay, part, number)
        ],
        "evidence": evidence_part(replay, part, number),
        "classes": classes_table(part, number),
        "queries": queries,
        "queries_label": f"Table of {format_plural(len(queries.rows), 'query', 'queries')}",
        "facts": facts,
        "trace": trace_table(replay, part, number),
    }


def _timeline(replay: ReplayCell, part: CellSummary, number: int) -> Table | None:
    """Return the timeline as a table; None if it has only one step."""
    sample, record = reported_round_of(replay, part)
    steps = replayed_steps(record, sample.duration_s)
    captured = captured_steps(record, replay.speed)
    count = max(len(steps), len(captured))
    if count <= 1:
        return None
    is_paced = replay.speed is not None
    heads = ["Replayed/s", "Failed/s", "Requested/s" if is_paced else "Captured/s, own time",
             "Lag, mean", "Lag, max", "Response, mean", "Sessions"]  # fmt: skip
    rows = [
        [_start(steps, captured, index), *_step_texts(steps, captured, index)]
        for index in range(count)
    ]
    return Table(
        id=f"replay-time-{number}",
        title="Over time",
        labels=1,
        headers=["From (s)", *heads],
        rows=rows,
    )


def _start(steps: Sequence[Step], captured: Sequence[Step], index: int) -> str:
    step = steps[index] if index < len(steps) else captured[index]
    return f"{step.start_s:g}"


def _step_texts(steps: Sequence[Step], captured: Sequence[Step], index: int) -> list[str]:
    step = steps[index] if index < len(steps) else None
    capture = captured[index] if index < len(captured) else None
    if step is None:
        rates = [NO_FIGURE] * 2
        rest = [NO_FIGURE] * 4
    else:
        rates = [_rate(step.answered_per_s), _rate(step.failed_per_s)]
        rest = [
            *(_time(v) for v in (step.lag_ns_mean, step.lag_ns_max, step.response_ns_mean)),
            str(step.sessions),
        ]
    return [*rates, NO_FIGURE if capture is None else _rate(capture.captured_per_s), *rest]


def _rate(per_s: float) -> str:
    return format_iops(per_s, _EXACT)


def _time(value_ns: float | None) -> str:
    return NO_FIGURE if value_ns is None else format_duration_ns(value_ns, _EXACT)


def replay_columns(summary: Summary) -> dict[str, dict[str, Field]]:
    """Return the export columns of each replay cell, by its key.

    Counts are those of one round, the worst, so they add up.
    """
    return {
        replay.cell.key: {
            "replay_bottleneck": replay.bottleneck.who,
            "replay_reported_round": replay.reported_round,
            **interval_columns("replay_answered_per_s", replay.answered_per_s),
            "replay_captured_per_s": replay.captured_per_s,
            **(interval_columns("replay_ratio", replay.ratio) if replay.ratio else {}),
            **(interval_columns("replay_delivered", replay.delivered) if replay.delivered else {}),
            "replay_client_core_share": replay.client_core_share,
            "replay_ceiling_share": replay.ceiling_share,
            **_account(reported_round_of(replay, part)[1]),
            **(_lag(replay.lateness) if replay.lateness else {}),
        }
        for replay, part in replayed(summary)
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
        "replay_rolled_back": record.commits.lost,
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
