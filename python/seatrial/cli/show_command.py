"""``seatrial show RUN``: a run's tables, findings and verdict."""

from __future__ import annotations

from pathlib import Path

import click

from seatrial.cli.options import json_option, results_option, run_argument

EPILOG = """\b
Examples:
  seatrial show                     the newest run
  seatrial show 20261121-0745       an id, or its beginning, or a label
  seatrial show last --json
"""


@click.command("show", epilog=EPILOG)
@run_argument
@results_option
@json_option
def command(run: str, results: Path, as_json: bool) -> int:
    """Show RUN again, from the results file: the same analysis, made anew."""
    from seatrial.cli.imports.origin_text import origin_text  # noqa: PLC0415 - not for --help
    from seatrial.cli.outcome import run_text  # noqa: PLC0415
    from seatrial.cli.stored import stored_summary  # noqa: PLC0415
    from seatrial.report.exports import json_document  # noqa: PLC0415

    summary = stored_summary(results, run)
    if as_json:
        click.echo(json_document.render(summary), nl=False)
        return 0
    if origin := origin_text(summary.run):
        click.echo(origin)
    click.echo(run_text(summary), nl=False)
    return 0
