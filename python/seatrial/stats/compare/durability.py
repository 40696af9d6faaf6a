"""What weakens a comparison of databases: other servers, and one that keeps less than the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from seatrial.stats.compare.model import Entrant

KEPT: Final[Mapping[str, str]] = {
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "wal_sync_method": "fdatasync",
}
"""Settings on which it depends what a crash leaves, with PostgreSQL's defaults on Linux."""


def unlike_servers(a: Entrant, b: Entrant) -> Iterator[str]:
    """Yield what differs between two sides' servers, if it makes their rates no like things.

    Args:
        a: The measure.
        b: What is judged.
    """
    names = (a.side.name, b.side.name)
    servers = [_servers(entrant) for entrant in (a, b)]
    if all(servers) and servers[0] != servers[1]:
        reported = " and ".join(
            f"{name} was measured on {', '.join(sorted(each))}"
            for name, each in zip(names, servers, strict=True)
        )
        yield f"{reported}: what differs may be the server's version, not the storage."
    for setting in KEPT:
        values = [_values(entrant, setting) for entrant in (a, b)]
        if all(values) and values[0] != values[1]:
            reported = " and ".join(
                f"{', '.join(sorted(each))} on {name}"
                for name, each in zip(names, values, strict=True)
            )
            yield (
                f"{setting} is {reported}: the two do not keep the same of what they acknowledged, "
                "or not in the same way, so that their rates are no like things."
            )


def _servers(entrant: Entrant) -> set[str]:
    return {sample.database.server for sample in entrant.samples if sample.database}


def _values(entrant: Entrant, setting: str) -> set[str]:
    """Return the values of a setting on a side; empty without a database."""
    return {
        sample.database.settings.get(setting, KEPT[setting])
        for sample in entrant.samples
        if sample.database
    }
