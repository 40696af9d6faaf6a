"""The commands that show stored runs again: list, show, report and export."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from seatrial.cli.display_options import display_options, profile_option, run_display_options
from seatrial.cli.files import Output, output_option
from seatrial.cli.options import (
    complete_runs,
    json_option,
    results_option,
    run_argument,
    this_command,
)
from seatrial.errors import UsageError
from seatrial.findings.model import Summary
from seatrial.findings.summary import summarise
from seatrial.report.exports import FORMATS
from seatrial.report.exports.parquet.tables import TABLES
from seatrial.report.terminal import table_text
from seatrial.results.store import ResultsFile


def stored_summary(results: Path, reference: str) -> Summary:
    """Return the summary of a stored run.

    Raises:
        ResultsFileError: when the file cannot be read.
        UsageError: when no run, or more than one, matches the reference.
    """
    with ResultsFile.open(results, read_only=True) as store:
        run = store.run(reference)
        return summarise(run, store.samples(run.id))


LIST_EPILOG = """\b
Examples:
  seatrial list
  seatrial list --results lab.seatrial --json
"""


@click.command("list", epilog=LIST_EPILOG)
@results_option
@json_option
def list_command(results: Path, as_json: bool) -> int:
    """List the runs, the newest first."""
    from seatrial.report.exports.json_document import runs_document  # noqa: PLC0415
    from seatrial.report.lab import LAB_NOTICE, notices_of  # noqa: PLC0415
    from seatrial.report.tables import runs_table  # noqa: PLC0415

    with ResultsFile.open(results, read_only=True) as store:
        runs = store.runs()
    if as_json:
        click.echo(runs_document(runs).as_text(), nl=False)
    else:
        click.echo(table_text(runs_table(runs)))
        if notices_of(runs):
            click.echo(LAB_NOTICE)
    return 0


SHOW_EPILOG = """\b
Examples:
  seatrial show                     the newest run
  seatrial show 20261121-0745       an id, or its beginning, or a label
  seatrial show last --tables       all tables and findings
  seatrial show last --profile oltp
  seatrial show last --json
"""


@click.command("show", epilog=SHOW_EPILOG)
@run_argument
@run_display_options
@results_option
@json_option
def show_command(run: str, results: Path, as_json: bool) -> int:
    """Show RUN again: the same analysis, computed from the results file."""
    from seatrial.cli.import_command import origin_text  # noqa: PLC0415 - not for --help
    from seatrial.cli.outcome import answered_text, earlier_samples, echo_paths  # noqa: PLC0415
    from seatrial.report.exports import json_document  # noqa: PLC0415

    summary = stored_summary(results, run)
    earlier = earlier_samples(summary.run, results)
    if as_json:
        click.echo(json_document.render(summary, display_options().profile, earlier), nl=False)
        return 0
    click.echo(answered_text(summary, earlier=earlier), nl=False)
    if (origin := origin_text(summary.run)) and not display_options().quiet:
        click.echo(f"\n{origin}", nl=False)
    if summary.run.note and not display_options().quiet:
        click.echo(f"Note:   {summary.run.note}")
    if not display_options().tables:
        echo_paths(summary.run, results, None)
    return 0


REPORT_EPILOG = """\b
Examples:
  seatrial report
  seatrial report last --output for-the-boss.html
  seatrial report --all                  an index of all runs, and a page of each
  seatrial report --all --output public  the same in another directory
"""


@click.command("report", epilog=REPORT_EPILOG)
@run_argument
@profile_option
@output_option(
    "--output",
    "-o",
    about="The file to write, with --all the directory; by default in seatrial-reports next to the "
    "results file.",
    folder_if=lambda options: bool(options.get("every")),
)
@click.option(
    "--all",
    "every",
    is_flag=True,
    is_eager=True,  # --output then names a directory
    help="Write an index of all runs with their trends, and a page per run; pages that are newer "
    "than their run, and of the given profile, are kept unless --force is given.",
)
@click.option(
    "--reference",
    is_flag=True,
    help="Begin with the figures of databases published in 2010.",
)
@results_option
@json_option
@click.pass_context
def report_command(
    context: click.Context,
    *,
    run: str,
    output: Output,
    every: bool,
    reference: bool,
    results: Path,
    as_json: bool,
) -> int:
    """Write the report of RUN again, from the results file alone."""
    if every:
        from seatrial.cli.index_files import refuse_run  # noqa: PLC0415 - only with --all

        source = context.get_parameter_source("run")
        refuse_run([] if source == click.core.ParameterSource.DEFAULT else [run], "report")
        return _report_all(output, results, as_json=as_json)
    from seatrial.cli.documents import ReportDocument  # noqa: PLC0415 - not for --help
    from seatrial.cli.outcome import write_report  # noqa: PLC0415

    summary = stored_summary(results, run)
    path = write_report(summary, output, results, with_published=reference)
    if as_json:
        click.echo(ReportDocument(run_id=summary.run.id, path=str(path)).as_text(), nl=False)
    else:
        click.echo(f"Report: {click.format_filename(path)}")
    return 0


def _report_all(output: Output, results: Path, *, as_json: bool) -> int:
    from seatrial.cli.documents import reports_document  # noqa: PLC0415 - not for --help
    from seatrial.cli.index_files import write_index  # noqa: PLC0415
    from seatrial.stats.wording import format_plural  # noqa: PLC0415

    profile = display_options().profile
    made = write_index(results, output.path, profile=profile, force=output.force)
    if as_json:
        click.echo(reports_document(made.index, made.pages, made.comparisons), nl=False)
    else:
        kept = len(made.pages) + len(made.comparisons) - made.written
        click.echo(f"Index: {click.format_filename(made.index)}")
        click.echo(f"{format_plural(made.written, 'page')} written, {kept} up to date.")
    return 0


EXPORT_EPILOG = """\b
Examples:
  seatrial export last --format markdown
  seatrial export last --format fio-json --output run.json   for fio-plot and others
  seatrial export last --format bm-flash                     the table of the article
  seatrial export last --format fio-job --output tests.fio   to cross-check with fio
  seatrial export last --format fio-job --cell matrix/read/4096B/1t/1d
  seatrial export --format parquet --all --output tables     for DuckDB, Spark, PostgreSQL
  seatrial export before after --format parquet --table samples --table buckets

