"""The view of a run that rules get, and helpers shared by several rules."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import msgspec

from seatrial._core import Histogram
from seatrial.fingerprint import Device, Fingerprint, FingerprintAfter, Smart
from seatrial.results.model import IMPORTED, Run, Sample, Stall, merged_histogram
from seatrial.stats.model import CellSummary, is_broken
from seatrial.stats.steady.phases import SteadyState
from seatrial.stats.steady.states import steady_states
from seatrial.stats.wording import format_cell
from seatrial.study.cell import Cell, FactorValue
from seatrial.study.hosts import loading_hosts
from seatrial.topic import topic_of, topics

CELLS_NAMED_MAX = 2
NULL_LIMIT_SHARE_MAX = 0.7
"""Above this share of its rate on the null target, the load generator affects the figure."""
MEDIAN_FACTOR = 4.0
"""A gap shorter than this many median latencies is normal for the device, not a stall."""


class AffectedCells(msgspec.Struct, frozen=True):
    """The cells of a run that a finding concerns; as text ``14 of 30 tests``, or their names.

    Attributes:
        named: The cells, if there are few of them.
        count: Number of cells concerned.
        of_count: Number of all cells of the run.
    """

    named: list[Cell]
    count: int
    of_count: int

    def __str__(self) -> str:
        """Return the names of the cells, or their number."""
        if self.named:
            return " and ".join(map(format_cell, self.named))
        return f"{self.count} of {self.of_count} tests"


@dataclass(frozen=True)
class Context:
    """One run as the rules see it: pure data; it measures and reads nothing."""

    run: Run
    cells: Sequence[CellSummary]
    analyses: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def without_faults(self) -> Context:
        """The run without the cells with injected faults."""
        broken = {c.cell.key for c in self.cells if any(is_broken(s) for s in c.samples)}
        if not broken:
            return self
        return self._without(broken)

    @cached_property
    def without_replays(self) -> Context:
        """The run without the cells whose pace is that of a capture or of others."""
        played = {c.cell.key for c in self.cells if topic_of(c.cell).plays_trace(c.cell)}
        if not played:
            return self
        return self._without(played)

    def _without(self, keys: Collection[str]) -> Context:
        """Return the run without some cells and without their analyses."""
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
        """The steady state of every cell that was measured for long enough."""
        return steady_states(self.cells)

    @property
    def before(self) -> Fingerprint:
        """The fingerprint taken before the first sample."""
        return self.run.fingerprint_before

    @property
    def after(self) -> FingerprintAfter:
        """The fingerprint taken after the run; empty after a kill."""
        return self.run.fingerprint_after

    def before_of(self, summary: CellSummary) -> Fingerprint:
        """Return the fingerprint taken before the run, seen from a cell's own target."""
        own = self.before.other_targets.get(summary.cell.target)
        return self.before.seen_by(own) if own else self.before

    def affected_cells(self, cells: Sequence[CellSummary]) -> AffectedCells:
        """Return these cells as the cells that a finding concerns."""
        named = cells if len(cells) <= CELLS_NAMED_MAX else ()
        return AffectedCells([summary.cell for summary in named], len(cells), len(self.cells))


def identities(concerned: Iterable[CellSummary]) -> list[dict[str, FactorValue]]:
    """Return the factors of cells, as a finding names them."""
    return [summary.cell.identity() for summary in concerned]


def lookup(facts: object, *path: str) -> object:
    """Return the value at a path in nested mappings; None if any step is absent.

    A number that is not finite counts as absent.
    """
    for key in path:
        facts = facts.get(key) if isinstance(facts, dict) else None
    return None if isinstance(facts, float) and not math.isfinite(facts) else facts


def number(facts: object, *path: str) -> float | None:
    """Return the finite number under a path; None if it is absent or something else."""
    value = lookup(facts, *path)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) else None


def entries(facts: object, *path: str) -> list[dict[str, object]]:
    """Return the mappings of the list under a path; none where it is absent."""
    value = lookup(facts, *path)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def median_over_samples(
    samples: Iterable[Sample], figure: Callable[[Sample], float | None]
) -> float | None:
    """Return the median of a figure over the samples that have it; None if none has."""
    values = [value for sample in samples if (value := figure(sample)) is not None]
    return statistics.median(values) if values else None


def null_limit_share(sample: Sample) -> float | None:
    """Return a sample's rate over that of the engine on the null target; None if unknown.

    That rate was measured on this machine, and each host of a fleet has as much.
    """
    limit_per_s = sample.counters.get("null_limit_per_s", 0) * loading_hosts(sample.cell)
    return sample.operations_per_s / limit_per_s if limit_per_s > 0 else None


def service_times(samples: Iterable[Sample]) -> Histogram:
    """Return the service times (ns) of all operations of all samples, merged exactly."""
    return merged_histogram(o.service_histogram() for s in samples for o in s.operations.values())


def response_times(samples: Iterable[Sample]) -> Histogram:
    """Return the response times (ns) of all operations of all samples, merged exactly."""
    return merged_histogram(o.response_histogram() for s in samples for o in s.operations.values())


