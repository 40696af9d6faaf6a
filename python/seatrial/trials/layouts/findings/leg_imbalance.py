"""Finding ``leg_imbalance``: two targets of one run that should be equally fast are not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from seatrial.findings.context import Context, entries, lookup
from seatrial.findings.context import physical_devices as devices_under
from seatrial.findings.rule import from_samples
from seatrial.results.model import Run
from seatrial.stats.compare.comparison import compare
from seatrial.stats.compare.figures import RATE
from seatrial.stats.compare.fingerprints import target_facts
from seatrial.stats.compare.model import Comparison, Entrant, Side
from seatrial.stats.compare.verdict import ratio_words
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_plural, format_size

PATH_FACTS = (
    ("pcie_address", ("pcie", "address")),
    ("pcie_speed_gt_s", ("pcie", "speed_now_gt_s")),
    ("pcie_width_lanes", ("pcie", "width_now")),
    ("pcie_bridge_address", ("pcie", "bridge", "address")),
    ("pcie_bridge_ids", ("pcie", "bridge", "ids")),
    ("pcie_root_port_address", ("pcie", "root_port", "address")),
    ("pcie_root_port_ids", ("pcie", "root_port", "ids")),
    ("pcie_narrowest_address", ("pcie", "narrowest", "address")),
    ("pcie_narrowest_bytes_per_s", ("pcie", "narrowest", "bandwidth_now_bytes_per_s")),
    ("sata_link_gb_s", ("sata_link_gb_s",)),
    ("sas_link_gb_s", ("sas_link_gb_s",)),
    ("numa_node", ("numa_node",)),
    ("firmware", ("firmware",)),
    ("scheduler", ("scheduler",)),
)
"""What of a drive's path is told, by name in the evidence and place in the fingerprint."""

Device = dict[str, Any]


