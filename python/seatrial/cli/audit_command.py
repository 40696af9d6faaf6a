"""``seatrial audit RESULT``: what its tables say, and which cells do not fit them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from seatrial.cli.options import json_option, results_option

if TYPE_CHECKING:
    from seatrial.analysis.model import Summary

EPILOG = """\b
Examples:
  seatrial audit                       the newest run
  seatrial audit last --json
  seatrial audit bm-flash.txt          a table that another tool printed
  seatrial audit last --predict 16k,20 what 16 KiB at 20 threads would do

\b
RESULT is a run (last, an id or its beginning, a label) or a file. A table is the random reads or
writes that differ in block size and concurrency alone; it is audited from 7 figures on.
"""


@click.command("audit", epilog=EPILOG)
@click.argument("result", default="last")
@click.option(
    "--predict",
    metavar="SIZE,THREADS",
    help="What each table says of one more cell, such as 16k,20 (threads times depth).",
)
@results_option
@json_option
def command(result: str, predict: str | None, results: Path, as_json: bool) -> int:
    """Fit a model to the tables of RESULT; say what it means and which cells are gaps."""
    from seatrial.analysis import summarise  # noqa: PLC0415 - not for --help
    from seatrial.cli import audit_text  # noqa: PLC0415
    from seatrial.cli.sources import load_source  # noqa: PLC0415

    asked = audit_text.asked_cell(predict) if predict is not None else None
    source = load_source(result, results)
    summary = summarise(source.run, source.samples)
    _require_tables(summary, result)
    answers = audit_text.answers(summary.audits, asked) if asked else []
    told = audit_text.audit_document if as_json else audit_text.audit_page
    click.echo(told(summary, answers), nl=False)
    return 0


def _require_tables(summary: Summary, result: str) -> None:
    """Raise UsageError where there is nothing to audit."""
    from seatrial.analysis.audit.tables import AUDITED_POINTS_MIN  # noqa: PLC0415
    from seatrial.errors import UsageError  # noqa: PLC0415

    if not summary.audits:
        raise UsageError(
            seen=f"{result} holds no table that could be audited",
            cause=(
                f"An audit takes at least {AUDITED_POINTS_MIN} random reads or writes that differ "
                "in block size and concurrency alone"
            ),
            next_step="Measure one with `seatrial run DIR` or `seatrial study one-dvd-per-second`",
        )
