"""Finding ``array_saturated``: more drives no longer increase the rate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from seatrial.findings.context import Context
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.stats.fastest import NO_GAIN_RATIO
from seatrial.stats.model import CellSummary, Figures, Finding, FindingText
from seatrial.stats.wording import format_identity, format_plural
from seatrial.study.cell import FactorValue
from seatrial.trials.layouts.analysis.model import ArraySaturation, SweepSeries, layouts_of


@from_samples(rank=480, section="Layouts")
def array_saturated(context: Context) -> list[Finding]:
    """Find series over the number of drives that saturate; merged by the point of saturation.

    Means:
        Beyond a number of drives, more drives do not increase the rate.

    Decided:
        One workload on layouts that differ only in their number of drives. There is no gain if the
        whole 95 % interval of the gain is below 1.05 for each higher number, and a gain if the
        whole interval is above. The unit is the round: at least three are needed, and five or six
        with 2 to 3 % noise. Note.

    Do:
        Add drives for capacity or redundancy only, or use a separate controller for the rest. One
        request at a time does not benefit from more drives.
    """
    groups: dict[tuple[object, ...], list[tuple[SweepSeries, ArraySaturation]]] = {}
    for series in analysis.sweeps if (analysis := layouts_of(context)) else []:
        if reached := series.saturation:
            key = (series.name, series.cell["operation"], reached.drives, reached.drives_max)
            groups.setdefault(key, []).append((series, reached))
    return [_finding(context, group) for group in groups.values()]


class ArraySaturatedFigures(Figures, frozen=True, kw_only=True, tag="array_saturated"):
    saturated_from_drives_count: int
    drives_count_max: int
    gain_beyond_ratio: float
    gain_beyond_ratio_high: float | None
    gain_before_ratio: float | None
    gain_ratio_allowed: float
    series_count: int
    series: Annotated[SweepSeries, HIDDEN]
    reached: Annotated[ArraySaturation, HIDDEN]

    def text(self) -> FindingText:
        others = ""
        if self.series_count > 1:
            count = format_plural(self.series_count - 1, "other series", "other series")
            others = f" The same in {count}."
        return FindingText(
            sentence=(
                f"{self.series.name}, {format_identity(self.series.cell)}: "
                f"{self.reached.sentence}{others}"
            ),
            cause=(
                "A resource that all drives share is saturated: the controller or its link, the "
                "CPU, or a lock of the array; or the queue depth is too low to use more drives."
            ),
            next=(
                "Add drives for capacity or redundancy only, or use a separate controller for the "
                "rest (legs = 2). Repeat with a higher queue depth to see whether the load was too "
                "low."
            ),
        )


def _finding(context: Context, group: list[tuple[SweepSeries, ArraySaturation]]) -> Finding:
    series, reached = max(group, key=lambda pair: pair[1].gain_beyond.value)
    beyond = {
        (point.target, _key(each.cell))
        for each, stop in group
        for point in each.points
        if point.drives > stop.drives
    }
    concerned = [c for c in context.cells if (c.cell.target, _key(_without_target(c))) in beyond]
    return Finding(
        severity="note",
        cells=[c.cell.identity() for c in concerned],
        figures=ArraySaturatedFigures(
            saturated_from_drives_count=reached.drives,
            drives_count_max=reached.drives_max,
            gain_beyond_ratio=reached.gain_beyond.value,
            gain_beyond_ratio_high=reached.gain_beyond.high,
            gain_before_ratio=reached.gain_before.value if reached.gain_before else None,
            gain_ratio_allowed=NO_GAIN_RATIO,
            series_count=len(group),
            series=series,
            reached=reached,
        ),
    )


def _without_target(summary: CellSummary) -> dict[str, FactorValue]:
    return {name: value for name, value in summary.cell.identity().items() if name != "target"}


def _key(cell: Mapping[str, FactorValue]) -> tuple[tuple[str, FactorValue], ...]:
    return tuple(sorted(cell.items()))
