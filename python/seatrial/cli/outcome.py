"""The end of a measuring command: tables, findings, verdict, thresholds, report, exit code."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import click

from seatrial.cli import terminal
from seatrial.cli.files import Output
from seatrial.cli.repeating import next_command, repeated
from seatrial.errors import SeatrialError
from seatrial.findings.model import Summary, ThresholdResult
from seatrial.findings.rules.interrupted import is_resumable, resuming
from seatrial.findings.summary import summarise
from seatrial.measure.recorder import Strategy
from seatrial.measure.rounds import interleaved
from seatrial.measure.run import RunRequest, execute
from seatrial.report.exports import json_document
from seatrial.report.lab import lab_notice
from seatrial.report.tables import as_text, tables
from seatrial.results.model import Run, Sample
from seatrial.results.store import ResultsFile
from seatrial.stats.estimates import settled
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_count, format_plural
from seatrial.study.model import Plan
from seatrial.trials.audit.analysis.guide import guide
from seatrial.trials.audit.analysis.odd import odd_keys
from seatrial.trials.audit.measure.adaptive import adaptive
from seatrial.trials.audit.study import is_adaptive
from seatrial.trials.layouts.analysis.model import layouts_of
from seatrial.trials.loadline.analysis.decider import decider
from seatrial.trials.loadline.measure import load_lines
from seatrial.trials.loadline.study import LOADLINE

EXIT_THRESHOLD: Final = 3
EXIT_PARTIAL: Final = 4
EXIT_TRANSACTIONS_LOST: Final = 12
WIDTH: Final = 100
LAYOUTS_COMPARED_MAX: Final = 2
"""Of a run's layouts, so many are compared cell by cell on the terminal: two legs, as a rule."""
SEVERITY_MARKS: Final = {"critical": "!!", "warning": " !", "note": "  "}


def measure_and_report(
    request: RunRequest,
    results: Path,
    *,
    report: Output,
    as_json: bool,
    strategy: Strategy | None = None,
    with_published: bool = False,
) -> int:
    """Measure a plan, print what came of it, write the report; return the exit code.

    Args:
        request: What to measure.
        results: The results file.
        report: Where the report goes; beside the results file unless a file is named.
        as_json: One JSON document instead of text.
        strategy: The order in which the plan is measured; the usual one unless given.
        with_published: Whether the report begins with published figures of databases beside.

    Raises:
        SeatrialError: when the target or the results file cannot be used.
        UsageError: when the report could not be written.
    """
    with ResultsFile.open(results, create=True) as store:
        telling = reported_if_it_fails(request, store, as_json=as_json)
        with telling, terminal.watcher(quiet=as_json) as watcher:
            chosen = strategy or strategy_of(request.plan)
            run, end = execute(request, store, watcher=watcher, strategy=chosen)
        return tell(
            run,
            store.samples(run.id),
            end.reason,
            store.path,
            report=report,
            as_json=as_json,
            with_published=with_published,
        )


@contextmanager
def reported_if_it_fails(
    request: RunRequest, store: ResultsFile, *, as_json: bool
) -> Iterator[None]:
    """Print what a run had measured when an error ended it, and how to go on; pass the error on.

    Args:
        request: What is measured within the block.
        store: The results file that it goes to.
        as_json: Standard output is to hold one document, that of the error: print nothing.
    """
    earlier = {run.id for run in store.runs()} - {request.resume.id if request.resume else ""}
    try:
        yield
    except SeatrialError:
        # What cannot be read or written now must not hide the first error.
        with suppress(SeatrialError):
            for run in store.runs():
                if run.id not in earlier and not as_json:
                    _report_failed(run, store)
        raise


def _report_failed(run: Run, store: ResultsFile) -> None:
    samples = store.samples(run.id)
    if not samples:
        return
    click.echo(run_text(summarise(run, samples)))
    if is_resumable(run.command):
        moved = shlex.quote(os.fsdecode(store.path.absolute())) if store.is_moved else ""
        click.echo(f"Go on:  {repeated(resuming(run.command, moved))}")
    else:
        click.echo(f"Repeat: {repeated(run.command)}")
    click.echo(f"Again:  {next_command('show', run.id, results=store.path)}")


def tell(
    run: Run,
    samples: Sequence[Sample],
    reason: str,
    results: Path,
    *,
    report: Output,
    as_json: bool,
    with_published: bool = False,
) -> int:
    """Print what came of a run that has just ended, write its report; return the exit code.

    Args:
        run: The run as stored.
        samples: Its samples.
        reason: Why its rounds ended, as a sentence.
        results: The results file.
        report: Where the report goes; beside the results file unless a file is named.
        as_json: One JSON document instead of text.
        with_published: Whether the report begins with published figures of databases beside.

    Raises:
        UsageError: when the report could not be written.
    """
    summary = summarise(run, samples)
    if not as_json:
        wrapped = click.wrap_text(reason, width=WIDTH)
        click.echo(f"{run_text(summary)}{targets_text(summary, results)}\n{wrapped}")
    place = write_report(summary, report, results, with_published=with_published)
    if as_json:
        click.echo(json_document.render(summary), nl=False)
    else:
        again = next_command("show", run.id, results=results)
        click.echo(f"Report: {click.format_filename(place)}\nAgain:  {again}")
    return exit_code(summary)


