"""``seatrial sql replay``: runs, stores, judges and reports a replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from seatrial.cli import terminal
from seatrial.cli.display_options import display_options
from seatrial.cli.files import Output
from seatrial.cli.live import observing
from seatrial.cli.options import (
    Duration,
    MeasureOptions,
    command_line,
    measuring_options,
    next_command,
    ray_option,
    without_none,
)
from seatrial.cli.outcome import (
    earlier_samples,
    echo_paths,
    first_text,
    reported_if_it_fails,
    strategy_of,
    write_report,
)
from seatrial.errors import EXIT_PARTIAL, UsageError
from seatrial.findings.answer import answer
from seatrial.findings.model import Summary
from seatrial.findings.summary import summarise
from seatrial.measure.run import RunRequest, execute
from seatrial.report.exports import json_document
from seatrial.report.terminal import wrapped
from seatrial.results.model import Run
from seatrial.results.store import ResultsFile
from seatrial.stats.wording import format_plural
from seatrial.study.load import Table, study_from_options
from seatrial.study.model import Plan
from seatrial.trials.database.commands import CONTROL_SUFFIX
from seatrial.trials.replay.analysis.starts import starts_differ
from seatrial.trials.replay.analysis.verdict import ReplayVerdict, verdicts_by_target
from seatrial.trials.replay.commands.compare import CompareOptions
from seatrial.trials.replay.commands.compare import run as run_comparison
from seatrial.trials.replay.report.terminal import replay_text

DANGERS: Final = ("copy_program", "dblink", "terminate_backend", "notify", "ddl", "server")
TARGET_DANGERS: Final = ("recovery", "same_system", "sequence_mismatch")
MAX: Final = "max"
SPEED_MAX: Final = 1000.0

EPILOG: Final = """\b
Targets:
  --to DIR   A temporary server is created there. Its data come from --prepare (SQL, or a pg_dump
             archive) or --scale (pgbench tables).
  --to URL   An existing server. With --prepare or --scale a database is created there and dropped
             again. Without them, the database of the URL is used and changed: this requires
             --read-only, or --allow-writes with its name. --restore restores it before each
             round; --clone template replays on copies of it instead.
  --to A --to B   Both, interleaved in random order, and A once more as an A/A control;
             differences are reported with confidence intervals.

\b
Not replayed by default:
  --allow copy_program       COPY to or from a program or a server file
  --allow dblink             connections to other servers
  --allow terminate_backend  terminating other sessions
  --allow notify             NOTIFY, which listeners may act on
  --allow ddl                CREATE, ALTER, DROP, TRUNCATE (always allowed for temporary tables)
  --allow server             ALTER SYSTEM, server files and large objects
  --allow recovery           with --read-only: a standby as target
  --allow same_system        the server that wrote the log, or a copy of its files
  --allow sequence_mismatch  sequences that do not match the start of the log

\b
Examples:
  seatrial sql replay prod.trace --to /mnt/ssd --prepare prod.dump
  seatrial sql replay prod.trace --to /mnt/ssd --prepare prod.dump --speed 1.0
  seatrial sql replay prod.trace --to /mnt/ssd --prepare prod.dump --speed 2.5 --until 10m
  seatrial sql replay prod.trace --to postgresql://bench@db2/prod --read-only
  seatrial sql replay prod.trace --to postgresql://bench@db2/prod_copy --allow-writes prod_copy
  seatrial sql replay tpcb.trace --to /mnt/ssd --scale 10 --order commit --rounds 5
  seatrial sql replay prod.trace --to hdd=/mnt/hdd --to ssd=/mnt/ssd --prepare prod.dump
  seatrial sql replay prod.trace --to /mnt/ssd --prepare prod.dump --plan

\b
Correctness of rows:
  --compare-rows FILE   After the replay, compare every table with the captured database, as
                        written by `seatrial sql rows` (or `sql capture --rows`). TRACE.rows is
                        used by default if Seatrial created the target. IDs may differ, the rows
                        that they refer to may not.

\b
Every statement of the trace is accounted for, by class:
  captured = ok + failed + skipped (by reason) + not reached

