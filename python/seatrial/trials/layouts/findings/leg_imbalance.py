"""Finding ``leg_imbalance``: two equal targets of one run are not equally fast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from seatrial.findings.context import Context, entries
from seatrial.findings.rule import from_samples
from seatrial.fingerprint import Device, Fingerprint, PcieLink, PciePath, PciFunction
from seatrial.published import FLATTENED, HIDDEN
from seatrial.results.model import Run
from seatrial.stats.compare.comparison import compare
from seatrial.stats.compare.figures import RATE
from seatrial.stats.compare.model import Comparison, Side, SideSamples
from seatrial.stats.compare.verdict import ratio_phrase
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_plural, format_size


class LegImbalanceFigures(Figures, frozen=True, kw_only=True, tag="leg_imbalance"):
    rate_ratio: float
    slower_target: str
    others: Annotated[dict[str, list[dict[str, object]]], FLATTENED]
    fast_target: Annotated[str, HIDDEN]
    drives_a: Annotated[list[Device], HIDDEN]
    drives_b: Annotated[list[Device], HIDDEN]
    comparison: Annotated[Comparison, HIDDEN]

    def text(self) -> FindingText:
        of = self.comparison
        return FindingText(
            sentence=(
                f"{self.slower_target} is slower than {self.fast_target}, although both are "
                f"{_equality_text(self.drives_a, self.drives_b)}: the rate of {of.b.target} is "
                f"{ratio_phrase(of.overall[RATE])} that of {of.a.target} over "
                f"{format_plural(of.overall_answers[RATE].cells, 'test')}. In an array the "
                "slower one delays every stripe."
            ),
            cause=_cause(self.drives_a, self.drives_b),
            next=(
                "Swap the two drives and measure again. If the slot stays slow, the cause is the "
                "slot, its link or its controller; if the drive stays slow, compare both drives "
                "with 'smartctl -x' (wear, errors, firmware, temperature)."
            ),
        )


def imbalance(comparison: Comparison) -> list[Finding]:
    """Return the finding that two equal targets of one run differ in speed.

    They are equal if they are on the same number of drives of the same models and sizes, but not
    the same drives. They differ if the overall rate differs significantly by more than the margin.
    """
    a, b = comparison.a, comparison.b
    if a.run.id != b.run.id or not a.target or not b.target:
        return []
    drives_a, drives_b = (_drives(side.run.fingerprint_before, side.target) for side in (a, b))
    total, ratio = comparison.overall_answers.get(RATE), comparison.overall.get(RATE)
    are_equal = _are_declared_legs(a.run, a.target, b.target) or _are_legs(drives_a, drives_b)
    if not are_equal or total is None or ratio is None:
        return []
    change_share = max(ratio.value, 1 / ratio.value) - 1
    if total.answer not in ("higher", "lower") or change_share <= comparison.margin_share:
        return []
    slow, fast = (a, b) if total.answer == "higher" else (b, a)
    return [
        Finding(
            severity="warning",
            cells=[],
            figures=LegImbalanceFigures(
                rate_ratio=ratio.value,
                slower_target=slow.target,
                others={
                    f"path_of_{a.target}": [_path(device) for device in drives_a],
                    f"path_of_{b.target}": [_path(device) for device in drives_b],
                },
                fast_target=fast.target,
                drives_a=drives_a,
                drives_b=drives_b,
                comparison=comparison,
            ),
        )
    ]


@from_samples(rank=460, section="Comparisons", in_comparison=imbalance)
def leg_imbalance(context: Context) -> list[Finding]:
    """Compare the targets of a run on equal drives, each with the first of its kind.

    Means:
        Two targets of one run are on equal drives, but one of them is slower. In an array every
        stripe waits for the slowest leg.

    Decided:
        Both are on the same number of drives of the same models and sizes, but not the same drives
        (by the hash of the serial number), or they are two legs of one layout (`expose = "legs"`);
        and the overall rate differs significantly by more than 5 % (`--margin`). Warning. The
        evidence contains the path of each: PCIe address, link, narrowest link, the bridge above it
        and the root port with their ids (CPU or chipset), NUMA node, SATA or SAS link.

    Do:
        Swap the drives. If the slot stays slow, check the mainboard's manual for its lanes and
        which devices share them; if the drive stays slow, compare `smartctl -x` of both.
    """
    found = []
    for legs in _groups_of_legs(context):
        first, *others = [_entrant(context, label) for label in legs]
        comparisons = compare(first, others, figures=[RATE], anyway=True)
        found += [finding for comparison in comparisons for finding in imbalance(comparison)]
    return found


def _groups_of_legs(context: Context) -> list[list[str]]:
    """Return the labels of equal targets, each group in the order of the plan."""
    labels = list(dict.fromkeys(summary.cell.target for summary in context.cells))
    groups: list[list[str]] = []
    for label in labels:
        drives = _drives(context.before, label)
        for group in groups:
            is_declared = _are_declared_legs(context.run, group[0], label)
            if is_declared or _are_legs(_drives(context.before, group[0]), drives):
                group.append(label)
                break
        else:
            groups.append([label])
    return [group for group in groups if len(group) > 1 and _have_common_cell(context, group)]


def _have_common_cell(context: Context, labels: Sequence[str]) -> bool:
    """Return whether all targets have a cell in common: a workload may run on some targets only."""
    keys = [
        {
            summary.cell.key.removeprefix(f"{label}/")
            for summary in context.cells
            if summary.cell.target == label
        }
        for label in labels
    ]
    return bool(set.intersection(*keys))


def _entrant(context: Context, label: str) -> SideSamples:
    own = [sample for sample in context.samples if sample.cell.target == label]
    return SideSamples(side=Side(name=label, run=context.run, target=label), samples=own)


def _drives(before: Fingerprint, label: str) -> list[Device]:
    """Return the drives of a target; empty if the fingerprint does not contain it."""
    target = before.target_of(label)
    return target.physical_devices if target else []


def _are_legs(drives_a: Sequence[Device], drives_b: Sequence[Device]) -> bool:
    """Return whether two targets are on equal but different drives."""
    kinds = [
        sorted((device.model or "", device.size_bytes or 0) for device in drives)
        for drives in (drives_a, drives_b)
    ]
    named = all(device.model for device in (*drives_a, *drives_b))
    apart = not {_identity(each) for each in drives_a} & {_identity(each) for each in drives_b}
    return bool(drives_a) and named and apart and kinds[0] == kinds[1]


def _are_declared_legs(run: Run, a: str, b: str) -> bool:
    """Return whether two targets are legs of one layout of the study, which should be equal."""
    (layout_a, leg_a), (layout_b, leg_b) = (_layout_and_leg(label) for label in (a, b))
    if not leg_a or not leg_b or leg_a == leg_b or layout_a != layout_b:
        return False
    tables = entries(run.study, "layout")
    return any(
        table.get("expose") == "legs" and layout_a.startswith(str(table.get("name")))
        for table in tables
    )


def _layout_and_leg(label: str) -> tuple[str, str]:
    """Return the label of the layout and, if the target is a leg of it, the leg's number."""
    layout, _, number = label.rpartition("-leg")
    return (layout, number) if number.isdecimal() else (label, "")


