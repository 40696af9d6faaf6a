"""A comparison of before and after as it was asked for: read, compared, told."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from seatrial.cli.files import Output
from seatrial.cli.outcome import EXIT_THRESHOLD
from seatrial.cli.repeating import this_command
from seatrial.cli.sql.compare.sides import (
    Reading,
    Sides,
    on_one_clock,
    pages_of,
    require_alike,
    sides_of,
)
from seatrial.errors import UsageError
from seatrial.importers.time_output import BatchTime, read_times
from seatrial.results.model import Run
from seatrial.stats.wording import format_plural
from seatrial.trials.replay.compare.batches import Timed, compare_batch
from seatrial.trials.replay.compare.model import Batch, BeforeAfter, Table
from seatrial.trials.replay.compare.slower import perhaps_slower_by, slower_by
from seatrial.trials.replay.compare.table import compared
from seatrial.trials.replay.compare.verdict import verdict

SIDES = (1, 2)


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be compared, and how it is told.

    Attributes:
        sides: Before and after; one run with two targets; or none.
        pages: Access logs before and after; None for none.
        batches: Name, before and after of each.
        twin: Before measured once more; None for none.
        pages_twin: The access log before, once more; None for none.
        margin_share: A difference of less is none.
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
    """

    sides: tuple[str, ...]
    pages: tuple[str, str] | None = None
    batches: tuple[tuple[str, str, str], ...] = ()
    twin: str | None = None
    pages_twin: str | None = None
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


def run(asked: Asked) -> int:
    """Compare, print, write the page; return the exit code.

    Raises:
        SeatrialError: when something cannot be read, or must not be compared.
    """
    _require_something(asked)
    _require_reachable(asked)
    found, runs = _found(asked)
    slow = [] if asked.slower_share is None else slower_by(found, asked.slower_share)
    if asked.report.is_named:
        _write_page(found, runs, asked)
    if asked.as_json:
        from seatrial.cli.sql.compare.document import before_after_document  # noqa: PLC0415

        click.echo(before_after_document(found), nl=False)
    else:
        from seatrial.cli.sql.compare.text import before_after_text  # noqa: PLC0415

        click.echo(before_after_text(found, top=asked.top), nl=False)
        _tell_slower(found, slow, asked.slower_share)
        if asked.report.place:
            click.echo(f"Report: {click.format_filename(asked.report.place)}")
    return EXIT_THRESHOLD if slow else 0


def _tell_slower(found: BeforeAfter, slow: list[str], share: float | None) -> None:
    """Print what surely is slower by more than was asked for, and what may be."""
    if share is None:
        return
    limit = f"slower by more than {100 * share:g} %"
    for told in slow:
        click.echo(f"{limit.capitalize()}: {told}.")
    for told in perhaps_slower_by(found, share):
        click.echo(f"Undecided whether {limit}: {told}.")


def _require_reachable(asked: Asked) -> None:
    """Refuse a limit that slow-downs would pass unseen."""
    if asked.slower_share is None or asked.slower_share >= asked.margin_share:
        return
    limit, margin = 100 * asked.slower_share, 100 * asked.margin_share
    raise UsageError(
        seen=f"--fail-if-slower {limit:g} is below --margin {margin:g}",
        cause="A difference of less than the margin counts as none: a slow-down between the two "
        "would not fail",
        next_step=f"Use --fail-if-slower {margin:g} or more, or lower --margin as well",
    )


def _require_something(asked: Asked) -> None:
    if not (len(asked.sides) in SIDES or (not asked.sides and (asked.pages or asked.batches))):
        told = format_plural(len(asked.sides), "side was", "sides were")
        raise UsageError(
            seen=f"{told} named",
            cause="A comparison has a before and an after; or one run that has two targets",
            next_step="Name both, as in `seatrial sql compare BEFORE AFTER`; see `seatrial sql "
            "compare --help`",
        )
    if asked.twin is not None and not asked.sides:
        raise _without_effect(
            "--aa", "no sides are named that it is the first of", "--pages-aa is that of --pages"
        )
    if asked.pages_twin is not None and asked.pages is None:
        raise _without_effect(
            "--pages-aa", "there is no --pages", "--aa is that of the sides themselves"
        )


def _without_effect(option: str, cause: str, next_step: str) -> UsageError:
    return UsageError(
        seen=f"{option} is given, and would change nothing",
        cause=f"{cause[0].upper()}{cause[1:]}",
        next_step=f"Leave it out; {next_step}",
    )