\b
Exit codes: 0 the trace was replayed completely, on the right data, with no more errors than in the
capture; 2 usage; 4 any other end of a replay, named in the first sentence: not all sent, more
errors, a wrong or empty database, interrupted, connection to the server lost (the results until
then are kept); 5 refused for safety; 6 the target cannot be used.

\b
docs/sql.md describes how to restore a target to the start of the capture, and what is compared.
"""


def _speed(_context: click.Context, _parameter: click.Parameter, written: str) -> str | float:
    """Return ``max`` or a factor."""
    if written == MAX:
        return MAX
    try:
        factor = float(written)
    except ValueError:
        factor = 0.0
    if not 0 < factor <= SPEED_MAX:
        raise click.BadParameter(f"{written!r} is not max, or a number above 0 up to 1,000")
    return factor


@click.command("replay", epilog=EPILOG, short_help="Replay a trace on another server.")
@click.argument("trace", type=click.Path(path_type=Path, readable=False))
@click.option(
    "--to",
    "addresses",
    required=True,
    multiple=True,
    metavar="[LABEL=]URL|DIR",
    help="Target: a server or a folder. Several targets are compared.",
)
@click.option(
    "--speed",
    metavar="max|FACTOR",
    default=MAX,
    show_default=True,
    callback=_speed,
    help="max, or a multiple of the captured speed; 1.0 is the original speed.",
)
@click.option(
    "--order",
    type=click.Choice(["session", "commit", "object", "key", "strict"]),
    default="session",
    show_default=True,
    help="Order to preserve: within each session; of commits; of statements on one table or one "
    "row; or of all statements.",
)
@click.option(
    "--ids",
    type=click.Choice(["infer", "off"]),
    help="Map generated IDs to those of the target, or send them as captured; by default "
    "infer, except with --read-only.",
)
@click.option(
    "--pace",
    type=click.Choice(["arrivals", "think-times"]),
    default="arrivals",
    show_default=True,
    help="What the speed scales: arrival times, or a session's think times.",
)
@click.option("--read-only", is_flag=True, help="Replay only reads.")
@click.option(
    "--until",
    "until_s",
    type=Duration(),
    help="Replay only the first 10m, 90s, 1h of the capture.",
)
@click.option("--prepare", metavar="FILE", help="Data to load first: SQL, or a pg_dump archive.")
@click.option(
    "--scale",
    type=click.IntRange(min=1),
    metavar="N",
    help="Load pgbench tables of this scale first.",
)
@click.option(
    "--restore",
    metavar="COMMAND",
    help="Command that restores the URL's database (DATABASE_URL) before each round.",
)
@click.option(
    "--compare-rows",
    metavar="FILE",
    help="Rows of the captured database at the end (`sql rows`); by default TRACE.rows.",
)
@click.option(
    "--clone",
    type=click.Choice(["auto", "reflink", "copy", "template", "reuse"]),
    help="How each round gets a copy of the data; template copies the URL's database.",
)
@click.option(
    "--start",
    type=click.Choice(["cold", "warm", "prewarmed", "as_is"]),
    help="Cache state at the start; by default cold in a folder, as_is on a server.",
)
@click.option(
    "--database",
    "databases",
    multiple=True,
    metavar="NAME",
    help="Replay only sessions of this captured database; may be repeated.",
)
@click.option(
    "--connections",
    type=click.IntRange(min=1),
    metavar="N",
    help="Maximum of open connections; by default that of the capture.",
)
@click.option(
    "--allow",
    multiple=True,
    type=click.Choice([*DANGERS, *TARGET_DANGERS]),
    metavar="DANGER",
    help="Allow statements refused by default, see below; may be repeated.",
)
@click.option(
    "--allow-writes",
    metavar="NAME",
    help="Exact name of the URL's database, to allow writes to it.",
)
@click.option(
    "--rounds",
    type=click.IntRange(min=1),
    metavar="N",
    help="Replays per target, for intervals; by default 1, or 5 with several targets.",
)
@click.option("--pg-bin", type=click.Path(), help="With DIR: folder of the PostgreSQL programs.")
@ray_option
@measuring_options
def replay(
    *,
    trace: Path,
    measuring: MeasureOptions,
    ray: str | None,
    **options: Any,  # noqa: ANN401 - options are of many types
) -> int:
    """Replay TRACE on another server, and report whether it was complete, and how fast.

    Each session of the capture has its own connection, and keeps the order, the protocol and
    the prepared statements. At a fixed speed, each statement has a scheduled time: its response
    time counts from there, so a server that falls behind cannot hide it. Row counts, command tags
    and errors are compared with those of the capture.
    """
    from seatrial.cli.study_command import plan_for, show_or_measure  # noqa: PLC0415

    if ray is not None:
        require_parts(options)
    study = study_from_options(study_mapping(trace, options), KEY_OPTIONS)
    plan = plan_for(study)
    if measuring.plan_only:
        return show_or_measure(plan, measuring)
    return replay_and_report(plan, measuring, ray=ray or "")


def require_parts(options: Mapping[str, Any]) -> None:
    """Check that a replay can be distributed to several hosts.

    Raises:
        UsageError: when sessions would have to wait for each other, or the server would run here.
    """
    if options["order"] != "session":
        raise UsageError(
            seen=f"--order {options['order']} is given with --ray",
            cause="It makes sessions wait for each other, and hosts do not call each other while "
            "they replay",
            next_step="Use --order session, or replay from one machine, without --ray",
        )
    if not options["read_only"] and options["ids"] != "off":
        raise UsageError(
            seen="--ray is given with --ids infer, the default of a replay that writes",
            cause="An id generated in one session may be used by a session on another host",
            next_step="Use --ids off if the trace's ids hold on the target, --read-only, or replay "
            "from one machine, without --ray",
        )
    if here := [each for each in options["addresses"] if "://" not in each]:
        raise UsageError(
            seen=f"--ray is given with the folder {here[0]}",
            cause="A server that Seatrial starts there takes connections of this machine only",
            next_step="Start a server yourself, and give its address: --to postgresql://...",
        )


KEY_OPTIONS: Final[Mapping[str, str]] = {
    "until": "until",
    "databases": "database",
    "allow_writes": "allow-writes",
    "read_only": "read-only",
    "url": "to",
    "path": "to",
    "compare_rows": "compare-rows",
}
"""Options whose name is not that of the study's key."""
DEFAULT_LABEL: Final = "trial"
"""Label of a single target, unless the user gives one."""
LABEL: Final = "target"
"""Label of the target in the study, if there is one."""
ROUNDS_OF_SEVERAL: Final = 5
"""With several targets, which are compared round by round."""


