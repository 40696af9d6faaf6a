"""A replay from its plan to its end: it runs, is stored, judged, told and reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from seatrial.cli import terminal
from seatrial.cli.db.study import AGAIN
from seatrial.cli.files import Output
from seatrial.cli.options import Measuring
from seatrial.cli.outcome import (
    EXIT_PARTIAL,
    reported_if_it_fails,
    starts_differ,
    strategy_of,
    write_report,
)
from seatrial.cli.repeating import command_line, next_command
from seatrial.cli.sql.compare.run import CompareOptions
from seatrial.cli.sql.compare.run import run as run_comparison
from seatrial.cli.sql.replay.text import replay_text
from seatrial.errors import UsageError
from seatrial.findings.model import Summary
from seatrial.findings.summary import summarise
from seatrial.measure.run import RunRequest, execute
from seatrial.report.exports import json_document
from seatrial.results.model import Run, Sample
from seatrial.results.store import ResultsFile
from seatrial.study.model import Plan
from seatrial.trials.replay.analysis.judgement import Judgement, judge_rounds

COMPLETE: Final = "complete"


def play_and_report(plan: Plan, measuring: Measuring) -> int:
    """Play a trace, store what came of it, print it, write its report; return the exit code.

    Of several targets, what differs between them is printed as well.

    Args:
        plan: A study of one replay, on one target or several.
        measuring: What all measuring commands have in common.

    Raises:
        RefusedError: when the target must not be written to, or not be played to at all.
        SeatrialError: when the target or the results file cannot be used.
        UsageError: when the report could not be written.
    """
    request = RunRequest(
        plan=plan,
        command=command_line(),
        label=measuring.label,
        destroy=measuring.destroy,
        waits=measuring.waits,
    )
    with ResultsFile.open(measuring.results, create=True) as store:
        telling = reported_if_it_fails(request, store, as_json=measuring.as_json)
        with telling, terminal.watcher(quiet=measuring.as_json) as watcher:
            run, end = execute(request, store, watcher=watcher, strategy=strategy_of(plan))
        samples, results = store.samples(run.id), store.path
        summary = summarise(run, samples)
        judged = _judged(plan, samples)
        if not measuring.as_json:
            text = replay_text(judged, summary) if judged else f"Nothing was played. {end.reason}"
            click.echo(text)
            _compare(summary.run, list(judged), measuring, results)
        place = write_report(summary, measuring.report, results)
        if measuring.as_json:
            click.echo(json_document.render(summary), nl=False)
        else:
            reported = click.format_filename(place)
            again = next_command("show", run.id, results=results)
            click.echo(f"\nReport: {reported}\nAgain:  {again}")
    return _exit_code(plan, summary, judged)


def _compare(run: Run, labels: Sequence[str], measuring: Measuring, results: Path) -> None:
    """Print each target of a run against its first, query by query, and write a page of it."""
    controls = [label for label in labels if label == f"{labels[0]}{AGAIN}"]
    for label in labels[1:]:
        if label in controls:
            continue
        sides = (f"{run.id}:{labels[0]}", f"{run.id}:{label}")
        options = CompareOptions(
            sides=sides,
            control=f"{run.id}:{controls[0]}" if controls else None,
            report=Output(
                place=results.parent / f"seatrial-{labels[0]}-{label}-{run.id}.html",
                force=measuring.report.force,
            ),
            otherwise=next_command(
                *("sql", "compare", *sides, "--anyway", "--report", "FILE"), results=results
            ),
            results=results,
            anyway=True,
        )
        click.echo("")
        try:
            run_comparison(options)
        except UsageError as error:
            # Such as when nothing was answered on one of them, which is told above.
            click.echo(f"{label} is not compared with {labels[0]}: {error}")


def _judged(plan: Plan, samples: Sequence[Sample]) -> dict[str, Judgement]:
    """Return what is to be thought of the replays on each target that was played to."""
    records = {
        target.label: [
            sample.replay
            for sample in samples
            if sample.replay is not None and sample.cell.target == target.label
        ]
        for target in plan.targets
    }
    return {label: judge_rounds(own) for label, own in records.items() if own}


def _exit_code(plan: Plan, summary: Summary, judged: Mapping[str, Judgement]) -> int:
    """Return 4 unless every round was played to its end and is well, and all began alike."""
    are_well = len(judged) == len(plan.targets) and all(each.ok for each in judged.values())
    is_partial = summary.run.status != COMPLETE or starts_differ(summary)
    return 0 if are_well and not is_partial else EXIT_PARTIAL
