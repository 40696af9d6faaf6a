"""The HTML page of an audit: the tables' models, their gaps, and the findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from seatrial.findings.answer import TILES_MAX, WORST_MAX, in_one_line
from seatrial.findings.answer import RunAnswer as First
from seatrial.findings.model import Summary
from seatrial.findings.tile import Tile
from seatrial.report.document import chapters, page_document
from seatrial.report.first_screen import first_screen, worst_anchors
from seatrial.report.lab import lab_notice
from seatrial.report.markup import fill
from seatrial.report.page import provenance
from seatrial.report.part import Detail, first_with_prefixes, key_section
from seatrial.report.sections import findings_section, particulars
from seatrial.results.model import origin_of
from seatrial.stats.model import Estimate
from seatrial.stats.wording import format_plural, format_share, format_size
from seatrial.topic import topics
from seatrial.trials.audit.analysis.model import TableAudit, audits_of
from seatrial.trials.audit.report.section import (
    HEADING,
    Answer,
    audit_name,
    audits_section,
    parameter_name,
)

_UNITS: Final = {"us": (1e3, "ns"), "MiB/s": (float(1 << 20), "B/s")}
_DETAIL: Final = Detail(0, every_figure=True, rounds_max=0, timelines_max=0)


def render(summary: Summary, answered: Sequence[Answer] = ()) -> str:
    """Return the page of an audit as a self-contained HTML document.

    Args:
        summary: Summary of the result whose tables were audited.
        answered: Predictions of further tests.

    Raises:
        AssetError: When the installation's ECharts is not the one that was pinned.
    """
    audits = audits_of(summary)
    first = audit_answer(summary, answered)
    all_figures = [figure for topic in topics() for figure in topic.charts(summary, _DETAIL)]
    figures = first_with_prefixes(all_figures, "matrix-iops", "matrix-bandwidth")
    name = summary.run.label or summary.run.study_name
    is_own = origin_of(summary.run) is None
    names = {
        "key": ("Tables and their models", bool(figures)),
        "findings": ("Findings", True),
        "audits": (HEADING, True),
        "origin": ("Origin", not is_own),
        "machine": ("Machine", is_own or summary.run.fingerprint_before.is_taken),
        "study": ("Study", is_own),
    }
    body = fill(
        "report/templates/body.html",
        head=first_screen(
            f"audit of {name}",
            first,
            particulars(summary),
            anchors=worst_anchors(first, summary.findings),
            words=" ".join(audit.sentence for audit in audits),
            notice=lab_notice(summary.run),
        ),
        chapters=chapters({key: text for key, (text, is_there) in names.items() if is_there}),
        parts=[
            key_section(figures),
            findings_section(summary.findings),
            audits_section(audits),
            *provenance(summary.run),
        ],
        skip=("findings", "the findings"),
    )
    return page_document(f"{name}: Seatrial audit", body, figures, f"Seatrial, audit of {name}")


def audit_answer(summary: Summary, answered: Sequence[Answer]) -> First:
    """Return what the page shows first."""
    audits = audits_of(summary)
    worst = [each for each in summary.findings if each.severity != "note"][:WORST_MAX]
    return First(
        verdict=_verdict(audits),
        grade="unknown",
        tiles=_tiles(summary, answered)[:TILES_MAX],
        worst=worst,
        worst_lines=[in_one_line(each) for each in worst],
        notes_count=len(summary.findings) - len(worst),
        confidence=_confidence(audits),
        next_step=worst[0].next if worst else _next_step(summary, audits),
        assessments=[],
    )


def _verdict(audits: Sequence[TableAudit]) -> str:
    fitting = [audit for audit in audits if audit.holds]
    gaps = sum(len(audit.gaps) for audit in audits)
    errors = [e for audit in fitting if (e := audit.error_share_median) is not None]
    error = f" (median error {format_share(max(errors))})" if errors else ""
    tables = format_plural(len(audits), "table")
    gap_phrase = format_plural(gaps, "gap") if gaps else "no gaps"
    return f"A model fits {len(fitting)} of {tables}{error}; {gap_phrase}."


def _tiles(summary: Summary, answered: Sequence[Answer]) -> list[Tile]:
    several = len({each.cell.target for each in summary.cells}) > 1
    return [
        msgspec.structs.replace(tile, label=f"{target}: {tile.label}") if several else tile
        for target, tile in [*_answer_tiles(answered), *_model_tiles(audits_of(summary))]
    ]


def _answer_tiles(answered: Sequence[Answer]) -> Iterator[tuple[str, Tile]]:
    """Yield the predictions, each with its target."""
    for each in answered:
        if each.prediction is None:
            continue
        where = f"{format_size(each.block_size_bytes)}, QD {each.concurrency}"
        tile = Tile(
            label=f"predicted {each.operation}, {where}",
            estimate=Estimate(
                value=each.prediction.iops,
                low=each.prediction.low,
                high=each.prediction.high,
                rounds=1,
                unit="IOPS",
            ),
            test=f"{each.workload} on {each.target}",
            cell="",
        )
        yield each.target, tile


def _model_tiles(audits: Sequence[TableAudit]) -> Iterator[tuple[str, Tile]]:
    """Yield the figures of the models, each with its target."""
    for audit in audits:
        for each in audit.parameters:
            if not each.sentence or each.unit not in _UNITS or each.low is None:
                continue
            factor, unit = _UNITS[each.unit]
            tile = Tile(
                label=f"{audit.table.operation}s: {parameter_name(each.name)}",
                estimate=Estimate(
                    value=each.value * factor,
                    low=each.low * factor,
                    high=None if each.high is None else each.high * factor,
                    rounds=1,
                    unit=unit,
                ),
                test=audit_name(audit),
                cell="",
                better="lower" if unit == "ns" else "higher",
            )
            yield audit.table.target, tile


def _confidence(audits: Sequence[TableAudit]) -> str:
    held_out_errors = [e for audit in audits if (e := audit.held_out_share_median) is not None]
    rounds = [e for audit in audits if (e := audit.rounds_share_median) is not None]
    prediction_estimate = []
    if held_out_errors:
        prediction_estimate.append(
            f"median error {format_share(max(held_out_errors))} in tests that the fit had not seen"
        )
    if rounds:
        prediction_estimate.append(f"two rounds of one test differ by {format_share(max(rounds))}")
    else:
        prediction_estimate.append("each test was measured once")
    sentence = "; ".join(prediction_estimate)
    return f"{sentence[0].upper()}{sentence[1:]}."


def _next_step(summary: Summary, audits: Sequence[TableAudit]) -> str:
    if any(audit.gaps for audit in audits) and origin_of(summary.run) is None:
        return f"Measure the gaps again: 'seatrial audit {summary.run.id} --remeasure'"
    if any(audit.holds for audit in audits):
        return "Predict a test that was not measured: 'seatrial audit --predict 16k,20'"
    return "Measure more block sizes and threads: 'seatrial study one-dvd-per-second'"