def strategy_of(plan: Plan) -> Strategy:
    """Return the usual way through a plan: interleaved rounds, then its load lines."""
    if is_adaptive(plan.study):
        rounds = adaptive(settled, guide, odd_keys)
    else:
        rounds = interleaved(settled, odd_keys)
    if not any(cell.kind == LOADLINE for cell in plan.cells):
        return rounds
    has_others = any(cell.kind != LOADLINE for cell in plan.cells)
    return load_lines(decider, before=rounds if has_others else None)


def exit_code(summary: Summary) -> int:
    """Return 12 for lost transactions, 4 for a partial result, 3 for a breached threshold, or 0.

    A batch that failed in a round is a partial result, too, and so are replays that did not begin
    alike.
    """
    if any(finding.kind == "transactions_lost" for finding in summary.findings):
        return EXIT_TRANSACTIONS_LOST
    batch_failed = any(each.cell.operation == "batch" and each.failed for each in summary.cells)
    if summary.run.status != "complete" or batch_failed or starts_differ(summary):
        return EXIT_PARTIAL
    return 0 if all(result.met for result in summary.thresholds) else EXIT_THRESHOLD


def starts_differ(summary: Summary) -> bool:
    """Tell whether replays of a run surely did not begin with the same data."""
    return any(
        finding.kind == "replay_starts_differ" and finding.severity == "critical"
        for finding in summary.findings
    )


def write_report(
    summary: Summary, report: Output, results: Path, *, with_published: bool = False
) -> Path:
    """Write the HTML page of a run; return where it is.

    Args:
        summary: The run.
        report: Where the page goes; beside the results file unless a file is named.
        results: The results file.
        with_published: Whether it begins with published figures of databases beside.

    Raises:
        RefusedError: when something is there that must not be replaced.
        UsageError: when the file cannot be written.
    """
    from seatrial.report.page import render  # noqa: PLC0415 - the page's parts are large

    page = render(summary, tables=tables(summary), with_published=with_published)
    default = results.parent / f"seatrial-report-{summary.run.id}.html"
    settled_output = report.or_at(default)
    again = next_command("report", summary.run.id, "--output", "FILE", results=results)
    settled_output.write(page, otherwise=again)
    return settled_output.place or default


def run_text(summary: Summary) -> str:
    """Return tables, findings, thresholds and verdict for a terminal; notes without reasons.

    Of a run of the lab what holds of its figures stands first.
    """
    notice = lab_notice(summary.run)
    blocks = [notice] if notice else []
    blocks += [as_text(table) for table in tables(summary)]
    blocks += [finding_text(finding) for finding in summary.findings if finding.severity != "note"]
    notes = [_marked(finding) for finding in summary.findings if finding.severity == "note"]
    if notes:
        blocks.append("\n".join(notes))
    if summary.thresholds:
        blocks.append("\n".join(_threshold_text(result) for result in summary.thresholds))
    if checked := _verification_text(summary):
        blocks.append(checked)
    blocks.append(click.wrap_text(summary.verdict, width=WIDTH))
    return "\n\n".join(block.rstrip() for block in blocks) + "\n"


def targets_text(summary: Summary, results: Path) -> str:
    """Return how the targets of a run compare with its first; empty where it has but one.

    Of more than two layouts the analysis itself says which differ, and in what.
    """
    targets = dict.fromkeys(part.cell.target for part in summary.cells)
    if len(targets) < 2:
        return ""
    if layouts_of(summary) and len(targets) > LAYOUTS_COMPARED_MAX:
        sides = [f"{summary.run.id}:{target}" for target in targets][:2]
        again = next_command("compare", *sides, results=results)
        return f"\nTwo layouts cell by cell: {again}\n"
    from seatrial.cli.compare.comparing import (  # noqa: PLC0415 - it imports this
        targets_compared_text,
    )

    samples = [sample for part in summary.cells for sample in part.samples]
    reported = targets_compared_text(summary.run, samples)
    return f"\n{reported}" if reported else ""


def _threshold_text(result: ThresholdResult) -> str:
    mark = "kept      " if result.met else "BREACHED  "
    indent = " " * len(mark)
    return click.wrap_text(
        result.sentence, width=WIDTH, initial_indent=mark, subsequent_indent=indent
    )


def _verification_text(summary: Summary) -> str:
    """Return how many blocks were checked against what was written; empty where none was."""
    checks = [
        sample.verification
        for cell in summary.cells
        for sample in cell.samples
        if sample.verification
    ]
    if not checks:
        return ""
    corrupt = sum(check.corrupt_blocks for check in checks)
    reported = format_plural(sum(check.checked_blocks for check in checks), "block")
    found = format_count(corrupt) if corrupt else "none"
    return f"{reported} checked against what was written, {found} found wrong."


def finding_text(finding: Finding) -> str:
    """Return a finding as sentence, cause and next step, each wrapped below its mark."""
    lines = [_marked(finding)]
    for label, text in (("why", finding.cause), ("try", finding.next)):
        if text:
            indent = f"   {label}: "
            lines.append(
                click.wrap_text(
                    text, width=WIDTH, initial_indent=indent, subsequent_indent=" " * len(indent)
                )
            )
    return "\n".join(lines)


def _marked(finding: Finding) -> str:
    mark = SEVERITY_MARKS.get(finding.severity, "  ")
    return click.wrap_text(
        finding.sentence, width=WIDTH, initial_indent=f"{mark} ", subsequent_indent="   "
    )
