"""One replay from the parts that several hosts played of its trace.

Every count is added; a percentile is computed from added bucket counts alone. Statements of other
hosts' sessions are skipped by each host, as ``other_host``: what none of them sent, skipped or left
is of hosts that were lost, and nothing else may be missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, Final, Literal, TypedDict

import msgspec

from seatrial import _core
from seatrial.errors import SeatrialError
from seatrial.measure.engine import OperationParts, SampleParts
from seatrial.results.replay import (
    LOST_HOST,
    ReplayAccount,
    ReplayClassRows,
    ReplayCommits,
    ReplayDelays,
    ReplayErrors,
    ReplayLag,
    ReplayMoment,
    ReplayQuery,
    ReplayRecord,
    ReplayRows,
    ReplaySessions,
)

OTHER_HOST: Final = "other_host"
EXAMPLES_MAX: Final = 32
End = Literal["complete", "interrupted", "server_lost"]
NS_PER_S: Final = 1e9


class PlayedCounts(TypedDict):
    """Encoded histograms of a playback: by fingerprint and kind, and of its lags."""

    queries: dict[str, dict[str, bytes]]
    lag: bytes
    driver_lag: bytes


class HostReplay(msgspec.Struct, frozen=True, kw_only=True):
    """What one host played.

    Attributes:
        name: The host.
        parts: Its sample's parts, as ``PlaybackResult.parts``.
        record: Of its sessions; the others' statements are skipped as ``other_host``.
        counts: ``PlaybackResult.counts``.
        end: ``complete``, ``interrupted`` or ``server_lost``.
        words: The server's message where it was lost.
    """

    name: str
    parts: SampleParts
    record: ReplayRecord
    counts: PlayedCounts
    end: End
    words: str


def merged_record(hosts: Sequence[HostReplay], *, is_whole: bool) -> ReplayRecord:
    """Return the record of all hosts together; the client is that of the busiest.

    Args:
        hosts: Those that returned a result, at least one.
        is_whole: Whether no host was lost.

    Raises:
        SeatrialError: for an internal error: the statements do not add up.
    """
    ordered = sorted(hosts, key=lambda each: each.name)
    records = [each.record for each in ordered]
    timeline, slice_s = _timeline(records)
    return msgspec.structs.replace(
        records[0],
        classes=_accounts(records, is_whole=is_whole),
        commits=ReplayCommits(**_sums([each.commits for each in records])),
        errors=_errors(records),
        rows=_rows(records),
        lag=_lag(ordered),
        timeline=timeline,
        timeline_slice_s=slice_s,
        queries=_queries(ordered),
        queries_dropped=sum(each.queries_dropped for each in records),
        order=_order(records),
        sessions=_sessions(records),
        client=max(
            (each.client for each in records), key=lambda c: c.cpu_user_ns + c.cpu_system_ns
        ),
        captured_s=max(each.captured_s for each in records),
    )


def merged_end(hosts: Sequence[HostReplay]) -> tuple[End, str]:
    """Return how the replay ended on all hosts, and the server's message where it was lost."""
    ranks: dict[End, int] = {"server_lost": 0, "interrupted": 1, "complete": 2}
    first = min(hosts, key=lambda each: (ranks[each.end], each.name))
    return first.end, first.words


def merged_operations(hosts: Sequence[HostReplay]) -> dict[str, OperationParts]:
    """Return counts and histograms by class of statements, added."""
    found: dict[str, OperationParts] = {}
    names = sorted({name for each in hosts for name in each.parts["operations"]})
    for name in names:
        own = [e.parts["operations"][name] for e in hosts if name in e.parts["operations"]]
        found[name] = {
            "completed": sum(e["completed"] for e in own),
            "failed": sum(e["failed"] for e in own),
            "transferred_bytes": 0,
            "response": _histogram(e["response"] for e in own).encode(),
            "service": _histogram(e["service"] for e in own if e["service"]).encode(),
        }
    return found


def _histogram(encoded: Iterable[bytes]) -> _core.Histogram:
    decoded = (_core.Histogram.decode(each) for each in encoded)
    return reduce(lambda total, each: total.merged(each), decoded, _core.Histogram.of([]))


def _sums(parts: Sequence[Any], *leave_out: str) -> dict[str, int]:
    """Return the sums of all number fields of equal structures, but for some."""
    return {
        name: sum(getattr(each, name) for each in parts)
        for name in parts[0].__struct_fields__
        if name not in leave_out and isinstance(getattr(parts[0], name), int)
    }


