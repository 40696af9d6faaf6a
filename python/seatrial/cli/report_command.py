"""``seatrial report RUN``: the HTML page of a stored run."""

from __future__ import annotations

from pathlib import Path

import click

from seatrial.cli.files import Output, output_option
from seatrial.cli.options import json_option, results_option, run_argument

EPILOG = """\b
Examples:
  seatrial report
  seatrial report last --output for-the-boss.html
"""


@click.command("report", epilog=EPILOG)
@run_argument
@output_option("--output", "-o", about="The file to write; beside the results file if not given.")
@click.option(
    "--reference",
    is_flag=True,
    help="Begin with the bars of databases that were published in 2010 beside.",
)
@results_option
@json_option
def command(run: str, output: Output, reference: bool, results: Path, as_json: bool) -> int:
    """Make the report of RUN again; it needs nothing but the results file."""
    from seatrial.cli.documents import report_document  # noqa: PLC0415 - not for --help
    from seatrial.cli.outcome import write_report  # noqa: PLC0415
    from seatrial.cli.stored import stored_summary  # noqa: PLC0415

    summary = stored_summary(results, run)
    place = write_report(summary, output, results, with_published=reference)
    if as_json:
        click.echo(report_document(summary.run.id, place), nl=False)
    else:
        click.echo(f"Report: {click.format_filename(place)}")
    return 0
