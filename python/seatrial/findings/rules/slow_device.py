"""Finding ``slow_device``: gaps without a completion that are the device's usual pace."""

from __future__ import annotations

from seatrial.findings.context import Context, identities
from seatrial.findings.rule import from_samples
from seatrial.findings.rules.stall import MEDIAN_FACTOR, gaps_of
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_duration_s


@from_samples(rank=510, section="Time", holds_in_lab=False)
def slow_device(context: Context) -> list[Finding]:
    """Find cells whose long gaps are no longer than four times their median latency.

    Means:
        There were gaps without a completion, but that is how fast the device is for such requests:
        forty threads with 4 MiB each on a hard disk wait for each other.

    Decided:
        Gaps above the stall threshold of at most 4 median service times. Warning.

    Do:
        Read these cells' latency. If the device should be faster, compare with fewer threads and
        look for a throttle with `seatrial check`.
    """
    concerned, medians_s, longest_s, gaps_count = [], [], 0.0, 0
    for summary in context.cells:
        _, usual, median_s = gaps_of(summary)
        if usual:
            concerned.append(summary)
            medians_s.append(median_s)
            gaps_count += len(usual)
            longest_s = max(longest_s, *(one.stall.length_s for one in usual))
    if not concerned:
        return []
    low, high = format_duration_s(min(medians_s)), format_duration_s(max(medians_s))
    median = low if low == high else f"{low} to {high}"
    return [
        Finding(
            kind="slow_device",
            severity="warning",
            cells=identities(concerned),
            sentence=(
                f"A request took {median} in the median in {context.of_cells(concerned)}; gaps of "
                f"up to {format_duration_s(longest_s)} without a completion are its usual pace "
                "there, not stalls."
            ),
            cause=(
                "The device is slow for this block size and number of threads: a hard disk or a "
                "network or throttled volume that works off a long queue of large requests."
            ),
            evidence={
                "median_latency_s_min": min(medians_s),
                "median_latency_s_max": max(medians_s),
                "gaps_count": gaps_count,
                "longest_gap_s": longest_s,
                "stall_median_factor": MEDIAN_FACTOR,
            },
            next=(
                "Read these cells' latency, not their stalls; if the device should be faster, "
                "compare with fewer threads and look for a throttle with 'seatrial check'."
            ),
        )
    ]
