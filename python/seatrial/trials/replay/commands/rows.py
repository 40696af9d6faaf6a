"""``seatrial sql rows``: the rows of a captured database, to compare replays with."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from seatrial.cli.files import ROWS, Output, output_option
from seatrial.errors import EXIT_PARTIAL, UsageError

EPILOG: Final = """\b
Examples:
  seatrial sql rows postgresql://db1/prod -o prod.trace.rows
  seatrial sql replay prod.trace --to /mnt/ssd --prepare prod.dump

\b
Run it after the end of the capture and before further writes: on the captured server, or on a
restore to the end of the log. Values are stored as hashes; generated IDs may differ in a replay,
the rows that they refer to may not. Tables are read up to 256 MiB in total, the smallest first.

\b
Exit codes: 0 success; 4 some tables could not be read and are listed; 6 no access to the server.
"""


@click.command(
    "rows", epilog=EPILOG, short_help="Record the rows of the captured database at the end."
)
@click.argument("url")
@output_option(
    "-o", "--output", kind=ROWS, about="The file to write; a replay looks for TRACE.rows."
)
def rows(*, url: str, output: Output) -> int:
    """Record the rows of the database at URL, to compare replays with them."""
    return write_rows(url, output)


def write_rows(url: str, output: Output, *, quiet: bool = False) -> int:
    """Record the rows of a database in a file; return the exit code.

    Args:
        url: The database.
        output: The file.
        quiet: Whether the result is reported on standard error.

    Raises:
        RefusedError: when another file has that name.
        SpaceError: when there is no space.
        TargetError: when the server cannot be queried.
        UsageError: when the URL is invalid, or the file cannot be written.
    """
    from seatrial.cli.options import this_command  # noqa: PLC0415 - not for --help
    from seatrial.postgres.binaries import Binaries  # noqa: PLC0415 - likewise
    from seatrial.postgres.connection import parse_url  # noqa: PLC0415 - likewise
    from seatrial.postgres.row_content import packed, read_content  # noqa: PLC0415
    from seatrial.stats.wording import format_count, format_plural  # noqa: PLC0415 - likewise
    from seatrial.trials.database.measure.driver_result import Endpoints  # noqa: PLC0415 - likewise
    from seatrial.trials.database.measure.server_session import (  # noqa: PLC0415 - needs libpq
        ServerSession,
    )

    if output.path is None or output.stream is not None:
        raise UsageError(
            seen="No output file is given",
            cause="The output is not text",
            next_step="Use: seatrial sql rows postgresql://HOST/DATABASE -o prod.trace.rows",
        )
    address, secret = parse_url(url)
    none = Binaries(folder=Path(), version=0, version_text="", origin="installed")
    with ServerSession(Endpoints(addresses=[address], secret=secret, binaries=none)) as session:
        content = read_content(session.connection)
    again = this_command("--output", "FILE", without=["--output", "-o"])
    output.write(packed(content), otherwise=again)
    count = sum(table.count for table in content.tables.values())
    tables = format_plural(len(content.tables), "table")
    path = click.format_filename(output.path or "")
    click.echo(f"{format_count(count)} rows of {tables} of {address.dbname}: {path}", err=quiet)
    for name, reason in content.unread.items():
        click.echo(f"Not read: {name}, {reason}", err=quiet)
    return EXIT_PARTIAL if content.unread else 0
