"""A cluster of four hosts on this machine, for all tests that need one, and a throttled target.

It takes half a minute to start, so that it is started once; a host that a test lost is started
again. Tests that lose the head or the lab start their own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from kernel.injections import Group, blkio, remove_group
from seatrial.cli.study_command import plan_of
from seatrial.fleet.lab import FleetLab, LabRequest
from seatrial.machine.undo_journal import UndoJournal
from seatrial.measure.progress import SilentWatcher
from seatrial.measure.rounds import interleaved
from seatrial.measure.run import RunRequest, execute
from seatrial.results.model import Sample
from seatrial.results.store import ResultsFile
from seatrial.stats.cell_estimates import settled

HOSTS = 4
IMAGE_BYTES = 400 << 20
LIMIT_IOPS = 1500
ONE_ROUND = ("min = 3\nmax = 3", "min = 1\nmax = 1")


def require_ray() -> None:
    """Skip where Ray or root is missing, or the kernel forbids networks of our own."""
    if os.geteuid() != 0:
        pytest.skip("needs root for network namespaces")
    if find_spec("ray") is None:
        pytest.skip("needs the extra seatrial[ray]")
    if shutil.which("ip") is None:
        pytest.skip("needs iproute2")
    name = f"seatrial-test-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], check=False, capture_output=True)
    if made.returncode:
        pytest.skip(f"needs network namespaces: {made.stderr.decode().strip()}")
    subprocess.run(["ip", "netns", "delete", name], check=True)


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@contextmanager
def throttled_folder(place: Path) -> Iterator[Path]:
    """A file system on a loop device of which this process and its children get so much."""
    memory, point = place / "memory", place / "target"
    with ExitStack() as undo:
        memory.mkdir()
        point.mkdir()
        run("mount", "-t", "tmpfs", "-o", f"size={IMAGE_BYTES}", "seatrial-test", str(memory))
        undo.callback(run, "umount", "-l", str(memory))
        image = memory / "image"
        with image.open("wb") as made:
            made.truncate(IMAGE_BYTES)
        run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0", str(image))
        loop = run("losetup", "--find", "--show", "--direct-io=off", str(image)).strip()
        undo.callback(run, "losetup", "-d", loop)
        run("mount", loop, str(point))
        undo.callback(run, "umount", "-l", str(point))
        blkio()
        group = undo.enter_context(Group())
        (group.path / "cgroup.procs").write_text(str(os.getpid()))
        undo.callback(remove_into_parent, group.path)
        number = (Path("/sys/block") / Path(loop).name / "dev").read_text().strip()
        group.limit(number, LIMIT_IOPS)
        yield point


def remove_into_parent(group: Path) -> None:
    (group.parent / "cgroup.procs").write_text(str(os.getpid()))


@contextmanager
def lab_of(request: LabRequest, name: str) -> Iterator[FleetLab]:
    journal = UndoJournal(name)
    with journal, FleetLab(request, journal) as built:
        yield built


def measured(folder: Path, study: str, address: str, *, resume=None):
    """Measure a study on the hosts of a cluster: the run, how it ended, its samples."""
    path = folder / "study.toml"
    path.write_text(study)
    request = RunRequest(
        plan=plan_of(str(path)), command="seatrial study", ray=address, resume=resume
    )
    with ResultsFile.open(folder / "results.seatrial", create=True) as store:
        run_, end = execute(request, store, watcher=SilentWatcher(), strategy=interleaved(settled))
        return run_, end, store.samples(run_.id)


def stored(results: Path) -> list[Sample]:
    """All samples that a results file has by now; none where it is not there yet."""
    if not results.exists():
        return []
    with ResultsFile.open(results, read_only=True) as store:
        return [sample for run_ in store.runs() for sample in store.samples(run_.id)]


def study_of(target: Path, counts: str, *, hosts: str = "", workload: str = "") -> str:
    return f"""
name = "fleet"
[rounds]
min = 3
max = 3
remeasure = 0
[hosts]
counts = {counts}
{hosts}
[[target]]
path = "{target}"
size = "32MiB"
[[workload]]
kind = "io"
operations = "read"
block_sizes = "4KiB"
{workload or "threads = 4" + chr(10) + "seconds = 2"}
"""


__all__ = [
    "HOSTS",
    "LIMIT_IOPS",
    "ONE_ROUND",
    "lab_of",
    "measured",
    "remove_group",
    "stored",
    "study_of",
]
