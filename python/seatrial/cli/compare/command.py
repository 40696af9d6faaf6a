"""``seatrial compare A B [C ...]``: which differs, by how much, and is it real."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING

import click

from seatrial.cli.files import Output, output_option
from seatrial.cli.options import json_option, results_option

if TYPE_CHECKING:
    from seatrial.stats.compare.model import Comparison

EPILOG = """\b
Examples:
  seatrial compare before after            two runs, by label
  seatrial compare last                    the targets of one run, against its first
  seatrial compare last:ssd last:hdd       two targets of one run
  seatrial compare raid0.json raid5.json --anyway
  seatrial compare main pull-request --fail-if-slower 5

\b
Rounds are compared one by one where both sides were measured interleaved: in one study with both
as targets. Interval, answer and adjustment for many cells: docs/method.md, "Comparison".
"""


def _percent(low: float, high: float) -> click.FloatRange:
    return click.FloatRange(low, high, min_open=True)


@click.command("compare", epilog=EPILOG)
@click.argument("sides", nargs=-1, required=True, metavar="A [B ...]")
@click.option(
    "--figure",
    "figures",
    multiple=True,
    metavar="NAME",
    help="Only these: iops, tps, bandwidth, p50, p99, or one kind's, such as 'read p99'. Fewer "
    "figures need fewer rounds.",
)
@click.option(
    "--margin",
    "margin_percent",
    type=_percent(0, 90),
    default=5.0,
    show_default=True,
    metavar="PERCENT",
    help="What significantly differs by less is called the same.",
)
@click.option(
    "--aa",
    "control",
    metavar="RESULT",
    help="Another measurement of what A is: smaller differences than theirs are not called real.",
)
@click.option(
    "--fail-if-slower",
    "slower_percent",
    type=click.FloatRange(0, 1000),
    metavar="PERCENT",
    help="Exit code 3 if something is significantly slower, by more than this.",
)
@click.option("--anyway", is_flag=True, help="Compare what should not be compared; warn only.")
@output_option("--report", about="Write an HTML page of the comparison as well.")
@results_option
@json_option
def command(
    *,
    sides: tuple[str, ...],
    figures: tuple[str, ...],
    margin_percent: float,
    control: str | None,
    slower_percent: float | None,
    anyway: bool,
    report: Output,
    results: Path,
    as_json: bool,
) -> int:
    """Compare B, C ... with A: what differs in the set-up, by how much they differ, is it real.

    A result is a run (last, an id or its beginning, a label), RUN:TARGET, or a file: a results
    file, a fio JSON, a bm-flash table, a CSV. Where such a file exists, it is meant, not a label.
    One run alone stands for its targets.
    """
    from seatrial.cli.compare.comparing import (  # noqa: PLC0415 - not for --help
        compared,
        comparison_text,
        entrants_of,
        slower_than,
    )
    from seatrial.cli.outcome import EXIT_THRESHOLD  # noqa: PLC0415
    from seatrial.report.comparison_document import comparison_document  # noqa: PLC0415

    # Millions of small objects that live to the end, none in a circle: to look for circles among
    # them, again and again as they grow, would be a quarter of all the time.
    gc.disable()
    found = compared(
        entrants_of(sides, results, control),
        margin_share=margin_percent / 100,
        figures=figures or None,
        anyway=anyway,
    )
    slow = [
        reported
        for each in found
        if slower_percent is not None and (reported := slower_than(each, slower_percent / 100))
    ]
    if report.is_named:
        _write_report(found, report)
    if as_json:
        click.echo(comparison_document(found), nl=False)
    else:
        click.echo("\n".join(comparison_text(each) for each in found), nl=False)
        for reported in slow:
            click.echo(f"Slower by more than {slower_percent:g} %: {reported}.")
        if report.place:
            click.echo(f"Report: {click.format_filename(report.place)}")
    return EXIT_THRESHOLD if slow else 0


def _write_report(found: list[Comparison], report: Output) -> None:
    from seatrial.cli.repeating import this_command  # noqa: PLC0415 - not for --help
    from seatrial.report.comparison_page import render  # noqa: PLC0415 - its parts are large

    again = this_command("--report", "FILE", without=["--report"])
    report.write(render(found), otherwise=again)
