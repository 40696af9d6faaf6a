"""``seatrial sql compare``: queries, pages and batches before a change and after it."""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

import click
import msgspec
from click.core import ParameterSource

from seatrial.cli.display_options import answer_options, display_options
from seatrial.cli.files import SNAPSHOT, Output, output_option
from seatrial.cli.options import (
    FiniteRange,
    complete_runs,
    json_option,
    results_option,
    this_command,
)
from seatrial.cli.outcome import first_text
from seatrial.errors import EXIT_THRESHOLD, UsageError
from seatrial.findings.registry import find_in_before_after
from seatrial.importers.time_output import BatchTime, read_times
from seatrial.report.terminal import wrapped
from seatrial.results.model import Run
from seatrial.statement_counters import TAKEN
from seatrial.stats.wording import format_plural
from seatrial.trials.replay.commands.compare_sides import (
    ReadOptions,
    Sides,
    read_page_sides,
    read_sides,
    require_same_kind,
    without_offset,
)
from seatrial.trials.replay.compare.batches import BatchRun, compare_batch
from seatrial.trials.replay.compare.model import (
    Batch,
    BeforeAfter,
    Table,
)
from seatrial.trials.replay.compare.report.answer import before_after_answer, warnings_of
from seatrial.trials.replay.compare.report.terminal import before_after_text
from seatrial.trials.replay.compare.table import compared
from seatrial.trials.replay.compare.verdict import (
    perhaps_slower_by,
    slower_by,
    verdict,
)
from seatrial.trials.replay.compare.warnings import noun_of

EPILOG = """\b
Examples:
  seatrial sql compare hdd ssd                       two replays, by label
  seatrial sql compare last                          the two targets of one run
  seatrial sql compare monday.trace tuesday.trace    two traces, or logs
  seatrial sql compare a0.csv..a1.csv b0.csv..b1.csv two periods of pg_stat_statements
  seatrial sql compare --snapshot postgresql://db/prod -o a0.csv
  seatrial sql compare old/access.log new/access.log pages of a web server
  seatrial sql compare old/access.log new/access.log --time-column 5
  seatrial sql compare 'old/access.log*' a.log,b.log  logs in several files
  seatrial sql compare last:ssd:old last:ssd:new     two schemas, by RUN:TARGET:SCHEMA
  seatrial sql compare hdd ssd --batch nightly old.time new.time

\b
docs/sql.md, "Before and after", describes what is compared and what is significant.

\b
Exit codes: 0; 2 usage, or sides that must not be compared; 3 slower by more than
--fail-if-slower; 6 a server cannot be queried.
"""

UNITS_S: Final = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


