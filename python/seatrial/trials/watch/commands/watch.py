"""``seatrial watch``: block requests, live."""

from __future__ import annotations

from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from seatrial.cli.display_options import PORT_MAX
from seatrial.cli.files import RECORDING, Output, output_option
from seatrial.cli.options import Duration, json_option, results_option
from seatrial.errors import TargetError
from seatrial.trials.watch.commands.record import (
    ROTATE,
    read_size_bytes,
    record_to,
    recorded_text,
    store,
)
from seatrial.units import DAY_S

if TYPE_CHECKING:
    from seatrial.trials.watch.measure.recorder import RecordingResult
    from seatrial.trials.watch.measure.watching import Watcher, WatchOptions

EPILOG = """\b
Examples:
  seatrial watch                       all disks, until Ctrl-C
  seatrial watch /dev/nvme0n1          one disk
  seatrial watch /var/lib/postgresql   the disk below a directory
  seatrial watch --url postgresql:///shop --for 10m  by table and index
  seatrial watch --pid 4711 --for 10
  seatrial watch --json --every 5      one JSON object per interval
  seatrial watch --record night.rec    every request in a file (docs/recording.md)
  seatrial watch --port 0              with a live page; 'seatrial mark TEXT' sets a marker

\b
As root, or with CAP_BPF and CAP_PERFMON, every request is counted in the kernel, with its time in
the queue and at the device. Otherwise only the counters of each disk can be read: mean latencies,
no percentiles. Nothing is written without --record; a recording is also stored as a run of the
results file. See docs/watch.md and docs/recording.md.
"""

EVERY_S: Final = 1.0
_EVERY_S_MIN: Final = 0.1


@click.command("watch", epilog=EPILOG)
@click.argument("target", required=False)
@click.option("--url", metavar="URL", help="Assign requests to the relations of this database.")
@click.option("--pid", type=click.IntRange(1), help="Only requests of this process.")
@click.option(
    "--for",
    "for_s",
    type=Duration(_EVERY_S_MIN, DAY_S),
    help="Stop after this time; by default at Ctrl-C.",
)
@click.option(
    "--every",
    "every_s",
    type=Duration(_EVERY_S_MIN, DAY_S),
    default=EVERY_S,
    show_default=True,
    help="Length of an interval.",
)
@click.option(
    "--port",
    type=click.IntRange(0, PORT_MAX),
    help="Serve a live page on this TCP port of this machine; 0 takes a free one.",
)
@output_option("--record", about="Write every request to this file; needs root.", kind=RECORDING)
@click.option(
    "--rotate",
    "rotate_bytes",
    metavar="SIZE",
    default=ROTATE,
    show_default=True,
    callback=read_size_bytes,
    help="Start a new file of the recording (FILE.1, FILE.2 ...) at this size.",
)
@results_option
@json_option
def command(
    *,
    target: str | None,
    url: str | None,
    pid: int | None,
    record: Output,
    rotate_bytes: int,
    results: Path,
    for_s: float | None,
    every_s: float,
    port: int | None,
    as_json: bool,
) -> int:
    """Watch the block requests of TARGET: latency by disk, process, table and index.

    TARGET is a block device, or a directory or file, which stands for the disks below it. Without
    one, all disks are watched.
    """
    from seatrial.trials.watch.analysis.headroom import without_line  # noqa: PLC0415
    from seatrial.trials.watch.commands.displays import display_for  # noqa: PLC0415
    from seatrial.trials.watch.commands.observation import (  # noqa: PLC0415
        Observation,
        intervals,
        level_text,
    )
    from seatrial.trials.watch.measure.lines import lines_of  # noqa: PLC0415
    from seatrial.trials.watch.measure.watching import Watcher  # noqa: PLC0415

    if port is not None:
        from seatrial.trials.watch.commands.live import require_packages  # noqa: PLC0415

        require_packages()
    to = record_to(record, rotate_bytes)
    watched = _watched(target, url, pid, needs_disks=to is not None or pid is not None)
    watcher = Watcher(watched._replace(record=to))
    name = _name(target, url, pid)
    with ExitStack() as stack:
        stack.callback(watcher.stop)
        if not as_json:
            click.echo(level_text(watcher), err=True)
        # The requests of one process are not the load of a disk.
        disks = watcher.disks() if pid is None else []
        lines = lines_of(disks, results)
        lineless = without_line(disks, lines, click.format_filename(results))
        if lineless and not as_json:
            click.echo(lineless, err=True)
        feed = None
        if port is not None:
            from seatrial.trials.watch.commands.live import served  # noqa: PLC0415

            feed, page = served(
                watcher,
                name,
                every_s,
                port,
                has_server=url is not None,
                without_line=lineless,
            )
            stack.callback(page.stop)
            click.echo(f"Page, on this machine only: {page.address}", err=True)
            click.echo(f"Metrics: {page.metrics_address}", err=True)
        observation = Observation(stack, watcher, feed, lines)
        if url is not None:
            observation.start_server_readings(stack, url, every_s)
        display = stack.enter_context(display_for(watcher, name, as_json=as_json))
        with suppress(KeyboardInterrupt):  # the usual end
            for interval in intervals(watcher, every_s, for_s):
                observation.add(interval, display)
                if watcher.has_ended and port is None:
                    break
        recorded = watcher.end_recording()
    display.end(observation.total, observation.headroom())
    _say_end(watcher, pid, recorded, results)
    return 0


