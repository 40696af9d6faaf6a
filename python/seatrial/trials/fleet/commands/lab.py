"""``seatrial fleet lab``: a study on several hosts that are namespaces of this machine."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click
import msgspec

from seatrial.cli.options import (
    FiniteRange,
    MeasureOptions,
    changing_options,
    complete_studies,
    measuring_options,
)

if TYPE_CHECKING:
    from seatrial.fleet.lab import FleetLab, LabRequest
    from seatrial.study.model import Plan

EPILOG = """\b
Examples:
  seatrial fleet lab mine.toml
  seatrial fleet lab mine.toml --delay 1 --loss 0.1
  seatrial fleet lab mine.toml --fault kill:host2:20
  seatrial fleet lab mine.toml --fault cut:host1:10 --fault pause:host3:15

\b
Root is needed. All hosts share the processors of this machine: the lab shows how lost hosts are
handled, how results are merged and the limit of a throttled target, not how fast many machines are.
"""

FAULT: Final = re.compile(r"(kill|cut|pause|clock):host(\d+):(\d+(?:\.\d+)?)")
PAUSE_S: Final = 2.0
CLOCK_AHEAD_S: Final = 3.0


def _faults(
    _context: click.Context, _parameter: click.Parameter, written: Sequence[str]
) -> list[tuple[str, int, float]]:
    """Return kind, host and time of each fault; raises click.BadParameter if one is invalid."""
    found = []
    for each in written:
        match = FAULT.fullmatch(each)
        if match is None:
            raise click.BadParameter(f"{each!r} is not KIND:HOST:SECONDS, such as kill:host2:20")
        found.append((match[1], int(match[2]), float(match[3])))
    return found


@click.command("lab", epilog=EPILOG, short_help="Run a study on simulated hosts (namespaces).")
@click.argument("file", metavar="STUDY", shell_complete=complete_studies)
@click.option(
    "--target",
    "target_paths",
    metavar="[LABEL=]PLACE",
    multiple=True,
    help="Path of a target of the study; may be repeated.",
)
@click.option(
    "--delay",
    "delay_ms",
    type=FiniteRange(0, 10_000),
    default=0.0,
    help="Delay of each packet from or to a host, in milliseconds.",
)
@click.option(
    "--loss",
    "loss_percent",
    type=FiniteRange(0, 100),
    default=0.0,
    help="Packet loss from and to each host, in percent.",
)
@click.option(
    "--fault",
    "faults",
    metavar="KIND:HOST:SECONDS",
    multiple=True,
    callback=_faults,
    help="kill, cut (its link), pause (2 s) or clock (set 3 s ahead) a host, "
    "at a time after the start of the lab.",
)
@changing_options
@measuring_options
def lab(
    *,
    file: str,
    delay_ms: float,
    loss_percent: float,
    faults: list[tuple[str, int, float]],
    resume: bool,
    measuring: MeasureOptions,
    **changes: object,
) -> int:
    """Measure STUDY, which has [hosts], on one machine: each host is a set of namespaces.

    Raises:
        TargetError: when the lab cannot be built here.
        UsageError: when the study has no [hosts], or a fault is for a host that it has not.
    """
    from seatrial.cli.study_command import plan_of, show_or_measure  # noqa: PLC0415
    from seatrial.fleet.lab import FleetLab  # noqa: PLC0415 - not for --help
    from seatrial.machine.marker import new_run_id  # noqa: PLC0415 - likewise
    from seatrial.machine.undo_journal import UndoJournal  # noqa: PLC0415 - likewise

    plan = plan_of(file, **changes)
    request = _request(plan, delay_ms, loss_percent)
    _require_hosts(faults, request.hosts_count)
    if any(kind == "clock" for kind, _, _ in faults):
        request = msgspec.structs.replace(request, sets_clocks=True)
    if measuring.plan_only:
        return show_or_measure(plan, measuring)
    click.echo(f"Starting a head and {request.hosts_count} hosts on this machine", err=True)
    with UndoJournal(f"{new_run_id()}-lab") as journal, FleetLab(request, journal) as built:
        for note in built.notes:
            click.echo(note, err=True)
        timers = [_timer(built, *fault) for fault in faults]
        try:
            return show_or_measure(plan, measuring, resume=resume, ray=built.address)
        finally:
            for timer in timers:
                timer.cancel()


def _require_hosts(faults: Sequence[tuple[str, int, float]], count: int) -> None:
    from seatrial.errors import UsageError  # noqa: PLC0415 - only for an error

    if missing := [f"host{host}" for _, host, _ in faults if not 1 <= host <= count]:
        raise UsageError(
            seen=f"--fault names {', '.join(missing)}, but the lab has host1 to host{count}",
            cause="The lab has as many hosts as the largest of `counts` in [hosts]",
            next_step="Name one of these hosts",
        )


def _timer(built: FleetLab, kind: str, host: int, after_s: float) -> threading.Timer:
    def strike() -> None:
        if kind == "kill":
            built.kill(host)
        elif kind == "cut":
            built.cut_link(host)
        elif kind == "clock":
            built.set_clock(host, CLOCK_AHEAD_S)
        else:
            built.pause(host, PAUSE_S)

    timer = threading.Timer(after_s, strike)
    timer.daemon = True
    timer.start()
    return timer


def _request(plan: Plan, delay_ms: float, loss_percent: float) -> LabRequest:
    from seatrial.errors import UsageError  # noqa: PLC0415 - only for an error
    from seatrial.fleet.lab import LabRequest  # noqa: PLC0415 - not for --help

    hosts = plan.study.hosts
    if hosts is None:
        raise UsageError(
            seen=f"The study {plan.study.name!r} has no [hosts]",
            cause="It is measured by one machine",
            next_step="Add to it: [hosts] with counts = [1, 2, 4] (docs/fleet.md), or measure it "
            "with `seatrial study`",
        )
    own = [target.path for target in plan.targets] if hosts.files == "own" else []
    return LabRequest(
        hosts_count=max(hosts.counts),
        delay_ms=delay_ms,
        loss_percent=loss_percent,
        seed=plan.study.seed,
        own_paths=own,
    )
