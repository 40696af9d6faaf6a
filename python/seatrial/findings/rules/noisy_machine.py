"""Finding ``noisy_machine``: CPU contention on this machine or its host during the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from seatrial.findings.context import Context, identities, usable_cpus
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.results.model import Sample
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_duration_ns, format_share
from seatrial.study.hosts import loading_hosts
from seatrial.topic import topic_of
from seatrial.units import NS_PER_S

STEAL_SHARE_MAX = 0.02
WATCHDOG_LATENESS_NS_MAX = 50_000_000
WATCHDOG_LATENESS_SHARE_MAX = 0.10
CPU_PRESSURE_SHARE_MAX = 0.20
STEAL_NS_MIN = 20_000_000
"""Less than two ticks of the kernel's accounting, which has a resolution of 10 ms."""
CPU_PRESSURE_DURATION_S_MIN = 10.0
"""The kernel updates pressure stall information every 2 s (kernel/sched/psi.c)."""
NOISY_SAMPLES_SHARE_WARNING = 0.1
STOPPED_SHARE_MIN = 0.9
"""Least share of the watchdog's lateness that a stopped load generator explains."""


@dataclass(frozen=True)
class Noise:
    """Disturbance of one sample: shares of its time, and the watchdog's longest delay.

    The pressure is None where it is not judged.
    """

    sample: Sample
    steal_share: float
    lateness_share: float
    lateness_ns: float
    cpu_pressure_share: float | None

    @property
    def is_disturbed(self) -> bool:
        """Whether any of them exceeds the level of an idle machine."""
        return (
            self.steal_share > STEAL_SHARE_MAX
            or self.lateness_share > WATCHDOG_LATENESS_SHARE_MAX
            or self.lateness_ns > WATCHDOG_LATENESS_NS_MAX
            or (self.cpu_pressure_share or 0.0) > CPU_PRESSURE_SHARE_MAX
        )


class NoisyMachineFigures(Figures, frozen=True, kw_only=True, tag="noisy_machine"):
    samples_count: int
    steal_share_max: float
    watchdog_lateness_ns_max: float
    watchdog_lateness_share_max: float
    cpu_pressure_share_max: float | None
    of_samples_count: Annotated[int, HIDDEN]

    def text(self) -> FindingText:
        steal_share, pressure_share = self.steal_share_max, self.cpu_pressure_share_max
        causes = []
        if steal_share > STEAL_SHARE_MAX:
            causes.append(f"CPU steal up to {format_share(steal_share)}")
        if pressure_share is not None and pressure_share > CPU_PRESSURE_SHARE_MAX:
            waited = f"tasks waited for a CPU up to {format_share(pressure_share)} of the time"
            causes.append(waited)
        if self.watchdog_lateness_ns_max > 0:
            causes.append(
                "the 5 ms watchdog woke as much as "
                f"{format_duration_ns(self.watchdog_lateness_ns_max)} late"
            )
        causes = causes or ["the 5 ms watchdog often woke late"]
        return FindingText(
            sentence=(
                f"CPU contention on the host in {self.samples_count} of {self.of_samples_count} "
                f"samples: {', '.join(causes)}."
            ),
            cause=(
                "Other processes competed for the CPUs, the hypervisor gave them to other virtual "
                "machines, or the test has more threads than CPUs. Latencies of these samples "
                "include waits that the drive did not cause."
            ),
            next=("Stop other processes ('top', 'vmstat 1': columns r and st) and repeat the run."),
        )

    def in_short(self, cells_count: int) -> str:
        del cells_count
        return "there was CPU contention on the host"


@from_samples(
    rank=660,
    section="Validity of the figures",
    sees_replays=True,
    holds_in_simulation=False,
    holds_in_lab=False,
)
def noisy_machine(context: Context) -> list[Finding]:
    """Find samples with CPU steal, CPU pressure, or a watchdog that woke late.

    Means:
        Other processes or virtual machines used the CPUs during a sample.

    Decided:
        In a sample: CPU steal above 2 % and at least 20 ms (the kernel counts in ticks of 10 ms);
        the 5 ms watchdog more than 50 ms late once, or late for 10 % of the time; or tasks waiting
        for a CPU for 20 % of the time (pressure stall information, which the kernel updates every
        2 s: judged in samples of at least 10 s, and not if the test itself has more threads than
        CPUs). Warning if more than 10 % of all samples are affected, otherwise note.

    Do:
        Stop other processes (`top`, `vmstat 1`) and repeat.
    """
    cpus = usable_cpus(context.before)
    noisy = [noise for s in context.samples if (noise := _noise(s, cpus)) and noise.is_disturbed]
    if not noisy:
        return []
    noisy_share = len(noisy) / len(context.samples)
    keys = {noise.sample.cell.key for noise in noisy}
    steal_share = max(noise.steal_share for noise in noisy)
    lateness_ns = max(noise.lateness_ns for noise in noisy)
    pressures = [n.cpu_pressure_share for n in noisy if n.cpu_pressure_share is not None]
    return [
        Finding(
            severity="warning" if noisy_share > NOISY_SAMPLES_SHARE_WARNING else "note",
            cells=identities(c for c in context.cells if c.cell.key in keys),
            figures=NoisyMachineFigures(
                samples_count=len(noisy),
                steal_share_max=steal_share,
                watchdog_lateness_ns_max=lateness_ns,
                watchdog_lateness_share_max=max(noise.lateness_share for noise in noisy),
                cpu_pressure_share_max=max(pressures, default=None),
                of_samples_count=len(context.samples),
            ),
        )
    ]


def _noise(sample: Sample, cpus: float | None) -> Noise | None:
    """Return the disturbance of a sample.

    Tasks also wait for a CPU if the test itself has more threads than CPUs, as a database and its
    driver may; such waits are not evidence of other processes. ``steal_ns`` is the mean over all
    CPUs.
    """
    if sample.duration_s <= 0:
        return None
    whole_ns = sample.duration_s * NS_PER_S
    # Each host has a watchdog, and the counter is the sum.
    late_ns = sample.counters.get("watchdog_lateness_ns_total", 0.0) / loading_hosts(sample.cell)
    if sample.counters.get("cpu_quota_ns", 0.0) >= late_ns > 0:
        return None  # Our own CPU quota delayed the watchdog: ``cpu_quota`` reports it.
    stopped_s = sum(each.length_s for each in sample.stalls if each.is_of_stopped_generator)
    if stopped_s * NS_PER_S >= STOPPED_SHARE_MIN * late_ns > 0:
        return None  # It was stopped as we were: ``stall`` reports it.
    own_crowd = topic_of(sample.cell).has_server or (
        cpus is not None and sample.cell.threads > cpus
    )
    is_reported = sample.duration_s >= CPU_PRESSURE_DURATION_S_MIN and not own_crowd
    pressure_ns = sample.counters.get("psi_cpu_some_ns") if is_reported else None
    # The kernel's counter was read before the threads started and after they ended.
    elapsed_ns = sample.counters.get("counters_elapsed_ns", whole_ns)
    steal_ns = sample.counters.get("steal_ns", 0.0)
    return Noise(
        sample=sample,
        steal_share=steal_ns / whole_ns if steal_ns >= STEAL_NS_MIN else 0.0,
        lateness_share=late_ns / whole_ns,
        lateness_ns=sample.counters.get("watchdog_lateness_ns_max", 0.0),
        cpu_pressure_share=None if pressure_ns is None else pressure_ns / elapsed_ns,
    )
