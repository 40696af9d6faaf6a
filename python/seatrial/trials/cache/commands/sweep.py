"""``seatrial cache sweep``: predicts every size of shared buffers from one replay."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from seatrial.cli.files import RECORDING, Output, output_option
from seatrial.cli.options import Duration, json_option, results_option, without_none
from seatrial.errors import UsageError
from seatrial.study.units import parse_size_bytes

if TYPE_CHECKING:
    from seatrial.study.load import Table
    from seatrial.trials.cache.analysis.sweep import CacheSweepResult
    from seatrial.trials.cache.measure.sweep_run import SweepRequest

SCRIPTS: Final = ("tpcb-like", "simple-update", "select-only")
CLIENTS: Final = 8
TRANSACTIONS: Final = 20_000
DEFAULT_PRESENT: Final = "128MiB"
DEFAULT_SAMPLE_S: Final = 10.0
NO_CHECKS: Final = "none"
_SECONDS_MAX: Final = 86_400.0

EPILOG = """\b
Examples:
  seatrial cache sweep /mnt/ssd --log prod.trace --prepare prod.dump
  seatrial cache sweep /mnt/ssd --log prod.trace --prepare prod.dump --check 2GiB,8GiB
  seatrial cache sweep /mnt/ssd --pgbench tpcb-like --scale 100 --output sweep.html
  seatrial cache sweep postgresql:///shop --for 10m    a running server: only a bound

