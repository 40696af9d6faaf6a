"""Measures a study inside the lab and copies its run into the host's results file.

The guest stores its samples in a folder shared with the host, next to the results file, so a killed
lab loses no completed sample. The next ``seatrial lab`` with the same results file imports such a
run.

The request and the result are files in the shared folder; the samples are in a results file there,
each committed as it ends.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click
import msgspec

from seatrial import errors, interrupts
from seatrial.cli.options import (
    MeasureOptions,
    changing_options,
    command_line,
    complete_studies,
    measuring_options,
)
from seatrial.cli.terminal import STOPPING
from seatrial.descriptor import closing
from seatrial.errors import ResultsFileError, SeatrialError, StudyError, TargetError, UsageError
from seatrial.findings.context import is_of_lab
from seatrial.lab.init import KERNEL_LOG
from seatrial.lab.machine import Machine
from seatrial.lab.session import KINDS, BootError, open_lab, run_inside
from seatrial.machine.marker import new_run_id
from seatrial.results.copying import bring_run, copy_run
from seatrial.results.model import Run
from seatrial.results.store import ResultsFile
from seatrial.study.layouts.layout import parse_drives
from seatrial.study.load import load_study, recheck, study_from_mapping, study_to_mapping
from seatrial.study.model import Plan
from seatrial.study.schema import Study
from seatrial.study.units import parse_size_bytes

if TYPE_CHECKING:
    from seatrial.lab.session import Choice


EPILOG = """\b
Examples:
  seatrial lab --setup                download its packages once, about 40 MB, without root
  seatrial lab raid-sweep-tiny        asks before it downloads missing packages
  seatrial lab raid-sweep --disks 6x256M --rounds 1 --seconds 2
  seatrial lab raid-sweep --disks 6x256M --plan
  seatrial lab raid-sweep --disks 6x256M --rounds 1 --seconds 2 --resume   after a kill
  seatrial lab mine.toml --disks 4x1G --memory 2G

