"""``seatrial audit RESULT``: what its tables say, and which cells do not fit them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from seatrial.cli.imports.declared import declaring_options
from seatrial.cli.options import destroy_option, json_option, results_option, wait_option
from seatrial.trials.audit.analysis.model import audits_of

if TYPE_CHECKING:
    from seatrial.cli.sources import Source
    from seatrial.findings.model import Summary
    from seatrial.trials.io.bounds.declared import Declared

EPILOG = """\b
Examples:
  seatrial audit                       the newest run
  seatrial audit last --json
  seatrial audit bm-flash.txt          a table that another tool printed
  seatrial audit last --predict 16k,20  what 16 KiB at 20 threads would do
  seatrial audit last --predict 4k,4x8  what 4 KiB at 4 threads, each at depth 8, would do
  seatrial audit last --remeasure      are the gaps still there?
  seatrial audit bm-flash.txt --drives 4 --link sata2 --controller-cache 4GiB

\b
RESULT is a run (last, an id or its beginning, a label) or a file. A table is the random reads or
writes that differ in block size, threads and depth alone. It is audited from 7 figures on, of at
least two block sizes, or of one at three or more levels of concurrency (threads times depth).
"""


@click.command("audit", epilog=EPILOG)
@click.argument("result", default="last")
@click.option(
    "--predict",
    metavar="SIZE,THREADS[xDEPTH]",
    help="What each table says of one more cell, such as 16k,20 (in flight) or 4k,4x8.",
)
@click.option(
    "--remeasure",
    is_flag=True,
    help="First measure the cells of the gaps again, on the targets of the run's study.",
)
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
    declared: Declared,
    destroy: str | None,
    waits: bool,
    results: Path,
    as_json: bool,
) -> int:
    """Fit a model to the tables of RESULT; say what it means and which cells are gaps.

    RESULT is a run (last, an id or its beginning, a label), RUN:TARGET, or a file: a results
    file, a fio JSON, a bm-flash table, a CSV. Where such a file exists, it is meant, not a label.

    What no fingerprint shows (an imported table's hardware, drives behind a RAID controller) may
    be told with --drives, --link, --bus and the like: every figure is then held against it.
    """
    from seatrial.cli.audit import text as audit_text  # noqa: PLC0415
    from seatrial.cli.sources import load_source  # noqa: PLC0415
    from seatrial.findings.summary import summarise  # noqa: PLC0415 - not for --help
    from seatrial.trials.audit.report import document  # noqa: PLC0415
    from seatrial.trials.io.bounds.declared import with_declared  # noqa: PLC0415

    asked = audit_text.asked_cell(predict) if predict is not None else None
    source = load_source(result, results)
    if remeasure:
        source = _measured_again(result, results, destroy=destroy, quiet=as_json, waits=waits)
    summary = summarise(*with_declared(source.run, source.samples, declared))
    _require_tables(summary, result)
    answers = document.answers(audits_of(summary), asked) if asked else []
    reported = document.audit_document if as_json else audit_text.audit_page
    click.echo(reported(summary, answers), nl=False)
    return 0


def _measured_again(
    result: str, results: Path, *, destroy: str | None, quiet: bool, waits: bool
) -> Source:
    """Measure the gaps of a run again, say how that ended, and return all of it."""
    from seatrial.cli.audit.remeasure import measure_gaps_again  # noqa: PLC0415 - only if asked for

    source, reported = measure_gaps_again(
        result, results, destroy=destroy, quiet=quiet, waits=waits
    )
    if not quiet:
        click.echo(reported)
    return source


def _require_tables(summary: Summary, result: str) -> None:
    """Raise UsageError where there is nothing to audit."""
    from seatrial.errors import UsageError  # noqa: PLC0415
    from seatrial.trials.audit.analysis.tables import (  # noqa: PLC0415
        AUDITED_POINTS_MIN,
        LEVELS_MIN,
    )

    if not audits_of(summary):
        raise UsageError(
            seen=f"{result} holds no table that could be audited",
            cause=(
                f"An audit takes at least {AUDITED_POINTS_MIN} random reads or writes that differ "
                "in block size, threads and depth alone, with two block sizes or more, or with one "
                f"at {LEVELS_MIN} or more levels of concurrency (threads times depth)"
            ),
            next_step="Measure one with `seatrial run DIR` or `seatrial study one-dvd-per-second`",
        )
