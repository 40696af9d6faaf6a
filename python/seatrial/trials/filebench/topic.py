"""Workloads of files as a topic (seatrial.topic): Filebench's personalities and workload files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from seatrial.topic import Command, Topic

if TYPE_CHECKING:
    from pathlib import Path

    from seatrial.findings.model import Summary
    from seatrial.findings.tile import Tile
    from seatrial.findings.verdict import VerdictPart
    from seatrial.machine.undo_journal import UndoJournal
    from seatrial.measure.descriptors import DescriptorNeed
    from seatrial.measure.engine import Driver
    from seatrial.report.figures.model import Figure
    from seatrial.report.part import Detail
    from seatrial.report.table import Table
    from seatrial.results.model import Sample
    from seatrial.stats.model import CellSummary
    from seatrial.study.cell import Cell
    from seatrial.study.files import FileLookup
    from seatrial.study.model import Plan, PlannedTarget
    from seatrial.study.sampled import SampledWorkload
    from seatrial.study.schema import Study

# ruff: noqa: PLC0415 - every command imports all topics, and most commands use none of this


class FilebenchTopic(Topic):
    """Workloads of files: threads that open, read, append, sync and delete files of sets."""

    name = "filebench"
    loads_storage = True
    shows_io = False
    has_named_operation = False
    rate_unit = "operations/s"
    space_phrase = "sets of files"
    titles = MappingProxyType({"filebench": "File workloads"})
    key_charts = ("filebench-rates", "filebench-latency")
    commands = MappingProxyType(
        {
            "filebench": Command(
                "Run a file workload: a Filebench personality or .f file.",
                "seatrial.trials.filebench.commands:command",
                after="loadline",
            )
        }
    )

    def workloads(self) -> tuple[type[SampledWorkload], ...]:
        """Return ``filebench``."""
        from seatrial.trials.filebench.study import Filebench

        return (Filebench,)

    def with_files(self, workload: SampledWorkload, files: FileLookup) -> SampledWorkload:
        """Return a workload with its workload files as absolute paths."""
        import msgspec

        from seatrial.study.values import many
        from seatrial.trials.filebench.study import Filebench
        from seatrial.trials.filebench.wml.source import is_path

        own = cast(Filebench, workload)
        found = [
            files.found(each, "personality") if is_path(each) else each
            for each in many(own.personality)
        ]
        listed = isinstance(own.personality, list)
        return msgspec.structs.replace(own, personality=found if listed else found[0])

    def obstacle(self, workload: SampledWorkload, target: PlannedTarget) -> str:
        """Return why a workload cannot run on a target: files need a directory."""
        del workload
        if target.kind != "directory":
            return f"files are made in a directory, but the target is a {target.kind}"
        return ""

    def cells(
        self, workload: SampledWorkload, target: PlannedTarget, study: Study, *, prefix: str
    ) -> Iterator[Cell]:
        """Yield the cells of a workload: each personality with each combination of variables."""
        from seatrial.trials.filebench.cells import cells_of
        from seatrial.trials.filebench.study import Filebench

        del study
        return cells_of(cast(Filebench, workload), target, prefix=prefix)

    def notes(
        self, study: Study, targets: Sequence[PlannedTarget], cells: Sequence[Cell]
    ) -> Iterator[str]:
        """Yield differences from Filebench, and cells whose files fit into the page cache."""
        from seatrial.trials.filebench.cells import notes_of

        del study, targets
        yield from notes_of(cells)

    def sample_s(self, cell: Cell) -> float:
        """Return the expected duration of one sample, with making its files (s)."""
        from seatrial.trials.filebench.cells import sample_s

        return sample_s(cell)

    def sample_write_bytes(self, cell: Cell) -> int:
        """Return the limit of what a sample writes, with making its files."""
        from seatrial.trials.filebench.cells import sample_write_bytes

        return sample_write_bytes(cell)

    def written_bytes(self, sample: Sample) -> int:
        """Return the bytes that a sample wrote, with those of making its files."""
        from seatrial.trials.filebench.cells import written_bytes

        return written_bytes(sample)

    def space_bytes(self, cells: Sequence[Cell]) -> int:
        """Return the space that the largest cell of a target uses."""
        from seatrial.trials.filebench.cells import cost_of
        from seatrial.trials.filebench.study import FILEBENCH

        return max((cost_of(c).space_bytes for c in cells if c.kind == FILEBENCH), default=0)

    def request_noun(self, cell: Cell) -> str:
        """Return ``operations``."""
        del cell
        return "operations"

    def command_for(self, cell: Cell) -> str:
        """Return the command that measures one such cell alone."""
        return f"seatrial filebench DIR --personality {cell.factors.get('personality', 'oltp')}"

    def driver(self, plan: Plan, journal: UndoJournal, side: Path | None) -> Driver:
        """Return the driver that makes files and measures."""
        from seatrial.trials.filebench.measure import FilesDriver

        del journal, side
        return FilesDriver(plan)

    def descriptors(self, cell: Cell) -> DescriptorNeed:
        """Return a descriptor for every file that may be open at once."""
        from seatrial.measure.descriptors import DescriptorNeed
        from seatrial.trials.filebench.cells import cost_of

        return DescriptorNeed(
            here=cost_of(cell).descriptors,
            why=f"Its {cell.threads} threads keep files open",
            takes_fewer="use fewer threads or files, such as --set nthreads=10",
        )

    def headline(
        self,
        cells: Sequence[CellSummary],
        everywhere: Sequence[CellSummary],
        analyses: Mapping[str, Any],
    ) -> VerdictPart | None:
        """Return the rates of a target's first file workloads."""
        from seatrial.findings.verdict import VerdictPart
        from seatrial.trials.filebench.analysis import headline_phrase

        del everywhere, analyses
        words, own = headline_phrase(cells)
        return VerdictPart(words, own) if own else None

    def tiles(self, cells: Sequence[CellSummary], analyses: Mapping[str, Any]) -> list[Tile]:
        """Return the rates of a target's first file workloads, each with its slowest flowop."""
        from seatrial.trials.filebench.analysis import headline_tiles

        del analyses
        return headline_tiles(cells)

    def own_table(self, summary: Summary, target: str, workload: str) -> Table | None:
        """Return rates and latencies by flowop."""
        from seatrial.trials.filebench.report import flowop_table

        return flowop_table(summary, target, workload)

    def tables(self, summary: Summary) -> list[Table]:
        """Return what threads waited for besides their requests."""
        from seatrial.trials.filebench.report import wait_tables

        return wait_tables(summary)

    def charts(self, summary: Summary, detail: Detail) -> list[Figure]:
        """Return rates and latencies by flowop, for each cell."""
        from seatrial.trials.filebench.report import figures_of

        return figures_of(summary, detail.charted_cells_max)


TOPIC = FilebenchTopic()
