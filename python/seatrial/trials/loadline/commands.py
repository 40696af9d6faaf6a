"""``seatrial loadline TARGET``: the highest sustained rate within a latency limit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click

from seatrial.cli.options import (
    FiniteRange,
    Mapped,
    MeasureOptions,
    echo_former,
    engine_option,
    former_option,
    measuring_options,
    model_option,
    target_mapping,
    without_none,
)
from seatrial.errors import UsageError
from seatrial.study.units import parse_size_bytes

EPILOG = """\b
Examples:
  seatrial loadline /mnt/ssd --p99 5ms                    8 KiB random reads within 5 ms
  seatrial loadline /mnt/ssd --p99 5ms --read-share 0.7   70 % reads, 30 % writes
  seatrial loadline /mnt/ssd --p99.9 20ms --block-size 16k --budget 300
  seatrial loadline /dev/nvme1n1 --p99 1ms                reads only, the device is unchanged
  seatrial loadline /mnt/ssd --p99 5ms --at-least 5000    exit code 3 if it sustains less
  seatrial loadline simulated --model slow.toml --p99 2ms

\b
Requests are sent by a schedule (open loop), and latency counts from the scheduled time. The rate
is increased, then bisected around the limit; rates next to the limit are repeated until the result
is significant. See docs/method.md, "Load line".
"""

WORKLOAD: Final = "loadline"
REQUEST_BYTES_MAX: Final = 4 << 20
PERCENTILES: Final = ("p50", "p90", "p99", "p99.9")
OPTIONS: Final = {
    "block_sizes": "block-size",
    "budget_seconds": "budget",
    "thresholds": "at-least",
}
"""Options whose names differ from the study's keys."""


@click.command("loadline", epilog=EPILOG)
@click.argument("target")
@click.option("--p50", metavar="LIMIT", help="Limit for the median, such as 500us.")
@click.option("--p90", metavar="LIMIT", help="Limit for p90.")
@click.option("--p99", metavar="LIMIT", help="Limit for p99, such as 5ms.")
@click.option("--p99.9", "p999", metavar="LIMIT", help="Limit for p99.9.")
@click.option(
    "--percentile", type=click.Choice(PERCENTILES), help="The limited percentile, with --limit."
)
@click.option("--limit", metavar="LIMIT", help="Limit for --percentile.")
@click.option(
    "--read-share",
    type=FiniteRange(0, 1),
    default=1.0,
    show_default=True,
    metavar="SHARE",
    help="Share of reads, 0 to 1.",
)
@click.option(
    "--block-size",
    default="8KiB",
    show_default=True,
    metavar="SIZE",
    help="Size of one request; k, M and G are powers of 1024.",
)
@click.option("--size", metavar="SIZE", help="Size of the trial file, or part of the device used.")
@former_option("--read", "--read-share, a share from 0 to 1", type=FiniteRange(0, 100))
@former_option("--file-size", "--size")
@click.option(
    "--pattern",
    type=click.Choice(["random", "sequential", "zipf", "hot_cold"]),
    default="random",
    show_default=True,
    help="Address pattern.",
)
@click.option(
    "--arrival",
    type=click.Choice(["poisson", "fixed"]),
    default="poisson",
    show_default=True,
    help="Arrival process.",
)
@click.option("--threads", type=int, default=4, show_default=True, help="Concurrent workers.")
@click.option(
    "--depth",
    type=int,
    default=32,
    show_default=True,
    help="Maximum queue depth per worker.",
)
@click.option(
    "--seconds", type=float, default=2.0, show_default=True, help="Minimum sample duration."
)
@click.option(
    "--budget",
    type=float,
    default=90.0,
    show_default=True,
    metavar="SECONDS",
    help="Total time.",
)
@click.option(
    "--at-least",
    type=FiniteRange(min=0, min_open=True),
    metavar="RATE",
    help="Exit with code 3 if the sustained rate is lower (requests per second).",
)
@click.option("--buffered", is_flag=True, help="Use the page cache.")
@engine_option
@model_option
@click.option("--seed", type=int, help="Seed of arrivals, addresses and data.")
@click.option("--resume", is_flag=True, help="Resume the newest unfinished run of this plan.")
@measuring_options
def command(
    *, target: str, model: Path | None, resume: bool, measuring: MeasureOptions, **options: object
) -> int:
    """Find the highest rate at which a latency percentile of TARGET meets a limit.

    TARGET is a directory, file or block device, `null`, or `simulated`. In a directory, a trial
    file is created, filled and removed. Existing files and devices are not changed by reads;
    writing to them requires --destroy.
    """
    from seatrial.cli.study_command import plan_for, show_or_measure  # noqa: PLC0415
    from seatrial.study.load import study_from_options  # noqa: PLC0415

    percentile, limit, option = _latency_limit(options)
    options = _with_former(options)
    study = study_from_options(
        _study_mapping(target, model, options, percentile, limit), {**OPTIONS, "limit": option}
    )
    return show_or_measure(plan_for(study), measuring, resume=resume)


def _with_former(options: Mapping[str, object]) -> Mapped:
    """Return the options with the values of former names below their present ones.

    ``--size`` was the size of a request. A trial file is never as small as that, so a value of at
    most 4 MiB, the largest request of any shipped study, still means a request.
    """
    found = dict(options)
    read, file_size = found.pop("former_read"), found.pop("former_file_size")
    if read is not None:
        found["read_share"] = float(str(read)) / 100
    size = found["size"]
    if size is not None and _is_of_request(str(size)):
        echo_former("--size for requests", "--block-size")
        found["block_size"], found["size"] = size, None
    if file_size is not None:
        found["size"] = file_size
    return found


def _is_of_request(written: str) -> bool:
    try:
        return 0 < parse_size_bytes(written) <= REQUEST_BYTES_MAX
    except ValueError:  # reported with its option later
        return False


def _latency_limit(options: Mapping[str, object]) -> tuple[str, str, str]:
    """Return percentile and limit, and the option that gave the limit."""
    short = {name: options[name.replace(".", "")] for name in PERCENTILES}
    given = [(name, str(limit), name) for name, limit in short.items() if limit is not None]
    percentile, limit = options["percentile"], options["limit"]
    if percentile is not None and limit is not None:
        given.append((str(percentile), str(limit), "limit"))
    if len(given) == 1 and (percentile is None) == (limit is None):
        return given[0]
    raise UsageError(
        seen="A load line needs one percentile with its limit"
        + (f", but {len(given)} were given" if len(given) > 1 else ""),
        cause="The sustained rate depends on the acceptable latency",
        next_step="Use --p99 5ms, for example, a common limit for commits and page reads of a "
        "database",
    )


def _study_mapping(
    target: str, model: Path | None, options: Mapping[str, object], percentile: str, limit: str
) -> Mapped:
    """Return the study of one load line from the options."""
    read_share = float(str(options["read_share"]))
    operations = {0.0: "write", 1.0: "read"}.get(read_share, "mixed")
    workload = {
        "kind": WORKLOAD,
        "percentile": percentile,
        "limit": limit,
        "operations": operations,
        "read_share": read_share if operations == "mixed" else None,
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
        "target": [target_mapping(target, model, options["size"])],
        "workload": [without_none(workload)],
        "thresholds": _thresholds(options["at_least"]),
    }
    return without_none(study)


def _thresholds(at_least_per_s: object) -> Mapped | None:
    if at_least_per_s is None:
        return None
    rate = f"{float(str(at_least_per_s)):.3f}".rstrip("0").rstrip(".")
    return {f"{WORKLOAD}.sustained_per_s": f">= {rate}"}