def study_mapping(trace: Path, options: Mapping[str, Any]) -> Table:
    """Return the study of the options: one workload on one target, or on several.

    Args:
        trace: The trace.
        options: Options of the command by name; None or empty if not given.

    Raises:
        TargetError: when the folder does not exist.
        UsageError: when the trace does not exist, options exclude each other, or the address
            is invalid.
    """
    if not trace.is_file():
        raise UsageError(
            seen=f"{trace} is not a file",
            cause="A replay needs a trace, which `seatrial sql read` creates from logs",
            next_step="Create one: seatrial sql read LOG... -o prod.trace",
        )
    targets = _targets(options)
    rounds = options["rounds"] or (ROUNDS_OF_SEVERAL if len(targets) > 1 else 1)
    _check_options(targets, rounds, options)
    return {
        "name": "replay",
        "rounds": {"min": rounds, "max": rounds},
        "target": targets,
        "workload": [_workload(trace, options)],
    }


def _workload(trace: Path, options: Mapping[str, Any]) -> Table:
    return without_none(
        {
            "kind": "replay",
            "trace": str(trace.absolute()),
            "prepare": _absolute(options["prepare"]),
            "scale": options["scale"],
            "speed": options["speed"],
            "pace": options["pace"].replace("-", "_"),
            "order": options["order"],
            "ids": options["ids"],
            "read_only": options["read_only"] or None,
            "until": options["until_s"],
            "connections": options["connections"],
            "databases": list(options["databases"]) or None,
            "allow": list(options["allow"]) or None,
            "allow_writes": options["allow_writes"],
            "restore": options["restore"],
            "clone": options["clone"],
            "start": options["start"],
            "compare_rows": _absolute(options["compare_rows"]),
        }
    )


