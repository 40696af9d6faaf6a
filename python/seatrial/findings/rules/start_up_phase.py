"""Finding ``start_up_phase``: the start-up phase of samples was excluded from the figures."""

from __future__ import annotations

from typing import Annotated

from seatrial.findings.context import AffectedCells, Context, identities
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.stats.cell_estimates import counted
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.running import RunningPhase, running
from seatrial.stats.wording import format_cell, format_duration_s, format_iops
from seatrial.study.cell import Cell

_FASTER = (
    "A cache, burst credit or free flash blocks absorbed the first requests; a database will see "
    "the rate that follows."
)
_SLOWER = (
    "The target left a power-saving state, filled a cache, or was still processing writes of an "
    "earlier test."
)


class StartUpPhaseFigures(Figures, frozen=True, kw_only=True, tag="start_up_phase"):
    cells_count: int
    samples_cut_count: int
    start_up_s_max: float
    worst_cell: str
    worst_start_up_s: float
    worst_start_up_ratio: float
    worst_running_per_s: float
    concerned: Annotated[AffectedCells, HIDDEN]
    phase: Annotated[RunningPhase, HIDDEN]
    cell: Annotated[Cell, HIDDEN]

    def text(self) -> FindingText:
        direction = "faster" if self.worst_start_up_ratio > 1 else "slower"
        return FindingText(
            sentence=(
                f"A start-up phase of up to {format_duration_s(self.start_up_s_max)} was excluded "
                f"from the figures of {self.concerned}; it was up to "
                f"{format_iops(_factor(self.phase))} times {direction} "
                f"({format_cell(self.cell)}, first {format_duration_s(self.worst_start_up_s)})."
            ),
            cause=_FASTER if self.worst_start_up_ratio > 1 else _SLOWER,
            next=(
                "Compare both phases in the timeline. If a database would benefit from the same "
                "cache, measure short samples with pauses between them."
            ),
        )


@from_samples(rank=500, section="Time")
def start_up_phase(context: Context) -> list[Finding]:
    """Find cells whose figures exclude a start-up phase.

    Means:
        The beginning of a sample differed from the rest and is excluded from the test's figures,
        which are those of the running phase. The timeline still shows it, its stalls and errors
        count, and the maximum is that of the whole sample.

    Decided:
        By the fixed rule of [method.md](method.md#start-up-and-running-phase): a significant ratio
        of at least 1.2, for at most half of the sample. Note.

    Do:
        If the start was faster, plan with the running phase, unless your load has pauses too. If it
        was slower, check what the previous test left unfinished.
    """
    concerned = [summary for summary in context.cells if summary.running_from_s > 0]
    if not concerned:
        return []
    cut = [
        (summary, phase)
        for summary in concerned
        for phase in map(running, counted(summary.samples))
        if phase.from_s > 0
    ]
    worst, phase = max(cut, key=lambda pair: _factor(pair[1]))
    figures = StartUpPhaseFigures(
        cells_count=len(concerned),
        samples_cut_count=len(cut),
        start_up_s_max=max(p.from_s for _, p in cut),
        worst_cell=worst.cell.key,
        worst_start_up_s=phase.from_s,
        worst_start_up_ratio=phase.start_up_ratio,
        worst_running_per_s=phase.completed_per_s,
        concerned=context.affected_cells(concerned),
        phase=phase,
        cell=worst.cell,
    )
    return [Finding(severity="note", cells=identities(concerned), figures=figures)]


def _factor(phase: RunningPhase) -> float:
    """Return by how many times the start-up phase was faster or slower."""
    ratio = phase.start_up_ratio
    return max(ratio, 1 / ratio) if ratio > 0 else float("inf")
