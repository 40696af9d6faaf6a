"""Finding ``knee``: where a load line breaks, and how."""

from __future__ import annotations

from seatrial.findings.context import Context, identities
from seatrial.findings.rule import from_samples
from seatrial.stats.model import Finding
from seatrial.trials.loadline.analysis.model import Break, LoadLine, LoadStep, load_lines_of
from seatrial.trials.loadline.analysis.narrative import exact_duration


@from_samples(rank=250, section="Time")
def knee(context: Context) -> list[Finding]:
    """Find the load lines that broke their limit, one finding for each.

    Means:
        A load line found where its percentile leaves the limit, and how:

        - knee: the percentile rises over a range of rates: requests queue. The finding says from
          which rate on
        - cliff: a rate that is fine (at most a quarter of the limit, and three times the percentile
          of the lowest rate) and one at most 20 % higher that surely breaks: a rate limit, a credit
          or a cache that is used up
        - stalls: without the freezes, and the backlog that each left, the requests keep the limit
        - service: even the lowest rate breaks it from the actual start, too: one request alone
          takes longer

    Decided:
        Each rate holds, breaks or is undecided as [method.md](method.md#load-line) says; the
        finding speaks of the lowest rate that breaks. Where no rate surely breaks, or none surely
        holds, how it breaks is undecided, and there is no finding; the verdict says so. Note where
        a rate is sustained and it ends at a knee, else warning. It is a note, and says so, where
        the load generator was the limit: near its own rate on the null target, late though most
        places in flight were free, or stopped itself. A queue very near its capacity may look like
        a cliff where the limit is wide.

    Do:
        Knee: plan below the lower end of the interval; more drives for more load. Cliff: look for a
        throttle with `seatrial check`, and measure the first rate that breaks for longer. Stalls:
        find what stands still, as for `stall`. Service: a wider limit, smaller blocks or a faster
        target. Generator: quiet the machine, or read the figure as "at least".
    """
    return [
        _finding(context, line)
        for line in load_lines_of(context)
        if line.breaks not in ("none", "undecided") and line.steps
    ]


def _finding(context: Context, line: LoadLine) -> Finding:
    broken = _lowest_broken(line)
    concerned = [part for part in context.cells if broken and part.cell.key == broken.cell]
    sustained = line.sustained
    own = f" {line.generator}." if line.generator else ""
    return Finding(
        kind="knee",
        severity=_severity(line),
        cells=identities(concerned),
        sentence=f"{_opening(context, line)}. {line.cause}{own}",
        cause=_CAUSES[line.breaks],
        evidence={
            "breaks": line.breaks,
            "percentile": line.percentile,
            "limit_ns": line.limit_ns,
            "sustained_per_s": sustained.value if sustained else None,
            "sustained_per_s_low": sustained.low if sustained else None,
            "sustained_per_s_high": sustained.high if sustained else None,
            "closed_loop_per_s": line.closed_loop.value if line.closed_loop else None,
            "knee_per_s": line.knee_per_s,
            "broken_per_s": broken.offered_per_s if broken else None,
            "broken_above_share": broken.above.value if broken else None,
            "broken_late_share": broken.late_share if broken else None,
            "stalls_count": sum(step.stalls for step in line.steps),
            "generator": line.generator,
        },
        next=_OF_GENERATOR if line.generator else _NEXT[line.breaks],
    )


def _opening(context: Context, line: LoadLine) -> str:
    """Return ``p99 <= 5 ms breaks at a knee``; with its cells where there are several lines."""
    several = len(load_lines_of(context)) > 1
    where = f" in {line.workload} on {line.target}" if several else ""
    return f"{line.percentile} <= {exact_duration(line.limit_ns)} {_HOW[line.breaks]}{where}"


def _severity(line: LoadLine) -> str:
    """A queue that fills is what any target does; what breaks at once, or at any rate, is not."""
    if line.generator:
        return "note"
    return "note" if line.breaks == "knee" and line.sustained else "warning"


def _lowest_broken(line: LoadLine) -> LoadStep | None:
    """Return the lowest rate that surely breaks, else the lowest that is not known to hold."""
    sure = next((step for step in line.steps if step.holds is False), None)
    return sure or next((step for step in line.steps if step.holds is None), None)


_HOW: dict[Break, str] = {
    "none": "does not break",
    "undecided": "may break",
    "knee": "breaks at a knee",
    "cliff": "breaks at a cliff",
    "stalls": "is broken by stalls",
    "service": "is broken at any rate",
}
_CAUSES: dict[Break, str] = {
    "none": "",
    "undecided": "",
    "knee": (
        "Near its capacity a target makes requests queue, and the slowest of them wait longest; "
        "that is how every queue ends."
    ),
    "cliff": (
        "Latency does not rise before the limit is reached, so no queue announces it: a rate "
        "limit of a cloud volume or a control group, a burst credit, or a write cache that fills "
        "faster than it drains."
    ),
    "stalls": (
        "Everything stood still for moments, and all requests that came meanwhile had to wait: on "
        "flash often a cache being drained or garbage collection, else a journal, a snapshot, or "
        "the machine itself; the finding `stall` names whose fault it was."
    ),
    "service": (
        "The limit is below what the target takes for one request that waits for no other."
    ),
}
_NEXT: dict[Break, str] = {
    "none": "",
    "undecided": "",
    "knee": (
        "Plan with a load below the lower end of the interval, so that a busy minute stays within "
        "the limit; for more, spread the load over more drives."
    ),
    "cliff": (
        "Look for a throttle with 'seatrial check'; measure the first rate that breaks for longer "
        "('seatrial io --rate RATE --arrival poisson --seconds 300') and see in the timeline when "
        "it breaks."
    ),
    "stalls": (
        "Find what stands still: 'dmesg -T', timers for snapshots and fstrim, 'smartctl -x "
        "DEVICE'. Without it the target would sustain more."
    ),
    "service": (
        "Give a wider limit, smaller blocks, or a faster target: fewer requests do not help."
    ),
}
_OF_GENERATOR = (
    "Stop other work on this machine, or give --threads as many as it has idle processors; read "
    "the figure as 'at least'."
)