def _absolute(written: str | None) -> str | None:
    """Return the absolute path of a file."""
    return None if written is None else str(Path(written).absolute())


def _targets(options: Mapping[str, Any]) -> list[Table]:
    """Return the targets; of several, the first once more at the end, as the A/A control."""
    from seatrial.trials.database.commands import trial_targets  # noqa: PLC0415 - not for --help

    targets = trial_targets(options["addresses"], (), again=None)
    is_single = len(targets) == 1
    return [
        without_none(
            {
                "label": LABEL if is_single and target.label == DEFAULT_LABEL else target.label,
                "kind": "database" if target.url else "directory",
                "url": target.url or None,
                "path": target.directory or None,
                "pg_bin": options["pg_bin"],
            }
        )
        for target in targets
    ]


def _check_options(targets: Sequence[Table], rounds: int, options: Mapping[str, Any]) -> None:
    """Check combinations that the study's own checks do not cover.

    Raises:
        UsageError: when options contradict each other.
    """
    loads = options["prepare"] is not None or options["scale"] is not None
    on_servers = any(target["kind"] == "database" for target in targets)
    if options["prepare"] is not None and options["scale"] is not None:
        raise UsageError(
            seen="--prepare and --scale are given together",
            cause="Both define the data before the replay",
            next_step="Use one of them",
        )
    if on_servers and options["pg_bin"] is not None:
        raise UsageError(
            seen="--pg-bin is given with the address of a server",
            cause="No server is started there",
            next_step="Leave out --pg-bin, or use a folder with --to",
        )
    if options["restore"] is not None and (loads or not on_servers):
        raise UsageError(
            seen="--restore is given, but the replay uses a database created by Seatrial",
            cause="Each round starts with a copy of the loaded data",
            next_step="Leave out --restore, or use --to URL with the database that it restores",
        )
    uses_existing_data = on_servers and not loads
    is_restored = (
        options["read_only"] or options["restore"] is not None or options["clone"] == "template"
    )
    if (
        uses_existing_data
        and not is_restored
        and (repetition := _repetition(targets, rounds, options))
    ):
        raise UsageError(
            seen=repetition,
            cause="The second replay would find the writes of the first and fail",
            next_step="Restore it before each round with --restore COMMAND, replay on copies of it "
            "with --clone template, or replay with --read-only; or replay once per target in "
            "separate runs with --label, and compare them with `seatrial sql compare`",
        )
    if options["allow_writes"] is not None and (
        not uses_existing_data or options["clone"] == "template"
    ):
        raise UsageError(
            seen="--allow-writes is given, but the replay uses a database created by Seatrial",
            cause="It allows writes to an existing database",
            next_step="Leave out --allow-writes, or --prepare, --scale and --clone template",
        )


def _repetition(targets: Sequence[Table], rounds: int, options: Mapping[str, Any]) -> str:
    """Return how a database would be replayed on more than once; empty if none would be."""
    if rounds > 1:
        usual = "" if options["rounds"] else f" ({rounds}, the default of several targets)"
        return f"Several rounds{usual} are requested on a database that is not restored"
    urls = [target["url"] for target in targets if "url" in target]
    twice = [url for url in urls if urls.count(url) > 1]
    if not twice:
        return ""
    label = next(target["label"] for target in targets if target.get("url") == twice[0])
    return (
        f"A database that is not restored is replayed {urls.count(twice[0])} times in one round: "
        f"{label}, and once more as the A/A control"
    )


COMPLETE: Final = "complete"
VERDICTS_MAX: Final = 2
"""Maximum number of printed comparisons of a run's targets; ``--tables`` prints all."""


