"""Finding ``saturated``: more requests in flight no longer increase the rate."""

from __future__ import annotations

from typing import Annotated, Final

from seatrial.findings.context import Context
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.stats.estimate import Estimate
from seatrial.stats.fastest import NO_GAIN_RATIO, Saturation, saturation
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_interval, format_value
from seatrial.trials.audit.analysis.model import Parameter, TableAudit, audits_of
from seatrial.trials.audit.analysis.tables import identity_of
from seatrial.trials.audit.findings.limits import (
    on_target,
    one_of_several,
    parameter_of,
    sound_points,
)

ADMITTED: Final = "admitted_count"


@from_samples(rank=530, section="Validity of the figures")
def saturated(context: Context) -> list[Finding]:
    """Find tables whose rate saturates within the measured concurrency.

    Means:
        Beyond a number of requests in flight, more requests increase only latency, not the rate.

    Decided:
        The lowest count at which every higher count gains significantly less than 5 %, and which
        itself gained significantly more than 5 % over the previous count (geometric means over at
        least 3 block sizes, 95 % t intervals). Gaps are excluded. Note.

    Do:
        Configure the database for about this many requests in flight.
    """
    found = []
    for audit in audits_of(context):
        by_count: dict[int, dict[object, float]] = {}
        for point in sound_points(audit):
            if point.iops:
                series = by_count.setdefault(point.concurrency, {})
                # Several combinations of threads and depth have the same count: use the best rate.
                most = max(point.iops.value, series.get(point.block_size_bytes, 0.0))
                series[point.block_size_bytes] = most
        saturation_point = saturation({count: dict(series) for count, series in by_count.items()})
        if saturation_point is not None:
            found.append(_finding(context, audit, saturation_point))
    return found


class SaturatedFigures(Figures, frozen=True, kw_only=True, tag="saturated"):
    saturated_from_count: int
    gain_before_ratio: float | None
    gain_beyond_ratio: float
    gain_beyond_ratio_high: float | None
    gain_ratio_allowed: float
    admitted_count: float | None
    operation: Annotated[str, HIDDEN]
    target: Annotated[str, HIDDEN]
    reached_most: Annotated[int, HIDDEN]
    reached_gain_beyond: Annotated[Estimate, HIDDEN]
    admitted: Annotated[Parameter | None, HIDDEN]

    def text(self) -> FindingText:
        return FindingText(
            sentence=(
                (
                    f"{self.operation.capitalize()}s{on_target(self.target)} saturate at "
                    f"{self.saturated_from_count} in flight: more (up to {self.reached_most}) "
                    f"reach at most {format_value(self.reached_gain_beyond)} of that rate "
                    f"({format_interval(self.reached_gain_beyond)}). "
                    f"{self.admitted.sentence if self.admitted else ''}"
                ).rstrip()
            ),
            cause=(
                "A resource is saturated: the link for large blocks, the per-request cost for "
                "small ones. Additional requests only queue."
            ),
            next=(
                f"Configure the database for about {self.saturated_from_count} requests in flight "
                "(connections, effective_io_concurrency, background writers); more only add "
                "latency."
            ),
        )


def _finding(context: Context, audit: TableAudit, saturation_point: Saturation) -> Finding:
    table = audit.table
    admitted = parameter_of(audit, ADMITTED)
    operation = table.operation
    target = one_of_several(context, audit)
    return Finding(
        severity="note",
        cells=[
            identity_of(table, point)
            for point in sound_points(audit)
            if point.concurrency > saturation_point.count
        ],
        figures=SaturatedFigures(
            saturated_from_count=saturation_point.count,
            gain_before_ratio=saturation_point.gain_before.value
            if saturation_point.gain_before
            else None,
            gain_beyond_ratio=saturation_point.gain_beyond.value,
            gain_beyond_ratio_high=saturation_point.gain_beyond.high,
            gain_ratio_allowed=NO_GAIN_RATIO,
            admitted_count=admitted.value if admitted else None,
            operation=operation,
            target=target,
            reached_most=saturation_point.most,
            reached_gain_beyond=saturation_point.gain_beyond,
            admitted=admitted,
        ),
    )
