"""The cost of watching block requests: small random reads alone against reads that are watched.

    bench/watch.py               the figures of bench/RESULTS.md: 12 rounds, about three minutes
    bench/watch.py --paced       likewise at 100,000 reads a second, which leave the processors room
    bench/watch.py --live        what a run costs that is shown on a page (--live), likewise
    bench/watch.py --quick       one short round, printed and not written: does it run?

In each round the same reads run four times in a new random order: alone, alone once more,
counted in the kernel (level 2), and handed over one by one (level 3). With --live they run alone,
alone once more, and with the option --live, whose page nobody opens. They are reads of 4 KiB at
32 in flight from a loop device in memory, which answers at once: the processor is the bound, so
that all that watching costs shows. On a slower device the same cost is a smaller share. It needs
root.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from command import at_least, parsed_options, run_bench
from paired import Bar, median_estimate, paired_ratio, reported
from results_page import machine_lines, table

from seatrial import _core
from seatrial.errors import SeatrialError
from seatrial.stats.model import Estimate

SECTION: Final = "watch"
PACED_SECTION: Final = "watch-paced"
LIVE_SECTION: Final = "live"
ALONE: Final = "alone"
AGAIN: Final = "alone again"
COUNTED: Final = "level 2"
RECORDED: Final = "level 3"
LIVE: Final = "--live"
CONTENDERS: Final = (ALONE, AGAIN, COUNTED, RECORDED)
LIVE_CONTENDERS: Final = (ALONE, AGAIN, LIVE)
LOSS_MOST: Final = 1.02
PACED_PER_S: Final = 100_000
SIZE_BYTES: Final = 256 << 20
SEATRIAL: Final = Path(sys.executable).with_name("seatrial")


@contextlib.contextmanager
def loop_in_memory() -> Iterator[Path]:
    """Yield a loop device over a file in memory, which nobody else uses."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        backing = Path(folder, "disk.img")
        backing.write_bytes(os.urandom(SIZE_BYTES))
        made = ["losetup", "--find", "--show", "--direct-io=off", str(backing)]
        device = subprocess.run(made, check=True, capture_output=True, text=True).stdout.strip()
        try:
            yield Path(device)
        finally:
            subprocess.run(["losetup", "-d", device], check=True)


def requests_per_s(
    device: Path, contender: str, seconds: float, due_per_s: int = 0
) -> tuple[float, int]:
    """Return the rate of reads of a contender, and what its watch did not see.

    Args:
        device: What is read.
        contender: Which of them.
        seconds: Length of a run.
        due_per_s: Reads that are due each second; 0 for as many as come through.
    """
    number = device.stat().st_rdev
    watch = None
    if contender in (COUNTED, RECORDED):
        devices = [(os.major(number), os.minor(number))]
        watch = _core.Watch(devices, records=contender == RECORDED)
    command = [str(SEATRIAL), "io", str(device), "--seconds", str(seconds), "--depth", "32"]
    command += [LIVE] if contender == LIVE else []
    command += ["--rate", str(due_per_s)] if due_per_s else []
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [*command, "--block-size", "4k", "--rounds", "1", "--json", "--no-report"],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"SEATRIAL_STATE_DIR": folder, "SEATRIAL_RESULTS": "r.seatrial"},
        )
        while watch is not None and process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.05 if contender == RECORDED else 1.0)
            watch.take_groups()
            watch.take_requests()
        document = json.loads(process.communicate()[0])
    (sample,) = document["samples"]
    lost = watch.lost() if watch is not None else None
    missed = lost.unmatched + lost.uncounted + lost.unrecorded + lost.missed if lost else 0
    return float(sample["completed_per_s"]), missed


