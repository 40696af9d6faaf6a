"""The gain from running all processes of a lab on one processor.

    bench/lab_speed.py          the figures of bench/RESULTS.md: 10 rounds, about eight minutes
    bench/lab_speed.py --quick  one round, printed and not written: does it run?

In each round a lab boots and works three times in a new random order, first on an idle machine,
then with a busy process all the time: on one processor as shipped, so once more (how far
that ratio strays from 1 is how far the other can be trusted), and on whatever processors the host
gives to its processes. Reported are times inside the guest, of what a study does there: programs
that are started, modules that are imported, small writes to a disk.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar, Final

from command import parsed_options, run_bench
from paired import median_estimate, paired_ratio, reported
from results_page import machine_lines, table

from seatrial.errors import SeatrialError
from seatrial.lab.packages import set_up
from seatrial.lab.session import open_lab, run_inside
from seatrial.lab.uml import UserModeLinux
from seatrial.machine.marker import new_run_id
from seatrial.stats.wording import format_plural

SECTION: Final = "lab"
SHIPPED: Final = "one processor"
AGAIN: Final = "one processor again"
FREE: Final = "any processor"
CONTENDERS: Final = (SHIPPED, AGAIN, FREE)
IDLE: Final = "an idle machine"
BUSY: Final = "with a busy process"
CONDITIONS: Final = (IDLE, BUSY)
LOADS: Final = {
    "20 programs started": "for i in $(seq 20); do mdadm --version 2>/dev/null; done",
    "seatrial imported": f"{sys.executable} -c 'import seatrial.cli.outcome, seatrial.measure.run'",
    "4,000 writes of 4 KiB, O_DIRECT": (
        "dd if=/dev/zero of=/dev/ubda bs=4k count=4000 oflag=direct 2>/dev/null"
    ),
}
DISK_BYTES: Final = 64 << 20


class AnyProcessor(UserModeLinux):
    """The lab without a processor of its own."""

    one_processor: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class BenchResult:
    """All that a run of the bench measured.

    Attributes:
        seconds: Time by condition, contender and load, one value per round.
        seed: Of the order.
        loads: Load averages, one per round.
    """

    seconds: dict[tuple[str, str, str], list[float]]
    seed: int
    loads: list[float]


def options_of(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    return parsed_options(arguments, __doc__, rounds=10, rounds_help="how often every lab works")


def measure(options: argparse.Namespace) -> BenchResult:
    """Let every lab work in every condition once a round, in a new random order.

    Raises:
        SeatrialError: When the lab's packages cannot be had, or it does not boot.
    """
    rng = random.Random(options.seed)
    packages = set_up("uml", lambda step: print(step, file=sys.stderr))
    machines = {
        SHIPPED: UserModeLinux(packages),
        AGAIN: UserModeLinux(packages),
        FREE: AnyProcessor(packages),
    }
    seconds: dict[tuple[str, str, str], list[float]] = {}
    loads: list[float] = []
    for number in range(1, options.rounds + 1):
        loads.append(os.getloadavg()[0])
        for condition in CONDITIONS:
            with _background_load(condition):
                for name in rng.sample(CONTENDERS, len(CONTENDERS)):
                    for load, took_s in _work(machines[name]).items():
                        seconds.setdefault((condition, name, load), []).append(took_s)
        print(f"round {number} of {options.rounds}", file=sys.stderr)
    return BenchResult(seconds=seconds, seed=options.seed, loads=loads)


@contextmanager
def _background_load(condition: str) -> Iterator[None]:
    """Run a busy process, if the condition has one."""
    if condition == IDLE:
        yield
        return
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _work(machine: UserModeLinux) -> dict[str, float]:
    """Boot a lab, have it work, and return how long each load took there (s)."""
    script = "; ".join(
        f"began=$EPOCHREALTIME; {command} >/dev/null; echo took $began $EPOCHREALTIME {name}"
        for name, command in LOADS.items()
    )
    took: dict[str, float] = {}

    def take(line: str) -> None:
        words = line.split(maxsplit=3)
        if words and words[0] == "took":
            took[words[3]] = float(words[2]) - float(words[1])

    with (
        tempfile.TemporaryDirectory(prefix="seatrial-bench-") as shared,
        open_lab(machine, new_run_id(), disks=1, disk_bytes=DISK_BYTES) as lab,
    ):
        # Twice: what is read for the first time comes through the host's page cache or does not.
        run_inside(lab, ["bash", "-c", f"{script}; {script}"], shared=Path(shared), report=take)
    return took


def section(measured: BenchResult) -> str:
    """Return the bench's section as Markdown."""
    rows = []
    for condition in CONDITIONS:
        for load in LOADS:
            own = {name: measured.seconds[condition, name, load] for name in CONTENDERS}
            rows.append(
                [
                    f"{load}, {condition}",
                    *(reported(median_estimate(own[name], "s"), 2) for name in (SHIPPED, FREE)),
                    reported(paired_ratio(own[FREE], own[SHIPPED]), 2),
                    reported(paired_ratio(own[AGAIN], own[SHIPPED]), 2),
                ]
            )
    loads = median_estimate(measured.loads, "load")
    return "\n\n".join(
        [
            "## The lab: all processes of its machine on one processor",
            f"Written by `bench/lab_speed.py` on {datetime.now(UTC):%Y-%m-%d} (UTC), "
            f"{format_plural(len(measured.loads), 'round')}, order from seed {measured.seed}. "
            "Seconds inside the guest, the second of two times after a boot. Intervals are of at "
            "least 95 %, by order statistics over rounds.",
            "\n".join(
                [
                    *machine_lines(),
                    f"- load average as the rounds began: {reported(loads, 1)}",
                ]
            ),
            table(
                [
                    "load",
                    f"{SHIPPED}, s",
                    f"{FREE}, s",
                    f"{FREE} / {SHIPPED}",
                    f"{AGAIN} / {SHIPPED} (the noise)",
                ],
                rows,
            ),
        ]
    )


if __name__ == "__main__":
    run_bench(
        SECTION,
        options_of(sys.argv[1:]),
        lambda options: section(measure(options)),
        (subprocess.CalledProcessError, SeatrialError),
    )
