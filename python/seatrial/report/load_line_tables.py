"""The plain table of a load line: a row for each offered rate, and whether it holds the limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from seatrial.analysis.loadline.model import LoadLine, LoadStep
from seatrial.analysis.model import Estimate
from seatrial.analysis.wording import (
    format_count,
    format_iops,
    format_share,
    format_value,
)
from seatrial.report.table import NO_FIGURE, Table, doubt_text, latency_text, rate_text

Answer = Literal["holds", "breaks", "undecided"]

NOT_KNOWN: Final = "not known"
_OFFERED_DOUBT_SHARE: Final = 0.01  # an offered rate is given, not measured: three digits


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
                *_sustained_texts(line.sustained),
                NO_FIGURE if line.closed_loop is None else format_value(line.closed_loop),
                "not within what was tried" if line.breaks == "none" else line.breaks,
            ]
            for line in lines
        ],
    )


def _sustained_texts(sustained: Estimate | None) -> list[str]:
    """Return the rate that is sustained and its interval; or that none is, or at least which."""
    if sustained is None:
        return ["no rate tried", NO_FIGURE]
    if sustained.high is None:
        return [f"at least {format_value(sustained)}", NO_FIGURE]
    return [format_value(sustained), doubt_text(sustained)]


def load_line_table(line: LoadLine) -> Table:
    """Return the steps of a load line by offered rate, rising."""
    percentile = line.percentile
    limit = exact_duration(line.limit_ns)
    return Table(
        id=f"loadline-{line.target}-{line.workload}",
        title=f"Latency against load ({line.workload}), {line.target}: {percentile} within {limit}",
        labels=1,
        headers=["Offered", "IOPS", "±", *_columns(percentile), f"{percentile} service",
                 "Late", "Stalls", "Answer"],
        rows=[
            [
                format_iops(step.offered_per_s, step.offered_per_s * _OFFERED_DOUBT_SHARE),
                rate_text(step.completed_per_s),
                doubt_text(step.completed_per_s),
                *(_time_text(step.response, name) for name in _columns(percentile)),
                _time_text(step.service, percentile),
                format_share(step.late_share) if step.late_share else NO_FIGURE,
                format_count(step.stalls) if step.stalls else NO_FIGURE,
                answer_of(step),
            ]
            for step in line.steps
        ],
    )  # fmt: skip


def _columns(percentile: str) -> list[str]:
    """Return the percentiles that are shown: the median, the limited one, and the slowest."""
    return list(dict.fromkeys(["p50", percentile, "max"]))


def _time_text(times: dict[str, Estimate], name: str) -> str:
    return latency_text(times, name) if name in times else NOT_KNOWN
