"""Planted bounds of a database: is the verdict right, inconclusive or wrong?

    bench/planted_bounds.py               20 rounds, the section `planted` of bench/RESULTS.md
    bench/planted_bounds.py --quick       each bound once, printed and not written: does it run?

Each bound is planted on a real PostgreSQL, on loop devices of the bench: once on an idle machine,
once with other load, which uses the processors in one round and the same disk in the next. One
sample is judged at a time, as in a run of one round. `right` names the planted bound,
`inconclusive` names none, anything else is wrong. It needs root.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from command import at_least, parsed_options, run_bench
from results_page import ROOT, machine_lines, table
from throttled import mounted, obstacle, throttled

from seatrial.cli.study_command import plan_of
from seatrial.errors import SeatrialError
from seatrial.findings.summary import summarise_cell
from seatrial.machine.file import TrialFolder
from seatrial.machine.undo_journal import UndoJournal
from seatrial.measure.engine import SampleContext
from seatrial.measure.progress import SilentWatcher
from seatrial.stats.wording import format_plural
from seatrial.study.cell import Cell
from seatrial.trials.database.analysis.cells import database_cell
from seatrial.trials.database.analysis.model import TimeVerdict
from seatrial.trials.database.measure.stage import Databases

SECTION: Final = "planted"
DISK_BYTES: Final = 3 << 30
LOAD_FILE_BYTES: Final = 64 << 20
ALONE: Final = "alone"
CONDITIONS: Final = (ALONE, "with other load")
KINDS: Final = ("processors", "disk")
"""The resource that the other load uses, by turns."""
RIGHT: Final = "right"
INCONCLUSIVE: Final = "inconclusive"
WRONG: Final = "wrong"


@dataclass(frozen=True)
class PlantedBound:
    """A bound and how it is planted.

    Attributes:
        bound: Its name.
        disk: The disk of the data, ``fast`` or ``slow``.
        keys: Keys of its workload in the study file.
        script: Script of pgbench; empty for a built-in one.
        requests_per_s: Limit of the disk during samples, for reads and writes each; 0 for none.
        bytes_per_s: Likewise.
    """

    bound: str
    disk: str
    keys: dict[str, str]
    script: str = ""
    requests_per_s: int = 0
    bytes_per_s: int = 0


COMPUTES: Final = "\n".join(
    [
        "\\set a random(1, 1000000)",
        *("\\set a hash(:a) % 1000003 + random_gaussian(1, 1000, 3.0)" for _ in range(400)),
        "SELECT :a;",
    ]
)
HOT_ROW: Final = """
BEGIN;
UPDATE pgbench_branches SET bbalance = bbalance + 1 WHERE bid = 1;
SELECT pg_sleep(0.002);
END;
"""
CHECKPOINTS: Final = """
\\set aid random(1, 100000 * :scale)
\\set turn random(1, 5)
\\if :turn = 1
CHECKPOINT;
\\else
UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :aid;
\\endif
"""
PLANTS: Final = (
    PlantedBound(
        "cpu",
        "fast",
        {"scripts": '"select-only"', "clients": "4", "jobs": "2", "start": '"prewarmed"'},
    ),
    PlantedBound("lock", "fast", {"clients": "12"}, script=HOT_ROW),
    PlantedBound("client", "fast", {"clients": "6", "jobs": "1"}, script=COMPUTES),
    PlantedBound(
        "read",
        "slow",
        {"scripts": '"select-only"', "clients": "4"},
        requests_per_s=300,
        bytes_per_s=20_000_000,
    ),
    PlantedBound(
        "commit",
        "slow",
        {"scripts": '"simple-update"', "clients": "4", "start": '"prewarmed"'},
        requests_per_s=200,
        bytes_per_s=20_000_000,
    ),
    PlantedBound(
        "checkpoint",
        "slow",
        {"clients": "8", "start": '"prewarmed"'},
        script=CHECKPOINTS,
        requests_per_s=400,
        bytes_per_s=4_000_000,
    ),
)


class OtherLoad:
    """Other load, and the limits of the bound's disk, while a sample is measured.

    Args:
        plant: The planted bound.
        point: The disk's mount point.
        kind: The resource that the other load uses, one of ``KINDS``; empty for none.
    """

    def __init__(self, plant: PlantedBound, point: Path, kind: str) -> None:
        self._plant = plant
        self._point = point
        self._kind = kind
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        if self._plant.requests_per_s:
            limits = {
                "requests_per_s": self._plant.requests_per_s,
                "bytes_per_s": self._plant.bytes_per_s,
            }
            self._stack.enter_context(throttled(self._point, **limits))
        if self._kind == "processors":
            for _ in range(os.cpu_count() or 1):
                self._stack.enter_context(stranger("while True: pass"))
        elif self._kind == "disk":
            self._stack.enter_context(stranger(_IO_LOAD, str(self._point / "others")))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def settle(self) -> None:
        """Nothing is left to wait for."""


_IO_LOAD: Final = f"""
import mmap, os, random, sys, threading
file = os.open(sys.argv[1], os.O_RDWR | os.O_DIRECT)
def load():
    page = mmap.mmap(-1, 16384)
    while True:
        at = random.randrange({LOAD_FILE_BYTES} // 16384) * 16384
        os.preadv(file, [page], at)
        os.pwritev(file, [page], at)
for _ in range(3):
    threading.Thread(target=load, daemon=True).start()
load()
"""


@contextmanager
def stranger(program: str, *arguments: str) -> Iterator[None]:
    """Run a Python program that is not a descendant of this process, and end it.

    The shell that starts it ends at once, so that the kernel gives it another parent.
    """
    shell = 'exec 2>/dev/null; "$@" >/dev/null & echo $!'
    words = ["sh", "-c", shell, "sh", sys.executable, "-c", program, *arguments]
    printed = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout
    try:
        yield
    finally:
        os.kill(int(printed), signal.SIGKILL)


@dataclass(frozen=True)
class JudgedBound:
    """The verdict on one planted bound.

    Attributes:
        plant: The bound that was planted.
        condition: One of ``CONDITIONS``.
        verdict: The verdict of Seatrial.
    """

    plant: str
    condition: str
    verdict: TimeVerdict

    @property
    def outcome(self) -> str:
        """Whether it was right, inconclusive or wrong."""
        if self.verdict.bound == INCONCLUSIVE:
            return INCONCLUSIVE
        return RIGHT if self.verdict.bound == self.plant else WRONG


@dataclass(frozen=True, kw_only=True)
class BenchResult:
    """All that a run of the bench measured.

    Attributes:
        conditions: The machine and the versions, as Markdown items.
        judged: The verdict on each planted bound.
        rounds: How often each was planted under each condition.
        seconds: Length of a sample.
        seed: Of the order.
        loads: Load averages as the rounds began.
    """

    conditions: Sequence[str]
    judged: Sequence[JudgedBound]
    rounds: int
    seconds: int
    seed: int
    loads: Sequence[float] = field(default_factory=list)


class Disk:
    """A server on a loop device of its own, loaded once for all plants on it.

    Args:
        folder: For the study and the scripts.
        point: Where the device is mounted.
        plants: What is planted there.
        seconds: Length of a sample.
    """

    def __init__(
        self,
        folder: Path,
        point: Path,
        plants: Sequence[PlantedBound],
        seconds: int,
        stack: ExitStack,
    ) -> None:
        self._point = point
        self._plan = plan_of(str(_study(folder, point, plants, seconds)))
        journal = stack.enter_context(UndoJournal(f"planted-{os.getpid()}-{point.name}"))
        self._databases = Databases(self._plan, journal)
        (target,) = self._plan.targets
        opened = TrialFolder(target.path, journal.run_id, journal)
        stack.callback(opened.remove)  # it keeps the device busy until it is gone
        stack.callback(self._databases.close)
        self._databases.open()
        opened.open(self._databases.needed_bytes(target.label), direct=False)
        self._databases.use(target.label, opened)
        self._databases.prepare(SilentWatcher())
        (point / "others").write_bytes(bytes(LOAD_FILE_BYTES))

    def judge(self, plant: PlantedBound, kind: str, round_number: int) -> TimeVerdict:
        """Measure a planted bound once and return the verdict.

        Args:
            plant: A bound of this disk.
            kind: The resource that the other load uses, one of ``KINDS``; empty for none.
            round_number: From 0.
        """
        alongside = OtherLoad(plant, self._point, kind)
        sample = self._databases.measure(
            self._cell(plant), SampleContext(round_number, 0, SilentWatcher(), alongside)
        )
        cpus = float(len(os.sched_getaffinity(0)))
        return database_cell(summarise_cell([sample]), cpus).verdict

    def _cell(self, plant: PlantedBound) -> Cell:
        (cell,) = (cell for cell in self._plan.cells if cell.workload == plant.bound)
        return cell


def _study(folder: Path, point: Path, plants: Sequence[PlantedBound], seconds: int) -> Path:
    """Write the study of a disk's plants."""
    parts = [f'name = "planted"\n[[target]]\nlabel = "{point.name}"\npath = "{point}"\n']
    for plant in plants:
        keys = {"scale": "20", "clone": '"reuse"', "seconds": str(seconds), **plant.keys}
        if plant.script:
            script = folder / f"{plant.bound}.sql"
            script.write_text(plant.script.lstrip())
            keys["scripts"] = f'"{script}"'
        lines = "\n".join(f"{name} = {value}" for name, value in keys.items())
        parts.append(f'[[workload]]\nkind = "pgbench"\nname = "{plant.bound}"\n{lines}\n')
        # Room for all data, so that only the planted bound reads from the disk.
        buffers = "64MB" if plant.bound == "read" else "512MB"
        parts.append(f'[workload.settings]\nshared_buffers = "{buffers}"\nautovacuum = "off"\n')
    path = folder / f"{point.name}.toml"
    path.write_text("\n".join(parts))
    return path


def options_of(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    return parsed_options(
        arguments,
        __doc__,
        rounds=20,
        rounds_help="how often each bound is planted, with and without others",
        quick_help="each bound once: alone or with other load, alternately",
        own={
            "--seconds": {"type": at_least(3), "default": 4, "help": "length of a sample"},
            "--bounds": {"nargs": "+", "choices": [plant.bound for plant in PLANTS]},
            "--verbose": {"action": "store_true", "help": "print every verdict's sentence"},
        },
    )


def measure(options: argparse.Namespace) -> BenchResult:
    """Create both disks and their servers, run the rounds, remove everything.

    Raises:
        SeatrialError: When there is no PostgreSQL, or it does not run here.
        CalledProcessError: When a disk cannot be made.
    """
    plants = [plant for plant in PLANTS if not options.bounds or plant.bound in options.bounds]
    conditions = machine_lines()
    cache = ROOT / ".cache"
    cache.mkdir(exist_ok=True)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=cache)))
        folder.chmod(0o755)
        disks = {}
        for name in dict.fromkeys(plant.disk for plant in plants):
            point = stack.enter_context(mounted(folder, name, DISK_BYTES))
            own = [plant for plant in plants if plant.disk == name]
            disks[name] = Disk(folder, point, own, options.seconds, stack)
        rng = random.Random(options.seed)
        judged: list[JudgedBound] = []
        loads = []
        for number in range(options.rounds):
            loads.append(os.getloadavg()[0])
            judged += _round(disks, plants, rng, number, options)
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
    return BenchResult(
        conditions=conditions,
        judged=judged,
        rounds=options.rounds,
        seconds=options.seconds,
        seed=options.seed,
        loads=loads,
    )


