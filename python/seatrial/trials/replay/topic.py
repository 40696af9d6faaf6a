"""Replays as a topic (seatrial.topic).

Their part of a study and their measurement are those of the database topic: a trace is another
load of its servers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from types import MappingProxyType
from typing import TYPE_CHECKING

from seatrial.topic import Command, DocumentPart, Topic

if TYPE_CHECKING:
    from seatrial.errors import UsageError
    from seatrial.findings.model import Summary
    from seatrial.measure.stage import AnyStage, StageRequest
    from seatrial.report.exports.csv_table import Field
    from seatrial.report.part import Detail, PagePart
    from seatrial.report.table import Table
    from seatrial.stats.compare.model import SideSamples
    from seatrial.stats.compare.pairing import MatchedCells
    from seatrial.topic import AnalysisInput
    from seatrial.trials.replay.analysis.model import ReplayCell

# ruff: noqa: PLC0415 - a topic is imported by every command, and most need nothing of it


class ReplayTopic(Topic):
    """Replays of the captured statements of a server on another one."""

    name = "replay"
    charts_first = True
    key_charts = ("replay-time-", "replay-classes-", "replay-queries-")
    commands = MappingProxyType(
        {
            "sql": Command(
                "Capture SQL of PostgreSQL into a trace, replay it, and compare before and after.",
                "seatrial.trials.replay.commands.sql:command",
                after="db",
                section="Databases",
            ),
        }
    )

    def stage(self, request: StageRequest) -> AnyStage | None:
        """Return a stage of several hosts, for replays on a cluster; else None."""
        plan = request.plan
        if not request.ray or plan.study.hosts or any(cell.kind != "replay" for cell in plan.cells):
            return None
        from seatrial.trials.replay.measure.hosts import stage_of_hosts

        return stage_of_hosts(request)

    def exit_code(self, summary: Summary) -> int:
        """Return 4 if replays did not start with the same data."""
        from seatrial.errors import EXIT_PARTIAL
        from seatrial.trials.replay.analysis.starts import starts_differ

        return EXIT_PARTIAL if starts_differ(summary) else 0

    def comparison_obstacles(
        self, a: SideSamples, b: SideSamples, matched: MatchedCells
    ) -> Iterator[UsageError]:
        """Yield the differences between the loads of replays: trace, options, data."""
        from seatrial.trials.replay.analysis.comparison import load_mismatches

        return load_mismatches(a, b, matched)

    def comparison_caveats(
        self, a: SideSamples, b: SideSamples, matched: MatchedCells
    ) -> Iterator[str]:
        """Yield a sentence for each side whose replays had faults."""
        from seatrial.trials.replay.analysis.comparison import faulty_replays

        return faulty_replays(a, b, matched)

    def verdict_line(self, summary: Summary) -> str:
        """Return the verdict on the replays on each target; empty without a replay."""
        from seatrial.trials.replay.analysis.verdict import replay_verdict

        return replay_verdict(summary)

    def next_step(self, summary: Summary) -> str:
        """Return the next step for the most severe fault; empty without one."""
        from seatrial.trials.replay.analysis.verdict import verdicts_by_target

        faults = [
            fault for verdict in verdicts_by_target(summary).values() for fault in verdict.faults
        ]
        return f"{faults[0].next}." if faults else ""

    def tables(self, summary: Summary) -> list[Table]:
        """Return the tables of replays: rates, lag and outcomes."""
        from seatrial.trials.replay.report.tables import replay_tables

        return list(replay_tables(summary))

    def part(self, summary: Summary, detail: Detail) -> PagePart:
        """Return the section on a run's replays."""
        from seatrial.trials.replay.report.section import replay_part

        return replay_part(summary, detail)

    def columns(self, summary: Summary) -> dict[str, dict[str, Field]]:
        """Return the account of a replay, its lag and its client."""
        from seatrial.trials.replay.report.section import replay_columns

        return replay_columns(summary)

    def document_part(self) -> DocumentPart:
        """Return the analysis of replays for documents."""
        from seatrial.trials.replay.analysis.model import ReplayCell, replays_of

        return DocumentPart("replays", list[ReplayCell], "Analysis of each replay.", replays_of)

    def analyse(self, measured: AnalysisInput) -> list[ReplayCell] | None:
        """Return the analysis of each replay."""
        from seatrial.trials.replay.analysis.bottleneck import analyse_replays

        return analyse_replays(measured.run, measured.cells) or None

    def analysis_without(
        self, analysis: list[ReplayCell], keys: Collection[str]
    ) -> list[ReplayCell]:
        """Return the analysis without some cells."""
        return [replay for replay in analysis if replay.cell.key not in keys]


TOPIC = ReplayTopic()