def imbalance(comparison: Comparison) -> list[Finding]:
    """Find that the two sides of a comparison, targets of one run, should be equal and are not.

    They should be if they lie on as many drives of the same models and sizes, but not the same
    drives; and they are not if the overall rate surely differs by more than the margin.
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
            kind="leg_imbalance",
            severity="warning",
            cells=[],
            sentence=(
                f"{slow.target} should be as fast as {fast.target}, for both are "
                f"{_alike(drives_a, drives_b)}; but {b.target} is {ratio_words(ratio)} as fast as "
                f"{a.target} over {format_plural(total.cells, 'cell')}. In an array the slower "
                "one holds up the rest."
            ),
            cause=_cause(drives_a, drives_b),
            evidence={
                "rate_ratio": ratio.value,
                "slower_target": slow.target,
                f"path_of_{a.target}": [_path(device) for device in drives_a],
                f"path_of_{b.target}": [_path(device) for device in drives_b],
            },
            next=(
                "Swap the two drives and measure again: if the slowness stays in the slot, it is "
                "the slot, its link or its controller; if it goes with the drive, compare both "
                "with 'smartctl -x' (wear, errors, firmware, temperature)."
            ),
        )
    ]


@from_samples(rank=460, section="Against another run or target", in_comparison=imbalance)
def leg_imbalance(context: Context) -> list[Finding]:
    """Compare the targets of a run that lie on equal drives, each with the first of its kind.

    Means:
        Two targets of one run lie on equal drives, but one of them is slower. In an array every
        stripe waits for the slowest leg.

    Decided:
        As many drives of the same models and sizes under both, none of them the same (by the hash
        of the serial number), or two legs of one layout (`expose = "legs"`), which are meant to be
        equal; and an overall rate that surely differs by more than 5 % (`--margin`). Warning. The
        evidence holds the path of each: PCIe address, link, narrowest link, the bridge above it and
        the root port with their ids (whether that is the processor's or the chipset's), NUMA node,
        SATA or SAS link.

    Do:
        Swap the drives. If the slowness stays in the slot, read the mainboard's manual for lanes
        and what shares them; if it goes with the drive, compare `smartctl -x` of both.
    """
    found = []
    for legs in _groups_of_legs(context):
        first, *others = [_entrant(context, label) for label in legs]
        reported = compare(first, others, figures=[RATE], anyway=True)
        found += [finding for comparison in reported for finding in imbalance(comparison)]
    return found


def _groups_of_legs(context: Context) -> list[list[str]]:
    """Return the labels of targets that should be equal, each group in the order of the plan."""
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
    """Tell whether the targets were measured alike: a workload may run on some targets only."""
    faults = [
        {
            summary.cell.key.removeprefix(f"{label}/")
            for summary in context.cells
            if summary.cell.target == label
        }
        for label in labels
    ]
    return bool(set.intersection(*faults))


def _entrant(context: Context, label: str) -> Entrant:
    own = [sample for sample in context.samples if sample.cell.target == label]
    return Entrant(side=Side(name=label, run=context.run, target=label), samples=own)


def _drives(before: dict[str, Any], label: str) -> list[Device]:
    """Return the drives under a target; none where the fingerprint knows only another target."""
    return devices_under({"target": target_facts(before, label)})


def _are_legs(drives_a: Sequence[Device], drives_b: Sequence[Device]) -> bool:
    """Tell whether two targets lie on equal drives, none of which is the same."""
    kinds = [
        sorted((str(device.get("model")), device.get("size_bytes") or 0) for device in drives)
        for drives in (drives_a, drives_b)
    ]
    named = all(device.get("model") for device in (*drives_a, *drives_b))
    apart = not {_identity(each) for each in drives_a} & {_identity(each) for each in drives_b}
    return bool(drives_a) and named and apart and kinds[0] == kinds[1]


def _are_declared_legs(run: Run, a: str, b: str) -> bool:
    """Tell whether a study has two targets as legs of one layout, which are meant to be equal."""
    (layout_a, leg_a), (layout_b, leg_b) = (_layout_and_leg(label) for label in (a, b))
    if not leg_a or not leg_b or leg_a == leg_b or layout_a != layout_b:
        return False
    tables = entries(run.study, "layout")
    return any(
        table.get("expose") == "legs" and layout_a.startswith(str(table.get("name")))
        for table in tables
    )


def _layout_and_leg(label: str) -> tuple[str, str]:
    """Return the label of a layout and the number of the leg of it that a target is, if any."""
    layout, _, number = label.rpartition("-leg")
    return (layout, number) if number.isdecimal() else (label, "")


def _alike(drives_a: Sequence[Device], drives_b: Sequence[Device]) -> str:
    """Return in what two legs are equal: their drives as far as they are known, else their plan."""
    if _are_legs(drives_a, drives_b):
        return _described(drives_a)
    return "legs of one layout"


def _identity(device: Device) -> str:
    return str(device.get("serial_hash") or device.get("name"))


def _described(drives: Sequence[Device]) -> str:
    """Return what the drives are, such as ``one Samsung SSD 990 PRO of 1.8 TiB``."""
    first = drives[0]
    size = f" of {format_size(int(first['size_bytes']))}" if first.get("size_bytes") else ""
    count = "one" if len(drives) == 1 else str(len(drives))
    return f"{count} {first['model']}{size}"


def _path(device: Device) -> dict[str, object]:
    """Return a drive's name and its path to the processor, as far as they are known."""
    facts = {name: lookup(device, *place) for name, place in PATH_FACTS}
    known = {name: value for name, value in facts.items() if value is not None}
    return {"device": device.get("name"), **known}


def _cause(drives_a: Sequence[Device], drives_b: Sequence[Device]) -> str:
    """Return what differs in the two paths, else where it can hide."""
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
            "The paths to both are alike as far as they are known: one of the drives is worn, hot, "
            "busy with its own cleaning, or fails; or its cable does."
        )
    return f"Their paths differ: {', '.join(words)}. Slots differ in lanes and in what they share."
