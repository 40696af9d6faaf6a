"""``seatrial export RUN``: a run in another format."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from seatrial.cli.files import Output, output_option
from seatrial.cli.options import json_option, results_option, run_argument
from seatrial.report.exports import FORMATS

if TYPE_CHECKING:
    from seatrial.findings.model import Summary

EPILOG = """\b
Examples:
  seatrial export last --format markdown
  seatrial export last --format fio-json --output run.json   for fio-plot and others
  seatrial export last --format bm-flash                     the table of the article
  seatrial export last --format fio-job --output cells.fio   to cross-check with fio
  seatrial export last --format fio-job --cell matrix/read/4096B/1t/1d
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
@output_option(
    "--output", "-o", about="The file to write; standard output if not given.", is_all=True
)
@click.option("--cell", metavar="KEY", help="Only the cell of this key.")
@results_option
@json_option
def command(
    *, run: str, name: str, output: Output, cell: str | None, results: Path, as_json: bool
) -> int:
    """Write RUN in another format."""
    from seatrial.cli.repeating import this_command  # noqa: PLC0415 - not for --help
    from seatrial.cli.stored import stored_summary  # noqa: PLC0415 - not for --help
    from seatrial.report.exports import export  # noqa: PLC0415

    summary = stored_summary(results, run)
    if cell is not None:
        summary = _only(summary, cell)
    text = export(summary, "json" if as_json else name)
    if not output.is_named:
        click.echo(text, nl=False)
        return 0
    again = this_command("--output", "FILE", without=["--output", "-o"])
    output.write(text, otherwise=again)
    return 0


def _only(summary: Summary, key: str) -> Summary:
    """Return a summary with one of its cells; raises UsageError where there is none such."""
    import msgspec  # noqa: PLC0415 - not for --help

    from seatrial.errors import UsageError  # noqa: PLC0415 - only on this way out

    chosen = [part for part in summary.cells if part.cell.key == key]
    if not chosen:
        some = ", ".join(part.cell.key for part in summary.cells[:3])
        raise UsageError(
            seen=f"Run {summary.run.id} has no cell {key!r}",
            cause=f"It has {len(summary.cells)} others, such as {some}",
            next_step=f"See the keys: seatrial export {summary.run.id} --format csv",
        )
    return msgspec.structs.replace(summary, cells=chosen)
