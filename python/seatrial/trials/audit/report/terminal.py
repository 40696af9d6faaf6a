"""An audit on the terminal: verdicts, grid and gaps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from seatrial.findings.model import Summary
from seatrial.report.table import NO_FIGURE, Group, Table
from seatrial.report.terminal import SEVERITY_MARKS, finding_text, table_text, wrapped
from seatrial.stats.model import Estimate
from seatrial.stats.wording import format_estimate, format_iops, format_plural, format_size
from seatrial.trials.audit.analysis.model import Gap, TableAudit, TablePoint, audits_of
from seatrial.trials.audit.findings.gap import gap_severity
from seatrial.trials.audit.report.overlay import KIND_WORDS, STATUS_WORDS
from seatrial.trials.audit.report.section import Answer, audit_name

GAP_MARK: Final = "!"


def audit_page(summary: Summary, answered: Sequence[Answer]) -> str:
    """Return the audits, the requested predictions and the findings for a terminal."""
    blocks = [_audit_block(audit) for audit in audits_of(summary)]
    blocks += [_answer_text(answer) for answer in answered]
    # Gaps are printed above with their tables.
    others = [finding for finding in summary.findings if finding.kind != "gap"]
    blocks += [finding_text(finding) for finding in others if finding.severity != "note"]
    notes = [wrapped(finding.sentence, "   ") for finding in others if finding.severity == "note"]
    blocks += ["\n".join(notes)] if notes else []
    return "\n\n".join(block.rstrip() for block in blocks) + "\n"


def _audit_block(audit: TableAudit) -> str:
    lines = [table_text(_grid(audit)).rstrip(), "", wrapped(audit.sentence, "  ")]
    lines += [wrapped(each.sentence, "  ") for each in audit.parameters if each.sentence]
    lines += [_gap_text(audit, gap) for gap in audit.gaps]
    lines += [wrapped(limit, "  ") for limit in audit.limits]
    return "\n".join(lines)


def _gap_text(audit: TableAudit, gap: Gap) -> str:
    mark = SEVERITY_MARKS[gap_severity(audit, gap)]
    text = f"{KIND_WORDS[gap.kind].capitalize()}, {STATUS_WORDS[gap.status]}. {gap.sentence}"
    return "\n".join([wrapped(text, f"{mark} "), wrapped(f"Cause: {gap.cause}", "   ")])


def _grid(audit: TableAudit) -> Table:
    """Return observed and predicted rates, a row for each block size.

    With one block size and several depths, there is a row for each number of threads.
    """
    points = audit.table.points
    outlier = {key for gap in audit.gaps for key in gap.keys}
    if len({point.block_size_bytes for point in points}) == 1 and _is_deep(points):
        return _grid_of_one_size(audit, outlier)
    columns = sorted({(point.concurrency, point.threads, point.depth) for point in points})
    sizes = sorted({point.block_size_bytes for point in points})
    at = {(p.block_size_bytes, p.concurrency, p.threads, p.depth): p for p in points}
    return Table(
        id=f"audit-{audit.table.target}-{audit.table.workload}-{audit.table.operation}",
        title=f"{audit_name(audit)}: measured and predicted IOPS ({GAP_MARK} marks a gap)",
        labels=1,
        headers=["Block size", *["IOPS", "Model"] * len(columns)],
        groups=[
            Group("", 1),
            *(Group(_column_title(threads, depth), 2) for _, threads, depth in columns),
        ],
        rows=[
            [
                format_size(size),
                *(text for col in columns for text in _texts(at.get((size, *col)), audit, outlier)),
            ]
            for size in sizes
        ],
    )


def _is_deep(points: Sequence[TablePoint]) -> bool:
    return len({point.depth for point in points}) > 1


def _grid_of_one_size(audit: TableAudit, outlier: set[str]) -> Table:
    points = audit.table.points
    threads, depths = (sorted({getattr(p, name) for p in points}) for name in ("threads", "depth"))
    at = {(point.threads, point.depth): point for point in points}
    size = format_size(points[0].block_size_bytes)
    return Table(
        id=f"audit-{audit.table.target}-{audit.table.workload}-{audit.table.operation}",
        title=(
            f"{audit_name(audit)}: measured and predicted IOPS, {size} ({GAP_MARK} marks a gap)"
        ),
        labels=1,
        headers=["Threads", *(f"depth {depth}" for depth in depths)],
        groups=[Group("", 1), Group("IOPS/model", len(depths))],
        rows=[
            [
                str(count),
                *("/".join(_texts(at.get((count, depth)), audit, outlier)) for depth in depths),
            ]
            for count in threads
        ],
    )


def _column_title(threads: int, depth: int) -> str:
    text = format_plural(threads, "thread")
    return text if depth == 1 else f"{text}, depth {depth}"


def _texts(point: TablePoint | None, audit: TableAudit, outlier: set[str]) -> list[str]:
    if point is None:
        return [NO_FIGURE, NO_FIGURE]
    if not point.measured:
        observed = NO_FIGURE
    else:
        observed = format_iops(point.iops.value) if point.iops else "absent"
    mark = f"{GAP_MARK} " if point.key in outlier else ""
    prediction_estimate = audit.predictions.get(point.key)
    return [
        f"{mark}{observed}",
        format_iops(prediction_estimate.iops) if prediction_estimate else NO_FIGURE,
    ]


def _answer_text(answer: Answer) -> str:
    name = f"{format_size(answer.block_size_bytes)} {answer.operation}s"
    where = f"{name}, {answer.concurrency} in flight ({answer.workload} on {answer.target})"
    if answer.prediction is None:
        return wrapped(f"{where}: no prediction. {answer.refusal}", "   ")
    prediction_estimate = answer.prediction
    estimate = Estimate(
        value=prediction_estimate.iops,
        low=prediction_estimate.low,
        high=prediction_estimate.high,
        rounds=0,
        unit="IOPS",
    )
    return wrapped(f"{where}: predicted {format_estimate(estimate)}.", "   ")
