"""Finding ``bound_broken``: a rate that the way to the target cannot carry."""

from __future__ import annotations

from seatrial.findings.context import Context, identities, is_of_a_device
from seatrial.findings.rule import from_samples
from seatrial.stats.model import CellSummary, Finding
from seatrial.stats.wording import format_estimate, format_rate_bytes, format_share
from seatrial.trials.io.bounds.path import Broken, broken_bound

CAUSES = {
    "host_bus": (
        "What no bus can carry did not come over it, so neither drives nor controller answered: "
        "memory of this machine did, or a layer that compresses or knows empty blocks; or the bus "
        "is another one."
    ),
    "memory_copy": (
        "Data are not moved faster than memory is copied: blocks that were never written, a target "
        "that throws its data away, or a wrong count."
    ),
}
STEPS = {
    "host_bus": (
        "Do not read these cells as the device's. Compare the bus with 'lspci -vv | grep -E "
        '"^[0-9a-f]|LnkSta:"\', fill the file with incompressible data, and repeat.'
    ),
    "memory_copy": (
        "Do not use these cells. Fill the file with incompressible data and repeat with --verify, "
        "which checks that what is read was written."
    ),
}


@from_samples(rank=190, section="Whose number is it?", holds_in_lab=False)
def bound_broken(context: Context) -> list[Finding]:
    """Find cells faster than the bus to the drives, or than memory is copied.

    What only the drives' own links cannot carry came out of a cache behind the bus: that is
    ``device_cache_served``.

    Means:
        The figure is more than the way to the target can carry, and no cache behind that way can
        have answered either.

    Decided:
        The lower end of the interval of what moved one way (the figure itself where it was measured
        once) is above the PCIe links that the drives' controllers hang from, added up, a shared one
        once (direct cells); or above 1.5 times what all processors that the run could use copy in
        memory (any cell that touches at least 64 MiB; one thread's copy is measured when the
        fingerprint is taken). Critical. Of several bounds that a cell breaks the outermost is told:
        what is faster than the bus is `bound_broken`, what is faster than the drives' links alone
        is `device_cache_served`. A drive without a link of its own (NVMe, a virtual disk) ends with
        its PCIe link, which then counts as the drive's. Links of an imported table, or of drives
        that a RAID controller hides, are those that `seatrial audit` was told of: `--drives`,
        `--link`, `--bus`.

    Do:
        Compare the bus with `LnkSta` in `lspci -vv`. Fill with incompressible data and repeat with
        `--verify`.
    """
    cells = [summary for summary in context.cells if is_of_a_device(summary)]
    broken = {c.cell.key: broken_bound(context.before_of(c), c) for c in cells}
    found = [_of_bound(context, cells, broken, name) for name in CAUSES]
    return [finding for finding in found if finding]


def _of_bound(
    context: Context, cells: list[CellSummary], broken: dict[str, Broken | None], name: str
) -> Finding | None:
    """Return the finding on all cells of which this is the outermost bound that they break."""
    above = {key: one for key, one in broken.items() if one and one.bound.name == name}
    if not above:
        return None
    concerned = [c for c in cells if c.cell.key in above]
    bound, rate = max(above.values(), key=lambda one: one.rate.value)
    surely_bytes_per_s = rate.value if rate.low is None else rate.low
    excess_share = surely_bytes_per_s / bound.bytes_per_s - 1
    surely = "" if rate.low is None else "surely "
    return Finding(
        kind="bound_broken",
        severity="critical",
        cells=identities(concerned),
        sentence=(
            f"{context.of_cells(concerned)}, up to {format_estimate(rate)}: more than the way to "
            f"the target can carry, {surely}by {format_share(excess_share)}: {bound.words} at "
            f"{format_rate_bytes(bound.bytes_per_s, 0)} ({bound.detail})."
        ),
        cause=CAUSES[name],
        evidence={
            "bound": name,
            "bound_bytes_per_s": bound.bytes_per_s,
            "bound_source": bound.source,
            "bandwidth_bytes_per_s": rate.value,
            "bandwidth_low_bytes_per_s": rate.low,
            "excess_share": excess_share,
            "cells_count": len(concerned),
        },
        next=STEPS[name],
    )