def _equality_text(drives_a: Sequence[Device], drives_b: Sequence[Device]) -> str:
    """Return what makes two targets equal, such as ``one Samsung SSD 990 PRO of 1.8 TiB``."""
    if not _are_legs(drives_a, drives_b):
        return "legs of one layout"
    first = drives_a[0]
    size = f" of {format_size(first.size_bytes)}" if first.size_bytes else ""
    count = "one" if len(drives_a) == 1 else str(len(drives_a))
    return f"{count} {first.model}{size}"


def _identity(device: Device) -> str:
    return device.serial_hash or device.name


def _path(device: Device) -> dict[str, object]:
    """Return a drive's name and its path to the CPU, as far as known."""
    pcie = device.pcie or PciePath()
    bridge, root_port = pcie.bridge or PciFunction(), pcie.root_port or PciFunction()
    narrowest = pcie.narrowest or PcieLink()
    facts = {
        "device": device.name,
        "pcie_address": pcie.address,
        "pcie_speed_gt_s": pcie.speed_now_gt_s,
        "pcie_width_lanes": pcie.width_now,
        "pcie_bridge_address": bridge.address,
        "pcie_bridge_ids": bridge.ids,
        "pcie_root_port_address": root_port.address,
        "pcie_root_port_ids": root_port.ids,
        "pcie_narrowest_address": narrowest.address,
        "pcie_narrowest_bytes_per_s": narrowest.bandwidth_now_bytes_per_s,
        "sata_link_gb_s": device.sata_link_gb_s,
        "sas_link_gb_s": device.sas_link_gb_s,
        "numa_node": device.numa_node,
        "firmware": device.firmware,
        "scheduler": device.scheduler,
    }
    return {name: value for name, value in facts.items() if value is not None}


def _cause(drives_a: Sequence[Device], drives_b: Sequence[Device]) -> str:
    """Return the differences between the two paths, or other possible causes."""
    words = []
    for one, other in zip(drives_a, drives_b, strict=False):
        path_a, path_b = _path(one), _path(other)
        words += [
            f"{name.replace('_', ' ')} {path_a[name]} and {path_b[name]}"
            for name in path_a
            if name != "device" and name in path_b and path_a[name] != path_b[name]
        ]
    if not words:
        return (
            "The paths to both show no difference: one of the drives is worn, hot, busy with "
            "garbage collection, or failing; or its cable is."
        )
    return (
        f"The paths differ: {', '.join(words)}. Slots differ in lanes and in the devices that "
        "share them."
    )
