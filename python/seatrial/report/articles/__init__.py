"""Published results, shipped with the program, that a report may show next to its own."""

from __future__ import annotations

import csv
from functools import cache
from importlib import resources
from typing import Final

import msgspec

PGBENCH_FILE: Final = "pgbench-2010.csv"

PGBENCH_SOURCE: Final = (
    "Published: 'SSD vs HDD: pgbench', 8 August 2010 (reference/pgbench-2010.csv); means of 10 "
    "runs of 500 s with PostgreSQL 8.4.4 on a Q9650 with 8 GB of memory. The hardware and the "
    "server were other than here, so the bars stand next to each other for scale, not as a "
    "comparison; with two client machines the figure is that of client 1 alone."
)


class PublishedRate(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of the article.

    Attributes:
        device: As the file names it, such as ``hdd-1.5tb-7200rpm``.
        scale: Scale of pgbench.
        processes: Client machines, with a database each.
        clients: Clients of each database.
        rounds: Runs that the figure is the mean of.
        rate_per_s: Transactions per second, of client machine 1.
    """

    device: str
    scale: int
    processes: int
    clients: int
    rounds: int
    rate_per_s: float


@cache
def published_rates() -> tuple[PublishedRate, ...]:
    """Return the article's transactions per second; none if the installation lacks them."""
    try:
        text = resources.files(__name__).joinpath(PGBENCH_FILE).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ()
    return tuple(
        PublishedRate(
            device=row["device"],
            scale=int(row["scale"]),
            processes=int(row["client_machines"]),
            clients=int(row["clients_per_machine"]),
            rounds=int(row["runs"]),
            rate_per_s=float(row["tps_client_1"]),
        )
        for row in csv.DictReader(text.splitlines())
    )


LINES_FILE: Final = "sql-replay-2008.csv"

LINES_SOURCE: Final = (
    "Published: 'Your next XRaid may be an SSD', 15 December 2008 "
    "(reference/sql-replay-2008.csv); 1,000,000 lines of logged SQL replayed on FrontBase with a "
    "database of 40 GB, each measured once. The server, the log and the machine were other than "
    "here, so the figures stand next to each other for scale, not as a comparison; on the SSDs "
    "the size of the cache made no difference."
)


class PublishedLines(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of the article.

    Attributes:
        schema: ``old`` or ``new``.
        database: Version of the server, such as ``FB4``.
        cache_bytes: Cache size of the server; None where it made no difference.
        storage: As the file names it, such as ``single-hdd``.
        lines_per_s: Lines of SQL.
    """

    schema: str
    database: str
    cache_bytes: int | None
    storage: str
    lines_per_s: float


@cache
def published_lines() -> tuple[PublishedLines, ...]:
    """Return the article's lines per second; none if the installation lacks them."""
    try:
        text = resources.files(__name__).joinpath(LINES_FILE).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ()
    return tuple(
        PublishedLines(
            schema=row["schema"],
            database=row["database"],
            cache_bytes=int(row["cache_rdd_mb"]) << 20 if row["cache_rdd_mb"].isdigit() else None,
            storage=row["storage"],
            lines_per_s=float(row["lines_per_second"]),
        )
        for row in csv.DictReader(text.splitlines())
    )
