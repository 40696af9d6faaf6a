"""Telemetry of many devices: its tables and history, and the transactions on them.

Each minute every device reports once, so rows are in the order of time and belong to devices all
over the primary key: every batch accesses as many leaf pages of the index.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from seatrial.trials.database.measure.pgbench import Script, Scripts
from seatrial.trials.database.study.cost import history_rows
from seatrial.trials.database.study.workloads import DatabaseSpec, LoadSpec

if TYPE_CHECKING:
    import psycopg

INGEST: Final = "ingest"
QUERY: Final = "query"
OBJECTS: Final = ["table telemetry_sample", "function telemetry_now", "sequence telemetry_number"]
"""What ``load`` creates; the other function goes with the table."""
LOAD_ROWS_MAX: Final = 200_000
"""Rows stored by one transaction of the load."""

_FOLDER: Final = Path(__file__).parent / "scripts"
_WEIGHTS: Final = 1000
_STRIDES: Final = (7919, 104729, 1299709)  # primes


def scripts_of(spec: DatabaseSpec) -> Scripts:
    """Return the scripts of a telemetry cell's clients, with their shares."""
    query_weight = round(spec.query_share * _WEIGHTS)
    weights = {INGEST: _WEIGHTS - query_weight, QUERY: query_weight}
    return Scripts(
        scripts=[
            Script(name=str(_FOLDER / f"{name}.sql"), weight=weight, operation=name)
            for name, weight in weights.items()
            if weight
        ],
        variables={"devices": spec.load.devices, "batch_rows": spec.batch_rows},
    )


def load(connection: psycopg.Connection, spec: LoadSpec) -> Iterator[int]:
    """Create the tables and store the history; yield the rows stored so far, after each part.

    Raises:
        psycopg.Error: when the server refuses.
    """
    stride = next(prime for prime in _STRIDES if math.gcd(prime, spec.devices) == 1)
    schema = (_FOLDER / "telemetry_schema.sql").read_text()
    connection.execute(schema.format(devices=spec.devices, stride=stride).encode())
    whole_rows = history_rows(spec)
    for first in range(0, whole_rows, LOAD_ROWS_MAX):
        rows = min(LOAD_ROWS_MAX, whole_rows - first)
        connection.execute(
            "INSERT INTO telemetry_sample SELECT * FROM telemetry_rows(%s, %s)",
            (first + rows, rows),
        )
        yield first + rows
    connection.execute("SELECT setval('telemetry_number', %s)", (whole_rows,))
    # VACUUM requires a separate statement.
    for statement in (_FOLDER / "telemetry_indexes.sql").read_text().split(";"):
        if statement.strip():
            connection.execute(statement.encode())


def set_batch(connection: psycopg.Connection, batch_rows: int) -> None:
    """Let each batch take so many numbers, so that no two batches store the same row.

    Raises:
        psycopg.Error: when the server refuses.
    """
    with connection.transaction():
        # Without it, a missing synchronous standby would stop us here, without a message.
        connection.execute("SET LOCAL synchronous_commit = local")
        connection.execute(
            f"ALTER SEQUENCE telemetry_number INCREMENT BY {int(batch_rows)}".encode()
        )
