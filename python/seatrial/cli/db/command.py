"""``seatrial db``: what storage does for PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import click

from seatrial.cli.db.study import CRASHES, KEY_OPTIONS, places_of, study_mapping
from seatrial.cli.options import Measuring, measuring_options

EPILOG: Final = """\b
Without options, a trial of one directory takes about three minutes: TPC-B like transactions of
pgbench at scale 25 (400 MB), 1 and 10 clients, 8 s each, 3 to 5 rounds. Where a memory limit can
be set (as root, or in a delegated control group), the server and the page cache of its files get
256 MiB. A database that fits into memory would be read from there after the first seconds, and
say nothing of the storage; so would one of scale 1000 on a machine of 24 GB. Where no limit can
be set, each sample still starts cold, and every commit still waits for the storage.

\b
Examples:
  seatrial db /mnt/ssd
  seatrial db hdd=/mnt/sda ssd=/mnt/nvme             interleaved, compared, with an A/A pair
  seatrial db /mnt/ssd --scale 100,1000 --clients 1,10 --seconds 60 --rounds 10
  seatrial db /mnt/ssd --set wal_sync_method=fdatasync,open_datasync
  seatrial db /mnt/ssd --memory-limit 256MiB,512MiB,1GiB --script select-only
  seatrial db /mnt/ssd --rate 500 --latency-limit 50 late transactions are counted, not hidden
  seatrial db /mnt/ssd --workload telemetry --devices 1000
  seatrial db /mnt/ssd --batch nightly.sql --prepare tables.sql
  seatrial db /mnt/ssd --crash=20                    kill -9 in mid-load, twenty times
  seatrial db /mnt/ssd --crash --power-cut           as root: the power fails, too
  seatrial db --url postgresql://bench@db1/postgres  a database is made there and dropped again
  seatrial db /mnt/ssd --plan

