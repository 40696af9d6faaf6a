"""Which of a run's layouts is best for what: for a database's usual questions, with doubt."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from seatrial.findings.context import entries, lookup
from seatrial.stats.compare.multiplicity import ALPHA
from seatrial.stats.compare.ratio import ratio_estimate
from seatrial.stats.estimate import Estimate
from seatrial.stats.model import CellSummary
from seatrial.stats.wording import format_plural, format_size, operation_words
from seatrial.study.cell import Cell
from seatrial.trials.layouts.analysis.model import Best
from seatrial.trials.layouts.analysis.ratios import LayoutCells

BLOCK_SIZES_BYTES: Final = (8192, 4096, 16384)
"""What a database asks for: pages of 8 KiB, else the nearest that was measured."""
_OF_PARTS: Final = ("fill", "map")
"""Kinds that tell of the making of a file, or of a part of one."""
Among = Literal["all", "redundant"]


@dataclass(frozen=True)
class Use:
    """One thing that layouts are compared by.

    Attributes:
        words: What it is.
        key: Of the cell, without its target.
    """

    words: str
    key: str


def best_layouts(measured: LayoutCells) -> list[Best]:
    """Return the fastest layout of each use that two or more have in common.

    The fastest is picked among many, so it is called faster than another one only where the two
    differ at 5 % shared out over all pairs and uses (Bonferroni). Where the fastest survives no
    loss of a drive, the fastest of those that do is told beside it.
    """
    uses = list(_uses(measured))
    found = []
    for use in uses:
        fitting = [t for t, own in measured.by_target.items() if use.key in own]
        alpha = ALPHA / (len(fitting) * (len(fitting) - 1) / 2 * len(uses))
        first = _best(measured, use, fitting, alpha, "all")
        found.append(first)
        redundant = [t for t in fitting if measured.variants[t].losses_survived > 0]
        if redundant and first.target not in redundant:
            found.append(_best(measured, use, redundant, alpha, "redundant"))
    return found


def _best(
    measured: LayoutCells, use: Use, targets: Sequence[str], alpha: float, among: Among
) -> Best:
    ordered = sorted(targets, key=lambda t: -_rate(measured, t, use).value)
    first, others = ordered[0], ordered[1:]
    slower: dict[str, Estimate] = {}
    for other in others:
        found = measured.contrast(other, first, [use.key])
        ratio = ratio_estimate(found[0], alpha) if found else None
        if ratio and ratio.low is not None and ratio.low > 1:
            slower[other] = ratio
    runner_up = next(iter(slower), "")
    return Best(
        use=use.words,
        among=among,
        target=first,
        figure=_figure(measured.by_target[first][use.key]),
        runner_up=runner_up,
        ratio=slower.get(runner_up),
        equals=[other for other in others if other not in slower],
    )


def _rate(measured: LayoutCells, target: str, use: Use) -> Estimate:
    return measured.by_target[target][use.key].iops


def _figure(summary: CellSummary) -> Estimate:
    """Return what a reader looks for: bandwidth of what is in sequence, else the rate."""
    return summary.bandwidth if _addresses(summary.cell) == {"sequential"} else summary.iops


def _addresses(cell: Cell) -> set[object]:
    return {lookup(access, "address", "kind") for access in entries(cell.spec, "accesses")}


def _uses(measured: LayoutCells) -> Iterator[Use]:
    for operation in ("read", "write"):
        for size_bytes in BLOCK_SIZES_BYTES:
            wanted = _random(operation, size_bytes)
            use = _use(measured, wanted, f"random {operation}s of {format_size(size_bytes)}")
            if use:
                yield use
                break
    for operation in ("read", "write"):
        use = _use(measured, _sequential(operation), f"sequential {operation}s")
        if use:
            yield use
    for operation in ("commit", "transaction", "copy"):
        use = _use(measured, _operation(operation), operation_words(operation))
        if use:
            yield use


def _random(operation: str, size_bytes: int) -> Callable[[Cell], bool]:
    return lambda cell: (
        cell.operation == operation
        and cell.block_size_bytes == size_bytes
        and _addresses(cell) == {"random"}
    )


def _sequential(operation: str) -> Callable[[Cell], bool]:
    return lambda cell: cell.operation == operation and _addresses(cell) == {"sequential"}


def _made_for(cell: Cell) -> bool:
    """Tell whether a cell is there to tell what goes in sequence; others happen to go so."""
    return cell.kind == "sequential"


def _operation(operation: str) -> Callable[[Cell], bool]:
    return lambda cell: cell.operation == operation


def _use(measured: LayoutCells, wanted: Callable[[Cell], bool], words: str) -> Use | None:
    """Return the fitting cell that most layouts have; of several the one that moves most.

    Of commits that of the fewest threads: a single session waits for each of its own.
    """
    found: dict[str, list[CellSummary]] = {}
    for own in measured.by_target.values():
        for key, summary in own.items():
            if summary.cell.kind not in _OF_PARTS and wanted(summary.cell):
                found.setdefault(key, []).append(summary)
    shared = {key: cells for key, cells in found.items() if len(cells) > 1}
    if not shared:
        return None
    made_for = {key: cells for key, cells in shared.items() if _made_for(cells[0].cell)}
    shared = made_for or shared
    key = max(shared, key=lambda each: _weight(shared[each]))
    cell = shared[key][0].cell
    size = f" of {format_size(cell.block_size_bytes)}" if words.startswith("sequential") else ""
    return Use(f"{words}{size}{_concurrency(cell)}", key)


def _weight(cells: Sequence[CellSummary]) -> tuple[float, ...]:
    cell = cells[0].cell
    if cell.operation == "commit":
        return len(cells), -cell.threads
    fastest = max(cells, key=lambda each: (each.bandwidth.value, each.iops.value))
    return len(cells), fastest.bandwidth.value, fastest.iops.value


def _concurrency(cell: Cell) -> str:
    if cell.operation == "transaction":
        return f" of {format_plural(cell.threads, 'client')}"
    in_flight = cell.threads * cell.depth
    return f", {in_flight} at once" if in_flight > 1 else ""
