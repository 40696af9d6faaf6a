"""``seatrial list``: the runs of a results file."""

from __future__ import annotations

from pathlib import Path

import click

from seatrial.cli.options import json_option, results_option

EPILOG = """\b
Examples:
  seatrial list
  seatrial list --results lab.seatrial --json
"""


@click.command("list", epilog=EPILOG)
@results_option
@json_option
def command(results: Path, as_json: bool) -> int:
    """List the runs, the newest first."""
    from seatrial.report.exports import json_document  # noqa: PLC0415 - not for --help
    from seatrial.report.json_documents import as_text as json_text  # noqa: PLC0415
    from seatrial.report.lab import LAB_NOTICE, notices_of  # noqa: PLC0415
    from seatrial.report.tables import as_text, runs_table  # noqa: PLC0415
    from seatrial.results.store import ResultsFile  # noqa: PLC0415

    with ResultsFile.open(results, read_only=True) as store:
        runs = store.runs()
    if as_json:
        click.echo(json_text(json_document.runs_document(runs)), nl=False)
    else:
        click.echo(as_text(runs_table(runs)))
        if notices_of(runs):
            click.echo(LAB_NOTICE)
    return 0
