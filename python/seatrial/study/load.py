"""Loads studies from files, from the shipped set, and from mappings."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from seatrial.errors import StudyError
from seatrial.study.check import check
from seatrial.study.files import with_files
from seatrial.study.layouts.layout import with_fault
from seatrial.study.problems import CommandLine, ConstraintError, Source, explain, nearest
from seatrial.study.schema import Study
from seatrial.study.server_address import with_addresses
from seatrial.study.values import decode

BUILTIN: Final = Path(__file__).parent / "builtin"
"""Directory of the shipped studies, in a checkout and in an installed package."""


Table = dict[str, Any]
"""A table of a study file as parsed from TOML, not yet checked."""


def shipped_studies() -> list[str]:
    """Return the names of the shipped studies."""
    return sorted(path.stem for path in BUILTIN.glob("*.toml"))


def find_study(name_or_path: str | Path) -> Path:
    """Return the file of a shipped study (``quick``) or of a path (``my/study.toml``).

    A file with that path takes precedence over a shipped study of the same name.

    Raises:
        StudyError: when neither exists.
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
        seen=f"{name!r} is neither a study file nor the name of a shipped study",
        cause=f"Did you mean {near!r}?"
        if near
        else ("The name is misspelled, or the file is in another directory"),
        next_step="Specify the path of a study file, or a shipped study: "
        f"{', '.join(shipped_names)}",
    )


def load_study(name_or_path: str | Path) -> Study:
    """Return a study, checked and completed with defaults, with its files found.

    Raises:
        StudyError: when the file does not exist, or with file, line and key of the first mistake.
    """
    path = find_study(name_or_path)
    source = Source(str(name_or_path), _text_of(path))
    return _found(_checked(_parsed(source), source), path.parent.absolute(), source)


def load_model(path: Path) -> Table:
    """Return the table of a simulated device from a separate file, not yet checked.

    Raises:
        StudyError: when it cannot be read or is not TOML.
    """
    return _parsed(Source(str(path), _text_of(path)))


def parse_study(text: str, name: str) -> Study:
    """Return the study that a TOML text declares.

    Args:
        text: The text.
        name: Its name in messages: its path.

    Raises:
        StudyError: with file, line and key of what is wrong.
    """
    source = Source(name, text)
    return _checked(_parsed(source), source)


def study_from_options(data: Mapping[str, Any], options: Mapping[str, str] | None = None) -> Study:
    """Return the study for options of the command line, given as a mapping with study keys.

    Files are looked up in the working directory.

    Args:
        data: The mapping.
        options: Options with another name than the study's key, by key.

    Raises:
        StudyError: with the option that is wrong.
    """
    source = CommandLine(options)
    return _found(_checked(data, source), Path.cwd(), source)


def study_from_mapping(data: Mapping[str, Any], name: str) -> Study:
    """Return the study of a mapping with the keys of a study file.

    Args:
        data: What ``tomllib`` would read, or what ``study_to_mapping`` gave.
        name: Its name in messages.

    Raises:
        StudyError: with the key of what is wrong.
    """
    return _checked(data, Source(name))


def study_to_mapping(study: Study) -> Table:
    """Return a study as plain values, complete with defaults, sizes in bytes.

    The results file stores this; ``study_from_mapping`` restores the study.
    """
    mapping: Table = msgspec.to_builtins(study, enc_hook=int)
    mapping["thresholds"] = study.thresholds.as_table()
    for workload in mapping["workload"]:
        for key, value in workload.items():
            if isinstance(value, tuple):
                workload[key] = list(value)
    return mapping


def recheck(study: Study) -> Study:
    """Return a study changed by options of the command line, checked again.

    Its files are not looked up again: no option names one, and a file of a shipped study may not
    exist yet.

    Raises:
        StudyError: with the option that makes it invalid.
    """
    return _checked(study_to_mapping(study), CommandLine())


def _text_of(path: Path) -> str:
    """Return the text of a file without a byte order mark."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(
            seen=f"{path} cannot be read: {error}",
            cause="A study file must be readable UTF-8 text",
            next_step=f"Check it with 'file {path}' and 'ls -l {path}'",
        ) from error


def _parsed(source: Source) -> Table:
    try:
        return tomllib.loads(source.text)
    except tomllib.TOMLDecodeError as error:
        raise source.not_toml(error) from error


def _found(study: Study, folder: Path, source: Source) -> Study:
    """Return the study with the paths of its files, or raise the first that does not exist."""
    try:
        return with_files(study, folder, may_lack=folder.resolve() == BUILTIN.resolve())
    except ConstraintError as violation:
        raise source.error(violation.path, violation.seen, violation.expected) from violation


def _checked(data: Mapping[str, Any], source: Source) -> Study:
    """Return the study of a parsed document, or raise the first mistake."""
    data = _with_current_keys(data)
    try:
        study = msgspec.convert(data, Study, dec_hook=decode)
    except msgspec.ValidationError as error:
        raise explain(error, data, Study, source) from error
    for violation in check(study):
        raise source.error(violation.path, violation.seen, violation.expected)
    return with_addresses(study)


def _with_current_keys(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the document with current names for the keys of older studies."""
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
