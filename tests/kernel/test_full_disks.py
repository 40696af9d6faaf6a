"""Disks that fill up in mid-run: the results', that of layouts' drives, that of a trial file."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from cli.command import SEATRIAL, Ended, ended, own, start
from measure.studies import wait_until
from seatrial.errors import ResultsFileError
from seatrial.results.model import Sample
from seatrial.results.store import ResultsFile
from trials.layouts.measure.test_stage import devices_of, require_btrfs

pytestmark = pytest.mark.root

PIECES_BYTES = (4 << 20, 64 << 10, 4 << 10)


class Filler:
    """A file of somebody else's that takes all the space that is left."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "others.dat"

    def fill(self) -> None:
        with self.path.open("ab") as file:
            for piece_bytes in PIECES_BYTES:
                with suppress(OSError):
                    while True:
                        end = os.fstat(file.fileno()).st_size
                        os.posix_fallocate(file.fileno(), end, piece_bytes)

    def keep_full(self, process: subprocess.Popen[str], timeout_s: float) -> Ended:
        """Take what others give back, too, until a command has ended."""
        ending = threading.Event()

        def go_on() -> None:
            while not ending.wait(0.01):
                self.fill()

        filling = threading.Thread(target=go_on)
        filling.start()
        try:
            return ended(process, timeout_s)
        finally:
            ending.set()
            filling.join()

    def empty(self) -> None:
        self.path.unlink(missing_ok=True)


@pytest.fixture
def small(request, file_system) -> Iterator[Path]:
    """A folder on a file system of 400 MiB on a loop device; ``ext4`` unless the test says other.

    It is on no other test's way, and empty again in the end.
    """
    kind = getattr(request, "param", "ext4")
    place = file_system(kind, 9).folder
    yield place
    Filler(place).empty()


MEASURED = r"(?sm)^ .* IOPS .*\n.*^Confidence: "
"""A row with a figure and how much it can be trusted: the short answer of a run."""


def samples_in(path: Path) -> list[Sample]:
    """What is stored, of a file that somebody may be writing to."""
    with suppress(ResultsFileError), ResultsFile.open(path, read_only=True) as file:
        return [sample for run in file.runs() for sample in file.samples(run.id)]
    return []


def wait_for(process: subprocess.Popen[str], condition: Callable[[], object]) -> None:
    """Wait for something of a command; one that ends before has failed."""
    wait_until(lambda: condition() or process.poll() is not None, "what is to come")
    assert process.poll() is None, ended(process)


def goes_on(reported: Ended, folder: Path) -> Ended:
    """Run the line that a command printed for going on."""
    (line,) = re.findall(r"^Resume: \S*seatrial (.*)$", reported.out, re.MULTILINE)
    done = subprocess.run(
        [SEATRIAL, *shlex.split(line)], cwd=folder, env=os.environ | own(folder), check=False,
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    return Ended(done.returncode, done.stdout, done.stderr)


NULL = """
name = "null"
rounds = { min = 40, max = 40 }

[[target]]
kind = "null"

[[workload]]
kind = "io"
threads = [1, 2]
seconds = 0.1
"""


def test_the_results_disk_fills_up_and_nothing_is_lost(small, tmp_path):
    (tmp_path / "study.toml").write_text(NULL)
    results = small / "results.seatrial"
    process = start("study", "study.toml", "--results", results, folder=tmp_path)
    wait_for(process, lambda: len(samples_in(results)) >= 3)
    Filler(small).fill()
    reported = ended(process)
    assert reported.code == 8, reported
    assert f"No space left on {small}, which holds the results file" in reported.err
    assert "All measured results are in" in reported.err
    assert re.search(MEASURED, reported.out), "the answer from what was measured"
    (rescued,) = tmp_path.glob("results-rescued-*.seatrial")
    kept, former = samples_in(rescued), samples_in(results)
    assert len(kept) == len(former) + 1 >= 4
    assert f"--results {rescued} --resume" in reported.out
    again = goes_on(reported, tmp_path)
    assert again.code == 0, again
    assert len(samples_in(rescued)) == 80


LAYOUTS = """
name = "full"
rounds = {{ min = 3, max = 3 }}
[drives]
loop = "2x130M"
folder = "{place}"
[[layout]]
name = "pair"
backend = "btrfs"
level = ["raid1", "single"]
drives = 2
filesystem = "btrfs"
size = "32MiB"
[[workload]]
name = "rw"
kind = "io"
operations = "write"
block_sizes = "4KiB"
seconds = 1.5
"""


@pytest.mark.parametrize("samples_before", [1, 3])
def test_the_disk_of_layouts_drives_fills_up(small, tmp_path, samples_before):
    """In a cell or while an array is built: the drives are files of holes, and have no room."""
    require_btrfs()
    drives = small / "drives"
    drives.mkdir(exist_ok=True)
    (tmp_path / "study.toml").write_text(LAYOUTS.format(place=drives))
    results = tmp_path / "results.seatrial"
    process = start("study", "study.toml", folder=tmp_path)
    wait_for(process, lambda: len(samples_in(results)) >= samples_before)
    reported = Filler(small).keep_full(process, timeout_s=120)
    assert reported.code == 8, reported
    assert f"No space left on {drives}" in reported.err
    assert re.search(MEASURED, reported.out), "the answer from what was measured"
    assert devices_of(drives) == []
    Filler(small).empty()
    again = goes_on(reported, tmp_path)
    assert again.code == 0, again
    assert len(samples_in(results)) == 6


IO = ("--operation", "write", "--size", "64MiB", "--seconds", "20", "--rounds", "2")


@pytest.mark.parametrize("small", ["btrfs"], indirect=True)
@pytest.mark.parametrize("depth", [1, 16], ids=["psync", "io_uring"])
def test_io_on_a_disk_that_fills_up_reports_what_was_measured(small, tmp_path, depth):
    """On btrfs, which writes nothing in place, a trial file that was filled needs space, too."""
    require_btrfs()
    process = start("io", small, *IO, "--depth", str(depth), folder=tmp_path)
    wait_for(process, lambda: has_begun(small))
    Filler(small).fill()
    reported = ended(process)
    assert reported.code == 8, reported
    assert f"No space left on {small}" in reported.err
    assert re.search(r"[\d,]+ of [\d,]+ requests", reported.out), "how many have failed"
    assert re.search(rf"^Repeat: \S*seatrial io {small} ", reported.out, re.MULTILINE)
    (sample,) = samples_in(tmp_path / "results.seatrial")
    assert {error.name for error in sample.errors} == {"ENOSPC"}
    assert sample.outcome.failed > 0
    assert [entry.name for entry in small.iterdir()] == ["others.dat"]


def test_io_on_a_disk_that_fills_up_under_the_fill_says_so(small, tmp_path):
    process = start("io", small, "--size", "256MiB", *IO[:2], folder=tmp_path)
    wait_for(process, lambda: list(small.glob(".seatrial-*/trial.dat")))
    Filler(small).fill()
    reported = ended(process)
    if reported.code == 0:
        pytest.skip("its file had its place before the other took the rest")
    assert reported.code == 8, reported
    assert f"No space left on {small}" in reported.err


def has_begun(place: Path) -> bool:
    """Whether the trial file is filled, and written to by more than the fill."""
    files = place.glob(".seatrial-*/trial.dat")
    return any(file.stat().st_size == 64 << 20 for file in files)
