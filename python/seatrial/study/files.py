"""Files that a study names: found beside it or in the working directory, and told from the root.

So a run that is stored names the very file, and is resumed from any folder.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from seatrial.study.problems import MisfitError
from seatrial.study.schema import Study, Target
from seatrial.trials.database.study.workloads import (
    BUILTIN_SCRIPTS,
    Batch,
    Pgbench,
    Replay,
    SchemaVariant,
)
from seatrial.trials.io.study.workloads import Workload

SQL_SUFFIX: Final = ".sql"
"""By it a batch's file is known to be SQL; any other is a program."""


def with_files(study: Study, folder: Path, *, may_lack: bool = False) -> Study:
    """Return the study with every file that it names as a path from the root.

    Args:
        study: The study.
        folder: Where a relative name is sought first: that of the study file.
        may_lack: Whether a trace and its snapshot may be yet to be made, in the working directory:
            a shipped study brings none along.

    Raises:
        MisfitError: with the path of the key, when a file is not there or cannot be used.
    """
    workloads = [
        _with_workload_files(workload, folder, index, may_lack=may_lack)
        for index, workload in enumerate(study.workloads)
    ]
    targets = [_with_programs(target, folder) for target in study.targets]
    return msgspec.structs.replace(study, workloads=workloads, targets=targets)


def _with_workload_files(
    workload: Workload, folder: Path, index: int, *, may_lack: bool
) -> Workload:
    place = ("workload", index)
    if isinstance(workload, Pgbench):
        return msgspec.structs.replace(workload, scripts=_scripts(workload, folder, *place))
    if isinstance(workload, Replay):
        return _with_trace(workload, folder, *place, may_lack=may_lack)
    if not isinstance(workload, Batch):
        return workload
    changes: dict[str, Any] = {"file": str(_file(workload.file, folder, *place, "file"))}
    if not workload.file.endswith(SQL_SUFFIX) and not os.access(changes["file"], os.X_OK):
        raise MisfitError(
            f"is {workload.file!r}, which may not be run",
            f"What does not end in {SQL_SUFFIX} is run as a program: `chmod +x` makes it one",
            *place,
            "file",
        )
    if workload.prepare:
        changes["prepare"] = str(_file(workload.prepare, folder, *place, "prepare"))
    return msgspec.structs.replace(workload, **changes)


def _with_trace(workload: Replay, folder: Path, *place: str | int, may_lack: bool) -> Replay:
    """Return a replay with its trace, what is loaded before it, and migrations, from the root."""

    def found(key: str, name: str) -> str:
        if may_lack and not any(path.exists() for path in _candidates(name, folder)):
            return str((Path.cwd() / name).absolute())
        return str(_file(name, folder, *place, key))

    changes = {"trace": found("trace", workload.trace)}
    if workload.compare_rows:
        changes["compare_rows"] = found("compare_rows", workload.compare_rows)
    if workload.prepare:
        dumped = (path for path in _candidates(workload.prepare, folder) if is_archive_folder(path))
        changes["prepare"] = str(next(dumped, None) or found("prepare", workload.prepare))
    schema = [
        _with_migration(each, folder, *place, "schema", nth)
        for nth, each in enumerate(workload.schema)
    ]
    return msgspec.structs.replace(workload, **changes, schema=schema)


def _with_migration(schema: SchemaVariant, folder: Path, *place: str | int) -> SchemaVariant:
    if not schema.migrate:
        return schema
    migrate = str(_file(schema.migrate, folder, *place, "migrate"))
    return msgspec.structs.replace(schema, migrate=migrate)


def is_archive_folder(path: Path) -> bool:
    """Tell whether a folder is an archive of pg_dump in its format ``directory``."""
    return (path / "toc.dat").is_file()


def _scripts(workload: Pgbench, folder: Path, *place: str | int) -> str | list[str]:
    """Return the scripts, those that are files as paths; a name of pgbench's own goes first."""
    if isinstance(workload.scripts, str):
        return _script(workload.scripts, folder, *place, "scripts")
    return [
        _script(script, folder, *place, "scripts", nth)
        for nth, script in enumerate(workload.scripts)
    ]


def _script(script: str, folder: Path, *place: str | int) -> str:
    if script in BUILTIN_SCRIPTS:
        return script
    return str(_file(script, folder, *place, or_else=BUILTIN_SCRIPTS))


def _file(name: str, folder: Path, *place: str | int, or_else: tuple[str, ...] = ()) -> Path:
    """Return the file that a name means; raises MisfitError when there is none to be read."""
    for path in _candidates(name, folder):
        if not path.is_file():
            continue
        if not os.access(path, os.R_OK):
            raise MisfitError(
                f"is {name!r}, a file that you may not read", f"See `ls -l {path}`", *place
            )
        return path
    beside = sorted(each.name for each in _entries(folder) if each.is_file())
    near = difflib.get_close_matches(name, [*or_else, *beside], n=1)
    own = f"pgbench's own are {', '.join(or_else)}; a" if or_else else "A"
    raise MisfitError(
        f"is {name!r}, which is no file",
        f"Did you mean {near[0]!r}?"
        if near
        else f"{own} file is sought in {folder}, then in the working directory",
        *place,
    )


def _candidates(name: str, folder: Path) -> Iterator[Path]:
    path = Path(name).expanduser()
    for base in (folder, Path.cwd()):
        yield (base / path).absolute()


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _with_programs(target: Target, folder: Path) -> Target:
    """Return a target with the folder of its programs from the root; nothing in it is looked at."""
    if not target.pg_bin:
        return target
    found = next((path for path in _candidates(target.pg_bin, folder) if path.is_dir()), None)
    place = found or (Path.cwd() / Path(target.pg_bin).expanduser())
    return msgspec.structs.replace(target, pg_bin=str(place.absolute()))
