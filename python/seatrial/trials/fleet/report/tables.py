"""Tables of a study on several hosts: its scaling, and the share of each host."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from seatrial._core import Histogram
from seatrial.report.table import NO_FIGURE, Table, doubt_text, rate_text
from seatrial.results.fleet import HostRecord
from seatrial.stats.model import CellSummary
from seatrial.stats.wording import (
    format_duration_ns,
    format_estimate,
    format_rate_bytes,
    format_share,
)
from seatrial.study.hosts import hosts_of
from seatrial.trials.fleet.analysis.scaling import Scaling


def scaling_tables(found: Sequence[Scaling]) -> list[Table]:
    """Return for each workload a row per number of hosts."""
    return [
        Table(
            id=f"fleet-scaling-{each.name.replace('/', '-')}",
            title=f"Rate by number of hosts, {each.name}",
            labels=1,
            headers=["hosts", "IOPS", "±", "against one", "fairness", "starts apart, at most"],
            rows=[
                [
                    str(step.hosts),
                    rate_text(step.rate),
                    doubt_text(step.rate),
                    _against_one(each, index),
                    f"{step.fairness:.3f}",
                    format_duration_ns(step.skew_ns_max) if step.hosts > 1 else NO_FIGURE,
                ]
                for index, step in enumerate(each.steps)
            ],
        )
        for each in found
    ]


def _against_one(scaling: Scaling, index: int) -> str:
    first = scaling.steps[0]
    if first.hosts != 1 or first.rate.value <= 0:
        return NO_FIGURE
    return f"{scaling.steps[index].rate.value / first.rate.value:.2f}x"


def hosts_tables(cells: Sequence[CellSummary]) -> list[Table]:
    """Return for each cell of several hosts a row per host, over its rounds."""
    tables = []
    for each in cells:
        records = [sample for sample in each.samples if sample.fleet]
        if hosts_of(each.cell) < 2 or not records:
            continue
        by_host: dict[str, list[tuple[HostRecord, float, int]]] = {}
        for sample in records:
            hosts = sample.fleet.hosts if sample.fleet else ()
            total = sum(host.window_completed for host in hosts)
            for host in hosts:
                by_host.setdefault(host.name, []).append((host, sample.duration_s, total))
        tables.append(
            Table(
                id=f"fleet-hosts-{each.cell.key.replace('/', '-')}",
                title=f"Hosts of {each.cell.key}",
                labels=1,
                headers=[
                    *("host", "IOPS", "share", "p50", "p99", "CPU"),
                    *("received", "sent", "start", "clock"),
                ],
                rows=[_row(name, own) for name, own in sorted(by_host.items())],
            )
        )
    return tables


def _row(name: str, samples: Sequence[tuple[HostRecord, float, int]]) -> list[str]:
    """Return the row of a host: its share is of those samples in which it took part."""
    own = [host for host, _, _ in samples]
    times = Histogram.of([])
    for host in own:
        for response in host.responses.values():
            times = times.merged(Histogram.decode(response))
    completed = sum(host.window_completed for host in own)
    rate = completed / sum(duration_s for _, duration_s, _ in samples)
    total = sum(total for _, _, total in samples)
    return [
        name,
        f"{rate:,.0f}",
        format_share(completed / total) if total else NO_FIGURE,
        format_duration_ns(times.percentile_ns(50)) if len(times) else NO_FIGURE,
        format_duration_ns(times.percentile_ns(99)) if len(times) else NO_FIGURE,
        format_share(statistics.median(host.cpu_share for host in own)),
        format_rate_bytes(statistics.median(host.received_bytes_per_s for host in own)),
        format_rate_bytes(statistics.median(host.sent_bytes_per_s for host in own)),
        f"+{format_duration_ns(max(host.started_ns for host in own))}",
        f"± {format_duration_ns(max(host.clock_before.bound_ns for host in own))}",
    ]


def scaling_sentence(scaling: Scaling) -> str:
    """Return the gain of more hosts as a sentence, with their common limit if known."""
    best = next(step for step in scaling.steps if step.hosts == scaling.best_hosts)
    hosts = "1 host" if best.hosts == 1 else f"{best.hosts} hosts"
    sentence = f"{scaling.name}: at most {format_estimate(best.rate)}, with {hosts}"
    if scaling.is_at_limit:
        sentence += (
            "; more hosts gain nothing, so the limit is one that the hosts share: the target, the "
            "network, or in the lab their common processors"
        )
    if scaling.limit and scaling.limit.half_width_share is not None:
        sentence += f"; the scalability law gives a limit of {format_estimate(scaling.limit)}"
    return f"{sentence}."
