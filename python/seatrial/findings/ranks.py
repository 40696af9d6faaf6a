"""The rank of a run's figures among earlier runs of the same tests in a results file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from seatrial.findings.answer import RunAnswer
from seatrial.findings.summary import summarise_cell
from seatrial.findings.tile import Tile
from seatrial.results.model import Run, Sample
from seatrial.stats.model import CellSummary, Estimate
from seatrial.study.cell import Cell

RUNS_MIN: Final = 3
"""Of fewer earlier runs a rank says nothing."""
RUNS_MAX: Final = 12
"""So many are read, the newest first: each has to be read from the results file."""


def comparable_runs(run: Run, runs: Iterable[Run]) -> list[Run]:
    """Return the complete runs of the same study that began before a run, the newest first."""
    earlier = [
        each
        for each in runs
        if each.study_name == run.study_name
        and each.status == "complete"
        and each.started_at < run.started_at
    ]
    return sorted(earlier, key=lambda each: each.started_at, reverse=True)[:RUNS_MAX]


def ranked(
    found: RunAnswer, cells: Sequence[CellSummary], earlier: Sequence[Sequence[Sample]]
) -> RunAnswer:
    """Return an answer whose tiles say how many earlier runs were slower in the same test.

    An answer whose figures a profile grades is returned as it is.

    Args:
        found: The answer of a run.
        cells: The tests of the run.
        earlier: The samples of each earlier run.
    """
    if found.profile or len(earlier) < RUNS_MIN:
        return found
    current = {each.cell.key: each for each in cells}
    tests = {key: _test_of(each.cell) for key, each in current.items()}
    wanted = {tests[each.cell] for each in found.tiles if each.cell in tests}
    known: defaultdict[tuple[str, str], list[CellSummary]] = defaultdict(list)
    for samples in earlier:
        rounds: defaultdict[tuple[str, str], list[Sample]] = defaultdict(list)
        for sample in samples:
            rounds[_test_of(sample.cell)].append(sample)
        for test in wanted & rounds.keys():
            known[test].append(summarise_cell(rounds[test]))
    tiles = [
        msgspec.structs.replace(
            each,
            rank=_rank(each, current.get(each.cell), known.get(tests.get(each.cell, ("", "")), [])),
        )
        for each in found.tiles
    ]
    return msgspec.structs.replace(found, tiles=tiles)


def _test_of(cell: Cell) -> tuple[str, str]:
    """Return what makes two tests comparable: the test, and the kind of its target."""
    return cell.key, str(cell.spec.get("target", {}).get("kind", ""))


def _rank(tile: Tile, current: CellSummary | None, earlier: Sequence[CellSummary]) -> str:
    """Return which share of earlier runs was slower; empty for too few, and for other figures."""
    if current is None:
        return ""
    name = next((name for name, each in _figures(current) if each == tile.estimate), None)
    figures = [figure for each in earlier for key, figure in _figures(each) if key == name]
    values = [each.value for each in figures if each.unit == tile.estimate.unit and each.value > 0]
    if name is None or len(values) < RUNS_MIN:
        return ""
    value = tile.estimate.value
    slower = sum(each < value if tile.better == "higher" else each > value for each in values)
    word = "faster" if tile.better == "higher" else "shorter"
    return f"{word} than {100 * slower / len(values):.0f} % of {len(values)} earlier runs"


def _figures(summary: CellSummary) -> Iterator[tuple[tuple[str, ...], Estimate]]:
    """Yield the figures of a test that have a rank, each with what names it in every run."""
    yield ("iops",), summary.iops
    yield ("bandwidth",), summary.bandwidth
    for operation, percentiles in summary.latency.items():
        for percentile, estimate in percentiles.items():
            yield ("latency", operation, percentile), estimate
