"""``seatrial import FILE``: a foreign result into the results file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from seatrial.cli.imports.declared import declaring_options
from seatrial.cli.options import json_option, label_option, results_option

if TYPE_CHECKING:
    from seatrial.importers import Imported
    from seatrial.importers.fio.jobs import JobStudy
    from seatrial.trials.io.bounds.declared import Declared

EPILOG = """\b
Examples:
  seatrial import fio.json --label old-array     what fio --output-format=json+ wrote
  seatrial import bm-flash.txt --drives 4 --link sata2
                                                 its printed tables, and what they came over
  seatrial import sizes.csv                      columns size, threads, iops (docs/importers.md)
  seatrial import pgbench_log.*                  what pgbench --log wrote, all threads and runs
  seatrial import jobs.fio > study.toml          a job file of fio as a study, to be edited
  seatrial audit fio.json                        look at a file without storing it

\b
The format is told by the content. docs/importers.md says what is taken over of each.
"""


@click.command("import", epilog=EPILOG)
@click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@label_option
@declaring_options
@results_option
@json_option
def command(
    *, files: tuple[Path, ...], label: str, declared: Declared, results: Path, as_json: bool
) -> int:
    """Store the result of another tool, so that every command works on it as on a run of ours.

    FILE is fio's JSON or JSON+, a log of fio, the printed tables of bm-flash, CSV, or a log of
    pgbench; of these, several may be named. What it does not tell of the hardware may be told with
    --drives, --link, --bus and the like. Of a job file of fio, which holds no result, the study is
    printed that measures the same.
    """
    from seatrial.cli.imports.origin_text import origin_text  # noqa: PLC0415
    from seatrial.cli.outcome import run_text  # noqa: PLC0415
    from seatrial.cli.repeating import next_command  # noqa: PLC0415
    from seatrial.findings.summary import summarise  # noqa: PLC0415 - loads the analysis
    from seatrial.importers import read_jobs, read_results  # noqa: PLC0415
    from seatrial.report.exports import json_document  # noqa: PLC0415
    from seatrial.trials.io.bounds.declared import with_declared  # noqa: PLC0415

    if len(files) == 1 and (jobs := read_jobs(files[0])):
        click.echo(_study_text(jobs), nl=False)
        return 0
    read = read_results(*files)
    run, samples = with_declared(read.run, read.samples, declared)
    run = msgspec.structs.replace(run, label=label)
    imported = _stored(msgspec.structs.replace(read, run=run, samples=samples), results)
    summary = summarise(imported.run, imported.samples)
    if as_json:
        click.echo(json_document.render(summary), nl=False)
        return 0
    click.echo(f"{origin_text(imported.run)}\n{run_text(summary)}")
    again = next_command("show", imported.run.id, results=results)
    click.echo(f"Stored as run {imported.run.id}\nAgain:  {again}")
    return 0


def _study_text(jobs: JobStudy) -> str:
    """Return the study of a job file as TOML, what is done otherwise as comments above it."""
    from seatrial.importers.toml_text import toml_text  # noqa: PLC0415 - only here
    from seatrial.study.load import study_from_mapping  # noqa: PLC0415

    study_from_mapping(jobs.mapping, "the job file")
    comments = "".join(f"# {note}.\n" for note in jobs.notes)
    return f"{comments}\n{toml_text(jobs.mapping)}" if comments else toml_text(jobs.mapping)


def _stored(imported: Imported, results: Path) -> Imported:
    """Return the run as it was stored.

    Raises:
        UsageError: The results file holds it already.
        ResultsFileError: The results file cannot be used.
    """
    from seatrial.cli.repeating import next_command  # noqa: PLC0415 - only on this way out
    from seatrial.errors import UsageError  # noqa: PLC0415
    from seatrial.results.store import ResultsFile  # noqa: PLC0415

    run = imported.run
    with ResultsFile.open(results, create=True) as store:
        if any(stored.id == run.id for stored in store.runs()):
            raise UsageError(
                seen=f"{results} holds this file already, as run {run.id}",
                cause="The same content with the same time was imported before",
                next_step=f"Look at it with `{next_command('show', run.id, results=results)}`",
            )
        store.add_run(run, imported.samples)
        samples = store.samples(run.id)
    return msgspec.structs.replace(imported, samples=samples)
