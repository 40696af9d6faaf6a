"""Figures over a sample's per-second readings, and over the rounds of a cell.

A figure uses the readings of the running phase, like the rate (stats/running.py). Figures that are
counted over a whole sample only, such as wait events, include the start-up phase.

Source of the events: PostgreSQL's documentation, "Wait Events of Type ...", versions 13 to 18.
Version 17 writes ``WalSync``, older ones write ``WALSync``; case is ignored.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from seatrial.results.model import Sample, Series
from seatrial.stats.cell_estimates import estimate_of_rounds
from seatrial.stats.estimate import Estimate, t_of, variance
from seatrial.stats.running import RunningPhase

WEIGHTS: Final[Mapping[str, str]] = {
    "device_read_latency_ms": "device_read_per_s",
    "device_write_latency_ms": "device_write_per_s",
    "device_flush_latency_ms": "device_flush_per_s",
    "wal_sync_latency_ms": "wal_syncs_per_s",
}
"""Means per event: a second with more events weighs more."""
COUNTED: Final = ("checkpoints_timed", "checkpoints_requested", "deadlocks")
"""Columns that are counted over a sample."""
CHECKPOINTS: Final = "checkpoints"
_HIDDEN_PREFIXES: Final = ("waits_", "checkpoints_")


@dataclass(frozen=True)
class Round:
    """A sample and its running phase."""

    sample: Sample
    phase: RunningPhase


def entries_from(series: Series, from_s: float) -> int:
    """Return the first entry that starts at or after a time."""
    return math.ceil(from_s / series.period_s - 1e-6) if series.period_s > 0 else 0


def column_mean(sample: Sample, name: str, from_s: float = 0.0) -> float | None:
    """Return a column's mean from a time on, or a count of the whole sample; None if unknown."""
    if name in COUNTED and name in sample.counters:
        # A missing reading leaves a gap in the column, not in the total.
        return sample.counters[name]
    series = sample.series
    if series is None or name not in series.columns:
        return None
    first = entries_from(series, from_s)
    values = series.columns[name][first:]
    weights = series.columns.get(WEIGHTS.get(name, ""), [])[first:] or [1.0] * len(values)
    known = [
        (value, weight)
        for value, weight in zip(values, weights, strict=False)
        if value is not None and weight
    ]
    if not known:
        return None
    if name in COUNTED:
        return math.fsum(value for value, _ in known)
    whole = math.fsum(weight for _, weight in known)
    return math.fsum(value * weight for value, weight in known) / whole


def cell_columns(rounds: Sequence[Round]) -> dict[str, Estimate]:
    """Return every column's figure over the rounds that have it.

    Waits are not included. Timed and requested checkpoints are added up.
    """
    names = dict.fromkeys(
        name
        for each in rounds
        for name in (each.sample.series.columns if each.sample.series else ())
        if not name.startswith(_HIDDEN_PREFIXES)
    )
    found = {}
    for name in names:
        values = [
            value
            for each in rounds
            if (value := column_mean(each.sample, name, each.phase.from_s)) is not None
        ]
        if values:
            found[name] = figure_of_rounds(name, values)
    counts = [value for each in rounds if (value := checkpoints_of(each.sample)) is not None]
    if counts:
        found[CHECKPOINTS] = figure_of_rounds(CHECKPOINTS, counts)
    return found


def checkpoints_of(sample: Sample) -> float | None:
    """Return how many checkpoints began in a whole sample; None if unknown."""
    kinds = [column_mean(sample, name) for name in COUNTED[:2]]
    known = [value for value in kinds if value is not None]
    return math.fsum(known) if known else None


def figure_of_rounds(name: str, values: Sequence[float]) -> Estimate:
    """Return a column's figure: the arithmetic mean of shares and counts, otherwise geometric."""
    unit = unit_of(name)
    if unit in ("share", "count"):
        return mean_of_rounds(values, unit, high_max=1.0 if unit == "share" else math.inf)
    return estimate_of_rounds([max(0.0, value) for value in values], unit)


def mean_of_rounds(values: Sequence[float], unit: str, *, high_max: float) -> Estimate:
    """Return the arithmetic mean of rounds with its t interval, clipped to 0 and ``high_max``.

    Arithmetic means of shares that add up to 1 in every round add up to 1; geometric ones do not.
    """
    rounds = len(values)
    mean = math.fsum(values) / rounds
    if rounds == 1:
        return Estimate(value=mean, low=None, high=None, rounds=1, unit=unit)
    half = t_of(rounds - 1) * math.sqrt(variance(values) / rounds)
    return Estimate(
        value=mean,
        low=max(0.0, mean - half),
        high=max(mean, min(high_max, mean + half)),
        rounds=rounds,
        unit=unit,
    )


def unit_of(name: str) -> str:
    """Return the unit that a column's name ends in."""
    if name == CHECKPOINTS or name in COUNTED or name.startswith(("backends_", "autovacuum_")):
        return "count"
    if name == "transactions_per_s":
        return "tps"
    if name in ("device_read_per_s", "device_write_per_s"):
        return "IOPS"
    endings = {
        "_bytes_per_s": "B/s",
        "_per_s": "1/s",
        "_share": "share",
        "_cores": "cores",
        "_ms": "ms",
    }
    return next((unit for ending, unit in endings.items() if name.endswith(ending)), "count")


ON_CPU: Final = "CPU"
EVENTS_SHOWN_MAX: Final = 12
DOMINATES_SHARE_MIN: Final = 0.4
LEAD_RATIO_MIN: Final = 1.5
"""Over the next largest share: with 40 and 35 % neither dominates."""
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

GROUPS: Final = ("commit", "read", "write", "lock", "standby", "cpu", "client", "other")
"""Groups of wait events, by the bound that they indicate."""

