"""Options that several commands share."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click
import msgspec

from seatrial.cli.files import TRACE, Output, OutputPath, output_option

RESULTS_NAME: Final = "results.seatrial"


def default_results() -> Path:
    """Return the results file that is meant where none is named."""
    return Path(os.environ.get("SEATRIAL_RESULTS") or RESULTS_NAME)


results_option = click.option(
    "--results",
    type=click.Path(dir_okay=False, path_type=Path),
    is_eager=True,  # an output must not replace it
    default=default_results,
    show_default=f"$SEATRIAL_RESULTS or ./{RESULTS_NAME}",
    help="The results file.",
)

json_option = click.option(
    "--json",
    "as_json",
    is_flag=True,
    is_eager=True,  # an output to standard output asks whether it is given
    help="One JSON document on standard output (docs/json.md).",
)

run_argument = click.argument("run", default="last")

trace_output_option = click.option(
    "-o",
    "--output",
    required=True,
    metavar="FILE",
    type=OutputPath(TRACE),
    help="The trace to write, such as prod.trace.",
)

destroy_option = click.option(
    "--destroy",
    metavar="SERIAL,...",
    help="Serial number (or exact path, where it has none) of the device or file whose content "
    "may be overwritten; of several drives with commas between.",
)

report_option = output_option(
    "--report", about="Where the HTML report goes; by default beside the results file."
)

LABEL_CHARACTERS_MAX: Final = 100


def _checked_label(_context: click.Context, _parameter: click.Parameter, label: str) -> str:
    """Return a label that a table can show; raises click.BadParameter for any other."""
    if len(label) > LABEL_CHARACTERS_MAX:
        raise click.BadParameter(f"a label has at most {LABEL_CHARACTERS_MAX} characters")
    if not label.isprintable():
        raise click.BadParameter("a label is one line of plain text")
    return label


label_option = click.option(
    "--label", default="", callback=_checked_label, help="What to call the run."
)


engine_option = click.option(
    "--engine",
    type=click.Choice(["auto", "io_uring", "psync"]),
    default="auto",
    show_default=True,
    help="How requests reach the kernel.",
)

model_option = click.option(
    "--model",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="TOML file with the model of a simulated device.",
)


plan_option = click.option(
    "--plan", "plan_only", is_flag=True, help="Only show what would be done."
)

wait_option = click.option(
    "--wait",
    "waits",
    is_flag=True,
    help="Wait while another run measures the same storage, instead of refusing.",
)


_CHANGES: Final = (
    click.option(
        "--full", is_flag=True, help="Every matrix from 512 B to 4 MiB, 1, 10, 40 threads."
    ),
    click.option("--size", metavar="SIZE", help="Size of the trial file, such as 8GiB."),
    click.option("--seconds", type=float, help="Length of each sample, but for fills."),
    click.option("--rounds", type=int, help="Exactly so many rounds."),
    click.option("--budget", "budget_s", type=float, metavar="SECONDS", help="Time for the run."),
    click.option(
        "--write-budget", metavar="SIZE", help="Bytes that the run may write, such as 80GiB."
    ),
    click.option("--seed", type=int, help="Seed of the order of cells and of all addresses."),
    click.option("--buffered", is_flag=True, help="Go through the page cache."),
    click.option(
        "--resume", is_flag=True, help="Go on with the newest unfinished run of this plan."
    ),
)


def changing_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add what ``run`` and ``study`` can change of a study; all but ``resume`` are override's."""
    for option in reversed(_CHANGES):
        function = option(function)
    return function


_DRIVES: Final = (
    click.option(
        "--devices",
        metavar="A,B,...",
        default="",
        help="Drives that layouts are built of; each must be named with --destroy.",
    ),
    click.option(
        "--loop",
        metavar="NxSIZE",
        default="",
        help="Loop devices that layouts are built of, such as 6x2G.",
    ),
    click.option(
        "--loop-dir",
        metavar="DIR",
        default="",
        help="Where the files of loop devices lie; by default here.",
    ),
)


def drives_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add what layouts can be built of: ``devices``, ``loop`` and ``loop_dir``, all override's."""
    for option in reversed(_DRIVES):
        function = option(function)
    return function


class Measuring(msgspec.Struct, frozen=True, kw_only=True):
    """What all measuring commands have in common.

    Attributes:
        results: The results file.
        report: Where the report goes; beside the results file unless a file is named.
        label: What the user calls the run.
        destroy: Serial number or path of what may be overwritten; of several, with commas.
        as_json: One JSON document instead of text.
        plan_only: Nothing is measured; the plan is shown.
        waits: Whether to wait for another run on the same storage to end.
    """

    results: Path
    report: Output
    label: str
    destroy: str | None
    as_json: bool
    plan_only: bool
    waits: bool = False


def measuring_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add what ``run``, ``study`` and ``io`` have in common; it arrives as one ``measuring``."""

    @functools.wraps(function)
    def bundled(
        *,
        results: Path,
        report: Output,
        label: str,
        destroy: str | None,
        as_json: bool,
        plan_only: bool,
        waits: bool,
        **own: object,
    ) -> int:
        measuring = Measuring(
            results=results,
            report=report,
            label=label,
            destroy=destroy,
            as_json=as_json,
            plan_only=plan_only,
            waits=waits,
        )
        return function(measuring=measuring, **own)

    command: Callable[..., int] = bundled
    for option in (
        report_option,
        label_option,
        destroy_option,
        json_option,
        results_option,
        plan_option,
        wait_option,
    ):
        command = option(command)
    return command
