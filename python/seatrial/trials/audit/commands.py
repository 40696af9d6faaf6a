"""``seatrial audit RESULT``: models and gaps of the tables of a result."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from seatrial.cli import terminal
from seatrial.cli.display_options import answer_options, display_options
from seatrial.cli.files import Output, output_option
from seatrial.cli.import_command import declaring_options
from seatrial.cli.options import (
    complete_runs,
    destroy_option,
    json_option,
    results_option,
    wait_option,
)
from seatrial.cli.outcome import first_text, reported_if_it_fails
from seatrial.cli.sources import NamedResult, load_source
from seatrial.cli.study_command import plan_for
from seatrial.errors import UsageError
from seatrial.findings.model import Summary
from seatrial.findings.summary import summarise
from seatrial.measure.rounds import remeasuring
from seatrial.measure.run import RunRequest, execute
from seatrial.results.model import Run, Sample, origin_of
from seatrial.results.store import ResultsFile
from seatrial.study.load import study_from_mapping
from seatrial.study.model import Plan
from seatrial.study.units import parse_size_bytes
from seatrial.trials.audit.analysis import audit_tables
from seatrial.trials.audit.analysis.model import audits_of

if TYPE_CHECKING:
    from seatrial.trials.io.bounds import Declared


from seatrial.trials.audit.report.terminal import audit_page

EPILOG = """\b
Examples:
  seatrial audit                       the newest run
  seatrial audit last --json
  seatrial audit last --output audit.html
  seatrial audit bm-flash.txt          a table printed by another tool
  seatrial audit last --predict 16k,20  predict 16 KiB at 20 threads
  seatrial audit last --predict 4k,4x8  predict 4 KiB at 4 threads with depth 8
  seatrial audit last --remeasure      measure the gaps again
  seatrial audit bm-flash.txt --drives 4 --link sata2 --controller-cache 4GiB

