"""Differences between two fingerprints in words, the likeliest causes first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from seatrial.fingerprint import Machine, Target
from seatrial.results.model import Sample
from seatrial.stats.compare.model import Difference, SideSamples
from seatrial.stats.compare.pairing import VIRTUAL_ENGINES
from seatrial.stats.facts import fact_name, fact_text, is_short
from seatrial.stats.wording import format_first

Facts = dict[str, Any]
"""The compared data, as a tree of mappings."""
DEFAULT: Final = "the default"
"""Stands for a setting that one side specifies and the other leaves at the server's default."""

_OF_THE_PLACE: Final = frozenset(
    {
        *("cluster_name", "config_file", "data_directory", "external_pid_file", "hba_file"),
        *("ident_file", "listen_addresses", "log_directory", "port", "unix_socket_directories"),
    }
)
"""Settings that concern the location of a server, not its speed."""


def server_facts(samples: Sequence[Sample]) -> Facts:
    """Return server, settings and start state of a side's samples; empty without a database.

    A setting that is a factor of the study, so that its values differ, already distinguishes cells
    and is omitted.
    """
    records = [sample.database for sample in samples if sample.database]
    if not records:
        return {}
    names = dict.fromkeys(name for record in records for name in record.settings)
    settings = {
        name: records[-1].settings.get(name, DEFAULT)
        for name in names
        if name not in _OF_THE_PLACE and len({record.settings.get(name) for record in records}) == 1
    }
    return {
        "server": ", ".join(sorted({record.server for record in records})),
        "start_state": ", ".join(sorted({record.start_state for record in records})),
        "settings": settings,
    }


def with_defaults(a: Facts, b: Facts) -> tuple[Facts, Facts]:
    """Return the facts of two sides, each with the settings that only the other one specifies."""
    of_a, of_b = (side.get("database", {}).get("settings") for side in (a, b))
    if of_a is None or of_b is None:
        return a, b
    usual = dict.fromkeys([*of_a, *of_b], DEFAULT)
    return (
        a | {"database": a["database"] | {"settings": usual | of_a}},
        b | {"database": b["database"] | {"settings": usual | of_b}},
    )


LIKELY = (
    (r"engine", "engine"),
    (r"database\.server", "server"),
    (r"database\.settings\.(?P<setting>.+)", "setting {setting}"),
    (r"database\.start_state", "start state of samples"),
    (r"simulated\.(?P<rest>.+)", "simulated device: {rest}"),
    (r"{device}\.io_limits\.(?P<rest>.+)", "cgroup limit on {name}: {rest}"),
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
    (r"{device}\.rotational", "rotational flag of {name}"),
    (r"{device}\.transport", "transport of {name}"),
    (r"{device}\.write_cache", "write cache of {name}"),
    (r"{device}\.writeback_throttle_us", "writeback throttling of {name}"),
    (r"{device}\.queue_requests", "queue length of {name}"),
    (r"{device}\.nr_hw_queues", "hardware queues of {name}"),
    (r"{device}\.read_ahead_kib", "read-ahead of {name}"),
    (r"{device}\.size_bytes", "size of {name}"),
    (r"{device}\.serial_hash", "identity of drive {name} (hash of its serial number)"),
    (r"machine\.kernel", "kernel"),
    (r"machine\.product", "machine or instance type"),
    (r"machine\.cpu_model", "processor"),
    (r"machine\.cpus_(?P<rest>online|usable)", "processors {rest}"),
    (r"machine\.memory_bytes", "memory"),
    (r"machine\.cpu_governor", "processor frequency governor"),
    (r"machine\.cpu_boost", "processor boost"),
    (r"machine\.virtualisation", "virtualisation"),
    (r"machine\.clock_source", "clock source"),
    (r"machine\.io_uring_disabled", "sysctl io_uring_disabled"),
    (r"machine\.cgroup\.(?P<rest>.+)", "cgroup limit: {rest}"),
    (r"machine\.pcie_power_policy", "PCIe power policy"),
    (r"machine\.nvme_power_state_latency_us_max", "NVMe power states"),
    (r"seatrial\.version", "version of Seatrial"),
    (r"seatrial\.commit", "commit of Seatrial"),
)  # fmt: skip
"""Key paths and words of the usual causes of a difference in speed, the likeliest first."""

NO_LIMITS = dict.fromkeys(
    ("read_bytes_per_s", "write_bytes_per_s", "reads_per_s", "writes_per_s"), "none"
)
"""Possible limits of a control group on a device: the absence of a limit is also known."""

IGNORED = re.compile(
    r"fingerprint_version|.*\.(major_minor|kernel_names|parents|children|users|no_device_because"
    r"|schedulers_available|clock_sources_available|source|mount_point|users\..*|dm\.name)"
)
"""Keys that differ between any two targets and explain nothing."""

_FACTS_SHOWN_MAX = 3
_REASONS_MAX = 3
_DEVICE = r"target\.stack\[(?P<name>[^\]]+)\]"
_PATTERNS = tuple(
    (re.compile(pattern.replace("{device}", _DEVICE)), words) for pattern, words in LIKELY
)


