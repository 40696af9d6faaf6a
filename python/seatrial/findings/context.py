"""What a finding may look at, and the few questions that several findings ask of it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any

from seatrial._core import Histogram
from seatrial.results.model import Run, Sample
from seatrial.stats.broken import is_broken
from seatrial.stats.model import CellSummary
from seatrial.stats.steady.model import SteadyState
from seatrial.stats.steady.states import steady_states
from seatrial.stats.wording import format_cell
from seatrial.study.cell import FactorValue
from seatrial.topic import topic_of, topics

CELLS_NAMED_MAX = 2
NS_PER_S = 1e9


@dataclass(frozen=True)
class Context:
    """One run as the findings see it: pure data, nothing is measured or read from here."""

    run: Run
    cells: Sequence[CellSummary]
    analyses: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def sound(self) -> Context:
        """The run without the cells in which something was broken on purpose."""
        broken = {c.cell.key for c in self.cells if any(is_broken(s) for s in c.samples)}
        if not broken:
            return self
        return self._without(broken)

    @cached_property
    def unplayed(self) -> Context:
        """The run without the cells that play a trace, whose pace is the capture's."""
        played = {c.cell.key for c in self.cells if topic_of(c.cell).plays_trace(c.cell)}
        if not played:
            return self
        return self._without(played)

    def _without(self, keys: Collection[str]) -> Context:
        """Return the run less some cells, and less what the topics make of them."""
        analyses = {
            topic.name: topic.analysis_without(self.analyses[topic.name], keys)
            for topic in topics()
            if topic.name in self.analyses
        }
        cells = [c for c in self.cells if c.cell.key not in keys]
        return replace(self, cells=cells, analyses=analyses)

    @cached_property
    def samples(self) -> list[Sample]:
        """Every sample of the run, by cell and round."""
        return [sample for summary in self.cells for sample in summary.samples]

    @cached_property
    def steady(self) -> list[SteadyState]:
        """The states of every cell that was measured for long enough to tell."""
        return steady_states(self.cells)

    @property
    def before(self) -> dict[str, Any]:
        """The fingerprint taken before the first sample."""
        return self.run.fingerprint_before

    @property
    def after(self) -> dict[str, Any]:
        """What changed or aged meanwhile; empty after a kill."""
        return self.run.fingerprint_after

    def before_of(self, summary: CellSummary) -> dict[str, Any]:
        """Return the fingerprint from before as a cell's own target sees it."""
        own = lookup(self.before, "other_targets", summary.cell.target)
        return self.before | {"target": own} if isinstance(own, dict) else self.before

    def of_cells(self, concerned: Sequence[CellSummary]) -> str:
        """Return ``14 of 30 cells``, or the names of the cells where they are one or two."""
        if 0 < len(concerned) <= CELLS_NAMED_MAX:
            return " and ".join(format_cell(summary.cell) for summary in concerned)
        return f"{len(concerned)} of {len(self.cells)} cells"


def identities(concerned: Iterable[CellSummary]) -> list[dict[str, FactorValue]]:
    """Return the factors of cells, as a finding names them."""
    return [summary.cell.identity() for summary in concerned]


def lookup(facts: object, *path: str) -> object:
    """Return what nested mappings hold under a path; None where any step is absent.

    What is not a finite number tells nothing, and counts as absent.
    """
    for key in path:
        facts = facts.get(key) if isinstance(facts, dict) else None
    return None if isinstance(facts, float) and not math.isfinite(facts) else facts


def number(facts: object, *path: str) -> float | None:
    """Return the finite number under a path; None where it is absent or something else."""
    value = lookup(facts, *path)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) else None


def entries(facts: object, *path: str) -> list[dict[str, Any]]:
    """Return the mappings of the list under a path; none where it is absent."""
    value = lookup(facts, *path)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def median_over_samples(
    samples: Iterable[Sample], figure: Callable[[Sample], float | None]
) -> float | None:
    """Return the median of a figure over the samples that have it; None where none has."""
    values = [value for sample in samples if (value := figure(sample)) is not None]
    return statistics.median(values) if values else None


def service_times(samples: Iterable[Sample]) -> Histogram:
    """Return the service times (ns) of all operations of all samples, merged exactly."""
    parts = (
        operation.service_histogram()
        for sample in samples
        for operation in sample.operations.values()
    )
    return reduce(lambda merged, part: merged.merged(part), parts, Histogram.of([]))


def response_times(samples: Iterable[Sample]) -> Histogram:
    """Return the response times (ns) of all operations of all samples, merged exactly."""
    parts = (
        operation.response_histogram()
        for sample in samples
        for operation in sample.operations.values()
    )
    return reduce(lambda merged, part: merged.merged(part), parts, Histogram.of([]))


def is_of_a_device(summary: CellSummary) -> bool:
    """Tell whether a cell was measured on a real target, not the engine alone or a simulation."""
    return all(sample.engine not in ("null", "simulated") for sample in summary.samples)


def is_of_lab(run: Run) -> bool:
    """Tell whether a run was measured inside the lab's kernel."""
    return bool(lookup(run.fingerprint_before, "machine", "lab"))


def usable_cpus(fingerprint: dict[str, Any]) -> float | None:
    """Return how many processors' worth of time the generator could get; None when unknown."""
    limits = (
        number(fingerprint, "machine", "cpus_online"),
        number(fingerprint, "machine", "cpus_usable"),
        number(fingerprint, "machine", "cgroup", "cpu_limit_cpus"),
    )
    return min((limit for limit in limits if limit), default=None)


def memory_for_cache_bytes(fingerprint: dict[str, Any]) -> float | None:
    """Return how much memory the page cache can take at most; None when unknown."""
    limits = (
        number(fingerprint, "machine", "memory_bytes"),
        number(fingerprint, "machine", "cgroup", "memory_limit_bytes"),
    )
    return min((limit for limit in limits if limit), default=None)


def by_target(fingerprint: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the fingerprint once for each target of its run, as that target sees it."""
    others = lookup(fingerprint, "other_targets")
    targets = list(others.values()) if isinstance(others, dict) else []
    return [fingerprint, *(fingerprint | {"target": target} for target in targets)]


def physical_devices(fingerprint: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the devices of the target's stack that are laid on no other."""
    return [node for node in entries(fingerprint, "target", "stack") if not node.get("children")]


def drives(context: Context) -> list[str]:
    """Return the names of the drives whose health was asked before or after the run."""
    healths = (lookup(fingerprint, "health") for fingerprint in (context.before, context.after))
    return list(dict.fromkeys(name for each in healths if isinstance(each, dict) for name in each))


def smart_growth(context: Context, name: str, key: str) -> int:
    """Return by how much a drive's own counter grew during the run; 0 where it is not known."""
    before = number(context.before, "health", name, "smart", key)
    after = number(context.after, "health", name, "smart", key)
    return int(after - before) if before is not None and after is not None else 0


def device_name(device: dict[str, Any]) -> str:
    """Return a device's name and model, such as ``nvme0n1 Samsung SSD 990 PRO``."""
    return " ".join(str(part) for part in (device.get("name"), device.get("model")) if part)
