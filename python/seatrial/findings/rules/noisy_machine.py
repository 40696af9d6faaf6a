"""Finding ``noisy_machine``: other work or the host took the processor during the trial."""

from __future__ import annotations

from dataclasses import dataclass

from seatrial.findings.context import NS_PER_S, Context, identities, usable_cpus
from seatrial.findings.rule import from_samples
from seatrial.results.model import Sample
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_duration_ns, format_share
from seatrial.topic import topic_of

STEAL_SHARE_MAX = 0.02
WATCHDOG_LATENESS_NS_MAX = 50_000_000
WATCHDOG_LATENESS_SHARE_MAX = 0.10
CPU_PRESSURE_SHARE_MAX = 0.20
STEAL_NS_MIN = 20_000_000
"""Less is one tick of the kernel's account, which counts in steps of 10 ms."""
CPU_PRESSURE_DURATION_S_MIN = 10.0
"""The kernel brings its account of pressure up to date every 2 s (kernel/sched/psi.c)."""
NOISY_SAMPLES_SHARE_WARNING = 0.1


@dataclass(frozen=True)
class Noise:
    """What disturbed one sample: shares of its time, and the watchdog's longest delay."""

    sample: Sample
    steal_share: float
    lateness_share: float
    lateness_ns: float
    cpu_pressure_share: float

    @property
    def is_much(self) -> bool:
        """Whether any of them is above what a quiet machine shows."""
        return (
            self.steal_share > STEAL_SHARE_MAX
            or self.lateness_share > WATCHDOG_LATENESS_SHARE_MAX
            or self.lateness_ns > WATCHDOG_LATENESS_NS_MAX
            or self.cpu_pressure_share > CPU_PRESSURE_SHARE_MAX
        )


@from_samples(
    rank=660,
    section="Whose number is it?",
    sees_replays=True,
    holds_in_simulation=False,
    holds_in_lab=False,
)
def noisy_machine(context: Context) -> list[Finding]:
    """Find samples whose processors were stolen or contended, or whose watchdog woke late.

    Means:
        Something else had the processors while a sample was taken.

    Decided:
        In a sample: more than 2 % of the processors stolen by the host, and at least 20 ms (the
        kernel counts in ticks of 10 ms); the watchdog, which wakes every 5 ms, more than 50 ms late
        once or late for a tenth of the time; or tasks waiting for a processor for 20 % of the time
        (pressure stall information, which the kernel updates every 2 s: judged in samples of at
        least 10 s, and not where the trial itself has more threads than processors). Warning above
        a tenth of all samples, else note.

    Do:
        Stop other work (`top`, `vmstat 1`) and repeat.
    """
    cpus = usable_cpus(context.before)
    noisy = [noise for s in context.samples if (noise := _noise(s, cpus)) and noise.is_much]
    if not noisy:
        return []
    noisy_share = len(noisy) / len(context.samples)
    keys = {noise.sample.cell.key for noise in noisy}
    return [
        Finding(
            kind="noisy_machine",
            severity="warning" if noisy_share > NOISY_SAMPLES_SHARE_WARNING else "note",
            cells=identities(c for c in context.cells if c.cell.key in keys),
            sentence=(
                f"The machine was not quiet in {len(noisy)} of {len(context.samples)} samples: "
                f"{_reported(noisy)}."
            ),
            cause=(
                "Other processes competed for the processors, the host of this virtual machine "
                "gave them to others, or the trial has more threads than there are processors. "
                "Latencies of these samples contain waits that are not the drive's."
            ),
            evidence={
                "samples_count": len(noisy),
                "steal_share_max": max(noise.steal_share for noise in noisy),
                "watchdog_lateness_ns_max": max(noise.lateness_ns for noise in noisy),
                "watchdog_lateness_share_max": max(noise.lateness_share for noise in noisy),
                "cpu_pressure_share_max": max(noise.cpu_pressure_share for noise in noisy),
            },
            next="Stop other work ('top', 'vmstat 1': columns r and st) and repeat the run.",
        )
    ]


def _noise(sample: Sample, cpus: float | None) -> Noise | None:
    """Return what disturbed a sample.

    Tasks also wait for a processor where the trial itself has more threads than there are, as a
    database and its driver always may; such a wait says nothing of others. ``steal_ns`` is the mean
    over the processors.
    """
    if sample.duration_s <= 0:
        return None
    whole_ns = sample.duration_s * NS_PER_S
    late_ns = sample.counters.get("watchdog_lateness_ns_total", 0.0)
    if sample.counters.get("cpu_quota_ns", 0.0) >= late_ns > 0:
        return None  # Our own quota stopped the watchdog: ``cpu_quota`` reports it.
    own_crowd = topic_of(sample.cell).has_server or (
        cpus is not None and sample.cell.threads > cpus
    )
    is_reported = sample.duration_s >= CPU_PRESSURE_DURATION_S_MIN and not own_crowd
    pressure_ns = sample.counters.get("psi_cpu_some_ns", 0.0) if is_reported else 0.0
    steal_ns = sample.counters.get("steal_ns", 0.0)
    return Noise(
        sample=sample,
        steal_share=steal_ns / whole_ns if steal_ns >= STEAL_NS_MIN else 0.0,
        lateness_share=late_ns / whole_ns,
        lateness_ns=sample.counters.get("watchdog_lateness_ns_max", 0.0),
        # The kernel's own count was read before the threads were started and after they ended.
        cpu_pressure_share=pressure_ns / sample.counters.get("surroundings_ns", whole_ns),
    )


def _reported(noisy: list[Noise]) -> str:
    """Return the worst of each disturbance that is above its bound."""
    steal_share = max(noise.steal_share for noise in noisy)
    lateness_ns = max(noise.lateness_ns for noise in noisy)
    pressure_share = max(noise.cpu_pressure_share for noise in noisy)
    reported = []
    if steal_share > STEAL_SHARE_MAX:
        reported.append(f"the host took up to {format_share(steal_share)} of the processors")
    if pressure_share > CPU_PRESSURE_SHARE_MAX:
        reported.append(f"tasks waited for one up to {format_share(pressure_share)} of the time")
    if lateness_ns > 0:
        reported.append(
            "the watchdog, which wakes every 5 ms, woke up to "
            f"{format_duration_ns(lateness_ns)} late"
        )
    return ", ".join(reported) or "the watchdog, which wakes every 5 ms, often woke late"
