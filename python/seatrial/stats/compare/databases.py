"""What differs between the servers of two sides: version, settings, the state they started in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from seatrial.results.model import Sample

DEFAULT: Final = "the default"
"""Stands for a setting that one side gives and the other leaves as the server has it."""

_OF_THE_PLACE: Final = frozenset(
    {
        *("cluster_name", "config_file", "data_directory", "external_pid_file", "hba_file"),
        *("ident_file", "listen_addresses", "log_directory", "port", "unix_socket_directories"),
    }
)
"""Settings that say where a server is, and not how fast."""


def server_facts(samples: Sequence[Sample]) -> dict[str, Any]:
    """Return server, settings and start state of a side's samples; empty without a database.

    A setting that is a factor of the study, so that its values differ, tells the sides apart by
    its cells already and is left out.
    """
    records = [sample.database for sample in samples if sample.database]
    if not records:
        return {}
    names = dict.fromkeys(name for record in records for name in record.settings)
    settings = {
        name: records[-1].settings.get(name, DEFAULT)
        for name in names
        if name not in _OF_THE_PLACE and len({record.settings.get(name) for record in records}) == 1
    }
    return {
        "server": ", ".join(sorted({record.server for record in records})),
        "start_state": ", ".join(sorted({record.start_state for record in records})),
        "settings": settings,
    }


def with_defaults(a: dict[str, Any], b: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the facts of two sides, each with the settings that only the other one gives."""
    of_a, of_b = (side.get("database", {}).get("settings") for side in (a, b))
    if of_a is None or of_b is None:
        return a, b
    usual = dict.fromkeys([*of_a, *of_b], DEFAULT)
    return (
        a | {"database": a["database"] | {"settings": usual | of_a}},
        b | {"database": b["database"] | {"settings": usual | of_b}},
    )
