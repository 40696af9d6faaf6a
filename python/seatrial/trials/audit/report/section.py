"""Models and gaps: each audit's sentence, its gaps, its model in words, and its limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal

import msgspec
from markupsafe import Markup

from seatrial.errors import UsageError
from seatrial.findings.model import Summary
from seatrial.grouping import grouped
from seatrial.report.exports.json_document import Document
from seatrial.report.exports.markdown import escape
from seatrial.report.figures.naming import requests_word
from seatrial.report.markup import fill
from seatrial.report.table import ABSENT, NO_FIGURE, NOT_MEASURED, Table, doubt_text, rate_text
from seatrial.results.model import Run
from seatrial.stats.model import Estimate, Finding
from seatrial.stats.wording import (
    capitalized,
    format_duration_ns,
    format_interval,
    format_iops,
    format_plural,
    format_share,
    format_size,
)
from seatrial.trials.audit.analysis.model import (
    Gap,
    Parameter,
    Prediction,
    TableAudit,
    TablePoint,
    audits_of,
)
from seatrial.trials.audit.analysis.predict import predict
from seatrial.trials.audit.report.overlay import KIND_WORDS, STATUS_WORDS, gap_text

FORM_NAMES: Final = {
    "read": "read",
    "locked_write": "locked write",
    "parity_write": "parity write",
    "none": "none",
}
NOT_DETERMINED: Final = "not determined by this table"

_UNIT_ENDINGS: Final = ("_us_per_mib", "_mib_per_s", "_us", "_kib", "_ratio", "_count")
_VALUES: Final[dict[str, Callable[[float, float | None], str]]] = {
    "us": lambda value, half: format_duration_ns(value * 1e3, None if half is None else half * 1e3),
    "MiB/s": lambda value, half: f"{format_iops(value, half)} MiB/s",
    "us/MiB": lambda value, half: f"{format_iops(value, half)} µs/MiB",
    "KiB": lambda value, half: f"{format_iops(value, half)} KiB",
}


def audit_tables(audits: Sequence[TableAudit]) -> list[Table]:
    """Return for each audit the tables of its gaps and parameters, without empty tables."""
    found = [
        table
        for audit in audits
        for table in (cells_table(audit, gaps_only=True), parameters_table(audit))
    ]
    return [table for table in found if table.rows]


def audits_table(audits: Sequence[TableAudit]) -> Table:
    """Return a row for each audit: its model, the errors of the model, and its gaps."""
    return Table(
        id="audits",
        title="Models and gaps",
        labels=2,
        headers=["Table", "Model", "Median error", "p90", "Cross-validation", "Gaps"],
        rows=[
            [
                audit_name(audit),
                FORM_NAMES[audit.form] if audit.holds else "none fits",
                *(
                    NO_FIGURE if share is None else format_share(share)
                    for share in (
                        audit.error_share_median,
                        audit.error_share_p90,
                        audit.held_out_share_median,
                    )
                ),
                str(len(audit.gaps)),
            ]
            for audit in audits
        ],
    )


def audit_name(audit: TableAudit) -> str:
    """Return the name of an audit, such as ``Random reads, matrix on ssd``."""
    table = audit.table
    words = [str(table.factors["pattern"])] if "pattern" in table.factors else []
    words.append(requests_word(table.operation))
    return f"{capitalized(' '.join(words))}, {table.workload} on {table.target}"


def cells_table(audit: TableAudit, *, gaps_only: bool = False) -> Table:
    """Return the observed and the predicted rate of each cell, and the gap that it is part of."""
    gaps = {key: gap for gap in audit.gaps for key in gap.keys}
    points = [point for point in audit.table.points if not gaps_only or point.key in gaps]
    deep = any(point.depth > 1 for point in audit.table.points)
    return Table(
        id=f"audit-{audit.table.target}-{audit.table.workload}-{audit.table.operation}",
        title=f"{'Gaps' if gaps_only else 'Model and gaps'}: {audit_name(audit)}",
        labels=3 if deep else 2,
        headers=[
            *("Block size", "Threads", *(["Depth"] if deep else [])),
            *("IOPS", "±", "Model", "± of prediction", "Ratio", "Gap", "Status"),
        ],
        rows=[
            [
                format_size(point.block_size_bytes),
                str(point.threads),
                *([str(point.depth)] if deep else []),
                *_figures(point, audit.predictions.get(point.key), gaps.get(point.key)),
            ]
            for point in points
        ],
    )


_NAMES: Final = {
    "setup_us": "base latency",
    "host_service_us": "host cost per I/O",
    "submit_us": "submission cost",
    "link_mib_per_s": "bandwidth ceiling",
    "sub_page_us": "added below 4 KiB",
    "locked_us": "serialised part",
    "request_us": "fixed cost",
    "partial_stripe_us": "partial-stripe page",
    "full_stripe_mib_per_s": "full-stripe bandwidth",
}
"""Parameters in the words of their sentences."""


def parameters_table(audit: TableAudit) -> Table:
    """Return the parameters of an audit's model with their intervals and meanings."""
    return Table(
        id=f"parameters-{audit.table.target}-{audit.table.workload}-{audit.table.operation}",
        title=f"Parameters of the model: {audit_name(audit)}",
        labels=1,
        headers=["Parameter", "Value", "95 % CI", "Meaning"],
        rows=[
            [
                parameter_name(each.name),
                parameter_text(each),
                _interval(each),
                each.sentence or NO_FIGURE,
            ]
            for each in audit.parameters
        ],
    )