def _require_effect(asked: Asked, queries: Sides | None, pages: Sides | None) -> None:
    """Check that no option is passed over in silence.

    Raises:
        UsageError: when one would change nothing.
    """
    clocks = {each.clock for each in (queries.before, queries.after)} if queries else set()
    if asked.offset_s is not None and len(clocks) < len(SIDES):
        raise _without_effect(
            "--client-offset",
            "the times of both sides are of one clock" if clocks else "no queries are compared",
            "it is for a replay against a log",
        )
    if pages is None and (asked.time_unit_s is not None or asked.time_column is not None):
        option = "--time-unit" if asked.time_unit_s is not None else "--time-column"
        raise _without_effect(option, "no access logs are compared", "see --pages")
    if asked.anyway and not (queries and queries.before.kind == queries.after.kind == "replay"):
        raise _without_effect(
            "--anyway", "no replays are compared", "nothing else is refused that it would allow"
        )


def _found(asked: Asked) -> tuple[BeforeAfter, list[tuple[str, Run]]]:
    """Return what was compared, and the runs that it came from."""
    reading = Reading(
        results=asked.results,
        time_unit_s=asked.time_unit_s,
        time_column=asked.time_column,
        quiet=asked.as_json,
        anyway=asked.anyway,
    )
    queries: Sides | None = None
    pages: Sides | None = None
    if asked.sides:
        sides = sides_of(asked.sides, asked.twin, reading)
        require_alike(sides, asked.offset_s)
        if sides.before.kind == "web":
            pages = sides
        else:
            queries = sides
    if asked.pages:
        if pages is not None:
            raise UsageError(
                seen="Access logs were named twice",
                cause="Before and after are access logs already",
                next_step="Leave --pages away, or name queries as before and after",
            )
        pages = pages_of(asked.pages, asked.pages_twin, reading)
    _require_effect(asked, queries, pages)
    told = BeforeAfter(
        queries=None if queries is None else _table(queries, asked),
        pages=None if pages is None else _table(pages, asked),
        batches=_batches(asked),
    )
    runs = queries.runs if queries else []
    return msgspec.structs.replace(told, verdict=verdict(told)), runs


def _table(sides: Sides, asked: Asked) -> Table:
    offset_s = None if sides.before.clock == sides.after.clock else asked.offset_s
    if offset_s is not None:
        sides = on_one_clock(sides, offset_s)
    return compared(
        sides.before,
        sides.after,
        margin_share=asked.margin_share,
        twin=sides.twin,
        offset_s=offset_s,
    )


def _batches(asked: Asked) -> list[Batch]:
    """Return the batches; several of one name are one that was timed several times."""
    times: dict[str, tuple[list[Timed], list[Timed]]] = defaultdict(lambda: ([], []))
    for name, before, after in asked.batches:
        for place, told in enumerate((before, after)):
            times[name][place].extend(map(_timed, read_times(told)))
    return [
        compare_batch(name, before, after, margin_share=asked.margin_share)
        for name, (before, after) in times.items()
    ]


def _timed(told: BatchTime) -> Timed:
    return Timed(real_s=told.real_s, user_s=told.user_s, failed=told.failed)


def _write_page(found: BeforeAfter, runs: list[tuple[str, Run]], asked: Asked) -> None:
    from seatrial.trials.replay.compare.report.page import (  # noqa: PLC0415 - its parts are large
        render,
    )

    asked.report.write(render(found, runs), otherwise=asked.otherwise)


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
        TargetError: when the server cannot be asked.
        UsageError: when something is missing, or too much.
    """
    if others and url is not None and output.is_named and not sides:
        raise _without_effect(
            others[0], "--snapshot writes one file, and compares nothing", "compare afterwards"
        )
    if url is None or output.place is None or sides:
        raise UsageError(
            seen="A snapshot was asked for with something missing, or with sides to compare",
            cause="--snapshot names the server and -o the file; comparing is another command",
            next_step="Try `seatrial sql compare --snapshot postgresql://HOST/DATABASE -o a0.csv`",
        )
    from seatrial.trials.database.measure.statements import TAKEN, counted_at  # noqa: PLC0415

    found = counted_at(url)
    text = io.StringIO()
    writer = csv.DictWriter(text, [*found.columns, TAKEN], lineterminator="\n")
    writer.writeheader()
    writer.writerows(found.as_texts())
    again = this_command("--output", "FILE", without=["--output", "-o"])
    output.write(text.getvalue(), otherwise=again)
    told = format_plural(len(found.rows), "statement")
    click.echo(f"{told} of pg_stat_statements: {click.format_filename(output.place)}")
    click.echo("Again later, then: seatrial sql compare FROM.csv..TO.csv OTHER.csv..LATER.csv")
    return 0
