"""What ``seatrial sql compare`` prints: what is slower first, then where the time goes."""

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
from seatrial.cli.options import complete_runs, json_option, results_option, this_command
from seatrial.cli.outcome import first_text
from seatrial.errors import EXIT_THRESHOLD, UsageError
from seatrial.findings.registry import find_in_before_after
from seatrial.importers.time_output import BatchTime, read_times
from seatrial.report.terminal import wrapped
from seatrial.results.model import Run
from seatrial.stats.wording import format_plural
from seatrial.trials.replay.commands.compare_sides import (
    Reading,
    Sides,
    on_one_clock,
    pages_of,
    require_alike,
    sides_of,
)
from seatrial.trials.replay.compare.captures import Timed, compare_batch
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
--fail-if-slower; 6 a server cannot be queried.
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
@click.argument("sides", nargs=-1, metavar="[BEFORE AFTER]", shell_complete=complete_runs)
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
@answer_options
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
    server), or a web server's access log. Given a single run, its two
    targets or schemas are compared.
    """
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


SIDES = (1, 2)


class CompareOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be compared, and how it is reported.

    Attributes:
        sides: Before and after; one run with two targets; or none.
        pages: Access logs before and after; None for none.
        batches: Name, before and after of each.
        control: Before measured once more; None for none.
        pages_control: The access log before, once more; None for none.
        margin_share: A smaller difference does not count.
        offset_s: What the way takes of each time of a client; None where it was not stated.
        time_unit_s: Unit of the times in access logs; None to tell it by the log.
        time_column: Their column behind the bytes, from 1; None likewise.
        anyway: Whether replays that are not one load are compared.
        slower_share: Slower by more is exit code 3; None for never.
        top: So many rows are shown.
        report: Where a page goes; no page where no file is named.
        otherwise: The command that writes it to another file.
        results: The results file that runs are sought in.
        as_json: One document instead of text.
        words: What of it is printed as text.
        title: What the verdict begins with.
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
    found, runs = _found(options)
    slow = [] if options.slower_share is None else slower_by(found, options.slower_share)
    if options.report.is_named:
        _write_page(found, runs, options)
    if options.as_json:
        from seatrial.trials.replay.compare.model import before_after_document  # noqa: PLC0415

        click.echo(before_after_document(found), nl=False)
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
    """Print what is significantly slower by more than is allowed, and what may be."""
    if share is None:
        return
    limit = f"slower by more than {100 * share:g} %"
    for reported in slow:
        click.echo(f"{limit.capitalize()}: {reported}.")
    for reported in perhaps_slower_by(found, share):
        click.echo(f"Undecided whether {limit}: {reported}.")


def _require_reachable(options: CompareOptions) -> None:
    """Refuse a limit that slow-downs would pass unseen."""
    if options.slower_share is None or options.slower_share >= options.margin_share:
        return
    limit, margin = 100 * options.slower_share, 100 * options.margin_share
    raise UsageError(
        seen=f"--fail-if-slower {limit:g} is below --margin {margin:g}",
        cause="A difference of less than the margin counts as none: a slow-down between the two "
        "would not fail",
        next_step=f"Use --fail-if-slower {margin:g} or more, or lower --margin as well",
    )


def _require_something(options: CompareOptions) -> None:
    if not (
        len(options.sides) in SIDES or (not options.sides and (options.pages or options.batches))
    ):
        reported = format_plural(len(options.sides), "side was", "sides were")
        raise UsageError(
            seen=f"{reported} named",
            cause="A comparison has a before and an after; or one run that has two targets",
            next_step="Name both, as in `seatrial sql compare BEFORE AFTER`; see `seatrial sql "
            "compare --help`",
        )
    if options.control is not None and not options.sides:
        raise _without_effect(
            "--aa", "no sides are named that it is the first of", "--pages-aa is that of --pages"
        )
    if options.pages_control is not None and options.pages is None:
        raise _without_effect(
            "--pages-aa", "there is no --pages", "--aa is that of the sides themselves"
        )


def _without_effect(option: str, cause: str, next_step: str) -> UsageError:
    return UsageError(
        seen=f"{option} is given, and would change nothing",
        cause=f"{cause[0].upper()}{cause[1:]}",
        next_step=f"Leave it out; {next_step}",
    )


def _require_effect(options: CompareOptions, queries: Sides | None, pages: Sides | None) -> None:
    """Check that no option is passed over in silence.

    Raises:
        UsageError: when one would change nothing.
    """
    clocks = {each.clock for each in (queries.before, queries.after)} if queries else set()
    if options.offset_s is not None and len(clocks) < len(SIDES):
        raise _without_effect(
            "--client-offset",
            "the times of both sides are of one clock" if clocks else "no queries are compared",
            "it is for a replay against a log",
        )
    if pages is None and (options.time_unit_s is not None or options.time_column is not None):
        option = "--time-unit" if options.time_unit_s is not None else "--time-column"
        raise _without_effect(option, "no access logs are compared", "see --pages")
    if options.anyway and not (queries and queries.before.kind == queries.after.kind == "replay"):
        raise _without_effect(
            "--anyway", "no replays are compared", "nothing else is refused that it would allow"
        )


def _found(options: CompareOptions) -> tuple[BeforeAfter, list[tuple[str, Run]]]:
    """Return what was compared, and the runs that it came from."""
    reading = Reading(
        results=options.results,
        time_unit_s=options.time_unit_s,
        time_column=options.time_column,
        quiet=options.as_json,
        anyway=options.anyway,
    )
    queries: Sides | None = None
    pages: Sides | None = None
    if options.sides:
        sides = sides_of(options.sides, options.control, reading)
        require_alike(sides, options.offset_s)
        if sides.before.kind == "web":
            pages = sides
        else:
            queries = sides
    if options.pages:
        if pages is not None:
            raise UsageError(
                seen="Access logs were named twice",
                cause="Before and after are access logs already",
                next_step="Leave --pages away, or name queries as before and after",
            )
        pages = pages_of(options.pages, options.pages_control, reading)
    _require_effect(options, queries, pages)
    reported = BeforeAfter(
        queries=None if queries is None else _table(queries, options),
        pages=None if pages is None else _table(pages, options),
        batches=_batches(options),
    )
    runs = queries.runs if queries else []
    return msgspec.structs.replace(reported, verdict=verdict(reported)), runs


def _table(sides: Sides, options: CompareOptions) -> Table:
    offset_s = None if sides.before.clock == sides.after.clock else options.offset_s
    if offset_s is not None:
        sides = on_one_clock(sides, offset_s)
    return compared(
        sides.before,
        sides.after,
        margin_share=options.margin_share,
        control=sides.control,
        offset_s=offset_s,
    )


def _batches(options: CompareOptions) -> list[Batch]:
    """Return the batches; several of one name are one that was timed several times."""
    times: dict[str, tuple[list[Timed], list[Timed]]] = defaultdict(lambda: ([], []))
    for name, before, after in options.batches:
        for place, reported in enumerate((before, after)):
            times[name][place].extend(map(_timed, read_times(reported)))
    return [
        compare_batch(name, before, after, margin_share=options.margin_share)
        for name, (before, after) in times.items()
    ]


def _timed(reported: BatchTime) -> Timed:
    return Timed(real_s=reported.real_s, user_s=reported.user_s, failed=reported.failed)


def _write_page(found: BeforeAfter, runs: list[tuple[str, Run]], options: CompareOptions) -> None:
    from seatrial.trials.replay.compare.report.page import (  # noqa: PLC0415 - its parts are large
        render,
    )

    options.report.write(render(found, runs), otherwise=options.otherwise)


def write_snapshot(
    url: str | None, output: Output, sides: tuple[str, ...], others: Sequence[str]
) -> int:
    """Write what pg_stat_statements has counted, as a side of a later comparison.

    Args:
        url: Of the server.
        output: The file.
        sides: What was named to compare.
        others: Options that were given besides.

    Raises:
        TargetError: when the server cannot be queried.
        UsageError: when something is missing, or too much.
    """
    if others and url is not None and output.is_named and not sides:
        raise _without_effect(
            others[0], "--snapshot writes one file, and compares nothing", "compare afterwards"
        )
    if url is None or output.path is None or sides:
        raise UsageError(
            seen="A snapshot was requested with something missing, or with sides to compare",
            cause="--snapshot names the server and -o the file; comparing is another command",
            next_step="Try `seatrial sql compare --snapshot postgresql://HOST/DATABASE -o a0.csv`",
        )
    from seatrial.trials.database.measure.server_side import TAKEN, counted_at  # noqa: PLC0415

    found = counted_at(url)
    text = io.StringIO()
    writer = csv.DictWriter(text, [*found.columns, TAKEN], lineterminator="\n")
    writer.writeheader()
    writer.writerows(found.as_texts())
    again = this_command("--output", "FILE", without=["--output", "-o"])
    output.write(text.getvalue(), otherwise=again)
    reported = format_plural(len(found.rows), "statement")
    click.echo(f"{reported} of pg_stat_statements: {click.format_filename(output.path)}")
    click.echo("Again later, then: seatrial sql compare FROM.csv..TO.csv OTHER.csv..LATER.csv")
    return 0
