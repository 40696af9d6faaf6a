"""``seatrial loadline TARGET``: the most that it sustains within a latency."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click

from seatrial.cli.io_command import Mapped, target_mapping, without_none
from seatrial.cli.options import Measuring, engine_option, measuring_options, model_option

EPILOG = """\b
Examples:
  seatrial loadline /mnt/ssd --p99 5ms                 8 KiB random reads within 5 ms
  seatrial loadline /mnt/ssd --p99 5ms --read 70       seven reads to three writes
  seatrial loadline /mnt/ssd --p99.9 20ms --size 16k --budget 300
  seatrial loadline /dev/nvme1n1 --p99 1ms             reading a device harms nothing
  seatrial loadline /mnt/ssd --p99 5ms --at-least 5000  exit code 3 if it sustains less
  seatrial loadline simulated --model slow.toml --p99 2ms

\b
Requests come when they are due, whatever the target does, and their time counts from then. The
rates rise, the span around the limit is halved, and the rates next to it are measured again until
the answer is known with confidence. docs/method.md, "Load line", says how.
"""

WORKLOAD: Final = "loadline"
PERCENTILES: Final = ("p50", "p90", "p99", "p99.9")
OPTIONS: Final = {
    "size": "file-size",
    "block_sizes": "size",
    "read_share": "read",
    "budget_seconds": "budget",
    "thresholds": "at-least",
}
"""Options whose name is not that of the study's key."""


@click.command("loadline", epilog=EPILOG)
@click.argument("target")
@click.option("--p50", metavar="LIMIT", help="Half of the requests within LIMIT, such as 500us.")
@click.option("--p90", metavar="LIMIT", help="Nine of ten requests within LIMIT.")
@click.option("--p99", metavar="LIMIT", help="99 of 100 requests within LIMIT, such as 5ms.")
@click.option("--p99.9", "p999", metavar="LIMIT", help="999 of 1,000 requests within LIMIT.")
@click.option(
    "--percentile", type=click.Choice(PERCENTILES), help="The same in two words, with --limit."
)
@click.option("--limit", metavar="LIMIT", help="The limit of --percentile.")
@click.option(
    "--read",
    type=click.FloatRange(0, 100),
    default=100.0,
    show_default=True,
    metavar="PERCENT",
    help="Share of reads in percent; the others write.",
)
@click.option(
    "--size",
    "block_size",
    default="8KiB",
    show_default=True,
    metavar="SIZE",
    help="Size of one request.",
)
@click.option(
    "--file-size", metavar="SIZE", help="Size of the trial file, or part of the device used."
)
@click.option(
    "--pattern",
    type=click.Choice(["random", "sequential", "zipf", "hot_cold"]),
    default="random",
    show_default=True,
    help="Which addresses.",
)
@click.option(
    "--arrival",
    type=click.Choice(["poisson", "fixed"]),
    default="poisson",
    show_default=True,
    help="When requests are due.",
)
@click.option("--threads", type=int, default=4, show_default=True, help="Concurrent workers.")
@click.option(
    "--depth",
    type=int,
    default=32,
    show_default=True,
    help="Requests that each worker has in flight at most.",
)
@click.option(
    "--seconds", type=float, default=2.0, show_default=True, help="Shortest length of a sample."
)
@click.option(
    "--budget",
    type=float,
    default=90.0,
    show_default=True,
    metavar="SECONDS",
    help="Time for all of it.",
)
@click.option(
    "--at-least",
    type=click.FloatRange(min=0, min_open=True),
    metavar="RATE",
    help="Exit with code 3 if it sustains fewer requests per second.",
)
@click.option("--buffered", is_flag=True, help="Go through the page cache.")
@engine_option
@model_option
@click.option("--seed", type=int, help="Seed of arrivals, addresses and data.")
@click.option("--resume", is_flag=True, help="Go on with the newest unfinished run of this plan.")
@measuring_options
def command(
    *, target: str, model: Path | None, resume: bool, measuring: Measuring, **options: object
) -> int:
    """Seek the highest rate at which TARGET keeps a percentile of its latency within a limit.

    TARGET is a directory, file or block device, `null`, or `simulated`. In a directory a trial
    file is made, filled and removed. Reading an existing file or a device harms nothing; writing
    to one needs --destroy.
    """
    from seatrial.cli.study_command import plan_for, show_or_measure  # noqa: PLC0415
    from seatrial.study.load import study_from_options  # noqa: PLC0415

    percentile, limit, option = _demand(options)
    study = study_from_options(
        _study_mapping(target, model, options, percentile, limit), {**OPTIONS, "limit": option}
    )
    return show_or_measure(plan_for(study), measuring, resume=resume)


def _demand(options: Mapping[str, object]) -> tuple[str, str, str]:
    """Return percentile and limit, and the option that gave the limit."""
    from seatrial.errors import UsageError  # noqa: PLC0415 - not for --help

    short = {name: options[name.replace(".", "")] for name in PERCENTILES}
    given = [(name, str(limit), name) for name, limit in short.items() if limit is not None]
    percentile, limit = options["percentile"], options["limit"]
    if percentile is not None and limit is not None:
        given.append((str(percentile), str(limit), "limit"))
    if len(given) == 1 and (percentile is None) == (limit is None):
        return given[0]
    raise UsageError(
        seen="A load line needs one percentile with its limit"
        + (f", and {len(given)} were given" if len(given) > 1 else ""),
        cause="The most that is sustained depends on what latency is still good",
        next_step="Write for instance --p99 5ms; a commit or a page read of a database is often "
        "asked to take no longer than that",
    )


def _study_mapping(
    target: str, model: Path | None, options: Mapping[str, object], percentile: str, limit: str
) -> Mapped:
    """Return the study of one load line that the options describe."""
    read_percent = float(str(options["read"]))
    operations = {0.0: "write", 100.0: "read"}.get(read_percent, "mixed")
    workload = {
        "kind": WORKLOAD,
        "percentile": percentile,
        "limit": limit,
        "operations": operations,
        "read_share": read_percent / 100 if operations == "mixed" else None,
        "block_sizes": options["block_size"],
        "threads": options["threads"],
        "depths": options["depth"],
        "pattern": options["pattern"],
        "arrival": options["arrival"],
        "seconds": options["seconds"],
        "budget_seconds": options["budget"],
        "direct": not options["buffered"],
        "engine": options["engine"],
    }
    study = {
        "name": WORKLOAD,
        "seed": options["seed"],
        "rounds": {"min": 1, "max": 1},
        "target": [target_mapping(target, model, options["file_size"])],
        "workload": [without_none(workload)],
        "thresholds": _thresholds(options["at_least"]),
    }
    return without_none(study)


def _thresholds(at_least_per_s: object) -> Mapped | None:
    if at_least_per_s is None:
        return None
    rate = f"{float(str(at_least_per_s)):.3f}".rstrip("0").rstrip(".")
    return {f"{WORKLOAD}.sustained_per_s": f">= {rate}"}
