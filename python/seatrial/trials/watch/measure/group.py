"""The I/O of a control group on its devices, by the kernel's own counters.

They need no rights beyond reading the group's folder. Each layer counts what passes it, so a volume
and the disk below it both have the same bytes.

Sources: the kernel's Documentation/admin-guide/cgroup-v2.rst (``io.stat``; ``cgroup.type``, which
the root has not) and cgroup-v1/blkio-controller.rst (``blkio.throttle.io_service_bytes``; the root
alone has ``release_agent``).
"""

from __future__ import annotations

import posixpath
import time
from collections.abc import Mapping
from typing import Final, NamedTuple

from seatrial.machine.fingerprint.machine import own_groups
from seatrial.machine.fingerprint.tree import LIVE, SystemTree
from seatrial.trials.watch.analysis.activity import Readings

BYTES: Final = "group_bytes"
REQUESTS: Final = "group_requests"
_V2_FIELDS: Final[Mapping[str, tuple[str, str]]] = {
    "rbytes": (BYTES, "read"),
    "wbytes": (BYTES, "write"),
    "dbytes": (BYTES, "discard"),
    "rios": (REQUESTS, "read"),
    "wios": (REQUESTS, "write"),
    "dios": (REQUESTS, "discard"),
}
_V1_FILES: Final[Mapping[str, str]] = {
    BYTES: "blkio.throttle.io_service_bytes_recursive",
    REQUESTS: "blkio.throttle.io_serviced_recursive",
}
_V1_OPERATIONS: Final = {"Read": "read", "Write": "write", "Discard": "discard"}
_V1_WORDS: Final = 3


class GroupCounter(NamedTuple):
    """One of the counters of a group.

    Attributes:
        panel: ``group_bytes`` or ``group_requests``.
        device: ``major:minor``.
        operation: What was done.
    """

    panel: str
    device: str
    operation: str


def v2_counters(text: str) -> dict[GroupCounter, int]:
    """Return the counters in a group's ``io.stat``; fields that are not known here are left out.

    Args:
        text: Its text. Some kernels end the line of a device that has no counters with that of the
            next one.
    """
    found: dict[GroupCounter, int] = {}
    device = ""
    for word in text.split():
        name, is_field, value = word.partition("=")
        if not is_field:
            device = word
        elif name in _V2_FIELDS and device and value.isdigit():
            panel, operation = _V2_FIELDS[name]
            found[GroupCounter(panel, device, operation)] = int(value)
    return found


def v1_counters(panel: str, text: str) -> dict[GroupCounter, int]:
    """Return the counters in a file of version 1, whose lines are ``8:0 Read 4096``."""
    words = (line.split() for line in text.splitlines())
    return {
        GroupCounter(panel, each[0], _V1_OPERATIONS[each[1]]): int(each[2])
        for each in words
        if len(each) == _V1_WORDS and each[1] in _V1_OPERATIONS and each[2].isdigit()
    }


class GroupWatch:
    """The rates of one group, by device and operation.

    Attributes:
        folder: The group's folder.
    """

    def __init__(self, folder: str, tree: SystemTree = LIVE) -> None:
        self.folder = folder
        self._tree = tree
        self._first = self._before = self._read()
        self._before_s = time.monotonic()

    @classmethod
    def of_process(cls, pid: int, tree: SystemTree = LIVE) -> GroupWatch | None:
        """Return the group of a process; None where it has none of its own that is counted.

        A process in the root shares it with the whole machine, whose disks are watched anyway.
        """
        for controller, file in (("", "io.stat"), ("blkio", _V1_FILES[BYTES])):
            folder = next(own_groups(tree, controller, str(pid)), "")
            if folder and tree.exists(f"{folder}/{file}") and not _is_root(tree, folder):
                return cls(folder, tree)
        return None

    def take(self) -> Readings:
        """Return rates since the last call; none of a device that the group has not used."""
        now, now_s = self._read(), time.monotonic()
        seconds = max(now_s - self._before_s, 1e-3)
        panels: dict[str, dict[str, float]] = {}
        for counter, value in now.items():
            if value > self._first.get(counter, 0):
                rate_per_s = max(0, value - self._before.get(counter, 0)) / seconds
                name = f"{counter.operation} {self._name(counter.device)}"
                panels.setdefault(counter.panel, {})[name] = rate_per_s
        self._before, self._before_s = now, now_s
        return panels

    def _read(self) -> dict[GroupCounter, int]:
        text = self._tree.text(f"{self.folder}/io.stat")
        if text is not None:
            return v2_counters(text)
        found: dict[GroupCounter, int] = {}
        for panel, file in _V1_FILES.items():
            found |= v1_counters(panel, self._tree.text(f"{self.folder}/{file}") or "")
        return found

    def _name(self, device: str) -> str:
        link = self._tree.resolve(f"/sys/dev/block/{device}")
        return posixpath.basename(link) if link else device


def _is_root(tree: SystemTree, folder: str) -> bool:
    if tree.exists(f"{folder}/io.stat"):
        return not tree.exists(f"{folder}/cgroup.type")
    return tree.exists(f"{folder}/release_agent")
