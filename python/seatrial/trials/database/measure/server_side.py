"""What the server itself tells of a replay's queries: counters around it, plans after it."""

from __future__ import annotations

import msgspec

from seatrial.results.replay import ReplayRecord, ReplayServerQuery
from seatrial.trials.database.measure.driver_result import Endpoints
from seatrial.trials.database.measure.plans import plans_of
from seatrial.trials.database.measure.statements import ServerCounts


class ServerSide:
    """What the server tells from now on; nothing of it is reset or changed.

    Args:
        endpoints: To the database.
    """

    def __init__(self, endpoints: Endpoints) -> None:
        self._endpoints = endpoints
        self._counts = ServerCounts(endpoints).begin()

    def told(self, record: ReplayRecord, trace: str) -> tuple[ReplayRecord, list[str]]:
        """Return a record with what the server tells of its queries, and notes.

        Args:
            record: What came of the replay.
            trace: What was played.
        """
        if record.end == "server_lost":
            return record, []
        counters, notes = self._counts.grown()
        keys = [query.fingerprint for query in record.queries]
        plans = plans_of(self._endpoints, trace, keys)
        queries = []
        for key in keys:
            own = counters.get(key)
            plan_hash, plan_shape = plans.get(key, ("", ""))
            if own is None and not plan_hash:
                continue
            own = own or ReplayServerQuery(fingerprint=key)
            queries.append(msgspec.structs.replace(own, plan_hash=plan_hash, plan_shape=plan_shape))
        return msgspec.structs.replace(record, queries_server=queries), notes
