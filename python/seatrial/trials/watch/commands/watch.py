"""``seatrial watch``: block requests, live."""

from __future__ import annotations

import time
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from seatrial.cli.options import json_option

if TYPE_CHECKING:
    from collections.abc import Iterator

    from seatrial.trials.watch.analysis.activity import Interval
    from seatrial.trials.watch.measure.watching import Watched, Watcher

EPILOG = """\b
Examples:
  seatrial watch                       all disks, until Ctrl-C
  seatrial watch /dev/nvme0n1          one disk
  seatrial watch /var/lib/postgresql   the disk below a directory
  seatrial watch --url postgresql:///shop --for 60   by table and index
  seatrial watch --pid 4711 --for 10
  seatrial watch --json --every 5      one JSON object per interval

\b
As root, or with CAP_BPF and CAP_PERFMON, every request is counted in the kernel, with its time in
the queue and at the device. Without, only the counters of each disk can be read: mean latencies, no
percentiles. Nothing is written. See docs/watch.md.
"""

EVERY_S: Final = 1.0
_EVERY_S_MIN: Final = 0.1
_DAY_S: Final = 86_400.0


@click.command("watch", epilog=EPILOG)
@click.argument("target", required=False)
@click.option("--url", metavar="URL", help="Assign requests to the relations of this database.")
@click.option("--pid", type=click.IntRange(1), help="Only requests of this process.")
@click.option(
    "--for",
    "for_s",
    metavar="SECONDS",
    type=click.FloatRange(_EVERY_S_MIN, _DAY_S),
    help="Stop after so long; else with Ctrl-C.",
)
@click.option(
    "--every",
    "every_s",
    metavar="SECONDS",
    type=click.FloatRange(_EVERY_S_MIN, _DAY_S),
    default=EVERY_S,
    show_default=True,
    help="Length of an interval.",
)
@json_option
def command(
    *,
    target: str | None,
    url: str | None,
    pid: int | None,
    for_s: float | None,
    every_s: float,
    as_json: bool,
) -> int:
    """Watch the block requests of TARGET: latency by disk, process, table and index.

    TARGET is a block device, or a directory or file, which stands for the disk below it. Without
    one, all disks are watched.
    """
    from seatrial.trials.watch.documents import watch_document  # noqa: PLC0415 - not for --help
    from seatrial.trials.watch.measure.watching import Watcher  # noqa: PLC0415
    from seatrial.trials.watch.report import terminal  # noqa: PLC0415

    watcher = Watcher(_watched(target, url, pid))
    if not as_json:
        click.echo(_level_text(watcher), err=True)
    whole: list[Interval] = []
    try:
        for interval in _intervals(watcher, every_s, for_s):
            whole[:] = [reduce(lambda sum_, each: sum_.merged(each), [*whole, interval])]
            if as_json:
                click.echo(watch_document(interval))
            else:
                click.echo(f"{time.strftime('%H:%M:%S')}  {terminal.interval_line(interval)}")
    except KeyboardInterrupt:
        pass  # the usual end
    finally:
        watcher.stop()
    if whole and not as_json:
        click.echo(f"\n{terminal.headline(whole[0])}\n\n{terminal.summary_text(whole[0])}")
    return 0


def _watched(target: str | None, url: str | None, pid: int | None) -> Watched:
    from seatrial.trials.watch.measure.watching import Watched  # noqa: PLC0415

    if url is None:
        return Watched(_devices(target), pid)
    from seatrial.postgres.connection import connect, parse_url  # noqa: PLC0415
    from seatrial.trials.watch.measure.relations import Relations  # noqa: PLC0415

    address, secret = parse_url(url)
    relations = Relations(connect(address, secret=secret))
    return Watched(_devices(target) if target else relations.disks, pid, relations)


def _devices(target: str | None) -> list[tuple[int, int]]:
    """Return the disk that a target is, or lies on; none for all disks.

    Raises:
        TargetError: if it does not exist, or lies on no single disk.
    """
    if target is None:
        return []
    import os  # noqa: PLC0415 - not for --help
    import stat  # noqa: PLC0415

    from seatrial.errors import TargetError  # noqa: PLC0415
    from seatrial.trials.watch.measure.extents import disk_of  # noqa: PLC0415

    try:
        status = Path(target).stat()
    except OSError as error:
        raise TargetError(
            seen=f"{target} cannot be watched: {os.strerror(error.errno or 0)}.",
            cause="The name is wrong, or this user may not look there.",
            next_step="Name a block device (lsblk lists them), or a directory on one",
        ) from None
    disk = disk_of(status.st_rdev if stat.S_ISBLK(status.st_mode) else status.st_dev)
    if disk is None:
        raise TargetError(
            seen=f"{target} lies on no single disk.",
            cause="Its file system is btrfs, ZFS, tmpfs, an overlay or a network's, or lies on an "
            "LVM or md device, whose requests are seen at the drives below.",
            next_step="Name the disk itself (lsblk lists them), or watch all disks",
        )
    return [disk.number]


def _intervals(watcher: Watcher, every_s: float, for_s: float | None) -> Iterator[Interval]:
    """Yield an interval each time that one is over; the last one may be shorter."""
    begun_s = time.monotonic()
    end_s = begun_s + for_s if for_s is not None else None
    number = 0
    while end_s is None or time.monotonic() < end_s:
        number += 1
        next_s = begun_s + number * every_s
        wake_s = next_s if end_s is None else min(next_s, end_s)
        time.sleep(max(0.0, wake_s - time.monotonic()))
        yield watcher.take()


def _level_text(watcher: Watcher) -> str:
    level = watcher.level
    reason = f"\nNo higher level: {level.reason}" if level.reason else ""
    return f"Level {level.number} of 3: {level.sees}; {level.lacks}.{reason}"
