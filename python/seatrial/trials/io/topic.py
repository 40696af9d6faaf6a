"""Block I/O as a topic (seatrial.topic)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from seatrial.topic import Command
from seatrial.trials.io.engine_topic import PatternTopic

if TYPE_CHECKING:
    from seatrial.findings.model import Summary
    from seatrial.report.figures.model import Figure
    from seatrial.report.part import Detail
    from seatrial.study.cell import Cell
    from seatrial.study.model import PlannedTarget, TrialFile
    from seatrial.study.problems import ConstraintError
    from seatrial.study.sampled import SampledWorkload
    from seatrial.study.schema import Study

# ruff: noqa: PLC0415 - every command imports all topics, and most commands use none of this


class IoTopic(PatternTopic):
    """Block I/O: requests from the load engine, as with fio."""

    name = "io"
    titles = MappingProxyType(
        {
            "matrix": "Block size against threads",
            "fill": "Fill",
            "sequential": "Sequential access by block size",
            "copy": "Copy",
            "map": "Across the address range",
            "commit": "Commits",
            "four": "The four 4 KiB numbers",
            "mix": "Mixed access",
            "io": "Single workloads",
        }
    )
    key_charts = (
        "heatmap",
        "matrix-iops",
        "commit",
        "sequential-",
        "map",
        "four-",
        "mix-",
        "io-",
        "fill-",
    )
    commands = MappingProxyType(
        {
            "io": Command(
                "Run one workload, like one fio job.",
                "seatrial.trials.io.commands.io:command",
            ),
            "precondition": Command(
                "Precondition to steady state (SNIA PTS); shows the cost first.",
                "seatrial.trials.io.commands.precondition:command",
            ),
        }
    )

    def workloads(self) -> tuple[type[SampledWorkload], ...]:
        """Return ``fill``, ``matrix``, ``sequential`` and so on."""
        from typing import get_args

        from seatrial.trials.io.study.workloads import IoWorkload

        return get_args(IoWorkload)

    def check(self, study: Study) -> Iterator[ConstraintError]:
        """Yield violated constraints between the keys of block I/O."""
        from seatrial.trials.io.study.check import check_io

        return check_io(study)

    def why_single_host(self, workload: SampledWorkload) -> str:
        """Return why several hosts cannot measure a workload: its order or rate is that of one."""
        from seatrial.trials.io.study.check import why_single_host

        return why_single_host(workload)

    def files(self, target: PlannedTarget, cells: Sequence[Cell]) -> Iterator[TrialFile]:
        """Yield the files that cells need: trial file, commit log and copy."""
        from seatrial.trials.io.study.plan import files

        return files(target, cells)

    def check_plan(
        self, targets: Sequence[PlannedTarget], cells: Sequence[Cell], files: Sequence[TrialFile]
    ) -> None:
        """Raise StudyError if a cell would verify data that was never written."""
        from seatrial.trials.io.study.plan import check_verified

        del files
        check_verified(targets, cells)

    def notes(
        self, study: Study, targets: Sequence[PlannedTarget], cells: Sequence[Cell]
    ) -> Iterator[str]:
        """Yield a note on each device or file that is read as it is."""
        from seatrial.trials.io.study.plan import notes_on_reading

        del study
        yield from notes_on_reading(targets, cells)

    def comes_first(self, cell: Cell) -> bool:
        """Return whether a cell fills the trial file."""
        return cell.kind == "fill"

    def sample_phrase(self, cells: Sequence[Cell]) -> str:
        """Return that a fill lasts until the file is full."""
        lasts = {cell.parsed.duration_s for cell in cells}
        return "until full" if cells[0].kind == "fill" and len(lasts) == 1 else ""

    def verdict_line(self, summary: Summary) -> str:
        """Return whether preconditioning reached steady state; empty for any other run."""
        from seatrial.trials.io.steady_state import conditioning_phrase

        return conditioning_phrase(summary)

    def charts(self, summary: Summary, detail: Detail) -> list[Figure]:
        """Return the charts of block I/O, and of latency over time for every kind of cell."""
        from seatrial.trials.io.report.figures import figures_of_run

        return figures_of_run(summary, detail.heat_views_max)


TOPIC = IoTopic()
