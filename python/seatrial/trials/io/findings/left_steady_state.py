"""Finding ``left_steady_state``: a rate that was steady, and then was not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from seatrial.findings.context import Context, identities
from seatrial.findings.rule import from_samples
from seatrial.findings.rules.temperature import temperature
from seatrial.stats.model import CellSummary, Finding
from seatrial.stats.steady.model import Phase, SteadyState
from seatrial.stats.wording import (
    format_cell,
    format_duration_s,
    format_rate_bytes,
    format_size,
    format_value,
)
from seatrial.topic import topic_of
from seatrial.trials.io.findings.burst_credit import burst_credit

WRITING = ("write", "commit", "copy")
MIB = 1 << 20


@dataclass(frozen=True)
class Drop:
    """A fall from a steady level.

    Attributes:
        summary: The cell.
        state: The series in which it was seen.
        before: The steady phase before it.
        after: The phase at the lower level.
        returned: Whether the steady level came back.
    """

    summary: CellSummary
    state: SteadyState
    before: Phase
    after: Phase
    returned: bool

    @property
    def ratio(self) -> float:
        """The lower rate over the steady one."""
        return self.after.rate.value / self.before.rate.value


@from_samples(rank=270, section="Time")
def left_steady_state(context: Context) -> list[Finding]:
    """Find cells whose rate fell from a steady level, with the cause that the evidence tells.

    Means:
        A rate was steady for the longest part, and then fell to another level.

    Decided:
        The states of [method.md](method.md#steady-state): a phase `left` at a lower rate. Warning
        where it stays, note where the level came back in all of them. The cause is taken from the
        evidence:

        - heat: the drive counted throttling, reached its limit, or the kernel logged heat
        - burst credit: the finding `burst_credit` explains the run
        - write cache full: of a write cell, what was written until then, less what drained
          meanwhile, is the cache
        - unknown: none of these; garbage collection, a neighbour, heat that cannot be read

    Do:
        The cell alone and longer (`seatrial io --seconds 300`); plan with the rate that it keeps.
    """
    drops = [drop for state in context.steady for drop in _drops(context, state)]
    if not drops:
        return []
    # A fall that stays is graver than one that passed; of equals, the deepest.
    worst = min(drops, key=lambda drop: (drop.returned, drop.ratio))
    concerned = [c for c in context.cells if any(drop.summary is c for drop in drops)]
    cause, evidence = _cause(context, worst)
    ending = "then came back" if worst.returned else "and stayed there"
    command = topic_of(worst.summary.cell).command_for(worst.summary.cell)
    whose = "over its rounds" if worst.state.over == "rounds" else "within a sample"
    return [
        Finding(
            kind="left_steady_state",
            severity="note" if all(drop.returned for drop in drops) else "warning",
            cells=identities(concerned),
            sentence=(
                f"{context.of_cells(concerned)} left a steady level; the worst "
                f"({format_cell(worst.summary.cell)}, {worst.state.operation}s, {whose}) fell "
                f"after {format_duration_s(worst.before.end_s)} from "
                f"{format_value(worst.before.rate)} to {format_value(worst.after.rate)}, {ending}."
            ),
            cause=cause,
            evidence={
                "cells_count": len(concerned),
                "worst_cell": worst.summary.cell.key,
                "worst_operation": worst.state.operation,
                "steady_until_s": worst.before.end_s,
                "steady_per_s": worst.before.rate.value,
                "left_per_s": worst.after.rate.value,
                "returned": worst.returned,
                "over": worst.state.over,
                **evidence,
            },
            next=(
                f"Measure the cell alone and longer with '{command} --seconds 300', watch "
                "the drive's temperature meanwhile, and plan with the rate that it keeps."
            ),
        )
    ]


def _drops(context: Context, state: SteadyState) -> list[Drop]:
    """Return the falls of one series: each slower phase that follows the steady level."""
    summary = next(c for c in context.cells if c.cell.key == state.cell)
    found = []
    steady: Phase | None = None
    for place, phase in enumerate(state.phases):
        if phase.state == "steady":
            steady = phase
        elif phase.state == "left" and steady and phase.rate.value < steady.rate.value:
            returned = any(later.state == "steady" for later in state.phases[place + 1 :])
            found.append(Drop(summary, state, steady, phase, returned))
    return found


def _cause(context: Context, drop: Drop) -> tuple[str, dict[str, Any]]:
    """Return the likely cause in words and the figures that speak for it."""
    if topic_of(drop.summary.cell).has_server:
        return _OF_DATABASE, {"likely": "unknown"}
    hot = [f for f in temperature(context) if f.severity in ("critical", "warning")]
    if hot:
        return f"Likely heat: {hot[0].sentence}", {"likely": "heat"}
    credit = burst_credit(context)
    if credit:
        return f"Likely burst credit: {credit[0].sentence}", {"likely": "burst_credit"}
    if drop.state.operation in WRITING and drop.state.over == "timeline":
        return _cache_full(drop)
    return (
        "Not told by the evidence: no heat was read and no credit fits. What else does it: "
        "garbage collection that sets in, a neighbour on the same host or array, or a drive whose "
        "temperature cannot be read here.",
        {"likely": "unknown"},
    )


_OF_DATABASE = (
    "Of a database mostly a checkpoint or a vacuum that began (the finding checkpoint_dips tells "
    "of the first), or data that outgrew a cache; heat, burst credit and a full write cache of the "
    "device look the same from here."
)


def _cache_full(drop: Drop) -> tuple[str, dict[str, Any]]:
    """Return what a write cache of the size that the drop implies would explain."""
    block_bytes = drop.summary.cell.block_size_bytes
    if block_bytes == 0:
        return "A write cache that was full, or garbage collection that set in.", {
            "likely": "cache_full"
        }
    earlier = [phase for phase in drop.state.phases if phase.end_s <= drop.before.end_s]
    requests = sum(phase.rate.value * (phase.end_s - phase.start_s) for phase in earlier)
    written_bytes = requests * block_bytes
    drain_bytes_per_s = drop.after.rate.value * block_bytes
    held_bytes = written_bytes - drain_bytes_per_s * drop.before.end_s
    evidence = {
        "likely": "cache_full",
        "written_until_drop_bytes": written_bytes,
        "cache_bytes": held_bytes,
        "drain_bytes_per_s": drain_bytes_per_s,
    }
    return (
        f"Either a write cache, then of about {format_size(_rounded(held_bytes))}, full after "
        f"{format_size(_rounded(written_bytes))} and draining at "
        f"{format_rate_bytes(drain_bytes_per_s)}, or garbage collection that set in. A sample "
        "after a pause tells them apart: a cache has drained meanwhile.",
        evidence,
    )


def _rounded(size_bytes: float) -> int:
    """Return a size to two digits of MiB, as it is not known better."""
    return int(float(f"{size_bytes / MIB:.1e}") * MIB)
