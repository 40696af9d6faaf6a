"""The states of every cell that was measured for long enough to tell."""

from __future__ import annotations

import math
from collections.abc import Sequence

from seatrial.results.model import Sample
from seatrial.stats.estimates import counted, rate_unit
from seatrial.stats.model import CellSummary
from seatrial.stats.running import running
from seatrial.stats.steady.fio_rule import WINDOW_VALUES, fio_deviation, fio_slope
from seatrial.stats.steady.model import Phase, RuleResult, SteadyState
from seatrial.stats.steady.phases import phases
from seatrial.stats.steady.snia import WINDOW_ROUNDS, snia
from seatrial.stats.timeline import Series, is_long_enough, series_of
from seatrial.stats.wording import format_cell, format_duration_s, format_value

STRETCHES_MAX = 25
"""The most rounds that SNIA's procedure runs; a timeline is judged in at most as many parts."""
STEPS_PER_STRETCH_MIN = 4
STATE_WORDS = {
    "fresh": "fresh",
    "transition": "in transition",
    "steady": "steady",
    "left": "away from its steady level",
}


def steady_states(cells: Sequence[CellSummary]) -> list[SteadyState]:
    """Return the states of all cells long enough to tell, in the order of the cells.

    Over the timeline of each sample with at least 20 slices, reads and writes apart; and over
    rounds where a cell has at least five. Under a schedule the rate is what was asked for, and
    tells nothing of the target's state.
    """
    found: list[SteadyState] = []
    for summary in cells:
        if _is_scheduled(summary):
            continue
        samples = counted(summary.samples)
        for sample in samples:
            if is_long_enough(sample):
                found += _of_timeline(summary, sample)
        if len(samples) >= WINDOW_ROUNDS:
            found += _of_rounds(summary, samples)
    return found


def _is_scheduled(summary: CellSummary) -> bool:
    arrival = summary.cell.spec.get("arrival")
    return isinstance(arrival, dict) and arrival.get("kind", "closed") != "closed"


def _of_timeline(summary: CellSummary, sample: Sample) -> list[SteadyState]:
    """Return the states of one sample, by kind of request."""
    kinds = [name for name, part in sample.operations.items() if part.completed]
    unit = rate_unit(sample)
    found = []
    for kind in kinds:
        series = series_of(sample, kind if len(kinds) > 1 else None)
        gone_through = phases(series.rates.tolist(), series.times_s, unit)
        found.append(
            SteadyState(
                cell=summary.cell.key,
                operation=kind,
                over="timeline",
                round=sample.round,
                rules=_rules_of(series),
                phases=gone_through,
                sentence=sentence_of(summary, kind, gone_through),
            )
        )
    return found


def _rules_of(series: Series) -> list[RuleResult]:
    """Return what SNIA's rule says of stretches of a timeline, and fio's of its seconds."""
    rules = [snia(*_parts(series, _steps_per_stretch(len(series.rates))))]
    steps_per_s = max(1, round(1 / series.step_s))
    if len(series.rates) // steps_per_s >= WINDOW_VALUES:
        seconds = _parts(series, steps_per_s)
        rules += [fio_deviation(*seconds), fio_slope(*seconds)]
    return rules


def _steps_per_stretch(steps: int) -> int:
    """Return how many steps a part of a timeline has, so that there are at most 25 parts."""
    return max(STEPS_PER_STRETCH_MIN, math.ceil(steps / STRETCHES_MAX))


def _parts(series: Series, steps: int) -> tuple[list[float], list[float]]:
    """Return mean rates over so many steps each, and when each part ended; the last are whole."""
    left_over = len(series.rates) % steps
    means = series.rates[left_over:].reshape(-1, steps).mean(axis=1).tolist()
    ends_s = [(left_over + steps * (place + 1)) * series.step_s for place in range(len(means))]
    return means, ends_s


def _of_rounds(summary: CellSummary, samples: Sequence[Sample]) -> list[SteadyState]:
    """Return the states of a cell over its rounds, by kind of request."""
    kinds = [name for name, part in samples[0].operations.items() if part.completed]
    times_s = _ends_s(samples)
    found = []
    for kind in kinds:
        rates = [_rate_per_s(sample, kind, len(kinds)) for sample in samples]
        gone_through = phases(rates, times_s, rate_unit(samples[0]))
        found.append(
            SteadyState(
                cell=summary.cell.key,
                operation=kind,
                over="rounds",
                round=None,
                rules=[snia(rates, times_s)],
                phases=gone_through,
                sentence=sentence_of(summary, kind, gone_through),
            )
        )
    return found


def _ends_s(samples: Sequence[Sample]) -> list[float]:
    """Return when each round ended, from the start of the first.

    The clock of a simulated device starts anew with each sample: there rounds follow each other.
    """
    ends_s: list[float] = []
    for sample in samples:
        earliest_s = ends_s[-1] if ends_s else 0.0
        start_s = max(earliest_s, sample.started_at - samples[0].started_at)
        ends_s.append(start_s + sample.duration_s)
    return ends_s


def _rate_per_s(sample: Sample, kind: str, kinds: int) -> float:
    """Return the rate of one kind in a round: in its running phase where it is the only one."""
    if kinds == 1:
        return running(sample).completed_per_s
    part = sample.operations.get(kind)
    return part.completed / sample.duration_s if part and sample.duration_s > 0 else 0.0


def sentence_of(summary: CellSummary, kind: str, gone_through: Sequence[Phase]) -> str:
    """Return the states in words: ``write: fresh until 4.2 s at 98k IOPS, then steady at ...``."""
    reported = []
    for place, phase in enumerate(gone_through):
        words = f"{STATE_WORDS[phase.state]} at {format_value(phase.rate)}"
        is_last = place == len(gone_through) - 1
        reported.append(words if is_last else f"{words} until {format_duration_s(phase.end_s)}")
    return f"{format_cell(summary.cell)}, {kind}: {', then '.join(reported)}."
