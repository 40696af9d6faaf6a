"""``seatrial io TARGET``: run one workload, like one fio job."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from seatrial.cli.options import (
    Mapped,
    MeasureOptions,
    engine_option,
    measuring_options,
    model_option,
    target_mapping,
    without_none,
)

EPILOG = """\b
Examples:
  seatrial io /mnt/ssd                                   8 KiB random reads, one thread, 10 s
  seatrial io /mnt/ssd --operation write --block-size 64k --depth 32
  seatrial io /mnt/ssd --operation mixed --read-share 0.7 --rate 2000 --arrival poisson
  seatrial io /mnt/ssd --operation mixed --verify        verify every block read
  seatrial io /dev/nvme1n1 --seconds 30                  reads only, the device is unchanged
  seatrial io null --depth 128                           the load engine's own limit
  seatrial io simulated --model slow.toml                a simulated device
"""

KEYS_AS_OPTIONS = (
    "read_share",
    "stride",
    "theta",
    "hot_share",
    "hot_access_share",
    "range_start",
    "range_length",
    "rate",
    "burst",
    "sync_every",
    "sync_kind",
    "compressible_share",
    "limit_bytes",
    "stall_threshold_ms",
)
"""Keys of a workload that are options of the same name, with the study's defaults."""

PATTERNS = ("random", "sequential", "strided", "zipf", "hot_cold")


@click.command("io", epilog=EPILOG)
@click.argument("target")
@click.option(
    "--operation",
    type=click.Choice(["read", "write", "mixed"]),
    default="read",
    show_default=True,
    help="Kind of requests.",
)
@click.option("--read-share", type=float, help="Share of reads in `mixed`, 0 to 1.")
@click.option(
    "--block-size",
    default="8KiB",
    show_default=True,
    metavar="SIZE",
    help="Size of one request; k, M and G are powers of 1024.",
)
@click.option("--threads", type=int, default=1, show_default=True, help="Concurrent workers.")
@click.option(
    "--depth",
    type=int,
    default=1,
    show_default=True,
    help="Queue depth per worker.",
)
@click.option(
    "--pattern",
    type=click.Choice(PATTERNS),
    default="random",
    show_default=True,
    help="Address pattern.",
)
@click.option("--stride", metavar="SIZE", help="Distance between requests (`strided`).")
@click.option("--theta", type=float, help="Skew (`zipf`): 0 is uniform, 0.99 is usual, at most 3.")
@click.option("--hot-share", type=float, help="Share of the range that is hot (`hot_cold`).")
@click.option("--hot-access-share", type=float, help="Share of requests to the hot range.")
@click.option("--range-start", metavar="SIZE", help="Start of the address range.")
@click.option(
    "--range-length", metavar="SIZE", help="Length of the address range; default: to the end."
)
@click.option("--seconds", type=float, default=10.0, show_default=True, help="Sample duration.")
@click.option("--rounds", type=int, default=1, show_default=True, help="Number of samples.")
@click.option("--size", metavar="SIZE", help="Size of the trial file, or part of the device used.")
@click.option(
    "--arrival",
    type=click.Choice(["closed", "fixed", "poisson", "bursts", "batches"]),
    help="Arrival process; `fixed` if only --rate is given.",
)
@click.option("--rate", type=float, help="Requests per second over all threads.")
@click.option(
    "--burst", type=int, help="Requests per burst (`bursts`), or on average per batch (`batches`)."
)
@click.option("--sync-every", type=int, help="Sync after this many writes of a worker.")
@click.option("--sync-kind", type=click.Choice(["fdatasync", "fsync"]), help="Kind of sync.")
@click.option(
    "--data", type=click.Choice(["random", "compressible", "verifiable"]), help="Data to write."
)
@click.option("--compressible-share", type=float, help="Compressible share of each 4 KiB.")
@click.option(
    "--limit-bytes",
    metavar="SIZE",
    help="End a writing sample after this many bytes (mixed: read or written); by default the size "
    "of the file or range.",
)
@click.option("--verify", is_flag=True, help="Verify every block read.")
@click.option("--buffered", is_flag=True, help="Use the page cache.")
@engine_option
@click.option("--iopoll", is_flag=True, help="Poll for completions, with io_uring.")
@click.option(
    "--stall-threshold-ms", type=int, help="Minimum time without a completion for a stall."
)
@model_option
@click.option("--seed", type=int, help="Seed of addresses and data.")
@measuring_options
def command(
    *, target: str, model: Path | None, measuring: MeasureOptions, **options: object
) -> int:
    """Run one workload on TARGET: a directory, file or block device, `null`, or `simulated`.

    In a directory, a trial file is created, filled and removed. Existing files and devices are not
    changed by reads; writing to them requires --destroy.
    """
    from seatrial.cli.study_command import plan_for, show_or_measure  # noqa: PLC0415
    from seatrial.study.load import study_from_options  # noqa: PLC0415

    study = study_from_options(study_mapping(target, model, options))
    return show_or_measure(plan_for(study), measuring)


def study_mapping(target: str, model: Path | None, options: Mapping[str, object]) -> Mapped:
    """Return the study of one workload from the options."""
    arrival = options["arrival"] or ("fixed" if options["rate"] else None)
    workload = {
        "kind": "io",
        "operations": [options["operation"]],
        "block_sizes": options["block_size"],
        "threads": options["threads"],
        "depths": options["depth"],
        "pattern": options["pattern"],
        "seconds": options["seconds"],
        "direct": not options["buffered"],
        "engine": options["engine"],
        "verify": options["verify"],
        "iopoll": options["iopoll"],
        "arrival": arrival,
        "data": options["data"] or ("verifiable" if options["verify"] else None),
        **{key: options[key] for key in KEYS_AS_OPTIONS},
    }
    rounds = options["rounds"]
    study = {
        "name": "io",
        "seed": options["seed"],
        "rounds": {"min": rounds, "max": rounds},
        "target": [target_mapping(target, model, options["size"])],
        "workload": [without_none(workload)],
    }
    return without_none(study)
