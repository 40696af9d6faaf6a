"""Finding ``left_steady_state``: the rate dropped from a steady level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal

from seatrial.findings.context import AffectedCells, Context, identities
from seatrial.findings.rule import from_samples
from seatrial.findings.rules.temperature import HeatLoggedFigures, temperature
from seatrial.published import FLATTENED, HIDDEN
from seatrial.stats.estimate import Estimate
from seatrial.stats.model import CellSummary, Figures, Finding, FindingText
from seatrial.stats.steady.phases import Phase, SteadyState
from seatrial.stats.wording import (
    format_cell,
    format_duration_s,
    format_rate_bytes,
    format_size,
    format_value,
)
from seatrial.study.cell import Cell
from seatrial.topic import topic_of
from seatrial.trials.io.findings.burst_credit import burst_credit
from seatrial.trials.io.findings.not_steady import WRITING
from seatrial.units import MIB

CHECKPOINT_COLUMN: Final = "checkpoint_running_share"
"""Of the series of a sample of a database."""


@dataclass(frozen=True)
class Drop:
    """A drop from a steady level.

    Attributes:
        summary: The cell.
        state: The series in which it occurred.
        before: The steady phase before it.
        after: The phase at the lower level.
        returned: Whether the rate returned to the steady level.
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


class LeftSteadyStateFigures(Figures, frozen=True, kw_only=True, tag="left_steady_state"):
    cells_count: int
    worst_cell: str
    worst_operation: str
    steady_until_s: float
    steady_per_s: float
    left_per_s: float
    returned: bool
    over: Literal["timeline"] | Literal["rounds"]
    likely: str
    others: Annotated[dict[str, float], FLATTENED]
    concerned: Annotated[AffectedCells, HIDDEN]
    worst_summary_cell: Annotated[Cell, HIDDEN]
    worst_before_rate: Annotated[Estimate, HIDDEN]
    worst_after_rate: Annotated[Estimate, HIDDEN]
    evidence: Annotated[Finding | None, HIDDEN]
    is_database: Annotated[bool, HIDDEN]
    had_checkpoint: Annotated[bool, HIDDEN]
    command: Annotated[str, HIDDEN]

    def text(self) -> FindingText:
        ending = "and then recovered" if self.returned else "and did not recover"
        over = "over its rounds" if self.over == "rounds" else "within a sample"
        return FindingText(
            sentence=(
                f"The rate dropped from a steady level in {self.concerned}; worst: "
                f"{format_cell(self.worst_summary_cell)}, {self.worst_operation}s fell from "
                f"{format_value(self.worst_before_rate)} to {format_value(self.worst_after_rate)} "
                f"after {format_duration_s(self.steady_until_s)} {over} {ending}."
            ),
            cause=(
                _of_database(had_checkpoint=self.had_checkpoint)
                if self.is_database
                else _cause(self.likely, self.evidence, self.others)
            ),
            next=(
                f"Measure the test alone and longer with '{self.command} --seconds 300', watch "
                "the drive's temperature meanwhile, and plan with the sustained rate."
            ),
        )


@from_samples(rank=270, section="Time")
def left_steady_state(context: Context) -> list[Finding]:
    """Find cells whose rate dropped from a steady level, with the cause that evidence supports.

    Means:
        A rate was steady for most of the time and then dropped to another level.

    Decided:
        By the states of [method.md](method.md#steady-state): a phase `left` at a lower rate.
        Warning if the rate stays low, note if it recovered in all tests. The cause follows from the
        evidence:

        - heat: a drive of the test's target counted throttling or reached its limit; possibly, if
          the kernel logged overheating, which names no drive
        - burst credit: the finding `burst_credit` explains tests of the same target
        - write cache full: for a write test; the cache size is the amount written up to the drop
          minus the amount drained by then
        - unknown: none of these; garbage collection, another tenant, or a temperature that cannot
          be read

    Do:
        Measure the test alone and longer (`seatrial io --seconds 300`); plan with the sustained
        rate.
    """
    drops = [drop for state in context.steady for drop in _drops(context, state)]
    if not drops:
        return []
    # A drop that lasts is worse than one that recovered; among equals, the deepest is worst.
    worst = min(drops, key=lambda drop: (drop.returned, drop.ratio))
    concerned = [c for c in context.cells if any(drop.summary is c for drop in drops)]
    likely, evidence = _likely_cause(context, worst)
    cache = _cache_of(worst) if likely == "cache_full" else {}
    is_database = topic_of(worst.summary.cell).has_server
    command = topic_of(worst.summary.cell).command_for(worst.summary.cell)
    return [
        Finding(
            severity="note" if all(drop.returned for drop in drops) else "warning",
            cells=identities(concerned),
            figures=LeftSteadyStateFigures(
                cells_count=len(concerned),
                worst_cell=worst.summary.cell.key,
                worst_operation=worst.state.operation,
                steady_until_s=worst.before.end_s,
                steady_per_s=worst.before.rate.value,
                left_per_s=worst.after.rate.value,
                returned=worst.returned,
                over=worst.state.over,
                likely=likely,
                others=cache,
                concerned=context.affected_cells(concerned),
                worst_summary_cell=worst.summary.cell,
                worst_before_rate=worst.before.rate,
                worst_after_rate=worst.after.rate,
                evidence=evidence,
                is_database=is_database,
                had_checkpoint=_had_checkpoint(worst),
                command=command,
            ),
        )
    ]