def _round(
    disks: dict[str, Disk],
    plants: Sequence[PlantedBound],
    rng: random.Random,
    number: int,
    options: argparse.Namespace,
) -> Iterator[JudgedBound]:
    """Plant every bound once under each condition, in a new random order.

    With ``--quick`` under one of them, by turns; the other load still uses each of ``KINDS``.
    """
    pairs = [
        (plant, condition)
        for index, plant in enumerate(plants)
        for turn, condition in enumerate(CONDITIONS)
        if not options.quick or turn == index % len(CONDITIONS)
    ]
    for plant, condition in rng.sample(pairs, len(pairs)):
        turn = number + plants.index(plant) // len(CONDITIONS)
        kind = "" if condition == ALONE else KINDS[turn % len(KINDS)]
        verdict = disks[plant.disk].judge(plant, kind, number)
        judged = JudgedBound(plant.bound, condition, verdict)
        if options.verbose or judged.outcome == WRONG:
            alongside = f"others take the {kind}" if kind else condition
            reported = textwrap.fill(verdict.sentence, 100, initial_indent="  ")
            print(f"{plant.bound}, {alongside}: {judged.outcome}\n{reported}", file=sys.stderr)
        yield judged


def section(measured: BenchResult) -> str:
    """Return the bench's section as Markdown."""
    loads = f"{min(measured.loads, default=0.0):.1f} to {max(measured.loads, default=0.0):.1f}"
    return "\n\n".join(
        [
            "## What bounds a database, planted",
            f"Written by `bench/planted_bounds.py` on {datetime.now(UTC):%Y-%m-%d} (UTC), "
            f"{format_plural(measured.rounds, 'round')} of samples of {measured.seconds} s, order "
            f"from seed {measured.seed}. Each bound is planted on a loop device of its own kind, "
            "and each verdict rests on one sample. With other load: as many endless loops as "
            "processors, in every other round four threads that read and write the same disk.",
            "\n".join(
                [*measured.conditions, f"- load average as the rounds began: {loads}"],
            ),
            "At least 95 % must be right or inconclusive, and none may be wrong.",
            table(
                ["planted", "condition", RIGHT, INCONCLUSIVE, WRONG, "said"],
                list(_rows(measured.judged)),
            ),
        ]
    )


