"""Finding ``noisy_machine``: other work or the host took the processor during the trial."""

from __future__ import annotations

from seatrial.analysis.findings.context import NS_PER_S, Context, identities
from seatrial.analysis.model import Finding
from seatrial.analysis.wording import format_duration_ns, format_share
from seatrial.results.model import Sample

STEAL_SHARE_MAX = 0.02
WATCHDOG_LATENESS_NS_MAX = 50_000_000
WATCHDOG_LATENESS_SHARE_MAX = 0.02
NOISY_SAMPLES_SHARE_WARNING = 0.1


def noisy_machine(context: Context) -> list[Finding]:
    """Find samples in which processors were stolen or the 5 ms watchdog woke late."""
    noisy = [sample for sample in context.samples if _is_noisy(sample)]
    if not noisy:
        return []
    noisy_share = len(noisy) / len(context.samples)
    keys = {sample.cell.key for sample in noisy}
    concerned = [summary for summary in context.cells if summary.cell.key in keys]
    steal_share = max(_steal_share(sample) for sample in noisy)
    lateness_ns = max(_lateness_ns(sample) for sample in noisy)
    lateness_share = max(_lateness_share(sample) for sample in noisy)
    return [
        Finding(
            kind="noisy_machine",
            severity="warning" if noisy_share > NOISY_SAMPLES_SHARE_WARNING else "note",
            cells=identities(concerned),
            sentence=(
                f"The machine was not quiet in {len(noisy)} of {len(context.samples)} samples: "
                f"up to {format_share(steal_share)} of the processors was stolen by the host, and "
                f"a thread that wakes every 5 ms woke up to {format_duration_ns(lateness_ns)} "
                "late."
            ),
            cause=(
                "Other processes competed for the processors, or the host of this virtual machine "
                "gave them to others. Latencies of these samples contain waits that are not the "
                "drive's."
            ),
            evidence={
                "samples_count": len(noisy),
                "steal_share_max": steal_share,
                "watchdog_lateness_ns_max": lateness_ns,
                "watchdog_lateness_share_max": lateness_share,
            },
            next="Stop other work ('top', 'vmstat 1': columns r and st) and repeat the run.",
        )
    ]


def _is_noisy(sample: Sample) -> bool:
    return (
        _steal_share(sample) > STEAL_SHARE_MAX
        or _lateness_ns(sample) > WATCHDOG_LATENESS_NS_MAX
        or _lateness_share(sample) > WATCHDOG_LATENESS_SHARE_MAX
    )


def _steal_share(sample: Sample) -> float:
    """Return the share stolen of each processor; the engine reads the mean over processors."""
    if sample.duration_s <= 0:
        return 0.0
    return sample.counters.get("steal_ns", 0.0) / (sample.duration_s * NS_PER_S)


def _lateness_ns(sample: Sample) -> float:
    return sample.counters.get("watchdog_lateness_ns_max", 0.0)


def _lateness_share(sample: Sample) -> float:
    if sample.duration_s <= 0:
        return 0.0
    total_ns = sample.counters.get("watchdog_lateness_ns_total", 0.0)
    return total_ns / (sample.duration_s * NS_PER_S)
