"""The cells of a recording: its requests, sent to another target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from seatrial.errors import UsageError
from seatrial.stats.wording import format_count, format_plural
from seatrial.study.cell import Cell, FactorValue
from seatrial.study.cost import OVERHEAD_S
from seatrial.study.model import TRIAL_FILE, PlannedTarget
from seatrial.study.problems import ConstraintError
from seatrial.study.schema import Study
from seatrial.study.units import format_factor, format_size
from seatrial.study.values import many
from seatrial.trials.io.study.shapes import Access
from seatrial.trials.watch.study.listing import Rules, SentRequests, listing_of
from seatrial.trials.watch.study.workload import RECORDING, RecordingWorkload

SLOWER_FACTOR_MAX: Final = 10.0
SLOWER_S_MAX: Final = 60.0
"""Limit of a sample on a slower target: 10 times the length of the recording, and a minute."""


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """The replay of a cell, as its specification stores it.

    Attributes:
        path: The recording.
        rules: The rules of the replay.
        sent: Summary of the requests.
    """

    path: str
    rules: Rules
    sent: SentRequests


def replay_of(cell: Cell) -> Replay:
    """Return the replay of a cell of the kind ``recording``."""
    return msgspec.convert(cell.spec[RECORDING], Replay)


def cells_of_recording(
    workload: RecordingWorkload, target: PlannedTarget, *, prefix: str
) -> Iterator[Cell]:
    """Yield a cell for each speed.

    Raises:
        UsageError: where the recording cannot be read, or has nothing to send.
    """
    path = Path(workload.file)
    speeds = workload.speed if isinstance(workload.speed, list) else [workload.speed]
    for speed in speeds:
        rules = Rules(
            speed=0.0 if speed == "max" else float(speed),
            device=workload.device,
            size_bytes=target.size_bytes,
            block_bytes=max(512, target.logical_block_bytes),
        )
        sent = listing_of(path, rules).sent
        if not sent.requests:
            raise _empty(workload, sent)
        replay = Replay(path=str(path), rules=rules, sent=sent)
        yield _cell(workload, target, replay, prefix)


def _cell(workload: RecordingWorkload, target: PlannedTarget, replay: Replay, prefix: str) -> Cell:
    sent, speed = replay.sent, replay.rules.speed
    kinds = {"write" if name == "sync" else name for name in sent.operations}
    operation = kinds.pop() if len(kinds) == 1 else "mixed"
    depth = min(workload.depth, sent.others_max + 1)
    factors: dict[str, FactorValue] = {"speed": speed or "max"}
    if workload.device:
        factors["device"] = workload.device
    named = "".join(f"/{name}={format_factor(value)}" for name, value in factors.items())
    return Cell(
        key=f"{prefix}{workload.label}/{operation}/various/1t/{depth}d{named}",
        target=target.label,
        workload=workload.label,
        kind=RECORDING,
        operation=operation,
        block_size_bytes=0,
        threads=1,
        depth=depth,
        factors=factors,
        spec={
            "seed": 0,
            "target": {
                "kind": "file" if target.is_storage else target.kind,
                "file": TRIAL_FILE,
                "size_bytes": target.size_bytes,
                "direct": workload.direct,
                "dsync": False,
                "copy_to": None,
                "create": False,
            },
            "range": {"start_bytes": 0, "length_bytes": target.size_bytes},
            "accesses": [_access(name, replay) for name in sent.operations if name != "sync"]
            or [_access("write", replay)],
            "threads": 1,
            "depth": depth,
            "engine": workload.engine,
            "arrival": {"kind": "listed" if speed else "closed"},
            "data": {"kind": workload.data}
            | ({"share": workload.compressible_share} if workload.data == "compressible" else {}),
            "limit": {
                "duration_s": limit_s(workload, sent),
                # Of flushes alone there are none, and a sample writes at least a block.
                "bytes": max(sent.total_bytes, replay.rules.block_bytes),
                "operations": None,
            },
            "slice_ms": workload.slice_ms,
            "stall_threshold_ms": workload.stall_threshold_ms,
            RECORDING: msgspec.to_builtins(replay),
        },
    )


def _access(name: str, replay: Replay) -> Access:
    """Return the limits of an operation's requests in the list."""
    rules, sent = replay.rules, replay.sent
    return {
        "weight": float(max(1, sent.operations[name].requests)) if name in sent.operations else 1.0,
        "operation": name,
        "sizes": [{"bytes": max(sent.length_bytes_max, rules.block_bytes), "weight": 1.0}],
        "align_bytes": rules.block_bytes,
        "address": {"kind": "random"},
    }


def limit_s(workload: RecordingWorkload, sent: SentRequests) -> float:
    """Return after how long a sample ends even if requests are left (s)."""
    length_s = sent.span_s or sent.recorded_span_s
    return float(min(workload.duration_s, SLOWER_FACTOR_MAX * length_s + SLOWER_S_MAX))


def sample_s(cell: Cell) -> float:
    """Return the time that one sample of a recording is expected to take (s)."""
    sent = replay_of(cell).sent
    return (sent.span_s or sent.recorded_span_s) + OVERHEAD_S


def check_recordings(study: Study) -> Iterator[ConstraintError]:
    """Yield keys that a recording does not support."""
    for index, workload in enumerate(study.workloads):
        if not isinstance(workload, RecordingWorkload):
            continue
        if workload.verify or many(workload.data) == ["verifiable"]:
            yield ConstraintError(
                "is set, but what a recording wrote is unknown",
                "A replay writes data of its own; leave out verify and data = verifiable",
                *("workload", index, "verify"),
            )
        for key in ("direct", "engine", "data", "compressible_share"):
            if isinstance(getattr(workload, key), list):
                yield ConstraintError(
                    "is a list", "A recording takes one value", "workload", index, key
                )


def plan_notes(cells: Sequence[Cell]) -> Iterator[str]:
    """Yield the differences between each recording and its replay, as sentences."""
    for cell in (each for each in cells if each.kind == RECORDING):
        sent = replay_of(cell).sent
        name = f"{cell.workload} on {cell.target}"
        if sent.left_out:
            parts = [f"{format_count(count)} {reason}" for reason, count in sent.left_out.items()]
            requests = format_plural(sent.requests, "request")
            yield f"{name} sends {requests}, not {', '.join(parts)}"
        if sent.wrapped:
            yield (
                f"{name}: the target is smaller than the recorded "
                f"{format_size(sent.extent_bytes)}, so the offsets of "
                f"{format_plural(sent.wrapped, 'request')} wrap"
            )


def _empty(workload: RecordingWorkload, sent: SentRequests) -> UsageError:
    left_out = ", ".join(f"{count} {reason}" for reason, count in sent.left_out.items())
    return UsageError(
        seen=f"The recording {workload.file} has no request that could be sent",
        cause=f"Left out: {left_out}" if left_out else "It is empty",
        next_step="Show what it contains with `seatrial trace show`",
    )
