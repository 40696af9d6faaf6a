"""``seatrial study FILE``: any study, its plan, or the rest of it after a kill."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seatrial.cli.options import Measuring, changing_options, measuring_options

if TYPE_CHECKING:
    from seatrial.results.model import Run
    from seatrial.study.model import Plan
    from seatrial.study.schema import Study

EPILOG = """\b
Examples:
  seatrial study one-dvd-per-second --target /mnt/ssd --plan
  seatrial study four-kib --target /mnt/ssd
  seatrial study mine.toml
  seatrial study mine.toml --resume   go on after a kill or an interrupt

\b
FILE is a path or the name of a shipped study. docs/study-file.md explains every key.
"""


@click.command("study", epilog=EPILOG)
@click.argument("file")
@click.option("--target", "target_path", metavar="PATH", help="Where the study's target lies.")
@changing_options
@measuring_options
def command(*, file: str, resume: bool, measuring: Measuring, **changes: object) -> int:
    """Measure the study FILE: its targets, factors, workloads, rounds and thresholds.

    Every sample is stored as it ends, so that a killed study loses at most the cell in flight.
    """
    return show_or_measure(plan_of(file, **changes), measuring, resume=resume)


def plan_of(name: str, **changes: Any) -> Plan:  # noqa: ANN401 - as override takes them
    """Return the plan of a study with options of the command line put in place.

    Raises:
        StudyError: when the study or an option is malformed.
        TargetError: when a target does not exist.
    """
    from seatrial.study.load import load_study  # noqa: PLC0415 - not for --help
    from seatrial.study.override import override  # noqa: PLC0415

    return plan_for(override(load_study(name), **changes))


def plan_for(study: Study) -> Plan:
    """Return the plan of a study on targets as they are."""
    from seatrial.cli.places import targets_info, with_absolute_paths  # noqa: PLC0415
    from seatrial.study.estimate import require_write_budget  # noqa: PLC0415
    from seatrial.study.plan import make_plan  # noqa: PLC0415 - not for --help

    placed = with_absolute_paths(study)
    plan = make_plan(placed, targets_info(placed))
    require_write_budget(plan)
    return plan


def show_or_measure(plan: Plan, measuring: Measuring, *, resume: bool = False) -> int:
    """Print the plan, or measure it and print what came of it; return the exit code."""
    if measuring.plan_only:
        return _show(plan, as_json=measuring.as_json)
    from seatrial.cli.outcome import measure_and_tell  # noqa: PLC0415 - loads the analysis
    from seatrial.measure.run import RunRequest  # noqa: PLC0415

    _require_paths(plan)
    request = RunRequest(
        plan=plan,
        command=command_line(),
        label=measuring.label,
        destroy=measuring.destroy,
        resume=_unfinished(plan, measuring.results) if resume else None,
    )
    return measure_and_tell(
        request, measuring.results, report=measuring.report, as_json=measuring.as_json
    )


def command_line() -> str:
    """Return the command as a shell would take it again; bytes that are no text as their codes."""
    words = [os.fsencode(word).decode("utf-8", "backslashreplace") for word in sys.argv[1:]]
    return shlex.join(["seatrial", *words])


def _show(plan: Plan, *, as_json: bool) -> int:
    from seatrial.study.render import render_plan  # noqa: PLC0415 - only here

    if as_json:
        from seatrial.cli.documents import plan_document  # noqa: PLC0415 - only here

        click.echo(plan_document(plan), nl=False)
    else:
        click.echo(render_plan(plan))
    return 0


def _require_paths(plan: Plan) -> None:
    from seatrial.errors import UsageError  # noqa: PLC0415 - only on this way out

    for target in plan.targets:
        if target.is_storage and not target.path:
            raise UsageError(
                seen=f"The study names no place for its target {target.label!r}",
                cause="A shipped study leaves it open where it is measured",
                next_step="Say where with --target DIR",
            )


def _unfinished(plan: Plan, results: Path) -> Run:
    from seatrial.errors import UsageError  # noqa: PLC0415 - only on this way out
    from seatrial.results.store import ResultsFile  # noqa: PLC0415

    with ResultsFile.open(results) as store:
        run = store.find_resumable(plan.plan_hash, [each.path for each in plan.study.targets])
    if run is None:
        raise UsageError(
            seen=f"{results} holds no unfinished run of this plan on this target",
            cause="It was completed, or the study, its options or the target changed since",
            next_step="Start it without --resume; `seatrial list` shows the runs",
        )
    return run
