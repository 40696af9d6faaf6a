"""``seatrial sql compare BEFORE AFTER``: how much faster, query by query, page by page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import click
from click.core import ParameterSource

from seatrial.cli.files import SNAPSHOT, Output, output_option
from seatrial.cli.options import json_option, results_option

EPILOG = """\b
Examples:
  seatrial sql compare hdd ssd                       two replays, by label
  seatrial sql compare last                          the two targets of one run
  seatrial sql compare monday.trace tuesday.trace    two traces, or logs as they are
  seatrial sql compare a0.csv..a1.csv b0.csv..b1.csv two periods of pg_stat_statements
  seatrial sql compare --snapshot postgresql://db/prod -o a0.csv
  seatrial sql compare old/access.log new/access.log pages of a web server
  seatrial sql compare old/access.log new/access.log --time-column 5
  seatrial sql compare 'old/access.log*' a.log,b.log  logs in pieces
  seatrial sql compare last:ssd:old last:ssd:new     two schemas, by RUN:TARGET:SCHEMA
  seatrial sql compare hdd ssd --batch nightly old.time new.time

\b
What is compared, what is never called different, and why: docs/sql.md, "Before and after".

\b
Exit codes: 0; 2 usage, or sides that must not be compared; 3 slower by more than
--fail-if-slower; 6 a server cannot be asked.
"""

UNITS_S: Final = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


class Duration(click.ParamType[float]):
    """A short time with its unit, such as ``80us`` or ``0.2ms``, as seconds."""

    name = "duration"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return seconds; raises click.BadParameter for anything else."""
        if isinstance(value, float):
            return value
        matched = re.fullmatch(r"(\d+(?:\.\d+)?)(s|ms|us|ns)", str(value))
        if matched is None:
            self.fail(f"{value!r} is no time with a unit, such as 80us or 0.2ms", param, ctx)
        return float(matched[1]) * UNITS_S[matched[2]]


@click.command("compare", epilog=EPILOG, short_help="Before against after.")
@click.argument("sides", nargs=-1, metavar="[BEFORE AFTER]")
@click.option(
    "--pages",
    nargs=2,
    metavar="BEFORE AFTER",
    help="Access logs of a web server as well, by URL pattern.",
)
@click.option(
    "--batch",
    "batches",
    nargs=3,
    multiple=True,
    metavar="NAME BEFORE AFTER",
    help="A batch as well: files with what `time` printed, or the times, such as 348m6.451s.",
)
@click.option(
    "--aa",
    "control",
    metavar="RESULT",
    help="Before, measured once more: smaller differences than theirs are not called real.",
)
@click.option(
    "--pages-aa",
    "pages_control",
    metavar="LOG",
    help="The access log before of --pages, measured once more.",
)
@click.option(
    "--margin",
    "margin_percent",
    type=click.FloatRange(0, 90, min_open=True, max_open=True),
    default=5.0,
    show_default=True,
    metavar="PERCENT",
    help="A difference of less is no difference.",
)
@click.option(
    "--client-offset",
    "offset_s",
    type=Duration(),
    metavar="TIME",
    help="What the way to the server takes of each time of a replay, to compare it with a log.",
)
@click.option(
    "--time-unit",
    type=click.Choice(list(UNITS_S)),
    help="Unit of the times in access logs, where they do not tell it.",
)
@click.option(
    "--time-column",
    type=click.IntRange(min=1),
    metavar="N",
    help="Column of the time in access logs, behind the bytes; a quoted text is one.",
)
@click.option("--anyway", is_flag=True, help="Compare replays of different loads; warn only.")
@click.option(
    "--fail-if-slower",
    "slower_percent",
    type=click.FloatRange(0, 1000),
    metavar="PERCENT",
    help="Exit code 3 if a query, page, batch or their average is significantly slower, by more "
    "than this; not below --margin.",
)
@click.option(
    "--top",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    metavar="N",
    help="So many queries and pages are shown, those with the most time.",
)
@output_option("--report", about="Write an HTML page as well.")
@click.option("--snapshot", metavar="URL", help="Write what pg_stat_statements counted to -o.")
@output_option("-o", "--output", kind=SNAPSHOT, about="Of --snapshot.")
@results_option
@json_option
def compare(
    *,
    sides: tuple[str, ...],
    pages: tuple[str, str] | None,
    batches: tuple[tuple[str, str, str], ...],
    control: str | None,
    pages_control: str | None,
    margin_percent: float,
    offset_s: float | None,
    time_unit: str | None,
    time_column: int | None,
    anyway: bool,
    slower_percent: float | None,
    top: int,
    report: Output,
    snapshot: str | None,
    output: Output,
    results: Path,
    as_json: bool,
) -> int:
    """Compare AFTER with BEFORE: which queries are faster, which slower, by how much, is it real.

    A side is a replay (a run, RUN:TARGET, RUN:TARGET:SCHEMA, or a results file), a trace or a log
    with durations, a snapshot of pg_stat_statements (CSV, FROM.csv..TO.csv, or the URL of a
    server), or a web server's access log. One run alone stands for its two targets, or schemas.
    """
    from seatrial.cli.repeating import this_command  # noqa: PLC0415 - not for --help
    from seatrial.cli.sql.compare.run import CompareOptions, run, write_snapshot  # noqa: PLC0415

    if snapshot is not None or output.is_named:
        return write_snapshot(snapshot, output, sides, _others_given())
    return run(
        CompareOptions(
            sides=sides,
            pages=pages,
            batches=batches,
            control=control,
            pages_control=pages_control,
            margin_share=margin_percent / 100,
            offset_s=offset_s,
            time_unit_s=None if time_unit is None else UNITS_S[time_unit],
            time_column=time_column,
            anyway=anyway,
            slower_share=None if slower_percent is None else slower_percent / 100,
            top=top,
            report=report,
            otherwise=this_command("--report", "FILE", without=["--report"]),
            results=results,
            as_json=as_json,
        )
    )


def _others_given() -> list[str]:
    """Return the options of this command that were given, without those of a snapshot."""
    context = click.get_current_context()
    return [
        parameter.opts[0]
        for parameter in context.command.params
        if isinstance(parameter, click.Option)
        and parameter.name not in ("snapshot", "output", "force")
        and context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
    ]
