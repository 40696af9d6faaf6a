"""The plain table of a load line: a row for each offered rate, and whether it holds the limit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from seatrial.report.table import NO_FIGURE, Table, doubt_text, latency_text, rate_text
from seatrial.stats.estimates import PERCENTS
from seatrial.stats.model import AtLeast, Estimate
from seatrial.stats.wording import format_count, format_iops, format_share, format_value
from seatrial.trials.loadline.analysis.model import LoadLine, LoadStep

Answer = Literal["holds", "breaks", "undecided"]

NOT_KNOWN: Final = "not known"
_OFFERED_DOUBT_SHARE: Final = 0.01  # an offered rate is given, not measured: three digits
_DIGITS_MORE_MAX: Final = 6


def answer_of(step: LoadStep) -> Answer:
    """Return whether a step holds the limit with confidence."""
    if step.holds is None:
        return "undecided"
    return "holds" if step.holds else "breaks"


def exact_duration(given_ns: int) -> str:
    """Return a duration that was given, not measured, with all its digits: ``5 ms``."""
    units = (("s", 1_000_000_000), ("ms", 1_000_000), ("µs", 1_000), ("ns", 1))
    unit, scale = next(pair for pair in units if given_ns % pair[1] == 0)
    return f"{given_ns // scale:,} {unit}"


def load_lines_table(lines: Sequence[LoadLine]) -> Table:
    """Return a row for each load line: its limit, what it sustains within it, how it breaks."""
    return Table(
        id="load-lines",
        title="Load lines",
        labels=2,
        headers=["Target", "Workload", "Within", "Sustains", "95 %", "Closed loop", "Breaks"],
        rows=[
            [
                line.target,
                line.workload,
                f"{line.percentile} {exact_duration(line.limit_ns)}",
                *_sustained_texts(line),
                NO_FIGURE if line.closed_loop is None else format_value(line.closed_loop),
                "not within what was tried" if line.breaks == "none" else line.breaks,
            ]
            for line in lines
        ],
    )


def _sustained_texts(line: LoadLine) -> list[str]:
    """Return the rate that is sustained and its interval; or that none is, or at least which."""
    sustained = line.sustained
    if sustained is None:
        if line.breaks != "undecided":
            return ["no rate tried", NO_FIGURE]
        if line.broken_per_s is None:
            return [NOT_KNOWN, NO_FIGURE]
        broken = format_iops(line.broken_per_s, line.broken_per_s * _OFFERED_DOUBT_SHARE)
        return [f"below {broken}", NO_FIGURE]
    if sustained.high is None:
        return [f"at least {format_value(sustained)}", NO_FIGURE]
    return [format_value(sustained), doubt_text(sustained)]


def load_line_table(line: LoadLine) -> Table:
    """Return the steps of a load line by offered rate, rising."""
    percentile = line.percentile
    limit = exact_duration(line.limit_ns)
    return Table(
        id=f"loadline-{line.target}-{line.workload}",
        title=(
            f"Latency against load ({line.workload}), {line.target}: {percentile} within {limit}, "
            f"so {100 - PERCENTS[percentile]:g} % may be above it"
        ),
        labels=1,
        headers=["Offered", "IOPS", "±", *_columns(percentile), f"{percentile} service",
                 "Late", "Stalls", "Above limit", "Answer"],
        rows=[
            [
                format_iops(step.offered_per_s, step.offered_per_s * _OFFERED_DOUBT_SHARE),
                rate_text(step.completed_per_s),
                doubt_text(step.completed_per_s),
                *(
                    _time_text(step.response, name, step.response_at_least)
                    for name in _columns(percentile)
                ),
                _time_text(step.service, percentile),
                format_share(step.late_share) if step.late_share else NO_FIGURE,
                format_count(step.stalls) if step.stalls else NO_FIGURE,
                _above_text(step.above, percentile),
                answer_of(step),
            ]
            for step in line.steps
        ],
    )  # fmt: skip


def _columns(percentile: str) -> list[str]:
    """Return the percentiles that are shown: the median, the limited one, and the slowest."""
    return list(dict.fromkeys(["p50", percentile, "max"]))


def _time_text(
    times: dict[str, Estimate], name: str, bounds: Mapping[str, AtLeast] | None = None
) -> str:
    is_reported = name in times or (bounds is not None and name in bounds)
    return latency_text(times, name, bounds) if is_reported else NOT_KNOWN


def _above_text(above: Estimate, percentile: str) -> str:
    """Return the share above the limit with its interval's ends: ``0.4 % (0.2 to 0.9 %)``.

    The ends decide, so each lies on that side of the allowed share on which it is.
    """
    allowed_share = 1 - PERCENTS[percentile] / 100
    value = _percents(above.value, allowed_share)
    if above.low is None or above.high is None:
        return f"{value} %"
    low, high = (_percents(end, allowed_share) for end in (above.low, above.high))
    return f"{value} % ({low} to {high} %)"


def _percents(share: float, allowed_share: float) -> str:
    """Return a share in percent, with two digits or as many as tell it from what is allowed."""
    if share == 0:
        return "0"
    percent = share * 100
    fewest = max(0, 1 - math.floor(math.log10(percent)))
    reported = [f"{percent:.{digits}f}" for digits in range(fewest, fewest + _DIGITS_MORE_MAX)]
    is_above = share > allowed_share
    return next(
        (text for text in reported if (float(text) / 100 > allowed_share) == is_above), reported[0]
    )
