"""Copies a run with all its samples from one results file to another."""

from __future__ import annotations

import msgspec

from seatrial.results import rows
from seatrial.results.model import Run
from seatrial.results.store import ResultsFile


def copy_run(source: ResultsFile, run_id: str, destination: ResultsFile) -> Run:
    """Copy a run: all of it is stored, or nothing; return it as it is stored.

    A run that its own file still calls running was killed, for nobody measures what is copied:
    its copy is marked as interrupted.

    Args:
        source: Where it is.
        run_id: Its full id.
        destination: Where it goes.

    Raises:
        UsageError: The source holds no such run.
        ResultsFileError: The destination holds it already, or one of the files cannot be used.
    """
    run = _as_ended(source.run(run_id))
    destination.add_run(run, source.samples(run.id))
    return destination.run(run.id)


def bring_run(source: ResultsFile, run_id: str, destination: ResultsFile) -> Run:
    """Copy a run as ``copy_run`` does; where it is there already, what it has gained since.

    Args:
        source: Where it is.
        run_id: Its full id.
        destination: Where it goes; a run of that id there is what the source's began with.

    Raises:
        UsageError: The source holds no such run.
        ResultsFileError: One of the files cannot be used.
    """
    if all(each.id != run_id for each in destination.runs()):
        return copy_run(source, run_id, destination)
    run = _as_ended(source.run(run_id))
    destination.join_run(run, source.samples(run.id))
    return destination.run(run.id)


def _as_ended(run: Run) -> Run:
    status = rows.INTERRUPTED if run.status == rows.RUNNING else run.status
    return msgspec.structs.replace(run, status=status, process=None)
