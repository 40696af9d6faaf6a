"""The end of a measuring command: tables, findings, verdict, thresholds, report, exit code."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import click

from seatrial.cli import terminal
from seatrial.cli.display_options import display_options, width
from seatrial.cli.files import Output
from seatrial.cli.live import Observation, observing
from seatrial.cli.options import next_command, repeated
from seatrial.errors import EXIT_PARTIAL, EXIT_THRESHOLD, SeatrialError
from seatrial.findings.answer import RunAnswer, answer
from seatrial.findings.model import Summary, ThresholdResult
from seatrial.findings.ranks import RUNS_MIN, comparable_runs, ranked
from seatrial.findings.rules.interrupted import is_resumable, resuming
from seatrial.findings.summary import summarise
from seatrial.measure.recorder import Strategy
from seatrial.measure.rounds import interleaved
from seatrial.measure.run import RunRequest, execute
from seatrial.report.answer_text import answer_text
from seatrial.report.exports import json_document
from seatrial.report.lab import lab_notice
from seatrial.report.tables import tables
from seatrial.report.terminal import _marked, finding_text, is_coloured, table_text, wrapped
from seatrial.results.model import Run, Sample
from seatrial.results.store import ResultsFile
from seatrial.stats.cell_estimates import settled
from seatrial.stats.timeline import SLICES_MIN
from seatrial.stats.wording import format_count, format_plural
from seatrial.study.model import Plan
from seatrial.study.wrapping import wrap
from seatrial.topic import topics

TARGETS_COMPARED_MAX: Final = 2
"""The most targets that are compared cell by cell on the terminal if an analysis compares them."""


def measure_and_report(
    request: RunRequest,
    results: Path,
    *,
    report: Output,
    as_json: bool,
    strategy: Strategy | None = None,
    with_published: bool = False,
) -> int:
    """Measure a plan, print its results, write the report; return the exit code.

    Args:
        request: What to measure.
        results: The results file.
        report: Where the report goes; next to the results file unless a file is named.
        as_json: One JSON document instead of text.
        strategy: The order in which the plan is measured; the usual one unless given.
        with_published: Whether the report begins with published figures of databases.

    Raises:
        SeatrialError: when the target or the results file cannot be used.
        UsageError: when the report could not be written.
    """
    with (
        observing(request, results) as observation,
        ResultsFile.open(results, create=True) as store,
    ):
        informative = reported_if_it_fails(request, store, as_json=as_json)
        with informative, terminal.watcher(quiet=as_json) as watcher:
            chosen = strategy or strategy_of(request.plan)
            both = observation.with_page(watcher)
            run, end = execute(request, store, watcher=both, strategy=chosen)
        return print_outcome(
            run,
            store.samples(run.id),
            end.reason,
            store.path,
            report=report,
            as_json=as_json,
            with_published=with_published,
            observation=observation,
        )


@contextmanager
def reported_if_it_fails(
    request: RunRequest, store: ResultsFile, *, as_json: bool
) -> Iterator[None]:
    """Print the results of a run that an error ended, and how to resume it; re-raise the error.

    Args:
        request: What is measured within the block.
        store: The results file that it goes to.
        as_json: Whether nothing is printed, as standard output is to hold the error's document.
    """
    earlier = {run.id for run in store.runs()} - {request.resume.id if request.resume else ""}
    try:
        yield
    except SeatrialError:
        # An error in reporting must not hide the first one.
        with suppress(SeatrialError):
            for run in store.runs():
                if run.id not in earlier and not as_json:
                    _report_failed(run, store)
        raise


def _report_failed(run: Run, store: ResultsFile) -> None:
    samples = store.samples(run.id)
    if not samples:
        return
    click.echo(answered_text(summarise(run, samples)))
    if is_resumable(run.command):
        moved = shlex.quote(os.fsdecode(store.path.absolute())) if store.is_moved else ""
        click.echo(f"Resume: {repeated(resuming(run.command, moved))}")
    else:
        click.echo(f"Repeat: {repeated(run.command)}")
    click.echo(f"More:   {next_command('show', run.id, '--tables', results=store.path)}")


def print_outcome(
    run: Run,
    samples: Sequence[Sample],
    reason: str,
    results: Path,
    *,
    report: Output,
    as_json: bool,
    with_published: bool = False,
    observation: Observation | None = None,
) -> int:
    """Print the results of a run that has just ended, write its report; return the exit code.

    Args:
        run: The run as stored.
        samples: Its samples.
        reason: Why its rounds ended, as a sentence.
        results: The results file.
        report: Where the report goes; next to the results file unless a file is named.
        as_json: One JSON document instead of text.
        with_published: Whether the report begins with published figures of databases.
        observation: The live page of the run, which gets the report; None without one.

    Raises:
        UsageError: when the report could not be written.
    """
    summary = summarise(run, samples)
    earlier = earlier_samples(run, results)
    if not as_json:
        text = answered_text(summary, targets_text(summary, results), reason, earlier=earlier)
        click.echo(text, nl=False)
    path = None
    if display_options().report:
        path = write_report(
            summary, report, results, with_published=with_published, observation=observation
        )
    if as_json:
        click.echo(json_document.render(summary, display_options().profile, earlier), nl=False)
    else:
        echo_paths(run, results, path)
    return exit_code(summary)


def earlier_samples(run: Run, results: Path) -> list[list[Sample]]:
    """Return the samples of earlier runs that a run's figures can be ranked among.

    None are read if a profile grades the figures, or if only the verdict is printed.
    """
    if display_options().profile or display_options().quiet:
        return []
    with suppress(SeatrialError), ResultsFile.open(results, read_only=True) as store:
        return earlier_in(store.runs(), run, partial(store.samples, slices_min=SLICES_MIN))
    return []


def earlier_in(
    runs: Iterable[Run], run: Run, samples_of: Callable[[str], list[Sample]]
) -> list[list[Sample]]:
    """Return the samples of the runs that a run can be ranked among; none if they are too few.

    Args:
        runs: Those of the results file.
        run: The run.
        samples_of: Reads the samples of a run by its identifier.
    """
    found = comparable_runs(run, runs)
    return [samples_of(each.id) for each in found] if len(found) >= RUNS_MIN else []


def answered_text(
    summary: Summary,
    further: str = "",
    ending: str = "",
    *,
    earlier: Sequence[Sequence[Sample]] = (),
) -> str:
    """Return what a command prints of a run: its answer, and with ``--tables`` all the rest.

    Args:
        summary: The run.
        further: What the command adds to the tables.
        ending: Why the rounds ended, as a sentence; empty for a stored run.
        earlier: Samples of earlier runs that figures are ranked among.
    """
    found = ranked(answer(summary, display_options().profile), summary.cells, earlier)
    notice = lab_notice(summary.run) or ""
    rest = f"{run_text(summary)}{further}" if display_options().tables else ""
    return first_text(found, rest, notice=notice, ending=ending)


def first_text(found: RunAnswer, rest: str, *, notice: str = "", ending: str = "") -> str:
    """Return what a command prints: an answer, and with ``--tables`` all the rest.

    Args:
        found: The answer.
        rest: All the rest.
        notice: A remark on all figures; empty for none.
        ending: Why the rounds ended, as a sentence; empty where nothing was measured.
    """
    shown = display_options()
    if shown.quiet:
        return f"{found.verdict}\n"
    can_colour = is_coloured()
    parts = [answer_text(found, width(), colour=can_colour)]
    if notice:
        parts.append(_paragraph(notice))
    if ending:
        parts.append(_paragraph(ending))
    if shown.tables:
        parts.append(rest)
    return "\n".join(parts)


def _paragraph(text: str) -> str:
    return "".join(f"{line}\n" for line in wrap(text, width()))


def echo_paths(run: Run, results: Path, report: Path | None) -> None:
    """Print where the report of a run is, and how to see more of it."""
    if display_options().quiet:
        return
    if report is not None:
        click.echo(f"Report: {click.format_filename(report)}")
    more = () if display_options().tables else ("--tables",)
    label = "Again: " if display_options().tables else "More:  "
    click.echo(f"{label} {next_command('show', run.id, *more, results=results)}")


def strategy_of(plan: Plan) -> Strategy:
    """Return how a plan is measured: in interleaved rounds, as modified by topics."""
    strategy = interleaved(settled)
    for topic in sorted(topics(), key=lambda each: not each.in_rounds):
        strategy = topic.strategy(plan, strategy)
    return strategy


def exit_code(summary: Summary) -> int:
    """Return 12 for lost transactions, 4 for a partial result, 3 for a breached threshold, or 0.

    Topics may return other codes; the highest one counts.
    """
    own = 0 if all(result.met for result in summary.thresholds) else EXIT_THRESHOLD
    if summary.run.status != "complete":
        own = EXIT_PARTIAL
    return max(own, *(topic.exit_code(summary) for topic in topics()))


REPORTS: Final = "seatrial-reports"
"""The folder next to a results file that holds the reports of its runs."""


def default_report(results: Path, name: str) -> Path:
    """Return the default path of a report: in one folder next to the results file."""
    return results.parent / REPORTS / f"{name}.html"


def write_report(
    summary: Summary,
    report: Output,
    results: Path,
    *,
    with_published: bool = False,
    observation: Observation | None = None,
) -> Path:
    """Write the HTML page of a run; return its path.

    Args:
        summary: The run.
        report: Where the page goes; next to the results file unless a file is named.
        results: The results file.
        with_published: Whether it begins with published figures of databases.
        observation: The live page of the run, which gets the report, too; None without one.

    Raises:
        RefusedError: when an existing file must not be replaced.
        UsageError: when the file cannot be written.
    """
    from seatrial.report.page import render  # noqa: PLC0415 - the page's parts are large

    page = render(
        summary,
        tables=tables(summary),
        with_published=with_published,
        profile=display_options().profile,
        earlier=earlier_samples(summary.run, results),
    )
    if observation is not None:
        observation.take_report(page)
    default = default_report(results, summary.run.id)
    if not report.is_named:
        with suppress(OSError):  # writing reports the error
            default.parent.mkdir(exist_ok=True)
    settled_output = report.or_at(default)
    again = next_command("report", summary.run.id, "--output", "FILE", results=results)
    settled_output.write(page, otherwise=again)
    return settled_output.path or default


def run_text(summary: Summary) -> str:
    """Return tables, findings, thresholds and verdict for a terminal; notes without reasons.

    The remark on figures of the lab comes first.
    """
    notice = lab_notice(summary.run)
    blocks = [wrapped(notice)] if notice else []
    blocks += [table_text(table) for table in tables(summary)]
    blocks += [finding_text(finding) for finding in summary.findings if finding.severity != "note"]
    notes = [_marked(finding) for finding in summary.findings if finding.severity == "note"]
    if notes:
        blocks.append("\n".join(notes))
    if summary.thresholds:
        blocks.append("\n".join(_threshold_text(result) for result in summary.thresholds))
    if checked := _verification_text(summary):
        blocks.append(checked)
    blocks.append(wrapped(summary.verdict))
    return "\n\n".join(block.rstrip() for block in blocks) + "\n"


def targets_text(summary: Summary, results: Path) -> str:
    """Return how the targets of a run compare with its first; empty for one target.

    If there are more than two, a topic's analysis may compare them instead.
    """
    targets = dict.fromkeys(part.cell.target for part in summary.cells)
    if len(targets) < 2:
        return ""
    called = next(filter(None, (topic.compared_targets(summary) for topic in topics())), "")
    if called and len(targets) > TARGETS_COMPARED_MAX:
        sides = [f"{summary.run.id}:{target}" for target in targets][:2]
        again = next_command("compare", *sides, results=results)
        return f"\nTwo {called} test by test: {again}\n"
    from seatrial.cli.compare_command import targets_compared_text  # noqa: PLC0415

    samples = [sample for part in summary.cells for sample in part.samples]
    text = targets_compared_text(summary.run, samples)
    return f"\n{text}" if text else ""


def _threshold_text(result: ThresholdResult) -> str:
    mark = result.mark if result.met else result.mark.upper()
    return wrapped(result.sentence, f"{mark:<10}")


def _verification_text(summary: Summary) -> str:
    """Return how many blocks were checked against what was written; empty if none were."""
    checks = [
        sample.verification
        for cell in summary.cells
        for sample in cell.samples
        if sample.verification
    ]
    if not checks:
        return ""
    corrupt = sum(check.corrupt_blocks for check in checks)
    text = format_plural(sum(check.checked_blocks for check in checks), "block")
    found = format_count(corrupt) if corrupt else "none"
    return wrapped(f"{text} checked against what was written, {found} found wrong.")
