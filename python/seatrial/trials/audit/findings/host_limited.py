"""Finding ``host_limited``: the per-request cost above the drives limits the rate."""

from __future__ import annotations

from itertools import combinations
from typing import Annotated, Final

from seatrial.findings.context import Context
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_list, format_plural, format_size
from seatrial.trials.audit.analysis.model import Parameter, TableAudit, TablePoint, audits_of
from seatrial.trials.audit.analysis.tables import identity_of
from seatrial.trials.audit.findings.limits import (
    agree,
    on_target,
    one_of_several,
    parameter_of,
    sound_points,
)
from seatrial.units import US_PER_S

PARAMETER: Final = "host_service_us"
AT_LIMIT_SHARE: Final = 0.9
BEYOND_LIMIT_RATIO: Final = 1.05
SIZES_MIN: Final = 2
_OR_THE_DRIVES: Final = (
    " With a single target, a limit of the host cannot be distinguished from a limit of its drives."
)


@from_samples(rank=520, section="Validity of the figures", holds_in_lab=False)
def host_limited(context: Context) -> list[Finding]:
    """Find tables in which several block sizes reach the same maximum IOPS.

    Means:
        Several block sizes reach the same maximum IOPS: each request costs a fixed time above the
        drives. More drives do not increase it. If another target has the same limit, the finding
        says so; only if its drives are others, in model or number, are the drives not the cause.

    Decided:
        The read form fits, its `host_service_us` has an interval, tests of at least two block
        sizes reach 90 % of the limit, and none exceeds it by more than 5 %. Rates alone cannot show
        which part of the host, or which IOPS limit of a volume, is responsible, nor, with a single
        target, whether it is the drives. Note.

    Do:
        Use fewer and larger requests, a second controller, interrupts spread over CPUs, or a volume
        with a higher limit. Together with `generator_limited` it is the load generator's limit.
    """
    limited = [audit for audit in audits_of(context) if _cells_at_limit(audit)]
    found: list[Finding] = []
    while limited:
        first = limited[0]
        same_limit = [audit for audit in limited if _agree(first, audit)]
        limited = [audit for audit in limited if audit not in same_limit]
        found.append(_finding(context, same_limit))
    return found


def _cells_at_limit(audit: TableAudit) -> list[TablePoint]:
    """Return the cells at the limit; none unless several block sizes reach it."""
    cost = parameter_of(audit, PARAMETER)
    if cost is None or audit.form != "read":
        return []
    limit_per_s = US_PER_S / cost.value
    points = [point for point in sound_points(audit) if point.iops]
    rates = {point.key: point.iops.value for point in points if point.iops}
    if max(rates.values(), default=0.0) > BEYOND_LIMIT_RATIO * limit_per_s:
        return []
    at_limit = [point for point in points if rates[point.key] >= AT_LIMIT_SHARE * limit_per_s]
    return at_limit if len({point.block_size_bytes for point in at_limit}) >= SIZES_MIN else []


def _agree(one: TableAudit, other: TableAudit) -> bool:
    mine, theirs = parameter_of(one, PARAMETER), parameter_of(other, PARAMETER)
    return mine is not None and theirs is not None and agree(mine, theirs)


class HostLimitedFigures(Figures, frozen=True, kw_only=True, tag="host_limited"):
    host_service_us: float | None
    host_service_us_low: float | None
    host_service_us_high: float | None
    iops_limit: float | None
    tables: list[str]
    at_limit_share: float
    operations: Annotated[list[str], HIDDEN]
    largest: Annotated[int, HIDDEN]
    target: Annotated[str, HIDDEN]
    cells_count: Annotated[int, HIDDEN]
    cost: Annotated[Parameter | None, HIDDEN]
    targets_count: Annotated[int, HIDDEN]
    targets: Annotated[list[str], HIDDEN]
    on_other_drives: Annotated[bool, HIDDEN]

    def text(self) -> FindingText:
        shared = _OR_THE_DRIVES
        if self.targets_count > 1:
            shared = f" The limit is the same on {format_list(self.targets)}" + (
                ", so a shared resource causes it, not the drives."
                if self.on_other_drives
                else ": a shared resource causes it, or drives of the same kind. Measure both at "
                "the same time to distinguish these."
            )
        return FindingText(
            sentence=(
                f"{format_list(self.operations).capitalize()} of up to "
                f"{format_size(self.largest)}{on_target(self.target)} reach the same maximum rate "
                f"({format_plural(self.cells_count, 'test')}). "
                f"{self.cost.sentence if self.cost else ''}{shared}"
            ),
            cause=(
                "Each request has a fixed, serialised cost, whatever its size: in the host's CPU "
                "and driver, the controller, the hypervisor, or an IOPS limit of the volume. More "
                "drives increase bandwidth, not IOPS."
            ),
            next=(
                "Use fewer and larger requests; or change what is above the drives: a second "
                "controller, another driver or interrupt affinity, a volume with a higher IOPS "
                "limit. If 'generator_limited' is reported as well, it is the load generator's "
                "limit."
            ),
        )


def _finding(context: Context, same_limit: list[TableAudit]) -> Finding:
    first = same_limit[0]
    cost = parameter_of(first, PARAMETER)
    points = [(audit, point) for audit in same_limit for point in _cells_at_limit(audit)]
    targets = list(dict.fromkeys(audit.table.target for audit in same_limit))
    target = one_of_several(context, first) if len(targets) == 1 else ""
    return Finding(
        severity="note",
        cells=[identity_of(audit.table, point) for audit, point in points],
        figures=HostLimitedFigures(
            host_service_us=cost.value if cost else None,
            host_service_us_low=cost.low if cost else None,
            host_service_us_high=cost.high if cost else None,
            iops_limit=US_PER_S / cost.value if cost else None,
            tables=[
                f"{audit.table.target}/{audit.table.workload}/{audit.table.operation}"
                for audit in same_limit
            ],
            at_limit_share=AT_LIMIT_SHARE,
            operations=list(dict.fromkeys(f"{audit.table.operation}s" for audit in same_limit)),
            largest=max(point.block_size_bytes for _, point in points),
            target=target,
            cells_count=len(points),
            cost=cost,
            targets_count=len(targets),
            targets=targets,
            on_other_drives=any(
                _have_unlike_drives(context, *pair) for pair in combinations(targets, 2)
            ),
        ),
    )


def _have_unlike_drives(context: Context, one: str, other: str) -> bool:
    """Return whether two targets are known to share no drive, and differ in number or model."""
    drives, others = (
        target.physical_devices if (target := context.before.target_of(label)) else []
        for label in (one, other)
    )
    if not drives or not others or {each.name for each in drives} & {each.name for each in others}:
        return False
    models, other_models = (sorted(each.model or "" for each in side) for side in (drives, others))
    is_known = "" not in (*models, *other_models)
    return len(drives) != len(others) or (is_known and models != other_models)