def parameter_name(name: str) -> str:
    """Return a parameter's name as words without its unit, such as ``host cost per I/O``."""
    if name in _NAMES:
        return _NAMES[name]
    ending = next((known for known in _UNIT_ENDINGS if name.endswith(known)), "")
    return name.removesuffix(ending).replace("_", " ")


def parameter_text(parameter: Parameter) -> str:
    """Return a parameter's value with its unit and the digits that its interval allows."""
    half = None
    if parameter.low is not None and parameter.high is not None:
        half = (parameter.high - parameter.low) / 2
    return _VALUES.get(parameter.unit, format_iops)(parameter.value, half)


def _interval(parameter: Parameter) -> str:
    if parameter.low is None or parameter.high is None:
        return NOT_DETERMINED
    half = (parameter.high - parameter.low) / 2
    wording = _VALUES.get(parameter.unit, format_iops)
    return f"{wording(parameter.low, half)} to {wording(parameter.high, half)}"


def _figures(point: TablePoint, prediction: Prediction | None, gap: Gap | None) -> list[str]:
    """Return the texts of a cell after its labels."""
    classed = [KIND_WORDS[gap.kind], STATUS_WORDS[gap.status]] if gap else [NO_FIGURE] * 2
    if point.iops is None:
        observed = [ABSENT if point.measured else NOT_MEASURED, NO_FIGURE]
    else:
        observed = [rate_text(point.iops), doubt_text(point.iops)]
    return [*observed, *_model_texts(point, prediction), *classed]


def _model_texts(point: TablePoint, prediction: Prediction | None) -> list[str]:
    """Return prediction, its interval, and observed over predicted."""
    if prediction is None:
        return [NO_FIGURE] * 3
    prediction_estimate = Estimate(
        value=prediction.iops, low=prediction.low, high=prediction.high, rounds=0, unit="IOPS"
    )
    observed = 0.0 if point.iops is None else point.iops.value
    ratio = f"{format_iops(observed / prediction.iops)}x" if prediction.iops > 0 else NO_FIGURE
    return [
        rate_text(prediction_estimate),
        format_interval(prediction_estimate),
        NO_FIGURE if point.iops is None else ratio,
    ]


HEADING: Final = "Models and gaps"


def audits_section(audits: Sequence[TableAudit], *, every_cell: bool = True) -> Markup:
    """Return the section on the audited tables; empty if there are none.

    Without ``every_cell`` the tables contain only the cells in gaps, with a note.
    """
    by_chart = grouped(audits, lambda audit: (audit.table.target, audit.table.workload))
    parts = [part for members in by_chart.values() for part in _of_one_chart(members, every_cell)]
    return fill(
        "trials/audit/report/section.html",
        heading=HEADING,
        line=_line(audits),
        parts=parts,
        every_cell=every_cell,
    )