def _say_end(
    watcher: Watcher, pid: int | None, recorded: RecordingResult | None, results: Path
) -> None:
    if watcher.has_ended:
        click.echo(f"Process {pid} has ended.", err=True)
    if recorded is not None:
        click.echo(recorded_text(recorded), err=True)
        click.echo(store(recorded.path, results), err=True)


def _name(target: str | None, url: str | None, pid: int | None) -> str:
    """Return the disks, the database and the process, as in a heading."""
    who = f", process {pid}" if pid is not None else ""
    if url is not None:
        from seatrial.postgres.connection import parse_url  # noqa: PLC0415 - not for --help

        address, _ = parse_url(url)
        return f"database {address.dbname} at {address.endpoint}{who}"
    return f"{target or 'all disks'}{who}"


def _watched(
    target: str | None, url: str | None, pid: int | None, *, needs_disks: bool
) -> WatchOptions:
    """Return the options; a server whose files cannot be read has its own statistics alone."""
    from seatrial.trials.watch.measure.watching import WatchOptions  # noqa: PLC0415

    if url is None:
        return WatchOptions(devices_of(target), pid)
    from seatrial.postgres.connection import connect, parse_url  # noqa: PLC0415
    from seatrial.trials.watch.measure.relations import Relations  # noqa: PLC0415

    address, secret = parse_url(url)
    with closing(connect(address, secret=secret)) as connection:
        try:
            relations = Relations(connection, address, secret)
        except TargetError as error:
            if needs_disks:
                raise
            click.echo(f"{error.seen} {error.cause}", err=True)
            return WatchOptions(devices_of(target), sees_disks=target is not None)
    for each in relations.not_followed.values():
        click.echo(f"Without table and index: {each.seen} {each.cause}", err=True)
    return WatchOptions(devices_of(target) if target else relations.disks, pid, relations)


def devices_of(target: str | None) -> list[tuple[int, int]]:
    """Return the disks that a target is, or lies on; none for all disks.

    Raises:
        TargetError: if it does not exist, or its disks are not known.
    """
    if target is None:
        return []
    import os  # noqa: PLC0415 - not for --help
    import stat  # noqa: PLC0415

    from seatrial.trials.watch.measure.volume import volume_of  # noqa: PLC0415

    try:
        status = Path(target).stat()
    except OSError as error:
        raise TargetError(
            seen=f"{target} cannot be watched: {os.strerror(error.errno or 0)}.",
            cause="The name is wrong, or this user has no access to it.",
            next_step="Name a block device (lsblk lists them), or a directory on one",
        ) from None
    number = status.st_rdev if stat.S_ISBLK(status.st_mode) else status.st_dev
    try:
        return [*volume_of(number).disks]
    except TargetError as error:
        raise TargetError(
            seen=f"{target} cannot be watched: {error.seen}",
            cause=error.cause,
            next_step=error.next_step,
        ) from None
