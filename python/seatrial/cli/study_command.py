"""``seatrial study FILE``: any study, its plan, or its resumption after a kill."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seatrial.cli.options import (
    MeasureOptions,
    changing_options,
    command_line,
    complete_studies,
    drives_options,
    measuring_options,
)
from seatrial.errors import StudyError, UsageError

if TYPE_CHECKING:
    from seatrial.importers.fio.jobs import JobStudy
    from seatrial.results.model import Run
    from seatrial.study.model import Plan
    from seatrial.study.schema import Study


STUDY_EPILOG = """\b
Examples:
  seatrial study one-dvd-per-second --target /mnt/ssd --plan
  seatrial study four-kib --target /mnt/ssd
  seatrial study ssd-vs-hdd --target hdd=/mnt/disk --target ssd=/mnt/ssd
  seatrial study raid-sweep --plan    what would be built and measured, with every command
  seatrial study raid-sweep --loop 6x2G
  seatrial study raid-sweep --devices /dev/sdb,/dev/sdc,/dev/sdd --destroy SERIAL,SERIAL,SERIAL
  seatrial study filebench --personality varmail --target /mnt/ssd
  seatrial study mine.toml
  seatrial study mine.toml --resume   go on after a kill or an interrupt
  seatrial study jobs.fio --plan      a job file of fio; differences from fio are listed
  seatrial study lab.icf --target /mnt/ssd   access specifications of IOmeter
  seatrial study mine.toml --target /mnt/ssd --fio-job > tests.fio

