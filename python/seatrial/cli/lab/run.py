"""A study measured inside the lab, and its run brought into the host's results file.

The guest stores its samples in a folder that it shares with the host, beside the results file: so
a lab that is killed loses no sample that had ended. Such a run is brought home by the next
``seatrial lab`` with the same results file.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click
import msgspec

from seatrial import interrupts
from seatrial.cli.lab.inside import RESULTS, End, Order
from seatrial.cli.terminal import STOPPING
from seatrial.errors import ResultsFileError, TargetError, UsageError
from seatrial.findings.context import is_of_lab
from seatrial.lab.choosing import KINDS
from seatrial.lab.init import KERNEL_LOG
from seatrial.lab.machine import Machine
from seatrial.lab.session import BootError, open_lab, run_inside
from seatrial.machine.marker import new_run_id
from seatrial.results.copying import bring_run, copy_run
from seatrial.results.model import Run
from seatrial.results.store import ResultsFile
from seatrial.study.layouts.drives import parse_drives
from seatrial.study.load import study_to_mapping
from seatrial.study.model import Plan
from seatrial.study.schema import Study

_LOCK: Final = "lock"
_SUFFIX: Final = ".lab-"


class LabRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a command asks of the lab.

    Attributes:
        study: The study, with its number and size of disks.
        machines: On which it may run, the best first.
        memory_bytes: Memory of the guest.
        results: The host's results file.
        command: The command line, to be kept with the run.
        label: What the user calls the run.
        is_quiet: Whether nothing is told of the progress.
        resume: The run of the results file that is gone on with; empty for a new one.
    """

    study: Study
    machines: list[Machine]
    memory_bytes: int
    results: Path
    command: str
    label: str
    is_quiet: bool
    resume: str = ""


def measure_in_lab(request: LabRequest) -> tuple[Run, str]:
    """Measure a study inside the first machine that boots; return its stored run and its reason.

    Raises:
        TargetError: when no machine boots, or one ends before the study does; samples measured
            before are stored.
        SeatrialError: when the study cannot be measured, as it was raised inside.
        KeyboardInterrupt: when interrupted before there was a run.
    """
    with _shared(request.results) as folder:
        if request.resume:
            _hand_over(request.resume, request.results, folder)
        interrupted = False
        try:
            interrupted = _boot_any(request, folder)
        finally:
            run, end, words = _bring_home(folder, request.results)
    if end is not None:
        end.raise_error()
    if run is not None:
        return run, end.reason if end else "It was interrupted."
    if interrupted:
        raise KeyboardInterrupt
    raise _nothing_measured(words)


def bring_home_left(results: Path) -> list[Run]:
    """Store what killed labs have left beside a results file; return their runs."""
    runs = []
    for folder in sorted(results.absolute().parent.glob(f"{results.name}{_SUFFIX}*")):
        try:
            with _locked(folder):
                run, _end, _words = _bring_home(folder, results)
        except BlockingIOError:
            continue
        if run is not None:
            runs.append(run)
    return runs


def _boot_any(request: LabRequest, folder: Path) -> bool:
    """Run the study in the first machine that boots; tell whether it was interrupted."""
    refusals: list[BootError] = []
    for machine in request.machines:
        try:
            return _run(request, machine, folder)
        except BootError as error:
            refusals.append(error)
            click.echo(error.seen, err=True)
    last = refusals[-1]
    raise TargetError(
        seen=" ".join(error.seen for error in refusals),
        cause=last.cause,
        next_step=_way_out([machine.name for machine in request.machines]),
    )


def _way_out(tried: Sequence[str]) -> str:
    """Return what to do where none of the machines that were tried has booted."""
    outside = "run the study as root with --loop, or on another machine"
    absent = next((kind for kind in KINDS if kind.name not in tried), None)
    if absent is None:
        return f"End what keeps this machine busy and try again; else {outside}"
    program = f"{obstacle}; " if (obstacle := absent.obstacle()) else ""
    set_up = f"`seatrial lab --setup --machine {absent.name}` fetches another machine"
    return f"{program}{set_up}, which `seatrial lab --machine {absent.name}` takes; or {outside}"


