"""Merges the results of several hosts: counts of the common window, never percentiles.

Slices count from the agreed start on every host, so that those of one index have the same time,
except for the uncertainty of the clocks. The window begins with the slice after the start, or after
the latest first transaction if a host was not ready by then; it ends with the last whole slice
of all hosts. The first slice has everything that ended before the start.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from seatrial.fleet.merge import HostSample, Merged, merge
from seatrial.results.fleet import ClockOffset, FleetRecord, HostRecord, LostHost, skew_bound_ns
from seatrial.results.model import Outcome, Timeline
from seatrial.trials.database.measure.driver_result import Completions, DriverResult
from seatrial.trials.database.measure.host_load import HostResult
from seatrial.units import NS_PER_MS, NS_PER_S


class HostReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one host, with its clock and network.

    Attributes:
        name: The host.
        address: In the cluster's network.
        cpus: Its processors.
        part: Its part of the load.
        before: Its clock's offset from ours before the sample.
        after: The same afterwards; None if it could not be read.
        received_bytes_per_s: Throughput of its network interfaces.
        sent_bytes_per_s: Likewise.
    """

    name: str
    address: str
    cpus: float
    part: HostResult
    before: ClockOffset
    after: ClockOffset | None
    received_bytes_per_s: float
    sent_bytes_per_s: float


class CommonLoad(msgspec.Struct, frozen=True, kw_only=True):
    """The common parameters of the hosts.

    Attributes:
        start_ns: The agreed start, by our monotonic clock.
        start_unix_s: The same in Unix time.
        duration_s: Planned duration of each.
        slice_ms: Length of the timeline's slices.
        hosts_count: Number of participating hosts.
        on_loss: The study's rule.
        lost: Hosts that did not answer.
    """

    start_ns: int
    start_unix_s: float
    duration_s: float
    slice_ms: int
    hosts_count: int
    on_loss: str
    lost: list[LostHost]


def merged_result(load: CommonLoad, reports: Sequence[HostReport]) -> DriverResult:
    """Return the merged result of the common window, with a record of each host.

    Raises:
        ValueError: without a report.
    """
    slice_ns = load.slice_ms * NS_PER_MS
    skip = max(1, -(-max(report.part.first_ns for report in reports) // slice_ns))
    merged = merge([_host_sample(load, report, skip, slice_ns) for report in reports])
    earliest_ns = min(_lateness_ns(report) for report in reports)
    hosts = [_record(report, merged, earliest_ns, load) for report in reports]
    in_window = sum(operation.completed for operation in merged.operations.values())
    results = [report.part.result for report in reports]
    shares = [result.client_cpu_share for result in results if result.client_cpu_share is not None]
    return DriverResult(
        completions=Completions(
            started_at=load.start_unix_s + skip * slice_ns / NS_PER_S,
            duration_s=max(merged.duration_ns, 1) / NS_PER_S,
            outcome=_outcome(in_window, results),
            operations=merged.operations,
            timeline=merged.timeline,
            errors_count=sum(result.completions.errors_count for result in results),
            errors=[error for each in results for error in each.completions.errors],
        ),
        interrupted=False,
        reported={
            f"{name}_{number}": value
            for number, each in enumerate(results, start=1)
            for name, value in each.reported.items()
        },
        cpu_user_s=sum(result.cpu_user_s for result in results),
        cpu_system_s=sum(result.cpu_system_s for result in results),
        client_cpu_share=max(shares, default=None),
        counters=_counters(results),
        notes=[f"{report.name}: {note}" for report in reports for note in report.part.result.notes],
        fleet=FleetRecord(
            hosts=hosts,
            lost=load.lost,
            planned_hosts=load.hosts_count,
            on_loss=load.on_loss,
            skew_ns=max(host.started_ns for host in hosts),
            skew_bound_ns=skew_bound_ns(hosts),
            unaligned_ns_max=skew_bound_ns(hosts),
            outside_completed=sum(host.completed for host in hosts) - in_window,
        ),
    )


def _host_sample(load: CommonLoad, report: HostReport, skip: int, slice_ns: int) -> HostSample:
    """Return a host's slices from the first one of the common window on."""
    timeline = report.part.result.completions.timeline
    return HostSample(
        name=report.name,
        start_ns=load.start_ns + skip * slice_ns,
        end_ns=load.start_ns + _end_ns(load, report),
        timeline=Timeline(
            slice_ns=timeline.slice_ns,
            slices=[
                msgspec.structs.replace(part, index=part.index - skip)
                for part in timeline.slices
                if part.index >= skip
            ],
        ),
    )


def _end_ns(load: CommonLoad, report: HostReport) -> int:
    """Return the end of a host's part after the agreed start: as planned, or earlier.

    pgbench's alarm counts from before it connects: a late one loads for less than planned.
    """
    loaded_ns = int(report.part.result.completions.duration_s * NS_PER_S)
    return min(report.part.first_ns + loaded_ns, int(load.duration_s * NS_PER_S))


def _lateness_ns(report: HostReport) -> int:
    """Return how long after the agreed start a host began to load the server."""
    return max(0, report.part.first_ns)


def _record(report: HostReport, merged: Merged, earliest_ns: int, load: CommonLoad) -> HostRecord:
    result, part = report.part.result, merged.parts[report.name]
    outcome, duration_s = result.completions.outcome, result.completions.duration_s
    used_s = result.cpu_user_s + result.cpu_system_s
    return HostRecord(
        name=report.name,
        address=report.address,
        started_ns=_lateness_ns(report) - earliest_ns,
        lateness_ns=report.part.first_ns,
        ended_ns=_end_ns(load, report) - earliest_ns,
        clock_before=report.before,
        clock_after=report.after,
        completed=outcome.completed,
        failed=outcome.failed,
        window_completed=sum(part.completed.values()),
        window_bytes=0,
        responses={name: each.encode() for name, each in part.responses.items()},
        completed_per_slice=part.per_slice,
        cpu_share=used_s / duration_s / report.cpus if duration_s > 0 else 0.0,
        received_bytes_per_s=report.received_bytes_per_s,
        sent_bytes_per_s=report.sent_bytes_per_s,
    )


def _outcome(in_window: int, results: Sequence[DriverResult]) -> Outcome:
    """Return the accounting of the common window, with the failures of the whole samples."""
    outcomes = [result.completions.outcome for result in results]
    failed = sum(outcome.failed for outcome in outcomes)
    late = sum(outcome.late_skipped for outcome in outcomes)
    in_flight = sum(outcome.in_flight_at_end for outcome in outcomes)
    return Outcome(
        completed=in_window,
        offered=in_window + failed + late + in_flight,
        failed=failed,
        late_skipped=late,
        in_flight_at_end=in_flight,
    )


def _counters(results: Sequence[DriverResult]) -> dict[str, float]:
    totals: dict[str, float] = {}
    for result in results:
        for name, value in result.counters.items():
            totals[name] = totals.get(name, 0.0) + value
    return totals
