"""Finding ``saturated``: from so many requests in flight on, more of them give no more rate."""

from __future__ import annotations

from typing import Final

from seatrial.findings.context import Context
from seatrial.findings.rule import from_samples
from seatrial.stats.model import Finding
from seatrial.stats.saturation import NO_GAIN_RATIO, Saturation, saturation
from seatrial.stats.wording import format_interval, format_value
from seatrial.trials.audit.analysis.model import TableAudit, audits_of
from seatrial.trials.audit.analysis.tables import identity_of
from seatrial.trials.audit.findings.limits import on_target, parameter_of, sound_points

ADMITTED: Final = "admitted_count"


@from_samples(rank=530, section="Whose number is it?")
def saturated(context: Context) -> list[Finding]:
    """Find tables whose rate grows with concurrency up to a count that was measured, not beyond.

    Means:
        From so many requests in flight on, more of them give no more rate, only more latency.

    Decided:
        At the lowest count for which every higher one gains surely less than 5 %, while it itself
        surely gained more than 5 % over the count before (geometric means over at least 3 block
        sizes, 95 % t intervals). Gaps are left out. Note.

    Do:
        Let the database keep about so many requests in flight.
    """
    found = []
    for audit in audits_of(context):
        by_count: dict[int, dict[object, float]] = {}
        for point in sound_points(audit):
            if point.iops:
                series = by_count.setdefault(point.concurrency, {})
                # Threads and depth reach one count in several ways: what it can do is the best.
                most = max(point.iops.value, series.get(point.block_size_bytes, 0.0))
                series[point.block_size_bytes] = most
        reached = saturation({count: dict(series) for count, series in by_count.items()})
        if reached is not None:
            found.append(_finding(context, audit, reached))
    return found


def _finding(context: Context, audit: TableAudit, reached: Saturation) -> Finding:
    table = audit.table
    admitted = parameter_of(audit, ADMITTED)
    operation = table.operation
    return Finding(
        kind="saturated",
        severity="note",
        cells=[
            identity_of(table, point)
            for point in sound_points(audit)
            if point.concurrency > reached.count
        ],
        sentence=(
            f"{operation.capitalize()}s{on_target(context, audit)} gain nothing beyond "
            f"{reached.count} in flight: "
            f"{reached.most} do {format_value(reached.gain_beyond)} of that rate "
            f"({format_interval(reached.gain_beyond)}). "
            f"{admitted.sentence if admitted else ''}"
        ).rstrip(),
        cause=(
            "Something is always busy by then: the link for large blocks, what a request costs "
            "for small ones. More requests in flight only wait longer."
        ),
        evidence={
            "saturated_from_count": reached.count,
            "gain_before_ratio": reached.gain_before.value if reached.gain_before else None,
            "gain_beyond_ratio": reached.gain_beyond.value,
            "gain_beyond_ratio_high": reached.gain_beyond.high,
            "gain_ratio_allowed": NO_GAIN_RATIO,
            "admitted_count": admitted.value if admitted else None,
        },
        next=(
            f"Let the database keep about {reached.count} requests in flight (its connections, "
            "effective_io_concurrency, background writers), not more: they add latency alone."
        ),
    )