def _run(request: LabRequest, machine: Machine, folder: Path) -> bool:
    count, size_bytes = parse_drives(request.study.drives.lab)
    with (
        interrupts.stopping_with(STOPPING),
        open_lab(machine, new_run_id(), disks=count, disk_bytes=size_bytes) as lab,
    ):
        if not request.is_quiet:
            disks = f"{count} disks of {size_bytes >> 20} MiB"
            click.echo(f"Starting {machine.label} with {disks}; {machine.limits}.", err=True)
        order = Order(
            study=study_to_mapping(request.study),
            devices=lab.devices,
            # They were made for this run alone, and hold nothing.
            destroy=",".join(lab.serials),
            command=request.command,
            label=request.label,
            is_quiet=request.is_quiet,
            resume=request.resume,
        )
        order.write(folder)
        try:
            run_inside(
                lab,
                [sys.executable, "-m", "seatrial.cli.lab.inside", str(folder)],
                shared=folder,
                report=lambda line: click.echo(line, err=True),
                memory_bytes=request.memory_bytes,
            )
        except KeyboardInterrupt:
            return True
    return False


def unfinished(plan: Plan, results: Path) -> str:
    """Return the newest run of a plan that was measured in the lab, if it did not complete.

    Raises:
        UsageError: when there is none.
    """
    count, _size_bytes = parse_drives(plan.study.drives.lab)
    with ResultsFile.open(results) as store:
        run = store.find_resumable(plan.plan_hash, [each.place for each in plan.study.targets])
    if run is None or not is_of_lab(run) or len(run.study["drives"]["devices"]) != count:
        raise UsageError(
            seen=f"{results} holds no unfinished run of this plan in the lab",
            cause="It was completed, or the study, its options or the number of disks changed "
            "since",
            next_step="Start it without --resume; `seatrial list` shows the runs",
        )
    return run.id


def _hand_over(run_id: str, results: Path, folder: Path) -> None:
    """Lay a run into the folder that host and guest share, for the guest to go on with."""
    with (
        ResultsFile.open(results, read_only=True) as store,
        ResultsFile.open(folder / RESULTS, create=True) as inner,
    ):
        copy_run(store, run_id, inner)


def _bring_home(folder: Path, results: Path) -> tuple[Run | None, End | None, str]:
    """Store the run of a shared folder, if there is one, and remove the folder.

    Returns the run, how its measuring ended, and the last words of the lab's kernel.
    """
    run = None
    inner = folder / RESULTS
    if inner.exists():
        with ResultsFile.open(inner, create=True) as source:
            runs = source.runs()
            if runs:
                with ResultsFile.open(results, create=True) as store:
                    run = bring_run(source, runs[0].id, store)
    end = End.read(folder)
    log = folder / KERNEL_LOG
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    shutil.rmtree(folder)
    return run, end, (lines or ["nothing"])[-1]


@contextmanager
def _shared(results: Path) -> Iterator[Path]:
    """Make the folder that guest and host share, held until the end."""
    place = results.absolute()
    folder = place.with_name(f"{place.name}{_SUFFIX}{new_run_id()}")
    try:
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise ResultsFileError(
            seen=f"Nothing can be written beside the results file {results}: {error.strerror}",
            cause="The lab shares a folder there with the host until its run is stored",
            next_step="Name a results file in a directory of your own: --results FILE",
        ) from None
    (folder / _LOCK).touch()
    with _locked(folder):
        yield folder


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold a shared folder; raises BlockingIOError when a lab that runs holds it."""
    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _nothing_measured(words: str) -> TargetError:
    return TargetError(
        seen=f"The lab measured nothing; its kernel said last: {words}",
        cause="The command inside ended before its first sample, as it told above",
        next_step="Give the lab more memory with --memory 2G, and see what it says without --json",
    )
