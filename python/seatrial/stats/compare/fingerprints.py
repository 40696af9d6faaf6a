"""What differs in the two fingerprints, in words, the likeliest reasons for a difference first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from seatrial.stats.compare.databases import server_facts
from seatrial.stats.compare.model import Difference, Entrant
from seatrial.stats.compare.pairing import VIRTUAL_ENGINES
from seatrial.stats.facts import fact_name, fact_text, is_short

LIKELY = (
    (r"engine", "engine"),
    (r"database\.server", "server"),
    (r"database\.settings\.(?P<setting>.+)", "setting {setting}"),
    (r"database\.start_state", "state that samples start in"),
    (r"simulated\.(?P<rest>.+)", "simulated device: {rest}"),
    (r"{device}\.io_limits\.(?P<rest>.+)", "limit of the control group on {name}: {rest}"),
    (r"{device}\.model", "model of {name}"),
    (r"{device}\.firmware", "firmware of {name}"),
    (r"{device}\.scheduler", "I/O scheduler of {name}"),
    (r"{device}\.pcie\.address", "PCIe address (slot) of {name}"),
    (r"{device}\.pcie\.speed_now_gt_s", "PCIe speed of {name}, per lane"),
    (r"{device}\.pcie\.width_now", "PCIe lanes of {name}"),
    (r"{device}\.pcie\.narrowest\.(?P<rest>.+)", "narrowest PCIe link of {name}: {rest}"),
    (r"{device}\.sata_link_gb_s", "SATA link of {name}"),
    (r"{device}\.sas_link_gb_s", "SAS link of {name}"),
    (r"{device}\.numa_node", "NUMA node of {name}"),
    (r"target\.filesystem\.type", "file system"),
    (r"target\.filesystem\.mount_options", "mount options"),
    (r"target\.filesystem\.btrfs\.(?P<rest>\w+)", "btrfs: {rest}"),
    (r"target\.kind", "kind of target"),
    (r"{device}\.kind", "kind of {name}"),
    (r"{device}\.md\.(?P<rest>level|chunk_bytes|raid_disks|degraded|sync_action|bitmap)",
     "array {name}: {rest}"),
    (r"{device}\.dm\.targets", "device mapper table of {name}"),
    (r"{device}\.rotational", "whether {name} rotates"),
    (r"{device}\.transport", "how {name} is reached"),
    (r"{device}\.write_cache", "write cache of {name}"),
    (r"{device}\.writeback_throttle_us", "writeback throttling of {name}"),
    (r"{device}\.queue_requests", "queue length of {name}"),
    (r"{device}\.nr_hw_queues", "hardware queues of {name}"),
    (r"{device}\.read_ahead_kib", "read-ahead of {name}"),
    (r"{device}\.size_bytes", "size of {name}"),
    (r"{device}\.serial_hash", "which drive {name} is (hash of its serial number)"),
    (r"machine\.kernel", "kernel"),
    (r"machine\.product", "machine or instance type"),
    (r"machine\.cpu_model", "processor"),
    (r"machine\.cpus_(?P<rest>online|usable)", "processors {rest}"),
    (r"machine\.memory_bytes", "memory"),
    (r"machine\.cpu_governor", "processor frequency governor"),
    (r"machine\.cpu_boost", "processor boost"),
    (r"machine\.virtualisation", "virtualisation"),
    (r"machine\.clock_source", "clock source"),
    (r"machine\.io_uring_disabled", "whether io_uring is forbidden"),
    (r"machine\.cgroup\.(?P<rest>.+)", "limit of the control group: {rest}"),
    (r"machine\.pcie_power_policy", "PCIe power policy"),
    (r"machine\.nvme_power_state_latency_us_max", "NVMe power states"),
    (r"seatrial\.version", "version of Seatrial"),
    (r"seatrial\.commit", "commit of Seatrial"),
)  # fmt: skip
"""Key paths and words of what usually explains a difference in speed, the likeliest first."""

NO_LIMITS = dict.fromkeys(
    ("read_bytes_per_s", "write_bytes_per_s", "reads_per_s", "writes_per_s"), "none"
)
"""What a control group may limit of a device: where it does not, that is known, too."""

IGNORED = re.compile(
    r"fingerprint_version|.*\.(major_minor|kernel_names|parents|children|users|no_device_because"
    r"|schedulers_available|clock_sources_available|source|mount_point|users\..*|dm\.name)"
)
"""What differs between any two targets and explains nothing."""

_FACTS_TOLD_MAX = 3
_DEVICE = r"target\.stack\[(?P<name>[^\]]+)\]"
_PATTERNS = tuple(
    (re.compile(pattern.replace("{device}", _DEVICE)), words) for pattern, words in LIKELY
)


def facts_of(entrant: Entrant) -> dict[str, Any]:
    """Return a side's fingerprint as its own target sees it, with the engine that measured.

    Empty where nothing is known of machine and target, as of an imported result.
    """
    before = entrant.side.run.fingerprint_before
    if not before:
        return {}
    engines = sorted({sample.engine for sample in entrant.samples})
    reported = {"engine": ", ".join(engines), "seatrial": before.get("seatrial")}
    if servers := server_facts(entrant.samples):
        reported["database"] = servers
    if engines and set(engines) <= set(VIRTUAL_ENGINES):
        # It stands on virtual time: what this machine is like does not touch it.
        return reported | {"simulated": _simulated_model(entrant)}
    own = target_facts(before, _label(entrant))
    return reported | _with_own_limits(before.get("machine"), own)


def _with_own_limits(machine: object, target: dict[str, Any]) -> dict[str, Any]:
    """Return both with a control group's limits at the devices that they limit.

    The machine lists those of all devices by number; those of other devices explain nothing.
    """
    reported: dict[str, Any] = {"machine": machine, "target": target}
    if not isinstance(machine, dict) or not isinstance(groups := machine.get("cgroup"), dict):
        return reported
    limited = groups.get("io_limits") or {}
    others = {name: value for name, value in groups.items() if name != "io_limits"}
    reported["machine"] = machine | {"cgroup": others}
    stack = [
        node | {"io_limits": NO_LIMITS | limited.get(node.get("major_minor"), {})}
        for node in _stack({"target": target})
    ]
    return reported | {"target": target | {"stack": stack}} if stack else reported


def _label(entrant: Entrant) -> str:
    """Return the label of a side's target; empty where it has no samples."""
    return entrant.side.target or next((each.cell.target for each in entrant.samples), "")


