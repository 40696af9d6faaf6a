"""Finding ``knee``: the rate at which a load line exceeds its latency limit, and how."""

from __future__ import annotations

from typing import Annotated

from seatrial.findings.context import Context, identities
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.trials.loadline.analysis.model import Break, LoadLine, LoadStep, load_lines_of
from seatrial.trials.loadline.analysis.narrative import exact_duration


@from_samples(rank=250, section="Time")
def knee(context: Context) -> list[Finding]:
    """Find the load lines that exceed their latency limit, one finding each.

    Means:
        A load line found the rate at which its percentile exceeds the limit, and how:

        - knee: the percentile rises over a range of rates as requests queue. The finding gives the
          rate at which this begins
        - cliff: one rate is well within the limit (at most a quarter of it, and at most three times
          the percentile of the lowest rate) and another, at most 20 % higher, significantly exceeds
          it: a rate limit, or exhausted burst credit or cache
        - stalls: without the stalls and the backlog of each, the requests meet the limit
        - service: even the lowest rate exceeds it, also from the actual start: a single request
          takes longer

    Decided:
        Each rate meets the limit, exceeds it or is undecided by the rules of
        [method.md](method.md#load-line); the finding reports the lowest rate that exceeds it. If no
        rate significantly exceeds the limit, or none significantly meets it, there is no finding;
        the verdict says so. Note if a rate is sustained and the line ends at a knee, otherwise
        warning. It is a note, and says so, if the load generator was the bottleneck: near its own
        rate on the null target, stopped, or late while the share of the queue depth in use was
        below half of the share of requests above the limit. With a wide limit, a queue very near
        its capacity may look like a cliff.

    Do:
        Knee: plan below the lower end of the interval; add drives for more load. Cliff: look for a
        throttle with `seatrial check`, and measure the first rate above the limit for longer.
        Stalls: find their cause, as for `stall`. Service: a wider limit, smaller blocks or a faster
        target. Generator: stop other load on the machine, or read the figure as "at least".
    """
    return [
        _finding(context, line)
        for line in load_lines_of(context)
        if line.breaks not in ("none", "undecided") and line.steps
    ]


class KneeFigures(Figures, frozen=True, kw_only=True, tag="knee"):
    breaks: Break
    percentile: str
    limit_ns: int
    sustained_per_s: float | None
    sustained_per_s_low: float | None
    sustained_per_s_high: float | None
    closed_loop_per_s: float | None
    knee_per_s: float | None
    broken_per_s: float | None
    broken_above_share: float | None
    broken_late_share: float | None
    stalls_count: int
    generator: str
    line: Annotated[LoadLine, HIDDEN]
    is_one_of_several: Annotated[bool, HIDDEN]

    def text(self) -> FindingText:
        opening = _opening(self.line, is_one_of_several=self.is_one_of_several)
        own = f" {self.generator}." if self.generator else ""
        return FindingText(
            sentence=f"{opening}. {self.line.cause}{own}",
            cause=_CAUSES[self.breaks],
            next=_OF_GENERATOR if self.generator else _NEXT[self.breaks],
        )


def _finding(context: Context, line: LoadLine) -> Finding:
    broken = _lowest_broken(line)
    concerned = [part for part in context.cells if broken and part.cell.key == broken.cell]
    sustained = line.sustained
    several = len(load_lines_of(context)) > 1
    figures = KneeFigures(
        breaks=line.breaks,
        percentile=line.percentile,
        limit_ns=line.limit_ns,
        sustained_per_s=sustained.value if sustained else None,
        sustained_per_s_low=sustained.low if sustained else None,
        sustained_per_s_high=sustained.high if sustained else None,
        closed_loop_per_s=line.closed_loop.value if line.closed_loop else None,
        knee_per_s=line.knee_per_s,
        broken_per_s=broken.offered_per_s if broken else None,
        broken_above_share=broken.above.value if broken else None,
        broken_late_share=broken.late_share if broken else None,
        stalls_count=sum(step.stalls for step in line.steps),
        generator=line.generator,
        line=line,
        is_one_of_several=several,
    )
    return Finding(severity=_severity(line), cells=identities(concerned), figures=figures)


def _opening(line: LoadLine, *, is_one_of_several: bool) -> str:
    """Return ``p99 <= 5 ms is exceeded at a knee``, and where if there are several lines."""
    where = f" in {line.workload} on {line.target}" if is_one_of_several else ""
    return f"{line.percentile} <= {exact_duration(line.limit_ns)} {_HOW[line.breaks]}{where}"


def _severity(line: LoadLine) -> str:
    """Return the severity: a knee is normal for any target; a cliff, stalls or service are not."""
    if line.generator:
        return "note"
    return "note" if line.breaks == "knee" and line.sustained else "warning"


def _lowest_broken(line: LoadLine) -> LoadStep | None:
    """Return the lowest rate that significantly exceeds the limit, else the lowest undecided."""
    confident = next((step for step in line.steps if step.holds is False), None)
    return confident or next((step for step in line.steps if step.holds is None), None)


_HOW: dict[Break, str] = {
    "none": "is met at all rates",
    "undecided": "may be exceeded",
    "knee": "is exceeded at a knee",
    "cliff": "is exceeded at a cliff",
    "stalls": "is exceeded because of stalls",
    "service": "is exceeded at any rate",
}
_CAUSES: dict[Break, str] = {
    "none": "",
    "undecided": "",
    "knee": (
        "Requests queue near the capacity of the target, and tail latency rises first. Every "
        "queueing system saturates in this way."
    ),
    "cliff": (
        "Latency does not rise before the limit is exceeded, so it is not queueing: a rate limit "
        "of a cloud volume or a control group, exhausted burst credit, or a write cache that fills "
        "faster than it drains."
    ),
    "stalls": (
        "I/O stalled, and all requests that arrived during a stall had to wait: on flash often the "
        "flush of a cache or garbage collection, otherwise a journal, a snapshot, or the machine "
        "itself. The finding `stall` names the cause."
    ),
    "service": "The limit is below the latency of a single request without queueing.",
}
_NEXT: dict[Break, str] = {
    "none": "",
    "undecided": "",
    "knee": (
        "Plan with a load below the lower end of the interval, so that peaks stay within the "
        "limit; for more load, use more drives."
    ),
    "cliff": (
        "Look for a throttle with 'seatrial check'; measure the first rate above the limit for "
        "longer ('seatrial io --rate RATE --arrival poisson --seconds 300') and check in the "
        "timeline when latency rises."
    ),
    "stalls": (
        "Find the cause of the stalls: 'dmesg -T', timers for snapshots and fstrim, 'smartctl -x "
        "DEVICE'. Without them the target would sustain a higher rate."
    ),
    "service": (
        "Use a wider limit, smaller blocks, or a faster target; a lower rate does not help."
    ),
}
_OF_GENERATOR = (
    "Stop other processes on this machine, or set --threads to the number of idle CPUs; read the "
    "figure as 'at least'."
)