_COMMIT: Final = frozenset({"io:walsync", "io:walwrite", "lwlock:walwrite"})
"""Waits for the log on this server's storage."""
_STANDBY: Final = frozenset({"ipc:syncrep"})
"""Waits of commits for a synchronous standby: its network, storage or replay."""
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
_EVENTS: Final = {"commit": _COMMIT, "read": _READ, "write": _WRITE, "standby": _STANDBY}
_BY_CLASS: Final = {"lock": "lock", "lwlock": "lock", "buffer_pin": "lock", "client": "client"}


def class_of(event: str) -> str:
    """Return the class of a wait event, as the columns name it."""
    return CLASSES.get(event.partition(":")[0].casefold(), "other")


def group_of(event: str) -> str:
    """Return the group of a wait event: one of ``GROUPS``."""
    if event == ON_CPU:
        return "cpu"
    name = event.casefold()
    for group, events in _EVENTS.items():
        if name in events:
            return group
    return _BY_CLASS.get(class_of(event), "other")


def wait_counts(samples: Iterable[Sample]) -> Counter[str]:
    """Return how often active clients were seen in each wait event, over all samples."""
    counts: Counter[str] = Counter()
    for sample in samples:
        if sample.database:
            counts.update(sample.database.waits)
    return +counts


def class_shares(counts: Counter[str]) -> dict[str, float]:
    """Return the share of each wait class, adding up to 1; empty if none was seen."""
    whole = counts.total()
    found: dict[str, float] = defaultdict(float)
    for event, count in counts.most_common():
        found[class_of(event)] += count / whole
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def event_shares(counts: Counter[str]) -> dict[str, float]:
    """Return the shares of the most frequent events, at most 12."""
    whole = counts.total()
    return {event: count / whole for event, count in counts.most_common(EVENTS_SHOWN_MAX) if count}


@dataclass(frozen=True)
class ClientTime:
    """Where the clients spent their time, from sampled wait events.

    Attributes:
        shares: By group, adding up to 1. ``client`` is the time in which the server waited for the
            client: connections that were idle, or idle in transaction.
        events: Share of each event in the same time.
        observations: Number of observations over all samples.
        active_share: Share of the connections that were running a statement; None if unknown.
        active_mean: Mean number of active connections.
        connections_mean: Mean number of connections, active or not; None if unknown.
    """

    shares: dict[str, float]
    events: dict[str, float]
    observations: float
    active_share: float | None
    active_mean: float | None
    connections_mean: float | None = None

    def leading(self, groups: Iterable[str] = GROUPS) -> tuple[str, float]:
        """Return the largest of some groups and its share."""
        return max(
            ((group, self.shares.get(group, 0.0)) for group in groups), key=lambda pair: pair[1]
        )

    def is_confidently_above(self, group: str, other_share: float) -> bool:
        """Return whether a group's share is significantly above another's.

        Two standard errors of a difference of two shares of a multinomial. An observation counts
        once, however many clients it saw, because clients often wait for the same thing.
        """
        share = self.shares.get(group, 0.0)
        if self.observations <= 0:
            return False
        spread = share + other_share - (share - other_share) ** 2
        return share - other_share > 2 * math.sqrt(max(0.0, spread) / self.observations)

    def dominates(self, group: str) -> bool:
        """Return whether a group has 40 % of the time and significantly 1.5 times any other."""
        share = self.shares.get(group, 0.0)
        next_share = max(self.shares.get(name, 0.0) for name in GROUPS if name != group)
        return (
            share >= DOMINATES_SHARE_MIN
            and share >= LEAD_RATIO_MIN * next_share
            and self.is_confidently_above(group, next_share)
        )

    def events_text(self, group: str, count_max: int = 2) -> str:
        """Return the most frequent events of a group, such as ``WALSync, WALWrite``."""
        own = sorted(
            ((share, event) for event, share in self.events.items() if group_of(event) == group),
            reverse=True,
        )
        return ", ".join(event.partition(":")[2] for _, event in own[:count_max])


def client_time(samples: Sequence[Sample]) -> ClientTime | None:
    """Return where the clients spent their time, over all samples; None if nothing was seen.

    Connections that were always idle count, too: all of their time is the client's.
    """
    counts = wait_counts(samples)
    active, idle = (_mean_backends(samples, names) for names in (_ACTIVE, _IDLE))
    if not counts.total() and (active or not idle):
        return None
    active_share = None if active is None else active / ((active + (idle or 0.0)) or 1.0)
    working = 1.0 if active_share is None else active_share
    events = {event: count / counts.total() * working for event, count in counts.items()}
    shares: dict[str, float] = defaultdict(float)
    for event, share in events.items():
        shares[group_of(event)] += share
    shares["client"] += 1 - working
    return ClientTime(
        shares=dict(shares),
        events=events,
        observations=_observation_count(samples, counts),
        active_share=active_share,
        active_mean=active,
        connections_mean=None if active is None else active + (idle or 0.0),
    )


_ACTIVE: Final = ("backends_active",)
_IDLE: Final = ("backends_idle", "backends_idle_in_transaction")


def _mean_backends(samples: Sequence[Sample], names: Sequence[str]) -> float | None:
    """Return the mean number of connections in some states, over the samples that have it."""
    values = [
        math.fsum(known)
        for sample in samples
        if (known := [v for name in names if (v := column_mean(sample, name)) is not None])
    ]
    return math.fsum(values) / len(values) if values else None


def _observation_count(samples: Sequence[Sample], counts: Counter[str]) -> float:
    """Return the number of observations; if it was not recorded, events seen per client."""
    counted = math.fsum(sample.counters.get("observer_looks", 0.0) for sample in samples)
    return counted or counts.total() / max(1, samples[0].cell.threads)