def replay_and_report(plan: Plan, measuring: MeasureOptions, *, ray: str = "") -> int:
    """Replay a trace, store, print and report the result; return the exit code.

    With several targets, the comparison between them is printed as well.

    Args:
        plan: A study of one replay, on one target or several.
        measuring: Options of all measuring commands.
        ray: Address of the cluster whose hosts replay it; empty for this machine alone.

    Raises:
        RefusedError: when the target must not be written to, or not be used.
        SeatrialError: when the target or the results file cannot be used.
        UsageError: when the report could not be written.
    """
    request = RunRequest(
        plan=plan,
        command=command_line(),
        label=measuring.label,
        destroy=measuring.destroy,
        waits=measuring.waits,
        ray=ray,
    )
    with (
        observing(request, measuring.results) as observation,
        ResultsFile.open(measuring.results, create=True) as store,
    ):
        informative = reported_if_it_fails(request, store, as_json=measuring.as_json)
        with informative, terminal.watcher(quiet=measuring.as_json) as watcher:
            both = observation.with_page(watcher)
            run, end = execute(request, store, watcher=both, strategy=strategy_of(plan))
        samples, results = store.samples(run.id), store.path
        summary = summarise(run, samples)
        verdicts = verdicts_by_target(summary)
        if not measuring.as_json:
            ending = "" if verdicts else f"Nothing was replayed. {end.reason}"
            print_replay(summary, verdicts, measuring, results, ending=ending)
        report = None
        if display_options().report:
            report = write_report(summary, measuring.report, results, observation=observation)
        if measuring.as_json:
            earlier = earlier_samples(run, results)
            click.echo(json_document.render(summary, display_options().profile, earlier), nl=False)
        else:
            echo_paths(run, results, report)
    return _exit_code(plan, summary, verdicts)


def print_replay(
    summary: Summary,
    verdicts: Mapping[str, ReplayVerdict],
    measuring: MeasureOptions,
    results: Path,
    *,
    ending: str = "",
) -> None:
    """Print the result of a replay, and the comparison of its targets.

    Args:
        summary: Its run.
        verdicts: The verdict on each target.
        measuring: Options of all measuring commands.
        results: The results file.
        ending: Why nothing was replayed; empty if something was.
    """
    rest = f"{replay_text(verdicts, summary)}\n" if verdicts else ""
    found = answer(summary, display_options().profile)
    click.echo(first_text(found, rest, ending=ending), nl=False)
    if not display_options().quiet:
        _compare(summary.run, list(verdicts), measuring, results)


def _compare(run: Run, labels: Sequence[str], measuring: MeasureOptions, results: Path) -> None:
    """Print the comparison of each target of a run with the first, and write its page.

    With ``--tables`` query by query; else only the verdicts of the first ``VERDICTS_MAX``.
    """
    controls = [label for label in labels if label == f"{labels[0]}{CONTROL_SUFFIX}"]
    others = [label for label in labels[1:] if label not in controls]
    for index, label in enumerate(others):
        is_printed = index < VERDICTS_MAX or display_options().tables
        sides = (f"{run.id}:{labels[0]}", f"{run.id}:{label}")
        options = CompareOptions(
            sides=sides,
            control=f"{run.id}:{controls[0]}" if controls else None,
            report=Output(
                path=results.parent / f"seatrial-{labels[0]}-{label}-{run.id}.html",
                force=measuring.report.force,
            )
            if display_options().report
            else Output(),
            otherwise=next_command(
                *("sql", "compare", *sides, "--anyway", "--report", "FILE"), results=results
            ),
            results=results,
            anyway=True,
            words="all" if display_options().tables else "verdict" if is_printed else "none",
            title=f"{label} compared with {labels[0]}: ",
        )
        if index == 0 or display_options().tables:
            click.echo("")
        try:
            run_comparison(options)
        except UsageError as error:
            # Such as when nothing was answered on one of them, which is reported above.
            click.echo(wrapped(f"{label} is not compared with {labels[0]}: {error.seen}."))
    if len(others) > VERDICTS_MAX and not display_options().tables:
        more = format_plural(len(others) - VERDICTS_MAX, "more comparison")
        where = f": {results.parent / f'seatrial-{labels[0]}-*-{run.id}.html'}"
        click.echo(f"{more}{where if display_options().report else ' with --tables'}")


def _exit_code(plan: Plan, summary: Summary, verdicts: Mapping[str, ReplayVerdict]) -> int:
    """Return 4 unless every round was complete, without faults and with the same start."""
    are_faultless = len(verdicts) == len(plan.targets) and all(
        each.ok for each in verdicts.values()
    )
    is_partial = summary.run.status != COMPLETE or starts_differ(summary)
    return 0 if are_faultless and not is_partial else EXIT_PARTIAL