def _line(audits: Sequence[TableAudit]) -> str:
    gaps = sum(len(audit.gaps) for audit in audits)
    gap_phrase = format_plural(gaps, "gap") if gaps else "no gaps"
    return f"{format_plural(len(audits), 'table')}, {gap_phrase}"


def _of_one_chart(audits: Sequence[TableAudit], every_cell: bool) -> list[dict[str, object]]:
    """Return the audits of one chart, with their gaps numbered as in the chart."""
    parts: list[dict[str, object]] = []
    number = 1
    for audit in audits:
        parts.append(
            {
                "audit": audit,
                "name": audit_name(audit),
                "first_gap": number,
                "gaps": [gap_text(gap) for gap in audit.gaps],
                "parameters": parameters_table(audit),
                "cells": cells_table(audit, gaps_only=not every_cell),
            }
        )
        number += len(audit.gaps)
    return parts


def audits_markdown(summary: Summary) -> list[str]:
    """Return the section on the audited tables; empty if there are none."""
    if not audits_of(summary):
        return []
    return [
        f"## {HEADING}",
        "\n\n".join(_audit_markdown(each) for each in audits_of(summary)),
    ]


def _audit_markdown(audit: TableAudit) -> str:
    """Return an audit's sentence, its parameters in words, its gaps and its limits."""
    sentences = [each.sentence for each in audit.parameters if each.sentence]
    sentences += [gap_text(gap) for gap in audit.gaps]
    items = "\n".join(f"- {escape(each)}" for each in [*sentences, *audit.limits])
    heading = f"**{escape(audit_name(audit))}**: {escape(audit.sentence)}"
    return f"{heading}\n\n{items}" if items else heading


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The prediction of one table for a requested cell.

    Attributes:
        target: Label of the table's target.
        workload: Name of its workload.
        operation: ``read`` or ``write``.
        block_size_bytes: As requested.
        concurrency: As requested.
        threads: As requested; None if only the concurrency was given.
        prediction: None if the table cannot predict the cell.
        refusal: The reason; empty if there is a prediction.
    """

    target: str
    workload: str
    operation: str
    block_size_bytes: int
    concurrency: int
    threads: int | None
    prediction: Prediction | None
    refusal: str


class AuditDocument(Document, frozen=True, kw_only=True):
    """The audit of a result.

    ``seatrial audit``: models of its tables, their gaps, and all findings.

    Attributes:
        run: The run.
        audits: One for each table of at least 7 figures, of two block sizes or of three levels of
            concurrency.
        findings: All findings of the run, worst first.
        answers: Predictions requested with ``--predict``; empty without it.
    """

    kind: Literal["audit"] = "audit"
    run: Run
    audits: list[TableAudit]
    findings: list[Finding]
    answers: list[Answer]


def answers(audits: Sequence[TableAudit], cell: tuple[int, int, int | None]) -> list[Answer]:
    """Return the prediction of each table for a cell.

    Raises:
        UsageError: if no table can predict it.
    """
    sentences: list[Answer] = []
    refused: list[UsageError] = []
    for audit in audits:
        prediction, refusal = None, ""
        try:
            prediction = predict(audit, *cell)
        except UsageError as error:
            refused.append(error)
            refusal = f"{error.cause.rstrip('.')}."
        sentences.append(
            Answer(
                target=audit.table.target,
                workload=audit.table.workload,
                operation=audit.table.operation,
                block_size_bytes=cell[0],
                concurrency=cell[1],
                threads=cell[2],
                prediction=prediction,
                refusal=refusal,
            )
        )
    if len(refused) == len(audits):
        raise refused[0]
    return sentences


def audit_document(summary: Summary, answered: Sequence[Answer]) -> str:
    """Return the audits of a run and its findings."""
    return AuditDocument(
        run=summary.run,
        audits=audits_of(summary),
        findings=summary.findings,
        answers=list(answered),
    ).as_text()
