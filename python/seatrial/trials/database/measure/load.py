"""Loads the initial data of the samples, once for all of them."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from seatrial.errors import TargetError
from seatrial.measure.progress import Watcher
from seatrial.postgres.binaries import Binaries
from seatrial.postgres.connection import Address, commit_locally, connect, is_pooled
from seatrial.postgres.locale import locale_of, locale_options, locale_text
from seatrial.study.units import format_size
from seatrial.trials.database.measure import telemetry
from seatrial.trials.database.measure.client_processes import Process, ignored, run_to_end
from seatrial.trials.database.measure.driver_result import Endpoints
from seatrial.trials.database.measure.pgbench import error_text
from seatrial.trials.database.measure.server_session import ServerSession
from seatrial.trials.database.study.cost import data_bytes, history_rows
from seatrial.trials.database.study.workloads import LoadSpec

PGBENCH_ROWS_A_SCALE: Final = 100_011
"""Accounts, tellers and the branch."""
PGBENCH_OBJECTS: Final = [
    f"table pgbench_{name}" for name in ("accounts", "branches", "history", "tellers")
]
RESTORE_JOBS_MAX: Final = 4
_FROM_ANOTHER: Final = ("archive", "sql", "nothing")
"""Loads whose data come from another database, or will, by a replay of its log."""
_CUSTOM_FORMAT: Final = b"PGDMP"
_SHARE: Final = re.compile(r"tuples \((\d+%)\) done")


class LoadResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of loading.

    Attributes:
        loaded_s: Total time, over all databases.
        rows: Total number of rows, over all databases.
        locale: Locale of the databases; empty where the load does not come from another one.
        locale_captured: Locale of the database of the archive; empty if unknown.
    """

    loaded_s: float
    rows: int
    locale: str = ""
    locale_captured: str = ""

    def migrated(self, by: LoadResult) -> LoadResult:
        """Return the result after a change of the schema, with its own result."""
        return msgspec.structs.replace(self, loaded_s=self.loaded_s + by.loaded_s, rows=by.rows)


def describe(load: LoadSpec) -> str:
    """Return a description of the load: ``scale 100`` or ``a day of 1,000 devices``."""
    if load.kind == "pgbench":
        return f"scale {load.scale}"
    if load.kind == "telemetry":
        return f"{load.history_hours} hours of {load.devices} devices"
    if load.kind == "nothing":
        return "nothing"
    return Path(load.file).name


def migrate(load: LoadSpec, endpoints: Endpoints, where: str, watcher: Watcher) -> LoadResult:
    """Change the schema of every database, which contain the unmigrated load.

    Args:
        load: A load that names the SQL file.
        endpoints: The databases.
        where: The target's label, for the watcher.
        watcher: Receives the progress.

    Raises:
        TargetError: when a statement of the file fails; with the server's message.
    """
    began_s = time.monotonic()
    watcher.step(f"Changing the schema on {where}: {Path(load.migrate).name}")
    rows = sum(_migrate_one(load.migrate, endpoints, address) for address in endpoints.addresses)
    with ServerSession(endpoints) as session:
        session.checkpoint()
    return LoadResult(loaded_s=time.monotonic() - began_s, rows=rows)


def _migrate_one(file: str, endpoints: Endpoints, address: Address) -> int:
    try:
        _run_sql(file, endpoints, address)
    except TargetError as error:
        raise TargetError(
            seen=error.seen.replace("The database could not be loaded", f"{file} failed"),
            cause="It does not match the loaded schema, or the server ran out of space",
            next_step="Run it by hand with `psql` on a restore of the snapshot",
        ) from None
    return _count_rows(endpoints, address)


def load_databases(
    load: LoadSpec, endpoints: Endpoints, where: str, watcher: Watcher
) -> LoadResult:
    """Load every database, one after the other, and write everything out.

    Args:
        load: The load.
        endpoints: The empty databases.
        where: The target's label, for the watcher.
        watcher: Receives the progress.

    Raises:
        TargetError: when a server or a program fails; with its message.
    """
    began_s = time.monotonic()
    rows = 0
    for number, address in enumerate(endpoints.addresses, start=1):
        which = (
            f" (database {number} of {len(endpoints.addresses)})"
            if len(endpoints.addresses) > 1
            else ""
        )
        step = f"Loading {describe(load)} on {where}{which}"
        if load.kind != "nothing":
            watcher.step(f"{step}: {format_size(data_bytes(load))}")
        rows += _load_database(load, endpoints, address, partial(_report, watcher, step))
    with ServerSession(endpoints) as session:
        session.checkpoint()
        locale = locale_of(session.connection) if load.kind in _FROM_ANOTHER else ""
    return LoadResult(
        loaded_s=time.monotonic() - began_s,
        rows=rows,
        locale=locale,
        locale_captured=locale_text(archived_locale(load, endpoints.binaries)),
    )


def archived_locale(load: LoadSpec, binaries: Binaries) -> str:
    """Return the locale of a load's archive as options of ``CREATE DATABASE``; empty without one.

    Raises:
        TargetError: when there is no pg_restore.
    """
    return locale_options(Path(load.file), binaries) if load.kind == "archive" else ""


