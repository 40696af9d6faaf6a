"""Studies from files, from the shipped set, and from mappings."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from seatrial.errors import StudyError
from seatrial.study.check import check
from seatrial.study.files import with_files
from seatrial.study.layouts.failure import with_fault
from seatrial.study.problems import CommandLine, ConstraintError, Source, explain, nearest
from seatrial.study.schema import Study
from seatrial.study.server_address import with_addresses
from seatrial.study.values import decode

BUILTIN: Final = Path(__file__).parent / "builtin"
"""Where the shipped studies lie, in a checkout and in an installed package alike."""


def shipped_studies() -> list[str]:
    """Return the names of the shipped studies."""
    return sorted(path.stem for path in BUILTIN.glob("*.toml"))


def find_study(name_or_path: str | Path) -> Path:
    """Return the file of a shipped study (``quick``) or of a path (``my/study.toml``).

    A file of that path goes before a shipped study of the same name.

    Raises:
        StudyError: when there is neither.
    """
    path = Path(name_or_path)
    if path.is_file():
        return path
    name = str(name_or_path)
    shipped = BUILTIN / f"{name.removesuffix('.toml')}.toml"
    if shipped.parent == BUILTIN and shipped.is_file():
        return shipped
    shipped_names = shipped_studies()
    near = nearest(path.stem, shipped_names)
    raise StudyError(
        seen=f"There is no study file {name!r}, and no shipped study of that name",
        cause=f"Did you mean {near!r}?" if near else "The name is mistyped, or lies elsewhere",
        next_step="Give the path of a study file, or the name of a shipped study: "
        f"{', '.join(shipped_names)}",
    )


def load_study(name_or_path: str | Path) -> Study:
    """Return a study, checked and completed with defaults, its files found.

    Raises:
        StudyError: when there is no such file, or with file, line and key of what is wrong.
    """
    path = find_study(name_or_path)
    source = Source(str(name_or_path), _text_of(path))
    return _found(_checked(_parsed(source), source), path.parent.absolute(), source)


def load_model(path: Path) -> dict[str, Any]:
    """Return the table of a simulated device from a file of its own, not checked yet.

    Raises:
        StudyError: when it cannot be read or is not TOML.
    """
    return _parsed(Source(str(path), _text_of(path)))


def parse_study(text: str, name: str) -> Study:
    """Return the study that a TOML text declares.

    Args:
        text: The text.
        name: What messages call it: its path.

    Raises:
        StudyError: with file, line and key of what is wrong.
    """
    source = Source(name, text)
    return _checked(_parsed(source), source)


def study_from_options(data: Mapping[str, Any], options: Mapping[str, str] | None = None) -> Study:
    """Return the study of options of the command line, as a mapping with a study's keys.

    Files are sought in the working directory.

    Args:
        data: The mapping.
        options: Options whose name is not that of the study's key, by key.

    Raises:
        StudyError: with the option that is wrong.
    """
    source = CommandLine(options)
    return _found(_checked(data, source), Path.cwd(), source)


def study_from_mapping(data: Mapping[str, Any], name: str) -> Study:
    """Return the study of a mapping with the keys of a study file.

    Args:
        data: What ``tomllib`` would read, or what ``study_to_mapping`` gave.
        name: What messages call it.

    Raises:
        StudyError: with the key of what is wrong.
    """
    return _checked(data, Source(name))


def study_to_mapping(study: Study) -> dict[str, Any]:
    """Return a study as plain values, complete with defaults, sizes in bytes.

    What the results file keeps; ``study_from_mapping`` gives the same study back.
    """
    mapping: dict[str, Any] = msgspec.to_builtins(study, enc_hook=int)
    mapping["thresholds"] = study.thresholds.as_table()
    for workload in mapping["workload"]:
        for key, value in workload.items():
            if isinstance(value, tuple):
                workload[key] = list(value)
    return mapping


def recheck(study: Study) -> Study:
    """Return a study that options of the command line have changed, checked again.

    Its files are not sought again: no option names one, and of a shipped study one may be yet to
    be made.

    Raises:
        StudyError: with the option because of which it no longer holds.
    """
    return _checked(study_to_mapping(study), CommandLine())


def _text_of(path: Path) -> str:
    """Return the text of a file; a byte order mark before it is no part of it."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(
            seen=f"{path} cannot be read: {error}",
            cause="A study file is a text in UTF-8 that you may read",
            next_step=f"Look at it with 'file {path}' and 'ls -l {path}'",
        ) from error


def _parsed(source: Source) -> dict[str, Any]:
    try:
        return tomllib.loads(source.text)
    except tomllib.TOMLDecodeError as error:
        raise source.not_toml(error) from error


def _found(study: Study, folder: Path, source: Source) -> Study:
    """Return the study with the files that it names, or raise the first that is not there."""
    try:
        return with_files(study, folder, may_lack=folder.resolve() == BUILTIN.resolve())
    except ConstraintError as violation:
        raise source.error(violation.path, violation.seen, violation.expected) from violation


def _checked(data: Mapping[str, Any], source: Source) -> Study:
    """Return the study of what was read, or raise the first thing that is wrong."""
    data = _with_current_keys(data)
    try:
        study = msgspec.convert(data, Study, dec_hook=decode)
    except msgspec.ValidationError as error:
        raise explain(error, data, Study, source) from error
    for violation in check(study):
        raise source.error(violation.path, violation.seen, violation.expected)
    return with_addresses(study)


def _with_current_keys(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what was read, with the names of today for the keys of older studies."""
    workloads = data.get("workload")
    if not isinstance(workloads, list):
        return data
    current = [
        each | {"fail": with_fault(each["fail"])}
        if isinstance(each, dict) and "fail" in each
        else each
        for each in workloads
    ]
    return {**data, "workload": current}
