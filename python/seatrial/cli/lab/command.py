"""``seatrial lab STUDY``: a study of layouts inside a kernel of its own, without root."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from seatrial.cli.options import Measuring, changing_options, measuring_options

if TYPE_CHECKING:
    from seatrial.lab.choosing import Choice
    from seatrial.study.schema import Study

EPILOG = """\b
Examples:
  seatrial lab --setup                fetch its packages once, about 40 MB, without root
  seatrial lab raid-sweep-tiny        where they are not there yet, it asks whether to fetch them
  seatrial lab raid-sweep --disks 6x256M --rounds 1 --seconds 2
  seatrial lab raid-sweep --disks 6x256M --plan
  seatrial lab raid-sweep --disks 6x256M --rounds 1 --seconds 2 --resume   after a kill
  seatrial lab mine.toml --disks 4x1G --memory 2G

\b
Ratios and counts that are measured in the lab hold: I/Os per write of an array, what a failure
does, whether data survive it. Absolute speed does not: docs/lab.md.
"""


def _size_bytes(_context: click.Context, _parameter: click.Parameter, written: str) -> int:
    """Return a size in bytes; raises click.BadParameter where it is none."""
    from seatrial.study.units import parse_size_bytes  # noqa: PLC0415 - not for --help

    try:
        return parse_size_bytes(written)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command("lab", epilog=EPILOG)
@click.argument("file", metavar="[STUDY]", required=False)
@click.option("--setup", is_flag=True, help="Fetch what the lab is made of, as an ordinary user.")
@click.option(
    "--disks", metavar="NxSIZE", default="", help="Virtual disks, such as 6x256M; sparse files."
)
@click.option(
    "--machine",
    type=click.Choice(["auto", "uml", "qemu"]),
    default="auto",
    show_default=True,
    help="User-mode Linux, or a machine that QEMU emulates.",
)
@click.option(
    "--memory",
    metavar="SIZE",
    default="1GiB",
    show_default=True,
    callback=_size_bytes,
    help="Of the guest.",
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
    measuring: Measuring,
    **changes: object,
) -> int:
    """Measure the layouts of STUDY inside a Linux kernel that needs neither root nor hardware.

    The kernel has md, LVM and btrfs, virtual disks, and the files of this machine, of which it
    changes none. Its run is stored in the results file here, and says that it is the lab's.
    """
    if setup:
        _set_up(machine)
        if not file:
            return 0
    _refuse_destroy(measuring.destroy)
    study = lab_study(_named(file), disks, **changes)
    if measuring.plan_only:
        from seatrial.cli.study_command import plan_for, show_or_measure  # noqa: PLC0415

        return show_or_measure(plan_for(study), measuring)
    return _measure(study, machine, memory, measuring, resume=resume)


for option in command.params:
    if isinstance(option, click.Option) and option.name == "destroy":
        option.hidden = True  # it is refused, with the reason


def _refuse_destroy(words: str | None) -> None:
    if words:
        raise click.UsageError("The lab's disks are new each time, and hold nothing to --destroy.")


def _named(file: str | None) -> str:
    if not file:
        raise click.UsageError("Missing argument STUDY, or --setup.")
    return file


def lab_study(name: str, disks: str, **changes: Any) -> Study:  # noqa: ANN401 - as override takes
    """Return a study with options of the command line put in place, and the lab's disks.

    Raises:
        StudyError: when the study or an option is malformed, it has no layouts, or neither it nor
            the command says how many disks there are.
    """
    import msgspec  # noqa: PLC0415 - not for --help

    from seatrial.errors import StudyError  # noqa: PLC0415
    from seatrial.study.layouts.layout import Drives  # noqa: PLC0415
    from seatrial.study.load import load_study, recheck  # noqa: PLC0415
    from seatrial.study.override import override  # noqa: PLC0415

    study = override(load_study(name), **changes)
    if not study.layouts:
        raise StudyError(
            seen=f"The study {study.name!r} has no layouts",
            cause="The lab has blank disks and nothing else, so it is for studies of layouts",
            next_step=f"Measure it with `seatrial study {name}`, or give it a [[layout]]",
        )
    written = disks or study.drives.lab
    if not written:
        raise StudyError(
            seen=f"The study {study.name!r} does not say how many disks the lab has",
            cause="It has no key 'lab' in [drives]",
            next_step=f"Say it with `seatrial lab {name} --disks 6x256M`",
        )
    return recheck(msgspec.structs.replace(study, drives=Drives(lab=written)))


def _offer_set_up(choice: Choice) -> None:
    """Ask whoever sits at the terminal whether to fetch what the lab is made of, if it lacks."""
    import sys  # noqa: PLC0415 - only here

    from seatrial.lab.choosing import is_fetched  # noqa: PLC0415 - not for --help
    from seatrial.lab.packages import cache_folder  # noqa: PLC0415

    if is_fetched(choice) or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    reported = (
        "The lab is made of packages of Debian (about 40 MB, once, no root), which are not here "
        f"yet. Fetch them by apt into {cache_folder()}?"
    )
    if click.confirm(reported, default=True, err=True):
        _set_up(choice)


def _set_up(choice: Choice) -> None:
    from seatrial.lab.choosing import set_up_for  # noqa: PLC0415 - not for --help

    machine = set_up_for(choice, lambda step: click.echo(step, err=True))
    packages = machine.packages
    listed = ", ".join(f"{name} {version}" for name, version in packages.versions.items())
    click.echo(f"{machine.label} is set up in {packages.folder}: {listed}", err=True)
    if machine.obstacle():
        click.echo(f"It cannot run yet: {machine.obstacle()}", err=True)


def _measure(
    study: Study, choice: Choice, memory_bytes: int, measuring: Measuring, *, resume: bool
) -> int:
    from seatrial.cli.lab import run as lab_run  # noqa: PLC0415 - not for --help
    from seatrial.cli.outcome import tell  # noqa: PLC0415 - loads the analysis
    from seatrial.cli.repeating import command_line  # noqa: PLC0415
    from seatrial.cli.study_command import plan_for  # noqa: PLC0415
    from seatrial.lab.choosing import machines  # noqa: PLC0415
    from seatrial.results.store import ResultsFile  # noqa: PLC0415

    plan = plan_for(study)
    _offer_set_up(choice)
    found = machines(choice)
    for left in lab_run.bring_home_left(measuring.results):
        click.echo(f"Stored the run {left.id} that a killed lab had left.", err=True)
    request = lab_run.LabRequest(
        study=study,
        machines=found,
        memory_bytes=memory_bytes,
        results=measuring.results,
        command=command_line(),
        label=measuring.label,
        is_quiet=measuring.as_json,
        resume=lab_run.unfinished(plan, measuring.results) if resume else "",
    )
    run, reason = lab_run.measure_in_lab(request)
    with ResultsFile.open(measuring.results, read_only=True) as store:
        samples = store.samples(run.id)
    return tell(
        run,
        samples,
        reason,
        measuring.results,
        report=measuring.report,
        as_json=measuring.as_json,
    )