class Duration(click.ParamType[float]):
    """A duration with its unit, such as ``80us`` or ``0.2ms``, as seconds."""

    name = "duration"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return seconds; raises click.BadParameter for anything else."""
        if isinstance(value, float):
            return value
        matched = re.fullmatch(r"(\d+(?:\.\d+)?)(s|ms|us|ns)", str(value))
        if matched is None:
            self.fail(f"{value!r} is not a time with a unit, such as 80us or 0.2ms", param, ctx)
        return float(matched[1]) * UNITS_S[matched[2]]


@click.command("compare", epilog=EPILOG, short_help="Compare before with after.")
@click.argument("sides", nargs=-1, metavar="[BEFORE AFTER]", shell_complete=complete_runs)
@click.option(
    "--pages",
    nargs=2,
    metavar="BEFORE AFTER",
    help="Also compare access logs of a web server, by URL pattern.",
)
@click.option(
    "--batch",
    "batches",
    nargs=3,
    multiple=True,
    metavar="NAME BEFORE AFTER",
    help="Also compare a batch: files with the output of `time`, or times, such as 348m6.451s.",
)
@click.option(
    "--aa",
    "control",
    metavar="RESULT",
    help="A second measurement of BEFORE (A/A control), as the noise floor.",
)
@click.option(
    "--pages-aa",
    "pages_control",
    metavar="LOG",
    help="A second measurement of BEFORE of --pages.",
)
@click.option(
    "--margin",
    "margin_percent",
    type=FiniteRange(0, 90, min_open=True, max_open=True),
    default=5.0,
    show_default=True,
    metavar="PERCENT",
    help="Smaller differences count as none.",
)
@click.option(
    "--client-offset",
    "offset_s",
    type=Duration(),
    metavar="TIME",
    help="Network time to subtract from each time of a replay, to compare it with a log.",
)
@click.option(
    "--time-unit",
    type=click.Choice(list(UNITS_S)),
    help="Unit of the times in access logs, if not detected.",
)
@click.option(
    "--time-column",
    type=click.IntRange(min=1),
    metavar="N",
    help="Column of the time in access logs, after the bytes; a quoted text is one column.",
)
@click.option("--anyway", is_flag=True, help="Compare replays of different loads; warn only.")
@click.option(
    "--fail-if-slower",
    "slower_percent",
    type=FiniteRange(0, 1000),
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
    help="Number of queries and pages to show, by total time.",
)
@output_option("--report", about="Write an HTML page as well.")
@answer_options
@click.option("--snapshot", metavar="URL", help="Write the counters of pg_stat_statements to -o.")
@output_option("-o", "--output", kind=SNAPSHOT, about="The file of --snapshot.")
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
    """Compare AFTER with BEFORE: which queries are faster or slower, by how much, and how certain.

    A side is a replay (a run, RUN:TARGET, RUN:TARGET:SCHEMA, or a results file), a trace or a log
    with durations, a snapshot of pg_stat_statements (CSV, FROM.csv..TO.csv, or the URL of a
    server), or a web server's access log. Given a single run, its two
    targets or schemas are compared.
    """
    if snapshot is not None or output.is_named:
        return write_snapshot(snapshot, output, sides, _other_options())
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


def _other_options() -> list[str]:
    """Return the options of this command that were given, without those of a snapshot."""
    context = click.get_current_context()
    return [
        parameter.opts[0]
        for parameter in context.command.params
        if isinstance(parameter, click.Option)
        and parameter.name not in ("snapshot", "output", "force")
        and context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
    ]


SIDE_COUNTS = (1, 2)


class CompareOptions(msgspec.Struct, frozen=True, kw_only=True):
    """A comparison and its output.

    Attributes:
        sides: Before and after; one run with two targets; or none.
        pages: Access logs before and after; None for none.
        batches: Name, before and after of each.
        control: A second measurement of before; None for none.
        pages_control: A second access log of before; None for none.
        margin_share: A smaller difference does not count.
        offset_s: Network time in each client time; None if not given.
        time_unit_s: Unit of the times in access logs; None to detect it.
        time_column: Column of the times after the bytes, from 1; None to detect it.
        anyway: Whether replays of different loads are compared.
        slower_share: A larger slowdown is exit code 3; None for never.
        top: Number of rows to show.
        report: The HTML page; none if no file is named.
        otherwise: The command that writes the page to another file.
        results: The results file that contains the runs.
        as_json: Whether a JSON document is printed instead of text.
        words: The text to print.
        title: Prefix of the verdict.
    """

    sides: tuple[str, ...]
    pages: tuple[str, str] | None = None
    batches: tuple[tuple[str, str, str], ...] = ()
    control: str | None = None
    pages_control: str | None = None
    margin_share: float = 0.05
    offset_s: float | None = None
    time_unit_s: float | None = None
    time_column: int | None = None
    anyway: bool = False
    slower_share: float | None = None
    top: int = 10
    report: Output = Output()
    otherwise: str = ""
    results: Path
    as_json: bool = False
    words: Literal["all", "verdict", "none"] = "all"
    title: str = ""


def run(options: CompareOptions) -> int:
    """Compare, print, write the page; return the exit code.

    Raises:
        SeatrialError: when something cannot be read, or must not be compared.
    """
    _require_something(options)
    _require_reachable(options)
    found, runs = _compared(options)
    slow = [] if options.slower_share is None else slower_by(found, options.slower_share)
    if options.report.is_named:
        _write_page(found, runs, options)
    if options.as_json:
        click.echo(found.as_text(), nl=False)
    elif options.words != "none":
        _print(found, slow, options)
    return EXIT_THRESHOLD if slow else 0


def _print(found: BeforeAfter, slow: list[str], options: CompareOptions) -> None:
    first = before_after_answer(found, find_in_before_after(found), warnings_of(found))
    if options.words == "verdict":
        click.echo(wrapped(f"{options.title}{first.verdict}"))
    else:
        rest = before_after_text(found, top=options.top) if display_options().tables else ""
        click.echo(first_text(first, rest), nl=False)
    if not display_options().quiet:
        _report_slower(found, slow, options.slower_share)
        if options.report.path:
            click.echo(f"Report: {click.format_filename(options.report.path)}")


def _report_slower(found: BeforeAfter, slow: list[str], share: float | None) -> None:
    """Print what is significantly slower than allowed, and what may be."""
    if share is None:
        return
    limit = f"slower by more than {100 * share:g} %"
    for table in found.tables:
        if not table.changes:
            noun = noun_of(table.before)
            click.echo(f"Undecided whether {limit}: no {noun} was timed on both sides.")
    for text in slow:
        click.echo(f"{limit.capitalize()}: {text}.")
    for text in perhaps_slower_by(found, share):
        click.echo(f"Undecided whether {limit}: {text}.")


def _require_reachable(options: CompareOptions) -> None:
    """Refuse a limit below the margin."""
    if options.slower_share is None or options.slower_share >= options.margin_share:
        return
    limit, margin = 100 * options.slower_share, 100 * options.margin_share
    raise UsageError(
        seen=f"--fail-if-slower {limit:g} is below --margin {margin:g}",
        cause="Differences below the margin count as none: a slowdown between the two "
        "would not fail",
        next_step=f"Use --fail-if-slower {margin:g} or more, or lower --margin as well",
    )


def _require_something(options: CompareOptions) -> None:
    if not (
        len(options.sides) in SIDE_COUNTS
        or (not options.sides and (options.pages or options.batches))
    ):
        sides = format_plural(len(options.sides), "side was", "sides were")
        raise UsageError(
            seen=f"{sides} named",
            cause="A comparison has two sides: before and after, or one run with two targets",
            next_step="Name both, as in `seatrial sql compare BEFORE AFTER`; see `seatrial sql "
            "compare --help`",
        )
    if options.control is not None and not options.sides:
        raise _no_effect("--aa", "no sides are named", "for --pages use --pages-aa")
    if options.pages_control is not None and options.pages is None:
        raise _no_effect("--pages-aa", "there is no --pages", "for the sides use --aa")


def _no_effect(option: str, cause: str, next_step: str) -> UsageError:
    return UsageError(
        seen=f"{option} is given, and would have no effect",
        cause=f"{cause[0].upper()}{cause[1:]}",
        next_step=f"Leave it out; {next_step}",
    )


def _require_effect(options: CompareOptions, queries: Sides | None, pages: Sides | None) -> None:
    """Check that no option is ignored silently.

    Raises:
        UsageError: when one would have no effect.
    """
    clocks = {side.clock for side in (queries.before, queries.after)} if queries else set()
    if options.offset_s is not None and len(clocks) < len(SIDE_COUNTS):
        raise _no_effect(
            "--client-offset",
            "both sides have the same clock" if clocks else "no queries are compared",
            "it is for a replay against a log",
        )
    if pages is None and (options.time_unit_s is not None or options.time_column is not None):
        option = "--time-unit" if options.time_unit_s is not None else "--time-column"
        raise _no_effect(option, "no access logs are compared", "see --pages")
    if options.anyway and not (queries and queries.before.kind == queries.after.kind == "replay"):
        raise _no_effect(
            "--anyway", "no replays are compared", "it only allows replays of different loads"
        )


def _compared(options: CompareOptions) -> tuple[BeforeAfter, list[tuple[str, Run]]]:
    """Return the comparison, and the runs of its sides."""
    reading = ReadOptions(
        results=options.results,
        time_unit_s=options.time_unit_s,
        time_column=options.time_column,
        quiet=options.as_json,
        anyway=options.anyway,
    )
    queries: Sides | None = None
    pages: Sides | None = None
    if options.sides:
        sides = read_sides(options.sides, options.control, reading)
        require_same_kind(sides, options.offset_s)
        if sides.before.kind == "web":
            pages = sides
        else:
            queries = sides
    if options.pages:
        if pages is not None:
            raise UsageError(
                seen="Access logs were named twice",
                cause="Before and after are already access logs",
                next_step="Leave out --pages, or name queries as before and after",
            )
        pages = read_page_sides(options.pages, options.pages_control, reading)
    _require_effect(options, queries, pages)
    comparison = BeforeAfter(
        queries=None if queries is None else _table(queries, options),
        pages=None if pages is None else _table(pages, options),
        batches=_batches(options),
    )
    runs = queries.runs if queries else []
    return msgspec.structs.replace(comparison, verdict=verdict(comparison)), runs


def _table(sides: Sides, options: CompareOptions) -> Table:
    offset_s = None if sides.before.clock == sides.after.clock else options.offset_s
    if offset_s is not None:
        sides = without_offset(sides, offset_s)
    return compared(
        sides.before,
        sides.after,
        margin_share=options.margin_share,
        control=sides.control,
        offset_s=offset_s,
    )


def _batches(options: CompareOptions) -> list[Batch]:
    """Return the batches; several of one name are several runs of one batch."""
    times: dict[str, tuple[list[BatchRun], list[BatchRun]]] = defaultdict(lambda: ([], []))
    for name, before, after in options.batches:
        for index, output in enumerate((before, after)):
            times[name][index].extend(map(_batch_run, read_times(output)))
    return [
        compare_batch(name, before, after, margin_share=options.margin_share)
        for name, (before, after) in times.items()
    ]


def _batch_run(run: BatchTime) -> BatchRun:
    return BatchRun(real_s=run.real_s, user_s=run.user_s, failed=run.failed)


def _write_page(found: BeforeAfter, runs: list[tuple[str, Run]], options: CompareOptions) -> None:
    from seatrial.trials.replay.compare.report.page import (  # noqa: PLC0415 - its parts are large
        render,
    )

    options.report.write(render(found, runs), otherwise=options.otherwise)


def write_snapshot(
    url: str | None, output: Output, sides: tuple[str, ...], others: Sequence[str]
) -> int:
    """Write the counters of pg_stat_statements, as a side of a later comparison.

    Args:
        url: The server.
        output: The file.
        sides: Sides that were named; there must be none.
        others: Other options that were given; there must be none.

    Raises:
        TargetError: when the server cannot be queried.
        UsageError: when something is missing, or there are other options or sides.
    """
    if others and url is not None and output.is_named and not sides:
        raise _no_effect(
            others[0], "--snapshot writes one file, and compares nothing", "compare afterwards"
        )
    if url is None or output.path is None or sides:
        raise UsageError(
            seen="A snapshot was requested without --snapshot or -o, or with sides to compare",
            cause="--snapshot names the server and -o the file; comparing is another command",
            next_step="Try `seatrial sql compare --snapshot postgresql://HOST/DATABASE -o a0.csv`",
        )
    from seatrial.trials.database.measure.server_side import (  # noqa: PLC0415 - needs libpq
        counters_at,
    )

    counters = counters_at(url)
    text = io.StringIO()
    writer = csv.DictWriter(text, [*counters.columns, TAKEN], lineterminator="\n")
    writer.writeheader()
    writer.writerows(counters.as_texts())
    again = this_command("--output", "FILE", without=["--output", "-o"])
    output.write(text.getvalue(), otherwise=again)
    count = format_plural(len(counters.rows) - len(counters.hidden), "statement")
    click.echo(f"{count} of pg_stat_statements: {click.format_filename(output.path)}")
    if counters.hidden:
        click.echo(
            f"{format_plural(len(counters.hidden), 'statement')} of other roles are hidden from "
            "this one: it lacks pg_read_all_stats"
        )
    click.echo(
        "Take more snapshots later, then compare two periods: "
        "seatrial sql compare FROM.csv..TO.csv OTHER.csv..LATER.csv"
    )
    return 0