def facts_of(one_side: SideSamples) -> Facts:
    """Return a side's fingerprint as its own target sees it, with the engine that measured.

    Empty if machine and target are unknown, as for an imported result.
    """
    before = one_side.side.run.fingerprint_before
    if not before.is_taken:
        return {}
    engines = sorted({sample.engine for sample in one_side.samples})
    facts: Facts = {"engine": ", ".join(engines), "seatrial": before.seatrial.facts()}
    if servers := server_facts(one_side.samples):
        facts["database"] = servers
    if engines and set(engines) <= set(VIRTUAL_ENGINES):
        # It uses virtual time, which does not depend on the machine.
        return facts | {"simulated": _simulated_model(one_side)}
    return facts | _with_own_limits(before.machine, before.target_of(_label(one_side)))


def _with_own_limits(machine: Machine, target: Target | None) -> Facts:
    """Return both with the limits of control groups moved to the devices that they apply to.

    The machine lists limits of all devices by number; those of other devices explain nothing.
    """
    limited = machine.cgroup.io_limits
    groups = replace(machine.cgroup, io_limits={})
    stack = [
        device.facts() | {"io_limits": {**NO_LIMITS, **limited.get(device.major_minor or "", {})}}
        for device in (target.stack if target else [])
    ]
    return {
        "machine": replace(machine, cgroup=groups).facts(),
        "target": target.facts() | {"stack": stack} if target else {},
    }


def _label(one_side: SideSamples) -> str:
    """Return the label of a side's target; empty if it has no samples."""
    return one_side.side.target or next((each.cell.target for each in one_side.samples), "")


def _simulated_model(one_side: SideSamples) -> Facts:
    """Return the model of a simulated target, as the study declares it."""
    label = _label(one_side)
    targets = one_side.side.run.study.get("target", [])
    own = [each for each in targets if each.get("label", label) == label]
    return dict(own[0].get("model") or {}) if own else {}


def named_alike(a: Facts, b: Facts) -> tuple[Facts, Facts]:
    """Return two sides' facts with B's devices named as those of A at the same position.

    Devices are identified by name, so two drives would have no key in common. Equal names are kept;
    the others are paired by kind, from the top down.
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


def _stack(facts: Facts) -> list[Facts]:
    target = facts.get("target")
    nodes = target.get("stack") if isinstance(target, dict) else None
    return [node for node in nodes or [] if isinstance(node, dict) and "name" in node]


def described(differences: Iterable[tuple[str, Any, Any]]) -> list[Difference]:
    """Return what differs, in words, the likeliest reasons first.

    Args:
        differences: Key path, value on side A, value on side B; None if it is unknown.
    """
    found = [
        (rank, Difference(path=path, words=words, a=a, b=b, weight=weight))
        for path, a, b in differences
        if not IGNORED.fullmatch(path)
        for rank, words, weight in [_rank(path, known=a is not None and b is not None)]
    ]
    return [each for _, each in sorted(found, key=lambda ranked: ranked[0])]


def _rank(path: str, *, known: bool) -> tuple[tuple[bool, int], str, Any]:
    """Return the words and the weight of a difference."""
    for index, (pattern, words) in enumerate(_PATTERNS):
        if match := pattern.fullmatch(path):
            parts = {
                name: part if name == "setting" else part.replace("_", " ")
                for name, part in match.groupdict().items()
            }
            parts["name"] = match.groupdict().get("name", "")
            # A value unknown on one side explains nothing, but may still be the cause.
            return (not known, index), words.format(**parts), "likely" if known else "minor"
    return (True, len(_PATTERNS)), path.replace("_", " ").replace(".", ", "), "minor"


def summary_phrase(differences: Sequence[Difference]) -> str:
    """Return the likely reasons in short, such as ``I/O scheduler of sda (none, bfq)``."""
    likely = [each for each in differences if each.weight == "likely"]
    texts = [
        f"{each.words} ({value_phrase(each.path, each.a)}, {value_phrase(each.path, each.b)})"
        for each in likely
    ]
    return format_first(texts, _REASONS_MAX)


def value_phrase(path: str, value: object) -> str:
    """Return one side's value of a difference, with the unit that its key ends in.

    For a mapping too long for a line, such as a whole device, the first known facts.
    """
    if isinstance(value, dict):
        whole = msgspec.json.encode(value).decode()
        return whole if is_short(whole) else _first_facts(value)
    return fact_text(path.rpartition(".")[2], value)


def _first_facts(value: Mapping[str, object]) -> str:
    known = {name: each for name, each in value.items() if each is not None and is_short(each)}
    texts = [f"{fact_name(name)} {fact_text(name, each)}" for name, each in known.items()]
    more = len(value) - len(texts[:_FACTS_SHOWN_MAX])
    return ", ".join(texts[:_FACTS_SHOWN_MAX]) + (f" and {more} more" if more else "")
