"""The plain tables of an audit: what each cell is against its model, and the model's parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from seatrial.report.figures.naming import capitalized, requests_word
from seatrial.report.table import ABSENT, NO_FIGURE, NOT_MEASURED, Table, doubt_text, rate_text
from seatrial.stats.model import Estimate
from seatrial.stats.wording import (
    format_duration_ns,
    format_interval,
    format_iops,
    format_share,
    format_size,
)
from seatrial.trials.audit.analysis.model import Gap, Parameter, Prediction, TableAudit, TablePoint
from seatrial.trials.audit.report.overlay import KIND_WORDS, STATUS_WORDS

FORM_NAMES: Final = {
    "read": "read",
    "locked_write": "locked write",
    "parity_write": "parity write",
    "none": "none",
}
NOT_DETERMINED: Final = "not determined by this table"

_UNIT_ENDINGS: Final = ("_us_per_mib", "_mib_per_s", "_us", "_kib", "_ratio", "_count")
_VALUES: Final[dict[str, Callable[[float, float | None], str]]] = {
    "us": lambda value, half: format_duration_ns(value * 1e3, None if half is None else half * 1e3),
    "MiB/s": lambda value, half: f"{format_iops(value, half)} MiB/s",
    "us/MiB": lambda value, half: f"{format_iops(value, half)} µs/MiB",
    "KiB": lambda value, half: f"{format_iops(value, half)} KiB",
}


def audit_tables(audits: Sequence[TableAudit]) -> list[Table]:
    """Return for each audit its gaps and its parameters; those that there are."""
    found = [
        table
        for audit in audits
        for table in (cells_table(audit, gaps_only=True), parameters_table(audit))
    ]
    return [table for table in found if table.rows]


def audits_table(audits: Sequence[TableAudit]) -> Table:
    """Return a row for each audit: its model, how far it is from the table, and its gaps."""
    return Table(
        id="audits",
        title="What the tables say",
        labels=2,
        headers=["Table", "Model", "Median error", "p90", "Unseen cells", "Gaps"],
        rows=[
            [
                audit_name(audit),
                FORM_NAMES[audit.form] if audit.holds else "none holds",
                *(
                    NO_FIGURE if share is None else format_share(share)
                    for share in (
                        audit.error_share_median,
                        audit.error_share_p90,
                        audit.held_out_share_median,
                    )
                ),
                str(len(audit.gaps)),
            ]
            for audit in audits
        ],
    )


def audit_name(audit: TableAudit) -> str:
    """Return what an audit is of, such as ``Random reads, matrix on ssd``."""
    table = audit.table
    words = [str(table.factors["pattern"])] if "pattern" in table.factors else []
    words.append(requests_word(table.operation))
    return f"{capitalized(' '.join(words))}, {table.workload} on {table.target}"


def cells_table(audit: TableAudit, *, gaps_only: bool = False) -> Table:
    """Return what was observed in each cell, what the model says, and which gap it is part of."""
    gaps = {key: gap for gap in audit.gaps for key in gap.keys}
    points = [point for point in audit.table.points if not gaps_only or point.key in gaps]
    deep = any(point.depth > 1 for point in audit.table.points)
    return Table(
        id=f"audit-{audit.table.target}-{audit.table.workload}-{audit.table.operation}",
        title=f"{'Gaps' if gaps_only else 'Model and gaps'}: {audit_name(audit)}",
        labels=3 if deep else 2,
        headers=[
            *("Block size", "Threads", *(["Depth"] if deep else [])),
            *("IOPS", "±", "Model", "± of one more", "Ratio", "Gap", "Status"),
        ],
        rows=[
            [
                format_size(point.block_size_bytes),
                str(point.threads),
                *([str(point.depth)] if deep else []),
                *_figures(point, audit.predictions.get(point.key), gaps.get(point.key)),
            ]
            for point in points
        ],
    )


def parameters_table(audit: TableAudit) -> Table:
    """Return the parameters of an audit's model with their intervals and meanings."""
    return Table(
        id=f"parameters-{audit.table.target}-{audit.table.workload}-{audit.table.operation}",
        title=f"Parameters of the model: {audit_name(audit)}",
        labels=1,
        headers=["Parameter", "Value", "95 % interval", "Meaning"],
        rows=[
            [
                parameter_name(each.name),
                parameter_text(each),
                _interval(each),
                each.sentence or NO_FIGURE,
            ]
            for each in audit.parameters
        ],
    )


def parameter_name(name: str) -> str:
    """Return a parameter's name as words without its unit, such as ``host service``."""
    ending = next((known for known in _UNIT_ENDINGS if name.endswith(known)), "")
    return name.removesuffix(ending).replace("_", " ")


def parameter_text(parameter: Parameter) -> str:
    """Return a parameter's value with its unit, with no more digits than its interval allows."""
    half = None
    if parameter.low is not None and parameter.high is not None:
        half = (parameter.high - parameter.low) / 2
    return _VALUES.get(parameter.unit, format_iops)(parameter.value, half)


def _interval(parameter: Parameter) -> str:
    if parameter.low is None or parameter.high is None:
        return NOT_DETERMINED
    half = (parameter.high - parameter.low) / 2
    wording = _VALUES.get(parameter.unit, format_iops)
    return f"{wording(parameter.low, half)} to {wording(parameter.high, half)}"


def _figures(point: TablePoint, prediction: Prediction | None, gap: Gap | None) -> list[str]:
    """Return the texts of a cell beside its labels."""
    classed = [KIND_WORDS[gap.kind], STATUS_WORDS[gap.status]] if gap else [NO_FIGURE] * 2
    if point.iops is None:
        observed = [ABSENT if point.measured else NOT_MEASURED, NO_FIGURE]
    else:
        observed = [rate_text(point.iops), doubt_text(point.iops)]
    return [*observed, *_model_texts(point, prediction), *classed]


def _model_texts(point: TablePoint, prediction: Prediction | None) -> list[str]:
    """Return prediction, its interval, and observed over predicted."""
    if prediction is None:
        return [NO_FIGURE] * 3
    said = Estimate(
        value=prediction.iops, low=prediction.low, high=prediction.high, rounds=0, unit="IOPS"
    )
    observed = 0.0 if point.iops is None else point.iops.value
    ratio = f"{format_iops(observed / prediction.iops)}x" if prediction.iops > 0 else NO_FIGURE
    return [rate_text(said), format_interval(said), NO_FIGURE if point.iops is None else ratio]
