"""The JSON document of ``seatrial audit``, and what its tables say of a cell that is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from seatrial.errors import UsageError
from seatrial.findings.model import Summary
from seatrial.report.json_documents import Document, as_text
from seatrial.results.model import Run
from seatrial.stats.model import Finding
from seatrial.trials.audit.analysis.model import Prediction, TableAudit, audits_of
from seatrial.trials.audit.analysis.predict import predict


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What one table says of a cell that was asked for.

    Attributes:
        target: Label of the table's target.
        workload: Name of its workload.
        operation: ``read`` or ``write``.
        block_size_bytes: As asked.
        concurrency: As asked.
        threads: Of these, as asked; None where only their product was.
        prediction: None where the table must not be asked.
        refusal: Why not; empty where it is answered.
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
        findings: All findings of the run, the gravest first.
        answers: What ``--predict`` asked; empty unless it was given.
    """

    kind: Literal["audit"] = "audit"
    run: Run
    audits: list[TableAudit]
    findings: list[Finding]
    answers: list[Answer]


def answers(audits: Sequence[TableAudit], cell: tuple[int, int, int | None]) -> list[Answer]:
    """Return what each table says of a cell.

    Raises:
        UsageError: when every table refuses.
    """
    reported: list[Answer] = []
    refused: list[UsageError] = []
    for audit in audits:
        prediction, refusal = None, ""
        try:
            prediction = predict(audit, *cell)
        except UsageError as error:
            refused.append(error)
            refusal = f"{error.seen} {error.cause}"
        reported.append(
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
    return reported


def audit_document(summary: Summary, answered: Sequence[Answer]) -> str:
    """Return the audits of a run and its findings."""
    return as_text(
        AuditDocument(
            run=summary.run,
            audits=audits_of(summary),
            findings=summary.findings,
            answers=list(answered),
        )
    )
