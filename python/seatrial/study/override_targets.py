"""Where a study's targets lie, as the command line says it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from seatrial.errors import StudyError
from seatrial.study.names import NAME
from seatrial.study.problems import suggestion
from seatrial.study.schema import Study, Target


def placed(study: Study, path: str | None, words: Sequence[str] = ()) -> list[Target]:
    """Return the targets of a study with the paths of the command line put in place.

    Where a study leaves all its places open, as shipped ones do, the labels are the user's: other
    ones than the study's take the place of them all.

    Args:
        study: The study.
        path: Of the one target that has none, or of the only one.
        words: Each a path as above, or ``LABEL=PATH``.

    Raises:
        StudyError: when a label is given twice or is no target's, or a path could be of several.
    """
    labelled, plain = _reported(words)
    plain += [] if path is None else [path]
    targets = _labelled(study, labelled) if labelled else list(study.targets)
    for each in plain:
        index = _index_without_path(study, targets)
        targets[index] = _at(targets[index], each)
    return targets


def _reported(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return the paths by label, and those without one."""
    labelled: dict[str, str] = {}
    plain: list[str] = []
    for word in words:
        label, equals, path = word.partition("=")
        if not (equals and NAME.fullmatch(label)):
            plain.append(word)
            continue
        if label in labelled:
            raise StudyError(
                seen=f"--target names {label!r} twice",
                cause="A target has one place",
                next_step="Give each target a label of its own, such as --target old=/mnt/a "
                "--target new=/mnt/b",
            )
        labelled[label] = path
    return labelled, plain


def _labelled(study: Study, paths: Mapping[str, str]) -> list[Target]:
    known = [target.label for target in study.targets]
    unknown = [label for label in paths if label not in known]
    if not unknown:
        return [
            _at(target, paths[target.label]) if target.label in paths else target
            for target in study.targets
        ]
    if any(has_place(target) for target in study.targets):
        raise StudyError(
            seen=f"--target names {unknown[0]!r}, no target of study {study.name!r}",
            cause=suggestion(unknown[0], known),
            next_step="Labels can be chosen freely only where the study names no place at all",
        )
    return [
        _at(msgspec.structs.replace(_model(study, label), label=label), path)
        for label, path in paths.items()
    ]


def _model(study: Study, label: str) -> Target:
    """Return the study's target of a label, else its first: what it says of it still holds."""
    return next((each for each in study.targets if each.label == label), study.targets[0])


def _at(target: Target, path: str) -> Target:
    return msgspec.structs.replace(target, path=path, url="")


def has_place(target: Target) -> bool:
    """Return whether a target has a place, or needs none."""
    return bool(target.place) or target.kind in ("null", "simulated")


def _index_without_path(study: Study, targets: Sequence[Target]) -> int:
    """Return which target a path without a label is of; raises StudyError when none is."""
    if len(targets) == 1:
        return 0
    without = [index for index, target in enumerate(targets) if not target.place]
    if len(without) == 1:
        return without[0]
    example = " ".join(f"--target {target.label}=PATH" for target in targets[:2])
    raise StudyError(
        seen=f"A path was given, but study {study.name!r} has {len(targets)} targets, "
        f"{len(without)} of them without a path",
        cause="A path without a label can only be that of the one target that has none",
        next_step=f"Say which is meant: {example}",
    )
