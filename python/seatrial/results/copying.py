"""Copies a run with all its samples from one results file to another."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from seatrial.errors import RefusedError
from seatrial.results import rows
from seatrial.results.model import Run
from seatrial.results.store import ResultsFile


def copy_run(source: ResultsFile, run_id: str, destination: ResultsFile) -> Run:
    """Copy a whole run or nothing; return it as stored.

    A run whose file still says running was killed, since a file being measured is not copied: its
    copy is marked as interrupted.

    Args:
        source: The file with the run.
        run_id: Its full id.
        destination: The other file.

    Raises:
        UsageError: The source contains no such run.
        ResultsFileError: The destination contains it already, or one of the files cannot be used.
    """
    run = _as_ended(source.run(run_id))
    destination.add_run(run, source.samples(run.id))
    return destination.run(run.id)


def bring_run(source: ResultsFile, run_id: str, destination: ResultsFile) -> Run:
    """Copy a run as ``copy_run`` does, or only its new samples where it exists already.

    Args:
        source: The file with the run.
        run_id: Its full id.
        destination: The other file; a run of that id there is an earlier state of the source's run.

    Raises:
        UsageError: The source contains no such run.
        ResultsFileError: One of the files cannot be used.
    """
    if all(each.id != run_id for each in destination.runs()):
        return copy_run(source, run_id, destination)
    run = _as_ended(source.run(run_id))
    destination.join_run(run, source.samples(run.id))
    return destination.run(run.id)


def merge(
    sources: Sequence[ResultsFile], destination: ResultsFile, *, skip_existing: bool = False
) -> tuple[list[Run], list[Run]]:
    """Copy all runs of results files into another, file by file, oldest first.

    All of them are read once before the first is copied, so that a damaged file changes nothing.

    Args:
        sources: The files with the runs.
        destination: The other file.
        skip_existing: Whether to leave out runs that the destination, or a file before, contains.

    Returns:
        The copied runs, and those left out.

    Raises:
        RefusedError: The destination contains some of them, or one is being measured; nothing was
            copied.
        ResultsFileError: One of the files is damaged; nothing was copied. Or one cannot be used any
            more; runs copied so far are stored.
    """
    known = set(destination.run_ids())
    new: list[tuple[ResultsFile, Run]] = []
    existing: list[Run] = []
    for source in sources:
        for run_id in source.run_ids():
            if run_id in known:
                existing.append(source.run(run_id))
                continue
            known.add(run_id)
            new.append((source, source.run(run_id)))
    if existing and not skip_existing:
        raise RefusedError(
            seen=f"{destination.path} already contains {len(existing)} of the "
            f"{len(existing) + len(new)} runs, such as {existing[0].id}",
            cause="The files were merged before, or one is a copy of the other",
            next_step="Copy the other runs only with --skip-existing",
        )
    for source, run in new:
        if run.status == rows.RUNNING:
            raise RefusedError(
                seen=f"The run {run.id} of {source.path} is being measured",
                cause="A copy of it would be incomplete",
                next_step="Wait until it ends, then retry",
            )
        source.samples(run.id)
    return [copy_run(source, run.id, destination) for source, run in new], existing


def _as_ended(run: Run) -> Run:
    status = rows.INTERRUPTED if run.status == rows.RUNNING else run.status
    return msgspec.structs.replace(run, status=status, process=None)
