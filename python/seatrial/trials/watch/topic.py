"""Watching as a topic (seatrial.topic)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from seatrial.topic import Command, DocumentPart
from seatrial.trials.io.engine_topic import EngineTopic

if TYPE_CHECKING:
    from seatrial.findings.model import Summary
    from seatrial.findings.tile import Tile
    from seatrial.measure.engine import SampleContext
    from seatrial.report.figures.model import Figure
    from seatrial.report.part import Detail, PagePart
    from seatrial.report.table import Table
    from seatrial.results.model import Sample
    from seatrial.stats.compare.model import SideSamples
    from seatrial.stats.compare.pairing import MatchedCells
    from seatrial.stats.model import CellSummary
    from seatrial.study.cell import Cell
    from seatrial.study.files import FileLookup
    from seatrial.study.model import PlannedTarget
    from seatrial.study.problems import ConstraintError
    from seatrial.study.sampled import SampledWorkload
    from seatrial.study.schema import Study
    from seatrial.topic import AnalysisInput
    from seatrial.trials.watch.analysis.replayed import ReplayResult

# ruff: noqa: PLC0415 - every command imports all topics, and most commands use none of this

LIVE = "--live"
"""The option that shows a run while it is measured."""
WATCHED = "watched"
"""The kind of cells of a recording."""


class WatchTopic(EngineTopic):
    """Block requests of a machine while others use it, recorded, and replayed by the I/O engine."""

    name = "watch"
    shows_io = False
    has_named_operation = False
    rate_unit = "requests/s"
    titles = MappingProxyType({"recording": "Recordings", WATCHED: "Watched requests"})
    recorded_kinds = (WATCHED,)
    observer = "seatrial.trials.watch.commands.observing"
    key_charts = ("recording-",)
    commands = MappingProxyType(
        {
            "watch": Command(
                "Watch block requests live: latency by device, process, table and index.",
                "seatrial.trials.watch.commands.watch:command",
                after="check",
                section="Watch and predict",
            ),
            "mark": Command(
                "Set a marker in every running watch.",
                "seatrial.trials.watch.commands.mark:command",
                after="watch",
            ),
            "trace": Command(
                "Analyse recorded block requests, and replay them on other storage.",
                "seatrial.trials.watch.commands.trace:command",
                after="watch",
            ),
        }
    )

    def plays_trace(self, cell: Cell) -> bool:
        """Return whether a cell was watched: its pace is that of the watched programs."""
        return cell.kind == WATCHED

    def command_for(self, cell: Cell) -> str:
        """Return the command that records a cell, or replays it."""
        return "seatrial watch --record FILE" if cell.kind == WATCHED else "seatrial trace replay"

    def comparison_caveats(
        self, a: SideSamples, b: SideSamples, matched: MatchedCells
    ) -> Iterator[str]:
        """Yield that rates of recordings are the load's, and that one side was shown live."""
        shown = [each.side.name for each in (a, b) if LIVE in each.side.run.command.split()]
        if len(shown) == 1:
            yield (
                f"{shown[0]} was measured with {LIVE}, the other side without: counting every "
                "request takes about 1 µs of each (docs/watch.md)."
            )
        if any(each.a[0].cell.kind == WATCHED for each in matched.cells):
            yield (
                "The requests were recorded, not sent by Seatrial: rates are those of the load and "
                "not the most that the storage can do, and latencies depend on it."
            )

    def workloads(self) -> tuple[type[SampledWorkload], ...]:
        """Return ``recording``."""
        from seatrial.trials.watch.study.workload import RecordingWorkload

        return (RecordingWorkload,)

    def check(self, study: Study) -> Iterator[ConstraintError]:
        """Yield keys that a recording does not support."""
        from seatrial.trials.watch.study.recorded import check_recordings

        return check_recordings(study)

    def with_files(self, workload: SampledWorkload, files: FileLookup) -> SampledWorkload:
        """Return a workload with its recording as a path from the root."""
        import msgspec

        from seatrial.trials.watch.study.workload import RecordingWorkload

        if not isinstance(workload, RecordingWorkload):
            return workload
        return msgspec.structs.replace(workload, file=files.found(workload.file, "file"))

    def cells(
        self, workload: SampledWorkload, target: PlannedTarget, study: Study, *, prefix: str
    ) -> Iterator[Cell]:
        """Yield a cell for each speed of a recording."""
        from seatrial.trials.watch.study.recorded import cells_of_recording
        from seatrial.trials.watch.study.workload import RecordingWorkload

        del study
        return cells_of_recording(cast(RecordingWorkload, workload), target, prefix=prefix)

    def notes(
        self, study: Study, targets: Sequence[PlannedTarget], cells: Sequence[Cell]
    ) -> Iterator[str]:
        """Yield the differences between each recording and its replay."""
        from seatrial.trials.watch.study.recorded import plan_notes

        del study, targets
        return plan_notes(cells)

    def has_fixed_work(self, cell: Cell) -> bool:
        """Return True: a sample sends the whole recording."""
        del cell
        return True

    def sample_s(self, cell: Cell) -> float:
        """Return the length of a recording at its speed."""
        from seatrial.trials.watch.study.recorded import sample_s

        return sample_s(cell)

    def sample_write_bytes(self, cell: Cell) -> int:
        """Return the bytes of the writes that a recording contains."""
        from seatrial.trials.watch.study.recorded import replay_of

        on_storage = cell.parsed.target.kind == "file"
        return replay_of(cell).sent.written_bytes if on_storage else 0

    def sample_phrase(self, cells: Sequence[Cell]) -> str:
        """Return that a sample lasts until the recording's end."""
        del cells
        return "until the recording ends"

    def measure(self, cell: Cell, spec: Mapping[str, Any], sample_context: SampleContext) -> Sample:
        """Send the requests of a recording once."""
        from seatrial.trials.watch.measure.replaying import measure_recording

        return measure_recording(cell, spec, sample_context)

    def analyse(self, measured: AnalysisInput) -> list[ReplayResult] | None:
        """Return the result of each replay of a recording; None without any."""
        from seatrial.trials.watch.study.workload import RECORDING

        if not any(each.cell.kind == RECORDING for each in measured.cells):
            return None
        from seatrial.trials.watch.analysis.replayed import replayed_of

        return replayed_of(measured.cells)

    def document_part(self) -> DocumentPart:
        """Return the topic's part of the document of a run."""
        from seatrial.trials.watch.analysis.replayed import ReplayResult

        return DocumentPart(
            "recordings",
            list[ReplayResult],
            "For each recording that was replayed: the recorded and the replayed requests.",
            _replays_of,
        )

    def tiles(self, cells: Sequence[CellSummary], analyses: Mapping[str, Any]) -> list[Tile]:
        """Return rate and p99 of each replay on a target, and latencies of watched requests."""
        if watched := [each for each in cells if each.cell.kind == WATCHED and not each.blank]:
            from seatrial.trials.watch.report.watched import watched_tiles

            return watched_tiles(watched)
        replays = analyses.get(self.name) or []
        if not replays:
            return []
        from seatrial.trials.watch.report.replayed import replayed_tiles

        return replayed_tiles(cells, replays)

    def verdict_line(self, summary: Summary) -> str:
        """Return whether the first recording was replayed completely, and how late."""
        replays = _replays_of(summary)
        if not replays:
            return ""
        from seatrial.trials.watch.report.replayed import replayed_phrase

        return replayed_phrase(replays[0])

    def tables(self, summary: Summary) -> list[Table]:
        """Return latencies as recorded and as replayed."""
        replays = _replays_of(summary)
        if not replays:
            return []
        from seatrial.trials.watch.report.replayed import replayed_table

        return [replayed_table(replays)]

    def part(self, summary: Summary, detail: Detail) -> PagePart | None:
        """Return the section on the replay of each recording; None without any."""
        del detail
        replays = _replays_of(summary)
        if not replays:
            return None
        from seatrial.trials.watch.report.replayed import replayed_part

        return replayed_part(replays)

    def charts(self, summary: Summary, detail: Detail) -> list[Figure]:
        """Return the chart of the lag of replays."""
        del detail
        replays = _replays_of(summary)
        if not replays:
            return []
        from seatrial.trials.watch.report.replayed import replayed_figures

        return replayed_figures(replays)


def _replays_of(summary: Summary) -> list[ReplayResult]:
    return summary.analyses.get(TOPIC.name) or []


TOPIC = WatchTopic()