\b
RESULT is a run (last, an id or its beginning, a label) or a file. A table contains random reads
or writes that differ only in block size, threads and depth. An audit needs at least 7 figures,
with at least two block sizes or at least three levels of concurrency (threads times depth).
"""


@click.command("audit", epilog=EPILOG)
@click.argument("result", default="last", shell_complete=complete_runs)
@click.option(
    "--predict",
    metavar="SIZE,THREADS[xDEPTH]",
    help="Predict a test from each table, such as 16k,20 (in flight) or 4k,4x8.",
)
@click.option(
    "--remeasure",
    is_flag=True,
    help="First repeat the tests in gaps, on the targets of the run's study.",
)
@output_option("-o", "--output", about="Also write the audit as an HTML page.")
@answer_options
@declaring_options
@destroy_option
@wait_option
@results_option
@json_option
def command(
    *,
    result: str,
    predict: str | None,
    remeasure: bool,
    output: Output,
    declared: Declared,
    destroy: str | None,
    waits: bool,
    results: Path,
    as_json: bool,
) -> int:
    """Fit a model to the tables of RESULT; report its parameters, limits and gaps.

    RESULT is a run (last, an id or its beginning, a label), RUN:TARGET, or a file: a results
    file, a fio JSON, a bm-flash table, a CSV. An existing file takes precedence over a label.

    Hardware that the fingerprint does not show (of an imported table, or behind a RAID
    controller) can be declared with --drives, --link, --bus and so on; every figure is then
    compared with its limits.
    """
    from seatrial.cli.sources import load_source  # noqa: PLC0415
    from seatrial.findings.summary import summarise  # noqa: PLC0415 - not for --help
    from seatrial.report.lab import lab_notice  # noqa: PLC0415
    from seatrial.trials.audit.report import section  # noqa: PLC0415
    from seatrial.trials.audit.report.page import audit_answer  # noqa: PLC0415
    from seatrial.trials.io.bounds import with_declared  # noqa: PLC0415

    requested = requested_cell(predict) if predict is not None else None
    source = load_source(result, results)
    if remeasure:
        source = _remeasure(result, results, destroy=destroy, quiet=as_json, waits=waits)
    summary = summarise(*with_declared(source.run, source.samples, declared))
    _require_tables(summary, result)
    answers = section.answers(audits_of(summary), requested) if requested else []
    if as_json:
        click.echo(section.audit_document(summary, answers), nl=False)
    else:
        rest = audit_page(summary, answers) if display_options().tables else ""
        first = audit_answer(summary, answers)
        notice = lab_notice(summary.run) or ""
        click.echo(first_text(first, rest, notice=notice), nl=False)
    if output.path is not None:
        from seatrial.trials.audit.report.page import render  # noqa: PLC0415 - its parts are large

        output.write(render(summary, answers), otherwise="seatrial audit RESULT --output FILE")
    return 0


def _remeasure(
    result: str, results: Path, *, destroy: str | None, quiet: bool, waits: bool
) -> NamedResult:
    """Measure the gaps of a run again, print the result, and return the whole run."""
    source, reported = remeasure_gaps(result, results, destroy=destroy, quiet=quiet, waits=waits)
    if not quiet:
        click.echo(reported)
    return source


def _require_tables(summary: Summary, result: str) -> None:
    """Raise UsageError if there is nothing to audit."""
    from seatrial.trials.audit.analysis.tables import (  # noqa: PLC0415
        AUDITED_POINTS_MIN,
        LEVELS_MIN,
    )

    if not audits_of(summary):
        raise UsageError(
            seen=f"{result} has no table that can be audited",
            cause=(
                f"An audit needs at least {AUDITED_POINTS_MIN} random reads or writes that differ "
                "only in block size, threads and depth, with two block sizes or more, or with one "
                f"at {LEVELS_MIN} or more levels of concurrency (threads times depth)"
            ),
            next_step="Measure one with `seatrial run DIR` or `seatrial study one-dvd-per-second`",
        )


def remeasure_gaps(
    reference: str,
    results: Path,
    *,
    destroy: str | None = None,
    quiet: bool = False,
    waits: bool = False,
) -> tuple[NamedResult, str]:
    """Measure the cells in gaps of a stored run for two more rounds, on its study's targets.

    Args:
        reference: A run of the results file.
        results: The results file; the new samples join the run there.
        destroy: Serial number or path of a device or file that may be overwritten.
        quiet: Show no progress.
        waits: Whether to wait for another run on the same storage to end.

    Returns:
        The run with all of its samples, and the reason for its end, as a sentence.

    Raises:
        UsageError: if the run is imported, is in another file, or its plan has changed.
        SeatrialError: if a target is refused, cannot be used or fails.
    """
    source = load_source(reference, results)
    plan = _plan_of(source)
    request = RunRequest(
        plan=plan, command=source.run.command, destroy=destroy, resume=source.run, waits=waits
    )
    with ResultsFile.open(results) as store:
        _require_same_file(store, source, results)
        informative = reported_if_it_fails(request, store, as_json=quiet)
        with informative, terminal.watcher(quiet=quiet) as watcher:
            run, end = execute(request, store, watcher=watcher, strategy=remeasuring(gap_keys))
        return NamedResult(name=reference, run=run, samples=store.samples(run.id)), end.reason


def gap_keys(run: Run, samples: Sequence[Sample]) -> list[str]:
    """Return the keys of all cells in gaps, whatever their status.

    Cells above a bound are left out, since a cache is equally fast in every round.
    """
    audits = audit_tables(run, summarise(run, samples).cells)
    gaps = [gap for audit in audits for gap in audit.gaps if gap.kind != "bound_broken"]
    return [key for gap in gaps for key in gap.keys]


def _plan_of(source: NamedResult) -> Plan:
    """Return the plan of a run's study, if it still has the cells of the run.

    Raises:
        UsageError: if the run is imported, or its targets have changed.
    """
    run = source.run
    if origin_of(run) is not None:
        raise UsageError(
            seen=f"{source.name} is an imported result and cannot be measured again here",
            cause="Only runs measured by Seatrial contain their targets",
            next_step="Omit --remeasure; gaps of an imported table stay 'seen once'",
        )
    plan = plan_for(study_from_mapping(run.study, run.study_name))
    if plan.plan_hash != run.plan_hash:
        raise UsageError(
            seen=f"The study of run {run.id} now has other tests on its target",
            cause="The size or block size of the target changed, or another version of Seatrial "
            "measured it",
            next_step="Measure again: seatrial study FILE",
        )
    return plan


def _require_same_file(store: ResultsFile, source: NamedResult, results: Path) -> None:
    """Check that the run is in the results file for the new samples.

    Raises:
        UsageError: if it is in another one.
    """
    if all(run.id != source.run.id for run in store.runs()):
        raise UsageError(
            seen=f"Run {source.run.id} is not in {results}",
            cause="New samples are added to their run in its results file",
            next_step="Give that file with --results, and the run alone as RESULT",
        )


def requested_cell(written: str) -> tuple[int, int, int | None]:
    """Return block size in bytes, concurrency and threads from the value of ``--predict``.

    Threads are None if only requests in flight were given.

    Raises:
        UsageError: if it is not a size and one or two whole numbers above 0.
    """
    size, _, count = written.partition(",")
    size_bytes = threads = depth = 0
    first, by, last = count.partition("x")
    with contextlib.suppress(ValueError):
        size_bytes = parse_size_bytes(size.strip())
        threads, depth = int(first), int(last) if by else 1
    if min(size_bytes, threads, depth) <= 0:
        raise UsageError(
            seen=f"Invalid value of --predict: {written!r}",
            cause="It takes a block size and the number of requests in flight, such as 16k,20",
            next_step="Use --predict 16k,20 for 16 KiB at 20 threads, or 16k,4x8 for 4 threads "
            "at depth 8",
        )
    return size_bytes, threads * depth, threads if by else None
