"""``seatrial io TARGET``: one cell, as fio would run one job."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from seatrial.cli.options import Measuring, engine_option, measuring_options, model_option

EPILOG = """\b
Examples:
  seatrial io /mnt/ssd                                   8 KiB random reads, one thread, 10 s
  seatrial io /mnt/ssd --operation write --block-size 64k --depth 32
  seatrial io /mnt/ssd --operation mixed --read-share 0.7 --rate 2000 --arrival poisson
  seatrial io /mnt/ssd --operation mixed --verify        check every block that is read
  seatrial io /dev/nvme1n1 --seconds 30                  reading a device harms nothing
  seatrial io null --depth 128                           the engine's own limit
  seatrial io simulated --model slow.toml                a device that does not exist yet
"""

Mapped = dict[str, object]

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
"""Keys of a workload whose options bear their names and whose defaults are the study's."""

PATTERNS = ("random", "sequential", "strided", "zipf", "hot_cold")


@click.command("io", epilog=EPILOG)
@click.argument("target")
@click.option(
    "--operation",
    type=click.Choice(["read", "write", "mixed"]),
    default="read",
    show_default=True,
    help="What to do.",
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
    help="Requests that each worker keeps in flight.",
)
@click.option(
    "--pattern",
    type=click.Choice(PATTERNS),
    default="random",
    show_default=True,
    help="Which addresses.",
)
@click.option("--stride", metavar="SIZE", help="Distance of two requests, with `strided`.")
@click.option(
    "--theta", type=float, help="Skew, with `zipf`: 0 is even, 0.99 the usual, 3 the most."
)
@click.option("--hot-share", type=float, help="Share of the range that is hot, with `hot_cold`.")
@click.option("--hot-access-share", type=float, help="Share of the requests that go there.")
@click.option("--range-start", metavar="SIZE", help="Where the range used begins.")
@click.option("--range-length", metavar="SIZE", help="Its length; to the end unless given.")
@click.option("--seconds", type=float, default=10.0, show_default=True, help="Length of a sample.")
@click.option("--rounds", type=int, default=1, show_default=True, help="How many samples.")
@click.option("--size", metavar="SIZE", help="Size of the trial file, or part of the device used.")
@click.option(
    "--arrival",
    type=click.Choice(["closed", "fixed", "poisson", "bursts"]),
    help="When requests are due; `fixed` if only --rate is given.",
)
@click.option("--rate", type=float, help="Requests per second over all threads.")
@click.option("--burst", type=int, help="Requests that arrive at once, with `bursts`.")
@click.option("--sync-every", type=int, help="Sync after so many writes of a worker.")
@click.option("--sync-kind", type=click.Choice(["fdatasync", "fsync"]), help="How to sync.")
@click.option(
    "--data", type=click.Choice(["random", "compressible", "verifiable"]), help="What is written."
)
@click.option("--compressible-share", type=float, help="Share of each 4 KiB that compresses away.")
@click.option("--limit-bytes", metavar="SIZE", help="End a sample that writes after so many bytes.")
@click.option("--verify", is_flag=True, help="Check every block read against what was written.")
@click.option("--buffered", is_flag=True, help="Go through the page cache.")
@engine_option
@click.option("--iopoll", is_flag=True, help="Poll for completions, with io_uring.")
@click.option(
    "--stall-threshold-ms", type=int, help="Shortest time without a completion that is a stall."
)
@model_option
@click.option("--seed", type=int, help="Seed of addresses and data.")
@measuring_options
def command(*, target: str, model: Path | None, measuring: Measuring, **options: object) -> int:
    """Measure one cell on TARGET: a directory, file or block device, `null`, or `simulated`.

    In a directory a trial file is made, filled and removed. Reading an existing file or a device
    harms nothing; writing to one needs --destroy.
    """
    from seatrial.cli.study_command import plan_for, show_or_measure  # noqa: PLC0415
    from seatrial.study.load import study_from_options  # noqa: PLC0415

    study = study_from_options(study_mapping(target, model, options))
    return show_or_measure(plan_for(study), measuring)


def study_mapping(target: str, model: Path | None, options: Mapping[str, object]) -> Mapped:
    """Return the study of one cell that the options describe."""
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


def target_mapping(target: str, model: Path | None, size: object) -> Mapped:
    """Return the study's target of what a user names: a path, ``null`` or ``simulated``."""
    if target == "null":
        return without_none({"kind": "null", "size": size})
    if target == "simulated":
        from seatrial.study.load import load_model  # noqa: PLC0415 - only here

        parameters = load_model(model) if model else {}
        return without_none({"kind": "simulated", "size": size, "model": parameters})
    return without_none({"path": target, "size": size})


def without_none(mapping: Mapped) -> Mapped:
    """Return a mapping without the keys that were not given."""
    return {key: value for key, value in mapping.items() if value is not None}
