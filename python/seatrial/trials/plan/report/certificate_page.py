"""The certificate of a run as an HTML page, made for print."""

from __future__ import annotations

from collections.abc import Sequence

from seatrial.findings.model import Summary
from seatrial.stats.wording import moment
from seatrial.trials.plan.analysis.certificate import Certificate
from seatrial.trials.plan.report.certificate_text import (
    promises_table,
    sustained_table,
    verdict_line,
)
from seatrial.trials.watch.report.load_page import PageWords, page_of


def render(found: Certificate, summary: Summary, notes: Sequence[str]) -> str:
    """Return the page as a self-contained HTML document.

    Args:
        found: The certificate.
        summary: Its run.
        notes: What else matters, in a sentence each.

    Raises:
        AssetError: when the installation's ECharts is not the one that was pinned.
    """
    machine = summary.run.fingerprint_before.machine
    words = PageWords(
        verdict=verdict_line(found),
        notable=notes,
        doubts=[],
        confidence="Every figure has a 95 % interval over rounds, or the range of its rounds where "
        "they differ by more than twice, or says that it was measured once.",
        next_step=f"To repeat it: {found.command}",
        warnings=len(found.warnings),
    )
    particulars = {
        "Run": found.run,
        "Measured": moment(summary.run.started_at),
        "Machine": machine.product or "unknown",
        "Kernel": machine.kernel or "unknown",
        "Seed": str(summary.run.seed),
        "Seatrial": summary.run.seatrial_version,
    }
    tables = [promises_table(found)] if found.promises else []
    tables += [sustained_table(found)] if found.sustained else []
    return page_of(f"certificate of run {found.run}", words, particulars, [], tables)
