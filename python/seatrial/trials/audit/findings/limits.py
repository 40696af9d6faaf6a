"""What several findings ask of a table's model: its parameters, and which tables share one."""

from __future__ import annotations

from collections.abc import Sequence

from seatrial.findings.context import Context
from seatrial.trials.audit.analysis.model import Parameter, TableAudit, TablePoint, audits_of
from seatrial.trials.audit.analysis.predict import odd_keys_of
from seatrial.trials.audit.analysis.tables import known_points


def parameter_of(audit: TableAudit, name: str) -> Parameter | None:
    """Return a parameter that the table determines; None where it has none such."""
    for parameter in audit.parameters:
        if parameter.name == name and parameter.low is not None:
            return parameter
    return None


def agree(one: Parameter, other: Parameter) -> bool:
    """Tell whether the intervals of two parameters meet."""
    ends = (one.low, one.high, other.low, other.high)
    if None in ends:
        return False
    low, high, other_low, other_high = (float(end) for end in ends if end is not None)
    return low <= other_high and other_low <= high


def sound_points(audit: TableAudit) -> list[TablePoint]:
    """Return the points of a table that have a figure and are no gap."""
    odd = odd_keys_of(audit)
    return [point for point in known_points(audit.table) if point.key not in odd]


def name_targets(audits: Sequence[TableAudit]) -> str:
    """Return the targets of several tables, such as ``raid0 and raid5``."""
    names = list(dict.fromkeys(audit.table.target for audit in audits))
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def on_target(context: Context, audit: TableAudit) -> str:
    """Return `` on ssd``; nothing where all tables of the run are of one target."""
    several = len({each.table.target for each in audits_of(context)}) > 1
    return f" on {audit.table.target}" if several else ""