\b
Ratios and counts from the lab are valid: device I/O per write, effects of failures, data loss.
Absolute speed is not: see docs/lab.md.
"""


def _size_bytes(_context: click.Context, _parameter: click.Parameter, written: str) -> int:
    """Return a size in bytes; raises click.BadParameter if it is invalid."""
    try:
        return parse_size_bytes(written)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command("lab", epilog=EPILOG)
@click.argument("file", metavar="[STUDY]", required=False, shell_complete=complete_studies)
@click.option("--setup", is_flag=True, help="Download the packages of the lab, without root.")
@click.option(
    "--disks", metavar="NxSIZE", default="", help="Virtual disks, such as 6x256M; sparse files."
)
@click.option(
    "--machine",
    type=click.Choice(["auto", "uml", "qemu"]),
    default="auto",
    show_default=True,
    help="User-mode Linux, or QEMU emulation.",
)
@click.option(
    "--memory",
    metavar="SIZE",
    default="1GiB",
    show_default=True,
    callback=_size_bytes,
    help="Memory of the guest.",
)
@changing_options
@measuring_options
def command(
    *,
    file: str | None,
    setup: bool,
    disks: str,
    machine: Choice,
    memory: int,
    resume: bool,
    measuring: MeasureOptions,
    **changes: object,
) -> int:
    """Measure the layouts of STUDY in a virtual machine, without root or hardware.

    The guest has md, LVM and btrfs, virtual disks, and the files of this machine, which it cannot
    change. The run is stored in the results file on the host and is marked as a lab run.
    """
    if setup:
        _set_up(machine)
        if not file:
            return 0
    study = lab_study(_require_supported(file, measuring), disks, **changes)
    if measuring.plan_only:
        from seatrial.cli.study_command import plan_for, show_or_measure  # noqa: PLC0415

        return show_or_measure(plan_for(study), measuring)
    return _measure(study, machine, memory, measuring, resume=resume)


for option in command.params:
    if isinstance(option, click.Option) and option.name in ("destroy", "live", "port"):
        option.hidden = True  # it is refused, with the reason


def _require_supported(file: str | None, measuring: MeasureOptions) -> str:
    from seatrial.cli.live import refuse_live  # noqa: PLC0415 - not for --help

    if measuring.destroy:
        raise click.UsageError("The lab's disks are always new, so --destroy does not apply.")
    refuse_live(
        "--live cannot show a run of the lab", "Its disks and requests are those of the guest"
    )
    if not file:
        raise click.UsageError("Missing argument STUDY, or --setup.")
    return file


def lab_study(name: str, disks: str, **changes: Any) -> Study:  # noqa: ANN401 - as override takes
    """Return a study with the options of the command line and the lab's disks.

    Raises:
        StudyError: if the study or an option is malformed, it has no layouts, or neither it nor
            the command gives the number of disks.
    """
    import msgspec  # noqa: PLC0415 - not for --help

    from seatrial.study.layouts.layout import Drives  # noqa: PLC0415
    from seatrial.study.override import override  # noqa: PLC0415

    study = override(load_study(name), **changes)
    if not study.layouts:
        raise StudyError(
            seen=f"The study {study.name!r} has no layouts",
            cause="The lab provides only blank disks, for studies of layouts",
            next_step=f"Measure it with `seatrial study {name}`, or add a [[layout]] to it",
        )
    written = disks or study.drives.lab
    if not written:
        raise StudyError(
            seen=f"The study {study.name!r} does not specify the disks of the lab",
            cause="It has no key 'lab' in [drives]",
            next_step=f"Specify them with `seatrial lab {name} --disks 6x256M`",
        )
    return recheck(msgspec.structs.replace(study, drives=Drives(lab=written)))


def _offer_set_up(choice: Choice) -> None:
    """Ask on a terminal whether to download missing packages of the lab."""
    import sys  # noqa: PLC0415 - only here

    from seatrial.lab.packages import cache_folder  # noqa: PLC0415
    from seatrial.lab.session import is_fetched  # noqa: PLC0415 - not for --help

    if is_fetched(choice) or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    text = (
        "The lab needs Debian packages (about 40 MB, once, no root), which are not in the cache. "
        f"Download them with apt into {cache_folder()}?"
    )
    if click.confirm(text, default=True, err=True):
        _set_up(choice)


def _set_up(choice: Choice) -> None:
    from seatrial.lab.session import set_up_for  # noqa: PLC0415 - not for --help

    machine = set_up_for(choice, lambda step: click.echo(step, err=True))
    packages = machine.packages
    listed = ", ".join(f"{name} {version}" for name, version in packages.versions.items())
    click.echo(f"{machine.label} is set up in {packages.folder}: {listed}", err=True)
    if machine.obstacle():
        click.echo(f"It cannot run yet: {machine.obstacle()}", err=True)


def _measure(
    study: Study, choice: Choice, memory_bytes: int, measuring: MeasureOptions, *, resume: bool
) -> int:
    from seatrial.cli.outcome import print_outcome  # noqa: PLC0415 - loads the analysis
    from seatrial.cli.study_command import plan_for  # noqa: PLC0415
    from seatrial.lab.session import machines  # noqa: PLC0415

    plan = plan_for(study)
    _offer_set_up(choice)
    found = machines(choice)
    for left in import_killed_runs(measuring.results):
        click.echo(f"Imported run {left.id} of a killed lab.", err=True)
    request = LabRequest(
        study=study,
        machines=found,
        memory_bytes=memory_bytes,
        results=measuring.results,
        command=command_line(),
        label=measuring.label,
        is_quiet=measuring.as_json,
        resume=unfinished(plan, measuring.results) if resume else "",
    )
    run, reason = measure_in_lab(request)
    with ResultsFile.open(measuring.results, read_only=True) as store:
        samples = store.samples(run.id)
    return print_outcome(
        run,
        samples,
        reason,
        measuring.results,
        report=measuring.report,
        as_json=measuring.as_json,
    )


RESULTS: Final = "results.seatrial"
_REQUEST: Final = "guest_request.json"
_RESULT: Final = "end.json"


class GuestRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What the guest is to measure.

    Attributes:
        study: The study, from ``study_to_mapping``.
        devices: Its drives.
        destroy: Their serial numbers, separated by commas.
        command: The command line on the host.
        label: The user's label of the run.
        is_quiet: Whether progress is suppressed.
        resume: The run in the shared results file to resume; empty for a new one.
    """

    study: dict[str, object]
    devices: list[str]
    destroy: str
    command: str
    label: str
    is_quiet: bool
    resume: str = ""

    def write(self, folder: Path) -> None:
        """Write it into the shared folder."""
        (folder / _REQUEST).write_bytes(msgspec.json.encode(self))


class GuestResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the guest.

    Attributes:
        reason: Why the rounds ended, as a sentence; empty after an error.
        error: Class name, ``seen``, ``cause`` and ``next_step`` of the error; else None.
    """

    reason: str = ""
    error: tuple[str, str, str, str] | None = None

    @classmethod
    def read(cls, folder: Path) -> GuestResult | None:
        """Read it from the shared folder; None if it does not exist."""
        try:
            return msgspec.json.decode((folder / _RESULT).read_bytes(), type=cls)
        except (OSError, msgspec.DecodeError):
            return None

    def raise_error(self) -> None:
        """Raise the error of the guest, if there was one."""
        if self.error is not None:
            kind, seen, cause, next_step = self.error
            raise getattr(errors, kind, SeatrialError)(seen=seen, cause=cause, next_step=next_step)


def measure(folder: Path) -> GuestResult:
    """Execute the request in the shared folder; return the result."""
    from seatrial.cli import terminal  # noqa: PLC0415 - not needed on the host
    from seatrial.cli.outcome import strategy_of  # noqa: PLC0415
    from seatrial.cli.study_command import plan_for  # noqa: PLC0415
    from seatrial.measure.run import RunRequest, execute  # noqa: PLC0415
    from seatrial.study.layouts.layout import Drives  # noqa: PLC0415

    guest_request = msgspec.json.decode((folder / _REQUEST).read_bytes(), type=GuestRequest)
    study = study_from_mapping(guest_request.study, "the study")
    drives = Drives(devices=guest_request.devices)
    plan = plan_for(recheck(msgspec.structs.replace(study, drives=drives)))
    with (
        ResultsFile.open(folder / RESULTS, create=True) as store,
        terminal.watcher(quiet=guest_request.is_quiet) as watcher,
    ):
        request = RunRequest(
            plan=plan,
            command=guest_request.command,
            label=guest_request.label,
            destroy=guest_request.destroy,
            resume=store.run(guest_request.resume) if guest_request.resume else None,
        )
        _run, end = execute(request, store, watcher=watcher, strategy=strategy_of(plan))
    return GuestResult(reason=end.reason)


def main() -> NoReturn:
    """Execute the request in the folder given as argument, and write the result there."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = Path(sys.argv[1])
    try:
        end = measure(folder)
    except SeatrialError as error:
        end = GuestResult(error=(type(error).__name__, error.seen, error.cause, error.next_step))
    (folder / _RESULT).write_bytes(msgspec.json.encode(end))
    sys.exit(0)


if __name__ == "__main__":
    main()

_LOCK: Final = "lock"
_SUFFIX: Final = ".lab-"


class LabRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to the lab.

    Attributes:
        study: The study, with number and size of its disks.
        machines: The machines that may be used, best first.
        memory_bytes: Memory of the guest.
        results: The host's results file.
        command: The command line, stored with the run.
        label: The user's label of the run.
        is_quiet: Whether progress is suppressed.
        resume: The run of the results file to resume; empty for a new one.
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
    """Measure a study in the first machine that boots; return its stored run and why it ended.

    Raises:
        TargetError: if no machine boots, or one ends before the study; earlier samples are stored.
        SeatrialError: if the study cannot be measured, as raised in the guest.
        KeyboardInterrupt: when interrupted before there was a run.
    """
    with _shared(request.results) as folder:
        if request.resume:
            _copy_to_guest(request.resume, request.results, folder)
        interrupted = False
        try:
            interrupted = _run_in_first(request, folder)
        finally:
            run, end, words = _import_run(folder, request.results)
    if end is not None:
        end.raise_error()
    if run is not None:
        return run, end.reason if end else "Interrupted."
    if interrupted:
        raise KeyboardInterrupt
    raise _nothing_measured(words)


def import_killed_runs(results: Path) -> list[Run]:
    """Import the runs of killed labs next to a results file; return the runs."""
    runs = []
    for folder in sorted(results.absolute().parent.glob(f"{results.name}{_SUFFIX}*")):
        try:
            with _locked(folder):
                run, _end, _words = _import_run(folder, results)
        except BlockingIOError:
            continue
        if run is not None:
            runs.append(run)
    return runs


def _run_in_first(request: LabRequest, folder: Path) -> bool:
    """Run the study in the first machine that boots; return whether it was interrupted."""
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
        next_step=_boot_advice([machine.name for machine in request.machines]),
    )


