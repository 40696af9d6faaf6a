"""``seatrial filebench DIR``: a workload of files, by name or from a workload file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from seatrial.cli.options import (
    FiniteRange,
    Mapped,
    MeasureOptions,
    measuring_options,
    without_none,
)
from seatrial.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

EPILOG = """\b
Examples:
  seatrial filebench /mnt/ssd                               oltp: 200 readers, 10 writers, a log
  seatrial filebench /mnt/ssd --personality varmail --seconds 30
  seatrial filebench /mnt/ssd --personality fileserver --set nfiles=2000 --set nthreads=16
  seatrial filebench /mnt/ssd --personality mine.f --plan   checks the file, measures nothing
  seatrial filebench /mnt/ssd --set eventrate=1000          a rate, where the file has one
  seatrial filebench /mnt/ssd --personality randomread --set filesize=2g --cold

\b
Shipped personalities: oltp, fileserver, varmail, webserver, randomread. Any other name is the path
of a workload file (.f) of Filebench. docs/filebench.md lists what is supported.
"""


@click.command("filebench", epilog=EPILOG)
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--personality",
    metavar="NAME|FILE.f",
    default="oltp",
    show_default=True,
    help="A shipped personality, or a workload file of Filebench.",
)
@click.option(
    "--set",
    "assignments",
    metavar="NAME=VALUE",
    multiple=True,
    help="Overrides a variable of the file; may be repeated.",
)
@click.option(
    "--seconds",
    type=FiniteRange(min=0),
    default=0.0,
    metavar="SECONDS",
    help="Duration of a sample; by default that of the file, or 60.",
)
@click.option("--rounds", type=int, default=3, show_default=True, help="Number of samples.")
@click.option("--cold", is_flag=True, help="Drop the files from the page cache before each sample.")
@click.option(
    "--growth",
    metavar="SIZE",
    help="How much a set of files may grow; 1GiB by default.",
)
@click.option(
    "--limit",
    metavar="SIZE",
    help="End a sample after this many bytes have been written; 16GiB by default.",
)
@click.option("--seed", type=int, help="Seed of files, offsets and random numbers.")
@click.option("--resume", is_flag=True, help="Resume the newest unfinished run of this plan.")
@measuring_options
def command(
    *,
    directory: Path,
    personality: str,
    assignments: tuple[str, ...],
    resume: bool,
    measuring: MeasureOptions,
    **options: object,
) -> int:
    """Run a workload of files in DIRECTORY: a Filebench personality or workload file.

    Files are made in a folder of their own and removed at the end. Filebench itself is not needed.
    Rates and latencies are shown by flowop.
    """
    from seatrial.cli.study_command import plan_for, show_or_measure  # noqa: PLC0415
    from seatrial.study.load import study_from_options  # noqa: PLC0415

    rounds = options["rounds"]
    workload = {
        "kind": "filebench",
        "personality": str(Path(personality).absolute())
        if "/" in personality or personality.endswith(".f")
        else personality,
        "set": _variables(assignments),
        "seconds": options["seconds"],
        "cold": options["cold"],
        "growth": options["growth"],
        "limit_bytes": options["limit"],
    }
    study: Mapped = {
        "name": "filebench",
        "seed": options["seed"],
        "rounds": {"min": rounds, "max": rounds},
        "target": [{"label": "trial", "path": str(directory)}],
        "workload": [without_none(workload)],
    }
    names = {"limit_bytes": "limit", "min": "rounds", "max": "rounds"}
    plan = plan_for(study_from_options(without_none(study), names))
    return show_or_measure(plan, measuring, resume=resume)


def _variables(assignments: Sequence[str]) -> dict[str, bool | float | str]:
    """Return the values of ``--set``, as a study would write them."""
    found: dict[str, bool | float | str] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        name = name.strip().removeprefix("$")
        if not (equals and name and value.strip()):
            raise UsageError(
                seen=f"--set {assignment!r} is not NAME=VALUE",
                cause="--set gives a variable of the workload file another value",
                next_step="Write --set nfiles=1000, for example",
            )
        found[name] = _value(value.strip())
    return found


def _value(written: str) -> bool | float | str:
    if written in ("true", "false"):
        return written == "true"
    try:
        number = float(written)
    except ValueError:
        return written
    return int(number) if number.is_integer() else number
