"""``seatrial runs``: rename, annotate, delete and merge runs of a results file."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from seatrial.cli.options import (
    LABEL_CHARACTERS_MAX,
    NOTE_CHARACTERS_MAX,
    checked_text,
    json_option,
    results_option,
)
from seatrial.errors import UsageError
from seatrial.stats.wording import format_plural, moment

if TYPE_CHECKING:
    from seatrial.results.model import Run

EPILOG = """\b
Examples:
  seatrial runs rename last baseline
  seatrial runs annotate baseline "firmware 1.4, cache on"
  seatrial runs delete 20261121-074500-3fa2
  seatrial runs merge other-host.seatrial
"""


@click.group("runs", epilog=EPILOG)
def command() -> None:
    """Rename, annotate, delete and merge runs of a results file.

    RUN is last, an id or its beginning, or a label.
    """


@command.command("rename")
@click.argument("run")
@click.argument("label")
@results_option
@json_option
def rename(run: str, label: str, results: Path, as_json: bool) -> int:
    """Give RUN another LABEL; an empty one removes it."""
    checked = checked_text(label, "label", LABEL_CHARACTERS_MAX)
    return _edited("rename", run, results, as_json=as_json, label=checked)


@command.command("annotate")
@click.argument("run")
@click.argument("text")
@results_option
@json_option
def annotate(run: str, text: str, results: Path, as_json: bool) -> int:
    """Store a note about RUN, which replaces an earlier one; an empty TEXT removes it."""
    checked = checked_text(text, "note", NOTE_CHARACTERS_MAX, lines=True)
    return _edited("annotate", run, results, as_json=as_json, note=checked)


def _edited(
    action: str,
    reference: str,
    results: Path,
    *,
    as_json: bool,
    label: str | None = None,
    note: str | None = None,
) -> int:
    from seatrial.cli.documents import EditDocument  # noqa: PLC0415 - not for --help
    from seatrial.results.store import ResultsFile  # noqa: PLC0415

    with ResultsFile.open(results) as store:
        run = store.run(reference)
        store.edit_run(run.id, label=label, note=note)
        stored = store.run(run.id)
    if as_json:
        click.echo(EditDocument(action=action, run_ids=[run.id]).as_text(), nl=False)
    elif label is not None:
        click.echo(f"{run.id}: label {stored.label!r}, before {run.label!r}")
    else:
        click.echo(f"{run.id}: note {'stored' if stored.note else 'removed'}")
    return 0


@command.command("delete")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--yes", "-y", is_flag=True, help="Delete without confirmation.")
@results_option
@json_option
def delete(runs: tuple[str, ...], yes: bool, results: Path, as_json: bool) -> int:
    """Delete each RUN with all its samples, permanently; reports written before remain.

    A run that is being measured is not deleted.
    """
    from seatrial.cli.documents import EditDocument  # noqa: PLC0415 - not for --help
    from seatrial.results.store import ResultsFile  # noqa: PLC0415

    with ResultsFile.open(results) as store:
        found = list({(run := store.run(each)).id: run for each in runs}.values())
        if not yes:
            _confirm(found, as_json=as_json)
        store.delete_runs([run.id for run in found])
    if as_json:
        document = EditDocument(action="delete", run_ids=[run.id for run in found])
        click.echo(document.as_text(), nl=False)
    else:
        click.echo("\n".join(f"Deleted {_line(run)}" for run in found))
    return 0


def _confirm(found: Sequence[Run], *, as_json: bool) -> None:
    """Ask whether runs may be deleted; raises click.Abort when not."""
    if as_json or not sys.stdin.isatty():
        raise UsageError(
            seen="The deletion of the runs cannot be confirmed",
            cause="Standard input is not a terminal, or --json was given",
            next_step="Add --yes to delete without confirmation",
        )
    click.echo("\n".join(_line(run) for run in found))
    click.confirm("Delete permanently?", abort=True)


def _line(run: Run) -> str:
    return f"{run.id}  {run.label or run.study_name}  {moment(run.started_at)}"


@command.command("merge")
@click.argument("other", type=click.Path(dir_okay=False, path_type=Path), metavar="OTHER.seatrial")
@click.option("--skip-existing", is_flag=True, help="Skip runs that are already in this file.")
@results_option
@json_option
def merge(other: Path, skip_existing: bool, results: Path, as_json: bool) -> int:
    """Copy the runs of another results file into this one; the other file is not changed.

    Refused if a run of the same id is in both, unless --skip-existing is given.
    """
    return merge_files([other], results, skip_existing=skip_existing, as_json=as_json)


def merge_files(
    others: Sequence[Path], results: Path, *, skip_existing: bool, as_json: bool
) -> int:
    """Copy the runs of results files into another, print which, and return the exit code.

    Args:
        others: The files, which are only read.
        results: The file to copy into; created if it is missing.
        skip_existing: Whether runs that are there already are left out and counted.
        as_json: Whether a JSON document is printed.

    Raises:
        RefusedError: Some runs are there already, or one is being measured; nothing was copied.
        ResultsFileError: A file is missing, damaged, not ours or newer; nothing was copied.
    """
    from seatrial.cli.documents import EditDocument  # noqa: PLC0415 - not for --help
    from seatrial.results.copying import merge as merged  # noqa: PLC0415
    from seatrial.results.store import ResultsFile  # noqa: PLC0415

    with ExitStack() as stack:
        sources = [stack.enter_context(ResultsFile.open(each, read_only=True)) for each in others]
        store = stack.enter_context(ResultsFile.open(results, create=True))
        copied, left_out = merged(sources, store, skip_existing=skip_existing)
    if as_json:
        ids, left_out_ids = ([run.id for run in each] for each in (copied, left_out))
        document = EditDocument(action="merge", run_ids=ids, left_out_ids=left_out_ids)
        click.echo(document.as_text(), nl=False)
        return 0
    click.echo("\n".join(f"Copied {_line(run)}" for run in copied) or "Nothing to copy.")
    if left_out:
        verb = "was" if len(left_out) == 1 else "were"
        click.echo(f"{format_plural(len(left_out), 'run')} {verb} already there.")
    return 0
