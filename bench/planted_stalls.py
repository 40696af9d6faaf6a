"""Plants stalls whose cause is known, and counts the reported causes.

    bench/planted_stalls.py [--injections 200] [--seed 1]

Throttles of control groups, quotas of processor time and frozen file systems, at random: on reads,
writes, buffered writes and commits, by one thread and by several, on ext4 and XFS. The longest
stall within the injection is judged. An injection without a stall longer than the threshold is
counted separately. Needs root.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import results_page

sys.path.insert(0, str(results_page.ROOT / "tests"))

from kernel import injections
from kernel.conftest import Place, make, put_away
from kernel.trial import Trial, injected_into

NONE: Final = "no stall"
SETTLED_S: Final = 0.15
WORKLOADS: Final[dict[str, dict[str, Any]]] = {
    "read": {"operation": "read"},
    "read, 8 in flight": {"operation": "read", "depth": 8},
    "write": {"operation": "write"},
    "write, 8 in flight": {"operation": "write", "depth": 8},
    "commit by fdatasync": {"commits": "fdatasync"},
    "8 committers by fdatasync": {"commits": "fdatasync", "committers": 8},
    "commit by O_DSYNC": {"commits": "o_dsync"},
    "8 committers by O_DSYNC": {"commits": "o_dsync", "committers": 8},
}
KINDS: Final = {
    "throttle": "cgroup_throttle",
    "quota": "cpu_quota",
    "freeze": "filesystem",
    "freeze under a loose limit": "filesystem",
}


@dataclass(frozen=True)
class PlantedStall:
    """One injection, its load, and the cause reported for its longest stall."""

    kind: str
    workload: str
    file_system: str
    blamed: str

    @property
    def is_right(self) -> bool:
        """Whether the reported cause is the planted one."""
        return self.blamed == KINDS[self.kind]


def plant(
    kind: str, trial: Trial, place: Place, length_s: float, stack: ExitStack
) -> injections.Injected:
    """Inject it, and return its begin and end; its resources stay until the trial has ended."""
    if kind == "throttle":
        unit = random.choice(["bps", "iops"])
        return injections.throttle(trial.pid, place.device, max(length_s, 0.6), unit=unit)
    if kind == "quota":
        group = stack.enter_context(injections.CpuGroup(trial.pid))
        time.sleep(SETTLED_S)
        quota_us, period_us = random.choice([(5_000, 100_000), (20_000, 1_000_000)])
        return group.stop(length_s, quota_us, period_us)
    if kind.endswith("loose limit"):
        group = stack.enter_context(injections.Group())
        group.limit(place.device, 10_000_000_000, "bps")
        (group.path / "cgroup.procs").write_text(str(trial.pid))
    return injections.freeze(place.folder, length_s)


def blamed(document: dict[str, Any], injected: injections.Injected) -> str:
    """Return the cause of the longest stall that overlaps the injection."""
    (sample,) = document["samples"]
    began_s = injected.began.after_s - sample["started_at"]
    ended_s = injected.ended.before_s - sample["started_at"]
    within = [
        stall
        for stall in sample["stalls"]
        if stall["start_s"] < ended_s and stall["start_s"] + stall["length_s"] > began_s
    ]
    longest = max(within, key=lambda stall: stall["length_s"], default=None)
    return longest["cause"] if longest else NONE


def one(kind: str, workload: str, place: Place, name: str, folder: Path) -> PlantedStall:
    """Plant one stall and return its reported cause."""
    length_s = random.uniform(0.3, 1.0)
    with ExitStack() as stack:
        document, injected = injected_into(
            lambda own: Trial(place.folder, own, seconds=2.0, **WORKLOADS[workload]),
            lambda trial: plant(kind, trial, place, length_s, stack),
            folder,
        )
    return PlantedStall(kind, workload, name, blamed(document, injected))


def run(count: int, folder: Path) -> list[PlantedStall]:
    """Plant stalls, every kind equally often, in random order."""
    kinds = [list(KINDS)[number % len(KINDS)] for number in range(count)]
    random.shuffle(kinds)
    places: dict[str, Place] = {}
    planted = []
    try:
        for name in ("ext4", "xfs"):
            (folder / name).mkdir()
            places[name] = make(name, folder / name)
        for number, kind in enumerate(kinds):
            own = folder / str(number)
            own.mkdir()
            name = random.choice(list(places))
            planted.append(one(kind, random.choice(list(WORKLOADS)), places[name], name, own))
            print(number + 1, planted[-1], flush=True)
    finally:
        for place in places.values():
            put_away(place)
    return planted


def table(planted: list[PlantedStall], seed: int) -> str:
    """Return the section of RESULTS.md."""
    lines = [
        "## Planted stalls and what they were blamed on",
        "",
        f"{len(planted)} injections of 0.3 to 1 s, seed {seed} (`bench/planted_stalls.py`).",
        "",
        "| planted | injections | right | no stall | blamed on something else |",
        "|---|---|---|---|---|",
    ]
    for kind in KINDS:
        own = [each for each in planted if each.kind == kind]
        wrong = Counter(e.blamed for e in own if not e.is_right and e.blamed != NONE)
        others = ", ".join(f"{cause} {times}" for cause, times in wrong.items()) or "none"
        right = sum(each.is_right for each in own)
        blank = sum(each.blamed == NONE for each in own)
        lines.append(f"| {kind} | {len(own)} | {right} | {blank} | {others} |")
    return "\n".join(lines)


def main() -> None:
    """Plant, print and write RESULTS.md."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--injections", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    with tempfile.TemporaryDirectory(prefix="seatrial-planted-") as folder:
        planted = run(arguments.injections, Path(folder))
    text = table(planted, arguments.seed)
    print(text)
    results_page.write_section(results_page.RESULTS, "planted stalls", text)


if __name__ == "__main__":
    main()
