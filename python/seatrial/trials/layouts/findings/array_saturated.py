"""Finding ``array_saturated``: from so many drives on, more of them give no more."""

from __future__ import annotations

from collections.abc import Mapping

from seatrial.findings.context import Context
from seatrial.findings.rule import from_samples
from seatrial.stats.model import CellSummary, Finding
from seatrial.stats.saturation import NO_GAIN_RATIO
from seatrial.stats.wording import format_identity, format_plural
from seatrial.study.cell import FactorValue
from seatrial.trials.layouts.analysis.model import ArraySaturation, SweepSeries, layouts_of


@from_samples(rank=480, section="Of layouts")
def array_saturated(context: Context) -> list[Finding]:
    """Find series over the number of drives that stop to grow; those that stop alike merged.

    Means:
        From so many drives on, more of them give no more.

    Decided:
        One workload on layouts that differ in nothing but their number of drives. Nothing is gained
        where the whole 95 % interval of the gain of each higher number lies below 1.05; something
        is where the whole of it lies above. The rounds are the unit, so that three are the least,
        and with 2 to 3 % of noise it takes five or six. Note.

    Do:
        Buy more drives for room or redundancy only, or give the rest a controller of their own. A
        single request at a time gains nothing from any number of drives.
    """
    groups: dict[tuple[object, ...], list[tuple[SweepSeries, ArraySaturation]]] = {}
    for series in analysis.sweeps if (analysis := layouts_of(context)) else []:
        if reached := series.saturation:
            key = (series.name, series.cell["operation"], reached.drives, reached.drives_max)
            groups.setdefault(key, []).append((series, reached))
    return [_finding(context, group) for group in groups.values()]


def _finding(context: Context, group: list[tuple[SweepSeries, ArraySaturation]]) -> Finding:
    series, reached = max(group, key=lambda pair: pair[1].gain_beyond.value)
    beyond = {
        (point.target, _key(each.cell))
        for each, stop in group
        for point in each.points
        if point.drives > stop.drives
    }
    concerned = [c for c in context.cells if (c.cell.target, _key(_without_target(c))) in beyond]
    others = ""
    if len(group) > 1:
        others = f" So do {format_plural(len(group) - 1, 'other series', 'other series')}."
    return Finding(
        kind="array_saturated",
        severity="note",
        cells=[c.cell.identity() for c in concerned],
        sentence=f"{series.name}, {format_identity(series.cell)}: {reached.sentence}{others}",
        cause=(
            "Something that all drives share is always busy by then: the controller or its link, "
            "the processor, a lock of the array, or the single request at a time that waits for "
            "one drive whatever their number."
        ),
        evidence={
            "saturated_from_drives_count": reached.drives,
            "drives_count_max": reached.drives_max,
            "gain_beyond_ratio": reached.gain_beyond.value,
            "gain_beyond_ratio_high": reached.gain_beyond.high,
            "gain_before_ratio": reached.gain_before.value if reached.gain_before else None,
            "gain_ratio_allowed": NO_GAIN_RATIO,
            "series_count": len(group),
        },
        next=(
            "Buy more drives for room or redundancy only, or give the rest a controller of their "
            "own (legs = 2); more requests in flight show whether the load was too thin."
        ),
    )


def _without_target(summary: CellSummary) -> dict[str, FactorValue]:
    return {name: value for name, value in summary.cell.identity().items() if name != "target"}


def _key(cell: Mapping[str, FactorValue]) -> tuple[tuple[str, FactorValue], ...]:
    return tuple(sorted(cell.items()))
