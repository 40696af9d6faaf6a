"""The noise floor: what two measurements of one and the same thing differ by."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Sequence

import msgspec

from seatrial.stats.compare.figures import Rounds
from seatrial.stats.compare.model import Entrant, NoiseFloor
from seatrial.stats.compare.pairing import is_interleaved, match
from seatrial.stats.compare.questions import CellQuestion, ask
from seatrial.stats.compare.ratio import contrast

PERCENT_OF_CELLS = 95.0
CONTROL_SUFFIX = "-aa"
"""A target whose label is another's with this at its end is that one once more."""


def floor_of_pair(
    a: Entrant, control: Entrant, wanted: Collection[str] | None = None
) -> NoiseFloor:
    """Return what another measurement of A differs from A by, cell by cell and overall.

    Raises:
        UsageError: When the two have no cell in common.
    """
    asked = ask(match(a, control).cells, paired=is_interleaved(a, control), wanted=wanted)
    logs: dict[str, list[float]] = defaultdict(list)
    for question in asked.cells:
        if question.of:
            logs[question.figure].append(question.of.log_ratio)
    overall = {each.figure: _distance_share(each.of.log_ratio) for each in asked.overall}
    return NoiseFloor(
        source="pair", name=control.side.name, cells=_at_percentile(logs), overall=overall
    )


def floor_of_halves(questions: Sequence[CellQuestion]) -> NoiseFloor | None:
    """Return what the odd rounds of each side differ from its even rounds by; None if too few.

    Half of the rounds scatter wider by the square root of two than all of them, which is taken
    off again. The same rounds make the intervals, which say it more sharply; so this is told,
    and overrules nothing.
    """
    logs: dict[str, list[float]] = defaultdict(list)
    for question in questions:
        for rounds in (question.a, question.b):
            halves = _halves(rounds)
            if halves and (found := contrast(*halves, paired=False)):
                logs[question.figure].append(found.log_ratio / math.sqrt(2))
    return NoiseFloor(source="halves", cells=_at_percentile(logs)) if logs else None


def _halves(rounds: Rounds) -> tuple[Rounds, Rounds] | None:
    """Return the first, third ... and the second, fourth ... round; None of fewer than two."""
    numbers = sorted(rounds.values)
    numbers = numbers[: len(numbers) // 2 * 2]
    if not numbers:
        return None
    first, second = (
        msgspec.structs.replace(rounds, values={each: rounds.values[each] for each in half})
        for half in (numbers[::2], numbers[1::2])
    )
    return first, second


def _at_percentile(logs: dict[str, list[float]]) -> dict[str, float]:
    """Return the 95th percentile of the ratios' distance from 1, by figure."""
    import numpy as np  # noqa: PLC0415  (0.1 s to import; only an analysis pays)

    return {
        figure: float(np.percentile([_distance_share(each) for each in values], PERCENT_OF_CELLS))
        for figure, values in logs.items()
    }


def _distance_share(log_ratio: float) -> float:
    """Return how far a ratio is from 1; half and twice as much are equally far."""
    return math.expm1(min(abs(log_ratio), 700.0))


def control_label(labels: Sequence[str], paths: Sequence[str]) -> str:
    """Return the label of the target that is the first one once more; empty if there is none.

    It has the first one's path, or its label with ``-aa`` at the end.
    """
    for label, path in zip(labels[1:], paths[1:], strict=True):
        if label == labels[0] + CONTROL_SUFFIX or (path and path == paths[0]):
            return label
    return ""
