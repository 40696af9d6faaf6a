"""Shared by several findings: parameters of a table's model, and which tables share one."""

from __future__ import annotations

from seatrial.findings.context import Context
from seatrial.trials.audit.analysis.model import Parameter, TableAudit, TablePoint, audits_of
from seatrial.trials.audit.analysis.predict import outlier_keys_of
from seatrial.trials.audit.analysis.tables import known_points


def parameter_of(audit: TableAudit, name: str) -> Parameter | None:
    """Return a parameter that the table determines; None if there is none."""
    for parameter in audit.parameters:
        if parameter.name == name and parameter.low is not None:
            return parameter
    return None


def agree(one: Parameter, other: Parameter) -> bool:
    """Return whether the intervals of two parameters overlap."""
    ends = (one.low, one.high, other.low, other.high)
    if None in ends:
        return False
    low, high, other_low, other_high = (float(end) for end in ends if end is not None)
    return low <= other_high and other_low <= high


def sound_points(audit: TableAudit) -> list[TablePoint]:
    """Return the points of a table that have a figure and are not part of a gap."""
    outlier = outlier_keys_of(audit)
    return [point for point in known_points(audit.table) if point.key not in outlier]


def one_of_several(context: Context, audit: TableAudit) -> str:
    """Return the target's label; empty if all tables of the run have the same target."""
    several = len({each.table.target for each in audits_of(context)}) > 1
    return audit.table.target if several else ""


def on_target(target: str) -> str:
    """Return `` on TARGET``; empty for an empty label."""
    return f" on {target}" if target else ""
