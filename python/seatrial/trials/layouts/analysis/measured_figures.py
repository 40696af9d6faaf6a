"""The figures of the article "One DVD per second", with the results of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from seatrial.stats.estimate import Estimate
from seatrial.stats.model import CellSummary
from seatrial.stats.wording import format_plural
from seatrial.study.cell import FactorValue
from seatrial.trials.layouts.analysis.figures import FIGURES, ArticleFigure, Quantity
from seatrial.trials.layouts.analysis.model import (
    FigureLine,
    FigurePoint,
    MeasuredFigure,
    SweepPoint,
    SweepSeries,
    Variant,
    is_breaking_summary,
    variant_of,
)
from seatrial.units import GIB, NS_PER_S

SIZES_MIN: Final = 3
"""With fewer block sizes there is no figure."""
UNITS: Final[Mapping[Quantity, str]] = {"bandwidth": "B/s", "iops": "IOPS", "copy_time": "ns"}
TITLES: Final[Mapping[Quantity, str]] = {
    "bandwidth": "Random bandwidth against block size and threads",
    "iops": "Random requests per second against block size and threads",
}

Identity = Mapping[str, FactorValue]


class LayoutCell(msgspec.Struct, frozen=True, kw_only=True):
    """A cell on a layout."""

    summary: CellSummary
    variant: Variant

    @property
    def identity(self) -> Identity:
        """Its factors."""
        return self.summary.cell.identity()


def measured_figures(
    cells: Sequence[CellSummary], series: Sequence[SweepSeries]
) -> list[MeasuredFigure]:
    """Return the figures for which a run has lines, those of the article first.

    Args:
        cells: Cells of the run.
        series: Its sweeps over the number of drives.
    """
    own = [
        LayoutCell(summary=summary, variant=variant)
        for summary in cells
        if not summary.blank
        and not is_breaking_summary(summary)
        and (variant := variant_of(summary))
    ]
    figures = [
        MeasuredFigure(
            number=figure.number,
            title=figure.title,
            against=figure.against,
            unit=UNITS[figure.quantity],
            lines=lines,
        )
        for figure in FIGURES
        if (lines := _article_lines(figure, series, own))
    ]
    shown = {point.target for each in figures if each.against == "block_size_bytes"
             for line in each.lines for point in line.points}  # fmt: skip
    return [*figures, *_of_other_layouts(own, shown)]


def _article_lines(
    figure: ArticleFigure, series: Sequence[SweepSeries], cells: Sequence[LayoutCell]
) -> list[FigureLine]:
    if figure.against == "drives":
        return _of_series(figure, series)
    own = [each for each in cells if _is_of(figure, each.variant) and _fits(figure, each.identity)]
    return _lines(figure.quantity, own)


def _fits(figure: ArticleFigure, identity: Identity) -> bool:
    """Return whether a cell belongs to a figure, whatever its layout."""
    size_bytes = figure.block_size_bytes
    return (
        identity["operation"] in figure.operations
        and figure.pattern in ("copy", identity.get("pattern"))
        and (size_bytes is None or identity["block_size_bytes"] == size_bytes)
        and (not figure.threads or _concurrency(identity) in figure.threads)
    )


def _concurrency(identity: Identity) -> int:
    return int(identity["threads"]) * int(identity.get("depth", 1))


def _of_series(figure: ArticleFigure, series: Sequence[SweepSeries]) -> list[FigureLine]:
    fitting = [each for each in series if _fits(figure, each.cell)]
    workloads = {each.cell["workload"] for each in fitting}
    return [
        FigureLine(
            name=f"{each.name}, {each.cell['workload']}" if len(workloads) > 1 else each.name,
            operation=str(each.cell["operation"]),
            points=[
                FigurePoint(x=point.drives, target=point.target, y=_of_point(figure, point))
                for point in each.points
            ],
            saturation=each.saturation,
        )
        for each in fitting
    ]


def _of_point(figure: ArticleFigure, point: SweepPoint) -> Estimate:
    if figure.quantity == "copy_time":
        return _time_of_gib(point.bandwidth)
    return point.bandwidth if figure.quantity == "bandwidth" else point.rate


def _time_of_gib(bandwidth: Estimate) -> Estimate:
    """Return the time to copy one GiB (ns), since the files of layouts differ in size."""
    unit = UNITS["copy_time"]
    return (
        bandwidth.inverse(GIB * NS_PER_S, unit) if bandwidth.value else bandwidth.scaled(0.0, unit)
    )


def _is_of(figure: ArticleFigure, variant: Variant) -> bool:
    return (
        variant.factors["level"] == figure.level
        and figure.legs in (0, variant.factors["legs"])
        and figure.drives in (0, variant.drives)
    )


def _lines(quantity: Quantity, cells: Sequence[LayoutCell]) -> list[FigureLine]:
    """Return a line for each layout, workload, operation, concurrency and file."""
    groups: dict[tuple[object, ...], list[LayoutCell]] = {}
    for each in cells:
        identity = {k: v for k, v in each.identity.items() if k != "block_size_bytes"}
        groups.setdefault(tuple(identity.items()), []).append(each)
    kept = [group for group in groups.values() if len(group) >= SIZES_MIN]
    several = len({group[0].variant.target for group in kept}) > 1
    return [_line(quantity, group, several=several) for group in kept]


def _line(quantity: Quantity, group: Sequence[LayoutCell], *, several: bool) -> FigureLine:
    ordered = sorted(group, key=lambda each: int(each.identity["block_size_bytes"]))
    identity = ordered[0].identity
    words = [ordered[0].variant.target] if several else []
    words += [str(identity["operation"]), format_plural(_concurrency(identity), "thread")]
    words += [f"{identity['file']} file"] if "file" in identity else []
    return FigureLine(
        name=", ".join(words),
        operation=str(identity["operation"]),
        points=[
            FigurePoint(
                x=int(each.identity["block_size_bytes"]),
                target=each.variant.target,
                y=each.summary.bandwidth if quantity == "bandwidth" else each.summary.iops,
            )
            for each in ordered
        ],
    )


def _of_other_layouts(cells: Sequence[LayoutCell], shown: set[str]) -> list[MeasuredFigure]:
    """Return figures like 6 and 7, without a number, for layouts that are not in the article."""
    by_target: dict[str, list[LayoutCell]] = {}
    for each in cells:
        if each.identity.get("pattern") == "random" and each.variant.target not in shown:
            by_target.setdefault(each.variant.target, []).append(each)
    return [
        MeasuredFigure(
            number=0,
            title=f"{title}: {target}",
            against="block_size_bytes",
            unit=UNITS[quantity],
            lines=lines,
        )
        for target, own in by_target.items()
        for quantity, title in TITLES.items()
        if (lines := _lines(quantity, own))
    ]
