"""The fastest cell, by one definition for the verdict and for each chart.

A figure shown alone names its cell, so that it can be found in the tables, and two mentions of
the same cell show the same figure.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from seatrial.stats.cell_estimates import estimate_of_rounds
from seatrial.stats.estimate import Estimate
from seatrial.stats.model import CellSummary, Finding
from seatrial.stats.wording import format_identity
from seatrial.study.cell import FactorValue

Figure = Callable[[CellSummary], Estimate]
Served = Sequence[Mapping[str, FactorValue]]
"""Cells served by a cache, by identity: not figures of the device, if there are others."""

_NOT_THE_DEVICES = ("page_cache_served", "device_cache_served")
_REPORTED_ELSEWHERE = ("target", "workload", "pattern", "operation")


def served_by_caches(findings: Iterable[Finding]) -> list[dict[str, FactorValue]]:
    """Return the identities of the cells that a cache served instead of the device."""
    return [cell for each in findings if each.kind in _NOT_THE_DEVICES for cell in each.cells]


def fastest(
    cells: Iterable[CellSummary], figure: Figure, served: Served = ()
) -> CellSummary | None:
    """Return the fastest cell, excluding cells served by a cache unless all were.

    Among equals it is that with the smallest block and the fewest requests in flight.

    Args:
        cells: The candidates; None is returned if there is none.
        figure: The compared figure.
        served: Cells served by a cache, by identity.
    """
    candidates = list(cells)
    clean = [each for each in candidates if each.cell.identity() not in served]
    return max(
        clean or candidates,
        key=lambda each: (figure(each).value, *(-effort for effort in _effort(each))),
        default=None,
    )


def least_within(
    cells: Iterable[CellSummary], figure: Figure, best: CellSummary
) -> CellSummary | None:
    """Return the cell with the lowest load that is as fast as the fastest, as far as known.

    None if that is the fastest itself, or without an interval over rounds.

    Args:
        cells: Cells that include ``best``.
        figure: The compared figure.
        best: The fastest.
    """
    estimate = figure(best)
    if estimate.low is None or estimate.over != "rounds" or estimate.scatter:
        return None
    as_fast = [each for each in cells if estimate.low <= figure(each).value <= estimate.value]
    least = min(as_fast, key=_effort, default=best)
    return least if _effort(least) < _effort(best) else None


def _effort(summary: CellSummary) -> tuple[int, int]:
    cell = summary.cell
    return cell.block_size_bytes, cell.threads * cell.depth


def settings_phrase(summary: CellSummary, *, leave_out: Sequence[str] = ()) -> str:
    """Return a cell's distinguishing settings without target or operation: ``1 MiB, 10 threads``.

    Args:
        summary: The cell.
        leave_out: Factors that are shown elsewhere.
    """
    left_out = (*_REPORTED_ELSEWHERE, *leave_out)
    identity = summary.cell.identity()
    return format_identity({name: v for name, v in identity.items() if name not in left_out})


NO_GAIN_RATIO: Final = 1.05
SERIES_MIN: Final = 3


@dataclass(frozen=True)
class Saturation:
    """Where a rate stops growing.

    Attributes:
        count: From this count on it does not grow.
        gain_before: Rate at ``count`` over that at the next lower count; None for the lowest.
        gain_beyond: The largest gain of any higher count over ``count``.
        most: The highest measured count.
    """

    count: int
    gain_before: Estimate | None
    gain_beyond: Estimate
    most: int


def saturation(
    rates_per_s: Mapping[int, Mapping[Hashable, float]], *, from_lowest: bool = False
) -> Saturation | None:
    """Return the lowest count beyond which the rate does not grow; None when unknown.

    The gain of one count over another is the geometric mean over the series that both have (block
    sizes, for instance), with its 95 % t interval. There is no gain when the whole interval is
    below 1.05, and a gain when it is above. Where there is one series only, its rounds may be used
    as series.

    Args:
        rates_per_s: For each count, the rate of each series.
        from_lowest: Whether the result may be the lowest count.
    """
    counts = sorted(rates_per_s)
    for index in range(0 if from_lowest else 1, len(counts) - 1):
        before = (
            _gain(rates_per_s[counts[index - 1]], rates_per_s[counts[index]]) if index else None
        )
        beyond = [_gain(rates_per_s[counts[index]], rates_per_s[c]) for c in counts[index + 1 :]]
        if index and (before is None or before.low is None or before.low <= NO_GAIN_RATIO):
            continue
        known = [gain for gain in beyond if gain is not None and gain.high is not None]
        if len(known) == len(beyond) and _none_gains(known):
            return Saturation(
                count=counts[index],
                gain_before=before,
                gain_beyond=max(known, key=lambda gain: gain.value),
                most=counts[-1],
            )
    return None


def _none_gains(gains: Sequence[Estimate]) -> bool:
    return all(gain.high is not None and gain.high < NO_GAIN_RATIO for gain in gains)


def _gain(of: Mapping[Hashable, float], to: Mapping[Hashable, float]) -> Estimate | None:
    """Return the ratio of rates between two counts; None with fewer than 3 series."""
    ratios = [to[key] / of[key] for key in of if key in to and of[key] > 0]
    return estimate_of_rounds(ratios, "ratio") if len(ratios) >= SERIES_MIN else None
