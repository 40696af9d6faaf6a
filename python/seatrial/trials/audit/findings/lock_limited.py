"""Finding ``lock_limited``: more threads do not help, because requests pass one lock."""

from __future__ import annotations

import math
from typing import Final

from seatrial.findings.context import Context
from seatrial.findings.rule import from_samples
from seatrial.stats.estimates import estimate_of_rounds
from seatrial.stats.model import Estimate, Finding
from seatrial.stats.wording import format_interval, format_plural, format_value
from seatrial.trials.audit.analysis.model import TableAudit, audits_of
from seatrial.trials.audit.analysis.tables import identity_of
from seatrial.trials.audit.findings.limits import on_target, parameter_of, sound_points

GAIN_RATIO_MAX: Final = 1.25
SIZES_MIN: Final = 3
_CAUSES: Final = {
    "write": (
        "The writes pass one by one: a lock of the file (its inode, as most file systems take for "
        "writes), of the file system's journal, or of a driver; the drives wait for it. Or the "
        "target itself serves one request at a time, as a single disk without a queue does."
    ),
    "read": (
        "The reads pass one by one: the target serves one request at a time, as a single disk "
        "without a queue does, or a driver or a file has a lock that readers take."
    ),
}


@from_samples(rank=390, section="Whose number is it?", holds_in_lab=False)
def lock_limited(context: Context) -> list[Finding]:
    """Find tables that one lock describes best, and whose threads gain surely next to nothing.

    Means:
        More threads do not help: writes pass one lock, or the target serves one by one.

    Decided:
        The form of one lock predicts cells that it has not seen best, and the gain of the most
        concurrency over the least is surely below 1.25 (geometric mean over the block sizes, 95 % t
        interval). Warning. A drive that serves one request at a time looks the same.

    Do:
        Several files, direct I/O, another file system; measure the device itself to compare.
    """
    found = []
    for audit in audits_of(context):
        gain = _gain_of_threads(audit) if audit.form == "locked_write" else None
        if gain is not None and gain.high is not None and gain.high < GAIN_RATIO_MAX:
            found.append(_finding(context, audit, gain))
    return found


def _gain_of_threads(audit: TableAudit) -> Estimate | None:
    """Return the rate at the most concurrency over that at the least, over the block sizes."""
    points = sound_points(audit)
    rates = {(p.block_size_bytes, p.concurrency): p.iops.value for p in points if p.iops}
    least, most = (pick(p.concurrency for p in points) for pick in (min, max))
    sizes = sorted({p.block_size_bytes for p in points})
    ratios = [
        rates[size, most] / rates[size, least]
        for size in sizes
        if (size, most) in rates and (size, least) in rates
    ]
    return estimate_of_rounds(ratios, "ratio") if len(ratios) >= SIZES_MIN else None


def _finding(context: Context, audit: TableAudit, gain: Estimate) -> Finding:
    operation = audit.table.operation
    points = sound_points(audit)
    least, most = (pick(p.concurrency for p in points) for pick in (min, max))
    lock = parameter_of(audit, "locked_us")
    return Finding(
        kind="lock_limited",
        severity="warning",
        cells=[identity_of(audit.table, point) for point in points if point.concurrency > least],
        sentence=(
            f"{most} {operation}s in flight{on_target(context, audit)} do {format_value(gain)} of "
            f"what {least} does ({format_interval(gain)}, over "
            f"{format_plural(gain.rounds, 'block size')}). "
            f"{lock.sentence if lock else 'Threads do not help.'}"
        ),
        cause=_CAUSES[operation],
        evidence={
            "gain_ratio": gain.value,
            "gain_ratio_low": gain.low,
            "gain_ratio_high": gain.high,
            "gain_ratio_allowed": GAIN_RATIO_MAX,
            "concurrency_most": most,
            "locked_us": lock.value if lock else None,
            "iops_limit": math.floor(1e6 / lock.value) if lock else None,
        },
        next=(
            "Spread the data over several files, use direct I/O, or another file system (XFS "
            "writes one file in parallel with direct I/O); measure the device itself to compare."
        ),
    )
