"""``seatrial trace replay``: the requests of a recording on another target."""

from __future__ import annotations

from pathlib import Path

import click

from seatrial.cli.options import (
    Measuring,
    engine_option,
    measuring_options,
    target_mapping,
    without_none,
)

EPILOG = """\b
Examples:
  seatrial trace replay pgbench.rec --to /mnt/new              at the recorded times
  seatrial trace replay pgbench.rec --to /mnt/new --speed 2    twice as fast
  seatrial trace replay pgbench.rec --to /mnt/new --speed max --rounds 3
  seatrial trace replay pgbench.rec --to /dev/nvme1n1 --destroy /dev/nvme1n1

\b
In a directory, a trial file of --size is created, filled and removed; offsets beyond its end wrap.
Devices and files are only written with --destroy. See docs/io-replay.md.
"""


class SpeedType(click.ParamType[float | str]):
    """A factor above 0, or ``max``."""

    name = "speed"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float | str:
        """Return the factor, or ``max``; fail for anything else."""
        if value == "max":
            return "max"
        try:
            speed = float(str(value).removesuffix("x"))
        except ValueError:
            speed = 0.0
        if not 0 < speed <= 1000:
            self.fail(f"{value!r} is neither a factor above 0, up to 1000, nor 'max'", param, ctx)
        return speed


@click.command("replay", epilog=EPILOG, short_help="Replay a recording on other storage.")
@click.argument("recording", metavar="FILE", type=click.Path(path_type=Path, readable=False))
@click.option("--to", "target", required=True, metavar="TARGET", help="Where requests are sent.")
@click.option(
    "--speed",
    type=SpeedType(),
    default="1",
    show_default=True,
    metavar="FACTOR",
    help="Recorded time over time of the replay, or 'max'.",
)
@click.option("--device", metavar="NAME", help="Only requests of this recorded device.")
@click.option("--size", metavar="SIZE", help="Size of the trial file, or part of the device used.")
@click.option("--rounds", type=click.IntRange(1, 100), default=1, show_default=True)
@click.option(
    "--depth", type=int, default=256, show_default=True, help="Requests in flight at most."
)
@click.option("--seconds", type=float, metavar="SECONDS", help="End each round after so long.")
@click.option("--buffered", is_flag=True, help="Go through the page cache.")
@engine_option
@measuring_options
def replay(
    *,
    recording: Path,
    target: str,
    speed: float | str,
    device: str | None,
    size: str | None,
    rounds: int,
    depth: int,
    seconds: float | None,
    buffered: bool,
    engine: str,
    measuring: Measuring,
) -> int:
    """Send the requests of the recording FILE to TARGET, in their order.

    TARGET is a directory, file or block device, or `null`. At a speed, requests are sent at their
    recorded times and latency counts from these; at `max`, each waits for as many completions as in
    the recording. The result is a run like any other: show, compare and export it.
    """
    from seatrial.cli.study_command import plan_for, show_or_measure  # noqa: PLC0415
    from seatrial.study.load import study_from_options  # noqa: PLC0415

    workload: dict[str, object] = {
        "kind": "recording",
        "file": str(recording.absolute()),
        "speed": speed,
        "device": device,
        "depth": depth,
        "seconds": seconds,
        "direct": not buffered,
        "engine": engine,
    }
    study = {
        "name": "recording",
        "rounds": {"min": rounds, "max": rounds},
        "target": [target_mapping(target, None, size)],
        "workload": [without_none(workload)],
    }
    return show_or_measure(plan_for(study_from_options(study)), measuring)
