"""The figures at the top: one definition of the fastest cell, for the verdict and for each chart.

A figure that is told alone names its cell, so that it can be found in the tables, and two places
that name a cell alike tell one figure of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from seatrial.stats.model import CellSummary, Estimate, Finding
from seatrial.stats.wording import format_identity
from seatrial.study.cell import FactorValue

Figure = Callable[[CellSummary], Estimate]
Served = Sequence[Mapping[str, FactorValue]]
"""What a cache served, by identity: no figure of the device, where there is another."""

_NOT_THE_DEVICES = ("page_cache_served", "device_cache_served")
_TOLD_ELSEWHERE = ("target", "workload", "pattern", "operation")


def served_by_caches(findings: Iterable[Finding]) -> list[dict[str, FactorValue]]:
    """Return the identities of the cells that a cache served in place of the device."""
    return [cell for each in findings if each.kind in _NOT_THE_DEVICES for cell in each.cells]


def fastest(
    cells: Iterable[CellSummary], figure: Figure, served: Served = ()
) -> CellSummary | None:
    """Return the fastest cell, of those that no cache served where there are any.

    Of equals it is that with the smallest block and the fewest requests in flight.

    Args:
        cells: Of which one is picked; None is where there is none.
        figure: What is compared.
        served: What a cache served, by identity.
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
    """Return the cell of the least effort that does as much as the fastest, as far as is known.

    None where that is the fastest itself, or where no interval over rounds says what is as much.

    Args:
        cells: Of which ``best`` is the fastest.
        figure: What was compared.
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


def settings_words(summary: CellSummary, *, leave_out: Sequence[str] = ()) -> str:
    """Return what a cell is told apart by: ``1 MiB, 10 threads``; not its target or operation.

    Args:
        summary: The cell.
        leave_out: Factors that were told already.
    """
    left_out = (*_TOLD_ELSEWHERE, *leave_out)
    identity = summary.cell.identity()
    return format_identity({name: v for name, v in identity.items() if name not in left_out})
