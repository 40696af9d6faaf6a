"""Load lines as a topic (seatrial.topic)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from seatrial.topic import Command, DocumentPart
from seatrial.trials.io.engine_topic import PatternTopic

if TYPE_CHECKING:
    from seatrial.findings.model import Summary
    from seatrial.findings.tile import Tile
    from seatrial.measure.recorder import Strategy
    from seatrial.report.figures.model import Figure
    from seatrial.report.part import Detail
    from seatrial.report.table import Table
    from seatrial.stats.model import CellSummary, Estimate
    from seatrial.study.cell import Cell
    from seatrial.study.model import Plan, PlannedTarget
    from seatrial.study.problems import ConstraintError
    from seatrial.study.sampled import SampledWorkload
    from seatrial.study.schema import Study
    from seatrial.topic import AnalysisInput
    from seatrial.trials.loadline.analysis.model import LoadLine

# ruff: noqa: PLC0415 - every command imports all topics, and most commands use none of this

_COUNTED = ("stalls", "stall_max", "errors")


class LoadlineTopic(PatternTopic):
    """Load lines: block I/O at rates that are found during the measurement."""

    name = "loadline"
    charts_first = True
    in_rounds = False
    shows_io = False
    titles = MappingProxyType({"loadline": "Latency against load"})
    own_quantities = MappingProxyType({"sustained": "Only a load line has sustained_per_s"})
    key_charts = ("loadline",)
    commands = MappingProxyType(
        {
            "loadline": Command(
                "Find the highest sustained rate within a latency limit.",
                "seatrial.trials.loadline.commands:command",
                after="io",
            ),
        }
    )

    @property
    def after_rounds_samples_max(self) -> int:  # type: ignore[override]
        """The most samples of one load line."""
        from seatrial.trials.loadline.study import SAMPLES_MAX

        return SAMPLES_MAX

    def workloads(self) -> tuple[type[SampledWorkload], ...]:
        """Return ``loadline``."""
        from seatrial.trials.loadline.study import Loadline

        return (Loadline,)

    def check(self, study: Study) -> Iterator[ConstraintError]:
        """Yield keys that a load line does not support, and invalid limits."""
        from seatrial.trials.loadline.check import check_load_lines

        return check_load_lines(study)

    def substitute_for_quantity(self, quantity: str, workload: SampledWorkload) -> str:
        """Return the supported quantities: samples of a load line exceed latencies by design."""
        del workload
        wanted = quantity in ("sustained", *_COUNTED)
        return "" if wanted else "A load line supports sustained_per_s, stalls and errors"

    def obstacle(self, workload: SampledWorkload, target: PlannedTarget) -> str:
        """Return why a load line cannot run on a target: layouts are removed before it."""
        if obstacle := super().obstacle(workload, target):
            return obstacle
        if target.layout:
            return "a load line runs after all rounds, when layouts have been removed"
        return ""

    def notes(
        self, study: Study, targets: Sequence[PlannedTarget], cells: Sequence[Cell]
    ) -> Iterator[str]:
        """Yield a note on each load line; the plan contains only its first cell."""
        from seatrial.study.units import format_seconds
        from seatrial.trials.loadline.study import SAMPLES_MAX, Loadline

        del targets
        for cell in cells:
            for workload in study.workloads:
                if isinstance(workload, Loadline) and workload.label == cell.workload:
                    yield (
                        f"{cell.key} starts a load line, which searches for the highest rate with "
                        f"{workload.percentile} <= {workload.limit} in at most {SAMPLES_MAX} "
                        f"samples and {format_seconds(workload.budget_s)}"
                    )

    def after_rounds_s(self, plan: Plan, cell: Cell) -> float:
        """Return the budget of the load line that a cell starts (s)."""
        from seatrial.trials.loadline.study import Loadline

        return sum(
            workload.budget_s
            for workload in plan.study.workloads
            if isinstance(workload, Loadline) and workload.label == cell.workload
        )

    def own_table(self, summary: Summary, target: str, workload: str) -> Table | None:
        """Return the steps of a load line."""
        from seatrial.trials.loadline.analysis.model import load_lines_of
        from seatrial.trials.loadline.report import load_line_table

        lines = {(line.target, line.workload): line for line in load_lines_of(summary)}
        line = lines.get((target, workload))
        return load_line_table(line) if line else None

    def charts(self, summary: Summary, detail: Detail) -> list[Figure]:
        """Return the chart of the load lines."""
        from seatrial.trials.loadline.analysis.model import load_lines_of
        from seatrial.trials.loadline.report import load_line_figures

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

    def strategy(self, plan: Plan, before: Strategy) -> Strategy:
        """Return the load lines after all else; where there is nothing else, only these."""
        from seatrial.trials.loadline.study import LOADLINE

        of_lines = [cell.kind == LOADLINE for cell in plan.cells]
        if not any(of_lines):
            return before
        from seatrial.trials.loadline.analysis.decider import decider
        from seatrial.trials.loadline.measure import load_lines

        return load_lines(decider, before=None if all(of_lines) else before)

    def answers(self, analyses: Mapping[str, Any]) -> list[str]:
        """Return the result of each load line; with its name if there are several."""
        lines: list[LoadLine] = analyses.get(self.name, [])
        sentences = []
        for line in lines:
            name = f"{line.workload}, {line.target}: " if len(lines) > 1 else ""
            generator = f" {line.generator}." if line.generator else ""
            sentences.append(f"{name}{line.sentence}{generator}")
        return sentences

    def tiles(self, cells: Sequence[CellSummary], analyses: Mapping[str, Any]) -> list[Tile]:
        """Return the rate that each load line of a target sustains, or what a closed loop did."""
        from seatrial.trials.loadline.report import load_line_tiles

        targets = {each.cell.target for each in cells}
        return load_line_tiles([e for e in analyses.get(self.name, []) if e.target in targets])

    def verdict_line(self, summary: Summary) -> str:
        """Return what the first load line found."""
        from seatrial.trials.loadline.analysis.model import load_lines_of
        from seatrial.trials.loadline.report import load_line_verdict

        lines = load_lines_of(summary)
        return load_line_verdict(lines[0]) if lines else ""

    def kinds_covered(self, analyses: Mapping[str, Any]) -> Collection[str]:
        """Return the kinds of findings that repeat a load line's answer."""
        return ("knee",) if analyses.get(self.name) else ()

    def document_part(self) -> DocumentPart:
        """Return the topic's part of the document of a run."""
        from seatrial.trials.loadline.analysis.model import LoadLine, load_lines_of

        return DocumentPart(
            "load_lines",
            list[LoadLine],
            "For each load line workload: latency against offered load.",
            load_lines_of,
        )

    def analyse(self, measured: AnalysisInput) -> list[LoadLine] | None:
        """Return the load lines of a run, in the order of its study."""
        from seatrial.trials.loadline.analysis.lines import load_lines

        if measured.study is None:
            return None
        samples = [sample for part in measured.cells for sample in part.samples]
        return load_lines(measured.study, samples) or None

    def own_estimate(
        self, quantity: str, summary: CellSummary, analyses: Mapping[str, Any]
    ) -> Estimate | str | None:
        """Return the sustained rate of a load line, or why there is none."""
        lines: list[LoadLine] = analyses.get(self.name, [])
        line = next((each for each in lines if each.cell == summary.cell.key), None)
        if quantity != "sustained" or line is None:
            return None
        return line.sustained or line.sentence.rstrip(".")


TOPIC = LoadlineTopic()
