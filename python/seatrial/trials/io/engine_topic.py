"""Base classes of topics whose cells the load engine measures: block I/O and load lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from seatrial.topic import Topic

if TYPE_CHECKING:
    from seatrial.measure.descriptors import DescriptorNeed
    from seatrial.measure.engine import SampleContext
    from seatrial.results.model import Sample
    from seatrial.study.cell import Cell, FactorValue
    from seatrial.study.model import PlannedTarget
    from seatrial.study.sampled import SampledWorkload
    from seatrial.study.schema import Study

# ruff: noqa: PLC0415 - every command imports all topics, and most commands use none of this

_NOT_OURS = "it is an existing server, and its files must not be measured directly"


class EngineTopic(Topic):
    """A topic whose requests the load engine sends to a file, a device or a simulated device."""

    loads_storage = True

    def obstacle(self, workload: SampledWorkload, target: PlannedTarget) -> str:
        """Return why a workload cannot run on a target: a copy needs a second file."""
        if target.kind == "database":
            return _NOT_OURS
        if workload.copied_share and target.kind in ("device", "file"):
            return (
                f"a copy creates a second file and needs a directory, but the target is a "
                f"{target.kind}"
            )
        return ""

    def is_possible(self, cell: Cell, workload: SampledWorkload, target: PlannedTarget) -> bool:
        """Return whether blocks match the target's block size; False if the cell can be skipped."""
        from seatrial.trials.io.study.plan import is_possible
        from seatrial.trials.io.study.workloads import WorkloadBase

        return is_possible(cell, cast(WorkloadBase, workload), target)

    def descriptors(self, cell: Cell) -> DescriptorNeed:
        """Return the descriptors for io_uring rings."""
        from seatrial.trials.io.measure.io import descriptors

        return descriptors(cell)


class PatternTopic(EngineTopic):
    """A topic whose requests follow a pattern: every combination of a workload's factors."""

    def cells(
        self, workload: SampledWorkload, target: PlannedTarget, study: Study, *, prefix: str
    ) -> Iterator[Cell]:
        """Yield the cells of a workload: every combination of its factors' values."""
        from seatrial.trials.io.study.cells import cells_of
        from seatrial.trials.io.study.workloads import WorkloadBase

        return cells_of(cast(WorkloadBase, workload), target, study, prefix=prefix)

    def usual_factors(self, cell: Cell) -> dict[str, FactorValue]:
        """Return the default factors of a kind of cell."""
        from seatrial.trials.io.study.cells import usual_factors

        return usual_factors(cell.kind)

    def sample_s(self, cell: Cell) -> float:
        """Return the duration of a sample; for a fill the expected time to write the file."""
        from seatrial.trials.io.study.cells import sample_s

        return sample_s(cell)

    def sample_write_bytes(self, cell: Cell) -> int:
        """Return the cell's limit in bytes, which the engine never exceeds."""
        from seatrial.trials.io.study.cells import sample_write_bytes

        return sample_write_bytes(cell)

    def measure(self, cell: Cell, spec: Mapping[str, Any], sample_context: SampleContext) -> Sample:
        """Measure a cell with the load engine."""
        from seatrial.trials.io.measure.io import measure_cell

        return measure_cell(cell, spec, sample_context)
