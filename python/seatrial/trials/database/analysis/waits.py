"""What the clients of a database waited for, from how often they were seen in a wait.

Source of the events: PostgreSQL's documentation, "Wait Events of Type ...", versions 13 to 18.
Version 17 writes ``WalSync`` where older ones write ``WALSync``; case is not looked at.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from seatrial.results.model import Sample
from seatrial.trials.database.analysis.readings import column_mean

ON_CPU: Final = "CPU"
EVENTS_TOLD_MAX: Final = 12
DOMINATES_SHARE_MIN: Final = 0.4
LEAD_RATIO_MIN: Final = 1.5
"""Over the next largest part: what is 40 and 35 % is neither."""
CLASSES: Final = {
    "cpu": "cpu",
    "io": "io",
    "lwlock": "lwlock",
    "lock": "lock",
    "client": "client",
    "ipc": "ipc",
    "timeout": "timeout",
    "bufferpin": "buffer_pin",
    "buffer": "buffer_pin",
}

GROUPS: Final = ("commit", "read", "write", "lock", "cpu", "client", "other")
"""What a client's time may go into, as far as it says what bounds the database."""

_COMMIT: Final = frozenset(
    {"io:walsync", "io:walwrite", "lwlock:walwrite", "ipc:syncrep", "lwlock:syncrep"}
)
_READ: Final = frozenset(
    {
        *("io:datafileread", "io:datafileprefetch", "io:slruread", "io:aioiocompletion"),
        *("io:aioiouringexecution", "io:aioiouringsubmit", "ipc:bufferio", "lwlock:bufferio"),
        *("lwlock:buffer_io", "lwlock:aiouringcompletion"),
    }
)
_WRITE: Final = frozenset(
    {
        *("io:datafilewrite", "io:datafileflush", "io:datafilesync", "io:datafileextend"),
        *("io:datafileimmediatesync", "io:datafiletruncate", "io:walinitwrite"),
        *("io:walinitsync", "io:slruwrite", "io:slrusync", "io:slruflushsync"),
        *("ipc:checkpointstart", "ipc:checkpointdone"),
    }
)
_BY_CLASS: Final = {"lock": "lock", "lwlock": "lock", "buffer_pin": "lock", "client": "client"}


def class_of(event: str) -> str:
    """Return the class of a wait as our columns name it."""
    return CLASSES.get(event.partition(":")[0].casefold(), "other")


def group_of(event: str) -> str:
    """Return what a wait says of what bounds the database: one of ``GROUPS``."""
    if event == ON_CPU:
        return "cpu"
    name = event.casefold()
    for group, events in (("commit", _COMMIT), ("read", _READ), ("write", _WRITE)):
        if name in events:
            return group
    return _BY_CLASS.get(class_of(event), "other")


def sightings(samples: Iterable[Sample]) -> Counter[str]:
    """Return how often active clients were seen in each wait, over all samples."""
    seen: Counter[str] = Counter()
    for sample in samples:
        if sample.database:
            seen.update(sample.database.waits)
    return +seen


def class_shares(seen: Counter[str]) -> dict[str, float]:
    """Return the share of each class in what was seen, summing up to 1; empty if nothing was."""
    whole = seen.total()
    found: dict[str, float] = defaultdict(float)
    for event, count in seen.most_common():
        found[class_of(event)] += count / whole
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def event_shares(seen: Counter[str]) -> dict[str, float]:
    """Return the shares of the most frequent events, at most 12."""
    whole = seen.total()
    return {event: count / whole for event, count in seen.most_common(EVENTS_TOLD_MAX) if count}


