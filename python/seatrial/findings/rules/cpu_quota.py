"""Finding ``cpu_quota``: a control group's quota of processor time stopped the load generator."""

from __future__ import annotations

from seatrial.findings.context import NS_PER_S, Context, identities, number, usable_cpus
from seatrial.findings.rule import from_samples
from seatrial.results.model import Sample
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_duration_ns, format_share

SHARE_MIN = 0.01
"""Of a sample's time; a quota that stops threads for less moves no percentile that is shown."""
SHARE_WARNING = 0.05


@from_samples(rank=670, section="Whose number is it?", sees_replays=True)
def cpu_quota(context: Context) -> list[Finding]:
    """Find samples in which a quota stopped threads of ours, whether or not all stood still.

    The kernel counts what it stops on each processor and reports the sum. On how many at once is
    not known, so the count over their number is what threads were stopped at least.

    Source: Documentation/scheduler/sched-bwc.rst (``throttled_time``).

    Means:
        A control group's quota of processor time stopped the threads that make the load.

    Decided:
        In a sample, what the group counted as throttled time (`cpu.stat`), divided by the number of
        processors, is at least 1 % of its time; threads on fewer processors were stopped for longer
        than that. Counted whether or not a stall was long enough to be one. Warning from 5 %, else
        note. Such a sample's late watchdog is no `noisy_machine`.

    Do:
        Raise the quota, or use fewer threads, and repeat.
    """
    processors = number(context.before, "machine", "cpus_online") or 1.0
    stopped = [one for one in context.samples if stopped_share(one, processors) >= SHARE_MIN]
    if not stopped:
        return []
    worst = max(stopped, key=lambda sample: stopped_share(sample, processors))
    share = stopped_share(worst, processors)
    keys = {sample.cell.key for sample in stopped}
    limit = usable_cpus(context.before)
    return [
        Finding(
            kind="cpu_quota",
            severity="warning" if share >= SHARE_WARNING else "note",
            cells=identities(summary for summary in context.cells if summary.cell.key in keys),
            sentence=(
                f"A CPU quota stopped the load generator in {len(stopped)} of "
                f"{len(context.samples)} samples, in the worst for at "
                f"least {format_duration_ns(share * worst.duration_s * NS_PER_S)} "
                f"({format_share(share)} of it)."
            ),
            cause=(
                "The control group of this process may use only so much processor time in each "
                "period (cpu.max or cpu.cfs_quota_us). When it is used up, all of its threads wait "
                "for the next period, and requests that have completed wait to be noticed."
            ),
            evidence={
                "samples_count": len(stopped),
                "stopped_share_max": share,
                "cpu_limit_cpus": limit,
            },
            next=(
                "Raise the quota of this container or service, or use fewer threads, and repeat: "
                "latencies of these samples contain waits that are not the drive's."
            ),
        )
    ]


def stopped_share(sample: Sample, processors: float) -> float:
    """Return for which share of a sample's time a quota stopped threads, at least."""
    stopped_ns = sample.counters.get("cpu_quota_ns", 0.0)
    if stopped_ns <= 0 or sample.duration_s <= 0:
        return 0.0
    return min(1.0, stopped_ns / processors / (sample.duration_s * NS_PER_S))
