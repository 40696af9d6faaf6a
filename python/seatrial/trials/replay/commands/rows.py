"""``seatrial sql rows``: what a captured database holds, for replays to be held against."""

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
@output_option("-o", "--output", kind=ROWS, about="A replay looks for TRACE.rows.")
def rows(*, url: str, output: Output) -> int:
    """Write what the rows of the database at URL are, so that replays can be held against them."""
    return keep_rows(url, output)


def keep_rows(url: str, output: Output, *, quiet: bool = False) -> int:
    """Read the rows of a database and keep what they are; return the exit code.

    Args:
        url: Of the database.
        output: Where they go.
        quiet: Whether the result is reported on standard error.

    Raises:
        RefusedError: when something else is there.
        SpaceError: when there is no space for it.
        TargetError: when the server cannot be queried.
        UsageError: when the address cannot be read, or the file not be written.
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
    place = click.format_filename(output.path or "")
    click.echo(f"{format_count(count)} rows of {tables} of {address.dbname}: {place}", err=quiet)
    for name, why in content.unread.items():
        click.echo(f"Not read: {name}, {why}", err=quiet)
    return EXIT_PARTIAL if content.unread else 0
