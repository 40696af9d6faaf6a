"""Finding ``host_limited``: requests per second end at what one request costs above the drives."""

from __future__ import annotations

from typing import Final

from seatrial.findings.context import Context
from seatrial.findings.rule import from_samples
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_plural, format_size
from seatrial.trials.audit.analysis.model import Parameter, TableAudit, TablePoint, audits_of
from seatrial.trials.audit.analysis.tables import identity_of
from seatrial.trials.audit.findings.limits import (
    agree,
    name_targets,
    on_target,
    parameter_of,
    sound_points,
)

PARAMETER: Final = "host_service_us"
US_PER_S: Final = 1e6
AT_LIMIT_SHARE: Final = 0.9
BEYOND_LIMIT_RATIO: Final = 1.05
SIZES_MIN: Final = 2
_OR_THE_DRIVES: Final = (
    " One target alone cannot tell the host's limit from that of its drives, which serve so many "
    "requests at once, each taking its time."
)


@from_samples(rank=520, section="Whose number is it?", holds_in_lab=False)
def host_limited(context: Context) -> list[Finding]:
    """Find tables in which several block sizes end at one and the same rate of requests.

    Means:
        Several block sizes end at one and the same rate of requests: each costs a fixed time above
        the drives. More drives do not raise it. Where targets with other drives share it, it says
        so.

    Decided:
        The read form holds, its `host_service_us` has an interval, cells of at least two block
        sizes reach 90 % of the limit, and none exceeds it by more than 5 %. Which part of the host,
        or which IOPS limit of a volume, it is cannot be told from rates; of one target alone, nor
        whether it is the drives themselves. Note.

    Do:
        Fewer and larger requests; a second controller; interrupts spread over processors; a volume
        with a higher limit. Beside `generator_limited` it is the load generator's own.
    """
    limited = [audit for audit in audits_of(context) if _cells_at_limit(audit)]
    found: list[Finding] = []
    while limited:
        first = limited[0]
        alike = [audit for audit in limited if _agree(first, audit)]
        limited = [audit for audit in limited if audit not in alike]
        found.append(_finding(context, alike))
    return found


def _cells_at_limit(audit: TableAudit) -> list[TablePoint]:
    """Return the cells at the limit; none where it is no limit, or of one block size alone."""
    cost = parameter_of(audit, PARAMETER)
    if cost is None or audit.form != "read":
        return []
    limit_per_s = US_PER_S / cost.value
    points = [point for point in sound_points(audit) if point.iops]
    rates = {point.key: point.iops.value for point in points if point.iops}
    if max(rates.values(), default=0.0) > BEYOND_LIMIT_RATIO * limit_per_s:
        return []
    there = [point for point in points if rates[point.key] >= AT_LIMIT_SHARE * limit_per_s]
    return there if len({point.block_size_bytes for point in there}) >= SIZES_MIN else []


def _agree(one: TableAudit, other: TableAudit) -> bool:
    mine, theirs = parameter_of(one, PARAMETER), parameter_of(other, PARAMETER)
    return mine is not None and theirs is not None and agree(mine, theirs)


def _finding(context: Context, alike: list[TableAudit]) -> Finding:
    first = alike[0]
    cost = parameter_of(first, PARAMETER)
    points = {audit.table.target: _cells_at_limit(audit) for audit in alike}
    largest = max(point.block_size_bytes for reported in points.values() for point in reported)
    shared, where = _OR_THE_DRIVES, on_target(context, first)
    if len(points) > 1:
        where = ""
        shared = (
            f" It is the same on {name_targets(alike)}: their drives make no difference, so the "
            "limit lies in what they share."
        )
    return Finding(
        kind="host_limited",
        severity="note",
        cells=[
            identity_of(audit.table, point) for audit in alike for point in _cells_at_limit(audit)
        ],
        sentence=(
            f"{first.table.operation.capitalize()}s of up to {format_size(largest)}{where} end at "
            f"one rate ({format_plural(sum(map(len, points.values())), 'cell')}). "
            f"{cost.sentence if cost else ''}{shared}"
        ),
        cause=(
            "Each request takes a fixed time that no other can use, whatever its size: the "
            "processor and the driver of the host, the controller, the hypervisor, or an IOPS "
            "limit of the volume. More drives move more bytes, not more requests."
        ),
        evidence=_evidence(alike, cost),
        next=(
            "Use fewer and larger requests; or look above the drives: a second controller, "
            "another driver or interrupt affinity, a volume with a higher IOPS limit. If "
            "'generator_limited' is found too, it is the load generator's own limit."
        ),
    )


def _evidence(alike: list[TableAudit], cost: Parameter | None) -> dict[str, object]:
    return {
        "host_service_us": cost.value if cost else None,
        "host_service_us_low": cost.low if cost else None,
        "host_service_us_high": cost.high if cost else None,
        "iops_limit": US_PER_S / cost.value if cost else None,
        "tables": [
            f"{audit.table.target}/{audit.table.workload}/{audit.table.operation}"
            for audit in alike
        ],
        "at_limit_share": AT_LIMIT_SHARE,
    }
