"""Merges the results of several hosts to one sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from seatrial.errors import TargetError
from seatrial.fleet.merge import HostSample, Merged, merge
from seatrial.measure.engine import SampleParts
from seatrial.results.fleet import ClockOffset, FleetRecord, HostRecord, LostHost, skew_bound_ns
from seatrial.results.model import SYNC, ErrorSample, Outcome, Sample, Timeline
from seatrial.study.cell import Cell
from seatrial.study.hosts import cell_without
from seatrial.units import NS_PER_S

ERRORS_MAX: Final = 32


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one host.

    Attributes:
        name: The host.
        address: In the cluster's network.
        cpus: Its processors.
        parts: Result of its engine (docs/engine.md), and its network's rates.
        before: Its clock offset before the sample.
        after: Its clock offset after it; None if it could not be read.
        mount: Its mount at the target's path.
    """

    name: str
    address: str
    cpus: int
    parts: SampleParts
    before: ClockOffset
    after: ClockOffset | None
    mount: str


class SampleRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The sample that the hosts were to measure.

    Attributes:
        cell: The cell.
        round_number: The round, from 0.
        position: Position in the round, from 0.
        start_ns: The agreed start, by our monotonic clock.
        hosts_count: Planned number of hosts.
        on_loss: The study's rule for lost hosts.
        lost: Hosts that did not answer.
        grown: Counters of this machine during the sample.
    """

    cell: Cell
    round_number: int
    position: int
    start_ns: int
    hosts_count: int
    on_loss: str
    lost: list[LostHost]
    grown: dict[str, float]


def merged_sample(request: SampleRequest, answers: Sequence[Answer]) -> Sample:
    """Return the sum over hosts in their common window, with a record of each host.

    Raises:
        ValueError: without an answer.
        TargetError: when all of them measured together for less than a slice.
    """
    samples = [_host_sample(request, each) for each in answers]
    merged = merge(samples, SYNC if request.cell.parsed.has_syncs else "")
    if merged.duration_ns == 0 and not request.lost:
        raise TargetError(
            seen="The hosts measured together for less than one slice of the timeline",
            cause="They reached limit_bytes too soon, or started too far apart",
            next_step="Use a larger --size or limit_bytes, or a smaller slice_ms",
        )
    first_ns = min(each.start_ns for each in samples)
    hosts = [
        _record(answer, sample, merged, first_ns)
        for answer, sample in zip(answers, samples, strict=True)
    ]
    in_window = sum(part.completed for part in merged.operations.values())
    return Sample(
        cell=cell_without(request.cell, len(request.lost)),
        round=request.round_number,
        position=request.position,
        started_at=max(float(each.parts["started_unix_s"]) for each in answers),
        duration_s=max(merged.duration_ns, 1) / NS_PER_S,
        engine=str(answers[0].parts["engine"]),
        engine_reason=str(answers[0].parts["engine_reason"]),
        outcome=_outcome(in_window, answers),
        operations=merged.operations,
        timeline=merged.timeline,
        errors_count=sum(int(each.parts["errors_count"]) for each in answers),
        errors=_errors(samples, answers, merged.start_ns),
        counters=request.grown | _counters(answers),
        oldest_in_flight_ns=max(int(each.parts["oldest_in_flight_ns"]) for each in answers),
        fleet=FleetRecord(
            hosts=hosts,
            lost=request.lost,
            planned_hosts=request.hosts_count,
            on_loss=request.on_loss,
            skew_ns=max(each.started_ns for each in hosts),
            skew_bound_ns=skew_bound_ns(hosts),
            unaligned_ns_max=merged.unaligned_ns_max,
            outside_completed=sum(each.completed for each in hosts) - in_window,
        ),
    )


def _host_sample(request: SampleRequest, answer: Answer) -> HostSample:
    parts = answer.parts
    # The host's start in its own clock less its offset is the agreed one plus its lateness.
    start_ns = request.start_ns + int(parts["counters"].get("start_lateness_ns", 0.0))
    planned_ns = int((request.cell.parsed.duration_s or 1e9) * NS_PER_S)
    measured_ns = round(float(parts["duration_s"]) * NS_PER_S)
    return HostSample(
        name=answer.name,
        start_ns=start_ns,
        end_ns=start_ns + min(planned_ns, measured_ns),
        timeline=msgspec.convert(parts["timeline"], Timeline),
    )


def _record(answer: Answer, sample: HostSample, merged: Merged, first_ns: int) -> HostRecord:
    parts, part = answer.parts, merged.parts[answer.name]
    outcome, counters = parts["outcome"], parts["counters"]
    used_ns = counters.get("cpu_user_ns", 0.0) + counters.get("cpu_system_ns", 0.0)
    return HostRecord(
        name=answer.name,
        address=answer.address,
        started_ns=sample.start_ns - first_ns,
        lateness_ns=int(counters.get("start_lateness_ns", 0.0)),
        ended_ns=sample.end_ns - first_ns,
        clock_before=answer.before,
        clock_after=answer.after,
        completed=int(outcome["completed"]),
        failed=int(outcome["failed"]),
        window_completed=sum(part.completed.values()),
        window_bytes=sum(part.transferred_bytes.values()),
        responses={name: each.encode() for name, each in part.responses.items()},
        completed_per_slice=part.per_slice,
        cpu_share=used_ns / (float(parts["duration_s"]) * NS_PER_S) / answer.cpus,
        received_bytes_per_s=float(parts["received_bytes_per_s"]),
        sent_bytes_per_s=float(parts["sent_bytes_per_s"]),
        mount=answer.mount,
    )


def _outcome(in_window: int, answers: Sequence[Answer]) -> Outcome:
    """Return the accounting of the common window, with the failures outside of it."""
    outcomes: list[Mapping[str, int]] = [each.parts["outcome"] for each in answers]
    terms = {
        name: sum(each[name] for each in outcomes)
        for name in ("failed", "late_skipped", "in_flight_at_end")
    }
    return Outcome(completed=in_window, offered=in_window + sum(terms.values()), **terms)


def _errors(
    samples: Sequence[HostSample], answers: Sequence[Answer], window_start_ns: int
) -> list[ErrorSample]:
    """Return the examples of all hosts, with their times from the start of the window."""
    errors = []
    for sample, answer in zip(samples, answers, strict=True):
        earlier_s = (window_start_ns - sample.start_ns) / NS_PER_S
        for each in msgspec.convert(answer.parts["errors"], list[ErrorSample]):
            at_s = max(0.0, each.at_s - earlier_s)
            errors.append(msgspec.structs.replace(each, at_s=at_s))
    return sorted(errors, key=lambda each: each.at_s)[:ERRORS_MAX]


def _counters(answers: Sequence[Answer]) -> dict[str, float]:
    """Return the counters of all hosts added, or their maximum, by name."""
    added: dict[str, float] = {}
    for answer in answers:
        for name, value in answer.parts["counters"].items():
            before = added.get(name, 0.0)
            is_highest = name.endswith("_max") or name == "start_lateness_ns"
            added[name] = max(before, value) if is_highest else before + value
    return added