def _rows(judged: Sequence[JudgedBound]) -> Iterator[list[str]]:
    """Yield a row for each bound and condition, and one for all of them."""
    pairs = dict.fromkeys((each.plant, each.condition) for each in judged)
    for plant, condition in sorted(pairs):
        own = [each for each in judged if (each.plant, each.condition) == (plant, condition)]
        said = Counter(_said(each.verdict) for each in own)
        reported = ", ".join(f"{count} {bound}" for bound, count in said.most_common())
        yield [plant, condition, *_counts(own), reported]
    yield ["all", "", *_counts(judged), ""]


def _said(verdict: TimeVerdict) -> str:
    likely = f" ({verdict.likely} if anything)" if verdict.likely else ""
    return f"{verdict.bound}{likely}"


def _counts(judged: Sequence[JudgedBound]) -> list[str]:
    counts = Counter(each.outcome for each in judged)
    return [str(counts[outcome]) for outcome in (RIGHT, INCONCLUSIVE, WRONG)]


if __name__ == "__main__":
    if reason := obstacle():
        sys.exit(f"{sys.argv[0]}: {reason}")
    run_bench(
        SECTION,
        options_of(sys.argv[1:]),
        lambda options: section(measure(options)),
        (subprocess.CalledProcessError, SeatrialError),
    )
