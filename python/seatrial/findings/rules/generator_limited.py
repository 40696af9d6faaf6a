"""Finding ``generator_limited``: the number is the load generator's own, not the device's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from seatrial.findings.context import (
    NS_PER_S,
    Context,
    identities,
    is_of_a_device,
    median_over_samples,
    usable_cpus,
)
from seatrial.findings.rule import from_samples
from seatrial.results.model import Sample
from seatrial.stats.model import CellSummary, Finding
from seatrial.stats.wording import format_share
from seatrial.topic import topic_of

NULL_LIMIT_SHARE_MAX = 0.70
CPU_SHARE_MAX = 0.90


@from_samples(rank=440, section="Whose number is it?", holds_in_lab=False)
def generator_limited(context: Context) -> list[Finding]:
    """Find cells near the engine's own limit, out of processor, or punted to kernel workers.

    Means:
        The number is the load generator's, not the device's: a lower bound.

    Decided:
        Any of three: the cell is above 70 % of what the engine does on the null target with as many
        threads and the same depth (warning); the process used more than 90 % of the processors that
        it could use: threads and kernel workers, at most what affinity and control group allow
        (warning; not with `iopoll`, which spins by design); io_uring handed requests to kernel
        workers, which costs about twice the processor time (note).

    Do:
        More threads, a faster machine, larger blocks, direct I/O; with kernel workers try `psync`.
    """
    # A database's driver is another one, of which `client_limited` tells.
    cells = [c for c in context.cells if is_of_a_device(c) and not topic_of(c.cell).has_server]
    cpus = usable_cpus(context.before)
    found = [_near_null_limit(context, cells), _out_of_processor(context, cells, cpus)]
    return [finding for finding in (*found, _kernel_workers(context, cells)) if finding]


def _above(
    cells: Sequence[CellSummary], share_of: Callable[[Sample], float | None], allowed_share: float
) -> tuple[list[CellSummary], float]:
    """Return the cells whose median share is above what is allowed, and the highest share."""
    shares = {c.cell.key: median_over_samples(c.samples, share_of) or 0.0 for c in cells}
    concerned = [c for c in cells if shares[c.cell.key] > allowed_share]
    return concerned, max(shares.values(), default=0.0)


def _null_limit_share(sample: Sample) -> float | None:
    limit_per_s = sample.counters.get("null_limit_per_s", 0)
    return sample.completed_per_s / limit_per_s if limit_per_s > 0 else None


def _near_null_limit(context: Context, cells: list[CellSummary]) -> Finding | None:
    concerned, highest = _above(cells, _null_limit_share, NULL_LIMIT_SHARE_MAX)
    if not concerned:
        return None
    return Finding(
        kind="generator_limited",
        severity="warning",
        cells=identities(concerned),
        sentence=(
            f"{context.of_cells(concerned)}: up to {format_share(highest)} of what the engine "
            "itself can do on this machine without a device, so the number is a lower bound."
        ),
        cause=(
            f"Above {format_share(NULL_LIMIT_SHARE_MAX)} of its own rate on the null target the "
            "generator is part of what is measured: the device could do more than the cell shows."
        ),
        evidence={
            "null_limit_share_max": highest,
            "null_limit_share_allowed": NULL_LIMIT_SHARE_MAX,
            "cells_count": len(concerned),
        },
        next="Use more threads (factor 'threads'), a faster machine, or read it as 'at least'.",
    )


def _cpu_share(sample: Sample, cpus: float | None) -> float | None:
    user_ns, system_ns = sample.counters.get("cpu_user_ns"), sample.counters.get("cpu_system_ns")
    if user_ns is None or system_ns is None or sample.duration_s <= 0:
        return None
    if sample.cell.spec.get("iopoll"):
        return None  # polling keeps a processor busy by design
    runnable = sample.cell.threads + sample.counters.get("kernel_workers_max", 0)
    usable = min(runnable, cpus) if cpus else runnable
    return (user_ns + system_ns) / (sample.duration_s * NS_PER_S * max(1.0, usable))


def _out_of_processor(
    context: Context, cells: list[CellSummary], cpus: float | None
) -> Finding | None:
    concerned, highest = _above(cells, lambda sample: _cpu_share(sample, cpus), CPU_SHARE_MAX)
    if not concerned:
        return None
    return Finding(
        kind="generator_limited",
        severity="warning",
        cells=identities(concerned),
        sentence=(
            f"{context.of_cells(concerned)}: the load generator used up to "
            f"{format_share(highest)} of the processors that it could use."
        ),
        cause=(
            "The processor, not the device, set the pace: copying out of the page cache, many "
            "small requests, or more threads than processors."
        ),
        evidence={
            "cpu_share_max": highest,
            "cpu_share_allowed": CPU_SHARE_MAX,
            "cpus_usable": cpus,
            "cells_count": len(concerned),
        },
        next=(
            "Use direct I/O, larger blocks or more threads where processors are idle; else read "
            "these cells as what this machine can do with the device, not what the device can do."
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
    return Finding(
        kind="generator_limited",
        severity="note",
        cells=identities(concerned),
        sentence=(
            f"io_uring handed requests to as many as {most:.0f} kernel workers in "
            f"{context.of_cells(concerned)}."
        ),
        cause=(
            "The device or file system cannot take these requests without waiting (buffered "
            "writes, a file that grows, zram, some dm and loop targets), so the kernel ran each "
            "in a thread of its own, at about twice the processor time per request."
        ),
        evidence={"kernel_workers_max": most, "cells_count": len(concerned)},
        next='Compare with engine = "psync" and more threads, which is cheaper on such a target.',
    )