\b
docs/parquet.md lists the tables of Parquet with all columns.
"""
PARQUET_FORMAT: Final = "parquet"


@click.command("export", epilog=EXPORT_EPILOG)
@click.argument("runs", nargs=-1, metavar="[RUN...]", shell_complete=complete_runs)
@click.option(
    "--format",
    "name",
    type=click.Choice([*FORMATS, PARQUET_FORMAT]),
    default="json",
    show_default=True,
    is_eager=True,  # --output then names a directory
    metavar="FORMAT",
    help=f"Output format: {', '.join([*FORMATS, PARQUET_FORMAT])}.",
)
@output_option(
    "--output",
    "-o",
    about="The file to write; by default standard output. For parquet, a directory (one file per "
    "table); by default seatrial-parquet next to the results file.",
    is_all=True,
    folder_if=lambda options: options.get("name") == PARQUET_FORMAT,
)
@click.option("--cell", metavar="KEY", help="Only the test with this key.")
@click.option("--all", "every", is_flag=True, help="Every run of the results file; parquet only.")
@click.option(
    "--table",
    "tables",
    type=click.Choice(list(TABLES)),
    multiple=True,
    metavar="NAME",
    help="Only this table of parquet, such as samples; may be repeated.",
)
@results_option
@json_option
def export_command(
    *,
    runs: tuple[str, ...],
    name: str,
    output: Output,
    cell: str | None,
    every: bool,
    tables: tuple[str, ...],
    results: Path,
    as_json: bool,
) -> int:
    """Write RUN (by default the newest) in another format; with parquet several runs, or all."""
    from seatrial.report.exports import export  # noqa: PLC0415

    if name == PARQUET_FORMAT:
        from seatrial.cli.parquet_files import export_parquet  # noqa: PLC0415

        _refuse("--cell", cell, "select rows by cell_key when you read the tables")
        return export_parquet(runs, tables, output, results, every=every, as_json=as_json)
    _refuse("--all", every, "add --format parquet")
    _refuse("--table", tables, "add --format parquet")
    _refuse("More than one run", runs[1:], "add --format parquet, or export one after the other")
    summary = stored_summary(results, runs[0] if runs else "last")
    if cell is not None:
        summary = _with_one_cell(summary, cell)
    text = export(summary, "json" if as_json else name)
    if not output.is_named:
        click.echo(text, nl=False)
        return 0
    again = this_command("--output", "FILE", without=["--output", "-o"])
    output.write(text, otherwise=again)
    return 0


def _refuse(what: str, given: object, otherwise: str) -> None:
    """Raise UsageError when an option was given that the format does not support."""
    if given:
        raise UsageError(
            seen=f"{what} was given, which this format does not support",
            cause="Parquet has all tests in tables; every other format is of one run",
            next_step=f"{otherwise[0].upper()}{otherwise[1:]}",
        )


def _with_one_cell(summary: Summary, key: str) -> Summary:
    """Return a summary with one of its cells; raises UsageError if there is no such cell."""
    import msgspec  # noqa: PLC0415 - not for --help

    chosen = [part for part in summary.cells if part.cell.key == key]
    if not chosen:
        some = ", ".join(part.cell.key for part in summary.cells[:3])
        raise UsageError(
            seen=f"Run {summary.run.id} has no test {key!r}",
            cause=f"It has {len(summary.cells)} others, such as {some}",
            next_step=f"See the keys: seatrial export {summary.run.id} --format csv",
        )
    return msgspec.structs.replace(summary, cells=chosen)
