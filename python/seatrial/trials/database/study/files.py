"""Files of database workloads: scripts, batches, traces, snapshots, migrations."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

from seatrial.study.files import FileLookup
from seatrial.study.sampled import SampledWorkload
from seatrial.trials.database.study.workloads import (
    BUILTIN_SCRIPTS,
    Batch,
    Pgbench,
    Replay,
    SchemaVariant,
)

SQL_SUFFIX: Final = ".sql"
"""Suffix of SQL files; any other batch file is a program."""


def with_database_files(workload: SampledWorkload, files: FileLookup) -> SampledWorkload:
    """Return a workload with absolute paths of all its files.

    Raises:
        ConstraintError: when a file does not exist or cannot be used.
    """
    if isinstance(workload, Pgbench):
        return msgspec.structs.replace(workload, scripts=_scripts(workload, files))
    if isinstance(workload, Replay):
        return _with_trace(workload, files)
    if not isinstance(workload, Batch):
        return workload
    changes = {"file": files.found(workload.file, "file")}
    if not workload.file.endswith(SQL_SUFFIX) and not os.access(changes["file"], os.X_OK):
        raise files.violation(
            f"is {workload.file!r}, which is not executable",
            f"Files without {SQL_SUFFIX} are run as programs: use `chmod +x`",
            "file",
        )
    if workload.prepare:
        changes["prepare"] = files.found(workload.prepare, "prepare")
    return msgspec.structs.replace(workload, **changes)


def _with_trace(workload: Replay, files: FileLookup) -> Replay:
    """Return a replay with absolute paths of its trace, initial data and migrations."""
    changes = {"trace": files.found_or_named(workload.trace, "trace")}
    if workload.compare_rows:
        changes["compare_rows"] = files.found_or_named(workload.compare_rows, "compare_rows")
    if workload.prepare:
        dumped = (path for path in files.candidates(workload.prepare) if is_archive_folder(path))
        folder = next(dumped, None)
        changes["prepare"] = (
            str(folder) if folder else files.found_or_named(workload.prepare, "prepare")
        )
    schema = [_with_migration(variant, files, nth) for nth, variant in enumerate(workload.schema)]
    return msgspec.structs.replace(workload, **changes, schema=schema)


def _with_migration(schema: SchemaVariant, files: FileLookup, nth: int) -> SchemaVariant:
    if not schema.migrate:
        return schema
    migrate = files.found(schema.migrate, "schema", nth, "migrate")
    return msgspec.structs.replace(schema, migrate=migrate)


def is_archive_folder(path: Path) -> bool:
    """Return whether a folder is an archive of pg_dump in directory format."""
    return (path / "toc.dat").is_file()


def _scripts(workload: Pgbench, files: FileLookup) -> str | list[str]:
    """Return the scripts, with absolute paths of files; built-in names have priority."""
    if isinstance(workload.scripts, str):
        return _script(workload.scripts, files, "scripts")
    return [_script(script, files, "scripts", nth) for nth, script in enumerate(workload.scripts)]


def _script(script: str, files: FileLookup, *key: str | int) -> str:
    if script in BUILTIN_SCRIPTS:
        return script
    return files.found(script, *key, or_else=BUILTIN_SCRIPTS)
