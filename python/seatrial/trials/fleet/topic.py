"""Many hosts as a topic (seatrial.topic)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from seatrial.topic import Command, DocumentPart, Topic

if TYPE_CHECKING:
    from seatrial.findings.model import Summary
    from seatrial.machine.undo_result import Undoer
    from seatrial.measure.stage import AnyStage, StageRequest
    from seatrial.report.part import Detail, PagePart
    from seatrial.report.table import Table
    from seatrial.topic import AnalysisInput
    from seatrial.trials.fleet.analysis.scaling import Scaling

# ruff: noqa: PLC0415 - every command imports all topics, and most commands use none of this


class FleetTopic(Topic):
    """Hosts of a Ray cluster: their checks, and studies on several hosts."""

    name = "fleet"
    key_charts = ("fleet-scaling",)
    commands = MappingProxyType(
        {
            "fleet": Command(
                "Check the hosts of a Ray cluster for what would distort results.",
                "seatrial.trials.fleet.commands.fleet:command",
                after="check",
            )
        }
    )

    def undoers(self) -> Mapping[str, Undoer]:
        """Return the undoers of a lab of hosts."""
        from seatrial.fleet.undoing import FLEET_UNDOERS

        return FLEET_UNDOERS

    def stage(self, request: StageRequest) -> AnyStage | None:
        """Return a stage of several hosts for a study of block I/O on hosts; else None."""
        from seatrial.topic import topic_of

        hosts = request.plan.study.hosts
        if not hosts or any(topic_of(cell).has_server for cell in request.plan.cells):
            return None
        from seatrial.trials.fleet.measure.stage import FleetStage

        return FleetStage(request, hosts)

    def analyse(self, measured: AnalysisInput) -> list[Scaling] | None:
        """Return how the rate of each workload grows with the number of hosts."""
        from seatrial.trials.fleet.analysis.scaling import analyse

        return analyse(measured.cells) or None

    def analysis_without(self, analysis: Any, keys: Collection[str]) -> Any:  # noqa: ANN401
        """Return the analysis without workloads that have an omitted cell."""
        found: list[Scaling] = analysis or []
        return [each for each in found if not any(step.cell in keys for step in each.steps)]

    def document_part(self) -> DocumentPart:
        """Return the topic's part of the document of a run."""
        from seatrial.trials.fleet.analysis.scaling import Scaling

        return DocumentPart(
            "scaling",
            list[Scaling],
            "For each workload that several hosts measured: rate by number of hosts.",
            lambda summary: summary.analyses.get("fleet") or [],
        )

    def answers(self, analyses: Mapping[str, Any]) -> list[str]:
        """Return the gain of more hosts for each workload."""
        from seatrial.trials.fleet.report.tables import scaling_sentence

        return [scaling_sentence(each) for each in analyses.get(self.name) or []]

    def tables(self, summary: Summary) -> list[Table]:
        """Return the rates by number of hosts, and what each host did."""
        from seatrial.trials.fleet.report.tables import hosts_tables, scaling_tables

        return [
            *scaling_tables(summary.analyses.get(self.name) or []),
            *hosts_tables(summary.cells),
        ]

    def part(self, summary: Summary, detail: Detail) -> PagePart:
        """Return the section on the hosts."""
        from seatrial.trials.fleet.report.section import hosts_part

        del detail
        return hosts_part(summary)

    def verdict_line(self, summary: Summary) -> str:
        """Return the lost hosts; empty if none was lost."""
        lost = [
            f"{host.name} {host.how} in round {sample.round + 1}"
            for cell in summary.cells
            for sample in cell.samples
            for host in (sample.fleet.lost if sample.fleet else ())
        ]
        return "; ".join(lost)

    def exit_code(self, summary: Summary) -> int:
        """Return that of a partial result if a host was lost."""
        from seatrial.errors import EXIT_PARTIAL

        return EXIT_PARTIAL if self.verdict_line(summary) else 0


TOPIC = FleetTopic()