@dataclass(frozen=True)
class ClientTime:
    """What the clients' time went into, as far as it was seen.

    Attributes:
        shares: By group, summing up to 1. ``client`` holds the time in which the server waited for
            the client: connections that were idle, or idle in a transaction.
        events: Share of each event in the same time.
        looks: How often was looked, over all samples.
        active_share: Of the connections, those with a statement under way; None if unknown.
        active_mean: How many those were.
        connections_mean: How many connections there were, active or not; None if unknown.
    """

    shares: dict[str, float]
    events: dict[str, float]
    looks: float
    active_share: float | None
    active_mean: float | None
    connections_mean: float | None = None

    def leading(self, groups: Iterable[str] = GROUPS) -> tuple[str, float]:
        """Return the largest of some groups and its share."""
        return max(
            ((group, self.shares.get(group, 0.0)) for group in groups), key=lambda pair: pair[1]
        )

    def surely_above(self, group: str, other_share: float) -> bool:
        """Tell whether a group's share is above another's by more than few looks make.

        Two standard errors of a difference of two shares of a multinomial; a look counts once,
        however many clients it saw, because clients wait for the same thing together.
        """
        share = self.shares.get(group, 0.0)
        if self.looks <= 0:
            return False
        spread = share + other_share - (share - other_share) ** 2
        return share - other_share > 2 * math.sqrt(max(0.0, spread) / self.looks)

    def dominates(self, group: str, hidden_share: float = 0.0) -> bool:
        """Tell whether a group has 40 % of the time, and surely half as much again as any other.

        Args:
            group: Which.
            hidden_share: Of the time, how much of the group's may have been a wait for a processor:
                a process that was woken shows the wait that it has left until it runs.
        """
        share = self.shares.get(group, 0.0) - hidden_share
        next_share = max(
            self.shares.get(name, 0.0) + (hidden_share if name == "cpu" else 0.0)
            for name in GROUPS
            if name != group
        )
        return (
            share >= DOMINATES_SHARE_MIN
            and share >= LEAD_RATIO_MIN * next_share
            and self.surely_above(group, next_share + hidden_share)
        )

    def told(self, group: str, count_max: int = 2) -> str:
        """Return the most frequent events of a group, such as ``WALSync, WALWrite``."""
        own = sorted(
            ((share, event) for event, share in self.events.items() if group_of(event) == group),
            reverse=True,
        )
        return ", ".join(event.partition(":")[2] for _, event in own[:count_max])


def client_time(samples: Sequence[Sample]) -> ClientTime | None:
    """Return what the clients' time went into, over all samples; None where nothing was seen.

    Connections that were idle in every look were seen, too: all of their time is the client's.
    """
    seen = sightings(samples)
    active, idle = (_mean_backends(samples, names) for names in (_ACTIVE, _IDLE))
    if not seen.total() and (active or not idle):
        return None
    active_share = None if active is None else active / ((active + (idle or 0.0)) or 1.0)
    working = 1.0 if active_share is None else active_share
    events = {event: count / seen.total() * working for event, count in seen.items()}
    shares: dict[str, float] = defaultdict(float)
    for event, share in events.items():
        shares[group_of(event)] += share
    shares["client"] += 1 - working
    return ClientTime(
        shares=dict(shares),
        events=events,
        looks=_looks(samples, seen),
        active_share=active_share,
        active_mean=active,
        connections_mean=None if active is None else active + (idle or 0.0),
    )


_ACTIVE: Final = ("backends_active",)
_IDLE: Final = ("backends_idle", "backends_idle_in_transaction")


def _mean_backends(samples: Sequence[Sample], names: Sequence[str]) -> float | None:
    """Return how many connections were in some states, in the mean over samples that know it."""
    values = [
        math.fsum(known)
        for sample in samples
        if (known := [v for name in names if (v := column_mean(sample, name)) is not None])
    ]
    return math.fsum(values) / len(values) if values else None


def _looks(samples: Sequence[Sample], seen: Counter[str]) -> float:
    """Return how often was looked; where that was not kept, what was seen for each client."""
    counted = math.fsum(sample.counters.get("observer_looks", 0.0) for sample in samples)
    return counted or seen.total() / max(1, samples[0].cell.threads)
