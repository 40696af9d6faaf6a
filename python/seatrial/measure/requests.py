"""Samples of requests that Python makes itself, one by one, each with its start and its end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from seatrial import _core
from seatrial.measure.driver import Occasion
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

NS_PER_MS: Final = 1_000_000
NS_PER_S: Final = 1e9
ERRORS_KEPT_MAX: Final = 32


@dataclass(frozen=True)
class Request:
    """One request that has ended, by the monotonic clock.

    Attributes:
        operation: Its kind, such as ``get``.
        began_ns: When it was sent, from the sample's start; a closed loop sends when it is due.
        ended_ns: When its answer was there.
        transferred_bytes: What it moved.
        error: Why it failed; empty where it did not.
    """

    operation: str
    began_ns: int
    ended_ns: int
    transferred_bytes: int = 0
    error: str = ""


def sample_of_requests(
    cell: Cell,
    occasion: Occasion,
    requests: Sequence[Request],
    *,
    started_at: float,
    duration_s: float,
    in_flight_at_end: int,
    engine: str,
) -> Sample:
    """Return the sample of a closed loop, every request accounted for.

    Args:
        cell: What was measured; ``slice_ms`` and ``stall_threshold_ms`` of its specification hold.
        occasion: Round and position.
        requests: All that ended.
        started_at: Unix time in s.
        duration_s: How long the sample lasted.
        in_flight_at_end: Requests that had not ended.
        engine: What made them.
    """
    good = [each for each in requests if not each.error]
    failed = [each for each in requests if each.error]
    return Sample(
        cell=cell,
        round=occasion.round_number,
        position=occasion.position,
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
        timeline=timeline_of(good, cell.spec["slice_ms"] * NS_PER_MS),
        stalls=_stalls(cell, good, duration_s),
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
    """Return completions by time, each in the slice in which it ended."""
    by_slice: dict[tuple[int, str], list[Request]] = defaultdict(list)
    for each in good:
        by_slice[each.ended_ns // slice_ns, each.operation].append(each)
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
    """Return the times without a completion: in a closed loop something is always outstanding."""
    ends_s = [0.0, *sorted(each.ended_ns / NS_PER_S for each in good), duration_s]
    threshold_s = cell.spec["stall_threshold_ms"] / 1e3
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
