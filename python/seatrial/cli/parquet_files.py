"""The files of ``seatrial export --format parquet``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click

from seatrial.cli.files import PARQUET, STANDARD_OUTPUT, Output, failed, writable_path
from seatrial.cli.index_files import make_folder, refuse_run
from seatrial.cli.options import this_command
from seatrial.errors import UsageError
from seatrial.report.exports.parquet.files import require_pyarrow, write_tables
from seatrial.report.exports.parquet.tables import TABLES
from seatrial.results.model import Run, Sample
from seatrial.results.store import ResultsFile
from seatrial.stats.wording import format_plural

FOLDER: Final = "seatrial-parquet"
"""Where the tables go if no directory is named, next to the results file."""


def export_parquet(
    references: Sequence[str],
    names: Sequence[str],
    output: Output,
    results: Path,
    *,
    every: bool,
    as_json: bool,
) -> int:
    """Write tables of runs, one file each, and print where; return the exit code.

    Args:
        references: The runs; the newest one if empty.
        names: Tables to be written; all if empty.
        output: The directory.
        results: The results file.
        every: Whether all runs are exported.
        as_json: Whether a JSON document is printed.

    Raises:
        RefusedError: A file would be overwritten that is not a table of Seatrial.
        ResultsFileError: The results file cannot be read.
        SpaceError: There is no space for the tables.
        UsageError: pyarrow is absent, there is no such run or none at all, or the directory cannot
            be written.
    """
    from seatrial.cli.documents import tables_document  # noqa: PLC0415 - not for --help

    require_pyarrow()
    if every:
        refuse_run(references, "export --format parquet")
    if str(output.path) in STANDARD_OUTPUT:
        raise _no_stream()
    folder = output.path or results.parent / FOLDER
    with ResultsFile.open(results, read_only=True) as store:
        run_ids = _ids(store, references, every=every)
        make_folder(folder)
        paths = {
            name: writable_path(folder / f"{name}.parquet", force=output.force, kind=PARQUET)
            for name in TABLES
            if not names or name in names
        }
        try:
            rows = write_tables(_measured(store, run_ids), paths)
        except OSError as error:
            again = this_command("--output", "DIR", without=["--output", "-o"])
            raise failed(folder, error, again) from None
    if as_json:
        click.echo(tables_document(folder, run_ids, paths, rows), nl=False)
    else:
        for name, path in paths.items():
            words = format_plural(rows[name], "row")
            click.echo(f"{click.format_filename(path)}: {words}")
        click.echo(
            f"{format_plural(len(run_ids), 'run')} exported; docs/parquet.md describes the columns"
        )
    return 0


def _ids(store: ResultsFile, references: Sequence[str], *, every: bool) -> list[str]:
    if not every:
        return list(dict.fromkeys(store.run(each).id for each in references or ["last"]))
    run_ids = store.run_ids()
    if not run_ids:
        raise UsageError(
            seen=f"{store.path} contains no run",
            cause="Nothing was measured or imported yet",
            next_step="Measure with `seatrial run`, or import a result with `seatrial import`",
        )
    return run_ids


def _measured(store: ResultsFile, run_ids: Sequence[str]) -> Iterator[tuple[Run, list[Sample]]]:
    for run_id in run_ids:
        yield store.run(run_id), store.samples(run_id)


def _no_stream() -> UsageError:
    return UsageError(
        seen="Several files cannot be written to standard output",
        cause="Parquet is one file per table, and cannot be read from a pipe",
        next_step="Name a directory with --output",
    )
