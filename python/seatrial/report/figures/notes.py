"""Sentences below the charts: what the intervals are, and which cells are missing and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from seatrial.stats.model import CellSummary, Estimate
from seatrial.stats.wording import format_cell, format_plural

_BLANKS_MAX = 6


def interval_note(cells: Sequence[CellSummary], mark: str) -> str:
    """Return what stands for doubt in a chart.

    Args:
        cells: The cells that are drawn.
        mark: What draws the interval, such as ``bands``.
    """
    once = [summary for summary in cells if summary.iops.rounds <= 1]
    within = [summary for summary in once if summary.iops.low is not None]
    if not once:
        return rounds_note(mark, _figures(cells))
    if len(once) == len(cells):
        return f"Measured once: {_doubt_of_once(mark, bool(within))}"
    note = rounds_note(mark, _figures(cells))
    return (
        f"{note} {format_plural(len(once), 'cell')} of {len(cells)} measured once: "
        + _doubt_of_once(mark, bool(within))
    )


def rounds_note(mark: str, estimates: Iterable[Estimate]) -> str:
    """Return what figure and interval are where cells were measured in several rounds.

    Args:
        mark: What draws the interval, such as ``bands``.
        estimates: What is drawn.
    """
    note = (
        f"Each figure is the geometric mean of its rounds; {mark} are 95 % intervals over the "
        "rounds."
    )
    return " ".join([note, *scatter_notes(mark, estimates)])


def scatter_notes(mark: str, estimates: Iterable[Estimate]) -> list[str]:
    """Return what is drawn of rounds that differ by more than twice; none where none do."""
    if all(estimate.scatter is None for estimate in estimates):
        return []
    return [
        "Where the rounds of a figure differ by more than twice, it is their median, and its "
        f"{mark} go from the smallest round to the largest."
    ]


def _figures(cells: Iterable[CellSummary]) -> Iterator[Estimate]:
    """Yield every figure of the cells."""
    for summary in cells:
        yield from (summary.iops, summary.bandwidth)
        for named in summary.latency.values():
            yield from named.values()


def _doubt_of_once(mark: str, within: bool) -> str:
    """Return what is known of figures of one round, whose timelines may have given intervals."""
    if not within:
        return "the figures have no interval, so how far they repeat is not known."
    return f"their {mark} come from within the one round, so how far they repeat is not known."


def blank_notes(cells: Iterable[CellSummary]) -> list[str]:
    """Return one sentence for the cells that completed nothing and so have no mark in a chart."""
    blanks = [f"{format_cell(s.cell)} ({s.blank})" for s in cells if s.blank]
    if not blanks:
        return []
    shown = "; ".join(blanks[:_BLANKS_MAX])
    more = f"; and {len(blanks) - _BLANKS_MAX} more" if len(blanks) > _BLANKS_MAX else ""
    return [f"Not drawn, because nothing completed: {shown}{more}."]
