"""Finding ``cpu_quota``: a cgroup CPU quota throttled the load generator."""

from __future__ import annotations

from typing import Annotated

from seatrial.findings.context import Context, identities, usable_cpus
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.results.model import Sample
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_duration_ns, format_share
from seatrial.units import NS_PER_S

SHARE_MIN = 0.01
"""Share of a sample's time; shorter throttling does not change any percentile shown."""
SHARE_WARNING = 0.05


class CpuQuotaFigures(Figures, frozen=True, kw_only=True, tag="cpu_quota"):
    samples_count: int
    stopped_share_max: float
    cpu_limit_cpus: float | None
    of_samples_count: Annotated[int, HIDDEN]
    worst_duration_s: Annotated[float, HIDDEN]

    def text(self) -> FindingText:
        return FindingText(
            sentence=(
                f"A CPU quota throttled the load generator in {self.samples_count} of "
                f"{self.of_samples_count} samples, in the worst for at least "
                f"{format_duration_ns(self.stopped_share_max * self.worst_duration_s * NS_PER_S)} "
                f"({format_share(self.stopped_share_max)} of the sample)."
            ),
            cause=(
                "The control group of this process has a limit on CPU time per period (cpu.max or "
                "cpu.cfs_quota_us). When it is exhausted, all threads wait for the next period, "
                "and completed requests are noticed late."
            ),
            next=(
                "Raise the quota of this container or service, or use fewer threads, and repeat. "
                "Latencies of these samples include waits that the drive did not cause."
            ),
        )


@from_samples(rank=670, section="Validity of the figures", sees_replays=True)
def cpu_quota(context: Context) -> list[Finding]:
    """Find samples in which a CPU quota throttled threads of ours, all of them or only some.

    The kernel counts throttled time on each CPU and reports the sum. The number of CPUs throttled
    at once is unknown, so the sum over the number of CPUs is a lower bound of the throttled time.

    Source: Documentation/scheduler/sched-bwc.rst (``throttled_time``).

    Means:
        A cgroup CPU quota throttled the threads of the load generator.

    Decided:
        In a sample, the throttled time of the group (`cpu.stat`) divided by the number of CPUs is
        at least 1 % of the duration; threads on fewer CPUs were throttled for longer. This does not
        require a stall. Warning from 5 %, otherwise note. The late watchdog of such a sample is not
        reported as `noisy_machine`.

    Do:
        Raise the quota, or use fewer threads, and repeat.
    """
    processors = context.before.machine.cpus_online or 1.0
    stopped = [one for one in context.samples if stopped_share(one, processors) >= SHARE_MIN]
    if not stopped:
        return []
    worst = max(stopped, key=lambda sample: stopped_share(sample, processors))
    share = stopped_share(worst, processors)
    keys = {sample.cell.key for sample in stopped}
    limit = usable_cpus(context.before)
    return [
        Finding(
            severity="warning" if share >= SHARE_WARNING else "note",
            cells=identities(summary for summary in context.cells if summary.cell.key in keys),
            figures=CpuQuotaFigures(
                samples_count=len(stopped),
                stopped_share_max=share,
                cpu_limit_cpus=limit,
                of_samples_count=len(context.samples),
                worst_duration_s=worst.duration_s,
            ),
        )
    ]


def stopped_share(sample: Sample, processors: float) -> float:
    """Return a lower bound of the share of a sample's time in which threads were throttled."""
    stopped_ns = sample.counters.get("cpu_quota_ns", 0.0)
    if stopped_ns <= 0 or sample.duration_s <= 0:
        return 0.0
    return min(1.0, stopped_ns / processors / (sample.duration_s * NS_PER_S))
