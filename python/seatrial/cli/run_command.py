"""``seatrial run DIR``: the study ``quick`` on a directory."""

from __future__ import annotations

from pathlib import Path

import click

from seatrial.cli.options import Measuring, changing_options, measuring_options

EPILOG = """\b
Examples:
  seatrial run /mnt/ssd
  seatrial run /mnt/ssd --size 8GiB --label "before the new kernel"
  seatrial run /mnt/ssd --full        the whole matrix of "One DVD per second"
  seatrial run /mnt/ssd --plan        cells, time and bytes, without doing anything
"""


@click.command("run", epilog=EPILOG)
@click.argument("directory", type=click.Path(path_type=Path))
@changing_options
@measuring_options
def command(*, directory: Path, resume: bool, measuring: Measuring, **changes: object) -> int:
    """Give the storage under DIRECTORY its quick trial: about two minutes, no root.

    Trial files are made in a folder of their own and removed at the end. Random and sequential
    reads and writes, commits, a copy and an address map are measured in interleaved rounds, each of
    which ends with two seconds of PostgreSQL where one is found (`seatrial db` measures it at
    length). At the end there are tables with intervals, findings in plain sentences, and a report.
    """
    from seatrial.cli.study_command import plan_of, show_or_measure  # noqa: PLC0415
    from seatrial.machine.resolve import resolve_directory  # noqa: PLC0415

    place = resolve_directory(str(directory))
    plan = plan_of("quick", target_path=str(place), **changes)
    return show_or_measure(plan, measuring, resume=resume)
