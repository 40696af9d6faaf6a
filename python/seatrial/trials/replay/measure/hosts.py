"""A trace replayed by several hosts to one server.

The trace is read by every host -> clocks are read -> every host is given an instant of its own
monotonic clock -> they replay, and nobody calls anybody -> results -> clocks are read again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from seatrial.errors import PartialResult, TargetError
from seatrial.fleet.cluster import ClusterError
from seatrial.fleet.group import AHEAD_S, Group, Host, HostLost, nobody_left
from seatrial.fleet.merge import HostSample, Merged, merge
from seatrial.measure.engine import SampleParts
from seatrial.measure.progress import Watcher
from seatrial.measure.stage import StageRequest
from seatrial.results.fleet import ClockOffset, FleetRecord, HostRecord, skew_bound_ns
from seatrial.results.model import Outcome, Timeline
from seatrial.results.replay import ReplayRecord
from seatrial.study.cell import SpecDocument
from seatrial.trials.database.measure.hosts import HostsStage
from seatrial.trials.database.measure.stage import Databases
from seatrial.trials.replay.measure.host_merge import (
    HostReplay,
    merged_end,
    merged_operations,
    merged_record,
)
from seatrial.trials.replay.measure.replay import PlayedResult, Ran

PREPARE_S: Final = 3600.0
NS_PER_S: Final = 1e9
_LOOK: Final = "Look with `seatrial fleet check --ray ADDRESS TRACE URL`"


def played_by_hosts(request: StageRequest) -> HostsStage:
    """Return the stage of replays whose sessions all hosts of a cluster play.

    Args:
        request: What is measured, and where the head answers.
    """
    return HostsStage(request, None, HostPlayer)


class HostPlayer:
    """Plays a trace on all hosts of a group.

    Args:
        group: The hosts.
    """

    def __init__(self, group: Group) -> None:
        self._group = group

    @property
    def left_count(self) -> int:
        """How many hosts are left."""
        return len(self._group.hosts)

    def equip(self, driver: Databases) -> None:
        """Have a driver's traces played by the hosts."""
        driver.play = self

    def __call__(self, spec: SpecDocument, watcher: Watcher) -> Ran:
        """Play to the end on every host; return the sum.

        Raises:
            ClusterError: when there are more hosts than connections.
            KeyboardInterrupt: when the user ended it.
            PartialResult: when a host was lost before the start.
            TargetError: when the trace or the server cannot be used.
        """
        hosts = self._group.hosts
        self._require_same_trace(str(spec["trace"]))
        shares = _connections(spec.get("connections_max"), len(hosts))
        watcher.stage(f"Reading the trace on {len(hosts)} hosts")
        prepared = self._group.ask_each(
            lambda actor, host: actor.prepare_replay.remote(
                _part(spec, hosts.index(host), len(hosts), shares)
            ),
            timeout_s=PREPARE_S,
        )
        _require_all(prepared)
        before = self._group.clocks()
        _require_all(before)
        watcher.stage(f"Replaying on {len(hosts)} hosts")
        start_ns = time.monotonic_ns() + int(AHEAD_S * NS_PER_S)
        answers = self._answers(start_ns, before)
        found = {n: a for n, a in answers.items() if not isinstance(a, HostLost)}
        lost = [each for each in answers.values() if isinstance(each, HostLost)]
        kept = [host for host in hosts if host.name in found]
        if not kept:
            raise nobody_left(lost, "server", _LOOK)
        self._group.hosts = kept
        after = self._group.clocks(kept)
        replays = [_replay(host.name, found[host.name]) for host in kept]
        merged = merge(_until_the_last([_sample(each, start_ns) for each in replays]))
        records = [
            _host_record(host, replay, merged, found[host.name], (before[host.name], after))
            for host, replay in zip(kept, replays, strict=True)
        ]
        fleet = FleetRecord(
            hosts=records,
            lost=[each.since_start() for each in lost],
            planned_hosts=len(hosts),
            on_loss="stop",
            skew_ns=_skew_ns(replays),
            skew_bound_ns=skew_bound_ns(records),
            unaligned_ns_max=_skew_ns(replays),
            outside_completed=0,
        )
        end, words = merged_end(replays)
        record = merged_record(replays, is_whole=not lost)
        result = PlayedResult(
            parts=_parts(replays, merged),
            record_json=msgspec.json.encode(record).decode(),
            end=end,
            words=words,
        )
        return Ran(result=result, interrupted=end == "interrupted", fleet=fleet)

    def _answers(
        self, start_ns: int, clocks: Mapping[str, Any]
    ) -> dict[str, Mapping[str, Any] | HostLost]:
        """Have all hosts replay from one instant on, and wait for all of them.

        Raises:
            KeyboardInterrupt: when the user ended it; nothing is kept.
        """
        try:
            return self._group.ask_each(
                lambda actor, host: actor.replay.remote(start_ns + clocks[host.name].offset_ns),
                # At maximum speed no end is planned: its heartbeat finds a silent host.
                timeout_s=float("inf"),
            )
        except KeyboardInterrupt:
            for host in self._group.hosts:
                host.actor.stop.remote()
            raise

    def _require_same_trace(self, trace: str) -> None:
        """Check that every host sees the same trace.

        Raises:
            TargetError: when one sees another, or none.
        """
        seen = self._group.ask("content", trace)
        _require_all(seen)
        first = next(iter(seen.values()))
        for name, found in seen.items():
            same = all(found.get(key) == first.get(key) for key in ("size_bytes", "head", "tail"))
            if not same or "obstacle" in found:
                raise TargetError(
                    seen=f"{name} does not see the trace {trace} as the other hosts do: "
                    f"{found.get('obstacle', 'its content differs')}",
                    cause="Each host of the cluster reads the trace at the same path",
                    next_step="Put it into a folder that every host mounts at that path, or copy "
                    "it there on every host",
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
    """Return how many connections each host may have at once.

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


def _until_the_last(samples: Sequence[HostSample]) -> list[HostSample]:
    """Return the samples with one end, after all slices: a replay is counted whole."""
    slice_ns = max(each.timeline.slice_ns for each in samples)
    ends = [
        (each.timeline.slices[-1].index + 1) * each.timeline.slice_ns
        for each in samples
        if each.timeline.slices
    ]
    whole_ns = -(-max(ends, default=0) // slice_ns) * slice_ns
    return [msgspec.structs.replace(each, end_ns=each.start_ns + whole_ns) for each in samples]


def _parts(replays: Sequence[HostReplay], merged: Merged) -> SampleParts:
    first = replays[0].parts
    outcomes = [each.parts["outcome"] for each in replays]
    return {
        **first,
        "started_unix_s": min(each.parts["started_unix_s"] for each in replays),
        "duration_s": max(
            each.parts["duration_s"] + _lateness_ns(each) / NS_PER_S for each in replays
        ),
        "outcome": {name: sum(each[name] for each in outcomes) for name in outcomes[0]},
        "operations": merged_operations(replays),
        "timeline": msgspec.to_builtins(merged.timeline, builtin_types=(bytes,)),
        # Where one host waits another may be answered: stalls of parts are none of the whole.
        "stalls": [],
        "stalls_dropped": 0,
        "errors_count": sum(each.parts["errors_count"] for each in replays),
        "counters": {"start_lateness_ns": float(max(map(_lateness_ns, replays)))},
    }


def _host_record(
    host: Host,
    replay: HostReplay,
    merged: Merged,
    answer: Mapping[str, Any],
    clocks: tuple[Any, Mapping[str, Any]],
) -> HostRecord:
    outcome = msgspec.convert(replay.parts["outcome"], Outcome)
    before, after = clocks[0], clocks[1][host.name]
    client, duration_s = replay.record.client, float(replay.parts["duration_s"])
    used_s = (client.cpu_user_ns + client.cpu_system_ns) / NS_PER_S
    lateness_ns = _lateness_ns(replay)
    return HostRecord(
        name=host.name,
        address=host.node.address,
        started_ns=lateness_ns,
        lateness_ns=lateness_ns,
        ended_ns=lateness_ns + round(duration_s * NS_PER_S),
        clock_before=before,
        clock_after=after if isinstance(after, ClockOffset) else None,
        completed=outcome.completed,
        failed=outcome.failed,
        window_completed=outcome.completed,
        window_bytes=0,
        responses={n: each["response"] for n, each in replay.parts["operations"].items()},
        completed_per_slice=merged.parts[host.name].per_slice,
        cpu_share=used_s / duration_s / max(1.0, host.node.cpus) if duration_s else 0.0,
        received_bytes_per_s=float(answer["received_bytes_per_s"]),
        sent_bytes_per_s=float(answer["sent_bytes_per_s"]),
    )


def _require_all(answers: Mapping[str, Any]) -> None:
    """Check that every host answered before the start; raises PartialResult."""
    lost = [each for each in answers.values() if isinstance(each, HostLost)]
    if lost:
        raise PartialResult(
            seen=f"Nothing was replayed: {'; '.join(each.words for each in lost)}",
            cause="The host could not read the trace or find the server, or is gone",
            next_step=_LOOK,
        )