def target_facts(before: dict[str, Any], label: str) -> dict[str, Any]:
    """Return what a fingerprint holds of a target: of the first one, or another by its label."""
    others = before.get("other_targets")
    own = others.get(label) if isinstance(others, dict) else None
    found = own if own is not None else before.get("target")
    return found if isinstance(found, dict) else {}


def _simulated_model(entrant: Entrant) -> dict[str, Any]:
    """Return the model of a simulated target, as the study declares it."""
    label = _label(entrant)
    targets = entrant.side.run.study.get("target", [])
    own = [each for each in targets if each.get("label", label) == label]
    return dict(own[0].get("model") or {}) if own else {}


def named_alike(a: dict[str, Any], b: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return two sides' facts with B's devices named as those of A in the same place.

    Devices are told by name, so that those of two drives would all be on one side only. Equal
    names keep theirs; the others are paired by kind, from the top down.
    """
    stack_a, stack_b = _stack(a), _stack(b)
    names_a = [node["name"] for node in stack_a]
    free = [node for node in stack_a if node["name"] not in {each["name"] for each in stack_b}]
    renamed = []
    for node in stack_b:
        counterpart = next((each for each in free if each.get("kind") == node.get("kind")), None)
        if node["name"] not in names_a and counterpart:
            free.remove(counterpart)
            renamed.append(node | {"name": counterpart["name"]})
        else:
            renamed.append(node)
    if not stack_b:
        return a, b
    return a, b | {"target": b["target"] | {"stack": renamed}}


def _stack(facts: dict[str, Any]) -> list[dict[str, Any]]:
    target = facts.get("target")
    nodes = target.get("stack") if isinstance(target, dict) else None
    return [node for node in nodes or [] if isinstance(node, dict) and "name" in node]


def in_words(differences: Iterable[tuple[str, Any, Any]]) -> list[Difference]:
    """Return what differs, in words, the likeliest reasons first.

    Args:
        differences: Key path, value on side A, value on side B; None where it is unknown.
    """
    found = [
        (rank, Difference(path=path, words=words, a=a, b=b, weight=weight))
        for path, a, b in differences
        if not IGNORED.fullmatch(path)
        for rank, words, weight in [_rank(path, known=a is not None and b is not None)]
    ]
    return [each for _, each in sorted(found, key=lambda ranked: ranked[0])]


def _rank(path: str, *, known: bool) -> tuple[tuple[bool, int], str, Any]:
    """Return where a difference stands, its words and its weight."""
    for place, (pattern, words) in enumerate(_PATTERNS):
        if match := pattern.fullmatch(path):
            reported = {
                name: part if name == "setting" else part.replace("_", " ")
                for name, part in match.groupdict().items()
            }
            reported["name"] = match.groupdict().get("name", "")
            # What is unknown on one side explains nothing, but it may well be the reason.
            return (not known, place), words.format(**reported), "likely" if known else "minor"
    return (True, len(_PATTERNS)), path.replace("_", " ").replace(".", ", "), "minor"


def summary_words(differences: Sequence[Difference], count_max: int = 3) -> str:
    """Return the likely reasons in short, such as ``I/O scheduler of sda (none, bfq)``."""
    likely = [each for each in differences if each.weight == "likely"]
    reported = [
        f"{each.words} ({value_words(each.path, each.a)}, {value_words(each.path, each.b)})"
        for each in likely[:count_max]
    ]
    more = len(likely) - len(reported)
    return ", ".join(reported) + (f" and {more} more" if more > 0 else "")


def value_words(path: str, value: object) -> str:
    """Return one side's value of a difference, with the unit that its key ends in.

    Of a mapping too long for a line, such as a whole device, the first facts that are known.
    """
    if isinstance(value, dict):
        whole = msgspec.json.encode(value).decode()
        return whole if is_short(whole) else _first_facts(value)
    return fact_text(path.rpartition(".")[2], value)


def _first_facts(value: dict[str, Any]) -> str:
    known = {name: each for name, each in value.items() if each is not None and is_short(each)}
    reported = [f"{fact_name(name)} {fact_text(name, each)}" for name, each in known.items()]
    more = len(value) - len(reported[:_FACTS_TOLD_MAX])
    return ", ".join(reported[:_FACTS_TOLD_MAX]) + (f" and {more} more" if more else "")