@dataclass(frozen=True)
class StallOccurrence:
    """One stall with its cell and round."""

    summary: CellSummary
    round: int
    stall: Stall


def gaps_of(summary: CellSummary) -> tuple[list[StallOccurrence], list[StallOccurrence], float]:
    """Return a cell's stalls, its gaps that are normal for it, and its median latency in s.

    The median is taken over the service times of all rounds, so that requests queued behind a
    stall do not raise the threshold. Where only slower kinds of request were outstanding, such as
    syncs, the lowest of their medians counts. A cell without any completion is reported by
    ``nothing_completed``.
    """
    times = service_times(summary.samples)
    if times.count == 0:
        return [], [], 0.0
    median_s = times.percentile_ns(50) / 1e9
    seen = [
        StallOccurrence(summary, sample.round, stall)
        for sample in summary.samples
        for stall in sample.stalls
    ]
    of_kinds_s = {
        kind: merged_histogram(
            sample.operations[kind].service_histogram()
            for sample in summary.samples
            if kind in sample.operations
        ).percentile_ns(50)
        / 1e9
        for kind in {kind for one in seen for kind in one.stall.operations}
    }
    true, usual, usual_s = [], [], median_s
    for one in seen:
        waiting_s = [of_kinds_s[kind] for kind, count in one.stall.operations.items() if count]
        own_s = max(median_s, min(waiting_s, default=0.0))
        if one.stall.length_s > MEDIAN_FACTOR * own_s:
            true.append(one)
        else:
            usual.append(one)
            usual_s = max(usual_s, own_s)
    return true, usual, usual_s


def stalls_of(summary: CellSummary) -> list[Stall]:
    """Return a cell's stalls, without gaps that are normal for it.

    If nothing completed, nothing is known to be normal, and every gap counts.
    """
    seen = [stall for sample in summary.samples for stall in sample.stalls]
    if not seen or service_times(summary.samples).count == 0:
        return seen
    return [one.stall for one in gaps_of(summary)[0]]


def stalls_dropped_of(summary: CellSummary) -> int:
    """Return how many of a cell's stalls were not stored.

    A sample stores its longest: if one of these is a gap that is normal, so are all others.
    """
    shortest_s = min((stall.length_s for stall in stalls_of(summary)), default=math.inf)
    return sum(
        sample.stalls_dropped
        for sample in summary.samples
        if sample.stalls and all(stall.length_s >= shortest_s for stall in sample.stalls)
    )


def has_stall_watch(samples: Iterable[Sample]) -> bool:
    """Return whether stalls would have been seen: of imported results only if any were.

    Samples of several hosts keep none.
    """
    return any(
        sample.stalls or (sample.engine != IMPORTED and sample.fleet is None) for sample in samples
    )


def addresses_of(summary: CellSummary) -> set[object]:
    """Return the kinds of address of a cell: ``random``, ``sequential`` ...

    Imported cells have a pattern but no specification.
    """
    return {*summary.cell.parsed.address_kinds} or {summary.cell.factors.get("pattern")}


def is_of_a_device(summary: CellSummary) -> bool:
    """Return whether a cell was measured on a real target, not the engine alone or a simulation."""
    return all(sample.engine not in ("null", "simulated") for sample in summary.samples)


def is_of_lab(run: Run) -> bool:
    """Return whether a run was measured inside the lab's kernel."""
    return bool(run.fingerprint_before.machine.lab)


def usable_cpus(fingerprint: Fingerprint) -> float | None:
    """Return how many CPUs the load generator can use at most; None if unknown."""
    machine = fingerprint.machine
    limits = (machine.cpus_online, machine.cpus_usable, machine.cgroup.cpu_limit_cpus)
    return min((limit for limit in limits if limit), default=None)


def memory_for_cache_bytes(fingerprint: Fingerprint) -> int | None:
    """Return the largest possible size of the page cache; None if unknown."""
    machine = fingerprint.machine
    limits = (machine.memory_bytes, machine.cgroup.memory_limit_bytes)
    return min((limit for limit in limits if limit), default=None)


def by_target(fingerprint: Fingerprint) -> list[Fingerprint]:
    """Return the fingerprint once for each target of its run, seen from that target."""
    others = fingerprint.other_targets.values()
    return [fingerprint, *(fingerprint.seen_by(target) for target in others)]


def drives(context: Context) -> list[str]:
    """Return the names of the drives whose health was read before or after the run."""
    return list(dict.fromkeys([*context.before.health, *context.after.health]))


def smart_growth(context: Context, name: str, key: str) -> int:
    """Return by how much a drive's own counter grew during the run; 0 if unknown."""
    before, after = (smart_of(each, name).get(key) for each in (context.before, context.after))
    return int(after - before) if before is not None and after is not None else 0


def smart_of(fingerprint: Fingerprint | FingerprintAfter, name: str) -> Smart:
    """Return a drive's SMART attributes; empty if they could not be read."""
    health = fingerprint.health.get(name)
    return (health.smart if health else None) or {}


def device_name(device: Device) -> str:
    """Return a device's name and model, such as ``nvme0n1 Samsung SSD 990 PRO``."""
    return " ".join(part for part in (device.name, device.model) if part)
