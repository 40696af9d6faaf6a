"""What kind of load a recording is: all properties together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from seatrial.published import Amount, Count
from seatrial.trials.watch.analysis.load.arrivals import Arrivals, arrivals_of, length_s
from seatrial.trials.watch.analysis.load.concurrency import Concurrency, concurrency_of
from seatrial.trials.watch.analysis.load.footprint import Footprint, footprint_of
from seatrial.trials.watch.analysis.load.mix import (
    OperationShare,
    latencies_ns,
    mix_of,
    percentiles_ns,
)
from seatrial.trials.watch.analysis.load.reuse import Reuse, reuse_of
from seatrial.trials.watch.analysis.load.sequential import Sequentiality, sequentiality_of
from seatrial.trials.watch.recording import PLACE, TIME

if TYPE_CHECKING:
    from seatrial.trials.watch.recording import Recording


class Party(msgspec.Struct, frozen=True, kw_only=True):
    """Who sent requests, or what they belong to.

    Attributes:
        name: Of the process, the relation or the device; empty where it is unknown.
        reads: Read requests.
        writes: Write requests.
        transferred_bytes: Their bytes.
        latency_ns_p99: 99th percentile from arrival to completion; null where it is unknown, as of
            fewer than 1,000 requests.
    """

    name: str
    reads: Count
    writes: Count
    transferred_bytes: Count
    latency_ns_p99: Count | None


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """What kind of load a recording is.

    Attributes:
        requests: Number of requests.
        seconds: Length of the recording.
        mix: By operation, the most requests first.
        sequentiality: Of reads and of writes; empty where places are made up.
        arrivals: Rate and burstiness; null where times are made up.
        footprint: Different bytes, and working sets.
        reuse: Reuse of blocks; null without reads and writes.
        concurrency: Requests in flight; null where no latency is known.
        devices: By device, the most bytes first.
        processes: By process likewise; empty where it is unknown.
        relations: By relation likewise; empty where requests are not assigned.
    """

    requests: Count
    seconds: Amount
    mix: list[OperationShare]
    sequentiality: list[Sequentiality]
    arrivals: Arrivals | None
    footprint: Footprint
    reuse: Reuse | None
    concurrency: Concurrency | None
    devices: list[Party]
    processes: list[Party]
    relations: list[Party]

    def share_of(self, operation: str) -> float:
        """Return the share of an operation in all requests."""
        return sum(e.requests for e in self.mix if e.operation == operation) / (self.requests or 1)


def load_of(recording: Recording) -> Load:
    """Return what kind of load a recording is."""
    about = recording.about
    return Load(
        requests=recording.requests,
        seconds=length_s(recording),
        mix=mix_of(recording),
        sequentiality=[] if PLACE in about.made_up else sequentiality_of(recording),
        arrivals=None if TIME in about.made_up else arrivals_of(recording),
        footprint=footprint_of(recording),
        reuse=reuse_of(recording),
        concurrency=concurrency_of(recording),
        devices=_sorted(_parties(recording, "device", [each.name for each in about.devices])),
        processes=_sorted(_parties(recording, "process", about.processes)),
        relations=_sorted(_parties(recording, "relation", about.relations)),
    )


def _sorted(parties: Iterator[Party]) -> list[Party]:
    return sorted(parties, key=lambda each: (-each.transferred_bytes, -each.reads - each.writes))


def _parties(
    recording: Recording, column: str, names: list[str] | tuple[str, ...]
) -> Iterator[Party]:
    """Yield the requests by the values of a column; nothing where all are unknown."""
    import numpy as np  # noqa: PLC0415 - takes 0.1 s

    if not names or not recording.requests:
        return
    places = getattr(recording, column).astype(np.int64) + 1
    count = len(names) + 1
    reads = np.bincount(places[recording.operation == 0], minlength=count)
    writes = np.bincount(places[recording.operation == 1], minlength=count)
    sums = np.bincount(places, weights=recording.length_bytes, minlength=count)
    latency_ns = latencies_ns(recording)
    order = np.argsort(places, kind="stable")
    edges = np.searchsorted(places[order], np.arange(count + 1))
    for place in range(count):
        own = latency_ns[order[edges[place] : edges[place + 1]]]
        if not len(own):
            continue
        known = own[own >= 0]
        yield Party(
            name=names[place - 1] if place else "",
            reads=int(reads[place]),
            writes=int(writes[place]),
            transferred_bytes=int(sums[place]),
            latency_ns_p99=percentiles_ns(known).get("p99"),
        )
