"""The replay of a recording, compared with the recording itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from seatrial.lazy import np
from seatrial.published import Amount, Count
from seatrial.stats.model import CellSummary, Estimate
from seatrial.stats.timeline import slice_counts
from seatrial.trials.watch.study.recorded import replay_of
from seatrial.trials.watch.study.workload import RECORDING
from seatrial.units import NS_PER_S

if TYPE_CHECKING:
    from seatrial.results.model import Sample

PERCENTILES: Final = ("p50", "p99", "max")


class OperationReplay(msgspec.Struct, frozen=True, kw_only=True):
    """The recorded and the replayed requests of an operation.

    Attributes:
        operation: ``read``, ``write`` or ``sync``, which a recorded flush becomes.
        recorded: Requests of the recording that are sent in each round.
        completed: Requests that completed, over all rounds.
        recorded_ns: Percentiles of the recorded latency; empty where it is unknown.
        response_ns: Percentiles of the replayed response time, counted from when a request was due.
    """

    operation: str
    recorded: Count
    completed: Count
    recorded_ns: dict[str, Count]
    response_ns: dict[str, Estimate]


class LagPoint(msgspec.Struct, frozen=True, array_like=True):
    """The lag of a replay at a time, in seconds."""

    at_s: float
    lag_s: float


class ReplayResult(msgspec.Struct, frozen=True, kw_only=True):
    """A recording's replay on one target at one speed.

    Attributes:
        cell: Key of its test.
        target: Label of the target.
        workload: Name of the workload.
        speed: Recorded time over time of the replay; 0 for as fast as possible.
        rounds: Number of rounds.
        requests: Requests that are sent in each round.
        completed: Requests that completed, over all rounds.
        failed: Requests that failed.
        skipped: Requests that were not sent before the end of a sample.
        recorded_s: Time from the first to the last recorded request.
        replayed_s: Mean duration of a sample.
        operations: By operation.
        lag_mean_s: Mean time by which requests were sent late; None at full speed.
        lag_max_s: Longest lag of the curve; None at full speed or where it is unknown.
        lag: The curve of the first round: by how much the completions were behind the requests
            that were due, rounded down to a step of the curve.
        wrapped: Requests whose offset was changed because the target is smaller.
        extended: Requests that were extended to whole blocks.
        left_out: Requests that are not sent, by reason.
        keeps_dependence: Whether each request waited for as many completions as in the recording.
    """

    cell: str
    target: str
    workload: str
    speed: Amount
    rounds: Count
    requests: Count
    completed: Count
    failed: Count
    skipped: Count
    recorded_s: Amount
    replayed_s: Amount
    operations: list[OperationReplay]
    lag_mean_s: Amount | None
    lag_max_s: Amount | None
    lag: list[LagPoint]
    wrapped: Count
    extended: Count
    left_out: dict[str, Count]
    keeps_dependence: bool

    @property
    def is_complete(self) -> bool:
        """Whether every request completed in every round."""
        return self.completed == self.requests * self.rounds


def replayed_of(cells: Iterable[CellSummary]) -> list[ReplayResult]:
    """Return the replays among cells, in their order."""
    return [_replayed(each) for each in cells if each.cell.kind == RECORDING]


def _replayed(summary: CellSummary) -> ReplayResult:
    replay = replay_of(summary.cell)
    sent, samples = replay.sent, summary.samples
    lag = lag_curve(samples[0], sent.due_step_s, sent.due_counts) if samples else []
    return ReplayResult(
        cell=summary.cell.key,
        target=summary.cell.target,
        workload=summary.cell.workload,
        speed=replay.rules.speed,
        rounds=len(samples),
        requests=sent.requests,
        completed=sum(each.outcome.completed for each in samples),
        failed=sum(each.outcome.failed for each in samples),
        skipped=sum(each.outcome.late_skipped for each in samples),
        recorded_s=sent.recorded_span_s,
        replayed_s=sum(each.duration_s for each in samples) / max(1, len(samples)),
        operations=[
            OperationReplay(
                operation=name,
                recorded=recorded.requests,
                completed=sum(
                    each.operations[name].completed for each in samples if name in each.operations
                ),
                recorded_ns=recorded.latency_ns,
                response_ns={
                    percentile: summary.latency[name][percentile]
                    for percentile in PERCENTILES
                    if percentile in summary.latency.get(name, {})
                },
            )
            for name, recorded in sent.operations.items()
        ],
        lag_mean_s=_lag_mean_s(samples) if replay.rules.speed else None,
        lag_max_s=max((each.lag_s for each in lag), default=None),
        lag=lag,
        wrapped=sent.wrapped,
        extended=sent.extended,
        left_out=sent.left_out,
        keeps_dependence=sent.keeps_dependence,
    )


def _lag_mean_s(samples: Sequence[Sample]) -> float | None:
    """Return the mean time from when a request was due until it was sent; None if unknown.

    It is the difference of the mean response and service times, as both are of the same requests.
    """
    count, lag_ns = 0, 0.0
    for sample in samples:
        for each in sample.operations.values():
            if each.completed and each.service is not None:
                late_ns = each.response_histogram().mean_ns - each.service_histogram().mean_ns
                lag_ns += max(0.0, late_ns) * each.completed
                count += each.completed
    return lag_ns / count / NS_PER_S if count else None


def lag_curve(sample: Sample, step_s: float, due_counts: Sequence[int]) -> list[LagPoint]:
    """Return by how much the completions of a sample were behind the due requests.

    If fewer requests have completed by the end of a step than were due by the end of an earlier
    one, the replay is behind by the time between the two. The lag includes the latency of
    requests, and is rounded down to a step.

    Args:
        sample: The sample.
        step_s: Length of a step.
        due_counts: Number of requests that were due by the end of each step.
    """
    counts = np.concatenate([[0.0], np.cumsum(slice_counts(sample))])
    if not due_counts or len(counts) < 2:
        return []
    slice_s = sample.timeline.slice_ns / NS_PER_S
    steps = np.arange(1, int((len(counts) - 1) * slice_s / step_s + 1e-6) + 1)
    completed = np.interp(steps * step_s, slice_s * np.arange(len(counts)), counts)
    # The first step by whose end more was due than has completed now.
    due = np.searchsorted(np.asarray(due_counts), np.floor(completed + 1e-6), side="right") + 1
    lag_s = np.maximum(0, steps - due) * step_s
    lag_s[completed >= due_counts[-1]] = 0.0
    return [LagPoint(float(at), float(lag)) for at, lag in zip(steps * step_s, lag_s, strict=True)]