def measure(
    rounds: int,
    seconds: float,
    seed: int,
    contenders: Sequence[str] = CONTENDERS,
    due_per_s: int = 0,
) -> tuple[dict[str, list[float]], dict[str, int]]:
    """Return reads_per_s by contender, one a round, and what was not seen of all rounds."""
    reads_per_s: dict[str, list[float]] = {each: [] for each in contenders}
    unseen = dict.fromkeys(contenders, 0)
    drawn = random.Random(seed)
    with loop_in_memory() as device:
        requests_per_s(device, ALONE, seconds)
        for _ in range(rounds):
            for contender in drawn.sample(contenders, len(contenders)):
                rate, missed = requests_per_s(device, contender, seconds, due_per_s)
                reads_per_s[contender].append(rate)
                unseen[contender] += missed
    return reads_per_s, unseen


def page(reads_per_s: dict[str, list[float]], unseen: dict[str, int], due_per_s: int = 0) -> str:
    """Return the section of bench/RESULTS.md, of reads at a rate if there is one."""
    ratios: dict[str, Estimate] = {
        each: paired_ratio(reads_per_s[ALONE], reads_per_s[each]) for each in CONTENDERS[1:]
    }
    rows = [
        [
            each,
            reported(median_estimate(reads_per_s[each], "IOPS"), 0),
            reported(ratios[each], 3) if each in ratios else "1",
            f"{unseen[each]:,}",
        ]
        for each in CONTENDERS
    ]
    bar = Bar(what="time per request, level 2", most=LOSS_MOST, estimate=ratios[COUNTED], digits=3)
    heads = ["Contender", "Reads/s", "Time per read against alone", "Requests not seen"]
    offered = f"{due_per_s:,} are due each second." if due_per_s else "The processor is the bound."
    return "\n\n".join(
        [
            f"## What watching costs at {due_per_s:,} reads a second"
            if due_per_s
            else "## What watching costs",
            "\n".join(machine_lines()),
            f"Random reads of 4 KiB at queue depth 32 from a loop device in memory, "
            f"{len(reads_per_s[ALONE])} rounds, medians with 95 % intervals. " + offered,
            table(heads, rows),
            f"- {bar.what}: {reported(bar.estimate, bar.digits)}, bar {bar.most}: {bar.verdict}",
        ]
    )


def live_page(reads_per_s: dict[str, list[float]]) -> str:
    """Return the section on a run that is shown on a page."""
    ratios = {
        each: paired_ratio(reads_per_s[ALONE], reads_per_s[each]) for each in LIVE_CONTENDERS[1:]
    }
    rows = [
        [
            each,
            reported(median_estimate(reads_per_s[each], "IOPS"), 0),
            reported(ratios[each], 3) if each in ratios else "1",
        ]
        for each in LIVE_CONTENDERS
    ]
    bar = Bar(what="time per request, --live", most=LOSS_MOST, estimate=ratios[LIVE], digits=3)
    return "\n\n".join(
        [
            "## What showing a run costs",
            "\n".join(machine_lines()),
            "The same reads, measured with `--live` and without, in "
            f"{len(reads_per_s[ALONE])} rounds; medians with 95 % intervals. No page is open.",
            table(["Contender", "Reads/s", "Time per read against alone"], rows),
            f"- {bar.what}: {reported(bar.estimate, bar.digits)}, bar {bar.most}: {bar.verdict}",
        ]
    )


def options_of(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    return parsed_options(
        arguments,
        __doc__,
        rounds=12,
        rounds_help="of four runs",
        quick_help="one round of half a second",
        quick={"seconds": 0.5},
        own={
            "--seconds": {"type": at_least(0.01), "default": 2.0, "help": "of each run"},
            "--paced": {"action": "store_true", "help": "at 100,000 reads a second"},
            "--live": {"action": "store_true", "help": "the cost of the option --live"},
        },
    )


def _text(options: argparse.Namespace) -> str:
    facts = (options.rounds, options.seconds, options.seed)
    if options.live:
        return live_page(measure(*facts, LIVE_CONTENDERS)[0])
    due_per_s = PACED_PER_S if options.paced else 0
    return page(*measure(*facts, due_per_s=due_per_s), due_per_s)


if __name__ == "__main__":
    parsed = options_of(sys.argv[1:])
    run_bench(
        LIVE_SECTION if parsed.live else PACED_SECTION if parsed.paced else SECTION,
        parsed,
        _text,
        (subprocess.CalledProcessError, SeatrialError),
    )
