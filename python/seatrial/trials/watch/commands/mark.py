"""``seatrial mark``: a marker for every watch that is running."""

from __future__ import annotations

import click

EPILOG = """\b
Examples:
  seatrial mark "cache device added"
  seatrial mark "scheduler set to none"

\b
The marker is a line in the charts of the page, a line on the terminal, and an entry of "marks" with
--json. It reaches all watches of the same user; those of root are marked by root.
"""


@click.command("mark", epilog=EPILOG)
@click.argument("text")
def command(*, text: str) -> int:
    """Set the marker TEXT now, in every running watch."""
    from seatrial.trials.watch.measure.marks import set_mark  # noqa: PLC0415 - not for --help

    reached = set_mark(text)
    click.echo(f"Marked in {reached} watches." if reached > 1 else "Marked in 1 watch.")
    return 0
