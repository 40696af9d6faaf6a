"""Finds the files named in a study, in its directory or the working directory.

The stored paths are absolute, so that a run can be resumed from any directory.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from seatrial.study.problems import ConstraintError
from seatrial.study.schema import Study, Target
from seatrial.topic import topic_of


def with_files(study: Study, folder: Path, *, may_lack: bool = False) -> Study:
    """Return the study with absolute paths for all its files.

    Args:
        study: The study.
        folder: The directory of the study file, in which relative names are looked up first.
        may_lack: Whether a trace and its snapshot may be missing and be created later in the
            working directory: shipped studies do not include them.

    Raises:
        ConstraintError: with the path of the key, when a file is not there or cannot be used.
    """
    workloads = [
        topic_of(workload).with_files(
            workload, FileLookup(folder, ("workload", index), may_lack=may_lack)
        )
        for index, workload in enumerate(study.workloads)
    ]
    targets = [_with_programs(target, folder) for target in study.targets]
    return msgspec.structs.replace(study, workloads=workloads, targets=targets)


@dataclass(frozen=True)
class FileLookup:
    """Looks up the files of one workload.

    Attributes:
        folder: The directory of the study file, in which relative names are looked up first.
        key_path: Path of the workload in the study.
        may_lack: Whether the file sought by ``found_or_named`` may be created later.
    """

    folder: Path
    key_path: tuple[str | int, ...]
    may_lack: bool = False

    def candidates(self, name: str) -> Iterator[Path]:
        """Yield the possible paths for a name: next to the study, then in the working directory."""
        yield from _candidates(name, self.folder)

    def found_or_named(self, name: str, *key: str | int) -> str:
        """Return the file for a name; if it may be missing, its path in the working directory."""
        if self.may_lack and not any(path.exists() for path in self.candidates(name)):
            return str((Path.cwd() / name).absolute())
        return self.found(name, *key)

    def found(self, name: str, *key: str | int, or_else: tuple[str, ...] = ()) -> str:
        """Return the absolute path of the file for a name.

        Args:
            name: The name in the study.
            key: Path of the key within the workload.
            or_else: Other names that the user may have meant.

        Raises:
            ConstraintError: when no readable file is found.
        """
        for path in self.candidates(name):
            if not path.is_file():
                continue
            if not os.access(path, os.R_OK):
                raise self.violation(
                    f"is {name!r}, a file without read permission", f"See `ls -l {path}`", *key
                )
            return str(path)
        others = sorted(each.name for each in _entries(self.folder) if each.is_file())
        near = difflib.get_close_matches(name, [*or_else, *others], n=1)
        own = f"pgbench's built-in scripts are {', '.join(or_else)}; a" if or_else else "A"
        raise self.violation(
            f"is {name!r}, but there is no such file",
            f"Did you mean {near[0]!r}?"
            if near
            else f"{own} file is looked up in {self.folder}, then in the working directory",
            *key,
        )

    def violation(self, seen: str, expected: str, *key: str | int) -> ConstraintError:
        """Return the error for a key of the workload."""
        return ConstraintError(seen, expected, *self.key_path, *key)


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
    """Return a target with an absolute path of its program directory, which is not read."""
    if not target.pg_bin:
        return target
    found = next((path for path in _candidates(target.pg_bin, folder) if path.is_dir()), None)
    folder = found or (Path.cwd() / Path(target.pg_bin).expanduser())
    return msgspec.structs.replace(target, pg_bin=str(folder.absolute()))
