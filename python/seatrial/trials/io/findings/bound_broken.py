"""Finding ``bound_broken``: a rate above the bandwidth of the path to the target."""

from __future__ import annotations

from typing import Annotated

from seatrial.findings.context import AffectedCells, Context, identities, is_of_a_device
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.stats.estimate import Estimate
from seatrial.stats.model import CellSummary, Figures, Finding, FindingText
from seatrial.stats.wording import format_estimate, format_rate_bytes, format_share
from seatrial.trials.io.bounds import Broken, broken_bound

CAUSES = {
    "host_bus": (
        "The rate exceeds the bandwidth of the bus, so neither drives nor controller served it: "
        "main memory did, or a layer that compresses or skips empty blocks; or the bus was "
        "identified incorrectly."
    ),
    "memory_copy": (
        "Data cannot be transferred faster than memory is copied: blocks were never written, the "
        "target discards its data, or the count is wrong."
    ),
}
STEPS = {
    "host_bus": (
        "These figures are not those of the device. Compare the bus with 'lspci -vv | grep -E "
        '"^[0-9a-f]|LnkSta:"\', fill the file with incompressible data, and repeat.'
    ),
    "memory_copy": (
        "Do not use these figures. Fill the file with incompressible data and repeat with "
        "--verify, which checks that reads return what was written."
    ),
}


@from_samples(rank=190, section="Validity of the figures", holds_in_lab=False)
def bound_broken(context: Context) -> list[Finding]:
    """Find cells faster than the bus to the drives, or than a memory copy.

    A rate above the drives' links alone came from a cache behind the bus: that is
    ``device_cache_served``.

    Means:
        The rate exceeds the bandwidth of the path to the target, and no cache behind that path
        explains it.

    Decided:
        The lower end of the interval of the bandwidth in one direction (the figure itself if
        measured once) exceeds the sum of the PCIe links of the drives' controllers, a shared one
        counted once (direct tests); or exceeds 1.5 times the memory copy bandwidth of all CPUs
        available to the run (tests through the page cache that access at least 64 MiB; the copy
        bandwidth of one thread is measured with the fingerprint). Critical. Of several bounds
        exceeded, the outermost is reported: faster than the bus is `bound_broken`, faster than the
        drives' links alone is `device_cache_served`. For a drive without another link (NVMe, a
        virtual disk), its PCIe link counts as the drive's. For imported tables, and for drives
        hidden by a RAID controller, `seatrial audit` gets the links from `--drives`, `--link` and
        `--bus`.

    Do:
        Compare the bus with `LnkSta` in `lspci -vv`. Fill with incompressible data and repeat with
        `--verify`.
    """
    cells = [summary for summary in context.cells if is_of_a_device(summary)]
    broken = {c.cell.key: broken_bound(context.before_of(c), c) for c in cells}
    found = [_of_bound(context, cells, broken, name) for name in CAUSES]
    return [finding for finding in found if finding]


class BoundBrokenFigures(Figures, frozen=True, kw_only=True, tag="bound_broken"):
    bound: str
    bound_bytes_per_s: float
    bound_source: str
    bandwidth_bytes_per_s: float
    bandwidth_low_bytes_per_s: float | None
    excess_share: float
    cells_count: int
    concerned: Annotated[AffectedCells, HIDDEN]
    rate: Annotated[Estimate, HIDDEN]
    bound_phrase: Annotated[str, HIDDEN]
    bound_detail: Annotated[str, HIDDEN]

    def text(self) -> FindingText:
        significant = "" if self.bandwidth_low_bytes_per_s is None else "at least "
        return FindingText(
            sentence=(
                f"The rate of {self.concerned} (up to {format_estimate(self.rate)}) exceeds the "
                f"bandwidth of the path to the target by {significant}"
                f"{format_share(self.excess_share)}: {self.bound_phrase} at "
                f"{format_rate_bytes(self.bound_bytes_per_s, 0)} ({self.bound_detail})."
            ),
            cause=CAUSES[self.bound],
            next=STEPS[self.bound],
        )


def _of_bound(
    context: Context, cells: list[CellSummary], broken: dict[str, Broken | None], name: str
) -> Finding | None:
    """Return the finding on all cells for which this is the outermost bound exceeded."""
    above = {key: one for key, one in broken.items() if one and one.bound.name == name}
    if not above:
        return None
    concerned = [c for c in cells if c.cell.key in above]
    bound, rate = max(above.values(), key=lambda one: one.rate.value)
    confident_bytes_per_s = rate.value if rate.low is None else rate.low
    excess_share = confident_bytes_per_s / bound.bytes_per_s - 1
    figures = BoundBrokenFigures(
        bound=name,
        bound_bytes_per_s=bound.bytes_per_s,
        bound_source=bound.source,
        bandwidth_bytes_per_s=rate.value,
        bandwidth_low_bytes_per_s=rate.low,
        excess_share=excess_share,
        cells_count=len(concerned),
        concerned=context.affected_cells(concerned),
        rate=rate,
        bound_phrase=bound.words,
        bound_detail=bound.detail,
    )
    return Finding(severity="critical", cells=identities(concerned), figures=figures)
