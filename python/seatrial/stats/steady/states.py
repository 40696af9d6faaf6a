"""The states of every cell that was measured for long enough.

fio, HOWTO, options ``steadystate``, ``steadystate_duration``: a window of ``ss_dur`` seconds with
one value a second slides over the job. ``iops:10%`` is met when every value of the window differs
from its mean by less than 10 %; ``iops_slope:0.1%`` when the line of least squares through the
window moves by less than 0.1 % of the mean from one value to the next (``bw`` and ``lat`` alike).
Both limits are exclusive, as in fio's steadystate.c.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence

from seatrial.results.model import Sample
from seatrial.stats.cell_estimates import counted, rate_unit
from seatrial.stats.model import CellSummary
from seatrial.stats.running import running
from seatrial.stats.steady.phases import (
    WINDOW_ROUNDS,
    Phase,
    RuleResult,
    SteadyState,
    check_series,
    line_share,
    phases,
    range_share,
    snia,
)
from seatrial.stats.timeline import Series, is_long_enough, series_of, slice_counts
from seatrial.stats.wording import format_cell, format_duration_s, format_share, format_value
from seatrial.units import NS_PER_S

DEVIATION_LIMIT_SHARE = 0.1
SLOPE_LIMIT_SHARE = 0.01
WINDOW_VALUES = 10
"""fio has no defaults; these are of its examples/steadystate.fio (``iops:10%``, ``bw_slope:1%``)
with the shorter of its two durations, ten seconds."""


def fio_deviation(
    values: Sequence[float],
    times_s: Sequence[float] | None = None,
    *,
    limit_share: float = DEVIATION_LIMIT_SHARE,
    window: int = WINDOW_VALUES,
) -> RuleResult:
    """Apply fio's ``ss=iops:10%`` to one value a second.

    Args:
        values: One figure a second (fio's ``ss_interval``), none negative.
        times_s: When each was known, from the start; used for ``met_at_s`` only.
        limit_share: The limit as a share of the mean.
        window: How many values fio's ``ss_dur`` spans, at least 2.

    Raises:
        ValueError: When a value is negative or not finite, the number of times differs, or the
            window has fewer than two values.
    """
    return _judge(
        "fio_deviation", values, times_s, deviation_share, limit_share=limit_share, window=window
    )


def fio_slope(
    values: Sequence[float],
    times_s: Sequence[float] | None = None,
    *,
    limit_share: float = SLOPE_LIMIT_SHARE,
    window: int = WINDOW_VALUES,
) -> RuleResult:
    """Apply fio's ``ss=iops_slope:1%`` to one value a second.

    Arguments and errors are those of :func:`fio_deviation`; the limit is the line's change from one
    value to the next, as a share of the mean.
    """
    return _judge("fio_slope", values, times_s, slope_share, limit_share=limit_share, window=window)


def deviation_share(window: Sequence[float]) -> float | None:
    """Return the largest distance of a value from the mean, over the mean; None for a mean of 0."""
    mean = statistics.fmean(window)
    return max(abs(value - mean) for value in window) / mean if mean > 0 else None


def slope_share(window: Sequence[float]) -> float | None:
    """Return the fitted line's change from value to value, over the mean; None for a mean of 0.

    Raises:
        ValueError: When the window has fewer than two values.
    """
    if len(window) < 2:
        raise ValueError("a linear fit needs at least two values")
    moved = line_share(window)
    return None if moved is None else moved / (len(window) - 1)


def _judge(
    rule: str,
    values: Sequence[float],
    times_s: Sequence[float] | None,
    criterion: Callable[[Sequence[float]], float | None],
    *,
    limit_share: float,
    window: int,
) -> RuleResult:
    """Return a rule's result for the last window, and when a window first satisfied it."""
    check_series(values, times_s)
    if window < 2:
        raise ValueError(f"fio's criteria need at least two values, not {window}")

    def is_kept(end: int) -> bool:
        share = criterion(values[end - window : end])
        return share is not None and share < limit_share

    first = next((end for end in range(window, len(values) + 1) if is_kept(end)), None)
    enough = len(values) >= window
    last = values[-window:] if enough else []
    met = enough and is_kept(len(values))
    return RuleResult(
        rule=rule,
        met=met,
        met_at_s=times_s[first - 1] if first and times_s else None,
        met_after=first,
        window=len(last),
        range_share=range_share(last) if enough else None,
        line_share=line_share(last) if enough else None,
        sentence=_fio_sentence(rule, met, criterion(last) if enough else None, limit_share, window),
    )


def _fio_sentence(
    rule: str, met: bool, share: float | None, limit_share: float, window: int
) -> str:
    option = "ss=iops" if rule == "fio_deviation" else "ss=iops_slope"
    name = f"The fio criterion {option}:{limit_share * 100:g}%"
    if share is None:
        return f"{name} cannot be evaluated: there are fewer than {window} values, or all are 0."
    what = (
        (
            f"the largest deviation of the last {window} values from their mean is "
            f"{format_share(share)}"
        )
        if rule == "fio_deviation"
        else (
            f"the linear fit of the last {window} values changes by {format_share(share)} per value"
        )
    )
    return f"{name} is {'met' if met else 'not met'}: {what}."


STRETCHES_MAX = 25
"""Maximum number of rounds of SNIA's procedure, and of parts of a timeline."""
STEPS_PER_STRETCH_MIN = 4
STATE_WORDS = {
    "fresh": "fresh",
    "transition": "in transition",
    "steady": "steady",
    "left": "no longer steady",
}


def steady_states(cells: Sequence[CellSummary]) -> list[SteadyState]:
    """Return the states of all cells that are long enough, in the order of the cells.

    Over the timeline of each sample with at least 20 slices, reads and writes separately; and over
    rounds where a cell has at least five. Under a schedule the rate is given, and while a cache
    fills it follows from the fill: neither says anything about the target's state.
    """
    found: list[SteadyState] = []
    for summary in cells:
        if summary.cell.parsed.arrival.is_scheduled or _is_filling(summary):
            continue
        samples = counted(summary.samples)
        for sample in samples:
            if is_long_enough(sample):
                found += _of_timeline(summary, sample)
        if len(samples) >= WINDOW_ROUNDS:
            found += _of_rounds(summary, samples)
    return found


def _is_filling(summary: CellSummary) -> bool:
    return any(sample.cache is not None and sample.cache.is_filling for sample in summary.samples)


def _of_timeline(summary: CellSummary, sample: Sample) -> list[SteadyState]:
    kinds = [name for name, part in sample.operations.items() if part.completed]
    unit = rate_unit(sample)
    found = []
    for kind in kinds:
        own_kind = kind if len(kinds) > 1 else None
        series = series_of(sample, own_kind)
        gone_through = phases(series.rates.tolist(), series.times_s, unit)
        found.append(
            SteadyState(
                cell=summary.cell.key,
                operation=kind,
                over="timeline",
                round=sample.round,
                rules=[
                    snia(*_parts(series, _steps_per_stretch(len(series.rates)))),
                    *_fio_rules(sample, own_kind),
                ],
                phases=gone_through,
                sentence=sentence_of(summary, kind, gone_through),
            )
        )
    return found


def _fio_rules(sample: Sample, kind: str | None) -> list[RuleResult]:
    """Return the results of fio's rules for the seconds of a sample; none without whole seconds.

    The steps of a series are longer than a second in long samples.
    """
    slice_ns = sample.timeline.slice_ns
    slices_per_s, left_over_ns = divmod(NS_PER_S, slice_ns)
    counts = slice_counts(sample, kind)
    if left_over_ns or len(counts) < WINDOW_VALUES * slices_per_s:
        return []
    slices = Series(
        step_s=slice_ns / NS_PER_S, slices_per_step=1, rates=counts * (NS_PER_S / slice_ns)
    )
    seconds = _parts(slices, slices_per_s)
    return [fio_deviation(*seconds), fio_slope(*seconds)]


def _steps_per_stretch(steps: int) -> int:
    """Return the number of steps in a part of a timeline, so that there are at most 25 parts."""
    return max(STEPS_PER_STRETCH_MIN, math.ceil(steps / STRETCHES_MAX))


def _parts(series: Series, steps: int) -> tuple[list[float], list[float]]:
    """Return mean rates over ``steps`` each, and the end of each; only whole parts count."""
    left_over = len(series.rates) % steps
    means = series.rates[left_over:].reshape(-1, steps).mean(axis=1).tolist()
    ends_s = [(left_over + steps * (index + 1)) * series.step_s for index in range(len(means))]
    return means, ends_s


def _of_rounds(summary: CellSummary, samples: Sequence[Sample]) -> list[SteadyState]:
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

    The clock of a simulated device restarts with each sample: rounds are then concatenated.
    """
    ends_s: list[float] = []
    for sample in samples:
        earliest_s = ends_s[-1] if ends_s else 0.0
        start_s = max(earliest_s, sample.started_at - samples[0].started_at)
        ends_s.append(start_s + sample.duration_s)
    return ends_s


def _rate_per_s(sample: Sample, kind: str, kinds: int) -> float:
    """Return the rate of one kind in a round: of its running phase if it is the only kind."""
    if kinds == 1:
        return running(sample).completed_per_s
    part = sample.operations.get(kind)
    return part.completed / sample.duration_s if part and sample.duration_s > 0 else 0.0


def sentence_of(summary: CellSummary, kind: str, gone_through: Sequence[Phase]) -> str:
    """Return the states in words: ``write: fresh until 4.2 s at 98k IOPS, then steady at ...``."""
    texts = []
    for index, phase in enumerate(gone_through):
        words = f"{STATE_WORDS[phase.state]} at {format_value(phase.rate)}"
        is_last = index == len(gone_through) - 1
        texts.append(words if is_last else f"{words} until {format_duration_s(phase.end_s)}")
    return f"{format_cell(summary.cell)}, {kind}: {', then '.join(texts)}."
