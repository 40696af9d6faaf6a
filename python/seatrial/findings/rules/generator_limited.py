"""Finding ``generator_limited``: the load generator, not the device, was the bottleneck."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

from seatrial.findings.context import (
    NULL_LIMIT_SHARE_MAX,
    AffectedCells,
    Context,
    identities,
    is_of_a_device,
    median_over_samples,
    null_limit_share,
    usable_cpus,
)
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.results.model import Sample
from seatrial.stats.model import CellSummary, Figures, Finding, FindingText
from seatrial.stats.wording import format_plural, format_share
from seatrial.topic import topic_of
from seatrial.units import NS_PER_S

CPU_SHARE_MAX = 0.90


@from_samples(rank=440, section="Validity of the figures", holds_in_lab=False)
def generator_limited(context: Context) -> list[Finding]:
    """Find cells near the engine's own limit, CPU-bound, or served by io_uring kernel workers.

    Means:
        The load generator was the bottleneck, not the device. The figure is a lower bound.

    Decided:
        Any of three: the test exceeds 70 % of the engine's rate on the null target with the same
        threads and queue depth, times the number of hosts (warning); the process used more than
        90 % of the CPUs available to its threads and kernel workers within affinity and control
        group, on the busiest host (warning; not with `iopoll`, which spins by design); io_uring
        handed requests to kernel workers, which costs about twice the CPU time (note).

    Do:
        Use more threads, a faster machine, larger blocks or direct I/O; with kernel workers try
        `psync`.
    """
    # Databases have another load generator, which `client_limited` covers.
    cells = [c for c in context.cells if is_of_a_device(c) and not topic_of(c.cell).has_server]
    cpus = usable_cpus(context.before)
    found = [_near_null_limit(context, cells), _out_of_processor(context, cells, cpus)]
    return [finding for finding in (*found, _kernel_workers(context, cells)) if finding]


def _above(
    cells: Sequence[CellSummary], share_of: Callable[[Sample], float | None], allowed_share: float
) -> tuple[list[CellSummary], float]:
    """Return the cells whose median share exceeds the limit, and the highest share."""
    shares = {c.cell.key: median_over_samples(c.samples, share_of) or 0.0 for c in cells}
    concerned = [c for c in cells if shares[c.cell.key] > allowed_share]
    return concerned, max(shares.values(), default=0.0)


class GeneratorLimitedInShort(Figures, frozen=True, kw_only=True, tag="generator_limited"):
    """Figures of every ``generator_limited``."""

    def in_short(self, cells_count: int) -> str:
        tests = format_plural(cells_count, "test")
        return f"the load generator, not the device, was the bottleneck in {tests}"


class NearNullLimitFigures(GeneratorLimitedInShort, frozen=True, kw_only=True):
    """Figures of ``generator_limited``: near null limit."""

    null_limit_share_max: float
    null_limit_share_allowed: float
    cells_count: int
    concerned: Annotated[AffectedCells, HIDDEN]

    def text(self) -> FindingText:
        return FindingText(
            sentence=(
                f"The load generator reached {format_share(self.null_limit_share_max)} of its own "
                f"maximum in {self.concerned}, so the figure is a lower bound."
            ),
            cause=(
                f"Above {format_share(NULL_LIMIT_SHARE_MAX)} of its rate on the null target, the "
                "load generator affects the result; the device could do more than the test shows."
            ),
            next=(
                "Use more threads (factor 'threads') or a faster machine, or read the figure as "
                "'at least'."
            ),
        )


def _near_null_limit(context: Context, cells: list[CellSummary]) -> Finding | None:
    concerned, highest = _above(cells, null_limit_share, NULL_LIMIT_SHARE_MAX)
    if not concerned:
        return None
    figures = NearNullLimitFigures(
        null_limit_share_max=highest,
        null_limit_share_allowed=NULL_LIMIT_SHARE_MAX,
        cells_count=len(concerned),
        concerned=context.affected_cells(concerned),
    )
    return Finding(severity="warning", cells=identities(concerned), figures=figures)


def _cpu_share(sample: Sample, cpus: float | None) -> float | None:
    user_ns, system_ns = sample.counters.get("cpu_user_ns"), sample.counters.get("cpu_system_ns")
    if user_ns is None or system_ns is None or sample.duration_s <= 0:
        return None
    if sample.cell.parsed.iopoll:
        return None  # polling keeps a CPU busy by design
    runnable = sample.cell.threads + sample.counters.get("kernel_workers_max", 0)
    if sample.fleet:  # its hosts may have other processors than this machine
        hosts = sample.fleet.hosts
        measured_ns = sum(host.ended_ns - host.started_ns for host in hosts)
        of_threads_share = (user_ns + system_ns) / max(1.0, measured_ns * runnable)
        return max(of_threads_share, *(host.cpu_share for host in hosts))
    usable = min(runnable, cpus) if cpus else runnable
    return (user_ns + system_ns) / (sample.duration_s * NS_PER_S * max(1.0, usable))


class OutOfProcessorFigures(GeneratorLimitedInShort, frozen=True, kw_only=True):
    """Figures of ``generator_limited``: out of processor."""

    cpu_share_max: float
    cpu_share_allowed: float
    cpus_usable: float | None
    cells_count: int
    concerned: Annotated[AffectedCells, HIDDEN]

    def text(self) -> FindingText:
        return FindingText(
            sentence=(
                f"The load generator used up to {format_share(self.cpu_share_max)} of the "
                f"available CPU time in {self.concerned}."
            ),
            cause=(
                "The CPU, not the device, limited the rate: copying from the page cache, many "
                "small requests, or more threads than CPUs."
            ),
            next=(
                "Use direct I/O, larger blocks, or more threads if CPUs are idle. Otherwise the "
                "figures show what this machine can do with the device, not what the device can "
                "do."
            ),
        )


def _out_of_processor(
    context: Context, cells: list[CellSummary], cpus: float | None
) -> Finding | None:
    concerned, highest = _above(cells, lambda sample: _cpu_share(sample, cpus), CPU_SHARE_MAX)
    if not concerned:
        return None
    figures = OutOfProcessorFigures(
        cpu_share_max=highest,
        cpu_share_allowed=CPU_SHARE_MAX,
        cpus_usable=cpus,
        cells_count=len(concerned),
        concerned=context.affected_cells(concerned),
    )
    return Finding(severity="warning", cells=identities(concerned), figures=figures)


class KernelWorkersFigures(GeneratorLimitedInShort, frozen=True, kw_only=True):
    """Figures of ``generator_limited``: kernel workers."""

    kernel_workers_max: float
    cells_count: int
    concerned: Annotated[AffectedCells, HIDDEN]

    def text(self) -> FindingText:
        return FindingText(
            sentence=(
                f"io_uring handed requests to up to {self.kernel_workers_max:.0f} kernel "
                f"workers (io-wq) in {self.concerned}."
            ),
            cause=(
                "The device or file system cannot accept these requests without blocking (buffered "
                "writes, a growing file, zram, some dm and loop targets), so the kernel ran each "
                "one in a worker thread, at about twice the CPU time per request."
            ),
            next=(
                'Compare with engine = "psync" and more threads, which is cheaper on such a target.'
            ),
        )


def _kernel_workers(context: Context, cells: list[CellSummary]) -> Finding | None:
    workers = {
        c.cell.key: max((s.counters.get("kernel_workers_max", 0) for s in c.samples), default=0)
        for c in cells
    }
    concerned = [c for c in cells if workers[c.cell.key] > 0]
    if not concerned:
        return None
    most = max(workers.values())
    figures = KernelWorkersFigures(
        kernel_workers_max=most,
        cells_count=len(concerned),
        concerned=context.affected_cells(concerned),
    )
    return Finding(severity="note", cells=identities(concerned), figures=figures)
