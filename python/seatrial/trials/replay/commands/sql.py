"""``seatrial sql``: the SQL of a server: captured or read from logs, shown, replayed."""

from __future__ import annotations

from pathlib import Path

import click

from seatrial import _core
from seatrial.cli.options import json_option, ray_option, trace_output_option
from seatrial.trials.replay.commands.capture import capture
from seatrial.trials.replay.commands.compare import compare
from seatrial.trials.replay.commands.replay import replay
from seatrial.trials.replay.commands.rows import rows

FORMATS = ("auto", "stderr", "csv", "json", "raw")

EPILOG = """\b
Examples:
  seatrial sql read /var/log/postgresql/*.csv -o prod.trace
  seatrial sql capture --listen :6432 --to postgresql://db1:5432/prod -o prod.trace
  seatrial sql show prod.trace
  seatrial sql replay prod.trace --to /mnt/ssd --prepare prod.dump
  seatrial sql compare hdd ssd

\b
docs/sql.md describes how to log, what PostgreSQL does not log, what a trace contains, and how it is
replayed.
"""

READ_EPILOG = """\b
Examples:
  seatrial sql read postgresql.csv -o prod.trace
  seatrial sql read postgresql-*.log.gz -o prod.trace      rotated and compressed, in any order
  seatrial sql read server.log -o prod.trace --prefix '%m [%p] %q%u@%d '
  seatrial sql read postgresql.json -o prod.trace --mask   literals are masked
  seatrial sql read statements.sql -o prod.trace --sessions 8

\b
The format of each file and the prefix of a plain log are detected from the first lines and
reported. Every record is accounted for: unreadable records are counted by reason.

\b
Exit codes: 0 success; 2 usage, or a file is not a log; 4 interrupted, nothing was written.
"""

SHOW_EPILOG = """\b
Examples:
  seatrial sql show prod.trace
  seatrial sql show prod.trace --top 30
  seatrial sql show prod.trace --json
"""

SYSTEM_IDENTIFIER_MAX = 2**64 - 1
TOP = 10


@click.group("sql", epilog=EPILOG)
def command() -> None:
    """Read the SQL of a server from its logs into a trace, show it, and replay it."""


@command.command("read", epilog=READ_EPILOG, short_help="Convert PostgreSQL logs into a trace.")
@click.argument(
    "logs",
    metavar="LOG...",
    nargs=-1,
    required=True,
    # The reader reports unreadable files, with the next step.
    type=click.Path(path_type=Path, readable=False, allow_dash=True),
)
@trace_output_option
@click.option(
    "--prefix", metavar="PREFIX", help="The server's log_line_prefix; detected by default."
)
@click.option(
    "--format",
    "log_format",
    type=click.Choice(FORMATS),
    default="auto",
    show_default=True,
    help="Format of the files; raw is plain SQL.",
)
@click.option(
    "--sessions",
    type=click.IntRange(1, _core.SESSIONS_MAX),
    metavar="N",
    help="Split a log without sessions, such as raw SQL, into at most N streams; see docs/sql.md.",
)
@click.option(
    "--mask", is_flag=True, help="Mask literals and parameters, preserving type and length."
)
@click.option(
    "--system-identifier",
    type=click.IntRange(1, SYSTEM_IDENTIFIER_MAX),
    metavar="N",
    help="Database system identifier (pg_controldata); prevents a replay on this server.",
)
@click.option("--force", is_flag=True, help="Replace the trace if it exists.")
@ray_option
@json_option
def read(
    *,
    logs: tuple[Path, ...],
    output: Path,
    prefix: str | None,
    log_format: str,
    sessions: int | None,
    mask: bool,
    system_identifier: int | None,
    force: bool,
    ray: str | None,
    as_json: bool,
) -> int:
    """Read the logs of servers into one trace: sessions, statements, times.

    LOG is a log of PostgreSQL 14 to 18 (stderr with any log_line_prefix, csvlog, jsonlog), or a
    file of plain SQL, optionally compressed by gzip or zstd; - is standard input. Several files are
    parts of one log.
    """
    from seatrial.trials.replay.commands.read import ReadRequest, read_logs  # noqa: PLC0415

    reading = read_logs(
        ReadRequest(
            logs=logs,
            output=output,
            prefix=prefix,
            log_format=log_format,
            sessions=sessions,
            mask=mask,
            force=force,
            system_identifier=system_identifier,
            ray=ray,
        ),
        quiet=as_json,
    )
    if as_json:
        from seatrial.trials.replay.documents import reading_document  # noqa: PLC0415 - only here

        click.echo(reading_document(reading), nl=False)
    else:
        from seatrial.trials.replay.report.trace_text import reading_text  # noqa: PLC0415

        click.echo(reading_text(reading))
    return 0


@command.command("show", epilog=SHOW_EPILOG, short_help="Show the contents of a trace.")
@click.argument("trace", type=click.Path(path_type=Path, readable=False))
@click.option(
    "--top",
    type=click.IntRange(min=0),
    default=TOP,
    show_default=True,
    metavar="N",
    help="Number of queries to show, by total time.",
)
@json_option
def show(*, trace: Path, top: int, as_json: bool) -> int:
    """Show the contents of TRACE: sessions, mix, busiest minute, top queries, and gaps."""
    from seatrial.trials.replay.trace import read_trace  # noqa: PLC0415 - not for --help

    contents = read_trace(trace, top=top)
    if as_json:
        from seatrial.trials.replay.documents import trace_document  # noqa: PLC0415 - only here

        click.echo(trace_document(contents), nl=False)
    else:
        from seatrial.trials.replay.report.trace_text import trace_text  # noqa: PLC0415 - only here

        click.echo(trace_text(contents))
    return 0


command.add_command(capture)
command.add_command(rows)
command.add_command(replay)
command.add_command(compare)
