"""A trace replayed by several hosts on one server.

Every host reads the trace -> clocks are read -> every host gets the start as an instant of its own
monotonic clock -> they replay, without communication -> results -> clocks are read again.

Counts are summed; percentiles are computed from summed bucket counts. Each host skips statements of
other hosts' sessions, as ``other_host``: statements that no host sent, skipped or left
are those of lost hosts; no others may be missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, Final, Literal, TypedDict

import msgspec

from seatrial import _core
from seatrial.errors import SeatrialError
from seatrial.fleet.cluster import ClusterError
from seatrial.fleet.group import Advice, CommonRun, Group, Host, HostLost, require_same_content
from seatrial.fleet.merge import HostSample, Merged, merge
from seatrial.measure.engine import OperationParts, SampleParts
from seatrial.measure.progress import Watcher
from seatrial.measure.stage import StageRequest
from seatrial.results.fleet import FleetRecord, HostRecord, skew_bound_ns
from seatrial.results.model import Outcome, Timeline
from seatrial.results.replay import (
    LOST_HOST,
    ReplayAccount,
    ReplayClassRows,
    ReplayCodeErrors,
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
from seatrial.study.cell import SpecDocument
from seatrial.trials.database.measure.hosts import HostsStage
from seatrial.trials.database.measure.stage import Databases
from seatrial.trials.replay.measure.replay import MergedPlayback, PlaybackOutcome
from seatrial.units import NS_PER_S

PREPARE_S: Final = 3600.0

_ADVICE: Final = Advice(
    used="server",
    cause="The host could not read the trace or find the server, or is down",
    next_step="Run `seatrial fleet check --ray ADDRESS TRACE URL`",
)


def stage_of_hosts(request: StageRequest) -> HostsStage:
    """Return the stage of replays whose sessions are distributed over the hosts of a cluster.

    Args:
        request: The plan, and the address of the cluster.
    """
    return HostsStage(request, None, HostReplayer)


class HostReplayer:
    """Replays a trace on all hosts of a group.

    Args:
        group: The hosts.
    """

    def __init__(self, group: Group) -> None:
        self._group = group

    def count_remaining(self) -> int:
        """Return the number of remaining hosts."""
        return len(self._group.remaining())

    def attach_to(self, driver: Databases) -> None:
        """Let the hosts replay the traces of a driver."""
        driver.play = self

    def __call__(self, spec: SpecDocument, watcher: Watcher) -> PlaybackOutcome:
        """Replay to the end on every host; return the merged result.

        Raises:
            ClusterError: when there are more hosts than connections.
            KeyboardInterrupt: when the user ended it.
            PartialResult: when a host was lost before the start.
            TargetError: when the trace or the server cannot be used.
        """
        hosts = self._group.remaining()
        self._require_same_trace(str(spec["trace"]))
        shares = _connections(spec.get("connections_max"), len(hosts))
        watcher.step(f"Reading the trace on {len(hosts)} hosts")
        prepared = self._group.call_each(
            lambda actor, host: actor.prepare_replay.remote(
                _part(spec, hosts.index(host), len(hosts), shares)
            ),
            hosts,
            timeout_s=PREPARE_S,
        )
        self._group.require_all(prepared, _ADVICE)
        watcher.step(f"Replaying on {len(hosts)} hosts")
        common = self._group.run_together(hosts, self._answers, _ADVICE)
        replays = [_replay(host.name, common.results[host.name]) for host in common.finished]
        merged = merge(_with_common_end([_sample(each, common.start_ns) for each in replays]))
        records = [
            _host_record(host, replay, merged, common)
            for host, replay in zip(common.finished, replays, strict=True)
        ]
        fleet = FleetRecord(
            hosts=records,
            lost=[each.since_start() for each in common.lost],
            planned_hosts=len(hosts),
            on_loss="stop",
            skew_ns=_skew_ns(replays),
            skew_bound_ns=skew_bound_ns(records),
            unaligned_ns_max=_skew_ns(replays),
            outside_completed=0,
        )
        end, words = merged_end(replays)
        record = merged_record(replays, is_whole=not common.lost)
        result = MergedPlayback(
            parts=_parts(replays, merged),
            record_json=msgspec.json.encode(record).decode(),
            end=end,
            words=words,
        )
        return PlaybackOutcome(result=result, interrupted=end == "interrupted", fleet=fleet)

    def _answers(
        self, start_times_ns: Mapping[str, int]
    ) -> dict[str, Mapping[str, Any] | HostLost]:
        """Let all hosts replay from one instant on, and wait for all of them.

        Raises:
            KeyboardInterrupt: when the user ended it; no result is stored.
        """
        try:
            return self._group.call_each(
                lambda actor, host: actor.replay.remote(start_times_ns[host.name]),
                self._group.remaining(),
                # At maximum speed no end is planned: its heartbeat finds a silent host.
                timeout_s=float("inf"),
            )
        except KeyboardInterrupt:
            self._group.stop(self._group.remaining())
            raise

    def _require_same_trace(self, trace: str) -> None:
        """Check that every host sees the same trace.

        Raises:
            TargetError: when one has another trace, or none.
        """
        seen = self._group.ask("content", trace, hosts=self._group.remaining())
        self._group.require_all(seen, _ADVICE)
        require_same_content(
            seen,
            f"the trace {trace}",
            cause="Each host of the cluster reads the trace at the same path",
            next_step="Put it into a folder that every host mounts at that path, or copy it there "
            "on every host",
        )


def _part(
    spec: SpecDocument, number: int, count: int, shares: Sequence[int | None]
) -> SpecDocument:
    return {
        **spec,
        "part": {"number": number, "of": count},
        "connections_max": shares[number],
        "awaits_start": True,
    }


def _connections(most: Any, hosts: int) -> list[int | None]:  # noqa: ANN401 - of a document
    """Return the maximum number of connections of each host.

    Raises:
        ClusterError: when there are more hosts than connections.
    """
    if most is None:
        return [None] * hosts
    if most < hosts:
        raise ClusterError(
            seen=f"--connections {most} is less than the {hosts} hosts of the cluster",
            cause="Each host needs a connection of its own",
            next_step=f"Use --connections {hosts} or more, or fewer hosts",
        )
    return [most // hosts + (number < most % hosts) for number in range(hosts)]


def _replay(name: str, answer: Mapping[str, Any]) -> HostReplay:
    return HostReplay(
        name=name,
        parts=answer["parts"],
        record=msgspec.json.decode(answer["record_json"], type=ReplayRecord),
        counts=answer["counts"],
        end=answer["end"],
        words=answer["words"],
    )


def _lateness_ns(replay: HostReplay) -> int:
    return int(replay.parts["counters"].get("start_lateness_ns", 0.0))


def _skew_ns(replays: Sequence[HostReplay]) -> int:
    late_ns = [_lateness_ns(each) for each in replays]
    return max(late_ns) - min(late_ns)


def _sample(replay: HostReplay, start_ns: int) -> HostSample:
    """Return a host's timeline from the common start to its own last slice."""
    timeline = msgspec.convert(replay.parts["timeline"], Timeline)
    return HostSample(name=replay.name, start_ns=start_ns, end_ns=start_ns, timeline=timeline)