def _boot_advice(tried: Sequence[str]) -> str:
    """Return the next step if none of the machines booted."""
    outside = "run the study as root with --loop, or on another machine"
    absent = next((kind for kind in KINDS if kind.name not in tried), None)
    if absent is None:
        return f"Stop other load on this machine and try again; or {outside}"
    program = f"{obstacle}; " if (obstacle := absent.obstacle()) else ""
    set_up = f"download another machine with `seatrial lab --setup --machine {absent.name}`"
    return f"{program}{set_up} and use it with `seatrial lab --machine {absent.name}`; or {outside}"


def _run(request: LabRequest, machine: Machine, folder: Path) -> bool:
    count, size_bytes = parse_drives(request.study.drives.lab)
    with (
        interrupts.stopping_with(STOPPING),
        open_lab(machine, new_run_id(), disks=count, disk_bytes=size_bytes) as lab,
    ):
        if not request.is_quiet:
            disks = f"{count} disks of {size_bytes >> 20} MiB"
            click.echo(f"Starting {machine.label} with {disks}; {machine.limits}.", err=True)
        guest_request = GuestRequest(
            study=study_to_mapping(request.study),
            devices=lab.devices,
            # They were created for this run and are empty.
            destroy=",".join(lab.serials),
            command=request.command,
            label=request.label,
            is_quiet=request.is_quiet,
            resume=request.resume,
        )
        guest_request.write(folder)
        try:
            run_inside(
                lab,
                [sys.executable, "-m", "seatrial.trials.layouts.commands.lab", str(folder)],
                shared=folder,
                report=lambda line: click.echo(line, err=True),
                # The guest runs this installation, however it was found.
                environment={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                memory_bytes=request.memory_bytes,
            )
        except KeyboardInterrupt:
            return True
    return False


def unfinished(plan: Plan, results: Path) -> str:
    """Return the newest unfinished run of a plan in the lab.

    Raises:
        UsageError: if there is none.
    """
    count, _size_bytes = parse_drives(plan.study.drives.lab)
    with ResultsFile.open(results) as store:
        run = store.find_resumable(plan.plan_hash, [each.location for each in plan.study.targets])
    if run is None or not is_of_lab(run) or len(run.study["drives"]["devices"]) != count:
        raise UsageError(
            seen=f"{results} has no unfinished run of this plan in the lab",
            cause="The run is complete, or the study, its options or the number of disks changed",
            next_step="Start it without --resume; `seatrial list` shows the runs",
        )
    return run.id


def _copy_to_guest(run_id: str, results: Path, folder: Path) -> None:
    """Copy a run into the shared folder, for the guest to resume."""
    with (
        ResultsFile.open(results, read_only=True) as store,
        ResultsFile.open(folder / RESULTS, create=True) as inner,
    ):
        copy_run(store, run_id, inner)


def _import_run(folder: Path, results: Path) -> tuple[Run | None, GuestResult | None, str]:
    """Import the run of a shared folder, if there is one, and remove the folder.

    Returns the run, the guest's result, and the last output of the lab's kernel.
    """
    run = None
    inner = folder / RESULTS
    if inner.exists():
        with ResultsFile.open(inner, create=True) as source:
            runs = source.runs()
            if runs:
                with ResultsFile.open(results, create=True) as store:
                    run = bring_run(source, runs[0].id, store)
    end = GuestResult.read(folder)
    log = folder / KERNEL_LOG
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    shutil.rmtree(folder)
    return run, end, (lines or ["nothing"])[-1]


@contextmanager
def _shared(results: Path) -> Iterator[Path]:
    """Create the folder shared by guest and host, locked until the end."""
    folder = results.absolute().with_name(f"{results.name}{_SUFFIX}{new_run_id()}")
    try:
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise ResultsFileError(
            seen=f"The folder of the results file {results} is not writable: {error.strerror}",
            cause="The lab shares a folder there with the host until its run is stored",
            next_step="Use a results file in a writable directory: --results FILE",
        ) from None
    (folder / _LOCK).touch()
    with _locked(folder):
        yield folder


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock a shared folder; raises BlockingIOError if a running lab holds the lock."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    with closing(os.open(folder / _LOCK, flags, 0o600)) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def _nothing_measured(words: str) -> TargetError:
    return TargetError(
        seen=f"The lab measured nothing; last output of its kernel: {words}",
        cause="The command in the guest ended before its first sample, see its output above",
        next_step="Use more memory with --memory 2G, and check the output without --json",
    )
