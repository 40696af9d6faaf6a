"""Block I/O as a topic (seatrial.topic)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from seatrial.topic import Command, Topic

if TYPE_CHECKING:
    from seatrial.findings.model import Summary
    from seatrial.measure.descriptors import DescriptorNeed
    from seatrial.measure.engine import Occasion
    from seatrial.report.figures.model import Figure
    from seatrial.report.part import Detail
    from seatrial.results.model import Sample
    from seatrial.study.cell import Cell, FactorValue
    from seatrial.study.model import PlannedTarget, TrialFile
    from seatrial.study.problems import ConstraintError
    from seatrial.study.sampled import Sampled
    from seatrial.study.schema import Study

# ruff: noqa: PLC0415 - every command imports all topics, and most commands use none of this

_OF_OTHERS = "it is an existing server, and its files must not be measured directly"


class IoTopic(Topic):
    """Block I/O: requests from the load engine, as with fio."""

    name = "io"
    loads_storage = True
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

    def workloads(self) -> tuple[type[Sampled], ...]:
        """Return ``fill``, ``matrix``, ``sequential`` and so on."""
        from typing import get_args

        from seatrial.trials.io.study.workloads import IoWorkload

        return get_args(IoWorkload)

    def check(self, study: Study) -> Iterator[ConstraintError]:
        """Yield violated constraints between the keys of block I/O."""
        from seatrial.trials.io.study.check import check_io

        return check_io(study)

    def obstacle(self, workload: Sampled, target: PlannedTarget) -> str:
        """Return why a workload cannot run on a target: a copy needs a second file."""
        if target.kind == "database":
            return _OF_OTHERS
        if workload.copied_share and target.kind in ("device", "file"):
            return (
                f"a copy creates a second file and needs a directory, but the target is a "
                f"{target.kind}"
            )
        return ""

    def cells(
        self, workload: Sampled, target: PlannedTarget, study: Study, *, prefix: str
    ) -> Iterator[Cell]:
        """Yield the cells of a workload: every combination of its factors' values."""
        from seatrial.trials.io.study.cells import cells_of
        from seatrial.trials.io.study.workloads import WorkloadBase

        return cells_of(cast(WorkloadBase, workload), target, study, prefix=prefix)

    def is_possible(self, cell: Cell, workload: Sampled, target: PlannedTarget) -> bool:
        """Return whether blocks match the target's block size; False if the cell can be skipped."""
        from seatrial.trials.io.study.plan import is_possible
        from seatrial.trials.io.study.workloads import WorkloadBase

        return is_possible(cell, cast(WorkloadBase, workload), target)

    def usual_factors(self, cell: Cell) -> dict[str, FactorValue]:
        """Return the default factors of a kind of cell."""
        from seatrial.trials.io.study.cells import usual_factors

        return usual_factors(cell.kind)

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

    def sample_s(self, cell: Cell) -> float:
        """Return the duration of a sample; for a fill the expected time to write the file."""
        from seatrial.trials.io.study.cells import sample_s

        return sample_s(cell)

    def sample_write_bytes(self, cell: Cell) -> int:
        """Return the cell's limit in bytes, which the engine never exceeds."""
        from seatrial.trials.io.study.cells import sample_write_bytes

        return sample_write_bytes(cell)

    def sample_words(self, cells: Sequence[Cell]) -> str:
        """Return that a fill lasts until the file is full."""
        lasts = {cell.parsed.duration_s for cell in cells}
        return "until full" if cells[0].kind == "fill" and len(lasts) == 1 else ""

    def measure(self, cell: Cell, spec: Mapping[str, Any], occasion: Occasion) -> Sample:
        """Measure a cell with the load engine."""
        from seatrial.trials.io.measure.io import measure_cell

        return measure_cell(cell, spec, occasion)

    def descriptors(self, cell: Cell) -> DescriptorNeed:
        """Return the descriptors for io_uring rings."""
        from seatrial.trials.io.measure.io import descriptors

        return descriptors(cell)

    def verdict_line(self, summary: Summary) -> str:
        """Return whether preconditioning reached steady state; empty for any other run."""
        from seatrial.trials.io.steady_state import conditioning_words

        return conditioning_words(summary)

    def key_figures(self, summary: Summary, figures: Sequence[Figure]) -> list[Figure]:
        """Return latency over time, IOPS against block size, commits, else what there is."""
        from seatrial.report.part import picked

        del summary
        return picked(
            figures,
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

    def figures(self, summary: Summary, detail: Detail) -> list[Figure]:
        """Return the charts of block I/O, and of latency over time for every kind of cell."""
        from seatrial.trials.io.report.figures import figures_of_run

        return figures_of_run(summary, detail.heat_views_max)


TOPIC = IoTopic()