\b
A temporary server in DIR replays the load once with the smallest shared buffers and direct I/O,
while every request is recorded; this needs root. The first half of the load warms the buffers and
is not counted. `seatrial sql read` and `sql capture` make a trace. docs/cache.md describes what is
predicted and how far predictions were off.
"""


def _settings(
    _context: click.Context, _parameter: click.Parameter, written: tuple[str, ...]
) -> dict[str, str]:
    """Return settings by name; raises click.BadParameter for an invalid one."""
    found = {}
    for word in written:
        name, equals, value = word.partition("=")
        if not equals or not name.strip():
            raise click.BadParameter(f"{word!r} is not NAME=VALUE")
        if name.strip() == "shared_buffers":
            raise click.BadParameter("shared_buffers is the swept setting; --present marks a size")
        found[name.strip()] = value.strip()
    return found


def _checks(
    _context: click.Context, _parameter: click.Parameter, written: str | None
) -> list[int] | None:
    """Return sizes in bytes; empty for the default two, None for none."""
    if written is None:
        return []
    return (
        None if written.strip() == NO_CHECKS else [_size_bytes(each) for each in written.split(",")]
    )


def _size_bytes(text: str) -> int:
    """Return a size in bytes; raises click.BadParameter for an invalid one."""
    try:
        return parse_size_bytes(text.strip())
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command(
    "sweep", epilog=EPILOG, short_help="Predict the effect of every size of shared buffers."
)
@click.argument("target", metavar="DIR|URL")
@click.option("--log", metavar="FILE", help="Trace of SQL to replay (`seatrial sql read`).")
@click.option("--prepare", metavar="FILE", help="Data to load first: SQL, or a pg_dump archive.")
@click.option(
    "--scale", type=click.IntRange(min=1), metavar="N", help="Load pgbench tables of this scale."
)
@click.option(
    "--pgbench",
    "script",
    metavar="SCRIPT",
    help=f"Run pgbench instead of a trace: {', '.join(SCRIPTS)}, or a script file.",
)
@click.option(
    "--clients",
    type=click.IntRange(min=1),
    default=CLIENTS,
    show_default=True,
    help="Clients of pgbench; a trace has its own sessions.",
)
@click.option(
    "--transactions",
    type=click.IntRange(min=2),
    default=TRANSACTIONS,
    show_default=True,
    help="Transactions of pgbench in total; the second half is counted.",
)
@click.option("--read-only", is_flag=True, help="Replay only the reads of the trace.")
@click.option(
    "--database",
    "databases",
    multiple=True,
    metavar="NAME",
    help="Replay only sessions of this captured database; may be repeated.",
)
@click.option(
    "--present",
    metavar="SIZE",
    default=DEFAULT_PRESENT,
    show_default=True,
    help="Current shared buffers, with which all sizes are compared.",
)
@click.option(
    "--check",
    "check_bytes",
    metavar="SIZE,...",
    callback=_checks,
    help="Sizes to run after the prediction; by default two in the steep part; `none` for none.",
)
@click.option(
    "--set",
    "settings",
    metavar="NAME=VALUE",
    multiple=True,
    callback=_settings,
    help="Server setting of all sizes; may be repeated.",
)
@click.option("--pg-bin", type=click.Path(), help="Folder of the PostgreSQL programs, 16 or later.")
@click.option(
    "--for",
    "for_s",
    type=Duration(1.0, _SECONDS_MAX),
    default=DEFAULT_SAMPLE_S,
    show_default=True,
    help="Sampling time, for a running server.",
)
@output_option("--record", about="Keep the recording of the replay.", kind=RECORDING)
@output_option("-o", "--output", about="Also write the report, with charts, as an HTML page.")
@results_option
@json_option
def sweep(
    *,
    target: str,
    record: Output,
    output: Output,
    results: Path,
    as_json: bool,
    **options: Any,  # noqa: ANN401 - as in `sql replay`
) -> int:
    """Predict the effect of every size of shared buffers, and run two sizes to check it.

    In DIR, a separate server replays the load. The counters of a server at URL, which is not
    restarted, give a bound.

    Raises:
        UsageError: if options exclude each other.
    """
    if "://" in target:
        return _print_bound(target, options, output, as_json=as_json)
    from seatrial.cli import terminal  # noqa: PLC0415 - not for --help
    from seatrial.trials.cache.measure.sweep_run import run_sweep  # noqa: PLC0415
    from seatrial.trials.watch.commands.record import record_to, store  # noqa: PLC0415

    to = record_to(record, 1 << 30)
    request = _sweep_request(target, options, to.path if to else None)
    with terminal.watcher(quiet=as_json) as watcher:
        found = run_sweep(request, watcher)
    again = f"seatrial cache sweep {target} --output FILE"
    next_step = _next_step(found, output, again)
    if to is not None:
        click.echo(store(to.path, results), err=True)
    if output.is_named:
        from seatrial.trials.cache.report.sweep_page import render  # noqa: PLC0415

        output.write(render(found, next_step), otherwise=again)
    if as_json:
        from seatrial.trials.cache.documents import sweep_document  # noqa: PLC0415

        click.echo(sweep_document(found), nl=False)
    else:
        from seatrial.trials.cache.report.sweep_text import sweep_text  # noqa: PLC0415

        click.echo(sweep_text(found, next_step))
    return 0


def _print_bound(url: str, options: Mapping[str, Any], output: Output, *, as_json: bool) -> int:
    """Print the bound of a running server."""
    from seatrial.trials.cache.measure.sweep_bound import sampled_bound  # noqa: PLC0415

    if options["log"] or options["script"] or output.is_named:
        raise UsageError(
            seen="A running server is neither restarted nor used for a replay",
            cause="--log, --pgbench and --output need a directory",
            next_step="Name a directory for a separate server, or leave them out for a bound",
        )
    found = sampled_bound(url, options["for_s"])
    if as_json:
        from seatrial.trials.cache.documents import bound_document  # noqa: PLC0415

        click.echo(bound_document(found), nl=False)
    else:
        from seatrial.trials.cache.report.sweep_text import bound_text  # noqa: PLC0415

        next_step = "Every size: `seatrial cache sweep DIR --log TRACE --prepare DUMP`"
        click.echo(bound_text(found, next_step))
    return 0


def _sweep_request(target: str, options: Mapping[str, Any], recording: Path | None) -> SweepRequest:
    """Return the parameters of the sweep.

    Raises:
        SeatrialError: when the directory, the trace or an option cannot be used.
        UsageError: when options exclude each other.
    """
    import msgspec  # noqa: PLC0415 - not for --help

    from seatrial.cli.study_command import plan_for  # noqa: PLC0415
    from seatrial.study.load import study_from_options  # noqa: PLC0415
    from seatrial.trials.cache.measure.sweep import Load  # noqa: PLC0415
    from seatrial.trials.cache.measure.sweep_run import SweepRequest, programs  # noqa: PLC0415
    from seatrial.trials.database.study.workloads import spec_of  # noqa: PLC0415

    binaries = programs(options["pg_bin"] or "")
    target_table = {"label": "sweep", "path": target, "pg_bin": str(binaries.folder)}
    study = study_from_options(
        {
            "name": "cache-sweep",
            "rounds": {"min": 1, "max": 1},
            "target": [target_table],
            "workload": [_workload(options)],
        },
        {"path": "DIR", "scripts": "pgbench", "trace": "log"},
    )
    plan = plan_for(study)
    spec = spec_of(plan.cells[0].spec)
    kind = plan.cells[0].kind
    name = f"pgbench {options['script']}" if kind == "pgbench" else Path(options["log"]).name
    return SweepRequest(
        load=Load(
            kind=kind,
            spec=msgspec.structs.replace(spec, settings=dict(options["settings"])),
            transactions=options["transactions"],
        ),
        name=name,
        target=plan.targets[0],
        present_bytes=_size_bytes(options["present"]),
        check_bytes=options["check_bytes"],
        recording=recording,
    )


def _workload(options: Mapping[str, Any]) -> Table:
    """Return the load as a workload of a study.

    Raises:
        UsageError: when there is nothing to play, or two things.
    """
    log, script = options["log"], options["script"]
    if (log is None) == (script is None):
        raise UsageError(
            seen="There is nothing to replay"
            if log is None
            else "--log and --pgbench are both given",
            cause="A sweep replays a trace of SQL, or runs pgbench",
            next_step="Name one: --log prod.trace with --prepare prod.dump, or --pgbench tpcb-like",
        )
    if script is not None:
        named = script if script in SCRIPTS else str(Path(script).absolute())
        scale = options["scale"] or 10
        return {
            "kind": "pgbench", "scripts": named, "scale": scale, "clients": options["clients"],
        }  # fmt: skip
    if options["prepare"] is not None and options["scale"] is not None:
        raise UsageError(
            seen="--prepare and --scale are given together",
            cause="Both define the data before the replay",
            next_step="Use one of them",
        )
    prepare = options["prepare"]
    return without_none(
        {
            "kind": "replay",
            "trace": str(Path(log).absolute()),
            "prepare": str(Path(prepare).absolute()) if prepare else None,
            "scale": options["scale"],
            "read_only": options["read_only"] or None,
            "databases": list(options["databases"]) or None,
        }
    )


def _next_step(found: CacheSweepResult, output: Output, again: str) -> str:
    from seatrial.trials.cache.report.sweep_phrases import is_close  # noqa: PLC0415

    if not all(is_close(each) for each in found.checks):
        return (
            "Repeat it with a longer load and nothing else on the machine, or measure sizes in "
            "turn: `seatrial db DIR --set shared_buffers=SIZE,SIZE`"
        )
    if output.path is None:
        return f"See the curves: `{again}`"
    if not found.checks:
        return "Check it: leave out `--check none`"
    return "Set shared_buffers, and measure again: `seatrial db`"