def _added(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return dict(sorted(total.items()))


def _accounts(records: Sequence[ReplayRecord], *, is_whole: bool) -> dict[str, ReplayAccount]:
    names = sorted({name for each in records for name in each.classes})
    return {name: _account(name, records, is_whole=is_whole) for name in names}


def _account(name: str, records: Sequence[ReplayRecord], *, is_whole: bool) -> ReplayAccount:
    """Return the account of one class: every statement of the trace once.

    Raises:
        SeatrialError: for an internal error: the statements do not add up.
    """
    own = [each.classes[name] for each in records if name in each.classes]
    captured = {each.captured for each in own}
    skipped = _added(each.skipped for each in own)
    skipped.pop(OTHER_HOST, None)
    sums = _sums(own, "captured")
    missing = max(captured) - sums["ok"] - sums["failed"] - sums["not_reached"]
    missing -= sum(skipped.values())
    if len(own) != len(records) or len(captured) != 1 or missing < 0 or (missing and is_whole):
        raise SeatrialError(
            seen=f"The statements of class {name} do not add up over {len(records)} hosts: "
            f"{max(captured)} were captured, and {missing} of them are missing",
            cause="The hosts have different traces, or this is a defect of Seatrial",
            next_step="Compare the trace on the hosts; if it is the same, please report it",
        )
    if missing:
        skipped[LOST_HOST] = missing
    return ReplayAccount(captured=max(captured), skipped=skipped, **sums)


def _errors(records: Sequence[ReplayRecord]) -> ReplayErrors:
    same: dict[tuple[str, ...], list[Any]] = {}
    for each in (example for record in records for example in record.errors.examples):
        key = (each.kind, each.captured_sqlstate, each.sqlstate, each.text)
        same.setdefault(key, []).append(each)
    return ReplayErrors(
        **_sums([each.errors for each in records]), examples=_examples(same.values())
    )


def _examples(groups: Iterable[Sequence[Any]]) -> list[Any]:
    """Return the first of each group with the count of all, those with the most first."""
    joined = [
        msgspec.structs.replace(
            min(group, key=lambda each: each.number), count=sum(each.count for each in group)
        )
        for group in groups
    ]
    return sorted(joined, key=lambda each: (-each.count, each.number))[:EXAMPLES_MAX]


def _rows(records: Sequence[ReplayRecord]) -> ReplayRows:
    rows = [each.rows for each in records]
    same: dict[str, list[Any]] = {}
    for each in (example for one in rows for example in one.examples):
        same.setdefault(each.text, []).append(each)
    names = sorted({name for one in rows for name in one.by_class})
    by_class = {
        name: ReplayClassRows(**_sums([one.by_class[name] for one in rows if name in one.by_class]))
        for name in names
    }
    return ReplayRows(**_sums(rows), examples=_examples(same.values()), by_class=by_class)


def _lag(hosts: Sequence[HostReplay]) -> ReplayLag:
    lags = [each.record.lag for each in hosts]
    lag = _histogram(each.counts["lag"] for each in hosts)
    driver = _histogram(each.counts["driver_lag"] for each in hosts)
    computed = {
        "ns_p50": lag.percentile_ns(50.0),
        "ns_p99": lag.percentile_ns(99.0),
        "ns_max": lag.max_ns,
        "driver_ns_p99": driver.percentile_ns(99.0),
        "driver_ns_max": driver.max_ns,
    }
    return ReplayLag(**_sums(lags, *computed), **computed)


def _queries(hosts: Sequence[HostReplay]) -> list[ReplayQuery]:
    same: dict[str, list[ReplayQuery]] = {}
    for each in (query for host in hosts for query in host.record.queries):
        same.setdefault(each.fingerprint, []).append(each)
    joined = [
        _query(own, [e.counts["queries"][name] for e in hosts if name in e.counts["queries"]])
        for name, own in same.items()
    ]
    return sorted(joined, key=lambda e: (-e.service_ns_sum, -(e.ok + e.failed), e.text))


def _query(own: Sequence[ReplayQuery], counts: Sequence[Mapping[str, bytes]]) -> ReplayQuery:
    max_ns = max(each.service_ns_max for each in own)
    percentiles = {}
    for kind, percents in (
        ("service", (50, 95, 99)),
        ("response", (50, 99)),
        ("captured", (50, 95, 99)),
    ):
        histogram = _histogram(each[kind] for each in counts)
        for percent in percents:
            found_ns = histogram.percentile_ns(percent)
            percentiles[f"{kind}_ns_p{percent}"] = (
                min(found_ns, max_ns) if kind == "service" else found_ns
            )
    sums = _sums(own, "service_ns_max", *percentiles)
    return ReplayQuery(
        fingerprint=own[0].fingerprint,
        text=own[0].text,
        class_=own[0].class_,
        service_ns_max=max_ns,
        **percentiles,
        **sums,
    )


def _order(records: Sequence[ReplayRecord]) -> ReplayDelays:
    own = [each.order for each in records]
    sums = {name: value for name, value in _sums(own).items() if name != "edge_ns"}
    return msgspec.structs.replace(own[0], **sums, held_by=_added(each.held_by for each in own))


def _sessions(records: Sequence[ReplayRecord]) -> ReplaySessions:
    own = [each.sessions for each in records]
    words = next((each.words for each in own if each.words), "")
    return ReplaySessions(**_sums(own), words=words)


def _timeline(records: Sequence[ReplayRecord]) -> tuple[list[ReplayMoment], float]:
    """Return the timelines added, in slices as long as the longest."""
    slice_s = max(each.timeline_slice_s for each in records)
    widened = [_widened(each.timeline, round(slice_s / each.timeline_slice_s)) for each in records]
    length = max(map(len, widened))
    return [
        _at_once([each[index] for each in widened if index < len(each)]) for index in range(length)
    ], slice_s


def _widened(moments: Sequence[ReplayMoment], factor: int) -> list[ReplayMoment]:
    groups = [moments[first : first + factor] for first in range(0, len(moments), factor)]
    return [
        msgspec.structs.replace(_at_once(group), sessions=group[-1].sessions) for group in groups
    ]


def _at_once(moments: Sequence[ReplayMoment]) -> ReplayMoment:
    sums = _sums(moments, "lag_ns_max")
    lags = [each.lag_ns_max for each in moments if each.lag_ns_max is not None]
    return ReplayMoment(
        **sums,
        lag_ns_max=max(lags, default=None),
        lag_ns_mean=_mean([(each.lag_ns_mean, each.due) for each in moments]),
        response_ns_mean=_mean([(each.response_ns_mean, each.answered) for each in moments]),
    )


def _mean(parts: Sequence[tuple[float | None, int]]) -> float | None:
    known = [(mean, count) for mean, count in parts if mean is not None and count]
    total = sum(count for _, count in known)
    return sum(mean * count for mean, count in known) / total if total else None
