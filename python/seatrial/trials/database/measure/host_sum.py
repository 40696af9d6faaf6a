"""One result from what several hosts loaded: counts of the common window, never percentiles.

Slices count from the agreed start on every host, so that those of one index are of the same time,
but for what is not known of the clocks. The window begins with the slice after the start, or after
the latest first transaction where a host was not ready by then; it ends with the last whole slice
that all hosts have. The first slice has all that ended before the start.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from seatrial.fleet.merge import HostSample, Merged, merge
from seatrial.results.fleet import ClockOffset, FleetRecord, HostRecord, LostHost, skew_bound_ns
from seatrial.results.model import Outcome, Timeline
from seatrial.trials.database.measure.driver_result import Completions, DriverResult
from seatrial.trials.database.measure.host_load import Part
from seatrial.units import NS_PER_MS, NS_PER_S


class HostAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What one host returned.

    Attributes:
        name: The host.
        address: In the cluster's network.
        cpus: Its processors.
        part: What it loaded.
        before: Its clock against ours before the sample.
        after: Afterwards; None if it could not be read any more.
        received_bytes_per_s: By its network interfaces.
        sent_bytes_per_s: Likewise.
    """

    name: str
    address: str
    cpus: float
    part: Part
    before: ClockOffset
    after: ClockOffset | None
    received_bytes_per_s: float
    sent_bytes_per_s: float


class Together(msgspec.Struct, frozen=True, kw_only=True):
    """What the hosts had in common.

    Attributes:
        start_ns: The agreed start, by our monotonic clock.
        duration_s: How long each was to load.
        slice_ms: Length of the timeline's slices.
        hosts_count: How many hosts took part.
        on_loss: The study's rule.
        lost: Hosts that did not answer.
    """

    start_ns: int
    duration_s: float
    slice_ms: int
    hosts_count: int
    on_loss: str
    lost: list[LostHost]


def summed(together: Together, answers: Sequence[HostAnswer]) -> DriverResult:
    """Return the sum over hosts in their common window, with a record of each host.

    Raises:
        ValueError: without an answer.
    """
    slice_ns = together.slice_ms * NS_PER_MS
    skip = max(1, -(-max(each.part.first_ns for each in answers) // slice_ns))
    merged = merge([_host_sample(together, each, skip, slice_ns) for each in answers])
    earliest_ns = min(_late_ns(each) for each in answers)
    hosts = [_record(each, merged, earliest_ns, together) for each in answers]
    in_window = sum(each.completed for each in merged.operations.values())
    results = [each.part.result for each in answers]
    shares = [each.client_cpu_share for each in results if each.client_cpu_share is not None]
    return DriverResult(
        completions=Completions(
            started_at=max(each.completions.started_at for each in results),
            duration_s=max(merged.duration_ns, 1) / NS_PER_S,
            outcome=_outcome(in_window, results),
            operations=merged.operations,
            timeline=merged.timeline,
            errors_count=sum(each.completions.errors_count for each in results),
            errors=[error for each in results for error in each.completions.errors],
        ),
        interrupted=False,
        reported={
            f"{name}_{number}": value
            for number, each in enumerate(results, start=1)
            for name, value in each.reported.items()
        },
        cpu_user_s=sum(each.cpu_user_s for each in results),
        cpu_system_s=sum(each.cpu_system_s for each in results),
        client_cpu_share=max(shares, default=None),
        counters=_counters(results),
        notes=[f"{answer.name}: {note}" for answer in answers for note in answer.part.result.notes],
        fleet=FleetRecord(
            hosts=hosts,
            lost=together.lost,
            planned_hosts=together.hosts_count,
            on_loss=together.on_loss,
            skew_ns=max(each.started_ns for each in hosts),
            skew_bound_ns=skew_bound_ns(hosts),
            unaligned_ns_max=skew_bound_ns(hosts),
            outside_completed=sum(each.completed for each in hosts) - in_window,
        ),
    )


def _host_sample(together: Together, answer: HostAnswer, skip: int, slice_ns: int) -> HostSample:
    """Return a host's slices from the first one of the common window on."""
    timeline = answer.part.result.completions.timeline
    return HostSample(
        name=answer.name,
        start_ns=together.start_ns + skip * slice_ns,
        end_ns=together.start_ns + _end_ns(together, answer),
        timeline=Timeline(
            slice_ns=timeline.slice_ns,
            slices=[
                msgspec.structs.replace(each, index=each.index - skip)
                for each in timeline.slices
                if each.index >= skip
            ],
        ),
    )


def _end_ns(together: Together, answer: HostAnswer) -> int:
    """Return when a host's part ended, after the agreed start: as planned, or before.

    pgbench's alarm counts from before it connects: one that is late loads for less than planned.
    """
    loaded_ns = int(answer.part.result.completions.duration_s * NS_PER_S)
    return min(answer.part.first_ns + loaded_ns, int(together.duration_s * NS_PER_S))


def _late_ns(answer: HostAnswer) -> int:
    """Return how long after the agreed start a host began, by which it should load the server."""
    return max(0, answer.part.first_ns)


def _record(answer: HostAnswer, merged: Merged, earliest_ns: int, together: Together) -> HostRecord:
    result, part = answer.part.result, merged.parts[answer.name]
    outcome, duration_s = result.completions.outcome, result.completions.duration_s
    used_s = result.cpu_user_s + result.cpu_system_s
    return HostRecord(
        name=answer.name,
        address=answer.address,
        started_ns=_late_ns(answer) - earliest_ns,
        lateness_ns=answer.part.first_ns,
        ended_ns=_end_ns(together, answer) - earliest_ns,
        clock_before=answer.before,
        clock_after=answer.after,
        completed=outcome.completed,
        failed=outcome.failed,
        window_completed=sum(part.completed.values()),
        window_bytes=0,
        responses={name: each.encode() for name, each in part.responses.items()},
        completed_per_slice=part.per_slice,
        cpu_share=used_s / duration_s / answer.cpus if duration_s > 0 else 0.0,
        received_bytes_per_s=answer.received_bytes_per_s,
        sent_bytes_per_s=answer.sent_bytes_per_s,
    )


def _outcome(in_window: int, results: Sequence[DriverResult]) -> Outcome:
    """Return the accounting of the common window, with the failures of the whole samples."""
    outcomes = [each.completions.outcome for each in results]
    failed = sum(each.failed for each in outcomes)
    late = sum(each.late_skipped for each in outcomes)
    in_flight = sum(each.in_flight_at_end for each in outcomes)
    return Outcome(
        completed=in_window,
        offered=in_window + failed + late + in_flight,
        failed=failed,
        late_skipped=late,
        in_flight_at_end=in_flight,
    )


def _counters(results: Sequence[DriverResult]) -> dict[str, float]:
    added: dict[str, float] = {}
    for each in results:
        for name, value in each.counters.items():
            added[name] = added.get(name, 0.0) + value
    return added
