"""``seatrial clean``: undo what killed runs left behind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from seatrial.cli.options import json_option

if TYPE_CHECKING:
    from seatrial.machine.undo_journal import Undone

EPILOG = """\b
Examples:
  seatrial clean --dry-run
  seatrial clean
"""


@click.command("clean", epilog=EPILOG)
@click.option("--dry-run", is_flag=True, help="Only show what would be undone.")
@json_option
def command(dry_run: bool, as_json: bool) -> int:
    """Undo what killed runs left behind: files, devices, mounts, settings, servers, databases.

    Runs in progress and layouts of `layout build` are left alone.
    """
    from seatrial.machine.undo_journal import clean  # noqa: PLC0415 - not for --help

    return report_undone(clean(dry_run=dry_run), as_json=as_json)


def report_undone(undone: Sequence[Undone], *, as_json: bool) -> int:
    """Print the changes with their outcome; return 1 if one could not be undone, else 0."""
    from seatrial.cli.documents import CleanDocument  # noqa: PLC0415 - not for --help
    from seatrial.machine.undoers import Outcome  # noqa: PLC0415

    if as_json:
        click.echo(CleanDocument(undone=list(undone)).as_text(), nl=False)
    elif not undone:
        click.echo("There is nothing to undo.")
    else:
        for each in undone:
            click.echo(f"{each.outcome:<8} {each.kind:<15} {each.subject}: {each.detail}")
    return 1 if any(each.outcome == Outcome.FAILED for each in undone) else 0
