"""Load lines as a topic (seatrial.topic)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from seatrial.trials.io.topic import IoTopic

if TYPE_CHECKING:
    from seatrial.findings.model import Summary
    from seatrial.report.figures.model import Figure
    from seatrial.report.part import Detail
    from seatrial.report.table import Table
    from seatrial.stats.model import CellSummary, Estimate
    from seatrial.study.cell import Cell
    from seatrial.study.model import Plan, PlannedTarget, TrialFile
    from seatrial.study.problems import ConstraintError
    from seatrial.study.sampled import Sampled
    from seatrial.study.schema import Study
    from seatrial.topic import Measured
    from seatrial.trials.loadline.analysis.model import LoadLine

# ruff: noqa: PLC0415 - a topic is imported by every command, and most need nothing of it

_COUNTED = ("stalls", "stall_max", "errors")


class LoadlineTopic(IoTopic):
    """Load lines: block I/O at rates that are sought while the cell runs."""

    name = "loadline"
    in_rounds = False
    titles = MappingProxyType({"loadline": "Latency against load"})
    own_quantities = MappingProxyType(
        {"sustained": "Only a load line is asked for it; no other workload has sustained_per_s"}
    )

    @property
    def apart_samples_max(self) -> int:  # type: ignore[override]
        """The most samples of one load line."""
        from seatrial.trials.loadline.study import SAMPLES_MAX

        return SAMPLES_MAX

    def workloads(self) -> tuple[type[Sampled], ...]:
        """Return ``loadline``."""
        from seatrial.trials.loadline.study import Loadline

        return (Loadline,)

    def check(self, study: Study) -> Iterator[ConstraintError]:
        """Yield what a load line cannot have, and limits that are none."""
        from seatrial.trials.loadline.check import check_load_lines

        return check_load_lines(study)

    def without_quantity(self, quantity: str, workload: Sampled) -> str:
        """Return what a load line keeps to: its samples break the limit of latency on purpose."""
        del workload
        wanted = quantity in ("sustained", *_COUNTED)
        return "" if wanted else "A load line keeps to sustained_per_s, stalls or errors"

    def obstacle(self, workload: Sampled, target: PlannedTarget) -> str:
        """Return why a load line cannot run on a target: it comes when no layout is there."""
        if obstacle := super().obstacle(workload, target):
            return obstacle
        if target.layout:
            return "a load line goes its own way after all rounds, when no layout is there any more"
        return ""

    def files(self, target: PlannedTarget, cells: Sequence[Cell]) -> Iterator[TrialFile]:
        """Yield nothing: its files are among those of block I/O."""
        del target, cells
        yield from ()

    def check_plan(
        self, targets: Sequence[PlannedTarget], cells: Sequence[Cell], files: Sequence[TrialFile]
    ) -> None:
        """Do nothing: its cells are checked among those of block I/O."""

    def notes(
        self, study: Study, targets: Sequence[PlannedTarget], cells: Sequence[Cell]
    ) -> Iterator[str]:
        """Yield a note on each load line, of which the plan knows the beginning only."""
        from seatrial.study.units import format_seconds
        from seatrial.trials.loadline.study import SAMPLES_MAX, Loadline

        del targets
        for cell in cells:
            for workload in study.workloads:
                if isinstance(workload, Loadline) and workload.label == cell.workload:
                    yield (
                        f"{cell.key} is where a load line begins; it seeks the rate for "
                        f"{workload.percentile} <= {workload.limit} in at most {SAMPLES_MAX} "
                        f"samples and {format_seconds(workload.budget_s)}"
                    )

    def apart_s(self, plan: Plan, cell: Cell) -> float:
        """Return the budget of the load line that a cell begins (s)."""
        from seatrial.trials.loadline.study import Loadline

        return sum(
            workload.budget_s
            for workload in plan.study.workloads
            if isinstance(workload, Loadline) and workload.label == cell.workload
        )

    def own_table(self, summary: Summary, target: str, workload: str) -> Table | None:
        """Return the steps of a load line."""
        from seatrial.trials.loadline.analysis.model import load_lines_of
        from seatrial.trials.loadline.report.tables import load_line_table

        lines = {(line.target, line.workload): line for line in load_lines_of(summary)}
        line = lines.get((target, workload))
        return load_line_table(line) if line else None

    def figures(self, summary: Summary, detail: Detail) -> list[Figure]:
        """Return the chart of the load lines."""
        from seatrial.trials.loadline.analysis.model import load_lines_of
        from seatrial.trials.loadline.report.figure import load_line_figures

        del detail
        return load_line_figures(load_lines_of(summary))

    def markdown(self, summary: Summary) -> list[str]:
        """Return the answer of each load line."""
        from seatrial.report.exports.markdown import sentences_part
        from seatrial.trials.loadline.analysis.model import load_lines_of

        return sentences_part(
            "Load lines",
            [
                f"{line.target}, {line.workload}: {line.sentence} {line.cause}".strip()
                for line in load_lines_of(summary)
            ],
        )

    def analyse(self, measured: Measured) -> list[LoadLine] | None:
        """Return the load lines of a run, in the order of its study."""
        from seatrial.trials.loadline.analysis.lines import load_lines

        if measured.study is None:
            return None
        samples = [sample for part in measured.cells for sample in part.samples]
        return load_lines(measured.study, samples) or None

    def figure(
        self, quantity: str, summary: CellSummary, analyses: Mapping[str, Any]
    ) -> Estimate | str | None:
        """Return the rate that a load line sustains, or why there is none."""
        lines: list[LoadLine] = analyses.get(self.name, [])
        line = next((each for each in lines if each.cell == summary.cell.key), None)
        if quantity != "sustained" or line is None:
            return None
        return line.sustained or line.sentence.rstrip(".")


TOPIC = LoadlineTopic()
