"""The JSON documents of watching: one for each interval, on a line of its own; one a recording."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec

from seatrial.published import Amount, Count, filled, one_of, publish
from seatrial.report.exports.json_document import Document
from seatrial.trials.watch.analysis.activity import OPERATIONS, Losses, RequestGroup, broken_down
from seatrial.trials.watch.analysis.events import Frame, Mark, Stall
from seatrial.trials.watch.analysis.headroom import Headroom
from seatrial.trials.watch.analysis.load.comparison import LoadFigure
from seatrial.trials.watch.analysis.load.profile import LoadProfile
from seatrial.trials.watch.recording import RecordingMetadata

if TYPE_CHECKING:
    from seatrial._core import Histogram

_BY: Final = ("disk", "operation", "is_sync", "length_bytes_min", "process", "relation")
_PERCENTS: Final = (50.0, 90.0, 99.0, 99.9, 100.0)


class WatchedRequests(msgspec.Struct, frozen=True, kw_only=True):
    """Requests of an interval that share these properties.

    Attributes:
        disk: Its name in the kernel.
        operation: Their operation.
        is_sync: Whether a process waited for them; null where that is unknown.
        length_bytes_min: The shortest length of their class, which extends to less than twice
            that; null where it is unknown.
        process: Name of the process that sent them; empty where that is unknown.
        relation: Table, index or other part of the database; empty without ``--url``.
        requests: Completed requests.
        failed: Those of them that failed.
        transferred_bytes: Their bytes.
        device_ns_mean: Mean time at the device; at level 1 with the time in the queue.
        device_ns: Percentiles of the time at the device (p50, p90, p99, p99.9, p100); empty at
            level 1.
        queue_ns: Percentiles of the time in the queue; empty where that is unknown.
    """

    disk: str
    operation: Annotated[str, one_of(*OPERATIONS)]
    is_sync: bool | None
    length_bytes_min: Count | None
    process: str
    relation: str
    requests: Count
    failed: Count
    transferred_bytes: Count
    device_ns_mean: Amount
    device_ns: dict[str, Count]
    queue_ns: dict[str, Count]


class WatchDocument(Document, frozen=True, kw_only=True):
    """The block requests of an interval.

    ``seatrial watch --json`` prints one a line.

    Attributes:
        ended_at: Unix time in seconds.
        duration_s: Length of the interval.
        requests: The most bytes first.
        lost: Requests since the start that are not included.
        marks: Markers that were set meanwhile.
        stalls: Stalls that began, lasted or ended meanwhile, in their latest state.
        readings: Further readings, by panel and name: ``pressure`` (shares of the time in
            which tasks waited for I/O), ``group_bytes`` and ``group_requests`` (per second, of the
            control group of the server or process, by operation and device), ``server_requests``
            and ``server_buffers`` (per second), ``server_ns`` (their ns per second),
            ``server_wal`` (bytes per second), ``server_waits`` (active sessions at one moment).
        headroom: The load of each disk on the load line that was measured of it.
    """

    kind: Literal["watch"] = "watch"
    ended_at: float
    duration_s: float
    requests: list[WatchedRequests]
    lost: Losses
    marks: list[Mark]
    stalls: list[Stall]
    readings: dict[str, dict[str, float]]
    headroom: list[Headroom]


def watch_document(frame: Frame) -> str:
    """Return an interval that ends now and what happened in it, as one line."""
    interval = frame.interval
    document = WatchDocument(
        ended_at=time.time(),
        duration_s=round(interval.seconds, 3),
        requests=[_requests(each) for each in broken_down(interval.groups, _BY)],
        lost=interval.lost,
        marks=[*frame.marks],
        stalls=[*frame.stalls],
        readings={name: dict(each) for name, each in interval.readings.items()},
        headroom=[*frame.headroom],
    )
    return msgspec.json.encode(publish(document)).decode()


def _requests(group: RequestGroup) -> WatchedRequests:
    return filled(
        WatchedRequests,
        group,
        device_ns_mean=group.device_ns_sum / max(1, group.requests),
        device_ns=_percentiles(group.device),
        queue_ns=_percentiles(group.queue),
    )


def _percentiles(times: Histogram | None) -> dict[str, int]:
    if times is None or not times.count:
        return {}
    return {f"p{percent:g}": times.percentile_ns(percent) for percent in _PERCENTS}


class RecordingDocument(Document, frozen=True, kw_only=True):
    """The load of a recording.

    ``seatrial trace show --json``.

    Attributes:
        about: The metadata of the recording.
        verdict: The kind of the load, in one line.
        notable: Notable properties, in a sentence each.
        doubts: Limits of the figures, in a sentence each.
        load: The figures.
    """

    kind: Literal["recording"] = "recording"
    about: RecordingMetadata
    verdict: str
    notable: list[str]
    doubts: list[str]
    load: LoadProfile


class LoadsDocument(Document, frozen=True, kw_only=True):
    """Two loads side by side.

    ``seatrial trace compare --json``.

    Attributes:
        a: The first recording.
        b: The second one.
        figures: Figures of both loads.
    """

    kind: Literal["loads"] = "loads"
    a: str
    b: str
    figures: list[LoadFigure]
