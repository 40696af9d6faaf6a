"""Published results that a report may draw beside its own, read from what is installed."""

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
    "server were other than here, so the bars stand beside each other for scale, not as a "
    "comparison; with two client machines the figure is that of client 1 alone."
)


class PublishedRate(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of the article.

    Attributes:
        device: As the file names it, such as ``hdd-1.5tb-7200rpm``.
        scale: Of pgbench.
        processes: Client machines, with a database each.
        clients: Of each of them.
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
    """Return the article's transactions per second; none where the installation lacks them."""
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
