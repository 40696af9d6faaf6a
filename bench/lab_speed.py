"""What it is worth that a lab's processes share one processor.

    bench/lab_speed.py          the figures of bench/RESULTS.md: 10 rounds, about eight minutes
    bench/lab_speed.py --quick  one round, printed and not written: does it run?

In each round a lab boots and works three times in an order drawn afresh, first on an idle machine,
then beside a process that computes all the time: on one processor as shipped, so once more (how far
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

from command import leave_published_page, parser_of, run_bench
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
BUSY: Final = "beside a process that computes"
PLACES: Final = (IDLE, BUSY)
LOADS: Final = {
    "20 programs started": "for i in $(seq 20); do mdadm --version 2>/dev/null; done",
    "seatrial imported": f"{sys.executable} -c 'import seatrial.cli.outcome, seatrial.measure.run'",
    "4,000 writes of 4 KiB, O_DIRECT": (
        "dd if=/dev/zero of=/dev/ubda bs=4k count=4000 oflag=direct 2>/dev/null"
    ),
}
DISK_BYTES: Final = 64 << 20


class AnyProcessor(UserModeLinux):
    """The lab as it would be without one processor of its own."""

    one_processor: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class BenchResult:
    """All that a run of the bench measured.

    Attributes:
        seconds: Time by place, contender and load, one value per round.
        seed: Of the order.
        loads: Load averages, one per round.
    """

    seconds: dict[tuple[str, str, str], list[float]]
    seed: int
    loads: list[float]


def options_of(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = parser_of(
        __doc__, rounds=10, rounds_help="how often every lab works", quick_help="one round"
    )
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    if options.quick:
        leave_published_page(options)
    return options


def main(arguments: Sequence[str]) -> int:
    """Run the bench; 0 when it ran, whatever it found."""
    return run_bench(
        "bench/lab_speed.py",
        SECTION,
        options_of(arguments),
        lambda options: section(measure(options)),
        (subprocess.CalledProcessError, SeatrialError),
    )


def measure(options: argparse.Namespace) -> BenchResult:
    """Let every lab work in every place once a round, in an order drawn afresh.

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
        for place in PLACES:
            with _company(place):
                for name in rng.sample(CONTENDERS, len(CONTENDERS)):
                    for load, took_s in _work(machines[name]).items():
                        seconds.setdefault((place, name, load), []).append(took_s)
        print(f"round {number} of {options.rounds}", file=sys.stderr)
    return BenchResult(seconds=seconds, seed=options.seed, loads=loads)


@contextmanager
def _company(place: str) -> Iterator[None]:
    """Have a process compute meanwhile, where the place wants one."""
    if place == IDLE:
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
        run_inside(lab, ["bash", "-c", f"{script}; {script}"], shared=Path(shared), tell=take)
    return took


def section(measured: BenchResult) -> str:
    """Return the bench's section as Markdown."""
    rows = []
    for place in PLACES:
        for load in LOADS:
            own = {name: measured.seconds[place, name, load] for name in CONTENDERS}
            rows.append(
                [
                    f"{load}, {place}",
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
    sys.exit(main(sys.argv[1:]))
