"""What ``seatrial audit`` prints on a terminal."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Final

import click

from seatrial.cli.outcome import SEVERITY_MARKS, WIDTH, finding_text
from seatrial.errors import UsageError
from seatrial.findings.model import Summary
from seatrial.report.tables import NO_FIGURE, Group, Table, as_text
from seatrial.stats.model import Estimate
from seatrial.stats.wording import format_estimate, format_iops, format_plural, format_size
from seatrial.study.units import parse_size_bytes
from seatrial.trials.audit.analysis.model import Gap, TableAudit, TablePoint, audits_of
from seatrial.trials.audit.findings.gap import gap_severity
from seatrial.trials.audit.report.document import Answer
from seatrial.trials.audit.report.overlay import KIND_WORDS, STATUS_WORDS
from seatrial.trials.audit.report.tables import audit_name

GAP_MARK: Final = "!"


def asked_cell(written: str) -> tuple[int, int, int | None]:
    """Return block size in bytes, concurrency and threads from what ``--predict`` was given.

    Threads are None where only requests in flight were given.

    Raises:
        UsageError: when it is not a size and one or two whole numbers above 0.
    """
    size, _, count = written.partition(",")
    size_bytes = threads = depth = 0
    first, by, last = count.partition("x")
    with contextlib.suppress(ValueError):
        size_bytes = parse_size_bytes(size.strip())
        threads, depth = int(first), int(last) if by else 1
    if min(size_bytes, threads, depth) <= 0:
        raise UsageError(
            seen=f"--predict cannot be read: {written!r}",
            cause="It takes a block size and how many requests are in flight, with a comma between",
            next_step="Write --predict 16k,20 for 16 KiB at 20 threads, or 16k,4x8 for 4 threads "
            "at depth 8",
        )
    return size_bytes, threads * depth, threads if by else None


def audit_page(summary: Summary, answered: Sequence[Answer]) -> str:
    """Return the audits, what was asked, and the findings, for a terminal."""
    blocks = [_audit_block(audit) for audit in audits_of(summary)]
    blocks += [_answer_text(answer) for answer in answered]
    # The gaps are told above, each beside its table.
    others = [finding for finding in summary.findings if finding.kind != "gap"]
    blocks += [finding_text(finding) for finding in others if finding.severity != "note"]
    notes = [_wrapped(finding.sentence, "   ") for finding in others if finding.severity == "note"]
    blocks += ["\n".join(notes)] if notes else []
    return "\n\n".join(block.rstrip() for block in blocks) + "\n"


def _audit_block(audit: TableAudit) -> str:
    lines = [as_text(_grid(audit)).rstrip(), "", _wrapped(audit.sentence, "  ")]
    lines += [_wrapped(each.sentence, "  ") for each in audit.parameters if each.sentence]
    lines += [_gap_text(audit, gap) for gap in audit.gaps]
    lines += [_wrapped(limit, "  ") for limit in audit.limits]
    return "\n".join(lines)


def _gap_text(audit: TableAudit, gap: Gap) -> str:
    mark = SEVERITY_MARKS[gap_severity(audit, gap)]
    reported = f"{KIND_WORDS[gap.kind].capitalize()}, {STATUS_WORDS[gap.status]}. {gap.sentence}"
    return "\n".join([_wrapped(reported, f"{mark} "), _wrapped(f"why: {gap.cause}", "   ")])


def _wrapped(text: str, indent: str) -> str:
    blank = " " * len(indent)
    return click.wrap_text(text, width=WIDTH, initial_indent=indent, subsequent_indent=blank)


def _grid(audit: TableAudit) -> Table:
    """Return observed and predicted rates: a row for each block size.

    Of one block size at several threads and depths, a row for each number of threads.
    """
    points = audit.table.points
    odd = {key for gap in audit.gaps for key in gap.keys}
    if len({point.block_size_bytes for point in points}) == 1 and _is_deep(points):
        return _grid_of_one_size(audit, odd)
    columns = sorted({(point.concurrency, point.threads, point.depth) for point in points})
    sizes = sorted({point.block_size_bytes for point in points})
    at = {(p.block_size_bytes, p.concurrency, p.threads, p.depth): p for p in points}
    return Table(
        id=f"audit-{audit.table.target}-{audit.table.workload}-{audit.table.operation}",
        title=f"{audit_name(audit)}: IOPS and what the model says ({GAP_MARK} is a gap)",
        labels=1,
        headers=["Block size", *["IOPS", "Model"] * len(columns)],
        groups=[
            Group("", 1),
            *(Group(_column_title(threads, depth), 2) for _, threads, depth in columns),
        ],
        rows=[
            [
                format_size(size),
                *(text for col in columns for text in _texts(at.get((size, *col)), audit, odd)),
            ]
            for size in sizes
        ],
    )


def _is_deep(points: Sequence[TablePoint]) -> bool:
    return len({point.depth for point in points}) > 1


def _grid_of_one_size(audit: TableAudit, odd: set[str]) -> Table:
    points = audit.table.points
    threads, depths = (sorted({getattr(p, name) for p in points}) for name in ("threads", "depth"))
    at = {(point.threads, point.depth): point for point in points}
    size = format_size(points[0].block_size_bytes)
    return Table(
        id=f"audit-{audit.table.target}-{audit.table.workload}-{audit.table.operation}",
        title=f"{audit_name(audit)}: IOPS of {size} and what the model says ({GAP_MARK} is a gap)",
        labels=1,
        headers=["Threads", *(f"depth {depth}" for depth in depths)],
        groups=[Group("", 1), Group("IOPS/model", len(depths))],
        rows=[
            [
                str(count),
                *("/".join(_texts(at.get((count, depth)), audit, odd)) for depth in depths),
            ]
            for count in threads
        ],
    )


def _column_title(threads: int, depth: int) -> str:
    reported = format_plural(threads, "thread")
    return reported if depth == 1 else f"{reported}, depth {depth}"


def _texts(point: TablePoint | None, audit: TableAudit, odd: set[str]) -> list[str]:
    if point is None:
        return [NO_FIGURE, NO_FIGURE]
    if not point.measured:
        observed = NO_FIGURE
    else:
        observed = format_iops(point.iops.value) if point.iops else "absent"
    mark = f"{GAP_MARK} " if point.key in odd else ""
    said = audit.predictions.get(point.key)
    return [f"{mark}{observed}", format_iops(said.iops) if said else NO_FIGURE]


def _answer_text(answer: Answer) -> str:
    name = f"{format_size(answer.block_size_bytes)} {answer.operation}s"
    where = f"{name}, {answer.concurrency} in flight ({answer.workload} on {answer.target})"
    if answer.prediction is None:
        return _wrapped(f"{where}: not given. {answer.refusal}", "   ")
    said = answer.prediction
    estimate = Estimate(value=said.iops, low=said.low, high=said.high, rounds=0, unit="IOPS")
    return _wrapped(f"{where}: {format_estimate(estimate)} would be measured.", "   ")
