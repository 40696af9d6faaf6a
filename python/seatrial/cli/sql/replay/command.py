"""``seatrial sql replay``: what a trace holds, played to another server, and accounted for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import click

from seatrial.cli.options import Measuring, measuring_options

DANGERS: Final = ("copy_program", "dblink", "terminate_backend", "notify", "ddl", "server")
TARGET_DANGERS: Final = ("recovery", "same_system", "sequence_mismatch")
MAX: Final = "max"
SPEED_MAX: Final = 1000.0

_TIME: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|min|m|h)?")
_SECONDS_OF: Final = {"ms": 0.001, "s": 1.0, None: 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}

EPILOG: Final = """\b
Where it is sent:
  --to DIR   A server of our own is made there and is gone afterwards. What it holds before is
             --prepare (SQL, or an archive of pg_dump) or --scale (pgbench's tables).
  --to URL   A server that is there. With --prepare or --scale a database is made there and
             dropped again. Without, the database of the URL is taken as it is and left as it
             becomes: that needs --read-only, or --allow-writes with its name. --restore brings it
             back before each round; --clone template leaves it alone and plays to copies of it.
  --to A --to B   Both, in turns and in an order drawn anew for each round, and A once more for
             the noise: what differs between them is told with intervals.

\b
What a replay never does unless asked to:
  --allow copy_program       COPY to or from a program or a file of the server's machine
  --allow dblink             connections to further servers
  --allow terminate_backend  the end of other sessions
  --allow notify             NOTIFY, on which whoever listens acts
  --allow ddl                CREATE, ALTER, DROP, TRUNCATE; those of temporary tables are sent
  --allow server             ALTER SYSTEM, files and large objects of the server's machine
  --allow recovery           with --read-only: a target that is a standby
  --allow same_system        the server whose log it is, or a copy of its files
  --allow sequence_mismatch  sequences that do not stand where the log begins

\b
Examples:
  seatrial sql replay prod.trace --to /mnt/ssd --prepare prod.dump
  seatrial sql replay prod.trace --to /mnt/ssd --prepare prod.dump --speed 1.0
  seatrial sql replay prod.trace --to /mnt/ssd --prepare prod.dump --speed 2.5 --until 10m
  seatrial sql replay prod.trace --to postgresql://bench@db2/prod --read-only
  seatrial sql replay prod.trace --to postgresql://bench@db2/prod_copy --allow-writes prod_copy
  seatrial sql replay tpcb.trace --to /mnt/ssd --scale 10 --order commit --rounds 5
  seatrial sql replay prod.trace --to hdd=/mnt/hdd --to ssd=/mnt/ssd --prepare prod.dump
  seatrial sql replay prod.trace --to /mnt/ssd --prepare prod.dump --plan

\b
The right rows:
  --compare-rows FILE   Afterwards every table is held against what the captured database held,
                        as `seatrial sql rows` (or `sql capture --rows`) wrote it: TRACE.rows is
                        taken unasked where Seatrial made the target. Ids may be others; which
                        rows they name may not.

\b
Every statement of the trace is accounted for, class by class:
  captured = ok + failed + skipped (by reason) + not reached

\b
Exit codes: 0 all that could be sent was sent, to a database that holds what the captured one
held, with no more errors than in the capture; 2 usage; 4 anything else that a replay ends with,
and the first sentence says what: not all was sent, more errors, a wrong or an empty database,
interrupted, the server lost (what ran is kept and told); 5 refused for safety; 6 the target
cannot be used.

\b
docs/sql.md tells how to get a target that is as the captured server was, and what is compared.
"""


def _speed(_context: click.Context, _parameter: click.Parameter, written: str) -> str | float:
    """Return ``max`` or a factor."""
    if written == MAX:
        return MAX
    try:
        factor = float(written)
    except ValueError:
        factor = 0.0
    if not 0 < factor <= SPEED_MAX:
        raise click.BadParameter(f"{written!r} is not max, or a number above 0 up to 1,000")
    return factor


def _seconds(
    _context: click.Context, _parameter: click.Parameter, written: str | None
) -> float | None:
    """Return a length of time in seconds, such as of ``10m``."""
    if written is None:
        return None
    found = _TIME.fullmatch(written.strip())
    seconds = float(found[1]) * _SECONDS_OF[found[2]] if found else 0.0
    if seconds <= 0:
        raise click.BadParameter(f"{written!r} is no length of time, such as 90s, 10m or 1h")
    return seconds


@click.command("replay", epilog=EPILOG, short_help="A trace played to another server.")
@click.argument("trace", type=click.Path(path_type=Path, readable=False))
@click.option(
    "--to",
    "places",
    required=True,
    multiple=True,
    metavar="[LABEL=]URL|DIR",
    help="The target: a server, or a folder. Several are compared.",
)
@click.option(
    "--speed",
    metavar="max|FACTOR",
    default=MAX,
    show_default=True,
    callback=_speed,
    help="As fast as the server answers, or so many times faster than captured: 1.0 as it was.",
)
@click.option(
    "--order",
    type=click.Choice(["session", "commit", "object", "key", "strict"]),
    default="session",
    show_default=True,
    help="Each session's own; also that of commits, of statements on one table, or on one row; or "
    "all of them, one by one.",
)
@click.option(
    "--ids",
    type=click.Choice(["infer", "off"]),
    help="Map ids that the captured server generated to the target's, or send them as captured. "
    "infer, unless with --read-only.",
)
@click.option(
    "--pace",
    type=click.Choice(["arrivals", "think-times"]),
    default="arrivals",
    show_default=True,
    help="What the speed divides: times since the beginning, or a session's pauses.",
)
@click.option("--read-only", is_flag=True, help="Send only what a transaction that reads takes.")
@click.option(
    "--until",
    "until_s",
    metavar="TIME",
    callback=_seconds,
    help="Only what was captured in the first 10m, 90s, 1h.",
)
@click.option("--prepare", metavar="FILE", help="Loaded before: SQL, or an archive of pg_dump.")
@click.option(
    "--scale", type=click.IntRange(min=1), metavar="N", help="Loaded before: pgbench's tables."
)
@click.option(
    "--restore",
    metavar="COMMAND",
    help="Brings the URL's database back before each round; its address is in DATABASE_URL.",
)
@click.option(
    "--compare-rows",
    metavar="FILE",
    help="What the captured database held at the end (`sql rows`); TRACE.rows unless given.",
)
@click.option(
    "--clone",
    type=click.Choice(["auto", "reflink", "copy", "template", "reuse"]),
    help="How each round gets what was loaded, or a copy of the URL's database (template).",
)
@click.option(
    "--start",
    type=click.Choice(["cold", "warm", "prewarmed", "as_is"]),
    help="What caches hold at first: cold in a folder, as_is on a server unless given.",
)
@click.option(
    "--database",
    "databases",
    multiple=True,
    metavar="NAME",
    help="Of the capture, whose sessions are played; may be repeated.",
)
@click.option(
    "--connections",
    type=click.IntRange(min=1),
    metavar="N",
    help="Open at once, at most; as many as in the capture unless given.",
)
@click.option(
    "--allow",
    multiple=True,
    type=click.Choice([*DANGERS, *TARGET_DANGERS]),
    metavar="DANGER",
    help="What is else refused, see below; may be repeated.",
)
@click.option(
    "--allow-writes",
    metavar="NAME",
    help="The URL's database, typed exactly: it may be written to.",
)
@click.option(
    "--rounds",
    type=click.IntRange(min=1),
    metavar="N",
    help="So many replays of each target, for an interval; 1, of several targets 5.",
)
@click.option("--pg-bin", type=click.Path(), help="With a DIR: folder of the PostgreSQL programs.")
@measuring_options
def replay(*, trace: Path, measuring: Measuring, **options: Any) -> int:  # noqa: ANN401
    """Play TRACE to another server, say whether all of it was, and how fast.

    Each session of the capture has a connection of its own, and keeps the order, the protocol and
    the prepared statements that it had. At a speed, each statement has a time at which it is due:
    its response time counts from there, so a server that falls behind cannot hide it. Rows,
    command tags and errors are held against those of the capture.
    """
    from seatrial.cli.sql.replay.run import play_and_report  # noqa: PLC0415 - not for --help
    from seatrial.cli.sql.replay.study import KEY_OPTIONS, study_mapping  # noqa: PLC0415
    from seatrial.cli.study_command import plan_for, show_or_measure  # noqa: PLC0415
    from seatrial.study.load import study_from_options  # noqa: PLC0415

    study = study_from_options(study_mapping(trace, options), KEY_OPTIONS)
    plan = plan_for(study)
    if measuring.plan_only:
        return show_or_measure(plan, measuring)
    return play_and_report(plan, measuring)