def _with_common_end(samples: Sequence[HostSample]) -> list[HostSample]:
    """Return the samples with a common end, after all slices."""
    slice_ns = max(sample.timeline.slice_ns for sample in samples)
    ends = [
        (sample.timeline.slices[-1].index + 1) * sample.timeline.slice_ns
        for sample in samples
        if sample.timeline.slices
    ]
    whole_ns = -(-max(ends, default=0) // slice_ns) * slice_ns
    return [
        msgspec.structs.replace(sample, end_ns=sample.start_ns + whole_ns) for sample in samples
    ]


def _parts(replays: Sequence[HostReplay], merged: Merged) -> SampleParts:
    first = replays[0].parts
    outcomes = [each.parts["outcome"] for each in replays]
    return {
        **first,
        "started_unix_s": min(each.parts["started_unix_s"] for each in replays),
        "duration_s": max(
            each.parts["duration_s"] + _lateness_ns(each) / NS_PER_S for each in replays
        ),
        "outcome": {name: sum(outcome[name] for outcome in outcomes) for name in outcomes[0]},
        "operations": merged_operations(replays),
        "timeline": msgspec.to_builtins(merged.timeline, builtin_types=(bytes,)),
        # A stall of one host is not a stall of all.
        "stalls": [],
        "stalls_dropped": 0,
        "errors_count": sum(each.parts["errors_count"] for each in replays),
        "counters": {"start_lateness_ns": float(max(map(_lateness_ns, replays)))},
    }


def _host_record(host: Host, replay: HostReplay, merged: Merged, common: CommonRun) -> HostRecord:
    outcome = msgspec.convert(replay.parts["outcome"], Outcome)
    answer = common.results[host.name]
    client, duration_s = replay.record.client, float(replay.parts["duration_s"])
    used_s = client.cpu_ns / NS_PER_S
    lateness_ns = _lateness_ns(replay)
    return HostRecord(
        name=host.name,
        address=host.node.address,
        started_ns=lateness_ns,
        lateness_ns=lateness_ns,
        ended_ns=lateness_ns + round(duration_s * NS_PER_S),
        clock_before=common.before[host.name],
        clock_after=common.after.get(host.name),
        completed=outcome.completed,
        failed=outcome.failed,
        window_completed=outcome.completed,
        window_bytes=0,
        responses={n: each["response"] for n, each in replay.parts["operations"].items()},
        completed_per_slice=merged.parts[host.name].per_slice,
        cpu_share=used_s / duration_s / host.cpus if duration_s else 0.0,
        received_bytes_per_s=float(answer["received_bytes_per_s"]),
        sent_bytes_per_s=float(answer["sent_bytes_per_s"]),
    )


OTHER_HOST: Final = "other_host"
EXAMPLES_MAX: Final = 32
End = Literal["complete", "interrupted", "server_lost"]


class PlaybackHistograms(TypedDict):
    """Encoded histograms of a playback: by fingerprint and kind, and of its lags."""

    queries: dict[str, dict[str, bytes]]
    lag: bytes
    driver_lag: bytes


class HostReplay(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one host.

    Attributes:
        name: The host.
        parts: Its sample's parts, as ``PlaybackResult.parts``.
        record: Record of its sessions; the others' statements are skipped as ``other_host``.
        counts: ``PlaybackResult.counts``.
        end: ``complete``, ``interrupted`` or ``server_lost``.
        words: The server's message if the connection was lost.
    """

    name: str
    parts: SampleParts
    record: ReplayRecord
    counts: PlaybackHistograms
    end: End
    words: str


def merged_record(hosts: Sequence[HostReplay], *, is_whole: bool) -> ReplayRecord:
    """Return the merged record of all hosts; the client is that of the busiest.

    Args:
        hosts: Hosts with a result, at least one.
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
        commits=ReplayCommits(**_sums([record.commits for record in records])),
        errors=_errors(records),
        rows=_rows(records),
        lag=_lag(ordered),
        timeline=timeline,
        timeline_slice_s=slice_s,
        queries=_queries(ordered),
        queries_dropped=sum(record.queries_dropped for record in records),
        order=_order(records),
        sessions=_sessions(records),
        client=max((record.client for record in records), key=lambda client: client.cpu_ns),
        captured_s=max(record.captured_s for record in records),
    )


def merged_end(hosts: Sequence[HostReplay]) -> tuple[End, str]:
    """Return how the replay ended on all hosts, and the server's message if it was lost."""
    ranks: dict[End, int] = {"server_lost": 0, "interrupted": 1, "complete": 2}
    first = min(hosts, key=lambda each: (ranks[each.end], each.name))
    return first.end, first.words


def merged_operations(hosts: Sequence[HostReplay]) -> dict[str, OperationParts]:
    """Return summed counts and histograms by class of statements."""
    found: dict[str, OperationParts] = {}
    names = sorted({name for each in hosts for name in each.parts["operations"]})
    for name in names:
        parts = [e.parts["operations"][name] for e in hosts if name in e.parts["operations"]]
        found[name] = {
            "completed": sum(e["completed"] for e in parts),
            "failed": sum(e["failed"] for e in parts),
            "transferred_bytes": 0,
            "response": _histogram(e["response"] for e in parts).encode(),
            "service": _histogram(e["service"] for e in parts if e["service"]).encode(),
        }
    return found


def _histogram(encoded: Iterable[bytes]) -> _core.Histogram:
    decoded = (_core.Histogram.decode(each) for each in encoded)
    return reduce(lambda total, each: total.merged(each), decoded, _core.Histogram.of([]))


def _sums(parts: Sequence[Any], *leave_out: str) -> dict[str, int]:
    """Return the sums of all integer fields of equal structures, except some."""
    return {
        name: sum(getattr(part, name) for part in parts)
        for name in parts[0].__struct_fields__
        if name not in leave_out and isinstance(getattr(parts[0], name), int)
    }


def _summed(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return dict(sorted(total.items()))


def _accounts(records: Sequence[ReplayRecord], *, is_whole: bool) -> dict[str, ReplayAccount]:
    names = sorted({name for each in records for name in each.classes})
    return {name: _account(name, records, is_whole=is_whole) for name in names}


def _account(name: str, records: Sequence[ReplayRecord], *, is_whole: bool) -> ReplayAccount:
    """Return the account of one class: every statement of the trace once.

    Raises:
        SeatrialError: for an internal error: the statements do not add up.
    """
    parts = [record.classes[name] for record in records if name in record.classes]
    captured = {each.captured for each in parts}
    skipped = _summed(each.skipped for each in parts)
    skipped.pop(OTHER_HOST, None)
    sums = _sums(parts, "captured")
    missing = max(captured) - sums["ok"] - sums["failed"] - sums["not_reached"]
    missing -= sum(skipped.values())
    if len(parts) != len(records) or len(captured) != 1 or missing < 0 or (missing and is_whole):
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
    errors = [record.errors for record in records]
    by_code = {
        code: ReplayCodeErrors(**_sums([e.by_code[code] for e in errors if code in e.by_code]))
        for code in sorted({code for each in errors for code in each.by_code})
    }
    return ReplayErrors(**_sums(errors), by_code=by_code, examples=_examples(same.values()))


def _examples(groups: Iterable[Sequence[Any]]) -> list[Any]:
    """Return the first of each group with the group's total, the most frequent first."""
    joined = [
        msgspec.structs.replace(
            min(group, key=lambda each: each.number), count=sum(each.count for each in group)
        )
        for group in groups
    ]
    return sorted(joined, key=lambda each: (-each.count, each.number))[:EXAMPLES_MAX]


def _rows(records: Sequence[ReplayRecord]) -> ReplayRows:
    rows = [record.rows for record in records]
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
    lags = [host.record.lag for host in hosts]
    lag = _histogram(host.counts["lag"] for host in hosts)
    driver = _histogram(host.counts["driver_lag"] for host in hosts)
    computed = {
        "ns_p50": lag.percentile_ns(50.0),
        "ns_p99": lag.percentile_ns(99.0),
        "ns_max": lag.max_ns,
        "driver_ns_p99": driver.percentile_ns(99.0),
        "driver_ns_max": driver.max_ns,
        "due_ns_last": max(each.due_ns_last or 0 for each in lags),
        "sent_ns_last": max(each.sent_ns_last or 0 for each in lags),
    }
    return ReplayLag(**_sums(lags, *computed), **computed)


def _queries(hosts: Sequence[HostReplay]) -> list[ReplayQuery]:
    same: dict[str, list[ReplayQuery]] = {}
    for each in (query for host in hosts for query in host.record.queries):
        same.setdefault(each.fingerprint, []).append(each)
    joined = [
        _query(parts, [e.counts["queries"][name] for e in hosts if name in e.counts["queries"]])
        for name, parts in same.items()
    ]
    return sorted(joined, key=lambda e: (-e.service_ns_sum, -(e.ok + e.failed), e.text))


def _query(records: Sequence[ReplayQuery], counts: Sequence[Mapping[str, bytes]]) -> ReplayQuery:
    max_ns = max(each.service_ns_max for each in records)
    percentiles = {}
    for kind, percents in (
        ("service", (50, 95, 99)),
        ("response", (50, 99)),
        ("captured", (50, 95, 99)),
    ):
        histogram = _histogram(count[kind] for count in counts)
        for percent in percents:
            found_ns = histogram.percentile_ns(percent)
            percentiles[f"{kind}_ns_p{percent}"] = (
                min(found_ns, max_ns) if kind == "service" else found_ns
            )
    sums = _sums(records, "service_ns_max", *percentiles)
    return ReplayQuery(
        fingerprint=records[0].fingerprint,
        text=records[0].text,
        class_=records[0].class_,
        service_ns_max=max_ns,
        **percentiles,
        **sums,
    )


def _order(records: Sequence[ReplayRecord]) -> ReplayDelays:
    orders = [record.order for record in records]
    sums = {name: value for name, value in _sums(orders).items() if name != "edge_ns"}
    return msgspec.structs.replace(
        orders[0], **sums, delayed_by=_summed(each.delayed_by for each in orders)
    )


def _sessions(records: Sequence[ReplayRecord]) -> ReplaySessions:
    sessions = [record.sessions for record in records]
    words = next((each.words for each in sessions if each.words), "")
    return ReplaySessions(**_sums(sessions), words=words)


def _timeline(records: Sequence[ReplayRecord]) -> tuple[list[ReplayMoment], float]:
    """Return the summed timelines, in slices as long as the longest."""
    slice_s = max(record.timeline_slice_s for record in records)
    widened = [
        _widened(record.timeline, round(slice_s / record.timeline_slice_s)) for record in records
    ]
    length = max(map(len, widened))
    return [
        _merged_moment([each[index] for each in widened if index < len(each)])
        for index in range(length)
    ], slice_s


def _widened(moments: Sequence[ReplayMoment], factor: int) -> list[ReplayMoment]:
    groups = [moments[first : first + factor] for first in range(0, len(moments), factor)]
    return [
        msgspec.structs.replace(_merged_moment(group), sessions=group[-1].sessions)
        for group in groups
    ]


def _merged_moment(moments: Sequence[ReplayMoment]) -> ReplayMoment:
    sums = _sums(moments, "lag_ns_max")
    lags = [moment.lag_ns_max for moment in moments if moment.lag_ns_max is not None]
    return ReplayMoment(
        **sums,
        lag_ns_max=max(lags, default=None),
        lag_ns_mean=_mean([(moment.lag_ns_mean, moment.due) for moment in moments]),
        response_ns_mean=_mean([(moment.response_ns_mean, moment.answered) for moment in moments]),
    )


def _mean(parts: Sequence[tuple[float | None, int]]) -> float | None:
    known = [(mean, count) for mean, count in parts if mean is not None and count]
    total = sum(count for _, count in known)
    return sum(mean * count for mean, count in known) / total if total else None
