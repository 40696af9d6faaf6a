"""What a user names as a result: a file, a run of the results file, or one target of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from seatrial.errors import SeatrialError, UsageError
from seatrial.results.model import Run, Sample
from seatrial.results.store import ResultsFile

SQLITE_HEAD: Final = b"SQLite format 3\0"


class NamedResult(msgspec.Struct, frozen=True, kw_only=True):
    """A result that was named.

    Attributes:
        name: As the user named it.
        run: The run.
        samples: In the order in which they were measured; of the named target only, if one was.
        target: The target that was named with the run; empty without one.
    """

    name: str
    run: Run
    samples: list[Sample]
    target: str = ""


def load_source(reference: str, results: Path, *, slices_min: int = 0) -> NamedResult:
    """Return what a user names.

    Args:
        reference: A path (of a results file, or of a foreign result), a results file and a run of
            it (``lab.seatrial:last``), or a run of ``results`` (``last``, id, beginning of an id,
            label); any of these may be followed by a target (``last:ssd``). An existing path takes
            precedence over a run of that name, and the whole reference over its parts.
        results: The results file that is searched for runs.
        slices_min: Timelines of fewer slices are not read, for callers that do not need them.

    Raises:
        ResultsFileError: when a results file cannot be read.
        UsageError: when nothing, or more than one thing, matches the reference, or when a foreign
            file cannot be read.
    """
    whole = _found(reference, results, slices_min)
    if whole is not None:
        return whole
    first, _, last = reference.rpartition(":")
    part = _found(first, results, slices_min) if first and last else None
    if part is not None:
        return _of_target(part, last, reference)
    raise _nothing_fits(reference, results)


def _found(reference: str, results: Path, slices_min: int) -> NamedResult | None:
    """Return the result of a reference without a target; None when nothing matches it."""
    path = Path(reference)
    if reference and _is_file(path):
        if is_results_file(path):
            return _run_of(path, "last", reference, slices_min)
        from seatrial.importers import read_results  # noqa: PLC0415 - only for foreign files

        foreign = read_results(path)
        return NamedResult(name=reference, run=foreign.run, samples=foreign.samples)
    file, _, run = reference.rpartition(":")
    if file and _is_file(Path(file)) and is_results_file(Path(file)):
        return _run_of(Path(file), run, reference, slices_min, optional=True)
    if reference and results.exists():
        return _run_of(results, reference, reference, slices_min, optional=True)
    return None


def _is_file(path: Path) -> bool:
    try:
        return path.exists() and not path.is_dir()
    except (OSError, ValueError):  # too long for a name, or with a NUL in it
        return False


def is_results_file(path: Path) -> bool:
    """Return whether a file is an SQLite database, as a results file is; False if unreadable."""
    try:
        if not path.is_file():  # a pipe can be read only once
            return False
        with path.open("rb") as file:
            return file.read(len(SQLITE_HEAD)) == SQLITE_HEAD
    except OSError:
        return False


def _run_of(
    file: Path, run: str, name: str, slices_min: int, *, optional: bool = False
) -> NamedResult | None:
    """Return a run of a results file; None where ``optional`` and none fits."""
    with ResultsFile.open(file, read_only=True) as store:
        fitting = [
            each for each in store.runs() if run == each.label or each.id.startswith(run or "-")
        ]
        if optional and not fitting and run != "last":
            return None
        found = store.run(run)
        return NamedResult(
            name=name, run=found, samples=store.samples(found.id, slices_min=slices_min)
        )


def _of_target(source: NamedResult, target: str, name: str) -> NamedResult:
    """Return one target of a run.

    Raises:
        UsageError: The run has no such target.
    """
    samples = [sample for sample in source.samples if sample.cell.target == target]
    if samples:
        return NamedResult(name=name, run=source.run, samples=samples, target=target)
    targets = list(dict.fromkeys(sample.cell.target for sample in source.samples))
    raise UsageError(
        seen=f"No run is named {name!r}, and {source.name} has no target {target!r}",
        cause=f"Its targets are {', '.join(map(repr, targets))}"
        if targets
        else "It holds no samples",
        next_step="Name one of them after the colon, or none for all of them",
    )


def _nothing_fits(reference: str, results: Path) -> SeatrialError:
    """Return the error for a reference that is neither a file nor a run."""
    if not results.exists():
        seen = f"There is no file {reference!r}, and no results file {results} to search for a run"
    else:
        seen = f"There is no file {reference!r}, and {results} holds no run of that name"
    return UsageError(
        seen=seen,
        cause="A result is a file, or a run named by its id, the beginning of its id, its label, "
        "or last",
        next_step="List the runs with `seatrial list`, or name another results file with --results",
    )