\b
FILE is a path or the name of a shipped study. docs/study-file.md explains every key,
docs/importers.md what is read from a job file of fio or from IOmeter's .icf.
"""


@click.command("study", epilog=STUDY_EPILOG)
@click.argument("file", shell_complete=complete_studies)
@click.option(
    "--target",
    "target_paths",
    metavar="[LABEL=]PLACE",
    multiple=True,
    help="Path of a target of the study; may be repeated, once for each target.",
)
@click.option(
    "--fio-job", "as_fio_job", is_flag=True, help="Only print the tests as a job file of fio."
)
@click.option(
    "--personality",
    metavar="NAME|FILE.f",
    default="",
    help="Workload of files: oltp, varmail and the like, or a workload file of Filebench.",
)
@click.option(
    "--ray",
    metavar="ADDRESS",
    default="",
    help="Measure with the hosts of a Ray cluster: HOST:PORT of its head, or auto.",
)
@drives_options
@changing_options
@measuring_options
def command(
    *,
    file: str,
    resume: bool,
    as_fio_job: bool,
    ray: str,
    measuring: MeasureOptions,
    **changes: object,
) -> int:
    """Measure the study FILE: its targets, factors, workloads, rounds and thresholds.

    Every sample is stored as it ends, so that a killed study loses at most the test in flight.
    """
    plan = plan_of(file, **changes)
    if as_fio_job:
        from seatrial.report.exports.fio_job import render_plan  # noqa: PLC0415 - only here

        click.echo(render_plan(plan), nl=False)
        return 0
    return show_or_measure(plan, measuring, resume=resume, ray=ray)


def plan_of(name: str, **changes: Any) -> Plan:  # noqa: ANN401 - as override takes them
    """Return the plan of a study, changed by options of the command line.

    The notes of a plan from a job file of fio list the differences from fio.

    Raises:
        StudyError: when the study or an option is malformed.
        UsageError: when a job file of fio is malformed.
        TargetError: when a target does not exist.
    """
    import msgspec  # noqa: PLC0415 - not for --help

    from seatrial.study.load import load_study, study_from_mapping  # noqa: PLC0415
    from seatrial.study.override import override  # noqa: PLC0415

    jobs = _jobs_of(name)
    if jobs is None:
        return plan_for(override(load_study(name), **changes))
    plan = plan_for(override(study_from_mapping(jobs.mapping, name), **changes))
    return msgspec.structs.replace(plan, notes=[*jobs.notes, *plan.notes])


def _jobs_of(name: str) -> JobStudy | None:
    """Return the study of a job file of fio; None if the name is anything else."""
    path = Path(name)
    if path.suffix == ".toml" or not path.is_file():
        return None
    from seatrial.importers import read_jobs  # noqa: PLC0415 - only for foreign files

    return read_jobs(path)


def plan_for(study: Study) -> Plan:
    """Return the plan of a study on targets and drives as they are.

    Raises:
        SpaceError: when it would write more than its budget, and more than fits.
        StudyError: when it would write more than its budget.
    """
    from seatrial.cli.targets import (  # noqa: PLC0415
        drives_info,
        require_room,
        targets_info,
        with_absolute_paths,
    )
    from seatrial.study.cost import require_write_budget  # noqa: PLC0415
    from seatrial.study.plan import make_plan  # noqa: PLC0415 - not for --help

    placed = with_absolute_paths(study)
    plan = make_plan(placed, targets_info(placed), drives_info(placed))
    try:
        require_write_budget(plan)
    except StudyError:
        # An option can raise the budget, but not the free space.
        require_room(plan)
        raise
    if study.layouts:
        from seatrial.trials.layouts.build.plan import check_layouts  # noqa: PLC0415

        check_layouts(plan)
    return plan


def show_or_measure(
    plan: Plan,
    measuring: MeasureOptions,
    *,
    resume: bool = False,
    with_published: bool = False,
    ray: str = "",
) -> int:
    """Print the plan, or measure it and print the results; return the exit code.

    Args:
        plan: What to measure.
        measuring: What all measuring commands have in common.
        resume: Whether to continue the newest unfinished run of this plan.
        with_published: Whether the report begins with published figures of databases.
        ray: Address of the head of a cluster; empty for this machine alone.
    """
    if measuring.plan_only:
        return _show(plan, as_json=measuring.as_json)
    from seatrial.cli.outcome import measure_and_report  # noqa: PLC0415 - loads the analysis
    from seatrial.measure.run import RunRequest  # noqa: PLC0415

    _require_paths(plan)
    _require_cluster(plan, ray)
    request = RunRequest(
        plan=plan,
        command=command_line(),
        label=measuring.label,
        destroy=measuring.destroy,
        waits=measuring.waits,
        ray=ray,
        resume=_unfinished(plan, measuring.results) if resume else None,
    )
    return measure_and_report(
        request,
        measuring.results,
        report=measuring.report,
        as_json=measuring.as_json,
        with_published=with_published,
    )


def _show(plan: Plan, *, as_json: bool) -> int:
    import msgspec  # noqa: PLC0415 - not for --help

    from seatrial.cli.targets import refusals  # noqa: PLC0415
    from seatrial.study.render import render_plan  # noqa: PLC0415 - only here

    plan = msgspec.structs.replace(plan, notes=[*plan.notes, *refusals(plan)])
    commands = _commands(plan)
    if as_json:
        from seatrial.cli.documents import plan_document  # noqa: PLC0415 - only here

        click.echo(plan_document(plan, commands), nl=False)
    else:
        click.echo(render_plan(plan, commands))
    return 0


def _commands(plan: Plan) -> dict[str, list[str]]:
    """Return the commands that build each layout of a plan, by label."""
    if not plan.study.layouts:
        return {}
    from seatrial.trials.layouts.build.plan import building_commands  # noqa: PLC0415

    return building_commands(plan)


def _require_paths(plan: Plan) -> None:
    several = len(plan.targets) > 1
    if any(plan.groups()):
        from seatrial.trials.layouts.build.plan import require_drives  # noqa: PLC0415

        require_drives(plan)
    for target in plan.targets:
        where = f"{target.label}=" if several else ""
        if target.is_storage and not target.path and not target.layout:
            raise UsageError(
                seen=f"The study names no path for its target {target.label!r}",
                cause="A shipped study names no paths",
                next_step=f"Name it with --target {where}DIR",
            )
        if target.kind == "database" and not target.url:
            raise UsageError(
                seen=f"The study names no address for its target {target.label!r}",
                cause="A target of kind 'database' is an existing server",
                next_step=f"Name it with --target {where}postgresql://USER@HOST/DATABASE",
            )


def _require_cluster(plan: Plan, ray: str) -> None:
    if plan.study.hosts and not ray:
        raise UsageError(
            seen=f"The study {plan.study.name!r} has [hosts], and no cluster was given",
            cause="Several hosts measure this study together, started by Ray",
            next_step="Name it with --ray HOST:6379, or try it on one machine with `seatrial "
            "fleet lab`",
        )
    if ray and not plan.study.hosts:
        raise UsageError(
            seen=f"--ray was given, and the study {plan.study.name!r} has no [hosts]",
            cause="A study specifies how many hosts measure together",
            next_step="Add to it: [hosts] with counts = [1, 2, 4] (docs/fleet.md)",
        )


def _unfinished(plan: Plan, results: Path) -> Run:
    from seatrial.results.store import ResultsFile  # noqa: PLC0415
    from seatrial.study.load import study_to_mapping  # noqa: PLC0415

    with ResultsFile.open(results) as store:
        run = store.find_resumable(plan.plan_hash, [each.location for each in plan.study.targets])
    drives = study_to_mapping(plan.study)["drives"]
    if run is None or (plan.study.layouts and run.study.get("drives") != drives):
        raise UsageError(
            seen=f"{results} has no unfinished run of this plan on this target",
            cause="It was completed, or the study, its options or the target changed since",
            next_step="Start it without --resume; `seatrial list` shows the runs",
        )
    return run


RUN_EPILOG = """\b
Examples:
  seatrial run /mnt/ssd
  seatrial run /mnt/ssd --size 8GiB --label "before the new kernel"
  seatrial run /mnt/ssd --full        the whole matrix of "One DVD per second"
  seatrial run /mnt/ssd --plan        tests, time and bytes, without doing anything
"""


@click.command("run", epilog=RUN_EPILOG)
@click.argument("directory", type=click.Path(path_type=Path))
@changing_options
@measuring_options
def run_command(
    *, directory: Path, resume: bool, measuring: MeasureOptions, **changes: object
) -> int:
    """Measure the storage under DIRECTORY in a quick trial: about two minutes, no root.

    Trial files are made in a folder of their own and removed at the end. Random and sequential
    reads and writes, commits, a copy and an address map are measured in interleaved rounds, each of
    which ends with two seconds of PostgreSQL where one is found (`seatrial db` measures it at
    length). At the end there are tables with intervals, findings in plain sentences, and a report.
    """
    from seatrial.cli.study_command import plan_of, show_or_measure  # noqa: PLC0415
    from seatrial.machine.resolve import resolve_directory  # noqa: PLC0415

    path = resolve_directory(str(directory))
    plan = plan_of("quick", target_path=str(path), **changes)
    return show_or_measure(plan, measuring, resume=resume)
