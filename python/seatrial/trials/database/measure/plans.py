"""How the server plans the queries that take the most time: the shape of each plan.

One statement of each query, as the trace has it, is explained, never executed: ``EXPLAIN``
without ``ANALYZE``, in a transaction that may only read and is rolled back. The shape is the kinds
of nodes, their relations and indexes, and the order of joins; costs and numbers of rows are left
out, for they differ between any two servers.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from seatrial import _core
from seatrial.errors import TargetError
from seatrial.postgres.connection import connect
from seatrial.trials.database.measure.driver_result import Endpoints

if TYPE_CHECKING:
    import psycopg

QUERIES_MAX: Final = 50
PLANNED: Final = frozenset({"select", "insert", "update", "delete", "merge"})
SHAPE_CHARACTERS_MAX: Final = 300
TIMEOUT_MS: Final = 2_000
_PREPARED: Final = "seatrial_plan"
_READ_ONLY: Final = f"""
    BEGIN READ ONLY; SET LOCAL statement_timeout = {TIMEOUT_MS}; SET LOCAL lock_timeout = 200
"""
_EXPLAIN: Final = "EXPLAIN (FORMAT JSON) "


def plans_of(
    endpoints: Endpoints, trace: str, fingerprints: Sequence[str]
) -> dict[str, tuple[str, str]]:
    """Return hash and shape of the plan of each query that can be explained, by fingerprint.

    Args:
        endpoints: To the database.
        trace: Where a statement of each is found.
        fingerprints: The queries, those with the most time first; the first 50 are looked at.
    """
    examples = _core.trace_examples(trace, list(fingerprints[:QUERIES_MAX]))
    found: dict[str, tuple[str, str]] = {}
    with contextlib.suppress(TargetError):
        opened = connect(endpoints.addresses[0], secret=endpoints.secret)
        with contextlib.closing(opened) as connection:
            for fingerprint, example in examples.items():
                plan = _plan(connection, example)
                if plan is not None:
                    whole = shape(plan)
                    reported = hashlib.sha256(whole.encode()).hexdigest()[:16]
                    found[fingerprint] = reported, _cut(whole)
    return found


def shape(plan: Mapping[str, Any]) -> str:
    """Return the shape of a plan, as ``Nested Loop(Index Scan orders_pkey, Seq Scan lines)``.

    Args:
        plan: A node as ``EXPLAIN (FORMAT JSON)`` tells it.
    """
    kind = str(plan.get("Node Type", ""))
    if plan.get("Strategy") in ("Hashed", "Sorted", "Mixed"):
        kind = f"{plan['Strategy']} {kind}"
    if plan.get("Join Type", "Inner") != "Inner":
        kind = f"{plan['Join Type']} {kind}"
    if kind == "ModifyTable":
        kind = str(plan.get("Operation", kind))
    about = plan.get("Index Name") or plan.get("Relation Name") or plan.get("Function Name")
    named = f"{kind} {about}" if about else kind
    inner = ", ".join(shape(each) for each in plan.get("Plans", ()))
    return f"{named}({inner})" if inner else named


def _plan(connection: psycopg.Connection, example: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the plan of a statement; None where there is none, or it cannot be planned."""
    import psycopg  # noqa: PLC0415 - heavy, and only where there is a server

    text = example["sql"]
    if not isinstance(text, str) or "\0" in text:
        return None
    _, _, kind, statements = _core.fingerprint_sql(text)
    # A second statement in the text would be executed.
    if kind not in PLANNED or statements != 1:
        return None
    try:
        connection.execute(_READ_ONLY)
        reported = _explained(connection, text, example["parameters"])
    except psycopg.Error:  # it needs what its session had: a temporary table, a search_path
        return None
    finally:
        with contextlib.suppress(psycopg.Error):
            connection.execute("ROLLBACK")
            connection.execute(f"DEALLOCATE {_PREPARED}")
    is_reported = isinstance(reported, list) and reported and isinstance(reported[0], dict)
    return reported[0].get("Plan") if is_reported else None


def _explained(
    connection: psycopg.Connection, text: str, parameters: Sequence[str | bytes | None]
) -> Any:  # noqa: ANN401 - whatever JSON holds
    """Return what EXPLAIN tells; values of parameters take part in the plan, as they did."""
    if not parameters:
        return _rows(connection, _EXPLAIN + text)
    connection.execute(f"PREPARE {_PREPARED} AS {text}".encode())
    values = ", ".join(_literal(each) for each in parameters)
    return _rows(connection, f"{_EXPLAIN}EXECUTE {_PREPARED}({values})")


def _rows(connection: psycopg.Connection, text: str) -> Any:  # noqa: ANN401
    row = connection.execute(text.encode()).fetchone()
    return row[0] if row else None


def _literal(value: str | bytes | None) -> str:
    """Return a parameter as a literal whose type the server finds, as it does for the parameter."""
    if value is None:
        return "NULL"
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return "'" + text.replace("'", "''") + "'"


def _cut(whole: str) -> str:
    if len(whole) <= SHAPE_CHARACTERS_MAX:
        return whole
    return f"{whole[: SHAPE_CHARACTERS_MAX - 4]} ..."