\b
A list of values (a,b,c) makes each of them a cell. PGPASSWORD or ~/.pgpass hold passwords; they
never reach results, reports or logs. docs/database.md tells what is measured, and how.
"""


def _values(
    read: Callable[[str], object], expected: str
) -> Callable[[click.Context, click.Parameter, str | None], list[object] | None]:
    """Return what reads an option of values with commas between them."""

    def callback(
        _context: click.Context, _parameter: click.Parameter, written: str | None
    ) -> list[object] | None:
        if written is None:
            return None
        try:
            return [read(word.strip()) for word in written.split(",")]
        except ValueError:
            raise click.BadParameter(f"{written!r} is not {expected}") from None

    return callback


_INTEGERS: Final = _values(int, "a whole number, or several with commas between them")
_NUMBERS: Final = _values(float, "a number, or several with commas between them")
_WORDS: Final = _values(str, "a list")


def _settings(
    _context: click.Context, _parameter: click.Parameter, written: tuple[str, ...]
) -> dict[str, list[str]]:
    """Return the settings by name; a value in single quotes may hold commas."""
    found: dict[str, list[str]] = {}
    for word in written:
        name, equals, values = word.partition("=")
        if not equals or not name.strip():
            raise click.BadParameter(f"{word!r} is not NAME=VALUE")
        quoted = values.startswith("'") and values.endswith("'") and len(values) > 1
        own = [values[1:-1]] if quoted else [value.strip() for value in values.split(",")]
        found.setdefault(name.strip(), []).extend(own)
    return found


@click.command("db", epilog=EPILOG)
@click.argument("directories", nargs=-1, metavar="[[LABEL=]DIR]...")
@click.option(
    "--url",
    "urls",
    multiple=True,
    metavar="[LABEL=]URL",
    help="An existing server, postgresql://USER@HOST:PORT/DATABASE; may be repeated.",
)
@click.option(
    "--database", metavar="NAME", help="An empty database there to use; unless given, one is made."
)
@click.option(
    "--scale",
    metavar="N,...",
    callback=_INTEGERS,
    help="Of pgbench's or --crash's tables: 16 MB each.",
)
@click.option(
    "--clients", metavar="N,...", callback=_INTEGERS, help="Connections of each process; 10."
)
@click.option(
    "--processes",
    metavar="N,...",
    callback=_INTEGERS,
    help="Client processes, each with a database of its own; 1.",
)
@click.option(
    "--script",
    metavar="NAME,...",
    callback=_WORDS,
    help="tpcb-like, simple-update, select-only, or a file in pgbench's language.",
)
@click.option(
    "--protocol", metavar="NAME,...", callback=_WORDS, help="simple, extended or prepared."
)
@click.option(
    "--rate",
    metavar="PER_S,...",
    callback=_NUMBERS,
    help="Transactions due per second of each process; unless given, as many as go.",
)
@click.option(
    "--latency-limit",
    type=float,
    metavar="MS",
    help="With --rate: transactions that are late by more are skipped and counted.",
)
@click.option("--seconds", type=float, help="Length of each sample; a batch is ended after it.")
@click.option("--rounds", type=int, help="Exactly so many rounds; 3 to 5, as the scatter asks.")
@click.option(
    "--set",
    metavar="NAME=VALUE,...",
    multiple=True,
    callback=_settings,
    help="A setting of the server; may be repeated. Of an existing server, what a database has.",
)
@click.option(
    "--start",
    metavar="STATE,...",
    callback=_WORDS,
    help="cold, warm or prewarmed: the state that each sample begins in; cold.",
)
@click.option(
    "--memory-limit",
    metavar="SIZE,...",
    callback=_WORDS,
    help="For the server and the page cache of its files; `none` for none.",
)
@click.option(
    "--clone",
    type=click.Choice(["auto", "reflink", "copy", "template", "reuse"]),
    help="How each sample gets the loaded data; auto.",
)
@click.option(
    "--pg-bin",
    type=click.Path(),
    help="Folder of the PostgreSQL programs; the newest installed, else the wheel's.",
)
@click.option(
    "--workload",
    type=click.Choice(["pgbench", "telemetry"]),
    default="pgbench",
    show_default=True,
    help="What the clients do.",
)
@click.option("--devices", metavar="N,...", callback=_INTEGERS, help="Of the telemetry; 1,000.")
@click.option("--history-hours", metavar="N,...", callback=_INTEGERS, help="Stored already; 24.")
@click.option(
    "--batch-rows", metavar="N,...", callback=_INTEGERS, help="Rows a transaction stores; 100."
)
@click.option("--query-share", type=float, help="Transactions that read an hour; 0.1.")
@click.option(
    "--batch", metavar="FILE", help="Time this: a .sql file, or a program that finds PGHOST set."
)
@click.option("--prepare", metavar="FILE", help="With --batch: SQL that is loaded before.")
@click.option(
    "--crash",
    is_flag=False,
    flag_value=CRASHES,
    type=click.IntRange(1, 1000),
    metavar="[=N]",
    help=f"Kill the server in mid-load N times ({CRASHES}), and prove that no transaction is lost.",
)
@click.option(
    "--power-cut",
    is_flag=False,
    flag_value="honest",
    type=click.Choice(["honest", "lying"]),
    metavar="[=honest|lying]",
    help="With --crash, as root: the storage loses what was not flushed; or flushed, if it lies.",
)
@click.option(
    "--aa/--no-aa",
    "again",
    default=None,
    help="Measure the first target as two, for the noise floor; usual with several.",
)
@click.option(
    "--commit-truth/--no-commit-truth",
    default=True,
    show_default=True,
    help="Time flushes beside plain writes, about 2 s: a drive may lie about them.",
)
@click.option(
    "--reference", is_flag=True, help="The report begins with the bars published in 2010 beside."
)
@click.option("--budget", "budget_s", type=float, metavar="SECONDS", help="Time for the rounds.")
@click.option("--seed", type=int, help="Seed of the order and of the transactions.")
@click.option("--resume", is_flag=True, help="Go on with the newest unfinished run of this plan.")
@measuring_options
def command(
    *,
    directories: tuple[str, ...],
    urls: tuple[str, ...],
    again: bool | None,
    resume: bool,
    reference: bool,
    measuring: Measuring,
    **options: Any,  # noqa: ANN401 - as the study's keys take them
) -> int:
    """Measure what storage does for PostgreSQL: transactions per second, and what limits them.

    On a DIR a server of our own is made, whose data lie there: it listens on a private socket
    only, runs under an unused user number where the command runs as root, and is gone afterwards.
    The data are loaded once and copied for each sample, so every one begins with the same.
    Several DIRs are measured in turns and compared with the first.
    """
    from seatrial.cli.study_command import plan_for, show_or_measure  # noqa: PLC0415
    from seatrial.study.load import study_from_options  # noqa: PLC0415

    places = places_of(directories, urls, again=again)
    study = study_from_options(study_mapping(places, options), KEY_OPTIONS)
    return show_or_measure(plan_for(study), measuring, resume=resume, with_published=reference)