def _drops(context: Context, state: SteadyState) -> list[Drop]:
    """Return the drops of one series: each slower phase that follows the steady level."""
    summary = next(c for c in context.cells if c.cell.key == state.cell)
    found = []
    steady: Phase | None = None
    for index, phase in enumerate(state.phases):
        if phase.state == "steady":
            steady = phase
        elif phase.state == "left" and steady and phase.rate.value < steady.rate.value:
            returned = any(later.state == "steady" for later in state.phases[index + 1 :])
            found.append(Drop(summary, state, steady, phase, returned))
    return found


def _likely_cause(context: Context, drop: Drop) -> tuple[str, Finding | None]:
    """Return the likely cause, and the finding that supports it."""
    if topic_of(drop.summary.cell).has_server:
        return "unknown", None
    hot = [f for f in temperature(context) if f.severity in ("critical", "warning")]
    own = [f for f in hot if _is_of_target(context, drop.summary, f)]
    if own:
        return "heat", own[0]
    target = drop.summary.cell.target
    credit = [f for f in burst_credit(context) if any(each["target"] == target for each in f.cells)]
    if credit:
        return "burst_credit", credit[0]
    logged = [f for f in hot if isinstance(f.figures, HeatLoggedFigures)]
    if logged:
        return "heat", logged[0]
    if drop.state.operation in WRITING and drop.state.over == "timeline":
        return "cache_full", None
    return "unknown", None


def _is_of_target(context: Context, summary: CellSummary, heat: Finding) -> bool:
    """Return whether a drive that was too hot is under a cell's target.

    The health of drives is that of the first target's, which other targets may share.
    """
    device = getattr(heat.figures, "device", "")
    before = context.before_of(summary)
    return bool(device) and (
        before is context.before or device in {each.name for each in before.stack}
    )


def _cause(likely: str, evidence: Finding | None, cache: dict[str, float]) -> str:
    """Return the likely cause in words, from its evidence."""
    if evidence:
        how = "Possibly" if isinstance(evidence.figures, HeatLoggedFigures) else "Likely"
        return f"{how} {likely.replace('_', ' ')}: {evidence.sentence}"
    if likely == "cache_full":
        return _cache_full(cache)
    return (
        "Unknown: there is no evidence of heat or burst credit. Other possible causes are garbage "
        "collection, another tenant on the same host or array, or a drive whose temperature cannot "
        "be read here."
    )


def _of_database(*, had_checkpoint: bool) -> str:
    causes = "a vacuum that started, data that outgrew a cache, or other work on the machine"
    return (
        f"For a database, usually {'a checkpoint, ' if had_checkpoint else ''}{causes}; heat, "
        "burst credit and a full write cache of the device cannot be excluded."
        f"{'' if had_checkpoint else ' No checkpoint ran.'}"
    )


def _had_checkpoint(drop: Drop) -> bool:
    """Return whether a checkpoint ran in a sample of the cell, or may have run unseen."""
    for sample in drop.summary.samples:
        columns = sample.series.columns if sample.series else {}
        shares = [share for share in columns.get(CHECKPOINT_COLUMN, []) if share is not None]
        if not shares or any(shares):
            return True
    return False


def _cache_of(drop: Drop) -> dict[str, float]:
    """Return the write cache that the drop implies; empty if there is no single block size."""
    block_bytes = drop.summary.cell.block_size_bytes
    if block_bytes == 0:
        return {}
    earlier = [phase for phase in drop.state.phases if phase.end_s <= drop.before.end_s]
    requests = sum(phase.rate.value * (phase.end_s - phase.start_s) for phase in earlier)
    written_bytes = requests * block_bytes
    drain_bytes_per_s = drop.after.rate.value * block_bytes
    return {
        "written_until_drop_bytes": written_bytes,
        "cache_bytes": written_bytes - drain_bytes_per_s * drop.before.end_s,
        "drain_bytes_per_s": drain_bytes_per_s,
    }


def _cache_full(cache: dict[str, float]) -> str:
    """Return the cause as a full write cache of the size that the drop implies."""
    if not cache:
        return "A full write cache, or garbage collection."
    return (
        f"Either a full write cache of about {format_size(_rounded(cache['cache_bytes']))} (full "
        f"after {format_size(_rounded(cache['written_until_drop_bytes']))}, draining at "
        f"{format_rate_bytes(cache['drain_bytes_per_s'])}), or garbage collection. A sample after "
        "a pause distinguishes them: a cache drains during the pause."
    )


def _rounded(size_bytes: float) -> int:
    """Return a size rounded to two significant digits in MiB, its precision."""
    return int(float(f"{size_bytes / MIB:.1e}") * MIB)
