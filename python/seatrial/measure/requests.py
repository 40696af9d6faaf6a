"""Samples of requests that Python makes itself, each with start and end time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from seatrial import _core
from seatrial.grouping import grouped
from seatrial.measure.engine import SampleContext
from seatrial.results.model import (
    ErrorSample,
    OperationResult,
    Outcome,
    Sample,
    Slice,
    Stall,
    Timeline,
)
from seatrial.study.cell import Cell
from seatrial.units import NS_PER_MS, NS_PER_S

ERRORS_KEPT_MAX: Final = 32
STALLS_KEPT_MAX: Final = 1000
"""The longest, as the load engine keeps them."""


@dataclass(frozen=True)
class Request:
    """One ended request, by the monotonic clock.

    Attributes:
        operation: Its kind, such as ``get``.
        began_ns: When it was sent, from the sample's start; in a closed loop it is sent when due.
        ended_ns: When its response was complete.
        transferred_bytes: Bytes transferred.
        error: Why it failed; empty on success.
    """

    operation: str
    began_ns: int
    ended_ns: int
    transferred_bytes: int = 0
    error: str = ""


def sample_of_requests(
    cell: Cell,
    sample_context: SampleContext,
    requests: Sequence[Request],
    *,
    started_at: float,
    duration_s: float,
    in_flight_at_end: int,
    engine: str,
) -> Sample:
    """Return the sample of a closed loop that accounts for every request.

    Args:
        cell: The measured cell; uses ``slice_ms`` and ``stall_threshold_ms`` of its specification.
        sample_context: Round and position.
        requests: All ended requests.
        started_at: Unix time in s.
        duration_s: Duration of the sample.
        in_flight_at_end: Number of requests that had not ended.
        engine: Name of what made the requests.
    """
    good = [each for each in requests if not each.error]
    failed = [each for each in requests if each.error]
    stalls = sorted(_stalls(cell, good, duration_s), key=lambda stall: -stall.length_s)
    return Sample(
        cell=cell,
        round=sample_context.round_number,
        position=sample_context.position,
        started_at=started_at,
        duration_s=duration_s,
        engine=engine,
        outcome=Outcome(
            offered=len(requests) + in_flight_at_end,
            completed=len(good),
            failed=len(failed),
            late_skipped=0,
            in_flight_at_end=in_flight_at_end,
        ),
        operations={
            kind: _result(kind, requests) for kind in dict.fromkeys(r.operation for r in requests)
        },
        timeline=timeline_of(good, cell.parsed.slice_ms * NS_PER_MS),
        stalls=sorted(stalls[:STALLS_KEPT_MAX], key=lambda stall: stall.start_s),
        stalls_dropped=len(stalls[STALLS_KEPT_MAX:]),
        errors_count=len(failed),
        errors=[_error(each) for each in failed[:ERRORS_KEPT_MAX]],
    )


def _result(kind: str, requests: Iterable[Request]) -> OperationResult:
    own = [each for each in requests if each.operation == kind]
    good = [each for each in own if not each.error]
    return OperationResult(
        completed=len(good),
        failed=len(own) - len(good),
        transferred_bytes=sum(each.transferred_bytes for each in good),
        response=_core.Histogram.of([each.ended_ns - each.began_ns for each in good]).encode(),
    )


def timeline_of(good: Iterable[Request], slice_ns: int) -> Timeline:
    """Return completions by time slice."""
    by_slice = grouped(good, lambda each: (each.ended_ns // slice_ns, each.operation))
    return Timeline(
        slice_ns=slice_ns,
        slices=[
            Slice(
                index=index,
                operation=operation,
                completed=len(own),
                transferred_bytes=sum(each.transferred_bytes for each in own),
                response=_core.Histogram.of([r.ended_ns - r.began_ns for r in own]).encode(),
            )
            for (index, operation), own in sorted(by_slice.items())
        ],
    )


def _stalls(cell: Cell, good: Iterable[Request], duration_s: float) -> list[Stall]:
    """Return the gaps between completions: in a closed loop a request is always outstanding."""
    ends_s = [0.0, *sorted(each.ended_ns / NS_PER_S for each in good), duration_s]
    threshold_s = cell.parsed.stall_threshold_ms / 1e3
    return [
        Stall(
            start_s=start_s,
            length_s=end_s - start_s,
            cause="unknown",
            operations={cell.operation: cell.threads},
            depth=cell.threads,
        )
        for start_s, end_s in pairwise(ends_s)
        if end_s - start_s > threshold_s
    ]


def _error(failed: Request) -> ErrorSample:
    return ErrorSample(
        operation=failed.operation,
        offset_bytes=0,
        length_bytes=0,
        errno=0,
        name=failed.error,
        at_s=failed.ended_ns / NS_PER_S,
    )
