"""Changes a study by options of the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from seatrial.errors import StudyError, UsageError
from seatrial.study.cell import NAME
from seatrial.study.layouts.layout import Drives, Layout
from seatrial.study.load import recheck
from seatrial.study.problems import suggestion
from seatrial.study.sampled import SampledWorkload
from seatrial.study.schema import Budget, Rounds, Study, Target
from seatrial.study.server_address import is_server_address
from seatrial.study.units import parse_size_bytes
from seatrial.study.values import Size


def targets_with_paths(study: Study, path: str | None, words: Sequence[str] = ()) -> list[Target]:
    """Return the targets of a study with paths from the command line.

    If a study specifies no paths at all, as shipped studies do, the user may choose other labels,
    which replace those of the study.

    Args:
        study: The study.
        path: Path of the one target without a path, or of the only target.
        words: Each a path as above, or ``LABEL=PATH``.

    Raises:
        StudyError: when a label is given twice or is unknown, or a path is ambiguous.
    """
    labelled, plain = _parsed_targets(words)
    plain += [] if path is None else [path]
    targets = _labelled(study, labelled) if labelled else list(study.targets)
    for each in plain:
        index = _index_without_path(study, targets)
        targets[index] = _at(targets[index], each)
    return targets


def _parsed_targets(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return the paths by label, and the paths without a label."""
    labelled: dict[str, str] = {}
    plain: list[str] = []
    for word in words:
        label, equals, path = word.partition("=")
        if not (equals and NAME.fullmatch(label)):
            plain.append(word)
            continue
        if label in labelled:
            raise StudyError(
                seen=f"--target specifies {label!r} twice",
                cause="Each target has exactly one path",
                next_step="Use different labels, such as --target old=/mnt/a --target new=/mnt/b",
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
    if any(target.has_location for target in study.targets):
        raise StudyError(
            seen=f"--target specifies {unknown[0]!r}, which is not a target of study "
            f"{study.name!r}",
            cause=suggestion(unknown[0], known),
            next_step="You can choose labels only if the study specifies no path for any target",
        )
    return [
        _at(msgspec.structs.replace(_model(study, label), label=label), path)
        for label, path in paths.items()
    ]


def _model(study: Study, label: str) -> Target:
    """Return the study's target with a label, else its first, whose other keys still apply."""
    return next((each for each in study.targets if each.label == label), study.targets[0])


def _at(target: Target, path: str) -> Target:
    return msgspec.structs.replace(target, path=path, url="")


def _index_without_path(study: Study, targets: Sequence[Target]) -> int:
    """Return the target for a path without a label; raises StudyError if it is ambiguous."""
    if len(targets) == 1:
        return 0
    without = [index for index, target in enumerate(targets) if not target.location]
    if len(without) == 1:
        return without[0]
    example = " ".join(f"--target {target.label}=PATH" for target in targets[:2])
    raise StudyError(
        seen=f"A path was specified without a label, but study {study.name!r} has {len(targets)} "
        f"targets, {len(without)} of them without a path",
        cause="A path without a label is valid only if exactly one target has no path",
        next_step=f"Specify the label: {example}",
    )


def given_drives(drives: Drives, devices: str = "", loop: str = "", folder: str = "") -> Drives:
    """Return the drives of a study, replaced by those of the command line if given.

    Args:
        drives: From the study.
        devices: Block devices, separated by commas; empty for none.
        loop: Count and size of loop devices, such as ``6x2G``; empty for none.
        folder: Directory for the files of loop devices; empty for the study's.

    Raises:
        UsageError: when both kinds are given, or a directory without loop devices.
    """
    if devices and loop:
        raise UsageError(
            seen="Both --devices and --loop are set",
            cause="Layouts are built either from devices or from loop devices",
            next_step="Use only one of the two options",
        )
    given = drives
    if devices:
        named = [name.strip() for name in devices.split(",")]
        given = Drives(devices=[name for name in named if name])
    if loop:
        given = Drives(loop=loop, folder=drives.folder)
    if folder and not given.loop:
        raise UsageError(
            seen=f"--loop-dir is set to {folder}, but no loop devices are requested",
            cause="--loop-dir sets the directory for the files of loop devices",
            next_step="Add their count and size, such as --loop 6x2G",
        )
    return msgspec.structs.replace(given, folder=folder) if folder else given


def sized_layouts(layouts: list[Layout], size_bytes: Size | None) -> list[Layout]:
    """Return layouts with another size of their trial files, if given."""
    if size_bytes is None:
        return layouts
    return [msgspec.structs.replace(layout, size_bytes=size_bytes) for layout in layouts]


WrittenSize = str | int
"""Bytes, or text with a unit, such as ``4GiB``."""


def override(
    study: Study,
    *,
    size: WrittenSize | None = None,
    seconds: float | None = None,
    rounds: int | None = None,
    budget_s: float | None = None,
    write_budget: WrittenSize | None = None,
    target_path: str | None = None,
    target_paths: Sequence[str] = (),
    seed: int | None = None,
    buffered: bool = False,
    full: bool = False,
    devices: str = "",
    loop: str = "",
    loop_dir: str = "",
    personality: str = "",
) -> Study:
    """Return the study with options of the command line applied.

    Args:
        study: The study as read.
        size: Size of the trial file of every target and layout, in bytes or as text such as
            ``4GiB``.
        seconds: Duration of each sample; fills still end when the file is full, batches when they
            are done, and replays when their trace ends.
        rounds: Exact number of rounds, also for outliers.
        budget_s: Seconds that the run may take.
        write_budget: Bytes that the run may write, in bytes or as text such as ``80GiB``.
        target_path: Path of the target that has none, or of the only one.
        target_paths: A path as above, or paths of several targets, each as ``LABEL=PATH``.
        seed: Seed of the order and of the addresses.
        buffered: Use the page cache in all workloads of the I/O engine.
        full: Measure every matrix with all block sizes and threads of the article, without a time
            limit unless ``budget_s`` is given.
        devices: Block devices that layouts are built of, separated by commas.
        loop: Count and size of loop devices that layouts are built of, such as ``6x2G``.
        loop_dir: Directory for their files.
        personality: Personality of every file workload, by name or as the path of a workload file.

    Raises:
        StudyError: when an option is out of bounds, or the target of the path is ambiguous.
        UsageError: when options for drives conflict, or no workload has a personality.
    """
    workloads = [
        each.with_options(seconds, buffered=buffered, full=full)
        for each in _with_personality(study, personality)
    ]
    budget_time_s = budget_s if budget_s is not None else None if full else study.budget.time_s
    write_bytes = study.budget.write_bytes
    if write_budget is not None:
        write_bytes = _size(write_budget, "--write-budget")
    size_bytes = None if size is None else _size(size, "--size")
    changes: dict[str, object] = {
        "workloads": workloads,
        "targets": _sized(targets_with_paths(study, target_path, target_paths), size_bytes),
        "layouts": sized_layouts(study.layouts, size_bytes),
        "drives": given_drives(study.drives, devices, loop, loop_dir),
        "budget": Budget(time_s=budget_time_s, write_bytes=write_bytes),
    }
    if rounds is not None:
        changes["rounds"] = Rounds(
            min=rounds, max=rounds, precision=study.rounds.precision, remeasure=0
        )
    if seed is not None:
        changes["seed"] = seed
    return recheck(msgspec.structs.replace(study, **changes))


def _with_personality(study: Study, personality: str) -> list[SampledWorkload]:
    """Return the workloads, those of files with another personality where one is given."""
    having = [each for each in study.workloads if hasattr(each, "personality")]
    if personality and not having:
        raise UsageError(
            seen=f"--personality is {personality}, but study {study.name!r} has no file workload",
            cause="Only a workload of kind 'filebench' has a personality",
            next_step=f"seatrial study filebench --personality {personality} --target DIR",
        )
    return [
        msgspec.structs.replace(each, personality=personality)
        if personality and each in having
        else each
        for each in study.workloads
    ]


def _sized(targets: list[Target], size_bytes: Size | None) -> list[Target]:
    """Return the targets with this size; existing servers have none."""
    if size_bytes is None:
        return targets
    return [
        target
        if target.kind == "database" or is_server_address(target.path)
        else msgspec.structs.replace(target, size_bytes=size_bytes)
        for target in targets
    ]


def _size(written: WrittenSize, option: str) -> Size:
    """Return the size of an option; raises StudyError when invalid."""
    try:
        return Size(parse_size_bytes(written))
    except ValueError as error:
        raise StudyError(
            seen=f"{option}: {error}",
            cause="A size is a number of bytes, or a number with KiB, MiB, GiB or TiB",
            next_step=f"Example: {option} 4GiB",
        ) from error
