"""Caps that a run measured or its machine has: the knee, commits, control groups, RAID rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from seatrial.stats.wording import moment
from seatrial.study.layouts.layout import LayoutSpec
from seatrial.trials.layouts.analysis.accounting import write_rule
from seatrial.trials.loadline.analysis.model import load_lines_of
from seatrial.trials.plan.analysis.caps import Cap
from seatrial.units import NS_PER_S

if TYPE_CHECKING:
    from seatrial.findings.model import Summary
    from seatrial.fingerprint import Device, Fingerprint
    from seatrial.results.model import Sample
    from seatrial.study.layouts.layout import LayoutSpec

_OF_GROUPS: Final = {
    "reads_per_s": ("IOPS", "read"),
    "writes_per_s": ("IOPS", "write"),
    "read_bytes_per_s": ("throughput", "read"),
    "write_bytes_per_s": ("throughput", "write"),
}


def caps_of_run(summary: Summary) -> list[Cap]:
    """Return the knee of each load line, what one session commits, and limits of control groups."""
    when = moment(summary.run.started_at)
    found = [
        Cap(
            subject="device",
            name=f"{line.target}, {line.workload}, {line.percentile} within its limit",
            quantity="IOPS",
            per_s=line.sustained.value,
            origin=f"measured, {when}",
        )
        for line in load_lines_of(summary)
        if line.sustained is not None and not line.sustained.is_lower_bound
    ]
    for cell in summary.cells:
        mean = cell.latency.get("commit", {}).get("mean")  # 1 / median is no rate
        if mean is not None and cell.cell.threads == 1 and mean.value > 0:
            method = cell.cell.factors.get("method", "")
            where = [cell.cell.target, cell.cell.workload, *filter(None, [method])]
            found.append(
                Cap(
                    subject="commit",
                    name=f"one session on {', '.join(map(str, where))}",
                    quantity="commits",
                    per_s=NS_PER_S / mean.value,
                    origin=f"measured, {when}",
                )
            )
    return [*found, *caps_of_groups(summary.run.fingerprint_before)]


def throttled_stalls(samples: Sequence[Sample]) -> int:
    """Return how many stalls the limit of a control group caused."""
    return sum(stall.cause == "cgroup_throttle" for each in samples for stall in each.stalls)


def caps_of_groups(fingerprint: Fingerprint) -> list[Cap]:
    """Return the limits of control groups on the disks of a target."""
    limits: Mapping[str, Mapping[str, int]] = fingerprint.machine.cgroup.io_limits
    stack = fingerprint.target.stack if fingerprint.target else []
    return [
        Cap(
            subject="control group",
            name=f"{name.removesuffix('_per_s').replace('_bytes', '')} of {device.name}",
            quantity=_OF_GROUPS[name][0],
            operation=_OF_GROUPS[name][1],
            per_s=float(limit),
            origin="limit of the control group",
        )
        for device in stack
        for name, limit in limits.get(device.major_minor or "", {}).items()
        if name in _OF_GROUPS
    ]


def array_rules(fingerprint: Fingerprint) -> Iterator[str]:
    """Yield what a small write costs on each software array below a target, as sentences."""
    stack = fingerprint.target.stack if fingerprint.target else []
    for device in stack:
        spec = _layout_of(device)
        rule = write_rule(spec, 4096, 4096) if spec is not None else None
        if rule is None or rule.writes is None or spec is None:
            continue
        ios = (rule.reads or 0) + rule.writes
        yield (
            f"{device.name} is {spec.level} of {spec.drives} drives: a write of 4 KiB is "
            f"{ios:g} I/Os of drives ({rule.words}), so random writes reach at most "
            f"{spec.drives / ios:.3g} times the IOPS of one drive."
        )


def _layout_of(device: Device) -> LayoutSpec | None:
    md = device.md
    if md is None or not md.level or not md.raid_disks or not md.level.startswith("raid"):
        return None
    return LayoutSpec(
        label=device.name, name=device.name, backend="md", level=md.level, drives=md.raid_disks,
        chunk_kib=(md.chunk_bytes or 0) // 1024 or 128,
    )  # fmt: skip
