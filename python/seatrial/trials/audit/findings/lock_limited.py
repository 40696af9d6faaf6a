"""Finding ``lock_limited``: more threads do not help, since requests are serialised by a lock."""

from __future__ import annotations

import math
from typing import Annotated, Final

from seatrial.findings.context import Context
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.stats.cell_estimates import estimate_of_rounds
from seatrial.stats.model import Estimate, Figures, Finding, FindingText
from seatrial.stats.wording import format_interval, format_plural, format_value
from seatrial.trials.audit.analysis.model import Parameter, TableAudit, audits_of
from seatrial.trials.audit.analysis.tables import identity_of
from seatrial.trials.audit.findings.limits import (
    on_target,
    one_of_several,
    parameter_of,
    sound_points,
)

GAIN_RATIO_MAX: Final = 1.25
SIZES_MIN: Final = 3
_CAUSES: Final = {
    "write": (
        "Writes are serialised by a lock of the file (the inode lock of most file systems), of the "
        "file system's journal, or of a driver, and the drives wait for it. Or the target serves "
        "one request at a time, like a single disk without a queue."
    ),
    "read": (
        "Reads are serialised: the target serves one request at a time, like a single disk without "
        "a queue, or a driver or a file has a lock that readers take."
    ),
}


@from_samples(rank=390, section="Validity of the figures", holds_in_lab=False)
def lock_limited(context: Context) -> list[Finding]:
    """Find tables that fit the one-lock form best and do not gain from threads.

    Means:
        More threads do not help: writes are serialised by a lock, or the target serves one request
        at a time.

    Decided:
        The one-lock form has the lowest cross-validation error, and the gain of the highest over
        the lowest concurrency is significantly below 1.25 (geometric mean over the block sizes, 95
        % t interval). Warning. A drive that serves one request at a time cannot be distinguished.

    Do:
        Use several files, direct I/O or another file system; measure the device itself to compare.
    """
    found = []
    for audit in audits_of(context):
        gain = _gain_of_threads(audit) if audit.form == "locked_write" else None
        if gain is not None and gain.high is not None and gain.high < GAIN_RATIO_MAX:
            found.append(_finding(context, audit, gain))
    return found


def _gain_of_threads(audit: TableAudit) -> Estimate | None:
    """Return the rate at the highest over that at the lowest concurrency, over block sizes."""
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


class LockLimitedFigures(Figures, frozen=True, kw_only=True, tag="lock_limited"):
    gain_ratio: float
    gain_ratio_low: float | None
    gain_ratio_high: float | None
    gain_ratio_allowed: float
    concurrency_most: int
    locked_us: float | None
    iops_limit: int | None
    operation: Annotated[str, HIDDEN]
    target: Annotated[str, HIDDEN]
    gain: Annotated[Estimate, HIDDEN]
    least: Annotated[int, HIDDEN]
    gain_rounds: Annotated[int, HIDDEN]
    lock: Annotated[Parameter | None, HIDDEN]

    def text(self) -> FindingText:
        return FindingText(
            sentence=(
                f"{self.concurrency_most} {self.operation}s in flight{on_target(self.target)} "
                f"reach {format_value(self.gain)} of the rate of {self.least} "
                f"({format_interval(self.gain)}, over "
                f"{format_plural(self.gain_rounds, 'block size')}). "
                f"{self.lock.sentence if self.lock else 'More threads do not help.'}"
            ),
            cause=_CAUSES[self.operation],
            next=(
                "Spread the data over several files, use direct I/O or another file system (XFS "
                "supports parallel direct writes to one file); measure the device itself to "
                "compare."
            ),
        )


def _finding(context: Context, audit: TableAudit, gain: Estimate) -> Finding:
    operation = audit.table.operation
    points = sound_points(audit)
    least, most = (pick(p.concurrency for p in points) for pick in (min, max))
    lock = parameter_of(audit, "locked_us")
    target = one_of_several(context, audit)
    return Finding(
        severity="warning",
        cells=[identity_of(audit.table, point) for point in points if point.concurrency > least],
        figures=LockLimitedFigures(
            gain_ratio=gain.value,
            gain_ratio_low=gain.low,
            gain_ratio_high=gain.high,
            gain_ratio_allowed=GAIN_RATIO_MAX,
            concurrency_most=most,
            locked_us=lock.value if lock else None,
            iops_limit=math.floor(1e6 / lock.value) if lock else None,
            operation=operation,
            target=target,
            gain=gain,
            least=least,
            gain_rounds=gain.rounds,
            lock=lock,
        ),
    )
