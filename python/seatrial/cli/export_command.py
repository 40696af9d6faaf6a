"""``seatrial export RUN``: a run in another format."""

from __future__ import annotations

from pathlib import Path

import click

from seatrial.cli.files import write_text
from seatrial.cli.options import json_option, results_option, run_argument
from seatrial.report.exports import FORMATS

EPILOG = """\b
Examples:
  seatrial export last --format markdown
  seatrial export last --format fio-json --output run.json   for fio-plot and others
  seatrial export last --format bm-flash                     the table of the article
"""


@click.command("export", epilog=EPILOG)
@run_argument
@click.option(
    "--format",
    "name",
    type=click.Choice(list(FORMATS)),
    default="json",
    show_default=True,
    help="Which format.",
)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write; standard output if not given.",
)
@results_option
@json_option
def command(run: str, name: str, output: Path | None, results: Path, as_json: bool) -> int:
    """Write RUN in another format."""
    from seatrial.cli.stored import stored_summary  # noqa: PLC0415 - not for --help
    from seatrial.report.exports import export  # noqa: PLC0415

    text = export(stored_summary(results, run), "json" if as_json else name)
    if output is None:
        click.echo(text, nl=False)
        return 0
    write_text(output, text, otherwise=f"seatrial export {run} --format {name} --output FILE")
    return 0
