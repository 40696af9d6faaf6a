"""Whether pgbench's own tables agree with each other: money that was moved is all still there.

Every transaction of its script ``tpcb-like`` adds one amount to an account, a teller and a branch,
and notes it in the history; so the four sums are equal at any time, whatever was lost or mended
below. Source: PostgreSQL's documentation of pgbench, "What Is the Transaction Actually Performed
in pgbench?".
"""

from __future__ import annotations

from typing import Final

import msgspec

from seatrial.errors import TargetError
from seatrial.trials.database.measure.driver_result import DriverResult, Endpoints
from seatrial.trials.database.measure.server_session import ServerSession

HOLDS: Final = "invariant_holds"
"""Among the driver's totals: 1 where the sums agree, 0 where they do not."""
_SUMS: Final = {
    "accounts": "SELECT coalesce(sum(abalance), 0) FROM pgbench_accounts",
    "tellers": "SELECT coalesce(sum(tbalance), 0) FROM pgbench_tellers",
    "branches": "SELECT coalesce(sum(bbalance), 0) FROM pgbench_branches",
    "history": "SELECT coalesce(sum(delta), 0) FROM pgbench_history",
}
_MOVED_BY: Final = {
    "tpcb-like": ("accounts", "tellers", "branches", "history"),
    "simple-update": ("accounts", "history"),
}
"""Which tables each of pgbench's own scripts keeps equal."""


def with_invariant(result: DriverResult, endpoints: Endpoints, script: str) -> DriverResult:
    """Add whether the sums of pgbench's tables agree, in all databases of a way.

    Args:
        result: What the load did.
        endpoints: To the databases, whose server is up.
        script: What ran; of one that is not pgbench's own, nothing is known.
    """
    tables = _MOVED_BY.get(script)
    if tables is None:
        return result
    try:
        notes = [
            note
            for number in range(len(endpoints.addresses))
            for note in _odd(endpoints, number, tables)
        ]
    except TargetError as error:
        # A server that cannot read its own tables has not kept them.
        notes = [f"The sums of pgbench's tables cannot be read: {error.seen.rstrip('.')}."]
    return msgspec.structs.replace(
        result,
        reported=result.reported | {HOLDS: float(not notes)},
        notes=[*result.notes, *notes],
    )


def _odd(endpoints: Endpoints, number: int, tables: tuple[str, ...]) -> list[str]:
    """Return a sentence where the sums of one database differ.

    Raises:
        TargetError: when the server refuses or fails.
    """
    with ServerSession(endpoints, endpoints.addresses[number]) as session:
        rows = {
            name: session.connection.execute(_SUMS[name].encode()).fetchone() for name in tables
        }
    sums = {name: int(row[0]) for name, row in rows.items() if row}
    if len(set(sums.values())) <= 1:
        return []
    told = ", ".join(f"{name} {total}" for name, total in sums.items())
    return [f"The sums of pgbench's tables differ: {told}."]