def objects_of(load: LoadSpec) -> list[str]:
    """Return what ``load_databases`` creates, as ``table name``; nothing for a file."""
    return {"pgbench": PGBENCH_OBJECTS, "telemetry": telemetry.OBJECTS}.get(load.kind, [])


def _load_database(
    load: LoadSpec, endpoints: Endpoints, address: Address, report: Callable[[str], None]
) -> int:
    """Load a database and return its rows; ``report`` is called with the progress."""
    if load.kind == "pgbench":
        options = ("--initialize", "--quiet", "--scale", str(load.scale))
        _run(
            endpoints,
            address,
            "pgbench",
            *options,
            on_line=lambda line: _report_share(line, report),
        )
        return load.scale * PGBENCH_ROWS_A_SCALE
    if load.kind == "telemetry":
        return _load_telemetry(load, endpoints, address, report)
    if load.kind == "nothing":
        return 0
    if load.kind == "archive":
        _run(endpoints, address, "pg_restore", *_restoring(Path(load.file).resolve(), address))
        return _count_rows(endpoints, address)
    _run_sql(load.file, endpoints, address)
    return _count_rows(endpoints, address)


def _run_sql(file: str, endpoints: Endpoints, address: Address) -> None:
    options = ("-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", str(Path(file).resolve()))
    _run(endpoints, address, "psql", *options)


def _restoring(archive: Path, address: Address) -> list[str]:
    """Return the command that restores an archive of pg_dump, ignoring its roles.

    Directories and the custom format can be read by parallel jobs, tar archives cannot.
    """
    options = ["--no-owner", "--no-privileges", "--exit-on-error", "--dbname", address.dbname]
    if archive.is_dir() or _has_magic(archive, _CUSTOM_FORMAT):
        options += ["--jobs", str(min(RESTORE_JOBS_MAX, len(os.sched_getaffinity(0))))]
    return [*options, str(archive)]


def _has_magic(path: Path, mark: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(mark)) == mark


def _report(watcher: Watcher, step: str, done: str) -> None:
    watcher.step(f"{step}: {done}")


def _report_share(line: str, report: Callable[[str], None]) -> None:
    """Report the share in a line such as ``500000 of 1000000 tuples (50%) done (elapsed ...``."""
    found = _SHARE.search(line)
    if found:
        report(found[1])


def _load_telemetry(
    load: LoadSpec, endpoints: Endpoints, address: Address, report: Callable[[str], None]
) -> int:
    import psycopg  # noqa: PLC0415 - heavy, and only where there is a server

    rows = history_rows(load)
    stored = 0
    try:
        with connect(address, secret=endpoints.secret) as connection:
            commit_locally(connection)
            for stored in telemetry.load(connection, load):
                report(f"{stored / rows:.0%}")
    except psycopg.Error as error:
        raise _not_loaded(str(error)) from None
    return stored


def _count_rows(endpoints: Endpoints, address: Address) -> int:
    """Return the total rows of all tables, as counted by VACUUM."""
    with ServerSession(endpoints, address) as session:
        # The role may have a limit that suits its statements. A pooler keeps settings for others.
        if not is_pooled(session.connection):
            session.connection.execute("SET statement_timeout = 0; SET synchronous_commit = local")
        session.connection.execute("VACUUM ANALYZE")
        query = """
            SELECT coalesce(sum(reltuples), 0)::bigint FROM pg_class
            JOIN pg_namespace ON pg_namespace.oid = relnamespace
            WHERE relkind = 'r' AND nspname NOT IN ('pg_catalog', 'information_schema')
        """
        row = session.connection.execute(query).fetchone()
    return int(row[0]) if row else 0


def _run(
    endpoints: Endpoints,
    address: Address,
    program: str,
    *arguments: str,
    on_line: Callable[[str], None] = ignored,
) -> None:
    """Run a client program to its end.

    Raises:
        TargetError: when it fails.
    """
    command = [str(endpoints.binaries.program(program)), *arguments]
    environment = _environment(endpoints, address)
    ended = run_to_end(lambda: Process(command, environment, on_line))
    if ended.status != 0:
        raise _not_loaded(f"{program}: {error_text(ended.lines)}")


def _environment(endpoints: Endpoints, address: Address) -> dict[str, str]:
    """Return a program's environment; its commits wait for no standby, unless a pooler answers."""
    environment = address.environment(endpoints.secret)
    with connect(address, secret=endpoints.secret) as connection:
        names = connection.execute("SHOW synchronous_standby_names").fetchone()
        # Only where needed: poolers refuse these options.
        if names and names[0] and not is_pooled(connection):
            options = (environment.get("PGOPTIONS", ""), "-c synchronous_commit=local")
            environment["PGOPTIONS"] = " ".join(options).strip()
    return environment


def _not_loaded(words: str) -> TargetError:
    return TargetError(
        seen=f"The database could not be loaded: {' '.join(words.split())}",
        cause="The server ran out of space or stopped, or a statement of the file failed",
        next_step="Check the space with `df`, and run the file by hand with `psql`",
    )
